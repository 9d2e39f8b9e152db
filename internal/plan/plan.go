package plan

import (
	"fmt"
	"slices"
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
}

// Empty reports whether nothing bears the marker.
func (o Observed) Empty() bool { return len(o.Networks)+len(o.Ports)+len(o.Routers) == 0 }

// Network returns the network that represents the object: the oldest, and among equals the one with the lowest id. So
// every replica of the controller chooses the same one. It returns false if there is none.
func (o Observed) Network() (ObservedNetwork, bool) {
	if len(o.Networks) == 0 {
		return ObservedNetwork{}, false
	}
	return slices.MinFunc(o.Networks, compareNetworks), true
}

// Router returns the object's own router: the oldest, and among equals the one with the lowest id. So every replica of
// the controller chooses the same one. It returns false if there is none.
func (o Observed) Router() (ObservedRouter, bool) {
	if len(o.Routers) == 0 {
		return ObservedRouter{}, false
	}
	return slices.MinFunc(o.Routers, compareRouters), true
}

// Port returns the port that represents the object: the oldest on the network, and among equals the lowest id. So every
// replica of the controller chooses the same one. It returns false if there is none.
func (o Observed) Port(networkID string) (ObservedPort, bool) {
	var found *ObservedPort
	for i, p := range o.Ports {
		if p.NetworkID == networkID && (found == nil || comparePorts(p, *found) < 0) {
			found = &o.Ports[i]
		}
	}
	if found == nil {
		return ObservedPort{}, false
	}
	return *found, true
}

// Kind is a kind of Neutron resource, in readable form.
type Kind string

// The kinds of resources that have a list of their own. Subnets belong to their networks.
const (
	KindNetwork Kind = "network"
	KindPort    Kind = "port"
	KindRouter  Kind = "router"
)

// Resource names a Neutron resource of one of these kinds. The zero value names none.
type Resource struct {
	Kind Kind
	ID   string
}

func (r Resource) String() string { return string(r.Kind) + " " + r.ID }

// Resources names all observed resources.
func (o Observed) Resources() []Resource {
	var all []Resource
	for _, n := range o.Networks {
		all = append(all, Resource{KindNetwork, n.ID})
	}
	for _, p := range o.Ports {
		all = append(all, Resource{KindPort, p.ID})
	}
	for _, r := range o.Routers {
		all = append(all, Resource{KindRouter, r.ID})
	}
	return all
}

// inOrder sorts networks, subnets, ports, routers and their unordered lists. So the same state always gives the same
// steps and the same error, whatever the order of Neutron's answer. It writes to copies.
func (o Observed) inOrder() Observed {
	if o.isInOrder() {
		return o // the usual case
	}
	networks := slices.SortedFunc(slices.Values(o.Networks), compareNetworks)
	for i := range networks {
		networks[i].Subnets = slices.SortedFunc(slices.Values(networks[i].Subnets), compareSubnets)
		networks[i].Tags = slices.Sorted(slices.Values(networks[i].Tags))
		networks[i].ZoneHints = slices.Sorted(slices.Values(networks[i].ZoneHints))
		networks[i].Shares = slices.SortedFunc(slices.Values(networks[i].Shares), CompareShares)
	}
	ports := slices.SortedFunc(slices.Values(o.Ports), comparePorts)
	for i, p := range ports {
		ports[i].Addresses = slices.SortedFunc(slices.Values(p.Addresses), comparePortAddresses)
		ports[i].SecurityGroups = slices.Sorted(slices.Values(p.SecurityGroups))
	}
	routers := slices.SortedFunc(slices.Values(o.Routers), compareRouters)
	for i, r := range routers {
		routers[i].Routes = slices.SortedFunc(slices.Values(r.Routes), compareRoutes)
	}
	return Observed{Networks: networks, Ports: ports, Routers: routers}
}

func (o Observed) isInOrder() bool {
	for _, n := range o.Networks {
		if !slices.IsSortedFunc(n.Subnets, compareSubnets) || !slices.IsSorted(n.Tags) ||
			!slices.IsSorted(n.ZoneHints) || !slices.IsSortedFunc(n.Shares, CompareShares) || isEmptied(n.Subnets) ||
			isEmptied(n.Tags) || isEmptied(n.ZoneHints) || isEmptied(n.Shares) {
			return false
		}
	}
	for _, p := range o.Ports {
		if !slices.IsSortedFunc(p.Addresses, comparePortAddresses) || !slices.IsSorted(p.SecurityGroups) ||
			isEmptied(p.Addresses) || isEmptied(p.SecurityGroups) {
			return false
		}
	}
	for _, r := range o.Routers {
		if !slices.IsSortedFunc(r.Routes, compareRoutes) || isEmptied(r.Routes) {
			return false
		}
	}
	return slices.IsSortedFunc(o.Networks, compareNetworks) && slices.IsSortedFunc(o.Ports, comparePorts) &&
		slices.IsSortedFunc(o.Routers, compareRouters)
}

// isEmptied reports whether a list is empty but not nil. Sorting turns it into nil, so that both give the same steps.
func isEmptied[T any](list []T) bool { return list != nil && len(list) == 0 }

// marked refuses resources that do not bear the owner's marker.
func marked(owner Owner, observed Observed) error {
	for _, n := range observed.Networks {
		if !owner.Owns(n.Description) {
			return fmt.Errorf("network %s is not marked as %s's: it must not be planned with", n.ID, owner)
		}
	}
	for _, p := range observed.Ports {
		if !owner.Owns(p.Description) {
			return fmt.Errorf("port %s is not marked as %s's: it must not be planned with", p.ID, owner)
		}
	}
	for _, r := range observed.Routers {
		if !owner.Owns(r.Description) {
			return fmt.Errorf("router %s is not marked as %s's: it must not be planned with", r.ID, owner)
		}
	}
	return nil
}

// Delete plans the removal of everything that the owner owns. Ports and interfaces go before networks and routers,
// because Neutron refuses to delete those while they have ports. Neutron deletes the subnets with their network. So a
// subnet of another owner blocks the deletion (*BlockedError). A network, port or router of another owner is an error.
func Delete(owner Owner, observed Observed) (Change, error) {
	observed = observed.inOrder()
	if err := marked(owner, observed); err != nil {
		return nil, err
	}
	const reason = "its object is being deleted"
	var change Change
	for _, p := range observed.Ports {
		if p.Router == "" {
			change = append(change, deletePort(p, reason))
		}
	}
	interfaces := slices.DeleteFunc(slices.Clone(observed.Ports), func(p ObservedPort) bool { return p.Router == "" })
	change = append(change, leave(interfaces, observed.Routers, reason)...)
	change = append(change, deleteRouters(observed.Routers, reason)...)
	for _, n := range observed.Networks {
		if err := deletable(owner, n); err != nil {
			return nil, err
		}
		change = append(change, deleteNetwork(n, reason))
	}
	return change, nil
}

// Release plans the removal of the owner's marker from everything. The resources stay. The network comes last: while it
// bears the marker, an interrupted release is found and resumed. A released resource bears no marker at all. If another
// marker precedes the owner's, it goes too. Otherwise another object would become the owner.
func Release(owner Owner, observed Observed) Change {
	const reason = "its object is being deleted with deletionPolicy Retain"
	var change Change
	observed = observed.inOrder()
	for _, p := range observed.Ports {
		if owner.Owns(p.Description) {
			attributes := p.PortAttributes
			attributes.Description = withoutMarkers(p.Description)
			change = append(change, Step{
				Action: UpdatePort, Ref: Ref{ID: p.ID}, Revision: p.Revision, NetworkRef: Ref{ID: p.NetworkID},
				Port: attributes, Reason: reason,
				Differences: []Difference{unmark(PortResource, p.Description, attributes.Description)},
			})
		}
	}
	for _, r := range observed.Routers {
		if owner.Owns(r.Description) {
			change = append(change, releaseRouter(r, reason))
		}
	}
	for _, n := range observed.Networks {
		for _, s := range n.Subnets {
			if owner.Owns(s.Description) {
				description := withoutMarkers(s.Description)
				change = append(change, Step{
					Action: UpdateSubnet, Ref: Ref{ID: s.ID}, Revision: s.Revision, NetworkRef: Ref{ID: n.ID},
					SubnetName: s.Name, SubnetDescription: description, Subnet: s.Subnet, Reason: reason,
					Differences: []Difference{unmark(subnetResource(s.CIDR), s.Description, description)},
				})
			}
		}
		if owner.Owns(n.Description) {
			attributes := n.Attributes
			attributes.Description, _ = withoutImported(withoutMarkers(n.Description))
			change = append(change, Step{
				Action: UpdateNetwork, Ref: Ref{ID: n.ID}, Revision: n.Revision, Attributes: attributes, Reason: reason,
				Differences: []Difference{unmark(NetworkResource, n.Description, attributes.Description)},
			})
		}
	}
	return change
}

// Orphan plans the removal of everything of an owner whose object is gone. The object's policies are gone with it. An
// imported network is not deleted but released, as by Release. Everything else is deleted, as by Delete.
func Orphan(owner Owner, observed Observed) (Change, error) {
	for _, n := range observed.Networks {
		text, of, _ := ParseDescription(n.Description)
		if _, imported := withoutImported(text); imported && of == owner {
			return Release(owner, observed), nil
		}
	}
	return Delete(owner, observed)
}
