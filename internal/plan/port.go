package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Names of a port's fields, as in the user's spec.
const (
	FieldAddresses      = "addresses"
	FieldMAC            = "mac"
	FieldSecurityGroups = "securityGroups"
	FieldAddressPairs   = "allowedAddressPairs"
	FieldDNSName        = "dnsName"
)

// PortDeviceOwner is the device_owner in Neutron of the ports that the controller creates. People can filter by it. The
// controller decides nothing by it.
const PortDeviceOwner = "kubernetes:networkport"

// PortSpec is the desired state of a port, in canonical form.
type PortSpec struct {
	// Owner is written into the port.
	Owner Owner
	// Name is the port's name in Neutron.
	Name string
	// NetworkID is the port's network. A port cannot move to another network.
	NetworkID string
	// Addresses are the port's addresses, at least one if SelfAddressed is empty. For an item without an address,
	// Neutron chooses any address of the subnet.
	Addresses []PortAddress
	// Overflow has other subnets that serve as well, by the subnet of an item without an address, in the order in which
	// they are tried. No subnet is in two lists.
	Overflow map[string][]string
	// SelfAddressed are the ids of the network's subnets in which ports generate their own addresses. The port has one
	// address in each, which nobody requests and nobody can remove. Such an address is never drift.
	SelfAddressed []string
	// MAC is in lower case, with colons. If it is empty, Neutron chooses; then any value is right.
	MAC string
	// SecurityGroups are ids in any order. nil leaves them to the cloud; then any value is right.
	SecurityGroups []string
	PortOptions
	// FloatingNetwork is the id of the external network of the port's floating IP, or empty for a port without one.
	FloatingNetwork string
	// FloatingAddress is the address that the floating IP has there. The zero Addr leaves the choice to Neutron.
	FloatingAddress netip.Addr
	// ByPolicies is true if the security groups are MultiNetworkPolicies' choice, and go back to the cloud's after them.
	ByPolicies bool
	// TakeBack names the fields that an earlier spec set, as Sets names them. Those that this spec leaves to others are
	// emptied.
	TakeBack []string
	// Retain is true if the port stays when the object is deleted. Its description says so, in case that nobody sees the
	// deletion.
	Retain bool
}

// PortOptions are settings of a port that it takes extensions of Neutron to have. nil leaves a setting to the cloud or
// to others; then any value is right.
type PortOptions struct {
	// PortSecurity is whether Neutron drops what the port sends under other addresses than its own.
	PortSecurity *bool
	// QoSPolicy is the policy's id, or empty for none.
	QoSPolicy *string
	// DNSName is a host name in lower case, or empty for none.
	DNSName *string
	// AddressPairs are further addresses that the port may send from, in any order.
	AddressPairs []AddressPair
}

// AddressPair is a range of addresses that a port may send from besides its own, with one hardware address.
type AddressPair struct {
	Range netip.Prefix
	// MAC is in lower case, with colons. In a spec, an empty MAC is the port's own.
	MAC string
}

// String describes the pair for users. A range of one address has no prefix length, as in Neutron.
func (p AddressPair) String() string {
	return strings.TrimSuffix(p.Address()+" "+p.MAC, " ")
}

// ParseRange reads an address, which is a range of one, or a range in CIDR notation. With an error it returns the zero
// Prefix.
func ParseRange(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// Address is the pair's range as Neutron writes it, and as ParseRange reads it.
func (p AddressPair) Address() string {
	if p.Range.IsSingleIP() {
		return p.Range.Addr().String()
	}
	return p.Range.String()
}

// PortAddress is an address of a port in one subnet of its network.
type PortAddress struct {
	SubnetID string
	// Address is the zero Addr if Neutron chooses it.
	Address netip.Addr
}

// String describes the address for users.
func (a PortAddress) String() string {
	if !a.Address.IsValid() {
		return "one of subnet " + a.SubnetID
	}
	return a.Address.String()
}

// PortAttributes are a port's settings, as sent to Neutron, in the forms of PortSpec. Only requests have an Overflow.
type PortAttributes struct {
	Name string
	// Description is the full text, with the marker.
	Description  string
	AdminStateUp bool
	// Addresses are all addresses of the port.
	Addresses      []PortAddress
	Overflow       map[string][]string
	MAC            string
	SecurityGroups []string
	PortOptions
}

// ObservedPort is a port as Neutron reports it.
type ObservedPort struct {
	ID string
	// Revision is Neutron's revision_number. Every change of the port increases it.
	Revision  int
	Created   time.Time
	NetworkID string
	// Router is the router that the port is an interface of, or empty. Only through that router can Neutron remove such
	// a port.
	Router string
	// Device describes the device that somebody gave the port to, such as "compute:nova, device 9a…". It is empty if
	// there is none. A router whose interface the port is does not count here.
	Device string
	PortAttributes
}

// PortResource is the Resource of a Difference of a port.
const PortResource = "port"

// Attributes are the port's settings, as sent to Neutron.
func (s PortSpec) Attributes() PortAttributes {
	return PortAttributes{
		Name:           s.Name,
		Description:    s.Owner.describeAs(retaining(s.Retain), ""),
		AdminStateUp:   true,
		Addresses:      s.Addresses,
		Overflow:       s.Overflow,
		MAC:            s.MAC,
		SecurityGroups: s.SecurityGroups,
		PortOptions:    s.PortOptions,
	}
}

// Sets names the fields to which the spec gives a value and that it would leave to others without one, in alphabetical
// order; see Spec.Sets.
func (s PortSpec) Sets() []string {
	return setOf(map[string]bool{
		FieldAddressPairs:   len(s.AddressPairs) > 0,
		FieldDNSName:        orEmpty(s.DNSName) != "",
		FieldFloatingIP:     s.FloatingNetwork != "",
		FieldQoSPolicy:      orEmpty(s.QoSPolicy) != "",
		FieldSecurityGroups: s.ByPolicies,
	})
}

// takingBack returns the spec for an existing port, with the fields to take back declared empty.
func (s PortSpec) takingBack(p ObservedPort) PortSpec {
	for _, field := range s.TakeBack {
		switch field {
		case FieldAddressPairs:
			if s.AddressPairs == nil {
				s.AddressPairs = []AddressPair{}
			}
		case FieldDNSName:
			s.DNSName = emptied(s.DNSName, p.DNSName)
		case FieldQoSPolicy:
			s.QoSPolicy = emptied(s.QoSPolicy, p.QoSPolicy)
		}
	}
	return s
}

// Validate refuses what Neutron cannot apply, and what would always differ from Neutron's answer. The errors are joined
// by errors.Join. An error that the user can fix is a *FieldError.
func (s PortSpec) Validate() error {
	var errs []error
	if err := s.Owner.validate(); err != nil {
		errs = append(errs, err)
	}
	if s.NetworkID == "" {
		errs = append(errs, errors.New("the port's network is not known yet"))
	}
	if len(s.Addresses)+len(s.SelfAddressed) == 0 {
		errs = append(errs, &FieldError{FieldAddresses, "the network has no subnet that an address could come from"})
	}
	for i, a := range s.Addresses {
		if a.SubnetID == "" {
			errs = append(errs, fmt.Errorf("the subnet of address %s is not known yet", a))
		}
		same := func(other PortAddress) bool { return other.Address == a.Address }
		if a.Address.IsValid() && slices.ContainsFunc(s.Addresses[:i], same) {
			errs = append(errs, &FieldError{FieldAddresses, fmt.Sprintf("%s is listed twice: list it once", a)})
		}
	}
	if s.MAC != "" {
		if mac, err := net.ParseMAC(s.MAC); err != nil || len(mac) != 6 || mac.String() != s.MAC {
			errs = append(errs, &FieldError{FieldMAC, fmt.Sprintf("%q is none: write one such as fa:16:3e:00:00:01", s.MAC)})
		}
	}
	return errors.Join(errs...)
}

// Port returns the port that represents the object: the oldest on the network, of those in use if there are any. It
// returns false if there is none.
func (o Observed) Port(networkID string) (ObservedPort, bool) {
	elsewhere := func(p ObservedPort) bool { return p.NetworkID != networkID }
	here := slices.DeleteFunc(slices.Clone(o.Ports), elsewhere)
	unused := func(p ObservedPort) bool { return p.user() == "" }
	if used, exists := oldest(slices.DeleteFunc(slices.Clone(here), unused)); exists {
		return used, true
	}
	return oldest(here)
}

// user describes the device or the router that uses the port. It is empty if nothing does.
func (p ObservedPort) user() string {
	if p.Router != "" {
		return "router " + p.Router
	}
	return p.Device
}

// InUseError says that a port would be deleted that somebody gave to a device. The controller deletes no such port.
type InUseError struct {
	// Port is the port's id, and User describes the device.
	Port, User string
}

// Error names the port and the device.
func (e *InUseError) Error() string { return fmt.Sprintf("port %s is in use by %s", e.Port, e.User) }

func (p ObservedPort) identity() identity {
	return identity{Resource{KindPort, p.ID}, p.Created, p.Description}
}

// called gives the addresses of a port without a name, such as a router's interface.
func (p ObservedPort) called() string {
	var addresses []string
	for _, a := range p.Addresses {
		addresses = append(addresses, a.Address.String())
	}
	return cmp.Or(p.Name, strings.Join(addresses, ","))
}

func (p ObservedPort) inOrder() ObservedPort {
	p.Addresses = slices.SortedFunc(slices.Values(p.Addresses), comparePortAddresses)
	p.SecurityGroups = slices.Sorted(slices.Values(p.SecurityGroups))
	return p
}

// Port plans the steps that turn observed into spec, in the order to take them. Like that of Network, the Change is
// empty if there is nothing to do, and after the steps were taken. It changes or deletes only what bears the spec's
// owner. The error is an *InUseError if a port would have to be deleted that is in use.
func Port(spec PortSpec, observed Observed) (Change, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	observed = observed.inOrder()
	if err := marked(spec.Owner, observed); err != nil {
		return nil, err
	}
	keep, exists := observed.Port(spec.NetworkID)
	// The deletion of a port moves the revisions of its floating IPs, and one address of a port can have one floating IP
	// of a network. So superfluous ones go first.
	change := spec.FloatingIP(keep.ID).surplus(observed)
	// Other ports go first, because they may hold the declared addresses.
	for _, p := range observed.Ports {
		if !exists || p.ID != keep.ID {
			step, err := deletePort(p, "it is on another network than the declared one")
			if err != nil {
				return nil, err
			}
			step.Keeper.Resource = Resource{KindNetwork, spec.NetworkID}
			if exists {
				step.Keeper = Keeper{Resource: keep.identity().Resource, Owner: spec.Owner}
			}
			switch {
			case p.NetworkID != spec.NetworkID:
			case older(keep, p) < 0:
				step.Reason = "it is a duplicate of the older port " + keep.ID
			default:
				step.Reason = "it is a duplicate of port " + keep.ID + ", which is in use"
			}
			change = append(change, step)
		}
	}
	if exists {
		before, after, keeps := spec.associateFrom(keep, observed)
		change = append(change, before...)
		change = change.with(updatePort(spec.takingBack(keep), keep, keeps))
		return append(change, after...), nil
	}
	change = append(change, Step{
		Action:      CreatePort,
		NetworkRef:  Ref{ID: spec.NetworkID},
		Port:        spec.Attributes(),
		Reason:      "no port of the network bears the owner's marker",
		Differences: []Difference{existence(PortResource, spec.Name)},
	})
	if spec.FloatingNetwork != "" {
		floating := spec.FloatingIP("")
		f, exists := floating.of(observed)
		change = append(change, floating.associate(change.latest(), f, exists)...)
	}
	return change, nil
}

// step is an update or the deletion of the port.
func (p ObservedPort) step(action Action, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: p.ID}, Revision: p.Revision, NetworkRef: Ref{ID: p.NetworkID},
		Port: p.PortAttributes, Reason: reason, Differences: settles,
	}
}

func (a PortAttributes) basics() basics { return basics{a.Name, a.Description, a.AdminStateUp} }

// updatePort plans the update of a port. keeps are addresses that the port keeps although they are not declared.
func updatePort(spec PortSpec, actual ObservedPort, keeps []PortAddress) Step {
	want := spec.Attributes()
	d := differences{resource: PortResource}
	d.basics(want.basics(), actual.basics())
	var settled bool
	given := spec.given(actual.Addresses)
	kept := func(a PortAddress) bool { return slices.Contains(keeps, a) }
	want.Addresses, settled = spec.settleAddresses(slices.DeleteFunc(slices.Clone(given), kept))
	if !settled {
		d.add(FieldAddresses, listAddresses(want.Addresses), listAddresses(given))
	}
	want.Addresses = append(want.Addresses, keeps...)
	if want.MAC != "" {
		d.compare(FieldMAC, want.MAC, actual.MAC)
	}
	if want.SecurityGroups != nil {
		d.compare(FieldSecurityGroups, listTexts(asSet(want.SecurityGroups)), listTexts(asSet(actual.SecurityGroups)))
	}
	want.PortOptions = d.options(want, actual.PortAttributes)
	step := actual.step(UpdatePort, reasonDiffers, d.found...)
	step.Port = want
	return step
}

// options compares the options of a port, and returns the declared ones as they are sent.
func (d *differences) options(want, actual PortAttributes) PortOptions {
	d.flag(FieldPortSecurity, want.PortSecurity, actual.PortSecurity, unsupported)
	d.text(FieldQoSPolicy, want.QoSPolicy, actual.QoSPolicy)
	d.text(FieldDNSName, want.DNSName, actual.DNSName)
	if want.AddressPairs != nil {
		pairs := make([]AddressPair, len(want.AddressPairs))
		for i, p := range want.AddressPairs {
			pairs[i] = AddressPair{p.Range, cmp.Or(p.MAC, want.MAC, actual.MAC)}
		}
		want.AddressPairs = pairs
		d.compare(FieldAddressPairs, listPairs(pairs), listPairs(actual.AddressPairs))
	}
	return want.PortOptions
}

// text compares a text that is left to others if it is not declared. An absent one is empty.
func (d *differences) text(field string, declared, actual *string) {
	if declared != nil {
		d.compare(field, quoted(*declared), quoted(orEmpty(actual)))
	}
}

func listPairs(pairs []AddressPair) string {
	texts := make([]string, len(pairs))
	for i, p := range pairs {
		texts[i] = p.String()
	}
	return listTexts(asSet(texts))
}

// given returns a port's addresses without those that the port generated itself.
func (s PortSpec) given(addresses []PortAddress) []PortAddress {
	own := func(a PortAddress) bool { return slices.Contains(s.SelfAddressed, a.SubnetID) }
	return slices.DeleteFunc(slices.Clone(addresses), own)
}

// settleAddresses returns the addresses that a port should have, sorted. For a declared address that any address of its
// subnets satisfies, it chooses one that the port already has: of the first subnet, and the lowest. It reports whether
// the port has exactly these.
func (s PortSpec) settleAddresses(actual []PortAddress) (want []PortAddress, settled bool) {
	left := slices.Clone(actual)
	settled = true
	// Match the items that name an address first, so that no other item takes it. They sort after all others.
	for _, d := range slices.Backward(slices.SortedFunc(slices.Values(s.Addresses), comparePortAddresses)) {
		at := slices.IndexFunc(left, func(a PortAddress) bool {
			return a.SubnetID == d.SubnetID && (!d.Address.IsValid() || a == d)
		})
		if at < 0 && !d.Address.IsValid() {
			at = slices.IndexFunc(left, func(a PortAddress) bool {
				return slices.Contains(s.Overflow[d.SubnetID], a.SubnetID)
			})
		}
		if at >= 0 {
			d = left[at]
			left = slices.Delete(left, at, at+1)
		} else {
			settled = false
		}
		want = append(want, d)
	}
	slices.SortFunc(want, comparePortAddresses)
	return want, settled && len(left) == 0
}

func comparePortAddresses(a, b PortAddress) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.SubnetID, b.SubnetID))
}

func listAddresses(addresses []PortAddress) string {
	return join(slices.SortedFunc(slices.Values(addresses), comparePortAddresses))
}

// deletePort refuses to delete a port in use (*InUseError).
func deletePort(p ObservedPort, reason string) (Step, error) {
	if user := p.user(); user != "" {
		return Step{}, &InUseError{p.ID, user}
	}
	return p.step(DeletePort, reason, surplus(PortResource, p.ID)), nil
}

func (p ObservedPort) release(owner Owner, reason string) Change {
	step := p.step(UpdatePort, reason)
	return unmark(owner, &step, PortResource, &step.Port.Description, released)
}

// portActions are the actions on a port that is no router interface.
var portActions = map[Action]facts{
	CreatePort: {
		of: KindPort, creates: true,
		about: func(s Step) string { return fmt.Sprintf("%q on network %s", s.Port.Name, s.NetworkRef.ID) },
	},
	UpdatePort: {of: KindPort, updates: true, about: Step.id},
	DeletePort: {of: KindPort, deletes: true, about: Step.id},
}
