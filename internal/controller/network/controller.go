// Package network is the controller of Networks: for each Network object it keeps one network with its subnets in
// Neutron.
package network

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "network"

// Controller syncs Networks. Create it with NewController.
type Controller = managed.Reconciler[*cloudteamv1.Network]

// Options tune a Controller.
type Options struct {
	// AddressesLow is a share of a subnet's addresses, from 0 to 1. The condition AddressesLow is set while fewer than
	// that are free. 0 turns the condition off.
	AddressesLow float64
	// Classes finds the classes of Networks; nil means the built-in class.
	Classes *classes.Classes
}

// kind has what the functions of the Kind need.
type kind struct {
	class     *managed.Classed[*cloudteamv1.Network]
	addresses addressWatch
}

// NewController makes a controller that watches the informers, which MUST NOT run yet. Nothing runs before Run. ports
// is nil if NetworkPorts are not served.
func NewController(
	client typed.NetworksGetter, networks informers.NetworkInformer, ports informers.NetworkPortInformer,
	inventory managed.Inventory, recorder record.EventRecorder, cluster string, options Options,
) (*Controller, error) {
	own := &kind{addresses: addressWatch{options.AddressesLow}, class: &managed.Classed[*cloudteamv1.Network]{
		Classes: options.Classes,
		ID:      func(obj *cloudteamv1.Network) string { return obj.Status.NetworkID },
		Limit:   func(limits cloudteamv1.ClassLimits) *int32 { return limits.NetworksPerNamespace },
	}}
	kind := managed.Kind[*cloudteamv1.Network]{
		Controller: Name,
		Resource:   plan.KindNetwork,
		Warnings:   []string{cloudteamv1.ConditionAddressesLow, cloudteamv1.ConditionClassViolated},
		Patch: func(namespace string) controller.Patch[*cloudteamv1.Network] {
			return client.Networks(namespace).Patch
		},
		Expected: own.expected,
		Needs:    own.needs,
		Class:    own.class,
		Declare:  own.declarationOf,
		Policies: policies,
		InUse:    func(*cloudteamv1.Network) string { return "" },
		Show: func(
			obj *cloudteamv1.Network, declared managed.Declaration, owner plan.Owner, observed plan.Observed,
		) {
			show(obj, declared, owner, observed)
			setClass(obj, declared)
			own.addresses.setCondition(obj)
		},
		ToWrite: own.addresses.toWrite,
	}
	if ports != nil {
		indexer := ports.Informer().GetIndexer()
		kind.InUse = func(obj *cloudteamv1.Network) string {
			return inUseBy(indexer, obj)
		}
		if err := controller.IndexPorts(ports.Informer()); err != nil {
			return nil, err
		}
	}
	c, err := managed.NewReconciler(kind, networks.Informer(), inventory, recorder, cluster)
	if err != nil {
		return nil, err
	}
	if ports == nil {
		return c, nil
	}
	// A Network that is being deleted waits for its ports to go.
	return c, c.Watch(ports.Informer(), c.HandlerOf(leftBy(networks.Informer().GetStore())))
}

// leftBy gives the function that names the Network in deletion that waits for a NetworkPort. Anybody can write ports
// that name one of others, in any number, and each sync of a Network in deletion looks at all that do.
func leftBy(networks cache.Store) func(metav1.Object) []cache.ObjectName {
	return func(obj metav1.Object) []cache.ObjectName {
		port, ok := obj.(*cloudteamv1.NetworkPort)
		if !ok {
			return nil
		}
		key := cache.ObjectName(port.Network())
		on, exists := controller.Cached[*cloudteamv1.Network](networks, key)
		if !exists || on.DeletionTimestamp == nil || !mayUse(port, on) {
			return nil
		}
		return []cache.ObjectName{key}
	}
}

// inUseBy names the NetworkPorts that block the deletion of a Network: those that have, or may have, a port in Neutron.
// It names those of the Network's own namespace and counts the others.
func inUseBy(ports cache.Indexer, network *cloudteamv1.Network) string {
	var own []string
	others := 0
	for _, port := range controller.PortsOn(ports, cache.MetaObjectToName(network)) {
		switch {
		case !mayUse(port, network):
		case port.Namespace == network.Namespace:
			own = append(own, cache.MetaObjectToName(port).String())
		default:
			others++
		}
	}
	slices.SortFunc(own, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	const shown = 3
	var users []string
	switch {
	case len(own) > shown:
		users = append(users, fmt.Sprintf("NetworkPort %s and %d more", strings.Join(own[:shown], ", "), len(own)-shown))
	case len(own) > 0:
		users = append(users, "NetworkPort "+strings.Join(own, ", "))
	}
	switch {
	case others == 1:
		users = append(users, "1 NetworkPort of another namespace")
	case others > 1:
		users = append(users, fmt.Sprintf("%d NetworkPorts of other namespaces", others))
	}
	if len(users) == 0 {
		return ""
	}
	return fmt.Sprintf("In use by %s. The network is deleted after them. Delete them, or the Deployments and Pods that "+
		"they belong to.", strings.Join(users, " and "))
}

// mayUse reports whether a NetworkPort on a Network has, or may have, a port there in Neutron. The finalizer alone
// proves nothing: anybody can write it. A port is created only for a namespace that the Network allows. If the
// namespace is not allowed (any more), the status tells, which users cannot write: the port has an address on the
// Network. If it was created a moment ago, no status tells; then Neutron refuses the deletion, which is retried.
func mayUse(port *cloudteamv1.NetworkPort, network *cloudteamv1.Network) bool {
	if !slices.Contains(port.Finalizers, cloudteamv1.PortFinalizer) {
		return false
	}
	return controller.Allows(network, port.Namespace) || port.Status.PortID != "" &&
		slices.ContainsFunc(port.Status.Addresses, func(a cloudteamv1.PortAddress) bool {
			return slices.ContainsFunc(network.Status.Subnets, func(s cloudteamv1.SubnetStatus) bool {
				return s.ID == a.SubnetID
			})
		})
}

// declaration is a Network's spec.
type declaration struct {
	plan.Spec
	// judged is what the Network's class says of it.
	judged managed.Judged
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

// Retained implements managed.Declaration.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// Traits implements managed.Declaration.
func (d declaration) Traits() managed.Traits {
	return managed.Traits{Sets: d.Sets(), TakingBack: d.takingBack, Adopt: d.adopt}
}

func (d declaration) takingBack(fields []string) managed.Declaration {
	d.TakeBack = fields
	return d
}

// declarationOf is the Kind's Declare. A spec that the Network's class forbids, or that comes after as many Networks as
// it allows, is not applied. One that was applied before stays.
func (k *kind) declarationOf(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
	judged, refused := k.class.Of(obj)
	if refused != nil {
		return nil, refused
	}
	spec, err := declare.Network(judged.Effective(obj), owner)
	d := declaration{spec, judged}
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
	obj = k.class.Classes.Of(obj).Effective(obj)
	if obj.Spec.Router != nil || obj.Status.Router != nil {
		return []plan.Kind{plan.KindPort, plan.KindRouter}
	}
	return nil
}

// expected is the Kind's Expected: the network, and its own router. A router that the spec declares no longer is
// expected until the status says that it is gone.
func (k *kind) expected(obj *cloudteamv1.Network) []managed.Lookup {
	obj = k.class.Classes.Of(obj).Effective(obj)
	name := declare.NetworkName(obj)
	network := managed.Lookup{Resource: plan.Resource{Kind: plan.KindNetwork, ID: obj.Status.NetworkID}, Name: name}
	if obj.Spec.Import != nil {
		network.ID, network.Imported = declare.ImportID(obj), true
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
