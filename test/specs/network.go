package specs

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// orNil gives empty lists the one form in which the API server hands them out.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Network draws specs that the API server accepts and, but for what its fields say of refusals, a cloud of these limits
// carries out.
func (l Limits) Network() *rapid.Generator[cloudteamv1.NetworkSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkSpec {
		var spec cloudteamv1.NetworkSpec
		fields := drawnNetworkFields()
		if len(l.Imports) > 0 && rapid.Bool().Draw(t, "imported") {
			imported := rapid.SampledFrom(l.Imports).Draw(t, "import")
			spec.Import, spec.SubnetSpec = imported.draw(t), *imported.Subnet.DeepCopy()
			if rapid.Bool().Draw(t, "as it is") {
				fields = drawnIn(networkFields(), ofPolicy)
			}
		} else if len(l.SubnetPools) > 0 && oneIn(t, 3, "from a pool") {
			drawPool(t, l, &spec.SubnetSpec)
		} else {
			drawCIDR(t, l, &spec)
		}
		drawSome(t, l, fields, &spec)
		fitRouter(l, &spec)
		return spec
	})
}

// drawSome draws about half of the fields: most are left out in life, and a spec with few is read sooner when it fails.
func drawSome[S any](t *rapid.T, l Limits, fields []field[S], spec *S) {
	for _, f := range fields {
		if rapid.Bool().Draw(t, "with "+f.path) {
			f.draw(t, l, spec)
		}
	}
}

func drawCIDR(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	cidr := rapid.Custom(func(t *rapid.T) netip.Prefix {
		if rapid.Bool().Draw(t, "IPv6") {
			bytes := [16]byte{0xfd, 15: 0}
			for _, at := range []int{1, 5, 7, 13, 15} {
				bytes[at] = rapid.SampledFrom([]byte{0, 1, 0xa, 0x80, 0xff}).Draw(t, "byte")
			}
			length := rapid.SampledFrom([]int{64, 1, 8, 48, 63, 65, 112, 120, 122, 125, 126}).Draw(t, "length")
			return netip.PrefixFrom(netip.AddrFrom16(bytes), length).Masked()
		}
		bytes := [4]byte{rapid.SampledFrom([]byte{10, 100, 128, 172, 192, 223}).Draw(t, "byte")}
		for at := 1; at < 4; at++ {
			bytes[at] = rapid.SampledFrom([]byte{0, 1, 9, 128, 168, 255}).Draw(t, "byte")
		}
		length := rapid.SampledFrom([]int{24, 1, 8, 15, 16, 22, 23, 25, 26, 29, 30}).Draw(t, "length")
		return netip.PrefixFrom(netip.AddrFrom4(bytes), length).Masked()
	}).Filter(func(p netip.Prefix) bool {
		return l.hasRoom(p) && !p.Addr().IsUnspecified()
	}).Draw(t, "cidr")
	spec.CIDR = fmt.Sprintf("%s/%d", spell(t, cidr.Addr()), cidr.Bits())
	drawModes(t, cidr.Addr().Is6(), cidr.Bits(), &spec.SubnetSpec)
}

// hasRoom reports whether a range has addresses for all NetworkPorts: three times as many as they name, so that pools
// have room.
func (l Limits) hasRoom(cidr netip.Prefix) bool {
	least := max(2, 3*l.reserved())
	return hosts(cidr, least) >= least
}

// mostNumbers bounds the addresses that are drawn from a range, from either end of it.
const mostNumbers = 200

func drawGatewayAndPools(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	cidr := CIDR(spec.SubnetSpec)
	if !cidr.IsValid() {
		spec.Gateway = rapid.SampledFrom([]string{"", cloudteamv1.GatewayNone}).Draw(t, "gateway")
		return
	}
	last := -1 // the number of the last address that a host can have
	if cidr.Addr().Is4() {
		last = -2
	}
	room := hosts(cidr, mostNumbers+l.reserved()) - l.reserved()
	gateway := 1 // its number; 0 if it is outside all pools
	spec.Gateway = ""
	switch rapid.IntRange(0, 5).Draw(t, "gateway") {
	case 1:
		spec.Gateway = spell(t, Address(cidr, gateway))
	case 2:
		gateway, spec.Gateway = 0, cloudteamv1.GatewayNone
	case 3:
		gateway = rapid.IntRange(1, room).Draw(t, "number")
		spec.Gateway = spell(t, Address(cidr, gateway))
	case 4: // No drawn pool reaches so far where there are ports, but an address that a port names may be just this.
		gateway = last - rapid.IntRange(0, max(1, l.reserved())-1).Draw(t, "number from the end")
		spec.Gateway = spell(t, Address(cidr, gateway))
	case 5: // the network's own, which no pool has
		if cidr.Addr().Is6() {
			gateway, spec.Gateway = 0, spell(t, cidr.Addr())
		}
	}

	type numbers struct{ first, last int }
	var pools []numbers
	at, least := 1, 1
	if l.Ports > 0 {
		least = 2*l.Ports + 2 // a gateway may take one of them, and half a pool must do for a while
	}
	for range rapid.IntRange(0, 3).Draw(t, "pools") {
		p := numbers{first: at + rapid.IntRange(0, 3).Draw(t, "gap")}
		p.last = p.first + least - 1 + rapid.IntRange(0, 9).Draw(t, "more")
		if p.last > room {
			break
		}
		at = p.last + 1
		pools = append(pools, p)
	}
	spec.AllocationPools = nil
	for _, p := range pools {
		for _, part := range []numbers{{p.first, min(p.last, gateway-1)}, {max(p.first, gateway+1), p.last}} {
			if gateway < p.first || gateway > p.last {
				part = p
			}
			if part.first > part.last {
				continue
			}
			if from := Address(cidr, gateway); gateway < 0 && contains(cidr, part.first, part.last, from) {
				continue
			}
			pool := cloudteamv1.AllocationPool{
				Start: spell(t, Address(cidr, part.first)), End: spell(t, Address(cidr, part.last)),
			}
			spec.AllocationPools = append(spec.AllocationPools, pool)
			if part == p {
				break
			}
		}
	}
	if len(spec.AllocationPools) > 1 {
		spec.AllocationPools = rapid.Permutation(spec.AllocationPools).Draw(t, "order")
	}
}

// contains reports whether an address is one of those from the first to the last number of a range.
func contains(cidr netip.Prefix, first, last int, a netip.Addr) bool {
	return !a.Less(Address(cidr, first)) && !Address(cidr, last).Less(a)
}

func drawDNSServers(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	servers := []string{"9.9.9.9", "1.1.1.1", "192.168.0.53", "0.0.0.0", "255.255.255.255"}
	if l.IsIPv6(spec.SubnetSpec) {
		servers = []string{"2620:fe::fe", "fd00::53", "::", "fe80::1"}
	}
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(servers), 0, 3, rapid.ID).Draw(t, "dnsServers")
	spec.DNSServers = nil
	for _, text := range drawn {
		spec.DNSServers = append(spec.DNSServers, spell(t, netip.MustParseAddr(text)))
	}
}

func drawHostRoutes(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	destinations := []string{"10.0.0.0/8", "0.0.0.0/0", "172.16.0.0/12", "192.0.2.1/32"}
	hops := []string{"192.0.2.254"}
	if l.IsIPv6(spec.SubnetSpec) {
		destinations = []string{"fd02::/32", "::/0", "fd01:a::/64", "2001:db8::1/128"}
		hops[0] = "fd00::fe"
	}
	if cidr := CIDR(spec.SubnetSpec); cidr.IsValid() {
		hops = append(hops, Address(cidr, 1).String())
	}
	routes := rapid.Custom(func(t *rapid.T) [2]string {
		return [2]string{
			rapid.SampledFrom(destinations).Draw(t, "destination"), rapid.SampledFrom(hops).Draw(t, "next hop"),
		}
	})
	spec.HostRoutes = nil
	for _, r := range rapid.SliceOfNDistinct(routes, 0, 3, rapid.ID).Draw(t, "hostRoutes") {
		to := netip.MustParsePrefix(r[0])
		spec.HostRoutes = append(spec.HostRoutes, cloudteamv1.HostRoute{
			Destination: fmt.Sprintf("%s/%d", spell(t, to.Addr()), to.Bits()),
			NextHop:     spell(t, netip.MustParseAddr(r[1])),
		})
	}
}

func drawMTU(t *rapid.T, l Limits, spec *cloudteamv1.NetworkSpec) {
	most := l.MaxMTU
	if most == 0 {
		most = 1500
	}
	sizes := []int32{1280, most, most - 1, 1400, 68, 576}
	if l.hasIPv6(spec) {
		sizes = sizes[:4]
	}
	sizes = slices.DeleteFunc(sizes, func(size int32) bool { return size > most })
	spec.MTU = rapid.Ptr(rapid.SampledFrom(sizes), true).Draw(t, "mtu")
}
