package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Names of the fields that say where a floating IP leads, as in the user's spec: of a port that asks for one, and of a
// FloatingIP.
const (
	FieldFloatingIP = "floatingIP"
	FieldPortName   = "portName"
)

// FloatingIPResource is the Resource of a Difference of a floating IP.
const FloatingIPResource = "floating IP"

// FloatingIPAttributes are a floating IP's settings, as sent to Neutron. Step.PortRef is its port.
type FloatingIPAttributes struct {
	// Description is the full text, with the marker.
	Description string
	// NetworkID is the external network of the address. A floating IP cannot move to another network.
	NetworkID string
	// Fixed is the address of the port that the floating IP is associated with. In a request, the zero Addr leaves the
	// choice to its sender.
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
	// PortID is the port that it is associated with, or empty. Neutron empties it when the port is deleted.
	PortID string
	FloatingIPAttributes
}

// FloatingSpec is the desired state of a floating IP that has its own object.
type FloatingSpec struct {
	// Owner is written into the floating IP.
	Owner Owner
	// NetworkID is the external network.
	NetworkID string
	// PortID is the port that it is associated with. It is empty if there is none.
	PortID string
	// Fixed are the port's addresses of IPv4. A floating IP that is associated with none of them is associated with the
	// lowest.
	Fixed []netip.Addr
	// Retain is true if the floating IP stays when the object is deleted. Its description says so, in case that nobody
	// sees the deletion.
	Retain bool
}

// Validate refuses what no plan can be made for.
func (s FloatingSpec) Validate() error {
	if s.NetworkID == "" {
		return &FieldError{FieldExternalNetwork, "it is empty: write the id or the name of an external network"}
	}
	return s.Owner.validate()
}

// FloatingIP plans the steps that turn observed into spec, in the order to take them. Like that of Network, the Change
// is empty if there is nothing to do. It changes or deletes only what bears the spec's owner, whichever port it has.
//
// From one port to another it takes two steps, without a port in between. Neutron may refuse the second one, because
// the other port has a floating IP. So two that exchange their ports get there, and none stays at a port that its spec
// no longer names.
func FloatingIP(spec FloatingSpec, observed Observed) (Change, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	observed = observed.inOrder()
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	as := PortSpec{Owner: spec.Owner, FloatingNetwork: spec.NetworkID, Retain: spec.Retain}
	change := as.surplusFloatingIPs(spec.PortID, observed)
	keep, exists := observed.FloatingIP(spec.NetworkID, spec.PortID)
	if !exists {
		step := as.createFloatingIP(Ref{ID: spec.PortID})
		step.FloatingIP.Fixed = spec.lowest()
		return append(change, step), nil
	}
	if keep.PortID != "" && keep.PortID != spec.PortID {
		away := as.updateFloatingIP(keep, leading{declared: None, field: FieldPortName})
		change = append(change, away)
		keep.PortID, keep.FloatingIPAttributes = "", away.FloatingIP
	}
	to := leading{port: Ref{ID: spec.PortID}, field: FieldPortName}
	switch {
	case keep.PortID != spec.PortID:
		to.declared, to.fixed = "of port "+spec.PortID, spec.lowest()
	case keep.PortID == "" || slices.Contains(spec.Fixed, keep.Fixed):
		to.fixed = keep.Fixed
	default:
		to.declared, to.fixed = "of another address of port "+spec.PortID, spec.lowest()
	}
	return change.with(as.updateFloatingIP(keep, to)), nil
}

// lowest is the address that a floating IP is associated with. The zero Addr leaves the choice to the sender of the
// request.
func (s FloatingSpec) lowest() netip.Addr {
	if len(s.Fixed) == 0 {
		return netip.Addr{}
	}
	return slices.MinFunc(s.Fixed, netip.Addr.Compare)
}

// Complete reports whether the floating IP exists and is associated with its port.
func (s FloatingSpec) Complete(observed Observed) bool {
	f, exists := observed.FloatingIP(s.NetworkID, s.PortID)
	return exists && f.PortID == s.PortID
}

// Leads reports whether an update changes where a floating IP leads.
func (s Step) Leads() bool { return s.Changes(FieldFloatingIP) || s.Changes(FieldPortName) }

func (f ObservedFloatingIP) identity() identity {
	return identity{Resource{KindFloatingIP, f.ID}, f.Created, f.Description}
}

func (f ObservedFloatingIP) inOrder() ObservedFloatingIP { return f }

// FloatingIP returns the floating IP that an object has on an external network: the one that is associated with its
// port, or else the oldest. It returns false if there is none.
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

// floatingIPOfNew plans the floating IP of a port that an earlier step creates.
func (s PortSpec) floatingIPOfNew(port Ref, observed Observed) Change {
	if s.LeavesFloatingIPs || s.FloatingNetwork == "" {
		return nil
	}
	f, exists := observed.FloatingIP(s.FloatingNetwork, "")
	if !exists {
		return Change{s.createFloatingIP(port)}
	}
	return Change{s.updateFloatingIP(f, leading{port: port, declared: "of port " + s.Name})}
}

func (s PortSpec) createFloatingIP(port Ref) Step {
	return Step{
		Action: CreateFloatingIP, PortRef: port, FloatingIP: s.floatingAttributes(),
		Reason:      "no floating IP of the network bears the owner's marker",
		Differences: []Difference{existence(FloatingIPResource, "one of network "+s.FloatingNetwork)},
	}
}

// path is how the floating IP of an existing port gets to an address that the port keeps. Neutron 23 and later refuse
// to change a port's addresses without naming the one that its floating IP leads to.
type path struct {
	// before and after are taken before and after the update of the port.
	before, after Change
	// keeps are addresses that the port keeps although they are not declared, because a floating IP is associated with
	// them.
	keeps []PortAddress
}

// pathOf plans the floating IP of a port that exists.
func (s PortSpec) pathOf(p ObservedPort, observed Observed) (way path) {
	given, port := s.given(p.Addresses), Ref{ID: p.ID}
	stays, _ := s.settleAddresses(given)
	if s.LeavesFloatingIPs {
		for _, a := range given {
			led := func(f ObservedFloatingIP) bool { return f.PortID == p.ID && f.Fixed == a.Address }
			if !slices.Contains(stays, a) && slices.ContainsFunc(observed.FloatingIPs, led) {
				way.keeps = append(way.keeps, a)
			}
		}
		return way
	}
	if s.FloatingNetwork == "" {
		return way
	}
	f, exists := observed.FloatingIP(s.FloatingNetwork, p.ID)
	if !exists {
		way.after = Change{s.createFloatingIP(port)}
		return way
	}
	fixed := func(a PortAddress) bool { return a.Address == f.Fixed }
	usable := func(a PortAddress) bool { return a.Address.Is4() && slices.Contains(given, a) }
	anew := leading{port: port, declared: "of an address of port " + p.ID}
	now, next := slices.IndexFunc(given, fixed), slices.IndexFunc(stays, usable)
	switch {
	case f.PortID != p.ID:
		anew.declared = "of port " + p.ID
		way.after = way.after.with(s.updateFloatingIP(f, anew))
	case slices.ContainsFunc(stays, fixed):
		way.after = way.after.with(s.updateFloatingIP(f, leading{port: port, fixed: f.Fixed}))
	case next >= 0:
		anew.fixed = stays[next].Address
		way.before = Change{s.updateFloatingIP(f, anew)}
	case now >= 0:
		// The port has none of its next addresses yet. It gets them beside this one; the next plan leads the floating IP
		// there. If an address is taken, the floating IP still works.
		way.keeps = given[now : now+1]
	default:
		// It leads to an address that the port does not have. Only earlier versions of Neutron allow that.
		way.after = Change{s.updateFloatingIP(f, anew)}
	}
	return way
}

func (s PortSpec) floatingAttributes() FloatingIPAttributes {
	return FloatingIPAttributes{
		Description: s.Owner.describeAs(retaining(s.Retain), ""), NetworkID: s.FloatingNetwork,
	}
}

// leading is where a floating IP is to lead.
type leading struct {
	port Ref
	// fixed is the zero Addr if the sender of the request chooses.
	fixed netip.Addr
	// declared is for users. It is empty if the floating IP leads there already.
	declared string
	// field is the one of the spec that says so; empty for FieldFloatingIP.
	field string
}

func (s PortSpec) updateFloatingIP(actual ObservedFloatingIP, to leading) Step {
	want := s.floatingAttributes()
	d := differences{resource: FloatingIPResource}
	d.found = append(d.found, describe(FloatingIPResource, want.Description, actual.Description)...)
	if to.declared != "" {
		is := cmp.Or(actual.PortID, None)
		if actual.PortID == to.port.ID && actual.Fixed.IsValid() {
			is = actual.Fixed.String()
		}
		d.add(cmp.Or(to.field, FieldFloatingIP), to.declared, is)
	}
	want.Fixed, want.QoSPolicy = to.fixed, actual.QoSPolicy
	step := actual.step(UpdateFloatingIP, reasonDiffers, d.found...)
	step.PortRef, step.FloatingIP = to.port, want
	return step
}

// GivesUp reports whether the step deletes something that nobody gets back, and only because the spec does not ask for
// it: the address of a floating IP.
func (s Step) GivesUp() bool { return s.Action == DeleteFloatingIP && s.Keeper == (Keeper{}) }

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
	return unmark(owner, &step, FloatingIPResource, &step.FloatingIP.Description, released)
}

// portNamed names the port that a new floating IP leads to, for users.
func (s Step) portNamed() string {
	switch {
	case s.PortRef == Ref{}:
		return ""
	case s.PortRef.ID == "":
		return " for port just created"
	}
	return " for port " + s.PortRef.ID
}

// floatingIPActions are the actions on a floating IP.
var floatingIPActions = map[Action]facts{
	CreateFloatingIP: {
		of: KindFloatingIP, creates: true,
		about: func(s Step) string {
			return "of network " + s.FloatingIP.NetworkID + s.portNamed()
		},
	},
	UpdateFloatingIP: {of: KindFloatingIP, updates: true, about: Step.id},
	DeleteFloatingIP: {of: KindFloatingIP, deletes: true, about: Step.id},
}
