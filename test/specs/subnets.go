package specs

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// subnetFields are the fields of a NetworkSpec's first subnet but the cidr. They serve for the other subnets, too.
var subnetFields = []field[cloudteamv1.NetworkSpec]{
	{"gateway and allocationPools", drawGatewayAndPools},
	{"dhcp", func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
		s.DHCP = rapid.Ptr(rapid.Bool(), true).Draw(t, "dhcp")
		if s.DHCP != nil && (s.IPv6AddressMode != "" || s.IPv6RAMode != "") {
			*s.DHCP = true
		}
	}},
	{"dnsServers", drawDNSServers},
	{"hostRoutes", drawHostRoutes},
}

// additionalCIDRs are those that additional subnets have: few, so that subnets that went come back.
var additionalCIDRs = []netip.Prefix{
	netip.MustParsePrefix("10.200.0.0/24"), netip.MustParsePrefix("172.30.1.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("fd0b::/64"), netip.MustParsePrefix("fd0c:1::/112"), netip.MustParsePrefix("fd0d::/48"),
	netip.MustParsePrefix("fd0e::/64"),
}

// additionalModes are the IPv6 modes of some of them. They cannot change, and so are the same each time.
var additionalModes = map[netip.Prefix]cloudteamv1.IPv6Mode{
	netip.MustParsePrefix("fd0d::/48"): cloudteamv1.IPv6ModeDHCPv6Stateful,
	netip.MustParsePrefix("fd0e::/64"): cloudteamv1.IPv6ModeSLAAC,
}

// drawModes draws the IPv6 modes of a range.
func drawModes(t *rapid.T, cidr netip.Prefix, spec *cloudteamv1.SubnetSpec) {
	modes := []cloudteamv1.IPv6Mode{"", cloudteamv1.IPv6ModeDHCPv6Stateful}
	if cidr.Bits() == 64 {
		modes = append(modes, cloudteamv1.IPv6ModeSLAAC, cloudteamv1.IPv6ModeDHCPv6Stateless)
	}
	mode := rapid.SampledFrom(modes).Draw(t, "mode")
	which := rapid.IntRange(0, 2).Draw(t, "modes")
	if cidr.Addr().Is4() {
		return
	}
	if which != 1 {
		spec.IPv6AddressMode = mode
	}
	if which != 2 {
		spec.IPv6RAMode = mode
	}
}

func drawAdditionalSubnets(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	first := netip.MustParsePrefix(spec.CIDR)
	possible := slices.DeleteFunc(slices.Clone(additionalCIDRs), func(p netip.Prefix) bool {
		return p.Overlaps(first) || !l.hasRoom(p) || p.Addr().Is6() && spec.MTU != nil && *spec.MTU < 1280
	})
	spec.AdditionalSubnets = nil
	if len(possible) == 0 {
		_ = rapid.Bool().Draw(t, "no room")
		return
	}
	cidrs := rapid.SliceOfNDistinct(rapid.SampledFrom(possible), 0, min(3, len(possible)), rapid.ID)
	for _, cidr := range cidrs.Draw(t, "additionalSubnets") {
		subnet := cloudteamv1.NetworkSpec{}
		subnet.CIDR = fmt.Sprintf("%s/%d", spell(t, cidr.Addr()), cidr.Bits())
		subnet.IPv6AddressMode, subnet.IPv6RAMode = additionalModes[cidr], additionalModes[cidr]
		for _, f := range subnetFields {
			if oneIn(t, 3, "with "+f.name) {
				f.draw(t, l, &subnet)
			}
		}
		spec.AdditionalSubnets = append(spec.AdditionalSubnets, subnet.SubnetSpec)
	}
}

// hasIPv6 reports whether a spec has a subnet of IPv6.
func hasIPv6(spec *cloudteamv1.NetworkSpec) bool {
	is6 := func(s cloudteamv1.SubnetSpec) bool { return netip.MustParsePrefix(s.CIDR).Addr().Is6() }
	return is6(spec.SubnetSpec) || slices.ContainsFunc(spec.AdditionalSubnets, is6)
}
