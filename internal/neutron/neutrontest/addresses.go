package neutrontest

import (
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
)

// addressRange is an allocation pool: the addresses from start to end, both included.
type addressRange struct{ start, end netip.Addr }

func (r addressRange) String() string { return r.start.String() + "-" + r.end.String() }

func (r addressRange) contains(a netip.Addr) bool {
	return a.BitLen() == r.start.BitLen() && a.Compare(r.start) >= 0 && a.Compare(r.end) <= 0
}

// size is the number of addresses; an IPv6 pool has more than fit into a word.
func (r addressRange) size() *big.Int {
	n := new(big.Int).Sub(number(r.end), number(r.start))
	return n.Add(n, big.NewInt(1))
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// lastAddress is the highest address of a network.
func lastAddress(p netip.Prefix) netip.Addr {
	host := complement(onesThenZeros(p.Addr().BitLen(), p.Bits())).AsSlice()
	b := p.Masked().Addr().AsSlice()
	for i := range b {
		b[i] |= host[i]
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// usable is the range of addresses that pools may be made of: not the network's own address and, in IPv4, not the
// broadcast address, unless the network has no room for such distinctions.
func usable(p netip.Prefix) addressRange {
	r := addressRange{p.Masked().Addr(), lastAddress(p)}
	switch {
	case p.Addr().Is4() && p.Bits() >= 31:
	case p.Addr().Is4():
		r.start, r.end = r.start.Next(), r.end.Prev()
	default:
		r.start = r.start.Next()
	}
	return r
}

// defaultPools is everything usable but the gateway. A network of one address is a pool of that address.
func defaultPools(p netip.Prefix, gateway netip.Addr) []addressRange {
	if p.Bits() == p.Addr().BitLen() {
		return []addressRange{{p.Addr(), p.Addr()}}
	}
	all := usable(p)
	if !gateway.IsValid() || !all.contains(gateway) {
		return []addressRange{all}
	}
	var pools []addressRange
	if gateway != all.start {
		pools = append(pools, addressRange{all.start, gateway.Prev()})
	}
	if gateway != all.end {
		pools = append(pools, addressRange{gateway.Next(), all.end})
	}
	return pools
}

// parsePools reads the pools of a request, whose addresses are known to be valid.
func parsePools(list []any) ([]addressRange, *apiError) {
	pools := make([]addressRange, 0, len(list))
	for _, item := range list {
		object := item.(map[string]any)
		start, _ := parseAddr(object["start"].(string))
		end, _ := parseAddr(object["end"].(string))
		if start.BitLen() != end.BitLen() || start.Compare(end) > 0 {
			return nil, refuse(http.StatusBadRequest, "InvalidAllocationPool",
				"The allocation pool {'start': %s, 'end': %s} is not valid.",
				pyRepr(object["start"]), pyRepr(object["end"]))
		}
		pools = append(pools, addressRange{start, end})
	}
	return pools, nil
}

// checkPools refuses pools that are not of the network or overlap. A pool in IPv6 begins after the network's address
// even where the network has but two addresses.
func checkPools(pools []addressRange, p netip.Prefix) *apiError {
	all := usable(p)
	for _, pool := range pools {
		if pool.start.BitLen() != p.Addr().BitLen() {
			return refuse(http.StatusBadRequest, "InvalidAllocationPool", "The allocation pool %s is not valid.", pool)
		}
		if pool.start.Compare(all.start) < 0 || pool.end.Compare(all.end) > 0 {
			return refuse(http.StatusBadRequest, "OutOfBoundsAllocationPool",
				"The allocation pool %s spans beyond the subnet cidr %s.", pool, p)
		}
	}
	for i, a := range pools {
		for _, b := range pools[i+1:] {
			if a.contains(b.start) || b.contains(a.start) {
				return refuse(http.StatusConflict, "OverlappingAllocationPools",
					"Found overlapping allocation pools: %s %s for subnet %s.", a, b, p)
			}
		}
	}
	return nil
}

// checkGatewayOutside refuses a gateway that the pools could give to a port.
func checkGatewayOutside(gateway netip.Addr, pools []addressRange) *apiError {
	for _, pool := range pools {
		if gateway.IsValid() && pool.contains(gateway) {
			return refuse(http.StatusConflict, "GatewayConflictWithAllocationPools",
				"Gateway ip %s conflicts with allocation pool %s.", gateway, pool)
		}
	}
	return nil
}

func sortPools(pools []addressRange) {
	slices.SortFunc(pools, func(a, b addressRange) int { return a.start.Compare(b.start) })
}

// firstNetworkOrBroadcast is whether an address is one that no IPv4 interface may have.
func firstNetworkOrBroadcast(p netip.Prefix, a netip.Addr) bool {
	return p.Addr().Is4() && (a == p.Masked().Addr() || a == lastAddress(p))
}

// pickWindow is how many free addresses the choice is made among. Neutron chooses by chance too, so that two servers
// that allocate at the same time seldom take the same one; no test can then rely on a port's address.
const pickWindow = 16

// free gives an address of the subnet's pools that nobody has.
func free(sub *subnet) (netip.Addr, bool) {
	for _, pool := range sub.pools {
		var window []netip.Addr
		for a := pool.start; a.IsValid() && a.Compare(pool.end) <= 0 && len(window) < pickWindow; a = a.Next() {
			if !sub.has(a) {
				window = append(window, a)
			}
		}
		if len(window) > 0 {
			return window[rand.IntN(len(window))], true
		}
	}
	return netip.Addr{}, false
}

// eui64 is the address that a port gives itself in a network where addresses follow from the MAC (RFC 4291, appendix
// A).
func eui64(p netip.Prefix, mac string) netip.Addr {
	b := p.Masked().Addr().As16()
	m := parseMAC(mac)
	b[8], b[9], b[10], b[11] = m[0]^0x02, m[1], m[2], 0xff
	b[12], b[13], b[14], b[15] = 0xfe, m[3], m[4], m[5]
	return netip.AddrFrom16(b)
}

func parseMAC(text string) (out [6]byte) {
	mac, _ := canonicalMAC(text)
	for i := range out {
		out[i] = hexDigit(mac[3*i])<<4 | hexDigit(mac[3*i+1])
	}
	return out
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
