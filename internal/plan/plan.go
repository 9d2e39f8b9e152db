package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Observed is everything in Neutron that bears one owner's marker. The zero value means nothing.
type Observed struct {
	// Networks normally has one item, for a Network. More are duplicates, which Network removes.
	Networks []ObservedNetwork
	// Ports normally has one item, for a NetworkPort. More are duplicates, which Port removes. For a Network, they are
	// the router interfaces of its subnets.
	Ports []ObservedPort
	// Routers has at most one item, for a Network. More are duplicates, which Network removes.
	Routers []ObservedRouter
	// Groups normally has one item, for a SecurityGroup. More are duplicates, which SecurityGroup removes.
	Groups []ObservedGroup
	// FloatingIPs has at most one item, for a NetworkPort or a FloatingIP. More are duplicates, which Port or FloatingIP
	// removes.
	FloatingIPs []ObservedFloatingIP
}

// Kind is a kind of Neutron resource, in readable form.
type Kind string

// The kinds of resources that have their own list. Subnets belong to their networks.
const (
	KindNetwork Kind = "network"
	KindPort    Kind = "port"
	KindRouter  Kind = "router"
	KindGroup   Kind = "security group"

	KindFloatingIP Kind = "floating IP"
)

// Resource names a Neutron resource of one of these kinds. The zero value names none.
type Resource struct {
	Kind Kind
	ID   string
}

func (r Resource) String() string { return string(r.Kind) + " " + r.ID }

// resource is an observed resource of any kind that bears its owner's marker.
type resource interface {
	identity() identity
	// called names the resource for users. It may be empty.
	called() string
	// release plans the removal of the owner's marker from the resource and its parts.
	release(owner Owner, reason string) Change
}

// identity is what tells a resource from others of its kind, and whose it is.
type identity struct {
	Resource
	created     time.Time
	description string
}

// all lists the resources. Those that others may depend on come last, and so the networks.
func (o Observed) all() []resource {
	return slices.Concat(asResources(o.FloatingIPs), asResources(o.Ports), asResources(o.Routers), asResources(o.Groups),
		asResources(o.Networks))
}

// inOrder sorts the resources and their unordered lists. So the same state always gives the same steps and the same
// error, whatever the order of Neutron's answer. It writes to copies.
func (o Observed) inOrder() Observed {
	return Observed{
		Networks: inOrder(o.Networks, ObservedNetwork.inOrder),
		Ports:    inOrder(o.Ports, ObservedPort.inOrder),
		Routers:  inOrder(o.Routers, ObservedRouter.inOrder),
		Groups:   inOrder(o.Groups, ObservedGroup.inOrder),

		FloatingIPs: inOrder(o.FloatingIPs, ObservedFloatingIP.inOrder),
	}
}

func asResources[R resource](list []R) []resource {
	all := make([]resource, len(list))
	for i, r := range list {
		all[i] = r
	}
	return all
}

// inOrder sorts the resources, and the lists of each by sortLists.
func inOrder[R resource](list []R, sortLists func(R) R) []R {
	sorted := slices.SortedFunc(slices.Values(list), older)
	for i, r := range sorted {
		sorted[i] = sortLists(r)
	}
	return sorted
}

// older sorts the older resource first, and among equals the lower id. So every replica of the controller chooses the
// same one.
func older[R resource](a, b R) int {
	x, y := a.identity(), b.identity()
	return cmp.Or(x.created.Compare(y.created), cmp.Compare(x.ID, y.ID))
}

// oldest returns the first resource in the order of older. It returns false if there is none.
func oldest[R resource](list []R) (found R, exists bool) {
	if len(list) == 0 {
		return found, false
	}
	return slices.MinFunc(list, older), true
}

// Empty reports whether nothing bears the marker.
func (o Observed) Empty() bool { return len(o.all()) == 0 }

// Resources names all observed resources, by kind.
func (o Observed) Resources() []Resource {
	var all []Resource
	for _, r := range o.all() {
		all = append(all, r.identity().Resource)
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return cmp.Compare(a.Kind, b.Kind) })
	return all
}

// Named is a resource as a list of all kinds shows it.
type Named struct {
	Resource
	// Name is the resource's name, or else its addresses. It may be empty.
	Name    string
	Created time.Time
}

// Named lists all observed resources. Those that others may depend on come first.
func (o Observed) Named() (all []Named) {
	for _, r := range slices.Backward(o.all()) {
		is := r.identity()
		all = append(all, Named{is.Resource, r.called(), is.created})
	}
	return all
}

// marked refuses resources that do not bear the owner's marker.
func marked(owner Owner, observed Observed) error {
	for _, r := range observed.all() {
		if is := r.identity(); !owner.Owns(is.description) {
			return fmt.Errorf("%s does not bear the marker %s; the plan refuses it", is.Resource, owner)
		}
	}
	return nil
}

// Delete plans the removal of everything that the owner owns. Ports and interfaces go before networks and routers,
// because Neutron refuses to delete those while they have ports. Floating IPs go after the ports. Neutron deletes the
// subnets with their network. So a subnet of another owner blocks the deletion (*BlockedError), and so does a port in
// use (*InUseError). A network, port or router of another owner is an error.
func Delete(owner Owner, observed Observed) (Change, error) {
	observed = observed.inOrder()
	if err := marked(owner, observed); err != nil {
		return nil, err
	}
	const reason = "the object is being deleted"
	var change Change
	var interfaces []ObservedPort
	for _, p := range observed.Ports {
		if observed.interfaces(p) {
			interfaces = append(interfaces, p)
			continue
		}
		step, err := deletePort(p, reason)
		if err != nil {
			return nil, err
		}
		change = append(change, step)
	}
	// The deletion of a port is refused if somebody gave it to a device. Then its floating IP stays, too.
	for _, f := range observed.FloatingIPs {
		change = append(change, f.delete(reason))
	}
	change = append(change, detach(interfaces, observed.Routers, noRoutes, reason)...)
	change = append(change, deleteRouters(observed.Routers, reason)...)
	for _, g := range observed.Groups {
		change = append(change, deleteGroup(g, reason))
	}
	for _, n := range observed.Networks {
		step, err := deleteNetwork(owner, n, reason)
		if err != nil {
			return nil, err
		}
		change = append(change, step)
	}
	return change, nil
}

// interfaces reports whether a port is a router's interface on one of the observed networks. A router's interface on
// another network is a NetworkPort's port that somebody gave to the router.
func (o Observed) interfaces(p ObservedPort) bool {
	return p.Router != "" && slices.ContainsFunc(o.Networks, func(n ObservedNetwork) bool { return n.ID == p.NetworkID })
}

// Release plans the removal of the owner's marker from everything. The resources stay. The network comes last: while it
// bears the marker, an interrupted release is found and resumed. A released resource bears no marker at all. If another
// marker precedes the owner's, it goes too. Otherwise another object would become the owner.
func Release(owner Owner, observed Observed) (change Change) {
	for _, r := range observed.inOrder().all() {
		change = append(change, r.release(owner, "the object is being deleted with deletionPolicy Retain")...)
	}
	return change
}

// unmark makes an update of a resource take the owner's marker off its description, which is a field of the step. It
// plans nothing if the resource does not bear the marker. to says what the description becomes.
func unmark(owner Owner, step *Step, resource string, description *string, to func(string) string) Change {
	was := *description
	if !owner.Owns(was) {
		return nil
	}
	*description = to(was)
	step.Differences = describe(resource, *description, was)
	return Change{*step}
}

// Orphan plans the removal of everything of an owner whose object is gone. If one of the resources says that the object
// had deletionPolicy Retain, or that the network was imported, all of them are released, as by Release. Otherwise they
// are deleted, as by Delete.
func Orphan(owner Owner, observed Observed) (Change, error) {
	for _, r := range observed.all() {
		description := r.identity().description
		if owner.Imported(description) || owner.says(retainWord, description) {
			return Release(owner, observed), nil
		}
	}
	return Delete(owner, observed)
}
