package network

import (
	"cmp"

	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// policies is owned.Kind's. A network that was there before its object is there for more than the object, so it stays
// where nobody wrote that it goes.
func policies(obj *cloudteamv1.Network) owned.Policies {
	p := owned.Policies{
		Deletion: obj.Spec.DeletionPolicy, Drift: obj.Spec.DriftPolicy,
		IgnoreDrift: owned.Fields(obj.Spec.IgnoreDrift),
	}
	if obj.Spec.Import != nil {
		p.Deletion = cmp.Or(p.Deletion, cloudteamv1.DeletionPolicyRetain)
	}
	return p
}

// importOf is owned.Kind's.
func importOf(obj *cloudteamv1.Network) owned.Import {
	if obj.Spec.Import == nil {
		return owned.Import{}
	}
	return owned.Import{ID: obj.Spec.Import.ID, Observe: obj.Observes()}
}

// desiredImport brings spec.import into the domain's form.
func desiredImport(obj *cloudteamv1.Network) network.Import {
	if obj.Spec.Import == nil {
		return network.Import{}
	}
	return network.Import{
		ID: obj.Spec.Import.ID,
		// What is only observed is not made as declared, and its names are nobody's business here.
		Overwrite: obj.Spec.Import.Overwrite && !obj.Observes(),
		// Once a spec was applied whole, a marker that is taken off is left off.
		AdoptSubnets: obj.Status.AppliedGeneration == 0,
	}
}

// PlanImport is owned.Importing's.
func (d declaration) PlanImport(found network.ObservedNetwork) (network.Change, error) {
	return network.PlanImport(network.Spec(d), found)
}

// Compare is owned.Importing's.
func (d declaration) Compare(found network.ObservedNetwork) ([]network.Difference, error) {
	return network.Compare(network.Spec(d), found)
}
