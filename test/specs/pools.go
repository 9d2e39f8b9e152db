package specs

import (
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// SubnetPool is one from which Neutron takes the cidrs of subnets.
type SubnetPool struct {
	// Names are its id and its name, at least one of them.
	Names []string
	// IPVersion is 4 or 6.
	IPVersion int
	// DefaultPrefixLength is that of a cidr of which nobody asks for another, and PrefixLengths are others that it gives.
	// All of them have room for Limits.Ports NetworkPorts.
	DefaultPrefixLength int32
	PrefixLengths       []int32
}

// SubnetPool is the pool of an id or a name.
func (l Limits) SubnetPool(name string) (pool SubnetPool, exists bool) {
	at := slices.IndexFunc(l.SubnetPools, func(p SubnetPool) bool { return slices.Contains(p.Names, name) })
	if at < 0 {
		return SubnetPool{}, false
	}
	return l.SubnetPools[at], true
}

// CIDR is the range that a spec declares for a subnet, and the zero Prefix where Neutron chooses it.
func CIDR(s cloudteamv1.SubnetSpec) netip.Prefix {
	if s.SubnetPool != "" {
		return netip.Prefix{}
	}
	return netip.MustParsePrefix(s.CIDR)
}

// IsIPv6 reports whether a subnet is one of IPv6.
func (l Limits) IsIPv6(s cloudteamv1.SubnetSpec) bool {
	if pool, from := l.SubnetPool(s.SubnetPool); from {
		return pool.IPVersion == 6
	}
	return CIDR(s).Addr().Is6()
}

// drawPool has the first subnet's cidr taken from a pool.
func drawPool(t *rapid.T, l Limits, spec *cloudteamv1.SubnetSpec) {
	pool := rapid.SampledFrom(l.SubnetPools).Draw(t, "pool")
	spec.SubnetPool = rapid.SampledFrom(pool.Names).Draw(t, "subnetPool")
	length := pool.DefaultPrefixLength
	if len(pool.PrefixLengths) > 0 && rapid.Bool().Draw(t, "with a prefixLength") {
		length = rapid.SampledFrom(pool.PrefixLengths).Draw(t, "prefixLength")
		spec.PrefixLength = new(length)
	}
	drawModes(t, pool.IPVersion == 6, int(length), spec)
}

// pooledSubnets are the additional subnets that may be from pools. What they cannot change is the same each time, so
// that one is the same subnet by whichever name of its pool.
func (l Limits) pooledSubnets() (subnets []additional) {
	for _, pool := range l.SubnetPools {
		a := additional{six: pool.IPVersion == 6}
		length := pool.DefaultPrefixLength
		if len(pool.PrefixLengths) > 0 {
			length = pool.PrefixLengths[0]
			a.length = length
		}
		if a.six && length == 64 {
			a.address, a.ra = cloudteamv1.IPv6ModeSLAAC, cloudteamv1.IPv6ModeSLAAC
		}
		for _, name := range pool.Names {
			a.pool = name
			subnets = append(subnets, a)
		}
	}
	return subnets
}

// besides takes out of additional subnets those that Neutron would not have beside the first and each other: without
// address scopes all subnets of one IP version on a network are from one pool, of which a Network has one, or none is.
func (l Limits) besides(first cloudteamv1.SubnetSpec, subnets []additional) (fitting []additional) {
	pools := map[bool]string{l.IsIPv6(first): first.SubnetPool} // by whether it is IPv6
	for _, a := range subnets {
		if pool, known := pools[a.six]; known && (pool != "" || a.pool != "") {
			continue
		}
		pools[a.six] = a.pool
		fitting = append(fitting, a)
	}
	return fitting
}
