package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// FieldFloatingIP is the name of the port's field that asks for a floating IP, as in the user's spec.
const FieldFloatingIP = "floatingIP"

// FloatingIPResource is the Resource of a Difference of a floating IP.
const FloatingIPResource = "floating IP"

// FloatingIPAttributes are a floating IP's settings, as sent to Neutron. Step.PortRef is its port.
type FloatingIPAttributes struct {
	// Description is the full text, with the marker.
	Description string
	// NetworkID is the external network of the address. A floating IP cannot move to another network.
	NetworkID string
	// Fixed is the address of the port that the floating IP leads to. In a request, the zero Addr leaves the choice to
	// whoever sends it.
	Fixed netip.Addr
	// QoSPolicy is the id of the policy that others gave it, or empty. An update repeats it.
	QoSPolicy string
}

// ObservedFloatingIP is a floating IP as Neutron reports it.
type ObservedFloatingIP struct {
	ID string
	// Revision is Neutron's revision_number. It also moves when an agent has put the floating IP to work.
	Revision int
	// Created is the time of creation in Neutron.
	Created time.Time
	// Address is what the world outside sees. Neutron chooses it.
	Address netip.Addr
	// PortID is the port that it leads to, or empty. Neutron empties it when the port is deleted.
	PortID string
	FloatingIPAttributes
}

func (f ObservedFloatingIP) identity() identity {
	return identity{Resource{KindFloatingIP, f.ID}, f.Created, f.Description}
}

func (f ObservedFloatingIP) inOrder() ObservedFloatingIP { return f }

// FloatingIP returns the floating IP that an object has on an external network: the one that leads to its port, or else
// the oldest. It returns false if there is none.
func (o Observed) FloatingIP(networkID, portID string) (ObservedFloatingIP, bool) {
	here := slices.DeleteFunc(slices.Clone(o.FloatingIPs), func(f ObservedFloatingIP) bool {
		return f.NetworkID != networkID
	})
	for _, f := range here {
		if portID != "" && f.PortID == portID {
			return f, true
		}
	}
	return oldest(here)
}

// surplusFloatingIPs plans the removal of all floating IPs but the declared one. port is the id of the port that stays,
// or empty.
func (s PortSpec) surplusFloatingIPs(port string, observed Observed) (change Change) {
	if s.LeavesFloatingIPs {
		return nil
	}
	keep, exists := observed.FloatingIP(s.FloatingNetwork, port)
	for _, f := range observed.FloatingIPs {
		switch {
		case s.FloatingNetwork == "":
			change = append(change, f.delete("the port asks for none"))
		case !exists || f.NetworkID != keep.NetworkID:
			change = append(change, f.delete("it is of another external network than the declared one"))
		case f.ID != keep.ID:
			step := f.delete("it is a duplicate of floating IP " + keep.ID)
			step.Keeper = Keeper{Resource: keep.identity().Resource, Owner: s.Owner}
			change = append(change, step)
		}
	}
	return change
}

// floatingIP plans the floating IP of a port that exists, or that an earlier step creates. has are the addresses of one
// that exists.
func (s PortSpec) floatingIP(port Ref, has []PortAddress, observed Observed) Change {
	if s.LeavesFloatingIPs || s.FloatingNetwork == "" {
		return nil
	}
	keep, exists := observed.FloatingIP(s.FloatingNetwork, port.ID)
	if !exists {
		return Change{{
			Action: CreateFloatingIP, PortRef: port, FloatingIP: s.floatingAttributes(),
			Reason:      "no floating IP of the network bears the owner's marker",
			Differences: []Difference{existence(FloatingIPResource, "one of network "+s.FloatingNetwork)},
		}}
	}
	return Change{}.with(s.updateFloatingIP(port, has, keep))
}

func (s PortSpec) floatingAttributes() FloatingIPAttributes {
	return FloatingIPAttributes{
		Description: s.Owner.describeAs(retaining(s.Retain), ""), NetworkID: s.FloatingNetwork,
	}
}

func (s PortSpec) updateFloatingIP(port Ref, has []PortAddress, actual ObservedFloatingIP) Step {
	want := s.floatingAttributes()
	d := differences{resource: FloatingIPResource}
	d.found = append(d.found, describe(FloatingIPResource, want.Description, actual.Description)...)
	want.Fixed, want.QoSPolicy = actual.Fixed, actual.QoSPolicy
	// An address that the port loses in the same change counts as lost.
	stays, _ := s.settleAddresses(s.given(has))
	switch {
	case actual.PortID != port.ID || port.ID == "":
		d.add(FieldFloatingIP, "of port "+cmp.Or(port.ID, s.Name), cmp.Or(actual.PortID, None))
		want.Fixed = netip.Addr{}
	case !slices.ContainsFunc(stays, func(a PortAddress) bool { return a.Address == actual.Fixed }):
		d.add(FieldFloatingIP, "of an address of port "+port.ID, actual.Fixed.String())
		want.Fixed = netip.Addr{}
	}
	step := actual.step(UpdateFloatingIP, reasonDiffers, d.found...)
	step.PortRef, step.FloatingIP = port, want
	return step
}

// step is an update or the deletion of the floating IP.
func (f ObservedFloatingIP) step(action Action, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: f.ID}, Revision: f.Revision, PortRef: Ref{ID: f.PortID},
		FloatingIP: f.FloatingIPAttributes, Reason: reason, Differences: settles,
	}
}

func (f ObservedFloatingIP) delete(reason string) Step {
	return f.step(DeleteFloatingIP, reason, surplus(FloatingIPResource, f.ID))
}

func (f ObservedFloatingIP) release(owner Owner, reason string) Change {
	step := f.step(UpdateFloatingIP, reason)
	return unmark(owner, &step, FloatingIPResource, &step.FloatingIP.Description)
}

// floatingIPActions are the actions on a floating IP.
var floatingIPActions = map[Action]facts{
	CreateFloatingIP: {
		of: KindFloatingIP, creates: true,
		about: func(s Step) string {
			return "of network " + s.FloatingIP.NetworkID + " for port " + cmp.Or(s.PortRef.ID, "just created")
		},
	},
	UpdateFloatingIP: {of: KindFloatingIP, updates: true, about: Step.id},
	DeleteFloatingIP: {of: KindFloatingIP, deletes: true, about: Step.id},
}
