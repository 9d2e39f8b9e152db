package network

import (
	"cmp"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// policies is managed.Kind's. A network that was there before its object is there for more than the object, so it stays
// where nobody wrote that it goes.
func policies(obj *cloudteamv1.Network) managed.Policies {
	p := managed.Policies{
		Deletion: obj.Spec.DeletionPolicy, Drift: obj.Spec.DriftPolicy,
		IgnoreDrift: managed.Fields(obj.Spec.IgnoreDrift),
	}
	if obj.Spec.Import != nil {
		p.Deletion = cmp.Or(p.Deletion, cloudteamv1.DeletionPolicyRetain)
	}
	return p
}

// importOf is managed.Kind's.
func importOf(obj *cloudteamv1.Network) managed.Import {
	if obj.Spec.Import == nil {
		return managed.Import{}
	}
	return managed.Import{ID: obj.Spec.Import.ID, Observe: obj.Observes()}
}

// desiredImport brings spec.import into the domain's form.
func desiredImport(obj *cloudteamv1.Network) plan.Import {
	if obj.Spec.Import == nil {
		return plan.Import{}
	}
	return plan.Import{
		ID: obj.Spec.Import.ID,
		// What is only observed is not made as declared, and its names are nobody's business here.
		Overwrite: obj.Spec.Import.Overwrite && !obj.Observes(),
		// Once a spec was applied whole, a marker that is taken off is left off.
		AdoptSubnets: obj.Status.AppliedGeneration == 0,
	}
}

// PlanImport is managed.Importing's.
func (d declaration) PlanImport(found plan.ObservedNetwork) (plan.Change, error) {
	return plan.Adopt(plan.Spec(d), found)
}

// Compare is managed.Importing's.
func (d declaration) Compare(found plan.ObservedNetwork) ([]plan.Difference, error) {
	return plan.Compare(plan.Spec(d), found)
}
