package declare

import (
	"errors"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Network translates a Network's spec into the domain's canonical form. The API server refuses most specs that cannot
// be parsed. For all others, the error is *plan.FieldErrors, joined by errors.Join.
func Network(obj *cloudteamv1.Network, owner plan.Owner) (plan.Spec, error) {
	spec := plan.Spec{
		Owner:        owner,
		Name:         NetworkName(obj),
		Description:  obj.Spec.Description,
		PortSecurity: obj.Spec.PortSecurity,
		Import:       networkImport(obj),
	}
	properties(obj.Spec, &spec)
	if obj.Spec.MTU != nil {
		spec.MTU = int(*obj.Spec.MTU)
	}
	var errs []error
	for i, declared := range obj.Spec.Subnets() {
		subnet, err := subnetOf(declared, obj.Status.Subnets)
		errs = append(errs, plan.InSubnet(i, err))
		spec.Subnets = append(spec.Subnets, subnet)
	}
	if errors.Join(errs...) != nil {
		spec.Subnets = nil // errs has their errors already
	}
	router, err := routerOf(obj.Spec.Router)
	if err != nil {
		errs, router = append(errs, err), nil // do not validate a partial router
	}
	spec.Router = router
	if err := errors.Join(append(errs, spec.Validate())...); err != nil {
		return plan.Spec{}, err
	}
	return spec, nil
}

// networkImport translates spec.import into the domain's form.
func networkImport(obj *cloudteamv1.Network) plan.Import {
	if obj.Spec.Import == nil {
		return plan.Import{}
	}
	return plan.Import{
		ID: ImportID(obj),
		// A Network that is only observed changes nothing, so the names of its resources do not matter.
		Overwrite: obj.Spec.Import.Overwrite && !obj.Observes(),
		// After a full apply, a removed marker stays removed.
		AdoptSubnets: obj.Status.AppliedGeneration == 0,
	}
}
