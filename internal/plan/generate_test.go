package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// This file draws random specs, all of them valid, and random deeds of people who work in Neutron behind our back.

func owners() *rapid.Generator[Owner] {
	uid := rapid.StringMatching(`[0-9a-zA-Z-]{1,36}`)
	return rapid.Custom(func(t *rapid.T) Owner { return Owner{uid.Draw(t, "cluster"), uid.Draw(t, "object")} })
}

// userTexts are any texts of at most MaxUserDescription characters, with a liking for what markers are made of.
func userTexts() *rapid.Generator[string] {
	pieces := rapid.SampledFrom([]string{
		" ", "[", "]", "/", "[owner=", "[owner=a/b]", testOwner.Marker(), "x", "\n", "\t", "\x00", "\x1b[31m", "é", "数",
		"🛰", "\u202e", "\u0085", `"`, `\`,
	})
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "any") {
			return rapid.StringN(0, MaxUserDescription, -1).Draw(t, "text")
		}
		text := []rune(strings.Join(rapid.SliceOfN(pieces, 0, 6).Draw(t, "pieces"), ""))
		return string(text[:min(len(text), MaxUserDescription)])
	})
}

// addrFrom makes an address of the CIDR from a drawn number: the network's bits, then the number's.
func addrFrom(cidr netip.Prefix, number []byte) netip.Addr {
	bytes := cidr.Masked().Addr().AsSlice()
	for bit := cidr.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= number[bit/8] & (0x80 >> (bit % 8))
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// hostsOf are the addresses that a host of the CIDR may have, with a liking for both ends.
func hostsOf(cidr netip.Prefix) *rapid.Generator[netip.Addr] {
	first, last := Usable(cidr)
	anywhere := rapid.Custom(func(t *rapid.T) netip.Addr {
		a := addrFrom(cidr, rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bits"))
		switch {
		case a.Less(first):
			return first
		case last.Less(a):
			return last
		}
		return a
	})
	return rapid.OneOf(anywhere, rapid.SampledFrom([]netip.Addr{first, first.Next(), last, last.Prev()}).
		Filter(Range{first, last}.Contains))
}

// cidrs are those that a subnet may have, of both families and every length.
func cidrs() *rapid.Generator[netip.Prefix] {
	v4, v6 := netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		whole, longest := v4, 30
		if rapid.Bool().Draw(t, "IPv6") {
			whole, longest = v6, 126
		}
		length := rapid.OneOf(
			rapid.IntRange(1, longest), rapid.SampledFrom([]int{1, 8, 24, min(64, longest), longest}),
		).Draw(t, "length")
		a := addrFrom(whole, rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bits"))
		return netip.PrefixFrom(a, length).Masked()
	}).Filter(func(p netip.Prefix) bool { return !ofPool(p) && holdsHosts(p) })
}

// subnets are valid settings for a CIDR, in any spelling.
func subnets(cidr netip.Prefix) *rapid.Generator[Subnet] {
	return rapid.Custom(func(t *rapid.T) Subnet {
		s := Subnet{CIDR: cidr, DHCP: rapid.Bool().Draw(t, "DHCP")}
		drawModes(t, &s)
		switch rapid.IntRange(0, 2).Draw(t, "gateway") {
		case 0:
			s.Gateway = DefaultGateway(cidr)
		case 1:
			s.Gateway = hostsOf(cidr).Draw(t, "at")
		}
		s.Pools = pools(t, cidr, s.Gateway)

		drawServersAndRoutes(t, &s)
		s.ServiceTypes = serviceTypes().Draw(t, "service types")
		s.DNSPublishFixedIP = rapid.Bool().Draw(t, "published in DNS")
		return s
	})
}

// serviceTypes are device owners for which a subnet may be kept, as a rule none.
func serviceTypes() *rapid.Generator[[]string] {
	one := rapid.SampledFrom([]string{"compute:nova", InterfaceDeviceOwner, "network:dhcp", "neutron:", "baremetal:数"})
	return rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfNDistinct(one, 0, 3, rapid.ID))
}

// drawServersAndRoutes draws what is of the subnet's family, and need not lie in it.
func drawServersAndRoutes(t *rapid.T, s *Subnet) {
	whole := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if s.IPVersion() == 6 {
		whole = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	anywhere := rapid.Custom(func(t *rapid.T) netip.Addr {
		return addrFrom(whole, rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bits"))
	}).Filter(func(a netip.Addr) bool { return !a.Is4In6() })
	s.DNSServers = rapid.SliceOfNDistinct(anywhere, 0, 3, rapid.ID).Draw(t, "name servers")
	routes := rapid.Custom(func(t *rapid.T) Route {
		length := rapid.IntRange(0, whole.Addr().BitLen()).Draw(t, "length")
		return Route{netip.PrefixFrom(anywhere.Draw(t, "to"), length).Masked(), anywhere.Draw(t, "by")}
	}).Filter(func(r Route) bool { return !loopback4.Contains(r.Destination.Addr()) && r.Destination != loopback6 })
	s.HostRoutes = rapid.SliceOfNDistinct(routes, 0, 3, rapid.ID).Draw(t, "routes")
}

// drawModes draws IPv6 modes that the subnet may have, often none, and switches DHCP on for them.
func drawModes(t *rapid.T, s *Subnet) {
	if s.IPVersion() == 4 {
		return
	}
	modes := []IPv6Mode{"", DHCPv6Stateful}
	if s.PrefixLength() == SelfAddressedBits {
		modes = append(modes, SLAAC, DHCPv6Stateless)
	}
	mode := rapid.SampledFrom(modes).Draw(t, "mode")
	which := rapid.IntRange(0, 2).Draw(t, "modes")
	if mode == "" {
		return
	}
	s.DHCP = true
	if which != 1 {
		s.IPv6AddressMode = mode
	}
	if which != 2 {
		s.IPv6RAMode = mode
	}
}

// pools draws pools that do not overlap and leave out the gateway. Some touch, and they are in any order.
func pools(t *rapid.T, cidr netip.Prefix, gateway netip.Addr) []Range {
	if rapid.Bool().Draw(t, "default pools") {
		return DefaultPools(cidr, gateway)
	}
	ends := rapid.SliceOfNDistinct(hostsOf(cidr), 0, 8, rapid.ID).Draw(t, "ends")
	slices.SortFunc(ends, netip.Addr.Compare)
	var drawn []Range
	for len(ends) > 0 {
		r := Range{ends[0], ends[0]}
		if len(ends) > 1 && rapid.Bool().Draw(t, "more than one address") {
			r.End = ends[1]
			ends = ends[1:]
		}
		ends = ends[1:]
		if !r.Contains(gateway) {
			drawn = append(drawn, r)
		}
	}
	return respelled(t, Subnet{Pools: drawn}).Pools
}

// respelled is a subnet that means the same: lists without order are shuffled, and pools cut in pieces.
func respelled(t *rapid.T, s Subnet) Subnet {
	s = plantest.Clone(s)
	var cut []Range
	for _, p := range s.Pools {
		if p.Start != p.End && rapid.Bool().Draw(t, "cut") {
			cut = append(cut, Range{p.Start, p.Start}, Range{p.Start.Next(), p.End})
		} else {
			cut = append(cut, p)
		}
	}
	s.Pools = shuffled(t, cut)
	s.HostRoutes = shuffled(t, s.HostRoutes)
	s.ServiceTypes = shuffled(t, s.ServiceTypes)
	return s
}

func shuffled[T any](t *rapid.T, items []T) []T {
	if len(items) < 2 {
		return items
	}
	return rapid.Permutation(items).Draw(t, "order")
}

// specs are valid specs of an owner.
func specs(owner Owner) *rapid.Generator[Spec] {
	return rapid.Custom(func(t *rapid.T) Spec {
		spec := Spec{
			Owner:        owner,
			Name:         rapid.StringMatching(`[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?`).Draw(t, "name"),
			Description:  userTexts().Filter(func(s string) bool { return describable(owner, s) }).Draw(t, "description"),
			PortSecurity: rapid.Ptr(rapid.Bool(), true).Draw(t, "port security"),
			Down:         rapid.Bool().Draw(t, "down"),
			DNSDomain:    rapid.Ptr(domains(), true).Draw(t, "DNS domain"),
		}
		spec.QoSPolicy = rapid.Ptr(policies(), true).Draw(t, "QoS policy")
		if rapid.Bool().Draw(t, "shared with some") {
			spec.SharedWith = projects().Draw(t, "projects")
		}
		spec.Shared = rapid.Ptr(rapid.Bool(), true).Draw(t, "shared")
		spec.External = rapid.Ptr(rapid.Bool(), true).Draw(t, "external")
		switch rapid.IntRange(0, 2).Draw(t, "provider") {
		case 1:
			spec.Provider = Provider{NetworkType: plantest.Provider.NetworkType}
		case 2:
			spec.Provider = plantest.Provider
			spec.Provider.SegmentationID = rapid.Int64Range(1, 4094).Draw(t, "VLAN")
		}
		if rapid.Bool().Draw(t, "with tags") {
			spec.Tags = tags().Draw(t, "tags")
		}
		for _, cidr := range rapid.SliceOfN(cidrs(), 0, 4).Draw(t, "CIDRs") {
			overlaps := func(s Subnet) bool { return s.CIDR.Overlaps(cidr) }
			if !slices.ContainsFunc(spec.Subnets, overlaps) {
				spec.Subnets = append(spec.Subnets, subnets(cidr).Draw(t, "subnet"))
			}
		}
		for _, name := range poolNames {
			if rapid.IntRange(0, 3).Draw(t, name) == 3 {
				at := rapid.IntRange(0, len(spec.Subnets)).Draw(t, "place")
				spec.Subnets = slices.Insert(spec.Subnets, at, pooledSubnets(name).Draw(t, "subnet from a pool"))
			}
		}
		if rapid.Bool().Draw(t, "with an MTU") {
			spec.MTU = rapid.SampledFrom([]int{1280, 1450, 1500, 9000, 65535}).Draw(t, "MTU")
		}
		return spec
	})
}

// domains are those that a network may have in Neutron, none included.
func domains() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.StringMatching(`([a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?[.]){0,3}[a-z]{1,9}[.]`))
}

// tags are sets of tags, sorted, and not nil.
func tags() *rapid.Generator[[]string] {
	one := userTexts().Filter(func(s string) bool { return s != "" && utf8.RuneCountInString(s) <= 255 })
	return rapid.Custom(func(t *rapid.T) []string {
		drawn := rapid.SliceOfNDistinct(one, 0, 4, rapid.ID).Draw(t, "tags")
		slices.Sort(drawn)
		return drawn
	})
}

func describable(owner Owner, text string) bool {
	return utf8.RuneCountInString(owner.Describe(text)) <= MaxDescription && !strings.Contains(text, MarkerPrefix)
}

// Ranges that no host of a subnet has. Neutron refuses DHCP on them, which can be switched on at any time
// (neutron.db.db_base_plugin_v2, _validate_subnet), and refuses routes to loopback (neutron_lib's validate_hostroutes).
var (
	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	loopback6 = netip.MustParsePrefix("::1/128")
	multicast = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}
)

// holdsHosts reports whether a CIDR is a range that hosts can have.
func holdsHosts(cidr netip.Prefix) bool {
	within := func(outer netip.Prefix) bool { return outer.Bits() <= cidr.Bits() && outer.Contains(cidr.Addr()) }
	return !cidr.Addr().Is4In6() && cidr.Addr() != netip.IPv4Unspecified() && !within(loopback4) &&
		!slices.ContainsFunc(multicast, within)
}

// meddle does one thing that somebody may do in Neutron. What it leaves is what Neutron would let stand.
func (c *cloud) meddle(t *rapid.T, owner Owner) {
	deeds := map[string]func(*ObservedNetwork){
		"rename the network":      func(n *ObservedNetwork) { n.Name = userTexts().Draw(t, "name") },
		"switch the network":      func(n *ObservedNetwork) { n.AdminStateUp = !n.AdminStateUp },
		"change the MTU":          func(n *ObservedNetwork) { n.MTU = rapid.IntRange(68, 9000).Draw(t, "MTU") },
		"change port security":    func(n *ObservedNetwork) { n.PortSecurity = new(!*n.PortSecurity) },
		"change the DNS domain":   func(n *ObservedNetwork) { n.DNSDomain = new(domains().Draw(t, "domain")) },
		"change the QoS policy":   func(n *ObservedNetwork) { n.QoSPolicy = new(policies().Draw(t, "policy")) },
		"share the network":       func(n *ObservedNetwork) { n.Shared = new(!*n.Shared) },
		"share it with some":      func(n *ObservedNetwork) { n.Shares = shuffled(t, c.NewShares(projects().Draw(t, "projects"))) },
		"lead outside":            func(n *ObservedNetwork) { n.External = new(!*n.External) },
		"change the VLAN":         func(n *ObservedNetwork) { n.Provider.SegmentationID++ },
		"tag the network":         func(n *ObservedNetwork) { n.Tags = shuffled(t, tags().Draw(t, "tags")) },
		"describe the network":    func(n *ObservedNetwork) { n.Description = owner.Describe(userTexts().Draw(t, "text")) },
		"take the network's mark": func(n *ObservedNetwork) { n.Description = "mine now" },
		"delete the network": func(n *ObservedNetwork) {
			id := n.ID
			c.Networks = slices.DeleteFunc(c.Networks, func(n ObservedNetwork) bool { return n.ID == id })
		},
		"delete a subnet": func(n *ObservedNetwork) {
			if len(n.Subnets) > 0 {
				at := rapid.IntRange(0, len(n.Subnets)-1).Draw(t, "which")
				n.Subnets = slices.Delete(n.Subnets, at, at+1)
			}
		},
		"change a subnet": func(n *ObservedNetwork) {
			if len(n.Subnets) == 0 {
				return
			}
			s := &n.Subnets[rapid.IntRange(0, len(n.Subnets)-1).Draw(t, "which")]
			s.Revision++
			s.Subnet = subnets(s.CIDR).Draw(t, "changed")
			if owner.Owns(s.Description) {
				s.Name, s.Description = userTexts().Draw(t, "name"), owner.Describe(userTexts().Draw(t, "text"))
			}
		},
		"take a subnet's mark": func(n *ObservedNetwork) {
			if len(n.Subnets) > 0 {
				n.Subnets[rapid.IntRange(0, len(n.Subnets)-1).Draw(t, "which")].Description = "mine now"
			}
		},
		"add a subnet": func(n *ObservedNetwork) {
			s := c.strangeSubnet(t, owner, *n)
			if !slices.ContainsFunc(n.Subnets, func(o ObservedSubnet) bool { return o.CIDR.Overlaps(s.CIDR) }) {
				n.Subnets = append(n.Subnets, s)
			}
		},
		"add a network": func(n *ObservedNetwork) {
			c.Networks = append(c.Networks, c.strangeNetwork(t, owner, *n))
		},
	}
	names := make([]string, 0, len(deeds))
	for name := range deeds {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(c.Networks) == 0 {
		c.Networks = append(c.Networks, c.strangeNetwork(t, owner, ObservedNetwork{Created: plantest.Epoch}))
		return
	}
	n := &c.Networks[rapid.IntRange(0, len(c.Networks)-1).Draw(t, "network")]
	n.Revision++
	deeds[rapid.SampledFrom(names).Draw(t, "deed")](n)
}

// marks are descriptions, of ours and of others.
func marks(t *rapid.T, owner Owner) string {
	others := Owner{owner.Cluster, owner.Object + "0"}
	return rapid.SampledFrom([]string{
		owner.Marker(), owner.Describe("x"), "", "x", others.Marker(), owner.Marker() + " ", others.Describe(owner.Marker()),
	}).Draw(t, "mark")
}

func (c *cloud) strangeSubnet(t *rapid.T, owner Owner, n ObservedNetwork) ObservedSubnet {
	s := ObservedSubnet{
		ID: c.NextID("sub"), Revision: rapid.IntRange(0, 3).Draw(t, "revision"), Name: "strange",
		Description: marks(t, owner),
	}
	if name := rapid.SampledFrom(append([]string{"", ""}, poolNames...)).Draw(t, "pool"); name != "" {
		s.Subnet = pooledSubnets(name).Draw(t, "subnet")
		c.Allocate(n, &s)
		s.Created = s.Created.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age")) * time.Hour)
		return s
	}
	s.Subnet = subnets(cidrs().Draw(t, "CIDR")).Draw(t, "subnet")
	return s
}

// strangeNetwork is another network, made before, with or after the given one. It may hold some of the same subnets.
func (c *cloud) strangeNetwork(t *rapid.T, owner Owner, n ObservedNetwork) ObservedNetwork {
	strange := ObservedNetwork{
		ID: c.NextID("net"), Revision: rapid.IntRange(0, 3).Draw(t, "revision"),
		Created: n.Created.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age")) * time.Hour),
		Attributes: Attributes{
			Name: n.Name, Description: marks(t, owner), MTU: plantest.MTU, PortSecurity: new(true), DNSDomain: new(""),
			QoSPolicy: new(""), Shared: new(false), External: new(false), Provider: plantest.Provider,
		},
	}
	if rapid.Bool().Draw(t, "lower id") {
		strange.ID = "a-" + strange.ID
	}
	if rapid.Bool().Draw(t, "elsewhere in the world") {
		strange.Created = strange.Created.In(time.FixedZone("east", 9*60*60))
	}
	for _, s := range n.Subnets {
		if rapid.Bool().Draw(t, "same subnet") {
			s.ID, s.Subnet = c.NextID("sub"), plantest.Clone(s.Subnet)
			strange.Subnets = append(strange.Subnets, s)
		}
	}
	return strange
}

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
