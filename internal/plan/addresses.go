package plan

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Size is how many addresses the range has, at most math.MaxInt64; 0 where it is no range of one family.
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

// Usage is how many addresses of a subnet are in use, and of how many. Used is at most Total.
type Usage struct {
	Used, Total int64
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

// Low reports whether less than a share, from 0 to 1, of the addresses is free. What was low stays so until half as
// many again, and at least one more, are free, or all: a count that goes to and fro about the share does not have it
// come and go. A share of 0 is never fallen short of.
func (u Usage) Low(share float64, was bool) bool {
	least := share * float64(u.Total)
	if was && share > 0 {
		least = min(float64(u.Total), least+max(least/2, 1))
	}
	return float64(u.Total-u.Used) < least
}

// usageSteps is into how many parts Near divides a subnet.
const usageSteps = 20

// Near reports whether two counts of one subnet are less than a step apart: a twentieth of its addresses, and at least
// one address.
func (u Usage) Near(other Usage) bool {
	step := max(1, float64(u.Total)/usageSteps)
	return u.Total == other.Total && math.Abs(float64(u.Used-other.Used)) < step
}
