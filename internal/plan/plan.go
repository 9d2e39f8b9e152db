package plan

import (
	"fmt"
	"slices"
)

// Network plans the steps that turn observed into spec, in the order to take them. The Change is empty if there is
// nothing to do. After the steps are taken, a new plan is empty, except after Neutron allocated a CIDR from a pool.
// Then the second plan has what follows from the CIDR, and the third is empty. The order of the networks and subnets in
// observed does not matter.
//
// The plan changes or deletes only what bears the spec's owner, and what the spec's Import allows. If another resource
// is in the way, the error is a *BlockedError. The caller MUST do nothing until that resource is gone. If an imported
// network does not exist, the error is a *NotMadeError. Other errors come from the spec (see Spec.Validate).
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
	// Delete subnets that are no longer declared first. New subnets may use their addresses.
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
	// Tags come late, because no user of the network waits for them.
	if step, needed := tagNetwork(network, spec.Tags, keep.Tags); needed {
		change = append(change, step)
	}
	// Duplicates come last. A duplicate in use must not delay changes of the network that stays.
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

// Port plans the steps that turn observed into spec, in the order to take them. Like that of Network, the Change is
// empty if there is nothing to do, and after the steps were taken. It changes or deletes only what bears the spec's
// owner.
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
	// Other ports go first, because they may hold the declared addresses.
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

// imported refuses an imported network that does not exist, and any other network that bears the marker. The controller
// creates no network for such an object. So somebody else marked that other network, and it is no duplicate to delete.
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

// NotMadeError says that an imported network does not exist. The controller does not create it.
type NotMadeError struct {
	// ID is the network's id.
	ID string
}

func (e *NotMadeError) Error() string {
	return fmt.Sprintf("network %s does not exist, or is not for these credentials to see: an imported network is not "+
		"made anew; it is looked for again", e.ID)
}

// Routed reports whether the declared router is known, exists and has its interfaces, whatever their settings. It is
// true if no router is declared.
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
