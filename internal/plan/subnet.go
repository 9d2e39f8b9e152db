package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Names of the subnet's fields that say which ports it serves, and whether DNS publishes the addresses.
const (
	FieldServiceTypes      = "serviceTypes"
	FieldDNSPublishFixedIP = "dnsPublishFixedIP"
)

// Subnet has a subnet's settings in canonical form, in which equal meanings have equal values. Make one with Canonical.
// The desired and the observed state are both converted before they are compared. So a different spelling never counts
// as a change.
type Subnet struct {
	// CIDR is the network address and prefix length, without host bits. It is the zero Prefix until a subnet pool
	// supplies it (see Pending).
	CIDR netip.Prefix
	// From is the subnet pool of the CIDR. It is nil for a declared CIDR and in the observed state.
	From *Allocation
	// Gateway is the router's address. The zero Addr means none.
	Gateway netip.Addr
	// Pools are the ranges from which Neutron allocates addresses. They are sorted, and adjacent ranges are joined.
	Pools []Range
	// DHCP says whether Neutron serves addresses by DHCP.
	DHCP bool
	// DNSServers are in order of preference.
	DNSServers []netip.Addr
	// HostRoutes are sorted by destination, then by next hop.
	HostRoutes []Route
	// IPv6AddressMode says how hosts get addresses, and IPv6RAMode what Neutron's routers advertise. Neutron never
	// changes them after creation.
	IPv6AddressMode, IPv6RAMode IPv6Mode
	// ServiceTypes are the device owners of the ports that the subnet serves, sorted. Empty means all ports.
	ServiceTypes []string
	// DNSPublishFixedIP says whether the cloud's DNS has records of the ports' addresses.
	DNSPublishFixedIP bool
}

// ObservedSubnet is a subnet as Neutron reports it.
type ObservedSubnet struct {
	ID string
	// Revision is Neutron's revision_number.
	Revision int
	Created  time.Time
	Name     string
	// Description is the full text, with the marker.
	Description string
	// PoolID is the subnet pool that supplied the CIDR, or empty.
	PoolID string
	Subnet
	// Used counts the addresses of ports, inside and outside the pools. It is nil if unknown. See Usage.
	Used *int64
}

func compareSubnets(a, b ObservedSubnet) int {
	return cmp.Or(comparePrefixes(a.CIDR, b.CIDR), cmp.Compare(a.ID, b.ID))
}

func subnetResource(cidr netip.Prefix) string { return "subnet " + cidr.String() }

// resource is the Resource of a Difference of the subnet.
func (s Subnet) resource() string {
	if s.Pending() {
		return "subnet " + s.Origin()
	}
	return subnetResource(s.CIDR)
}

// IPv6Mode is a way in which hosts get their IPv6 addresses, by Neutron's name. The empty mode means that Neutron takes
// no part.
type IPv6Mode string

// The modes that Neutron knows (IPV6_MODES in neutron_lib/constants.py).
const (
	// SLAAC means that each host derives its address from its MAC and from router advertisements (RFC 4862).
	SLAAC IPv6Mode = "slaac"
	// DHCPv6Stateful means that hosts request their addresses by DHCP (RFC 8415).
	DHCPv6Stateful IPv6Mode = "dhcpv6-stateful"
	// DHCPv6Stateless means SLAAC for the address, DHCP for everything else.
	DHCPv6Stateless IPv6Mode = "dhcpv6-stateless"
)

// Names of a subnet's IPv6 fields, as in the user's spec.
const (
	FieldIPv6AddressMode = "ipv6AddressMode"
	FieldIPv6RAMode      = "ipv6RAMode"
)

// selfAddressedBits is the only prefix length in which hosts can generate their own addresses. The other half of the
// address is the host's (RFC 4291, section 2.5.1).
const selfAddressedBits = 64

// SelfAddressed reports whether ports derive their addresses in such a subnet from their MACs. Every port of the
// network then has such an address, requested or not, and cannot have another one there (is_auto_address_subnet in
// neutron/common/ipv6_utils.py; the contract suite checks it).
func SelfAddressed(addressMode, raMode IPv6Mode) bool {
	makes := func(mode IPv6Mode) bool { return mode == SLAAC || mode == DHCPv6Stateless }
	return makes(addressMode) || makes(raMode)
}

// AdvertisedByOthers reports whether hosts of such a subnet follow the advertisements of a router outside Neutron.
// Neutron attaches no port in such a subnet to a router (_validate_subnet_address_mode in neutron/db/l3_db.py; the
// contract suite checks it).
func AdvertisedByOthers(addressMode, raMode IPv6Mode) bool { return addressMode != "" && raMode == "" }

// Origin is the CIDR and the pool that supplies it, for users.
func (s Subnet) Origin() string {
	switch {
	case s.From == nil:
		return s.CIDR.String()
	case s.Pending():
		return "from subnet pool " + strconv.Quote(s.From.Name)
	default:
		return s.CIDR.String() + " from subnet pool " + strconv.Quote(s.From.Name)
	}
}

// IPVersion is 4 or 6. It is 0 while the pool of the CIDR is unknown.
func (s Subnet) IPVersion() int {
	switch {
	case s.Pending():
		return s.From.Pool.IPVersion
	case !s.CIDR.IsValid():
		return 0
	default:
		return versionOf(s.CIDR.Addr())
	}
}

// mode is the subnet's IPv6 mode and the field that sets it.
func (s Subnet) mode() (mode IPv6Mode, field string) {
	if s.IPv6AddressMode == "" {
		return s.IPv6RAMode, FieldIPv6RAMode
	}
	return s.IPv6AddressMode, FieldIPv6AddressMode
}

// Canonical sorts and joins what has no order in Neutron, and makes empty lists nil. It writes to copies.
func (s Subnet) Canonical() Subnet {
	s.Pools = joinRanges(s.Pools)
	if len(s.DNSServers) == 0 {
		s.DNSServers = nil
	}
	s.ServiceTypes = slices.Sorted(slices.Values(s.ServiceTypes))
	s.HostRoutes = slices.SortedFunc(slices.Values(s.HostRoutes), compareRoutes)
	return s
}

// Serves reports whether Neutron gives a port of the device owner addresses of a subnet with these service types
// (SubnetServiceType.query_filter_service_subnets in neutron/objects/subnet.py; the contract suite checks it).
func Serves(serviceTypes []string, deviceOwner string) bool {
	return len(serviceTypes) == 0 || slices.Contains(serviceTypes, deviceOwner)
}

// Addresses counts the subnet's addresses as Neutron does (_generate_subnet_total_ips_dict in
// neutron/db/network_ip_availability_db.py). It counts the pools, or the CIDR if there are no pools. The result is at
// most math.MaxInt64, because an IPv6 /64 has 2^64.
func (s Subnet) Addresses() int64 {
	if len(s.Pools) == 0 && s.CIDR.IsValid() {
		return Range{s.CIDR.Masked().Addr(), lastAddr(s.CIDR)}.Size()
	}
	var sum int64
	for _, pool := range s.Pools {
		size := pool.Size()
		if size > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += size
	}
	return sum
}

// Usage says how full the subnet is. known is false if the count is unknown. Neutron also counts used addresses outside
// the pools, such as a router's. Used includes them, up to Total.
func (s ObservedSubnet) Usage() (u Usage, known bool) {
	if s.Used == nil {
		return Usage{}, false
	}
	total := s.Addresses()
	return Usage{min(*s.Used, total), total}, true
}

// SubnetField is the user's name of a field of the subnet at a place in Spec.Subnets. The fields of the first subnet
// are in the spec itself.
func SubnetField(place int, field string) string {
	if place == 0 {
		return field
	}
	return fmt.Sprintf("additionalSubnets[%d].%s", place-1, field)
}

// InSubnet renames the fields in the errors of the subnet at a place in Spec.Subnets, as SubnetField does. It accepts
// FieldErrors joined by errors.Join.
func InSubnet(place int, err error) error {
	var field *FieldError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, err := range joined.Unwrap() {
			errs = append(errs, InSubnet(place, err))
		}
		return errors.Join(errs...)
	}
	if place == 0 || !errors.As(err, &field) {
		return err
	}
	return &FieldError{SubnetField(place, field.Field), field.Problem}
}

// cidrField is the field that determines the CIDR.
func (s Subnet) cidrField() string {
	if s.From != nil {
		return FieldSubnetPool
	}
	return "cidr"
}

// Validate refuses what makes a plan impossible, as a FieldError. It refuses a CIDR that Neutron stores in another
// form, because the subnet would never be found. It refuses what the subnet pool does not supply. Otherwise a plan
// would delete a subnet for one that cannot be created. The API server's rules or Neutron refuse the rest
// (docs/adr/0023).
func (s Subnet) Validate() error {
	if s.Pending() {
		return s.validateAllocation()
	}
	longest := s.CIDR.Addr().BitLen() - 2
	switch {
	case !s.CIDR.IsValid():
		return &FieldError{"cidr", "write a network address and prefix length, such as 192.168.0.0/16"}
	case s.CIDR != s.CIDR.Masked():
		return &FieldError{s.cidrField(), fmt.Sprintf("%s has host bits set: write %s", s.CIDR, s.CIDR.Masked())}
	case s.CIDR.Bits() == 0 || s.CIDR.Bits() > longest:
		return &FieldError{s.cidrField(), fmt.Sprintf("%s has no usable range: write a prefix length from 1 to %d",
			s.CIDR, longest)}
	}
	return nil
}

func versionOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

func (s Spec) declares(cidr netip.Prefix) bool {
	return slices.ContainsFunc(s.Subnets, func(declared Subnet) bool { return declared.CIDR == cidr })
}

// subnetDescription is the desired description of a subnet.
func (s Spec) subnetDescription(actual ObservedSubnet) (string, error) {
	if !s.Import.keepsNames() {
		return s.Owner.Marker(), nil
	}
	want := withMarker(s.Owner, actual.Description)
	if length := utf8.RuneCountInString(want); length > MaxDescription {
		return "", &BlockedError{fmt.Sprintf("With the ownership marker, the description of subnet %s (%s) has %d "+
			"characters. Neutron allows %d. Shorten it to %d, or set import.overwrite to replace it.",
			actual.ID, actual.CIDR, length, MaxDescription, MaxUserDescription)}
	}
	return want, nil
}

// subnet compares the settings that can change.
func (d *differences) subnet(declared, actual Subnet) {
	d.compare(FieldGateway, gatewayString(declared.Gateway), gatewayString(actual.Gateway))
	d.compare(FieldAllocationPools, join(declared.Pools), join(actual.Pools))
	d.compare(FieldDHCP, strconv.FormatBool(declared.DHCP), strconv.FormatBool(actual.DHCP))
	d.compare(FieldDNSServers, join(declared.DNSServers), join(actual.DNSServers))
	d.compare(FieldHostRoutes, join(declared.HostRoutes), join(actual.HostRoutes))
	d.compare(FieldServiceTypes, quotedAll(declared.ServiceTypes), quotedAll(actual.ServiceTypes))
	d.compare(FieldDNSPublishFixedIP,
		strconv.FormatBool(declared.DNSPublishFixedIP), strconv.FormatBool(actual.DNSPublishFixedIP))
}

// fixedDifferences lists the differences in fields that Neutron fixes at creation.
func (s Subnet) fixedDifferences(actual Subnet) []Difference {
	d := differences{resource: subnetResource(s.CIDR)}
	if s.From != nil && s.From.PrefixLength != 0 {
		d.compare(FieldPrefixLength, strconv.Itoa(s.From.PrefixLength), strconv.Itoa(actual.CIDR.Bits()))
	}
	mode := func(m IPv6Mode) string { return cmp.Or(string(m), None) }
	d.compare(FieldIPv6AddressMode, mode(s.IPv6AddressMode), mode(actual.IPv6AddressMode))
	d.compare(FieldIPv6RAMode, mode(s.IPv6RAMode), mode(actual.IPv6RAMode))
	return d.found
}

// planSubnet plans the step for a declared subnet. network refers to n, which is the zero value before its creation.
func planSubnet(spec Spec, network Ref, n ObservedNetwork, declared Subnet) (Step, error) {
	declared = declared.Canonical()
	if declared.unresolved() {
		return Step{}, nil
	}
	actual, exists := n.SubnetByCIDR(declared.CIDR)
	if !exists {
		for _, s := range n.Subnets {
			switch {
			case spec.Owner.Owns(s.Description):
			case s.CIDR.Overlaps(declared.CIDR):
				return Step{}, blockedBySubnet(spec.Owner, n, s, declared)
			case spec.mayBe(declared, s):
				// It may have lost its marker. A second subnet would strand the users of the first.
				return Step{}, &BlockedError{fmt.Sprintf("Subnet %s (%s) of network %s is from subnet pool %q and does not "+
					"bear the marker %s. No second subnet is created from that pool. Delete the subnet, or append the marker "+
					"to its description.", s.ID, s.CIDR, n.ID, declared.From.Name, spec.Owner)}
			}
		}
		return createSubnet(spec, network, declared), nil
	}
	if !spec.Owner.Owns(actual.Description) && !spec.adoptable(actual) {
		return Step{}, blockedBySubnet(spec.Owner, n, actual, declared)
	}

	if fixed := declared.fixedDifferences(actual.Subnet); len(fixed) > 0 {
		if spec.Import.ID != "" {
			// A wrong field is no reason to delete a subnet that others created.
			return Step{}, &BlockedError{fmt.Sprintf("The %s of subnet %s (%s) on the imported network %s is %s, which "+
				"cannot change. An imported subnet is not replaced. Declare that value, or replace the subnet.",
				fixed[0].Field, actual.ID, actual.CIDR, n.ID, fixed[0].Actual)}
		}
		// An earlier step deletes the old subnet.
		create := createSubnet(spec, network, declared)
		create.Reason, create.Differences = reasonFixed, fixed
		return create, nil
	}

	name := spec.nameOf(actual.Name)
	description, err := spec.subnetDescription(actual)
	if err != nil {
		return Step{}, err
	}
	d := differences{resource: subnetResource(declared.CIDR)}
	d.basics(basics{name, description, true}, basics{actual.Name, actual.Description, true})
	d.subnet(declared, actual.Canonical())
	step := actual.step(UpdateSubnet, n.ID, reasonDiffers, d.found...)
	step.SubnetName, step.SubnetDescription, step.Subnet = name, description, declared
	return step, nil
}

// step is an update or the deletion of the subnet.
func (s ObservedSubnet) step(action Action, networkID, reason string, settles ...Difference) Step {
	return Step{
		Action: action, Ref: Ref{ID: s.ID}, Revision: s.Revision, NetworkRef: Ref{ID: networkID},
		SubnetName: s.Name, SubnetDescription: s.Description, Subnet: s.Subnet, PoolID: s.PoolID,
		Differences: settles, Reason: reason,
	}
}

func blockedBySubnet(owner Owner, n ObservedNetwork, s ObservedSubnet, declared Subnet) error {
	return &BlockedError{fmt.Sprintf("Subnet %s (%s) of network %s does not bear the marker %s. It blocks the declared "+
		"subnet %s. Delete the subnet, or append the marker to its description.",
		s.ID, s.CIDR, n.ID, owner, declared.CIDR)}
}

func createSubnet(spec Spec, network Ref, subnet Subnet) Step {
	declared := subnet.CIDR.String()
	if subnet.From != nil { // The pool supplies another CIDR than that of a subnet that is replaced.
		subnet.CIDR, subnet.Gateway, subnet.Pools = netip.Prefix{}, netip.Addr{}, nil
		declared = "one " + subnet.Origin()
	}
	return Step{
		Action: CreateSubnet, NetworkRef: network,
		SubnetName: spec.Name, SubnetDescription: spec.Owner.Marker(), Subnet: subnet,
		Reason:      "it is declared but missing",
		Differences: []Difference{existence(subnet.resource(), declared)},
	}
}

// barredBy reports whether Neutron refuses the subnet that the step creates until another subnet is deleted. On one
// network, all subnets of one IP version come from one pool, or none does (_validate_network_subnetpools in
// neutron/db/ipam_backend_mixin.py; the contract suite checks it). With address scopes, a cloud may allow more. Even
// there, the new subnet waits for the deletion.
func (s Step) barredBy(going Step) bool {
	pool := ""
	if s.Subnet.From != nil {
		pool = s.Subnet.From.Pool.ID
	}
	return s.Subnet.IPVersion() == going.Subnet.IPVersion() && pool != going.PoolID
}

// reasonFixed is the reason to replace an existing subnet.
const reasonFixed = "an immutable field differs"

// dropSubnet plans the deletion of an owned subnet that is not declared, or that differs in a fixed field.
func dropSubnet(spec Spec, n ObservedNetwork, s ObservedSubnet) Step {
	if !spec.Owner.Owns(s.Description) || spec.doubtful(s) {
		return Step{}
	}
	step := s.step(DeleteSubnet, n.ID, "it is no longer declared", surplus(subnetResource(s.CIDR), s.ID))
	for _, declared := range spec.Subnets {
		switch {
		case declared.CIDR == s.CIDR:
			step.Reason, step.Differences = reasonFixed, declared.fixedDifferences(s.Subnet)
			return step
		case !s.isFrom(declared) || declared.unresolved():
		case declared.Pending():
			step.Reason = reasonFixed
		default:
			step.Reason = "it is a duplicate of the subnet " + declared.CIDR.String() + " from its pool"
			if kept, exists := n.SubnetByCIDR(declared.CIDR); exists {
				step.Keeper = Keeper{Resource: n.identity().Resource, Owner: spec.Owner, Subnet: kept.ID}
			}
		}
	}
	return step
}

// subnetActions are the actions on a subnet.
var subnetActions = map[Action]facts{
	CreateSubnet: {
		creates: true,
		about:   func(s Step) string { return s.Subnet.Origin() },
		done:    func(s Step) string { return "Created subnet " + s.Subnet.Origin() },
	},
	UpdateSubnet: {updates: true, about: Step.subnet},
	DeleteSubnet: {
		deletes: true, postponable: true, about: Step.subnet,
		done: func(s Step) string { return "Deleted subnet " + s.Subnet.CIDR.String() },
	},
}

func (s Step) subnet() string { return fmt.Sprintf("%s (%s)", s.ID, s.Subnet.CIDR) }
