package networkport

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// declaration is a NetworkPort's spec, on its Network as that was last seen.
type declaration struct {
	declare.Port
	// on names the Network, for people.
	on  types.NamespacedName
	mtu int32
	// used is the id of the port that something uses, and usedBy names that; empty where nothing does.
	used, usedBy string
	// withheld, where not nil, is why no port may be made now.
	withheld *managed.Waiting
}

// Resolve is managed.Declaration's: a port names nothing that the cloud would have to be asked for.
func (d declaration) Resolve(context.Context, managed.Inventory) (managed.Declaration, error) {
	return d, nil
}

// Plan is managed.Declaration's.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	change, err := d.plan(observed)
	creates := slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action.Creates() })
	if err == nil && d.withheld != nil && creates {
		return nil, d.withheld
	}
	return change, err
}

// plan is plan.Port's, save that of several ports the one that is used stays, whatever its age and its network.
func (d declaration) plan(observed plan.Observed) (plan.Change, error) {
	at := slices.IndexFunc(observed.Ports, func(p plan.ObservedPort) bool { return p.ID == d.used })
	if d.used == "" || at < 0 {
		return plan.Port(d.PortSpec, observed)
	}
	used := observed.Ports[at]
	if used.NetworkID != d.NetworkID {
		return nil, &managed.Waiting{Reason: cloudteamv1.ReasonInUse, Message: fmt.Sprintf(
			"port %s is on network %s, and Network %s is now another: %s uses the port, which is replaced when that is "+
				"gone: delete it", used.ID, used.NetworkID, d.on, d.usedBy)}
	}
	others := slices.Delete(slices.Clone(observed.Ports), at, at+1)
	change, err := plan.Delete(d.Owner, plan.Observed{Networks: observed.Networks, Ports: others})
	if err != nil {
		return nil, err
	}
	for i := range change {
		change[i].Reason = fmt.Sprintf("%s uses port %s", d.usedBy, used.ID)
	}
	update, err := plan.Port(d.PortSpec, plan.Observed{Ports: []plan.ObservedPort{used}})
	return append(change, update...), err
}

// port gives the port that stands for the object, of those that are there.
func (d declaration) port(observed plan.Observed) (plan.ObservedPort, bool) {
	for _, p := range observed.Ports {
		if p.ID == d.used && p.NetworkID == d.NetworkID {
			return p, true
		}
	}
	return observed.Port(d.NetworkID)
}

// Complete is managed.Declaration's.
func (d declaration) Complete(observed plan.Observed) bool {
	_, exists := d.port(observed)
	return exists
}

// declarationOf gives what a NetworkPort asks for, or says what it waits for. The Network is known by its status alone:
// what is in Neutron is its own controller's business.
func declarationOf(
	networks listers.NetworkLister, obj *cloudteamv1.NetworkPort, owner plan.Owner,
) (managed.Declaration, error) {
	key := obj.Network()
	on, err := networks.Networks(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, waiting("Network %s does not exist: create it, or delete this port; it is waited for", key)
	case err != nil:
		return nil, err
	}
	withheld := withhold(on, obj)
	if withheld != nil && obj.Status.PortID == "" && obj.Status.BoundTo == nil {
		return nil, withheld
	}
	if on.Status.NetworkID == "" || len(on.Status.Subnets) == 0 {
		return nil, waiting("Network %s is not there in Neutron; it is waited for", key)
	}
	port, err := declare.NetworkPort(on, obj, owner)
	if none, ok := errors.AsType[*declare.NoAddressError](err); ok {
		err = waiting("%s; it is waited for", none)
	}
	d := declaration{Port: port, on: key, mtu: on.Status.MTU, withheld: withheld}
	if obj.Status.BoundTo != nil {
		d.used, d.usedBy = obj.Status.PortID, user(obj)
	}
	return d, err
}

// withhold says why no port may be made on a Network now; nil where one may. A port that exists stays as declared
// whatever its Network goes through, and what is in use is made anew. But only a Network that allows it gets a port,
// be it for the first time or because the Network is another one of the name.
func withhold(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) *managed.Waiting {
	key := obj.Network()
	switch {
	case !allows(on, obj.Namespace):
		return &managed.Waiting{Reason: cloudteamv1.ReasonNotAllowed, Stalled: true, Message: fmt.Sprintf(
			"Network %s does not allow the namespace %s: add it to the Network's spec.allowedNamespaces, "+
				"or use a Network of this namespace", key, obj.Namespace)}
	case obj.Status.BoundTo != nil:
		return nil
	case on.DeletionTimestamp != nil:
		return waiting("Network %s is being deleted: create it anew when it is gone, or delete this port", key)
	case !controller.Serves(on):
		return waiting("Network %s is not Ready: kubectl describe tells why; it is waited for", key)
	default:
		return nil
	}
}

func waiting(format string, args ...any) *managed.Waiting {
	return &managed.Waiting{Reason: cloudteamv1.ReasonWaitingForNetwork, Message: fmt.Sprintf(format, args...)}
}

// allows reports whether objects of a namespace may use a Network.
func allows(on *cloudteamv1.Network, namespace string) bool {
	return namespace == on.Namespace || slices.Contains(on.Spec.AllowedNamespaces, "*") ||
		slices.Contains(on.Spec.AllowedNamespaces, namespace)
}
