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

// Names of the fields of a subnet that say whom it serves, and who learns of it.
const (
	FieldServiceTypes      = "serviceTypes"
	FieldDNSPublishFixedIP = "dnsPublishFixedIP"
)

// Names of the fields of a subnet whose CIDR comes from a subnet pool, as the user writes them in a spec.
const (
	FieldSubnetPool   = "subnetPool"
	FieldPrefixLength = "prefixLength"
)

// Subnet is a subnet's settings in canonical form, in which two that mean the same are equal. Make one with
// Canonical; both what is declared and what is observed are brought into this form before they are compared, so that a
// difference in spelling is never taken for a change.
type Subnet struct {
	// CIDR is the network address and prefix length, with no host bits set. It is the zero Prefix where it is yet to be
	// taken from a subnet pool (see Pending).
	CIDR netip.Prefix
	// From is the subnet pool that the CIDR comes from; nil where the CIDR is declared, and in what is observed.
	From *Allocation
	// Gateway is the router's address; the zero Addr means none.
	Gateway netip.Addr
	// Pools are the ranges that Neutron gives addresses from, sorted, with neighbours joined.
	Pools []Range
	// DHCP says whether Neutron serves addresses.
	DHCP bool
	// DNSServers are in order of preference.
	DNSServers []netip.Addr
	// HostRoutes are sorted by destination, then by next hop.
	HostRoutes []Route
	// IPv6AddressMode and IPv6RAMode say how hosts come to addresses, and what Neutron's routers advertise. Neutron fixes
	// them when it makes the subnet.
	IPv6AddressMode, IPv6RAMode IPv6Mode
	// ServiceTypes are the device owners of the ports that have addresses of the subnet, sorted; empty for all ports.
	ServiceTypes []string
	// DNSPublishFixedIP says whether the cloud's DNS has records of the ports' addresses.
	DNSPublishFixedIP bool
}

// SubnetPool is a subnet pool in Neutron, from which it takes CIDRs.
type SubnetPool struct {
	ID string
	// IPVersion is 4 or 6.
	IPVersion int
	// MinPrefixLength and MaxPrefixLength bound what may be asked for; DefaultPrefixLength is what comes of not asking.
	MinPrefixLength, MaxPrefixLength, DefaultPrefixLength int
}

// Allocation is how a subnet comes to a CIDR that is not declared. It is shared between copies of a Subnet and MUST NOT
// be changed.
type Allocation struct {
	// Name is what the spec calls the pool: its id or its name.
	Name string
	// Pool is the pool of that name; the zero value until it was looked up.
	Pool SubnetPool
	// PrefixLength is that of the CIDR; 0 leaves it to the pool, and then any is right.
	PrefixLength int
	// NoGateway is true of a subnet without a router. Otherwise the router has DefaultGateway.
	NoGateway bool
	// Unresolved is true where it is not known which pool is meant, and Pool is zero then: no subnet is made for it, and
	// none goes that may be meant.
	Unresolved bool
	// Given is the id of the subnet that was last seen to stand for the declared one; empty where none was. Where the pool
	// is Unresolved it is what tells that subnet.
	Given string
}

// ObservedSubnet is a subnet as Neutron has it.
type ObservedSubnet struct {
	ID string
	// Revision is Neutron's revision_number.
	Revision int
	// Created is when Neutron made it.
	Created time.Time
	Name    string
	// Description is whole, marker included.
	Description string
	// PoolID is the subnet pool that the CIDR was taken from; empty where it was taken from none.
	PoolID string
	Subnet
	// Used counts the addresses that ports have, in the pools or not; nil where nobody can tell. See Usage.
	Used *int64
}

func compareSubnets(a, b ObservedSubnet) int {
	return cmp.Or(comparePrefixes(a.CIDR, b.CIDR), cmp.Compare(a.ID, b.ID))
}

func subnetResource(cidr netip.Prefix) string { return "subnet " + cidr.String() }

// resource is what a Difference of the subnet is of.
func (s Subnet) resource() string {
	if s.Pending() {
		return "subnet " + s.Origin()
	}
	return subnetResource(s.CIDR)
}

// Pending reports whether the subnet's CIDR is yet to be taken from its pool. Gateway and Pools, which follow from the
// CIDR, are empty as long.
func (s Subnet) Pending() bool { return s.From != nil && !s.CIDR.IsValid() }

// unresolved reports whether it is not known which subnet is meant, as its pool is Unresolved and none was seen before.
func (s Subnet) unresolved() bool { return s.Pending() && s.From.Unresolved }

// Origin is the CIDR, and the pool that it comes from.
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

// IPVersion is 4 or 6, or 0 where the pool is not known yet that the CIDR is to come from.
func (s Subnet) IPVersion() int {
	switch {
	case s.Pending():
		return s.From.Pool.IPVersion
	case !s.CIDR.IsValid():
		return 0
	case s.CIDR.Addr().Is4():
		return 4
	default:
		return 6
	}
}

// prefixLength is that of the CIDR, or what the pool is asked for; 0 where neither is known.
func (s Subnet) prefixLength() int {
	if s.Pending() {
		return cmp.Or(s.From.PrefixLength, s.From.Pool.DefaultPrefixLength)
	}
	return s.CIDR.Bits()
}

// mode is the subnet's, whichever field sets it, and the field.
func (s Subnet) mode() (mode IPv6Mode, field string) {
	if s.IPv6AddressMode == "" {
		return s.IPv6RAMode, FieldIPv6RAMode
	}
	return s.IPv6AddressMode, FieldIPv6AddressMode
}

// at is the subnet with a CIDR from its pool, and with the gateway and the pools that follow from that. They are the
// ones that Neutron gives it (_allocate_any_subnet in neutron/ipam/subnet_alloc.py; the contract suite holds it).
func (s Subnet) at(cidr netip.Prefix) Subnet {
	s.CIDR, s.Gateway = cidr, netip.Addr{}
	if !s.From.NoGateway {
		s.Gateway = DefaultGateway(cidr)
	}
	s.Pools = DefaultPools(cidr, s.Gateway)
	return s
}

// afresh is the subnet as it is declared: with a CIDR that is yet to come, where that is to come from a pool.
func (s Subnet) afresh() Subnet {
	if s.From != nil {
		s.CIDR, s.Gateway, s.Pools = netip.Prefix{}, netip.Addr{}, nil
	}
	return s
}

// Canonical sorts and joins what has no order in Neutron, and makes empty lists nil. It writes to copies.
func (s Subnet) Canonical() Subnet {
	s.Pools = joinRanges(s.Pools)
	if len(s.DNSServers) == 0 {
		s.DNSServers = nil
	}
	s.ServiceTypes = canonicalServiceTypes(s.ServiceTypes)
	if len(s.HostRoutes) == 0 {
		s.HostRoutes = nil
		return s
	}
	if !slices.IsSortedFunc(s.HostRoutes, compareRoutes) {
		s.HostRoutes = slices.SortedFunc(slices.Values(s.HostRoutes), compareRoutes)
	}
	return s
}

// canonicalServiceTypes are the same, sorted. It writes to a copy.
func canonicalServiceTypes(owners []string) []string {
	switch {
	case len(owners) == 0:
		return nil
	case slices.IsSorted(owners):
		return owners
	default:
		return slices.Sorted(slices.Values(owners))
	}
}

// Serves reports whether Neutron gives addresses of a subnet of these service types to a port of the device owner
// (SubnetServiceType.query_filter_service_subnets in neutron/objects/subnet.py; the contract suite holds it).
func Serves(serviceTypes []string, deviceOwner string) bool {
	return len(serviceTypes) == 0 || slices.Contains(serviceTypes, deviceOwner)
}

// Addresses counts the subnet's addresses as Neutron does (_generate_subnet_total_ips_dict in
// neutron/db/network_ip_availability_db.py): those of its pools, or without pools those of its CIDR. It is at most
// math.MaxInt64, as an IPv6 /64 has 2^64.
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

// Usage is how full the subnet is; known is false where nobody can tell. Neutron counts addresses outside the pools,
// such as a router's, among those in use, and so Used tells them, too, up to Total.
func (s ObservedSubnet) Usage() (u Usage, known bool) {
	if s.Used == nil {
		return Usage{}, false
	}
	total := s.Addresses()
	return Usage{min(*s.Used, total), total}, true
}

// SubnetField is the name that the user gives a field of the subnet that stands at a place in Spec.Subnets: the first
// subnet's stand in the spec itself.
func SubnetField(place int, field string) string {
	if place == 0 {
		return field
	}
	return fmt.Sprintf("additionalSubnets[%d].%s", place-1, field)
}

// InSubnet gives the errors of the subnet that stands at a place in Spec.Subnets, FieldErrors joined by errors.Join,
// with the names that the user gives the fields there (see SubnetField).
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

// cidrField is the field that a CIDR which is not fit comes from.
func (s Subnet) cidrField() string {
	if s.From != nil {
		return FieldSubnetPool
	}
	return "cidr"
}

// Validate refuses, as a FieldError, what no plan can be made for: a CIDR that Neutron would hold in another form, so
// that the subnet would never be found, and what its subnet pool does not give, so that a subnet would be deleted for
// one that cannot be created. The API server's rules, or else Neutron, refuse the rest (docs/adr/0023).
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

// validateAllocation refuses what the pool does not give, and what Neutron accepts of such a subnet although its hosts
// cannot use it: name servers and routes of the other IP version (measured). The API server does not know the version.
func (s Subnet) validateAllocation() error {
	pool, length := s.From.Pool, s.prefixLength()
	if pool.ID == "" {
		return nil
	}
	longest := 30
	if pool.IPVersion == 6 {
		longest = 126
	}
	least, most := max(1, pool.MinPrefixLength), min(longest, pool.MaxPrefixLength)
	mode, field := s.mode()
	switch {
	case length < least || length > most:
		return &FieldError{FieldPrefixLength, fmt.Sprintf("subnet pool %q gives no /%d to hosts: write %d to %d",
			s.From.Name, length, least, most)}
	case mode != "" && pool.IPVersion == 4:
		return &FieldError{field, fmt.Sprintf("only IPv6 has it, and subnet pool %q is of IPv4: leave it out", s.From.Name)}
	case SelfAddressed(mode, "") && length != selfAddressedBits:
		return &FieldError{FieldPrefixLength, fmt.Sprintf("hosts make addresses of their own only in a /%d, and %s has "+
			"them: write such a prefix length, or %s", selfAddressedBits, mode, DHCPv6Stateful)}
	}
	for i, server := range s.DNSServers {
		if versionOf(server) != pool.IPVersion {
			return s.otherVersion(fmt.Sprintf("dnsServers[%d]", i), server)
		}
	}
	for i, route := range s.HostRoutes {
		if versionOf(route.Destination.Addr()) != pool.IPVersion || versionOf(route.NextHop) != pool.IPVersion {
			return s.otherVersion(fmt.Sprintf("hostRoutes[%d]", i), route)
		}
	}
	return nil
}

// otherVersion refuses an address that is not of the IP version of the subnet's pool.
func (s Subnet) otherVersion(field string, value fmt.Stringer) error {
	return &FieldError{field, fmt.Sprintf("%s is not of IPv%d, as subnet pool %q is: write one of IPv%d",
		value, s.From.Pool.IPVersion, s.From.Name, s.From.Pool.IPVersion)}
}

// versionOf is the IP version of an address.
func versionOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

func declaredSubnet(spec Spec, cidr netip.Prefix) (Subnet, bool) {
	for _, declared := range spec.Subnets {
		if declared.CIDR == cidr {
			return declared, true
		}
	}
	return Subnet{}, false
}

// Fits reports whether a subnet is one that a declared one from a pool can stand for: from the same pool, and alike in
// what cannot change.
func (s Subnet) Fits(o ObservedSubnet) bool {
	return o.isFrom(s) && len(s.at(o.CIDR).fixedDifferences(o.Subnet)) == 0
}

// isFrom reports whether the subnet is from the pool of a declared one, or was last seen to be where that pool is
// Unresolved.
func (s ObservedSubnet) isFrom(declared Subnet) bool {
	switch {
	case declared.From == nil || s.PoolID == "":
		return false
	case declared.From.Unresolved:
		return s.ID == declared.From.Given
	default:
		return s.PoolID == declared.From.Pool.ID
	}
}

// adoptable reports whether a subnet that bears nobody's marker may be taken over.
func (s Spec) adoptable(subnet ObservedSubnet) bool {
	_, _, marked := ParseDescription(subnet.Description)
	return s.Import.AdoptSubnets && !marked
}

// subnetDescription is what a subnet's description should be.
func (s Spec) subnetDescription(actual ObservedSubnet) (string, error) {
	if !s.Import.keepsNames() {
		return s.Owner.Marker(), nil
	}
	want := withMarker(s.Owner, actual.Description)
	if length := utf8.RuneCountInString(want); length > MaxDescription {
		return "", &BlockedError{fmt.Sprintf("with the ownership marker the description of subnet %s (%s) has %d "+
			"characters and Neutron holds %d: shorten it to %d, or allow import.overwrite to replace it",
			actual.ID, actual.CIDR, length, MaxDescription, MaxUserDescription)}
	}
	return want, nil
}

// difference lists the fields in which the declared subnet differs from the actual one, by their names in the API, save
// those that cannot change (see fixedDifferences).
func (s Subnet) difference(actual Subnet) []Difference {
	var diffs []Difference
	add := func(field, declared, got string) {
		diffs = append(diffs, Difference{Field: field, Declared: declared, Actual: got})
	}
	if s.Gateway != actual.Gateway {
		add(FieldGateway, gatewayString(s.Gateway), gatewayString(actual.Gateway))
	}
	if !slices.Equal(s.Pools, actual.Pools) {
		add(FieldAllocationPools, join(s.Pools), join(actual.Pools))
	}
	if s.DHCP != actual.DHCP {
		add(FieldDHCP, fmt.Sprint(s.DHCP), fmt.Sprint(actual.DHCP))
	}
	if !slices.Equal(s.DNSServers, actual.DNSServers) {
		add(FieldDNSServers, join(s.DNSServers), join(actual.DNSServers))
	}
	if !slices.Equal(s.HostRoutes, actual.HostRoutes) {
		add(FieldHostRoutes, join(s.HostRoutes), join(actual.HostRoutes))
	}
	if !slices.Equal(s.ServiceTypes, actual.ServiceTypes) {
		add(FieldServiceTypes, quotedAll(s.ServiceTypes), quotedAll(actual.ServiceTypes))
	}
	if s.DNSPublishFixedIP != actual.DNSPublishFixedIP {
		add(FieldDNSPublishFixedIP, fmt.Sprint(s.DNSPublishFixedIP), fmt.Sprint(actual.DNSPublishFixedIP))
	}
	return diffs
}

// fixedDifferences are the differences in what is fixed when Neutron makes a subnet.
func (s Subnet) fixedDifferences(actual Subnet) []Difference {
	diffs := s.allocationDifferences(actual)
	add := func(field string, declared, got IPv6Mode) {
		if declared != got {
			diffs = append(diffs, Difference{
				subnetResource(s.CIDR), field, cmp.Or(string(declared), None), cmp.Or(string(got), None),
			})
		}
	}
	add(FieldIPv6AddressMode, s.IPv6AddressMode, actual.IPv6AddressMode)
	add(FieldIPv6RAMode, s.IPv6RAMode, actual.IPv6RAMode)
	return diffs
}

// allocationDifferences are the differences in what a subnet from a pool keeps for good.
func (s Subnet) allocationDifferences(actual Subnet) []Difference {
	if s.From == nil || s.From.PrefixLength == 0 || s.From.PrefixLength == actual.CIDR.Bits() {
		return nil
	}
	return []Difference{{
		subnetResource(actual.CIDR), FieldPrefixLength, strconv.Itoa(s.From.PrefixLength), strconv.Itoa(actual.CIDR.Bits()),
	}}
}

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

// planAllocation has a subnet created from its pool. Where the network has one of the pool that is not ours, ours may
// have lost its marker: a second one would leave what uses it behind.
func planAllocation(spec Spec, n ObservedNetwork, declared Subnet) (Step, error) {
	for _, o := range n.Subnets {
		if _, byCIDR := declaredSubnet(spec, o.CIDR); !byCIDR && o.isFrom(declared) && !spec.Owner.Owns(o.Description) {
			return Step{}, &BlockedError{fmt.Sprintf("network %s holds subnet %s (%s) from subnet pool %q, which does not bear "+
				"the marker %s: delete that subnet, or end its description with the marker",
				n.ID, o.ID, o.CIDR, declared.From.Name, spec.Owner)}
		}
	}
	return createSubnet(spec, Ref{ID: n.ID}, declared), nil
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

// barredBy reports whether a subnet that the step creates is one that Neutron refuses while another, which is to go, is
// there: all subnets of one IP version on a network are from one pool, or none is (_validate_network_subnetpools in
// neutron/db/ipam_backend_mixin.py; the contract suite holds it). By address scopes a cloud may allow more. There, too,
// such a subnet comes when the other has gone.
func (s Step) barredBy(going Step) bool {
	pool := ""
	if s.Subnet.From != nil {
		pool = s.Subnet.From.Pool.ID
	}
	return s.Subnet.IPVersion() == going.Subnet.IPVersion() && pool != going.PoolID
}

func deleteSubnet(networkID string, s ObservedSubnet, reason string) Step {
	return Step{
		Action: DeleteSubnet, Ref: Ref{ID: s.ID}, Revision: s.Revision, NetworkRef: Ref{ID: networkID},
		Subnet: s.Subnet, PoolID: s.PoolID, Reason: reason,
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
