package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

// Range is a range of addresses, both ends included.
type Range struct {
	Start, End netip.Addr
}

// String is the range as start-end.
func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }

func (r Range) contains(a netip.Addr) bool {
	return r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0
}

// Route is a route that hosts on a subnet use.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
}

// String is the route as destination via next hop.
func (r Route) String() string { return r.Destination.String() + " via " + r.NextHop.String() }

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

func compareRoutes(a, b Route) int {
	return cmp.Or(comparePrefixes(a.Destination, b.Destination), a.NextHop.Compare(b.NextHop))
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// joinRanges sorts ranges and joins those that overlap or touch: Neutron keeps them as they were written, so the same
// set of addresses has many spellings.
func joinRanges(ranges []Range) []Range {
	if len(ranges) == 0 {
		return nil
	}
	if slices.IsSortedFunc(ranges, apart) {
		return ranges // as a rule: they were joined before
	}
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b Range) int {
		return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End))
	})
	joined := sorted[:1]
	for _, r := range sorted[1:] {
		last := &joined[len(joined)-1]
		if apart(r, *last) < 0 {
			if r.End.Compare(last.End) > 0 {
				last.End = r.End
			}
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// apart compares ranges as one that neither overlaps nor touches the other lies; others count as out of order: -1.
func apart(a, b Range) int {
	// The last address of a family has no next, and no address of the other family follows on it.
	if a.Start.Compare(b.End) <= 0 || a.Start == b.End.Next() {
		return -1
	}
	return 1
}

// DefaultGateway is the address that Neutron gives the router where none is named: the first after the network's own.
// Without a CIDR there is none.
func DefaultGateway(cidr netip.Prefix) netip.Addr {
	if !cidr.IsValid() {
		return netip.Addr{}
	}
	return cidr.Masked().Addr().Next()
}

// DefaultPools are the ranges that Neutron gives addresses from where none are named: every address but the network's
// own, the IPv4 broadcast address, and the gateway (neutron.ipam.utils.generate_pools). Without a CIDR there are none.
//
// They are computed here, and not left to Neutron, because Neutron refuses a new gateway that lies in the pools which
// it once computed around the old one: gateway and pools have to change in one request.
func DefaultPools(cidr netip.Prefix, gateway netip.Addr) []Range {
	first, last := usable(cidr)
	if !first.IsValid() {
		return nil
	}
	whole := Range{first, last}
	if !gateway.IsValid() || !whole.contains(gateway) {
		return []Range{whole}
	}
	var pools []Range
	if before := gateway.Prev(); gateway != first {
		pools = append(pools, Range{first, before})
	}
	if after := gateway.Next(); gateway != last {
		pools = append(pools, Range{after, last})
	}
	return pools
}

// usable gives the first and last address that a host may have; both are invalid where there is none.
func usable(cidr netip.Prefix) (first, last netip.Addr) {
	if !cidr.IsValid() {
		return netip.Addr{}, netip.Addr{}
	}
	cidr = cidr.Masked()
	first, last = cidr.Addr().Next(), lastAddr(cidr)
	if cidr.Addr().Is4() {
		last = last.Prev()
	}
	if !first.IsValid() || !last.IsValid() || !cidr.Contains(first) || first.Compare(last) > 0 {
		return netip.Addr{}, netip.Addr{}
	}
	return first, last
}

// lastAddr is the address of cidr with all host bits set: the broadcast address of an IPv4 subnet.
func lastAddr(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// FieldError is a declared value that cannot be planned with. The API server refuses most of them already; others came
// before it had the rule, or follow from what the cloud has.
type FieldError struct {
	// Field is the name of the field, as the user writes it: cidr, allocationPools[0].start.
	Field string
	// Problem says what is wrong and what to write instead.
	Problem string
}

// Error is the field and the problem.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

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

// SubnetField is the name that the user gives a field of the subnet that stands at a place in Spec.Subnets: the first
// subnet's stand in the spec itself.
func SubnetField(place int, field string) string {
	if place == 0 {
		return field
	}
	return fmt.Sprintf("additionalSubnets[%d].%s", place-1, field)
}

// Validate refuses, as a FieldError, what no plan can be made for: a CIDR that Neutron would hold in another form, so
// that the subnet would never be found, and what its subnet pool does not give, so that a subnet would be deleted for one
// that cannot be created. The API server's rules, or else Neutron, refuse the rest (docs/adr/0023).
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

func gatewayString(gateway netip.Addr) string {
	if !gateway.IsValid() {
		return None
	}
	return gateway.String()
}

// join prints a list as the user would say it: items with commas, or "none".
func join[T fmt.Stringer](items []T) string {
	if len(items) == 0 {
		return None
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, ", ")
}
