package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// TestSchemaFindsWhatNetipFinds holds the CRD's rules against a validator that is written in Go. CEL has no order of
// addresses, so the rules compare numbers that they make from the texts, and this is what shows that those are ordered
// as the addresses are, in every spelling of an address. Not only the verdicts must agree, but the mistakes found: a
// rule that speaks where its premises do not hold shows as well.
func TestSchemaFindsWhatNetipFinds(t *testing.T) {
	namespace := newNamespace(t)
	hold := func(rt *rapid.T, spec cloudteamv1.NetworkSpec) {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&cloudteamv1.Network{Spec: spec})
		expect.NoError(rt, err)
		network := &unstructured.Unstructured{Object: object}
		network.SetGroupVersionKind(cloudteamv1.SchemeGroupVersion.WithKind("Network"))
		network.SetName("random")
		delete(network.Object, "status")

		want := findings(spec)
		_, err = tryCreate(t.Context(), networks, namespace, network)
		var got []string
		for _, found := range refusals(t, err) {
			got = append(got, nameFinding(found))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("spec: %+v\nfindings (-Go +CRD):\n%s\nthe API server said: %v", object["spec"], diff, err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		for _, spec := range rapid.SliceOfN(rapid.Custom(drawSpec), 1, 30).Draw(rt, "specs") {
			hold(rt, spec)
		}
	})
}

// The part of each rule's message by which a finding is told from the others of its field.
const (
	needsCIDR        = "a subnet needs a cidr"
	notCIDR          = "not a CIDR"
	noPrefixLength   = "the prefix length is out of range"
	hostBits         = "host bits are set"
	noRangeForHosts  = "not a range for hosts"
	notAddress       = "not an address"
	notInside        = "not inside"
	networkAddress   = "is the address of the network"
	broadcastAddress = "the broadcast address of"
	reversed         = "the range is reversed"
	gatewayInPool    = "lies inside a pool"
	defaultInPool    = "is the default gateway"
	overlap          = "two pools have an address in common"
	otherFamily      = "of its own IP family only"
	listedTwice      = "is listed twice"
	loopbackRange    = "a loopback range"
	mtuBelowIPv6     = "IPv6 needs an MTU of at least 1280"
	onlyIPv6         = "only IPv6 has this"
	modesDiffer      = "does not go with ipv6AddressMode"
	ownInSlash64     = "hosts form their own addresses, which needs a /64"
	modesNeedDHCP    = "needs DHCP"
	subnetsOverlap   = "another subnet of this Network has some of the same addresses"
)

var sentences = []string{
	needsCIDR, notCIDR, noPrefixLength, hostBits, noRangeForHosts, notAddress, notInside, networkAddress,
	broadcastAddress, reversed, gatewayInPool, defaultInPool, overlap, otherFamily, listedTwice, loopbackRange,
	mtuBelowIPv6, onlyIPv6, modesDiffer, ownInSlash64, modesNeedDHCP, subnetsOverlap,
}

// nameFinding turns a refusal of the API server into the form that findings returns.
func nameFinding(found refusal) string {
	for _, sentence := range sentences {
		if strings.Contains(found.Message, sentence) {
			return found.Field + ": " + sentence
		}
	}
	return found.Field + ": " + found.Message
}

// findings returns what is wrong with a spec, each as "field: sentence", sorted. It is the specification of the CRD's
// rules for everything that concerns addresses.
func findings(spec cloudteamv1.NetworkSpec) []string {
	found, first := findingsOfSubnet("spec.", spec.SubnetSpec)
	ranges := []netip.Prefix{first}
	for i, subnet := range spec.AdditionalSubnets {
		more, cidr := findingsOfSubnet(fmt.Sprintf("spec.additionalSubnets[%d].", i), subnet)
		found = append(found, more...)
		if cidr.IsValid() && slices.ContainsFunc(ranges, cidr.Overlaps) {
			found = append(found, "spec.additionalSubnets: "+subnetsOverlap)
		}
		ranges = append(ranges, cidr)
	}
	for _, subnet := range append([]cloudteamv1.SubnetSpec{spec.SubnetSpec}, spec.AdditionalSubnets...) {
		if cidr, isCIDR := parseCIDR(subnet.CIDR); isCIDR && cidr.Addr().Is6() && spec.MTU != nil && *spec.MTU < 1280 {
			found = append(found, "spec.mtu: "+mtuBelowIPv6)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// findingsOfSubnet returns those of one subnet, whose fields begin with a path, and its range where that is a good one.
func findingsOfSubnet(path string, spec cloudteamv1.SubnetSpec) (found []string, _ netip.Prefix) {
	find := func(field, sentence string) {
		if finding := path + field + ": " + sentence; !slices.Contains(found, finding) {
			found = append(found, finding)
		}
	}

	subnet, isCIDR := parseCIDR(spec.CIDR)
	isGood := false
	switch {
	case spec.CIDR == "":
		find("cidr", needsCIDR)
	case !isCIDR:
		find("cidr", notCIDR)
	case subnet.Bits() == 0 || subnet.Bits() > subnet.Addr().BitLen()-2:
		find("cidr", noPrefixLength)
	case subnet != subnet.Masked():
		find("cidr", hostBits)
	default:
		isGood = true
		first := subnet.Addr()
		if first == netip.IPv4Unspecified() || first.IsMulticast() || first.Is4() && first.IsLoopback() {
			find("cidr", noRangeForHosts)
		}
	}

	makesOwn := false
	for field, mode := range map[string]cloudteamv1.IPv6Mode{
		"ipv6AddressMode": spec.IPv6AddressMode, "ipv6RAMode": spec.IPv6RAMode,
	} {
		if mode == "" {
			continue
		}
		makesOwn = makesOwn || mode != cloudteamv1.IPv6ModeDHCPv6Stateful
		if isGood && subnet.Addr().Is4() {
			find(field, onlyIPv6)
		}
		if spec.DHCP != nil && !*spec.DHCP {
			find("dhcp", modesNeedDHCP)
		}
	}
	if spec.IPv6AddressMode != "" && spec.IPv6RAMode != "" && spec.IPv6AddressMode != spec.IPv6RAMode {
		find("ipv6RAMode", modesDiffer)
	}
	if makesOwn && isGood && subnet.Addr().Is6() && subnet.Bits() != 64 {
		find("cidr", ownInSlash64)
	}

	gateway, hasGateway := parseAddress(spec.Gateway)
	hasGateway = hasGateway && isPlain(spec.Gateway)
	if spec.Gateway != "" && spec.Gateway != cloudteamv1.GatewayNone && !hasGateway {
		find("gateway", notAddress)
	}
	if isGood && hasGateway {
		switch {
		case !subnet.Contains(gateway):
			find("gateway", notInside)
			hasGateway = false
		case gateway.Is4() && gateway == subnet.Addr():
			find("gateway", networkAddress)
		case gateway.Is4() && gateway == lastAddress(subnet):
			find("gateway", broadcastAddress)
		}
	}

	type addressRange struct{ start, end netip.Addr }
	var inside []addressRange
	for i, pool := range spec.AllocationPools {
		start, startOK := parseAddress(pool.Start)
		end, endOK := parseAddress(pool.End)
		if startOK = startOK && isPlain(pool.Start); !startOK {
			find(fmt.Sprintf("allocationPools[%d].start", i), notAddress)
		}
		if endOK = endOK && isPlain(pool.End); !endOK {
			find(fmt.Sprintf("allocationPools[%d].end", i), notAddress)
		}
		if !startOK || !endOK {
			continue
		}
		isReversed := start.Is4() == end.Is4() && end.Less(start)
		if isReversed {
			find(fmt.Sprintf("allocationPools[%d]", i), reversed)
		}
		if !isGood {
			continue
		}
		if !subnet.Contains(start) || !subnet.Contains(end) {
			find("allocationPools", notInside)
			continue
		}
		if isReversed {
			continue
		}
		if start == subnet.Addr() {
			find("allocationPools", networkAddress)
		}
		if end.Is4() && end == lastAddress(subnet) {
			find("allocationPools", broadcastAddress)
		}
		contains := func(address netip.Addr) bool { return !address.Less(start) && !end.Less(address) }
		if hasGateway && contains(gateway) {
			find("allocationPools", gatewayInPool)
		}
		if spec.Gateway == "" && contains(subnet.Addr().Next()) {
			find("allocationPools", defaultInPool)
		}
		for _, other := range inside {
			if !other.end.Less(start) && !end.Less(other.start) {
				find("allocationPools", overlap)
			}
		}
		inside = append(inside, addressRange{start, end})
	}

	var servers []netip.Addr
	for i, text := range spec.DNSServers {
		server, ok := parseAddress(text)
		switch {
		case !ok:
			find(fmt.Sprintf("dnsServers[%d]", i), notAddress)
			continue
		case slices.Contains(servers, server):
			find("dnsServers", listedTwice)
		}
		if isGood && server.Is4() != subnet.Addr().Is4() {
			find("dnsServers", otherFamily)
		}
		servers = append(servers, server)
	}

	type route struct {
		destination netip.Prefix
		nextHop     netip.Addr
	}
	var routes []route
	for i, text := range spec.HostRoutes {
		destination, destinationOK := parseCIDR(text.Destination)
		nextHop, nextHopOK := parseAddress(text.NextHop)
		field := fmt.Sprintf("hostRoutes[%d].", i)
		switch {
		case !destinationOK:
			find(field+"destination", notCIDR)
		case destination != destination.Masked():
			find(field+"destination", hostBits)
		case destination.Addr().IsLoopback() && (destination.Addr().Is6() || destination.Bits() >= 8):
			find(field+"destination", loopbackRange)
		}
		if !nextHopOK {
			find(field+"nextHop", notAddress)
		}
		if isGood && (destinationOK && destination.Addr().Is4() != subnet.Addr().Is4() ||
			nextHopOK && nextHop.Is4() != subnet.Addr().Is4()) {
			find("hostRoutes", otherFamily)
		}
		if destinationOK && nextHopOK {
			if slices.Contains(routes, route{destination, nextHop}) {
				find("hostRoutes", listedTwice)
			}
			routes = append(routes, route{destination, nextHop})
		}
	}
	if !isGood {
		return found, netip.Prefix{}
	}
	return found, subnet
}

// parseAddress reads an address without a zone that is not an IPv4 address in IPv6 form.
func parseAddress(text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	return address, err == nil && address.Zone() == "" && !address.Is4In6()
}

// parseCIDR reads an address and a prefix length, with or without host bits.
func parseCIDR(text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	return prefix, err == nil && !prefix.Addr().Is4In6()
}

// isPlain says whether an address is free of the dotted end that IPv6 addresses may have.
func isPlain(text string) bool {
	return !strings.Contains(text, ":") || !strings.Contains(text, ".")
}

// lastAddress returns the last address of a range, which is IPv4's broadcast address.
func lastAddress(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < prefix.Addr().BitLen(); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// drawSpec draws a spec of which most parts are good or just beside it.
func drawSpec(t *rapid.T) cloudteamv1.NetworkSpec {
	spec := cloudteamv1.NetworkSpec{}
	first := drawPrefix(t, rapid.Bool().Draw(t, "IPv6"))
	spec.SubnetSpec = drawSubnet(t, first)
	for range pick(t, "additional subnets", 6, 2, 2) {
		prefix := drawPrefix(t, rapid.Bool().Draw(t, "IPv6"))
		if pick(t, "overlap", 3, 1) == 1 {
			prefix = first
		}
		spec.AdditionalSubnets = append(spec.AdditionalSubnets, drawSubnet(t, prefix))
	}
	if pick(t, "mtu", 4, 1) == 1 {
		spec.MTU = new(rapid.SampledFrom([]int32{68, 1279, 1280, 65535}).Draw(t, "mtu"))
	}
	return spec
}

// drawSubnet draws a subnet of a range.
func drawSubnet(t *rapid.T, subnet netip.Prefix) (spec cloudteamv1.SubnetSpec) {
	isIPv6 := subnet.Addr().Is6()
	switch pick(t, "cidr", 60, 2, 2, 2) {
	case 0:
		spec.CIDR = spellPrefix(t, subnet.Masked())
	case 1:
		spec.CIDR = spellPrefix(t, subnet)
	case 2:
		spec.CIDR = drawNonsense(t) + "/24"
	}
	switch pick(t, "gateway", 10, 10, 1) {
	case 0:
		spec.Gateway = drawAddress(t, subnet)
	case 1:
		spec.Gateway = rapid.SampledFrom([]string{"", cloudteamv1.GatewayNone}).Draw(t, "no gateway")
	case 2:
		spec.Gateway = "None"
	}
	for range pick(t, "pools", 3, 3, 3, 1, 1) {
		start, end := drawAddress(t, subnet), drawAddress(t, subnet)
		// Half of all random pairs are reversed; most are put right, so that what comes after is tested too.
		first, firstOK := parseAddress(start)
		last, lastOK := parseAddress(end)
		if firstOK && lastOK && last.Less(first) && pick(t, "leave it reversed", 9, 1) == 0 {
			start, end = end, start
		}
		spec.AllocationPools = append(spec.AllocationPools, cloudteamv1.AllocationPool{Start: start, End: end})
	}
	modes := []cloudteamv1.IPv6Mode{
		"", cloudteamv1.IPv6ModeSLAAC, cloudteamv1.IPv6ModeDHCPv6Stateful, cloudteamv1.IPv6ModeDHCPv6Stateless,
	}
	if pick(t, "modes", 6, 2) == 1 {
		spec.IPv6AddressMode = rapid.SampledFrom(modes).Draw(t, "ipv6AddressMode")
		spec.IPv6RAMode = rapid.SampledFrom(modes).Draw(t, "ipv6RAMode")
	}
	spec.DHCP = rapid.Ptr(rapid.Bool(), true).Draw(t, "dhcp")
	for range pick(t, "name servers", 6, 2, 2) {
		spec.DNSServers = append(spec.DNSServers, drawAddress(t, subnet))
	}
	for range pick(t, "routes", 6, 2, 2) {
		destination := netip.MustParsePrefix("10.0.0.0/8")
		if isIPv6 {
			destination = netip.MustParsePrefix("fd00::/8")
		}
		var text string
		switch pick(t, "destination", 10, 3, 2, 1) {
		case 0:
			text = spellPrefix(t, destination)
		case 1:
			text = spellPrefix(t, drawPrefix(t, isIPv6).Masked())
		case 2:
			text = spellPrefix(t, drawPrefix(t, !isIPv6))
		case 3:
			text = rapid.SampledFrom([]string{"10.0.0.0", "127.0.0.0/8", "127.0.0.0/7", "::1/128", "x"}).Draw(t, "odd")
		}
		spec.HostRoutes = append(spec.HostRoutes, cloudteamv1.HostRoute{Destination: text, NextHop: drawAddress(t, subnet)})
	}
	return spec
}

// pick draws one of the indexes of weights, each as often as its weight is to their sum.
func pick(t *rapid.T, label string, weights ...int) int {
	var indexes []int
	for index, weight := range weights {
		indexes = append(indexes, slices.Repeat([]int{index}, weight)...)
	}
	return rapid.SampledFrom(indexes).Draw(t, label)
}

// drawPrefix draws a range, with or without host bits, whose length is often at one of the limits.
func drawPrefix(t *rapid.T, isIPv6 bool) netip.Prefix {
	lengths := []int{0, 1, 8, 9, 16, 22, 24, 28, 29, 30, 31, 32}
	usual := []int{1, 8, 9, 16, 22, 24, 28, 29, 30}
	if isIPv6 {
		lengths = []int{0, 1, 16, 32, 47, 48, 63, 64, 65, 96, 112, 120, 124, 125, 126, 127, 128}
		usual = []int{1, 16, 32, 47, 48, 63, 64, 65, 96, 112, 120, 124, 125, 126}
	}
	if pick(t, "usual length", 1, 12) == 1 {
		lengths = usual
	}
	return netip.PrefixFrom(drawRawAddress(t, isIPv6), rapid.SampledFrom(lengths).Draw(t, "length"))
}

// drawRawAddress draws an address from numbers whose texts differ in length, so that their order as texts is not their
// order as numbers.
func drawRawAddress(t *rapid.T, isIPv6 bool) netip.Addr {
	if !isIPv6 {
		var bytes [4]byte
		for i := range bytes {
			bytes[i] = rapid.SampledFrom([]byte{0, 1, 9, 10, 19, 99, 100, 127, 128, 199, 200, 224, 254, 255}).Draw(t, "byte")
		}
		return netip.AddrFrom4(bytes)
	}
	var bytes [16]byte
	for i := range 8 {
		group := rapid.SampledFrom([]uint16{
			0, 0, 0, 1, 9, 0xa, 0xf, 0x10, 0xff, 0x100, 0x999, 0xa00, 0xfff, 0x1000, 0x7fff, 0x8000, 0xff02, 0xffff,
		}).Draw(t, "group")
		bytes[2*i], bytes[2*i+1] = byte(group>>8), byte(group)
	}
	if address := netip.AddrFrom16(bytes); !address.Is4In6() {
		return address
	}
	return netip.IPv6LinkLocalAllNodes()
}

// drawAddress draws the text of an address that mostly is in a range, at its ends more often than not.
func drawAddress(t *rapid.T, prefix netip.Prefix) string {
	first, last := prefix.Masked().Addr(), lastAddress(prefix)
	switch pick(t, "address", 4, 8, 8, 4, 4, 2, 2, 30, 2, 1) {
	case 0:
		return spell(t, first)
	case 1:
		return spell(t, first.Next())
	case 2:
		return spell(t, first.Next().Next())
	case 3:
		return spell(t, last)
	case 4:
		return spell(t, last.Prev())
	case 5:
		if outside := last.Next(); outside.IsValid() {
			return spell(t, outside)
		}
		return spell(t, first)
	case 6:
		if outside := first.Prev(); outside.IsValid() {
			return spell(t, outside)
		}
		return spell(t, first)
	case 7:
		// The prefix's bits, and the other bits of a drawn address.
		bytes := drawRawAddress(t, first.Is6()).AsSlice()
		for bit := range prefix.Bits() {
			mask := byte(0x80 >> (bit % 8))
			bytes[bit/8] = bytes[bit/8]&^mask | first.AsSlice()[bit/8]&mask
		}
		address, _ := netip.AddrFromSlice(bytes)
		return spell(t, address)
	case 8:
		return spell(t, drawRawAddress(t, !first.Is6()))
	default:
		return drawNonsense(t)
	}
}

// drawNonsense draws a text that is no address, or none that is wanted.
func drawNonsense(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"x", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.256", "1.2.3.4/32", ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "::g",
		"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "fe80::1%eth0", "::ffff:1.2.3.4", "::ffff:102:304", "12345::",
		"é.é.é.é",
	}).Draw(t, "nonsense")
}

// spellPrefix writes a range in one of its spellings.
func spellPrefix(t *rapid.T, prefix netip.Prefix) string {
	return fmt.Sprintf("%s/%d", spell(t, prefix.Addr()), prefix.Bits())
}

// spell writes an address in one of its spellings. An IPv4 address has one.
func spell(t *rapid.T, address netip.Addr) string {
	if address.Is4() || pick(t, "canonical", 1, 1) == 0 {
		return address.String()
	}
	bytes := address.As16()
	var groups []string
	for i := range 8 {
		format := rapid.SampledFrom([]string{"%x", "%X", "%04x", "%04X", "%03x", "%02x"}).Draw(t, "format")
		groups = append(groups, fmt.Sprintf(format, uint16(bytes[2*i])<<8|uint16(bytes[2*i+1])))
	}
	if pick(t, "dotted", 20, 1) == 1 {
		groups = append(groups[:6], netip.AddrFrom4([4]byte(bytes[12:])).String())
	}
	// "::" stands for any run of zeros, of one group even.
	begin := rapid.IntRange(0, len(groups)-1).Draw(t, "begin of ::")
	end := begin
	for end < len(groups) && strings.Trim(groups[end], "0") == "" && pick(t, "longer ::", 1, 9) == 1 {
		end++
	}
	if end == begin {
		return strings.Join(groups, ":")
	}
	return strings.Join(groups[:begin], ":") + "::" + strings.Join(groups[end:], ":")
}

// TestDrawnNetworksAndPortsAreAccepted: the tests in virtual time draw what the API server takes, and ask package specs
// which edits it does not take.
func TestDrawnNetworksAndPortsAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	limits := specs.Limits{
		Administrator: true, DNSNames: true, Namespaces: []string{namespace}, MaxMTU: 1450, Ports: 3,
		PhysicalNetwork: "physnet1", VLANs: []int64{1, 2}, VNIs: []int64{10001, 10002},
		Zones: []string{"east", "west"}, NoZones: []string{"nowhere"}, Routers: []string{"existing-1", "existing-2"},
		SecurityGroups: []string{"5a3d5b9c-2a4c-4f2e-8a53-0f9a1a6e7d10"}, QoSPolicies: []string{"gold"},
		ExternalNetworks: []specs.ExternalNetwork{{
			Names: []string{"outside"}, CIDR: netip.MustParsePrefix("203.0.112.0/21"),
			NextHop: netip.MustParseAddr("203.0.112.1"), Addresses: []netip.Addr{netip.MustParseAddr("203.0.112.2")},
		}},
		SubnetPools: []specs.SubnetPool{
			{Names: []string{"four"}, IPVersion: 4, DefaultPrefixLength: 26, PrefixLengths: []int32{25, 27}},
		},
		FloatingNetworks: []string{"outside", "partners"}, FloatingAddresses: []string{"203.0.112.9", "203.0.112.10"},
		Clouds: []*cloudteamv1.CloudReference{nil, {SecretName: "openstack"}},
	}
	place := specs.Place{
		Namespace: namespace, NetworkNamespace: namespace, NetworkName: "net", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
	}
	networks, ports := networkAPI.CloudteamV1().Networks(namespace), networkAPI.CloudteamV1().NetworkPorts(namespace)
	rapid.Check(t, func(rt *rapid.T) {
		network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		network.Spec = limits.Network().Draw(rt, "network")
		made, err := networks.Create(t.Context(), network, metav1.CreateOptions{})
		expect.NoError(rt, err)
		edited := made.DeepCopy()
		edited.Spec = limits.NetworkEdit(made.Spec).Draw(rt, "edited network")
		_, err = networks.Update(t.Context(), edited, metav1.UpdateOptions{})
		if may := specs.NetworkMayBecome(made.Spec, edited.Spec); may != (len(refusals(t, err)) == 0) {
			rt.Errorf("a Network may become that: %t; the API server says %v", may, err)
		}

		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		port.Spec = limits.NetworkPort(place).Draw(rt, "port")
		madePort, err := ports.Create(t.Context(), port, metav1.CreateOptions{})
		expect.NoError(rt, err)
		editedPort := madePort.DeepCopy()
		editedPort.Spec = limits.NetworkPortEdit(place, madePort.Spec).Draw(rt, "edited port")
		_, err = ports.Update(t.Context(), editedPort, metav1.UpdateOptions{})
		if may := specs.NetworkPortMayBecome(madePort.Spec, editedPort.Spec); may != (len(refusals(t, err)) == 0) {
			rt.Errorf("a NetworkPort may become that: %t; the API server says %v", may, err)
		}
	})
}
