package networkport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// declaration is a NetworkPort's spec, with its Network as last seen.
type declaration struct {
	declare.Port
	// on names the Network in messages.
	on  types.NamespacedName
	mtu int32
	// toldBy is the cloud that told the Network's ids; nil if that is unknown.
	toldBy *cloudteamv1.CloudStatus
	// used is the id of a port that is in use, and usedBy names its user; both are empty if none is.
	used, usedBy string
	// withheld, if not nil, says why no port may be created now.
	withheld *managed.Problem
	// byPolicies are the names of SecurityGroups of the object's namespace that MultiNetworkPolicies put the port into.
	// keepsGroups is true while that is unknown, or new groups are on their way: the port keeps the groups that it has.
	// selected is true if one of them selects it.
	byPolicies            []string
	keepsGroups, selected bool
	// groups are the ids of the groups of SecurityGroups. pending, if not nil, says which ones have none.
	groups  []string
	pending *managed.Problem
	// unresolved is why the security groups or the QoS policy are unknown; nil if they are known.
	unresolved error
	// anyOutside is true while nobody knows which external network the spec means.
	anyOutside bool
}

// Resolve implements managed.Declaration. It replaces the names of security groups by ids. With a name that means
// nothing, the groups of a port stay as they are, and no port is created: the cloud would give it its own group, which
// may let more in.
func (d declaration) Resolve(ctx context.Context, in managed.Inventory) (managed.Declaration, error) {
	if err := d.resolveOutside(ctx, in); err != nil {
		d.SecurityGroups, d.QoSPolicy = nil, nil // some may be names, and stay as they are
		return d, err
	}
	if err := d.resolvePolicy(ctx, in); err != nil {
		d.SecurityGroups = nil // some may be names, and stay as they are
		return d, err
	}
	if d.pending != nil {
		d.SecurityGroups, d.unresolved = nil, d.pending
		return d, d.pending
	}
	if d.keepsGroups {
		d.SecurityGroups = nil
		return d, nil
	}
	if len(d.SecurityGroups)+len(d.groups) == 0 {
		return d, nil
	}
	groups := slices.Clone(d.groups)
	for _, name := range d.SecurityGroups {
		id, err := in.SecurityGroup(ctx, d.GroupsFrom, name)
		if err != nil {
			d.SecurityGroups, d.unresolved = nil, err
			return d, err
		}
		groups = append(groups, id)
	}
	slices.Sort(groups)
	d.SecurityGroups = slices.Compact(groups)
	return d, nil
}

// resolveOutside replaces the name of the floating IP's external network by its id. While that means nothing, the
// floating IP keeps its external network, and no port is created: what uses it would be without its public address.
func (d *declaration) resolveOutside(ctx context.Context, in managed.Inventory) error {
	if d.FloatingNetwork == "" {
		return nil
	}
	id, err := in.ExternalNetwork(ctx, "spec.floatingIP.externalNetwork", d.FloatingNetwork)
	if err != nil {
		d.anyOutside, d.unresolved = true, err
		return err
	}
	d.FloatingNetwork = id
	return nil
}

// resolvePolicy replaces the name of the QoS policy by its id. While that means nothing, no port is created: it would
// be without the limit.
func (d *declaration) resolvePolicy(ctx context.Context, in managed.Inventory) error {
	if d.QoSPolicy == nil || *d.QoSPolicy == "" {
		return nil
	}
	id, err := in.QoSPolicy(ctx, *d.QoSPolicy)
	if err != nil {
		d.QoSPolicy, d.unresolved = nil, err
		return err
	}
	d.QoSPolicy = &id
	return nil
}

// Traits implements managed.Declaration. The ids of groups are those of the Network's own project; see elsewhere.
func (d declaration) Traits() managed.Traits {
	traits := managed.Traits{Sets: d.Sets(), TakingBack: d.takingBack}
	if d.toldBy != nil {
		traits.ToldBy = []cloudteamv1.CloudStatus{*d.toldBy}
	}
	return traits
}

func (d declaration) takingBack(fields []string) managed.Declaration {
	d.TakeBack = fields
	return d
}

// Retained implements managed.Declaration.
func (d declaration) Retained() managed.Declaration {
	d.Retain = true
	return d
}

// Plan implements managed.Declaration.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	if d.anyOutside {
		port, _ := d.port(observed)
		f, exists := observed.FloatingIP("", port.ID)
		d.FloatingNetwork, observed.FloatingIPs = f.NetworkID, nil
		if exists {
			observed.FloatingIPs = []plan.ObservedFloatingIP{f}
		}
	}
	change, err := d.plan(observed)
	creates := slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action.Creates() })
	switch {
	case err != nil || !creates:
		return change, err
	case d.withheld != nil:
		return nil, d.withheld
	}
	if d.unresolved != nil {
		return nil, d.unresolved
	}
	return change, nil
}

// plan is plan.Port, except that of several ports the used one stays, whatever its age and its network.
func (d declaration) plan(observed plan.Observed) (plan.Change, error) {
	at := slices.IndexFunc(observed.Ports, func(p plan.ObservedPort) bool { return p.ID == d.used })
	if d.used == "" || at < 0 {
		return plan.Port(d.PortSpec, observed)
	}
	used := observed.Ports[at]
	if used.NetworkID != d.NetworkID && d.withheld != nil {
		return nil, d.withheld
	}
	if used.NetworkID != d.NetworkID {
		return nil, managed.Waits(controller.Reconciling(cloudteamv1.ReasonInUse, fmt.Sprintf(
			"Port %s is on network %s, but Network %s has another network now. The port is replaced when it is no longer "+
				"in use. Delete %s.", used.ID, used.NetworkID, d.on, d.usedBy)))
	}
	others := slices.Delete(slices.Clone(observed.Ports), at, at+1)
	change, err := plan.Delete(d.Owner, plan.Observed{Networks: observed.Networks, Ports: others})
	if err != nil {
		return nil, err
	}
	for i := range change {
		change[i].Reason = fmt.Sprintf("%s uses port %s", d.usedBy, used.ID)
		change[i].Keeper = plan.Keeper{Resource: plan.Resource{Kind: plan.KindPort, ID: used.ID}, Owner: d.Owner}
	}
	update, err := plan.Port(d.PortSpec, plan.Observed{
		Ports: []plan.ObservedPort{used}, FloatingIPs: observed.FloatingIPs,
	})
	return append(change, update...), err
}

// port gives the observed port that represents the object.
func (d declaration) port(observed plan.Observed) (plan.ObservedPort, bool) {
	for _, p := range observed.Ports {
		if p.ID == d.used && p.NetworkID == d.NetworkID {
			return p, true
		}
	}
	return observed.Port(d.NetworkID)
}

// Complete implements managed.Declaration.
func (d declaration) Complete(observed plan.Observed) bool {
	port, exists := d.port(observed)
	return exists && (d.FloatingNetwork == "" || d.FloatingIP(port.ID).Complete(observed))
}

// declarationOf gives what a NetworkPort asks for, or says what it waits for. It reads only the Network's status,
// because the Network's own controller handles Neutron.
func declarationOf(
	networks listers.NetworkLister, groups listers.SecurityGroupLister, by *netpolicy.Policies, limits limits,
	obj *cloudteamv1.NetworkPort, owner plan.Owner,
) (managed.Declaration, error) {
	key := obj.Network()
	on, err := networks.Networks(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err) && key.Namespace != obj.Namespace:
		return nil, notAllowed(obj)
	case apierrors.IsNotFound(err):
		return nil, waiting("Network %s does not exist. Create it, or delete this NetworkPort.", key)
	case err != nil:
		return nil, err
	}
	withheld := withhold(on, obj)
	if withheld == nil {
		withheld = limits.withhold(obj)
	}
	claimed := slices.Contains(obj.Finalizers, cloudteamv1.PortFinalizer)
	if on.DeletionTimestamp != nil && obj.Status.PortID == "" && !claimed {
		return nil, cmp.Or(withheld, leaving(key)) // also for a bound port that has lost its port
	}
	if withheld != nil && obj.Status.PortID == "" && obj.Status.BoundTo == nil {
		return nil, withheld
	}
	if forbidden := limits.forbid(on, obj); forbidden != nil {
		return nil, forbidden
	}
	if !controller.Allows(on, obj.Namespace) && (on.Status.NetworkID == "" || len(on.Status.Subnets) == 0) {
		return nil, withheld
	}
	if on.Status.NetworkID == "" || len(on.Status.Subnets) == 0 {
		return nil, waiting("Network %s has no subnet in Neutron yet. The port is created when it has one.", key)
	}
	if controller.TooLarge(on) {
		return nil, waiting("Network %s is too large for the controller, which knows only a part of it. Nothing is changed "+
			"until its spec is shorter.", key)
	}
	if at, known := managed.CloudOf(on, limits.of); known && !at.MayUse(on.Namespace, on.Status.Credentials) {
		return nil, waiting("Network %s was made with its namespace's own credentials, and has others now. Nothing is "+
			"changed until the Network is applied with these. Run kubectl describe to see why it is not.", key)
	}
	port, err := declare.NetworkPort(on, obj, consumer.WorkloadOf(obj), owner)
	if none, ok := errors.AsType[*declare.NoAddressError](err); ok {
		err = waiting("%s. The port is created when the Network has one.", none)
	}
	if shown := obj.Status.FloatingIP; shown != nil && port.FloatingNetwork != "" &&
		obj.Status.AppliedGeneration == obj.Generation {
		// A name may be another network's by now, and an address does not come back.
		port.FloatingNetwork = shown.ExternalNetworkID
	}
	d := declaration{Port: port, on: key, mtu: on.Status.MTU, toldBy: on.Status.Cloud, withheld: withheld}
	if obj.Status.BoundTo != nil {
		d.used, d.usedBy = obj.Status.PortID, user(obj)
	}
	if err != nil {
		return d, err
	}
	d.underPolicies(by, obj)
	return d.inGroups(groups, by, on, obj)
}

// withhold says why no port may be created on a Network now; nil if one may. An existing port stays as declared
// whatever happens to its Network, and a port in use is created again. But a port is created only on a Network that
// allows the namespace: for the first time, or after another Network took the name.
func withhold(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) *managed.Problem {
	key := obj.Network()
	switch {
	case !controller.Allows(on, obj.Namespace):
		return notAllowed(obj)
	case obj.Status.BoundTo != nil:
		return nil
	case on.DeletionTimestamp != nil:
		return leaving(key)
	case !controller.Serves(on):
		return waiting("Network %s is not Ready. The port is created when it is. Run kubectl describe to see why.", key)
	default:
		return nil
	}
}

// leaving is the problem of a port whose Network is being deleted.
func leaving(on types.NamespacedName) *managed.Problem {
	return waiting("Network %s is being deleted. Create it again when it is gone, or delete this NetworkPort.", on)
}

// loses is the Kind's Loses. A port must not keep the Network of another namespace for ever. So it goes before its
// Network if the Network's whole namespace is being deleted, or if the Network no longer allows the port's namespace.
func loses(
	networks listers.NetworkLister, obj *cloudteamv1.NetworkPort, terminating func(namespace string) bool,
) managed.Loss {
	key := obj.Network()
	if key.Namespace == obj.Namespace {
		return managed.Loss{}
	}
	on, err := networks.Networks(key.Namespace).Get(key.Name)
	switch {
	case err != nil || on.DeletionTimestamp == nil:
		return managed.Loss{}
	case !controller.Allows(on, obj.Namespace):
		return managed.Loss{Problem: notAllowed(obj), Since: on.DeletionTimestamp.Time}
	case terminating(key.Namespace):
		return managed.Loss{Problem: leaving(key), Since: on.DeletionTimestamp.Time}
	}
	return managed.Loss{Again: terminatingEvery}
}

// terminatingEvery is how often a port asks whether the namespace of its Network is being deleted, while the Network
// is.
const terminatingEvery = time.Minute

func waiting(format string, args ...any) *managed.Problem {
	return managed.Waits(controller.Reconciling(cloudteamv1.ReasonNetworkNotReady, fmt.Sprintf(format, args...)))
}

// notAllowed is the problem of a port that names a Network of another namespace, which does not exist or does not allow
// the port's namespace. Both read the same, so that nobody can find out what another namespace has.
func notAllowed(obj *cloudteamv1.NetworkPort) *managed.Problem {
	return managed.Waits(controller.Stalled(cloudteamv1.ReasonNamespaceNotAllowed, fmt.Sprintf(
		"Network %s does not exist or does not allow namespace %s. Have it created with the namespace in its "+
			"spec.allowedNamespaces, or use a Network in this namespace.", obj.Network(), obj.Namespace)))
}
