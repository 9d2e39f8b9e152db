package transitions

import (
	"net/netip"
	"regexp"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// allotments are the ranges that subnets have from pools, each with the first of its length in the pool. Both realms
// take from the same pools, and what is asked for later gets another range.
type allotments map[netip.Prefix]netip.Prefix

// fromPool is the field in which a subnet names the pool that it is from.
const fromPool = "subnetpool_id"

func (c *scenery) allotted(subnets []resource) allotments {
	ranges := allotments{}
	for _, s := range subnets {
		if pool, known := c.pools[s.Text(fromPool)]; known {
			is := netip.MustParsePrefix(s.Text("cidr"))
			ranges[is] = netip.PrefixFrom(pool.Addr(), is.Bits())
		}
	}
	return ranges
}

// addresses are texts that may be an address.
var addresses = regexp.MustCompile(`[0-9a-fA-F:.]*(?:[0-9a-fA-F]|::)`)

// moveFirst is a text with each address of one of the ranges in the first of its pool. A network has one subnet of a
// pool, so that no two of its addresses become the same.
func (a allotments) moveFirst(text string) string {
	return addresses.ReplaceAllStringFunc(text, func(word string) string {
		address, err := netip.ParseAddr(word)
		if err != nil {
			return word
		}
		for is, first := range a {
			if is.Contains(address) {
				return moved(address, first).String()
			}
		}
		return word
	})
}

// moved is the address that lies in another range of the same length where this one does in its own.
func moved(a netip.Addr, into netip.Prefix) netip.Addr {
	bytes, network := a.AsSlice(), into.Masked().Addr().AsSlice()
	for bit := range into.Bits() {
		mask := byte(0x80 >> (bit % 8))
		bytes[bit/8] = bytes[bit/8]&^mask | network[bit/8]&mask
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// isOf reports whether a subnet in Neutron is the one that a spec declares.
func (c *scenery) isOf(r resource, declared cloudteamv1.SubnetSpec) bool {
	if pool, from := c.limits.SubnetPool(declared.SubnetPool); from {
		return r.Text(fromPool) == pool.Names[0]
	}
	return r.Text("cidr") == netip.MustParsePrefix(declared.CIDR).String()
}
