package network

import (
	"cmp"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a Network's spec.
type declaration struct {
	plan.Spec
	// class is the class that the Network is made with; nil for none. forbids says what it forbids of a Network that is
	// kept all the same; it is nil if nothing.
	class   *cloudteamv1.AppliedClass
	forbids *controller.State
}

// Plan implements managed.Declaration.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := plan.Network(d.Spec, observed)
	return change, importProblem(err)
}

// Complete implements managed.Declaration.
func (d declaration) Complete(observed plan.Observed) bool {
	n, exists := observed.Network()
	if !exists {
		return false
	}
	for _, subnet := range d.Allocated(n).Subnets {
		if _, exists := n.SubnetByCIDR(subnet.CIDR); !exists {
			return false
		}
	}
	return d.Routed(observed)
}

// Retained implements managed.Retainable.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// TakingBack implements managed.Retractable.
func (d declaration) TakingBack(fields []string) managed.Declaration {
	d.TakeBack = fields
	return d
}

// declarationOf is the Kind's Declare. A spec that the Network's class forbids, or that comes after as many Networks as
// it allows, is not applied. One that was applied before stays.
func (k *kind) declarationOf(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
	made, rule, reason, message := k.classes.Judge(obj)
	d := declaration{class: made.With}
	if reason != "" {
		d.forbids = new(controller.Stalled(reason, message))
	}
	if d.forbids != nil && !made.Kept {
		return nil, managed.Waits(*d.forbids)
	}
	if full := k.room.Refuse(obj, rule.LimitMessage("Network")); full != nil {
		return nil, full
	}
	var err error
	d.Spec, err = declare.Network(made.Effective(obj), owner)
	if obj.Observes() {
		return observing{d, policies(obj).IgnoreDrift}, err
	}
	return d, err
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
func (k *kind) needs(obj *cloudteamv1.Network) []plan.Kind {
	obj = k.classes.Of(obj).Effective(obj)
	if obj.Spec.Router != nil || obj.Status.Router != nil {
		return []plan.Kind{plan.KindNetwork, plan.KindPort, plan.KindRouter}
	}
	return []plan.Kind{plan.KindNetwork}
}

// expected is the Kind's Expected: the network, and its own router. A router that the spec declares no longer is
// expected until the status says that it is gone.
func (k *kind) expected(obj *cloudteamv1.Network) []managed.Lookup {
	obj = k.classes.Of(obj).Effective(obj)
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
