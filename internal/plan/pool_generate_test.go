package plan_test

import (
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// poolNames are the names of subnet pools, which are also their ids.
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
	return slices.ContainsFunc(poolNames, func(name string) bool { return plantest.PoolRange(testPool(name).IPVersion).Overlaps(cidr) })
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
	s.CIDR = netip.PrefixFrom(plantest.PoolRange(testPool(s.PoolID).IPVersion).Addr(), testPool(s.PoolID).DefaultPrefixLength)
	s.Gateway = netip.Addr{}
	if gateway {
		s.Gateway = DefaultGateway(s.CIDR)
	}
	s.Pools = DefaultPools(s.CIDR, s.Gateway)
}
