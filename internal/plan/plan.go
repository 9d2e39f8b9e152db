package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Network gives the steps that make observed as spec says, in the order in which they have to be taken. It is empty
// where there is nothing to do; planning once more after the steps were taken is empty, but for what follows from a CIDR that
// Neutron has taken from a pool in one of them: then planning a third time is. The order in which observed lists
// networks and subnets does not count.
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
				Action: UpdatePort, Ref: Ref{ID: p.ID}, Revision: p.Revision, NetworkRef: Ref{ID: p.NetworkID}, Port: attributes, Reason: reason,
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

// unmark is the difference that is settled when a description loses its markers.
func unmark(resource, description, without string) Difference {
	return Difference{
		Resource: resource, Field: FieldDescription,
		Declared: strconv.Quote(without), Actual: strconv.Quote(description),
	}
}

// withoutMarkers is the description without any marker at its end.
func withoutMarkers(description string) string {
	for marked := true; marked; {
		description, _, marked = ParseDescription(description)
	}
	return description
}

// BlockedError says that something which is not ours stands in the way.
type BlockedError struct {
	// Message names it and says what to do.
	Message string
}

// Error is the message.
func (e *BlockedError) Error() string { return e.Message }

// NetworkResource is what a Difference of the network itself is of.
const NetworkResource = "network"

func subnetResource(cidr netip.Prefix) string { return "subnet " + cidr.String() }

// marked refuses what does not bear the owner's marker, whoever gave it.
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

func declaredSubnet(spec Spec, cidr netip.Prefix) (Subnet, bool) {
	for _, declared := range spec.Subnets {
		if declared.CIDR == cidr {
			return declared, true
		}
	}
	return Subnet{}, false
}

// deletable refuses to delete a network that holds a subnet of somebody else's, which would go with it.
func deletable(owner Owner, n ObservedNetwork) error {
	for _, s := range n.Subnets {
		if !owner.Owns(s.Description) {
			return &BlockedError{fmt.Sprintf("network %s holds subnet %s (%s), which does not bear the marker %s and "+
				"would be deleted with it: delete that subnet, or end its description with the marker",
				n.ID, s.ID, s.CIDR, owner)}
		}
	}
	return nil
}

func updateNetwork(spec Spec, actual ObservedNetwork) (Step, bool) {
	want := spec.Attributes()
	want.Name = spec.nameOf(actual.Name)
	diffs := basics{want.Name, want.Description, want.AdminStateUp}.differences(NetworkResource,
		basics{actual.Name, actual.Description, actual.AdminStateUp})
	diffs = append(diffs, propertyDifferences(want, actual.Attributes)...)
	return Step{
		Action: UpdateNetwork, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, Attributes: want,
		Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0
}

// basics are the settings that networks, ports and routers have alike.
type basics struct {
	name, description string
	up                bool
}

// differences lists in which settings of a resource what is declared differs from what is.
func (s basics) differences(resource string, actual basics) (diffs []Difference) {
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{resource, field, declared, got})
	}
	if s.name != actual.name {
		add(FieldName, strconv.Quote(s.name), strconv.Quote(actual.name))
	}
	if s.description != actual.description {
		// The marker is the same on both sides (the plan has seen to that), so it is left out.
		want, _, _ := ParseDescription(s.description)
		got, _, _ := ParseDescription(actual.description)
		add(FieldDescription, strconv.Quote(want), strconv.Quote(got))
	}
	if s.up != actual.up {
		add(FieldAdminState, upDown(s.up), upDown(actual.up))
	}
	return diffs
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

const reasonDiffers = "it differs from what is declared"

func planSubnet(spec Spec, n ObservedNetwork, declared Subnet) (step Step, needed bool, err error) {
	declared = declared.Canonical()
	if declared.unresolved() {
		return Step{}, false, nil
	}
	if declared.Pending() {
		step, err = planAllocation(spec, n, declared)
		return step, err == nil, err
	}
	actual, exists := n.SubnetByCIDR(declared.CIDR)
	if !exists {
		for _, s := range n.Subnets {
			if s.CIDR.Overlaps(declared.CIDR) && !spec.Owner.Owns(s.Description) {
				return Step{}, false, blockedBySubnet(spec.Owner, n, s, declared)
			}
		}
		return createSubnet(spec, Ref{ID: n.ID}, declared), true, nil
	}
	if !spec.Owner.Owns(actual.Description) && !spec.adoptable(actual) {
		return Step{}, false, blockedBySubnet(spec.Owner, n, actual, declared)
	}

	if diffs := declared.fixedDifferences(actual.Subnet); len(diffs) > 0 {
		if spec.Import.ID != "" {
			// What others have made is not deleted for a field.
			return Step{}, false, &BlockedError{fmt.Sprintf("the imported network %s has subnet %s (%s), whose %s is %s and "+
				"cannot change: declare it so, or replace that subnet",
				n.ID, actual.ID, actual.CIDR, diffs[0].Field, diffs[0].Actual)}
		}
		// The other one is deleted in an earlier step.
		create := createSubnet(spec, Ref{ID: n.ID}, declared)
		create.Reason, create.Differences = reasonFixed, diffs
		return create, true, nil
	}

	var diffs []Difference
	name := spec.nameOf(actual.Name)
	if actual.Name != name {
		diffs = append(diffs, Difference{
			Field: FieldName, Declared: strconv.Quote(name), Actual: strconv.Quote(actual.Name),
		})
	}
	description, err := spec.subnetDescription(actual)
	if err != nil {
		return Step{}, false, err
	}
	if actual.Description != description {
		want, got := description, actual.Description
		if spec.Owner.Owns(got) {
			// The marker is the same on both sides, so it is left out.
			want, _, _ = ParseDescription(want)
			got, _, _ = ParseDescription(got)
		}
		diffs = append(diffs, Difference{
			Field: FieldDescription, Declared: strconv.Quote(want), Actual: strconv.Quote(got),
		})
	}
	diffs = append(diffs, declared.difference(actual.Canonical())...)
	for i := range diffs {
		diffs[i].Resource = subnetResource(declared.CIDR)
	}
	return Step{
		Action: UpdateSubnet, Ref: Ref{ID: actual.ID}, Revision: actual.Revision, NetworkRef: Ref{ID: n.ID},
		SubnetName: name, SubnetDescription: description, Subnet: declared,
		Differences: diffs, Reason: reasonDiffers,
	}, len(diffs) > 0, nil
}

func blockedBySubnet(owner Owner, n ObservedNetwork, s ObservedSubnet, declared Subnet) error {
	return &BlockedError{fmt.Sprintf("network %s holds subnet %s (%s), which does not bear the marker %s and lies "+
		"where %s is declared: delete that subnet, or end its description with the marker",
		n.ID, s.ID, s.CIDR, owner, declared.CIDR)}
}

func createSubnet(spec Spec, network Ref, subnet Subnet) Step {
	subnet = subnet.afresh().Canonical()
	declared := subnet.CIDR.String()
	if subnet.Pending() {
		declared = "one " + subnet.Origin()
	}
	return Step{
		Action: CreateSubnet, NetworkRef: network,
		SubnetName: spec.Name, SubnetDescription: spec.Owner.Marker(), Subnet: subnet,
		Reason: "it is declared and does not exist",
		Differences: []Difference{
			{subnet.resource(), FieldExists, declared, None},
		},
	}
}

func deleteSubnet(networkID string, s ObservedSubnet, reason string) Step {
	return Step{
		Action: DeleteSubnet, Ref: Ref{ID: s.ID}, Revision: s.Revision, NetworkRef: Ref{ID: networkID}, Subnet: s.Subnet, PoolID: s.PoolID,
		Reason:      reason,
		Differences: []Difference{{subnetResource(s.CIDR), FieldExists, None, s.ID}},
	}
}

// reasonFixed is why a subnet is made anew that exists.
const reasonFixed = "it differs in what cannot change"

// replaceSubnet deletes a subnet that is declared and differs in what cannot change.
func replaceSubnet(networkID string, s ObservedSubnet, diffs []Difference) Step {
	step := deleteSubnet(networkID, s, reasonFixed)
	step.Differences = diffs
	return step
}

func deleteNetwork(n ObservedNetwork, reason string) Step {
	return Step{
		Action: DeleteNetwork, Ref: Ref{ID: n.ID}, Revision: n.Revision, Attributes: n.Attributes, Reason: reason,
		Differences: []Difference{{NetworkResource, FieldExists, None, n.ID}},
	}
}
