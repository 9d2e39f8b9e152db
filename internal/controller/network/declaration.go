package network

import (
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a Network's spec.
type declaration plan.Spec

// Plan is managed.Declaration's.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := plan.Network(plan.Spec(d), observed)
	return change, importProblem(err)
}

// Complete is managed.Declaration's.
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

// Sets is managed.Retractable's.
func (d declaration) Sets() []string { return plan.Spec(d).Sets() }

// TakingBack is managed.Retractable's.
func (d declaration) TakingBack(fields []string) managed.Declaration {
	d.TakeBack = fields
	return d
}

// declarationOf is managed.Kind's.
func declarationOf(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
	spec, err := declare.Network(obj, owner)
	if obj.Observes() {
		return observing{declaration(spec), policies(obj).IgnoreDrift}, err
	}
	return declaration(spec), err
}
