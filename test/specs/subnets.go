package specs

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// drawServiceTypes draws those of others than NetworkPorts, and seldom any where there are NetworkPorts: few of these
// would have an address. None are drawn for a subnet in which these make their addresses themselves: they have one if
// they were there before the subnet, or came while it was for all, and nobody could say later which of them has.
func drawServiceTypes(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	s.ServiceTypes = nil
	if l.Ports == 0 || oneIn(t, 3, "kept for others") && !selfAddressed(s.SubnetSpec) {
		s.ServiceTypes = orNil(rapid.SliceOfNDistinct(deviceOwners(), 0, 2, rapid.ID).Draw(t, "serviceTypes"))
	}
	if !reservable(l, s.SubnetSpec) {
		s.ReservedFor = nil
	}
}

// drawReservedFor draws users that do not exist. Where there are NetworkPorts, they have only what is kept from these
// anyway: a NetworkPort that names an address would have none.
func drawReservedFor(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	users := rapid.SampledFrom([]cloudteamv1.AddressUser{
		{Namespace: "nobody"}, {Namespace: "nobody", Kind: "Deployment", Name: "web"},
		{Kind: "StatefulSet", Name: "nobody.0"},
	})
	s.ReservedFor = orNil(rapid.SliceOfNDistinct(users, 0, 3, rapid.ID).Draw(t, "reservedFor"))
	if !reservable(l, s.SubnetSpec) {
		s.ReservedFor = nil
	}
}

// reservable reports whether a subnet may have reservations.
func reservable(l Limits, s cloudteamv1.SubnetSpec) bool {
	return !selfAddressed(s) && (l.Ports == 0 || len(s.ServiceTypes) > 0)
}

// deviceOwners are kinds of ports. NetworkPorts are of none of them.
func deviceOwners() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"compute:nova", "network:dhcp", "network:router_interface", "neutron:数"})
}

// selfAddressed reports whether ports make their addresses in a subnet themselves.
func selfAddressed(s cloudteamv1.SubnetSpec) bool {
	return slices.ContainsFunc([]cloudteamv1.IPv6Mode{s.IPv6AddressMode, s.IPv6RAMode}, func(m cloudteamv1.IPv6Mode) bool {
		return m == cloudteamv1.IPv6ModeSLAAC || m == cloudteamv1.IPv6ModeDHCPv6Stateless
	})
}

// servesRouters reports whether a subnet has addresses for routers' interfaces.
func servesRouters(s cloudteamv1.SubnetSpec) bool {
	return len(s.ServiceTypes) == 0 || slices.Contains(s.ServiceTypes, "network:router_interface")
}

// additional is what an additional subnet cannot change, and so is the same each time.
type additional struct {
	// cidr is the zero Prefix of one from a pool, which pool names; length is then the prefix length, 0 for the pool's.
	cidr   netip.Prefix
	pool   string
	length int32
	// six is whether it is one of IPv6.
	six         bool
	address, ra cloudteamv1.IPv6Mode
	// kept is whether the subnet is for others than NetworkPorts, where there are any. It is the same each time, too: a
	// NetworkPort keeps an address that it has.
	kept bool
}

// additionals are few, so that subnets that went come back.
var additionals = []additional{
	{cidr: netip.MustParsePrefix("10.200.0.0/24")}, {cidr: netip.MustParsePrefix("172.30.1.0/24"), kept: true},
	{cidr: netip.MustParsePrefix("198.18.0.0/15")}, {cidr: netip.MustParsePrefix("fd0b::/64"), six: true},
	{cidr: netip.MustParsePrefix("fd0c:1::/112"), six: true, kept: true},
	{
		cidr: netip.MustParsePrefix("fd0d::/48"), six: true,
		address: cloudteamv1.IPv6ModeDHCPv6Stateful, ra: cloudteamv1.IPv6ModeDHCPv6Stateful,
	},
	{
		cidr: netip.MustParsePrefix("fd0e::/64"), six: true,
		address: cloudteamv1.IPv6ModeSLAAC, ra: cloudteamv1.IPv6ModeSLAAC,
	},
	{cidr: netip.MustParsePrefix("fd0f::/64"), six: true, address: cloudteamv1.IPv6ModeDHCPv6Stateless},
	{cidr: netip.MustParsePrefix("fd0f:1::/64"), six: true, ra: cloudteamv1.IPv6ModeSLAAC},
}

// possible reports whether a spec can have an additional subnet. What is on a network that is imported is not known
// here, so that its further subnets are from no pool.
func (a additional) possible(l Limits, spec *cloudteamv1.NetworkSpec) bool {
	switch {
	case a.six && spec.MTU != nil && *spec.MTU < 1280:
		return false
	case a.pool != "":
		return spec.Import == nil
	default:
		return !a.cidr.Overlaps(CIDR(spec.SubnetSpec)) && l.hasRoom(a.cidr)
	}
}

// declared is the subnet with what it cannot change.
func (a additional) declared(t *rapid.T) cloudteamv1.SubnetSpec {
	subnet := cloudteamv1.SubnetSpec{SubnetPool: a.pool, IPv6AddressMode: a.address, IPv6RAMode: a.ra}
	if a.pool == "" {
		subnet.CIDR = fmt.Sprintf("%s/%d", spell(t, a.cidr.Addr()), a.cidr.Bits())
	}
	if a.length != 0 {
		subnet.PrefixLength = new(a.length)
	}
	return subnet
}

// drawModes draws the IPv6 modes of a subnet of a prefix length.
func drawModes(t *rapid.T, six bool, length int, spec *cloudteamv1.SubnetSpec) {
	modes := []cloudteamv1.IPv6Mode{"", cloudteamv1.IPv6ModeDHCPv6Stateful}
	if length == 64 {
		modes = append(modes, cloudteamv1.IPv6ModeSLAAC, cloudteamv1.IPv6ModeDHCPv6Stateless)
	}
	mode := rapid.SampledFrom(modes).Draw(t, "mode")
	which := rapid.IntRange(0, 2).Draw(t, "modes")
	if !six {
		return
	}
	if which != 1 {
		spec.IPv6AddressMode = mode
	}
	if which != 2 {
		spec.IPv6RAMode = mode
	}
}

// leaveToOthers takes the gateway off a subnet in which another router than Neutron's advertises: one of Neutron's
// cannot serve it.
func leaveToOthers(s *cloudteamv1.SubnetSpec) {
	if s.IPv6AddressMode != "" && s.IPv6RAMode == "" {
		s.Gateway = cloudteamv1.GatewayNone
	}
}

func drawAdditionalSubnets(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	possible := slices.DeleteFunc(slices.Concat(additionals, l.pooledSubnets()), func(a additional) bool {
		return !a.possible(l, spec)
	})
	spec.AdditionalSubnets = nil
	if len(possible) == 0 {
		_ = rapid.Bool().Draw(t, "no room")
		return
	}
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(possible), 0, min(3, len(possible)), rapid.ID)
	for _, a := range l.besides(spec.SubnetSpec, chosen.Draw(t, "additionalSubnets")) {
		subnet := cloudteamv1.NetworkSpec{SubnetSpec: a.declared(t)}
		for _, f := range drawnIn(networkFields(), ofSubnet) {
			if oneIn(t, 3, "with "+f.path) {
				f.draw(t, l, &subnet)
			}
		}
		if l.Ports > 0 {
			subnet.ServiceTypes, subnet.ReservedFor = nil, nil
			if a.kept {
				subnet.ServiceTypes = rapid.SliceOfNDistinct(deviceOwners(), 1, 2, rapid.ID).Draw(t, "serviceTypes")
				drawReservedFor(t, l, &subnet)
			}
		}
		spec.AdditionalSubnets = append(spec.AdditionalSubnets, subnet.SubnetSpec)
	}
}

// hasIPv6 reports whether a spec has a subnet of IPv6.
func (l Limits) hasIPv6(spec *cloudteamv1.NetworkSpec) bool {
	return slices.ContainsFunc(spec.Subnets(), l.IsIPv6)
}
