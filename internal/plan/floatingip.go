package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"
)

const (
	// FloatingIPResource is the Resource of a Difference of a floating IP.
	FloatingIPResource = "floating IP"
	// FieldPort is the field that says with which address of which port a floating IP is associated.
	FieldPort = "port"
	// FieldFloatingIP is the field of a port that asks for one, as in the user's spec.
	FieldFloatingIP = "floatingIP"
	// FieldAddress is the field that says which address of the external network a floating IP has.
	FieldAddress = "address"
)

// FloatingIPAttributes are a floating IP's settings, as sent to Neutron. Step.PortRef is its port.
type FloatingIPAttributes struct {
	// Description is the full text, with the marker.
	Description string
	// NetworkID is the external network of the address. A floating IP cannot move to another network.
	NetworkID string
	// Address is what the world outside sees. In a request, the zero Addr leaves the choice to Neutron.
	Address netip.Addr
	// Fixed is the address of the port that the floating IP is associated with. In a request, the zero Addr leaves the
	// choice to its sender.
	Fixed netip.Addr
	// QoSPolicy is the id of the policy that others gave it, or empty. The sender of an update repeats it.
	QoSPolicy string
}

// ObservedFloatingIP is a floating IP as Neutron reports it.
type ObservedFloatingIP struct {
	ID string
	// Revision is Neutron's revision_number. It also moves when an agent has put the floating IP to work.
	Revision int
	// Created is the time of creation in Neutron.
	Created time.Time
	// PortID is the port that it is associated with, or empty. Neutron empties it when the port is deleted.
	PortID string
	FloatingIPAttributes
}

// FloatingSpec is the desired state of an object's floating IP.
type FloatingSpec struct {
	// Owner is written into the floating IP.
	Owner Owner
	// ImportID is the id of a floating IP that exists before its object. It is empty for one that the controller creates.
	ImportID string
	// NetworkID is the external network.
	NetworkID string
	// Address is the one that the floating IP has there. The zero Addr leaves the choice to Neutron.
	Address netip.Addr
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
//
// An import is neither created nor deleted. The error is a *DiffersError if it has another network or address.
func FloatingIP(spec FloatingSpec, observed Observed) (Change, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	observed = observed.inOrder()
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	if err := imported(KindFloatingIP, spec.ImportID, spec.Owner, observed.FloatingIPs); err != nil {
		return nil, err
	}
	if spec.ImportID != "" {
		if err := spec.Fits(observed.FloatingIPs[0]); err != nil {
			return nil, err
		}
	}
	change := spec.surplus(observed)
	f, exists := spec.of(observed)
	if exists && f.PortID != "" && f.PortID != spec.PortID {
		away := spec.update(f, Ref{}, netip.Addr{}, None)
		change = append(change, away)
		f.PortID, f.FloatingIPAttributes = "", away.FloatingIP
	}
	return append(change, spec.associate(Ref{ID: spec.PortID}, f, exists)...), nil
}

// associate plans the step after which a floating IP exists, and is associated with its port: the one that exists, if
// exists is true.
func (s FloatingSpec) associate(port Ref, f ObservedFloatingIP, exists bool) Change {
	switch {
	case !exists:
		return Change{{
			Action: CreateFloatingIP, PortRef: port,
			FloatingIP: FloatingIPAttributes{
				Description: s.describe(""), NetworkID: s.NetworkID, Address: s.Address, Fixed: s.lowest(),
			},
			Reason:      "no floating IP of the network bears the owner's marker",
			Differences: []Difference{existence(FloatingIPResource, "one of network "+s.NetworkID)},
		}}
	case port.Creator > 0 || port.ID != f.PortID:
		return Change{}.with(s.update(f, port, s.lowest(), "of port "+cmp.Or(port.ID, justCreated)))
	case port.ID == "" || slices.Contains(s.Fixed, f.Fixed):
		return Change{}.with(s.update(f, port, f.Fixed, ""))
	}
	return Change{}.with(s.update(f, port, s.lowest(), "of another address of port "+port.ID))
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
	f, exists := s.of(observed)
	return exists && f.PortID == s.PortID
}

// of returns the declared one of the observed floating IPs. It returns false if there is none.
func (s FloatingSpec) of(observed Observed) (ObservedFloatingIP, bool) {
	observed.FloatingIPs = slices.DeleteFunc(slices.Clone(observed.FloatingIPs), s.elsewhere)
	return observed.FloatingIP(s.NetworkID, s.PortID)
}

// elsewhere reports whether a floating IP has another address than the declared one.
func (s FloatingSpec) elsewhere(f ObservedFloatingIP) bool {
	return s.Address.IsValid() && f.Address != s.Address
}

// AdoptFloatingIP plans the takeover of a floating IP that bears no marker, as Adopt does of a network. One that is
// associated with a port that the spec does not name may serve another workload: it differs.
func AdoptFloatingIP(spec FloatingSpec, found ObservedFloatingIP) (Change, error) {
	if spec.Owner.Owns(found.Description) {
		return nil, nil
	}
	if found.PortID == "" {
		spec.PortID = "" // it is associated later
	}
	differences, err := compareFloatingIP(spec, found)
	step := found.step(TakeFloatingIP, "it is imported")
	step.FloatingIP.Description = spec.describe(found.Description)
	const room = MaxUserDescription - len(" "+retainWord)
	switch {
	case err != nil:
		return nil, err
	case len(differences) > 0:
		return nil, &DiffersError{differences}
	case utf8.RuneCountInString(found.Description) > room:
		return nil, &BlockedError{fmt.Sprintf("The description of floating IP %s has no room for the marker. It is not "+
			"imported. Shorten it to %d characters.", found.ID, room)}
	}
	step.Differences = describe(FloatingIPResource, step.FloatingIP.Description, found.Description)
	return Change{step}, nil
}

// compareFloatingIP lists the differences between the spec and a floating IP without another owner's marker. A missing
// marker is no difference. The error is an *OwnedError if it has another owner.
func compareFloatingIP(spec FloatingSpec, found ObservedFloatingIP) ([]Difference, error) {
	if err := foreign("floating IP "+found.ID, spec.Owner, found.Description); err != nil {
		return nil, err
	}
	d := differences{resource: FloatingIPResource}
	d.compare(FieldExternalNetwork, spec.NetworkID, found.NetworkID)
	if spec.elsewhere(found) {
		d.add(FieldAddress, spec.Address.String(), found.Address.String())
	}
	d.compare(FieldPort, cmp.Or(spec.PortID, None), cmp.Or(found.PortID, None))
	return d.found, nil
}

// Fits returns a *DiffersError for an imported floating IP of another network or address, whatever its port. It does so
// with the owner's marker, too: somebody else wrote that. The error is an *OwnedError if it has another owner.
func (s FloatingSpec) Fits(f ObservedFloatingIP) error {
	s.PortID = f.PortID
	differences, err := compareFloatingIP(s, f)
	if err == nil && len(differences) > 0 {
		err = &DiffersError{differences}
	}
	return err
}

func (f ObservedFloatingIP) identity() identity {
	return identity{Resource{KindFloatingIP, f.ID}, f.Created, f.Description}
}

func (f ObservedFloatingIP) called() string { return f.Address.String() }

func (f ObservedFloatingIP) inOrder() ObservedFloatingIP { return f }

// FloatingIP returns the floating IP that an object has on an external network, or on any for "": the one that is
// associated with its port, or else the oldest. It returns false if there is none.
func (o Observed) FloatingIP(networkID, portID string) (ObservedFloatingIP, bool) {
	here := slices.DeleteFunc(slices.Clone(o.FloatingIPs), func(f ObservedFloatingIP) bool {
		return networkID != "" && f.NetworkID != networkID
	})
	for _, f := range here {
		if portID != "" && f.PortID == portID {
			return f, true
		}
	}
	return oldest(here)
}

// surplus plans the removal of all floating IPs but the declared one.
func (s FloatingSpec) surplus(observed Observed) (change Change) {
	keep, _ := s.of(observed)
	for _, f := range observed.FloatingIPs {
		switch {
		case s.NetworkID == "":
			change = append(change, f.delete("the port asks for none"))
		case f.NetworkID != s.NetworkID:
			change = append(change, f.delete("it is of another external network than the declared one"))
		case s.elsewhere(f):
			change = append(change, f.delete("it has another address than the declared one"))
		case f.ID != keep.ID:
			step := f.delete("it is a duplicate of floating IP " + keep.ID)
			step.Keeper = Keeper{Resource: keep.identity().Resource, Owner: s.Owner}
			change = append(change, step)
		}
	}
	return change
}

// describe is the full description of a floating IP that had another. An imported one keeps its text.
func (s FloatingSpec) describe(was string) (text string) {
	if s.ImportID != "" {
		text, _, _ = ParseDescription(was)
		text = wordless(text)
	}
	return s.Owner.describeAs(retaining(s.Retain), text)
}

// update plans that a floating IP is associated with an address of a port. declared says so for users; it is empty if
// nothing changes there.
func (s FloatingSpec) update(f ObservedFloatingIP, port Ref, fixed netip.Addr, declared string) Step {
	step := f.step(UpdateFloatingIP, reasonDiffers)
	step.PortRef, step.FloatingIP.Description, step.FloatingIP.Fixed = port, s.describe(f.Description), fixed
	d := differences{FloatingIPResource, describe(FloatingIPResource, step.FloatingIP.Description, f.Description)}
	if declared != "" {
		is := cmp.Or(f.PortID, None)
		if f.PortID == port.ID && f.Fixed.IsValid() {
			is = f.Fixed.String()
		}
		d.add(FieldPort, declared, is)
	}
	step.Differences = d.found
	return step
}

// FloatingIP is what the spec asks of the floating IP of a port, which is empty for a new one.
func (s PortSpec) FloatingIP(port string) FloatingSpec {
	return FloatingSpec{
		Owner: s.Owner, NetworkID: s.FloatingNetwork, Address: s.FloatingAddress, PortID: port, Retain: s.Retain,
	}
}

// associateFrom plans the floating IP of a port that exists, before and after the update of the port. Neutron 23 and
// later refuse to change a port's addresses without naming the one that its floating IP is associated with. So the
// floating IP gets an address that stays before the port loses the old one. If the port has no such address yet, it
// gets it beside the old one, which it keeps, and the next plan continues.
func (s PortSpec) associateFrom(p ObservedPort, observed Observed) (before, after Change, keeps []PortAddress) {
	if s.FloatingNetwork == "" {
		return nil, nil, nil
	}
	to, given := s.FloatingIP(p.ID), s.given(p.Addresses)
	stays, _ := s.settleAddresses(given)
	for _, a := range stays {
		if a.Address.Is4() && slices.Contains(given, a) {
			to.Fixed = append(to.Fixed, a.Address)
		}
	}
	f, exists := to.of(observed)
	change := to.associate(Ref{ID: p.ID}, f, exists)
	now := slices.IndexFunc(given, func(a PortAddress) bool { return a.Address == f.Fixed })
	switch {
	case f.PortID != p.ID || slices.Contains(to.Fixed, f.Fixed):
		return nil, change, nil
	case len(to.Fixed) > 0:
		return change, nil, nil
	case now >= 0:
		return nil, nil, given[now : now+1]
	}
	return nil, change, nil // only earlier versions of Neutron allow that it has an address that the port has not
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
		return " for port " + justCreated
	}
	return " for port " + s.PortRef.ID
}

// floatingIPActions are the actions on a floating IP.
var floatingIPActions = map[Action]facts{
	CreateFloatingIP: {
		of: KindFloatingIP, creates: true,
		privileged: func(s Step) map[string]bool { return map[string]bool{FieldAddress: s.FloatingIP.Address.IsValid()} },
		about: func(s Step) string {
			return "of network " + s.FloatingIP.NetworkID + s.portNamed()
		},
	},
	TakeFloatingIP:   {of: KindFloatingIP, updates: true, about: Step.id},
	UpdateFloatingIP: {of: KindFloatingIP, updates: true, about: Step.id},
	DeleteFloatingIP: {of: KindFloatingIP, deletes: true, about: Step.id},
}
