package plan

import (
	"fmt"
	"slices"
)

// Network gives the steps that make observed as spec says, in the order in which they have to be taken. It is empty
// where there is nothing to do. Planning again after the steps were taken is empty, except for what follows from a CIDR
// that Neutron took from a pool in one of them: then a third plan is empty. The order in which observed lists networks
// and subnets does not count.
//
// Only what bears the spec's owner is ever changed or deleted. Where something else stands in the way, the error is a
// *BlockedError and nothing must be done until it is gone. The one exception is what the spec's Import says. Where an
// imported network is not there, the error is a *NotMadeError. Other errors are the spec's own (see Spec.Validate).
func Network(spec Spec, observed Observed) (Change, error) {
	observed = observed.inOrder()
	keep, exists := observed.Network()
	spec = spec.Allocated(keep)
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.notLookedUp() {
		return nil, errNotLookedUp
	}
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	if err := spec.imported(observed); err != nil {
		return nil, err
	}
	routing := planRouting(spec, keep, observed)
	if !exists {
		change := append(routing.first, Step{
			Action:     CreateNetwork,
			Attributes: spec.Attributes(),
			Reason:     "no network bears the owner's marker",
			Differences: []Difference{
				{Resource: NetworkResource, Field: FieldExists, Declared: spec.Name, Actual: None},
			},
		})
		network := change.latest()
		for _, subnet := range spec.Subnets {
			if !subnet.unresolved() {
				change = append(change, createSubnet(spec, network, subnet))
			}
		}
		change = routing.last(change, network)
		change = append(change, planShares(spec, network, nil)...)
		if step, needed := tagNetwork(network, spec.Tags, nil); needed {
			change = append(change, step)
		}
		return append(change, routing.refused...), nil
	}

	spec = spec.takingBack(keep)
	var change Change
	if step, ok := updateNetwork(spec, keep); ok {
		change = append(change, step)
	}
	change = append(change, routing.first...)
	// Subnets that are no longer declared go before new ones come, which may lie in their place.
	for _, s := range keep.Subnets {
		if !spec.Owner.Owns(s.Description) || spec.doubtful(s) {
			continue
		}
		declared, exists := declaredSubnet(spec, s.CIDR)
		if !exists {
			change = append(change, deleteSubnet(keep.ID, s, spec.superfluous(s)))
		} else if diffs := declared.fixedDifferences(s.Subnet); len(diffs) > 0 {
			change = append(change, replaceSubnet(keep.ID, s, diffs))
		}
	}
	for _, subnet := range spec.Subnets {
		step, needed, err := planSubnet(spec, keep, subnet)
		if err != nil {
			return nil, err
		}
		if needed {
			change = append(change, step)
		}
	}
	network := Ref{ID: keep.ID}
	change = routing.last(change, network)
	change = append(change, planShares(spec, network, keep.Shares)...)
	// Nobody who uses the network waits for its tags.
	if step, needed := tagNetwork(network, spec.Tags, keep.Tags); needed {
		change = append(change, step)
	}
	// Duplicates go last: one that is in use must not keep the network that stays from being as declared.
	for _, n := range observed.Networks {
		if n.ID != keep.ID {
			if err := deletable(spec.Owner, n); err != nil {
				return nil, err
			}
			change = append(change, deleteNetwork(n, fmt.Sprintf("it is a duplicate of the older network %s", keep.ID)))
		}
	}
	return append(change, routing.refused...), nil
}

// Port gives the steps that make observed as spec says, in the order in which they have to be taken. It is to ports
// what Network is to networks: empty where there is nothing to do, and after the steps were taken. What it changes or
// deletes bears the spec's owner.
func Port(spec PortSpec, observed Observed) (Change, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	observed = observed.inOrder()
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	var change Change
	keep, exists := observed.Port(spec.NetworkID)
	// Others go first: they may hold the addresses that are declared.
	for _, p := range observed.Ports {
		if !exists || p.ID != keep.ID {
			reason := "it is on another network than the declared one"
			if p.NetworkID == spec.NetworkID {
				reason = "it is a duplicate of the older port " + keep.ID
			}
			change = append(change, deletePort(p, reason))
		}
	}
	if !exists {
		return append(change, Step{
			Action:     CreatePort,
			NetworkRef: Ref{ID: spec.NetworkID},
			Port:       spec.Attributes(),
			Reason:     "no port of the network bears the owner's marker",
			Differences: []Difference{
				{Resource: PortResource, Field: FieldExists, Declared: spec.Name, Actual: None},
			},
		}), nil
	}
	if step, ok := updatePort(spec, keep); ok {
		change = append(change, step)
	}
	return change, nil
}

// imported refuses what cannot be of an imported network: that it is not there, or that another one bears the marker.
// Nothing is created for its object, so that other one is no duplicate to remove, but was marked by somebody else.
func (s Spec) imported(observed Observed) error {
	if s.Import.ID == "" {
		return nil
	}
	exists := false
	for _, n := range observed.Networks {
		if n.ID != s.Import.ID {
			return &BlockedError{fmt.Sprintf("network %s bears the marker %s and is not the imported network %s: take the "+
				"marker off its description", n.ID, s.Owner, s.Import.ID)}
		}
		exists = true
	}
	if !exists {
		return &NotMadeError{s.Import.ID}
	}
	return nil
}

// NotMadeError says that an imported network is not there and is not made.
type NotMadeError struct {
	// ID is the network's.
	ID string
}

// Error names the network.
func (e *NotMadeError) Error() string {
	return fmt.Sprintf("network %s does not exist, or is not for these credentials to see: an imported network is not "+
		"made anew; it is looked for again", e.ID)
}

// Routed reports whether the router that is declared, if any, is known, exists and has its interfaces, whatever their
// settings.
func (s Spec) Routed(observed Observed) bool {
	if s.Router != nil && s.Router.Unresolved {
		return false
	}
	n, _ := observed.Network()
	for _, step := range planRouting(s.Allocated(n), n, observed.inOrder()).last(nil, Ref{ID: n.ID}) {
		if step.Action == CreateRouter || step.Action == AttachInterface {
			return false
		}
	}
	return true
}

// Delete gives the steps that remove everything of the owner's, ports and interfaces before networks and routers,
// which Neutron keeps while ports are on them. A network's subnets go with it in Neutron, so a subnet that is not ours
// blocks the deletion (*BlockedError). A network, a port or a router that is not ours is an error.
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

// Release gives the steps that take the owner's marker off everything and leave it in place. The network comes
// last: as long as it bears the marker, an interrupted release is found and taken up again. What is released bears
// nobody's marker: a text in front of ours that reads as another one goes too, or it would make another object the
// owner.
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
