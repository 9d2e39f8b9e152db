package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// This file is the part of the cloud that has subnet pools, and draws subnets from them.

// cloudPools are the prefixes of the cloud's subnet pools, by their names, which are their ids.
var cloudPools = map[string]netip.Prefix{
	"pool-4": netip.MustParsePrefix("100.64.0.0/10"), "pool-6": netip.MustParsePrefix("2001:db8::/32"),
}

var poolNames = []string{"pool-4", "pool-6"}

// testPool is what Neutron says of a pool.
func testPool(name string) SubnetPool {
	if name == "pool-4" {
		return SubnetPool{ID: name, IPVersion: 4, MinPrefixLength: 12, MaxPrefixLength: 32, DefaultPrefixLength: 26}
	}
	return SubnetPool{ID: name, IPVersion: 6, MinPrefixLength: 48, MaxPrefixLength: 128, DefaultPrefixLength: 64}
}

// ofPool reports whether a CIDR has addresses of a pool. Neutron may give these to a subnet at any time.
func ofPool(cidr netip.Prefix) bool {
	return slices.ContainsFunc(poolNames, func(name string) bool { return cloudPools[name].Overlaps(cidr) })
}

// pooledSubnets are valid settings for a subnet from a pool.
func pooledSubnets(name string) *rapid.Generator[Subnet] {
	lengths := []int{0, 0, 16, 26, 30}
	if name == "pool-6" {
		lengths = []int{0, 0, 48, 64, 126}
	}
	return rapid.Custom(func(t *rapid.T) Subnet {
		s := Subnet{From: &Allocation{
			Name: name, Pool: testPool(name), PrefixLength: rapid.SampledFrom(lengths).Draw(t, "prefix length"),
			NoGateway: rapid.Bool().Draw(t, "no gateway"),
		}, DHCP: rapid.Bool().Draw(t, "DHCP")}
		drawModes(t, &s)
		drawServersAndRoutes(t, &s)
		return s
	})
}

// setOtherwise is a subnet of the same CIDR, or from the same pool, with other settings.
func setOtherwise(t *rapid.T, s Subnet) Subnet {
	if s.From != nil {
		return pooledSubnets(s.From.Name).Draw(t, "other subnet")
	}
	return subnets(s.CIDR).Draw(t, "other subnet")
}

// allocate takes the subnet's CIDR from its pool: the first block that is in no subnet of the pool, nor of the network.
// Its rules are those of neutron.ipam.subnet_alloc.
func (c *cloud) allocate(n ObservedNetwork, s *ObservedSubnet) {
	from := s.From
	s.From, s.PoolID = nil, from.Pool.ID
	s.Created = cloudEpoch.Add(time.Duration(c.serial) * time.Second)
	// The subnets that a block must not overlap.
	taken := slices.Clone(n.Subnets)
	for _, other := range c.networks {
		for _, o := range other.Subnets {
			if o.PoolID == s.PoolID {
				taken = append(taken, o)
			}
		}
	}
	length := cmp.Or(from.PrefixLength, from.Pool.DefaultPrefixLength)
	s.CIDR = netip.PrefixFrom(cloudPools[s.PoolID].Addr(), length)
	for {
		at := slices.IndexFunc(taken, func(o ObservedSubnet) bool { return o.CIDR.Overlaps(s.CIDR) })
		if at < 0 {
			break
		}
		larger := netip.PrefixFrom(s.CIDR.Addr(), min(length, taken[at].CIDR.Bits())).Masked()
		s.CIDR = netip.PrefixFrom(lastAddr(larger).Next(), length)
	}
	s.Gateway = s.CIDR.Addr().Next()
	first, last := s.Gateway.Next(), lastAddr(s.CIDR)
	if last.Is4() {
		last = last.Prev()
	}
	s.Pools = []Range{{first, last}}
}

// followAllocations applies what follows from the CIDRs that were taken from pools, where a spec has such subnets.
func followAllocations(t rapid.TB, spec Spec, c *cloud) {
	if slices.ContainsFunc(spec.Subnets, func(s Subnet) bool { return s.From != nil }) {
		mustApply(t, c, mustPlan(t, spec, c))
	}
}

// alikePool has what was taken from a pool be the first block of it, whichever it is, and however long: a length that
// is left to the pool stays as it was.
func alikePool(s *ObservedSubnet) {
	if s.PoolID == "" {
		return
	}
	gateway := s.Gateway.IsValid()
	s.Created = time.Time{}
	s.CIDR = netip.PrefixFrom(cloudPools[s.PoolID].Addr(), testPool(s.PoolID).DefaultPrefixLength)
	s.Gateway = netip.Addr{}
	if gateway {
		s.Gateway = DefaultGateway(s.CIDR)
	}
	s.Pools = DefaultPools(s.CIDR, s.Gateway)
}
