package plan

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"slices"
)

// Range is a range of addresses. It includes both ends.
type Range struct {
	Start, End netip.Addr
}

// String formats the range as start-end.
func (r Range) String() string { return r.Start.String() + "-" + r.End.String() }

func (r Range) contains(a netip.Addr) bool {
	return r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0
}

// Size counts the addresses of the range, up to math.MaxInt64. It is 0 if the ends do not form a range of one IP
// family.
func (r Range) Size() int64 {
	if !r.Start.IsValid() || r.Start.BitLen() != r.End.BitLen() || r.End.Less(r.Start) {
		return 0
	}
	from, to := r.Start.As16(), r.End.As16()
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(to[8:]), binary.BigEndian.Uint64(from[8:]), 0)
	high, _ := bits.Sub64(binary.BigEndian.Uint64(to[:8]), binary.BigEndian.Uint64(from[:8]), borrow)
	if high > 0 || low >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low) + 1
}

// joinRanges sorts ranges and joins those that overlap or touch. Neutron stores ranges as the client wrote them, so one
// set of addresses has many spellings.
func joinRanges(ranges []Range) []Range {
	var joined []Range
	for _, r := range slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return a.Start.Compare(b.Start) }) {
		if len(joined) > 0 {
			last := &joined[len(joined)-1]
			// The last address of a family has no next address, and no address of the other family follows it.
			if r.Start.Compare(last.End) <= 0 || r.Start == last.End.Next() {
				if r.End.Compare(last.End) > 0 {
					last.End = r.End
				}
				continue
			}
		}
		joined = append(joined, r)
	}
	return joined
}

// Route is a route for the hosts on a subnet.
type Route struct {
	Destination netip.Prefix
	NextHop     netip.Addr
}

// String formats the route as "destination via next hop".
func (r Route) String() string { return r.Destination.String() + " via " + r.NextHop.String() }

func compareRoutes(a, b Route) int {
	return cmp.Or(comparePrefixes(a.Destination, b.Destination), a.NextHop.Compare(b.NextHop))
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// DefaultGateway is the gateway that Neutron chooses if the request names none: the first address after the network
// address. It is invalid without a CIDR.
func DefaultGateway(cidr netip.Prefix) netip.Addr {
	if !cidr.IsValid() {
		return netip.Addr{}
	}
	return cidr.Masked().Addr().Next()
}

// DefaultPools are the ranges that Neutron allocates addresses from if the request names none. They hold every address
// except the network address, the IPv4 broadcast address and the gateway (neutron.ipam.utils.generate_pools). There are
// none without a CIDR.
//
// The plan computes them because Neutron refuses a new gateway inside the pools that it computed for the old gateway.
// One request must change the gateway and the pools.
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

// usable returns the first and last address that a host may have. Both are invalid if there is none.
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

// lastAddr is the address of cidr with all host bits set. In an IPv4 subnet it is the broadcast address.
func lastAddr(cidr netip.Prefix) netip.Addr {
	bytes := cidr.Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

func gatewayString(gateway netip.Addr) string {
	if !gateway.IsValid() {
		return None
	}
	return gateway.String()
}

// Usage is the number of used addresses of one or more subnets and the total number. Used is at most Total.
type Usage struct {
	Used, Total int64
}

// Plus counts the addresses of two subnets together, up to math.MaxInt64.
func (u Usage) Plus(other Usage) Usage {
	sum := func(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }
	return Usage{sum(u.Used, other.Used), sum(u.Total, other.Total)}
}

// Low reports whether the free part of the addresses is smaller than share, which is between 0 and 1. The limit has
// hysteresis, so that a count near it does not toggle the result. Once true, it stays true until 50 % more addresses,
// and at least one more, are free. It is false if all are free. With a share of 0 it is always false.
func (u Usage) Low(share float64, was bool) bool {
	least := share * float64(u.Total)
	if was && share > 0 {
		least = min(float64(u.Total), least+max(least/2, 1))
	}
	return float64(u.Total-u.Used) < least
}

// usageSteps is the number of parts into which Near divides a subnet.
const usageSteps = 20

// Near reports whether two counts of one subnet differ by less than one step. A step is a twentieth of the addresses,
// and at least one address.
func (u Usage) Near(other Usage) bool {
	step := max(1, float64(u.Total)/usageSteps)
	return u.Total == other.Total && math.Abs(float64(u.Used-other.Used)) < step
}
