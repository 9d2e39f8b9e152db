package network

import (
	"cmp"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a Network's spec.
type declaration plan.Spec

// Plan implements managed.Declaration.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := plan.Network(plan.Spec(d), observed)
	return change, importProblem(err)
}

// Complete implements managed.Declaration.
func (d declaration) Complete(observed plan.Observed) bool {
	n, exists := observed.Network()
	if !exists {
		return false
	}
	for _, subnet := range plan.Spec(d).Allocated(n).Subnets {
		if _, exists := n.SubnetByCIDR(subnet.CIDR); !exists {
			return false
		}
	}
	return plan.Spec(d).Routed(observed)
}

// Retained implements managed.Retainable.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// Sets implements managed.Retractable.
func (d declaration) Sets() []string { return plan.Spec(d).Sets() }

// TakingBack implements managed.Retractable.
func (d declaration) TakingBack(fields []string) managed.Declaration {
	d.TakeBack = fields
	return d
}

// declarationOf is the Kind's Declare.
func declarationOf(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
	spec, err := declare.Network(obj, owner)
	if obj.Observes() {
		return observing{declaration(spec), policies(obj).IgnoreDrift}, err
	}
	return declaration(spec), err
}

// policies is the Kind's Policies. An imported network existed before its object and may serve others, so by default it
// is retained.
func policies(obj *cloudteamv1.Network) managed.Policies {
	p := managed.Policies{
		Deletion: obj.Spec.DeletionPolicy, Drift: obj.Spec.DriftPolicy,
		IgnoreDrift: managed.Fields(obj.Spec.IgnoreDrift), Observe: obj.Observes(),
	}
	if obj.Spec.Import != nil {
		p.Deletion = cmp.Or(p.Deletion, cloudteamv1.DeletionPolicyRetain)
	}
	return p
}

// needs is the Kind's Needs. Neither routers nor their interfaces concern a Network that declares no router, unless the
// status names one: that one has to go first.
func needs(obj *cloudteamv1.Network) []plan.Kind {
	if obj.Spec.Router != nil || obj.Status.Router != nil {
		return nil
	}
	return []plan.Kind{plan.KindNetwork}
}

// expected is the Kind's Expected: the network, and its own router. A router that the spec declares no longer is
// expected until the status says that it is gone.
func expected(obj *cloudteamv1.Network) []managed.Lookup {
	name := declare.NetworkName(obj)
	network := managed.Lookup{Resource: plan.Resource{Kind: plan.KindNetwork, ID: obj.Status.NetworkID}, Name: name}
	if obj.Spec.Import != nil {
		network.ID, network.Imported = obj.Spec.Import.ID, true
	}
	router := managed.Lookup{Resource: plan.Resource{Kind: plan.KindRouter}, Name: name}
	if status := obj.Status.Router; status != nil && !status.Existing {
		router.ID = status.ID
	}
	if declared := obj.Spec.Router; router.ID == "" && (declared == nil || declared.Existing != "") {
		return []managed.Lookup{network}
	}
	return []managed.Lookup{network, router}
}
