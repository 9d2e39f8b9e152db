// Package networkport is the controller of NetworkPorts: for each NetworkPort object it keeps one port in Neutron.
package networkport

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "networkport"

// Controller syncs NetworkPorts. Create it with NewController.
type Controller = managed.Reconciler[*cloudteamv1.NetworkPort]

// NewController makes a controller that watches the informers, which MUST NOT run yet. Nothing runs before Run. groups
// is nil if SecurityGroups are not served, and by is nil if MultiNetworkPolicies are not.
func NewController(
	client typed.NetworkPortsGetter, ports informers.NetworkPortInformer, networks informers.NetworkInformer,
	groups informers.SecurityGroupInformer, inventory managed.Inventory, recorder record.EventRecorder, cluster string,
	of *classes.Classes, by *netpolicy.Policies,
) (*Controller, error) {
	informer := ports.Informer()
	if err := errors.Join(controller.IndexPorts(informer), controller.IndexNetworks(networks.Informer())); err != nil {
		return nil, err
	}
	lister := networks.Lister()
	within := limits{of, roomOn(lister, of)}
	waiting := &controller.Line{}
	var groupLister listers.SecurityGroupLister
	if groups != nil {
		groupLister = groups.Lister()
	}
	c, err := managed.NewReconciler(managed.Kind[*cloudteamv1.NetworkPort]{
		Controller: Name,
		Resource:   plan.KindPort,
		Warnings:   []string{cloudteamv1.ConditionClassViolated},
		Patch: func(namespace string) controller.Patch[*cloudteamv1.NetworkPort] {
			return client.NetworkPorts(namespace).Patch
		},
		Live: func(ctx context.Context, namespace, name string) (*cloudteamv1.NetworkPort, error) {
			return client.NetworkPorts(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		Declare: func(obj *cloudteamv1.NetworkPort, owner plan.Owner) (managed.Declaration, error) {
			return declarationOf(lister, groupLister, by, within, obj, owner)
		},
		Expected: expected,
		Cloud: func(obj *cloudteamv1.NetworkPort) (managed.Place, bool) {
			key := obj.Network()
			on, err := lister.Networks(key.Namespace).Get(key.Name)
			if err != nil {
				return managed.Place{}, false
			}
			// If the Network's spec now names another cloud, it may not be synced yet: its status says where it is.
			cloud, known := managed.CloudOf(on, of)
			return managed.Place{Cloud: cloud, Pinned: on.Status.Cloud}, known
		},
		Home:     func(obj *cloudteamv1.NetworkPort) string { return obj.Network().Namespace },
		Operator: of.Namespace(),
		Policies: policies,
		Room:     within.room,
		InUse:    inUse,
		Loses: func(obj *cloudteamv1.NetworkPort, terminating func(namespace string) bool) managed.Loss {
			loss := loses(lister, obj, terminating)
			if left := by.Settling(obj.Namespace); loss.Again == 0 && left > 0 && by.Lacks(obj) != "" {
				loss.Again = left // a group that does not come is told by no event
			}
			return loss
		},
		Show: func(
			obj *cloudteamv1.NetworkPort, declared managed.Declaration, _ plan.Owner, observed plan.Observed,
		) {
			show(obj, declared, observed)
			within.setViolation(lister, obj)
		},
		ToWrite: func(was, is *cloudteamv1.NetworkPort) (any, bool) {
			status := statusToWrite(is)
			return status, managed.Differs(statusToWrite(was), status)
		},
	}, informer, inventory, recorder, cluster)
	if err != nil {
		return nil, err
	}
	if groups != nil {
		in := inGroups(c.Loop, informer.GetIndexer(), networks.Informer().GetIndexer(), by)
		if err := c.Watch(groups.Informer(), in); err != nil {
			return nil, err
		}
	}
	if by != nil {
		err := errors.Join(c.WatchOptional(by.Informer, underPolicies(c.Loop, by)),
			c.WatchOptional(by.Pods(), controller.HandlerOfPart(c.Loop, by.OfPod, netpolicy.SameForPolicies)),
			c.Watch(informer, cache.ResourceEventHandlerFuncs{DeleteFunc: by.Forget}))
		if err != nil {
			return nil, err
		}
		by.Wakes(c.Enqueue)
		// Until then, no port changes its groups. A policy that is gone by then sends no event.
		c.After(by.HasSynced, func() { c.EnqueueNamespace("") })
	}
	gone := c.HandlerOf(exhaustedWith(waiting))
	return c, errors.Join(
		c.Watch(networks.Informer(), networkHandler(c, informer.GetIndexer(), lister)),
		c.Watch(networks.Informer(), controller.HandlerOfPart(c.Loop, exhaustedOn(waiting), noMoreRoom)),
		c.Watch(informer, cache.ResourceEventHandlerFuncs{DeleteFunc: gone.OnDelete}),
		c.Watch(informer, controller.FollowLine(waiting, exhausted)),
	)
}

// expected is the Kind's Expected.
func expected(obj *cloudteamv1.NetworkPort) []managed.Lookup {
	all := []managed.Lookup{{Resource: plan.Resource{Kind: plan.KindPort, ID: obj.Status.PortID}, Name: obj.Name}}
	if !floats(obj) {
		return all
	}
	floating := managed.Lookup{Resource: plan.Resource{Kind: plan.KindFloatingIP}, Name: obj.Name}
	// One that the spec does not ask for any more goes if it bears the marker. Without the marker it is somebody's.
	if obj.Status.FloatingIP != nil && obj.Spec.FloatingIP != nil {
		floating.ID = obj.Status.FloatingIP.ID
	}
	return append(all, floating)
}

// floats reports whether a floating IP may exist for a port. What an earlier spec asked for is remembered before it is
// created.
func floats(obj *cloudteamv1.NetworkPort) bool {
	return obj.Spec.FloatingIP != nil || obj.Status.FloatingIP != nil ||
		slices.Contains(managed.Remembered(obj), plan.FieldFloatingIP)
}

// wake is the most ports that one event retries for want of addresses. More events follow if there is room for more.
const wake = 8

// exhausted says on which Network a port waits for an address; empty if it does not.
func exhausted(port *cloudteamv1.NetworkPort) string {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	// A port that exists waits for an address of another network, for its floating IP.
	if ready == nil || ready.Reason != cloudteamv1.ReasonAddressesExhausted || port.Status.PortID != "" {
		return ""
	}
	return port.Network().String()
}

// exhaustedOn gives the function that names the ports on a Network that wait for an address, the oldest first.
func exhaustedOn(waiting *controller.Line) func(metav1.Object) []cache.ObjectName {
	return func(on metav1.Object) []cache.ObjectName {
		return waiting.Names(cache.MetaObjectToName(on).String(), wake)
	}
}

// exhaustedWith gives the function that names the ports that wait for an address of the same Network as a port that is
// gone. Only one that had a port in Neutron leaves an address.
func exhaustedWith(waiting *controller.Line) func(metav1.Object) []cache.ObjectName {
	return func(gone metav1.Object) []cache.ObjectName {
		port, ok := gone.(*cloudteamv1.NetworkPort)
		if !ok || port.Status.PortID == "" {
			return nil
		}
		return waiting.Names(port.Network().String(), wake)
	}
}

// noMoreRoom reports whether no subnet of a Network has more free addresses than before.
func noMoreRoom(was, is *cloudteamv1.Network) bool {
	free := func(s cloudteamv1.SubnetStatus) int64 {
		if s.UsedAddresses == nil || s.TotalAddresses == nil {
			return 0
		}
		return *s.TotalAddresses - *s.UsedAddresses
	}
	return !slices.ContainsFunc(is.Status.Subnets, func(s cloudteamv1.SubnetStatus) bool {
		at := slices.IndexFunc(was.Status.Subnets, func(before cloudteamv1.SubnetStatus) bool { return before.ID == s.ID })
		return free(s) > 0 && (at < 0 || free(s) > free(was.Status.Subnets[at]))
	})
}

// networkHandler gives the event handlers for Networks. A Network's status says what its ports may be, and when.
func networkHandler(c *Controller, ports cache.Indexer, networks listers.NetworkLister) cache.ResourceEventHandler {
	return controller.HandlerOfMany(c.Loop, controller.KeyOf, portsOf(ports, networks), sameForPorts)
}

// sameForPorts reports whether two states of a Network are the same for its ports. Each audit that counts other
// addresses writes the Network's status. That is no reason to requeue all its ports.
func sameForPorts(was, is *cloudteamv1.Network) bool {
	sameSubnet := func(a, b cloudteamv1.SubnetStatus) bool {
		return a.ID == b.ID && a.CIDR == b.CIDR && a.Gateway == b.Gateway &&
			a.IPv6AddressMode == b.IPv6AddressMode && a.IPv6RAMode == b.IPv6RAMode &&
			slices.Equal(a.ServiceTypes, b.ServiceTypes)
	}
	return was.Generation == is.Generation && was.Status.AppliedGeneration == is.Status.AppliedGeneration &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp) && controller.Serves(was) == controller.Serves(is) &&
		was.Status.NetworkID == is.Status.NetworkID && was.Status.MTU == is.Status.MTU &&
		reflect.DeepEqual(was.Status.Class, is.Status.Class) &&
		managed.TenantOf(was.Namespace, was.Status.Credentials) == managed.TenantOf(is.Namespace, is.Status.Credentials) &&
		slices.EqualFunc(was.Status.Subnets, is.Status.Subnets, sameSubnet)
}

// portsOf gives the function that names the NetworkPorts on a Network, but for those that were told that it does not
// allow them, and still does not. Anybody can write these, and the Network's own ports would wait while they are many.
func portsOf(ports cache.Indexer, networks listers.NetworkLister) func(cache.ObjectName) []cache.ObjectName {
	return func(on cache.ObjectName) []cache.ObjectName {
		network, err := networks.Networks(on.Namespace).Get(on.Name)
		stranger := func(port *cloudteamv1.NetworkPort) bool {
			ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
			return port.Status.PortID == "" && ready != nil && ready.Reason == cloudteamv1.ReasonNamespaceNotAllowed &&
				(err != nil || !controller.Allows(network, port.Namespace))
		}
		return controller.KeysOf(slices.DeleteFunc(controller.PortsOn(ports, on), stranger))
	}
}
