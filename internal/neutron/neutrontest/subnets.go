package neutrontest

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// The limits of one subnet, Neutron's defaults (max_dns_nameservers, max_subnet_host_routes).
const (
	maxNameservers = 5
	maxHostRoutes  = 20
)

// The ways in which IPv6 addresses and routes reach a host.
const (
	slaac           = "slaac"
	dhcpv6Stateful  = "dhcpv6-stateful"
	dhcpv6Stateless = "dhcpv6-stateless"
)

// subnet is a range of addresses on a network.
type subnet struct {
	standard
	network     *network
	pool        *subnetPool // nil: none
	version     int
	prefix      netip.Prefix // masked
	gateway     netip.Addr   // invalid: none
	pools       []addressRange
	dhcp        bool
	nameservers []string
	routes      []route
	raMode      string
	addressMode string
	services    []string
	published   bool                  // the ports' addresses, in DNS
	taken       map[netip.Addr]string // to the id of the port
	lost        map[netip.Addr]bool   // of no port, and given to none
}

// route is a host route of a subnet or an extra route of a router.
type route struct {
	Destination string `json:"destination"`
	Nexthop     string `json:"nexthop"`
}

func routeOf(object map[string]any) route {
	return route{pyString(object["destination"]), pyString(object["nexthop"])}
}

func routesOf(v any) []route {
	list, _ := v.([]any)
	out := make([]route, 0, len(list))
	for _, item := range list {
		out = append(out, routeOf(item.(map[string]any)))
	}
	return out
}

func stringsOf(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		out = append(out, pyString(item))
	}
	return out
}

// has is whether an address cannot be given to another port.
func (sub *subnet) has(a netip.Addr) bool {
	_, taken := sub.taken[a]
	return taken || sub.lost[a]
}

// selfAddressed is whether ports make their addresses out of their MACs.
func (sub *subnet) selfAddressed() bool {
	makes := func(mode string) bool { return mode == slaac || mode == dhcpv6Stateless }
	return makes(sub.addressMode) || makes(sub.raMode)
}

// advertisedByOthers is whether hosts wait for the advertisements of a router that is not Neutron's
// (_validate_subnet_address_mode in neutron/db/l3_db.py).
func (sub *subnet) advertisedByOthers() bool { return sub.addressMode != "" && sub.raMode == "" }

// total is the number of addresses in the pools, and in all of the subnet where it has no pool.
func (sub *subnet) total() *big.Int {
	n := new(big.Int)
	if len(sub.pools) == 0 {
		return n.Lsh(big.NewInt(1), uint(sub.prefix.Addr().BitLen()-sub.prefix.Bits()))
	}
	for _, pool := range sub.pools {
		n.Add(n, pool.size())
	}
	return n
}

func (s *Server) subnetKind() kind {
	k := &resources[*subnet]{server: s, schema: subnetSchema(s), table: s.subnets}
	k.admit = func(c *caller, in values) *apiError { return s.mayUseNetwork(c, "subnet", in) }
	k.build = s.createSubnet
	k.alter = s.updateSubnet
	k.discard = s.deleteSubnet
	return k
}

// seesSubnet is whether a caller sees a subnet: its own, and those of networks that are shared with it or, in some
// releases, lead outside.
func (s *Server) seesSubnet(c *caller, sub *subnet) bool {
	return c.admin || sub.project == c.project || s.sharesWith(sub.network, c.project) ||
		sub.network.external && s.since(ExternalSubnetsAreSeen)
}

// mayUseNetwork refuses to put something on a network that is neither the caller's nor shared.
func (s *Server) mayUseNetwork(c *caller, what string, in values) *apiError {
	if c.admin {
		return nil
	}
	n, ok := s.networks.byID[in.text("network_id")]
	ofSubnet := what == "subnet"
	refusesHidden := ofSubnet && s.since(HiddenNetworksRefuseSubnets)
	switch {
	case !ok || !s.sees(c, n) && !refusesHidden:
		return networkNotFound(in.text("network_id"))
	case n.project == c.project:
		return nil
	case s.sharesWith(n, c.project):
		if ofSubnet && s.since(SubnetsNeedTheirNetworksOwner) {
			return disallowed("rule:create_subnet")
		}
		return nil
	case s.since(ExternalPortsArePolicy):
		return disallowed("rule:create_" + what)
	}
	return refuse(http.StatusForbidden, "HTTPForbidden",
		"Tenant %s not allowed to create %s on this network", c.project, what)
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func subnetSchema(server *Server) *schema[*subnet] {
	modes := oneOf("valid_values", dhcpv6Stateful, dhcpv6Stateless, slaac)
	if server.since(NullModesAreNone) {
		modes = orNone(modes)
	}
	cidr, pools := toCanonicalCIDR, func(v any) (any, *apiError) { return v, nil }
	if server.since(ShortCIDRsAreRefused) {
		cidr = toWholeCIDR
	}
	if server.since(PoolsAreConverted) {
		pools = toPools
	}
	routes := areHostRoutes(server.since(RoutesHaveOtherWords))
	s := &schema[*subnet]{
		singular: "subnet", plural: "subnets", notFound: subnetNotFound,
		seenBy: func(v *view, r *subnet) bool { return v.server.seesSubnet(v.caller, r) },
	}
	s.attributes = append([]attribute[*subnet]{
		identifier[*subnet](),
		resourceName[*subnet](),
		{name: "ip_version", access: inPost | required | visible | filterable | sortable, convert: toInteger,
			check: oneOf("valid_values", 4, 6), get: func(_ *view, r *subnet) any { return r.version }},
		{name: "network_id", access: inPost | required | visible | filterable | sortable, check: isUUID,
			get: func(_ *view, r *subnet) any { return r.network.id }},
		{name: "subnetpool_id", access: inPost | visible | filterable | sortable, check: orNone(isUUID),
			get: func(_ *view, r *subnet) any {
				if r.pool == nil {
					return nil
				}
				return r.pool.id
			}},
		{name: "prefixlen", access: inPost, convert: toInteger, check: nonNegative},
		{name: "cidr", access: inPost | visible | filterable | sortable, convert: cidr, check: isSubnet,
			match: hasCIDR,
			get:   func(_ *view, r *subnet) any { return r.prefix.String() }},
		{name: "gateway_ip", access: inPost | inPut | visible | filterable | sortable, convert: toCanonicalIP,
			check: orNone(isIPAddress), get: func(_ *view, r *subnet) any {
				if !r.gateway.IsValid() {
					return nil
				}
				return r.gateway.String()
			}},
		{name: "allocation_pools", access: inPost | inPut | visible, convert: pools, check: areIPPools,
			get: func(_ *view, r *subnet) any { return poolBodies(r.pools) }},
		{name: "dns_nameservers", access: inPost | inPut | visible, convert: noneToEmptyList, check: areNameservers,
			get: func(_ *view, r *subnet) any { return r.nameservers }},
		{name: "host_routes", access: inPost | inPut | visible, convert: noneToEmptyList, check: routes,
			get: func(_ *view, r *subnet) any { return r.routes }},
		tenant[*subnet](),
		{name: "enable_dhcp", access: inPost | inPut | visible | filterable | sortable, convert: toBoolean,
			get: func(_ *view, r *subnet) any { return r.dhcp }},
		{name: "ipv6_ra_mode", access: inPost | visible | filterable | sortable, check: modes,
			get: func(_ *view, r *subnet) any { return text(r.raMode) }},
		{name: "ipv6_address_mode", access: inPost | visible | filterable | sortable, check: modes,
			get: func(_ *view, r *subnet) any { return text(r.addressMode) }},
		{name: "shared", access: filterable, convert: toBoolean,
			get: func(v *view, r *subnet) any { return v.server.sharesWith(r.network, v.caller.project) }},
		{name: "service_types", access: inPost | inPut | visible, convert: toServiceTypes,
			get: func(_ *view, r *subnet) any { return r.services }},
		{name: "dns_publish_fixed_ip", access: inPost | inPut | visible, convert: toBoolean,
			get: func(_ *view, r *subnet) any { return r.published }},
		{name: "segment_id", access: inPost | inPut | visible | filterable | sortable | adminToSee,
			check: orNone(isUUID), get: func(*view, *subnet) any { return nil }},
		{name: "use_default_subnetpool", access: inPost, convert: toBoolean},
	}, standardAttributes[*subnet]()...)
	if server.since(ExternalSubnetsAreSeen) {
		s.attributes = append(s.attributes, attribute[*subnet]{
			name: "router:external", access: visible | filterable, convert: toBoolean,
			get: func(_ *view, r *subnet) any { return r.network.external },
		})
	}
	return s.init()
}

// hasCIDR is the filter cidr; the host bits of what is asked for do not matter.
func hasCIDR(_ *view, r *subnet, want []string) bool {
	return slices.ContainsFunc(want, func(w string) bool {
		prefix, ok := parsePrefix(w)
		return ok && prefix.Masked() == r.prefix
	})
}

// toServiceTypes refuses what cannot be the owner of a port; a subnet with service types serves their ports alone.
func toServiceTypes(v any) (any, *apiError) {
	list, ok := v.([]any)
	if !ok {
		return nil, badRequest("Invalid input for service_types. Reason: Invalid data format for subnet service "+
			"types: '%s'.", pyString(v))
	}
	for _, item := range list {
		owner, ok := item.(string)
		if !ok {
			return nil, refuse(http.StatusBadRequest, "InvalidInputSubnetServiceType",
				"Subnet service type %s is not a string.", pyString(item))
		}
		// Neutron 21 refuses "baremetal:", which newer ones may take.
		if !slices.ContainsFunc([]string{"network:", "compute:", "neutron:"}, func(prefix string) bool {
			return strings.HasPrefix(owner, prefix)
		}) {
			return nil, refuse(http.StatusBadRequest, "InvalidSubnetServiceType",
				"Subnet service type %s does not correspond to a valid device owner.", owner)
		}
	}
	return v, nil
}

// reroute gives the routes of an updated subnet: those that it had before, in their order, then the new ones. The real
// one adds these in the order of a hash, so code that compares routes must not rely on an order; neither can they here.
func (s *Server) reroute(old, wanted []route) []route {
	if s.since(HostRoutesAreSorted) {
		return sortedRoutes(wanted)
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(r route) bool { return !slices.Contains(wanted, r) })
	added := slices.DeleteFunc(slices.Clone(wanted), func(r route) bool { return slices.Contains(old, r) })
	rand.Shuffle(len(added), func(i, j int) { added[i], added[j] = added[j], added[i] })
	return append(kept, added...)
}

// sortedRoutes gives routes in the order of the database's key, which is a text.
func sortedRoutes(routes []route) []route {
	sorted := append([]route{}, routes...)
	slices.SortFunc(sorted, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Nexthop, b.Nexthop))
	})
	return sorted
}

// poolBody is an allocation pool in a body.
type poolBody struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

func poolBodies(pools []addressRange) []poolBody {
	out := make([]poolBody, 0, len(pools))
	for _, p := range pools {
		out = append(out, poolBody{p.start.String(), p.end.String()})
	}
	return out
}

// createSubnet checks in the order in which the core plugin does: what does not depend on the network comes first.
func (s *Server) createSubnet(tx *transaction, c *caller, in values) (*subnet, *apiError) {
	sub := &subnet{
		version:     in.number("ip_version"),
		dhcp:        in.truth("enable_dhcp", true),
		nameservers: stringsOf(in["dns_nameservers"]),
		routes:      routesOf(in["host_routes"]),
		raMode:      in.text("ipv6_ra_mode"),
		addressMode: in.text("ipv6_address_mode"),
		services:    stringsOf(in["service_types"]),
		published:   in.truth("dns_publish_fixed_ip", false),
		taken:       make(map[netip.Addr]string),
		lost:        make(map[netip.Addr]bool),
	}
	if s.since(HostRoutesAreSorted) {
		sub.routes = sortedRoutes(sub.routes)
	}
	if err := checkOrigin(in); err != nil {
		return nil, err
	}
	given, _ := parsePrefix(in.text("cidr"))
	sub.prefix = given.Masked()
	if in.has("gateway_ip") {
		sub.gateway, _ = parseAddr(in.text("gateway_ip"))
	}
	poolID, err := s.poolNamed(sub, in)
	if err != nil {
		return nil, err
	}
	if poolID == "" || s.since(PooledSubnetsAreChecked) {
		if err := s.validate(sub, in, false, "new subnet"); err != nil {
			return nil, err
		}
	}
	n, ok := s.networks.byID[in.text("network_id")]
	if !ok {
		return nil, networkNotFound(in.text("network_id"))
	}
	sub.network = n
	if poolID != "" {
		if err := s.allocate(c, sub, poolID, in); err != nil {
			return nil, err
		}
	}
	if !in.has("cidr") {
		sub.pools = defaultPools(sub.prefix, sub.gateway)
		return s.keepSubnet(tx, sub, in)
	}
	if !in.has("gateway_ip") {
		sub.gateway = sub.prefix.Addr()
		if sub.version == 4 {
			sub.gateway = sub.gateway.Next()
		}
	}
	pools, _ := in["allocation_pools"].([]any)
	if sub.pools, err = parsePools(pools); err != nil {
		return nil, err
	}
	if err := checkPools(sub.pools, sub.prefix); err != nil {
		return nil, err
	}
	if err := checkGatewayOutside(sub.gateway, sub.pools); err != nil {
		return nil, err
	}
	if len(sub.pools) == 0 {
		sub.pools = defaultPools(sub.prefix, sub.gateway)
	}
	if sub.gateway.IsValid() && sub.prefix.Contains(sub.gateway) && firstNetworkOrBroadcast(sub.prefix, sub.gateway) {
		words := "allocated in CIDR"
		if s.since(GatewaysHaveOtherWords) {
			words = "the network or broadcast IP address"
		}
		return nil, refuse(http.StatusConflict, "IpamValueInvalid",
			"Gateway IP %s cannot be %s %s", sub.gateway, words, sub.prefix)
	}
	return s.keepSubnet(tx, sub, in)
}

// keepSubnet adds a new subnet to its network, where it fits in with the others.
func (s *Server) keepSubnet(tx *transaction, sub *subnet, in values) (*subnet, *apiError) {
	if err := s.checkOverlap(sub); err != nil {
		return nil, err
	}
	if err := s.checkAffinity(sub); err != nil {
		return nil, err
	}
	sortPools(sub.pools)
	tx.stamp("subnets", &sub.standard, in)
	switch {
	case len(sub.services) > 0:
		sub.revision = 1 // they are written after it
	case sub.published: // and this when the answer has been made
		then := tx.afterAnswer
		tx.afterAnswer = func() {
			if then != nil {
				then()
			}
			tx.bumpAgain(&sub.standard)
		}
	}
	insertIn(tx, s.subnets, sub)
	tx.bump(&sub.network.standard)
	s.selfAddress(tx, sub)
	s.addressGateways(tx, sub)
	return sub, nil
}

// addressGateways gives each router that leaves by the subnet's network an address there, unless it has one of that
// version.
func (s *Server) addressGateways(tx *transaction, sub *subnet) {
	if sub.version == 4 && s.since(GatewayMissesFirstSubnet) {
		return
	}
	for _, p := range s.ports.with("network_id", sub.network.id) {
		if p.deviceOwner != ownerRouterGateway || sub.selfAddressed() ||
			slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.subnet.version == sub.version }) {
			continue
		}
		if s.assignAny(tx, p, []*subnet{sub}) == nil {
			tx.bump(&p.standard)
			if r, ok := s.routers.byID[p.deviceID]; ok {
				tx.bump(&r.standard)
			}
		}
	}
}

// checkOrigin refuses what says of a subnet's CIDR too much, or nothing.
func checkOrigin(in values) *apiError {
	pool, fallback := in["subnetpool_id"] != nil, in.truth("use_default_subnetpool", false)
	switch {
	case in.has("cidr") && in["prefixlen"] != nil:
		return badResource("subnets", "cidr and prefixlen must not be supplied together")
	case in["segment_id"] != nil:
		return refuse(http.StatusNotFound, "SegmentNotFound", "Segment %s could not be found.", in.text("segment_id"))
	case pool && fallback:
		return badResource("subnets", "subnetpool_id and use_default_subnetpool cannot both be specified")
	case !pool && !fallback && !in.has("cidr"):
		return badResource("subnets", "a subnetpool must be specified in the absence of a cidr")
	case pool && !in.has("cidr") && in.has("allocation_pools"):
		return badResource("subnets", "allocation_pools allowed only for specific subnet requests.")
	}
	return nil
}

func (s *Server) checkOverlap(sub *subnet) *apiError {
	if sub.prefix.Bits() == 0 {
		return invalidInput("0 is not allowed as CIDR prefix length")
	}
	for _, other := range s.subnets.with("network_id", sub.network.id) {
		if other.prefix.Overlaps(sub.prefix) {
			return invalidInput("Requested subnet with cidr: %s for network: %s overlaps with another subnet",
				sub.prefix, sub.network.id)
		}
	}
	return nil
}

func wrongVersion(name, address string, version int) *apiError {
	return invalidInput("%s '%s' does not match the ip_version '%d'", name, address, version)
}

func versionOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// validate checks what a create and an update have in common. hadDHCP is whether the subnet had DHCP before, for what
// is there already is not questioned; label is how messages name the subnet.
func (s *Server) validate(sub *subnet, in values, hadDHCP bool, label string) *apiError {
	pooled := !sub.prefix.IsValid() // the pool gives it what it needs
	if in.has("cidr") && versionOf(sub.prefix.Addr()) != sub.version {
		return wrongVersion("cidr", sub.prefix.String(), sub.version)
	}
	if in.has("cidr") && sub.prefix.Addr() == netip.IPv6Unspecified() && s.since(EmptyIPv6IsRefused) {
		return invalidInput("IPv6 subnet '::' is not supported")
	}
	if sub.dhcp && !hadDHCP && !pooled {
		if err := sub.validateDHCP(); err != nil {
			return err
		}
	}
	if in["gateway_ip"] != nil {
		if versionOf(sub.gateway) != sub.version {
			return wrongVersion("gateway_ip", sub.gateway.String(), sub.version)
		}
		if !pooled && firstNetworkOrBroadcast(sub.prefix, sub.gateway) {
			return invalidInput("Gateway is not valid on subnet")
		}
	}
	if in.has("dns_nameservers") {
		if err := sub.validateNameservers(label); err != nil {
			return err
		}
	}
	if in.has("host_routes") {
		if err := sub.validateRoutes(label); err != nil {
			return err
		}
	}
	return sub.validateModes()
}

func (sub *subnet) validateDHCP() *apiError {
	first := sub.prefix.Addr()
	switch {
	case sub.prefix.Bits() > first.BitLen()-2:
		return invalidInput("Subnet has a prefix length that is incompatible with DHCP service enabled")
	case first.IsMulticast():
		return invalidInput("Multicast IP subnet is not supported if enable_dhcp is True")
	case first.IsLoopback():
		return invalidInput("Loopback IP subnet is not supported if enable_dhcp is True")
	case sub.version == 4 && first.IsUnspecified():
		return invalidInput("First IP '0.0.0.0' of network is not supported if enable_dhcp is True.")
	}
	return nil
}

func (sub *subnet) validateNameservers(label string) *apiError {
	if len(sub.nameservers) > maxNameservers {
		return refuse(http.StatusBadRequest, "DNSNameServersExhausted", "Unable to complete operation for %s. "+
			"The number of DNS nameservers exceeds the limit %d.", label, maxNameservers)
	}
	for _, server := range sub.nameservers {
		if addr, _ := parseAddr(server); versionOf(addr) != sub.version {
			return wrongVersion("dns_nameserver", server, sub.version)
		}
	}
	return nil
}

func (sub *subnet) validateRoutes(label string) *apiError {
	if len(sub.routes) > maxHostRoutes {
		return refuse(http.StatusBadRequest, "HostRoutesExhausted", "Unable to complete operation for %s. "+
			"The number of host routes exceeds the limit %d.", label, maxHostRoutes)
	}
	for _, r := range sub.routes {
		if addr, _ := parseAddr(r.Nexthop); versionOf(addr) != sub.version {
			return wrongVersion("nexthop", r.Nexthop, sub.version)
		}
		if prefix, _ := parsePrefix(r.Destination); versionOf(prefix.Addr()) != sub.version {
			return wrongVersion("destination", r.Destination, sub.version)
		}
	}
	return nil
}

func (sub *subnet) validateModes() *apiError {
	if sub.version == 4 {
		if sub.raMode != "" {
			return invalidInput("ipv6_ra_mode is not valid when ip_version is 4")
		}
		if sub.addressMode != "" {
			return invalidInput("ipv6_address_mode is not valid when ip_version is 4")
		}
		return nil
	}
	if sub.raMode == "" && sub.addressMode == "" {
		return nil
	}
	if !sub.dhcp {
		return invalidInput("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")
	}
	if sub.raMode != "" && sub.addressMode != "" && sub.raMode != sub.addressMode {
		return invalidInput("ipv6_ra_mode set to '%s' with ipv6_address_mode set to '%s' is not valid. If both "+
			"attributes are set, they must be the same value", sub.raMode, sub.addressMode)
	}
	if sub.selfAddressed() && sub.prefix.IsValid() && sub.prefix.Bits() != 64 {
		return invalidInput("Invalid CIDR %s for IPv6 address mode. OpenStack uses the EUI-64 address format, "+
			"which requires the prefix to be /64", sub.prefix)
	}
	return nil
}

// updateSubnet changes a subnet.
func (s *Server) updateSubnet(tx *transaction, _ *caller, sub *subnet, in values) *apiError {
	next := *sub
	if in.has("gateway_ip") {
		next.gateway, _ = parseAddr(in.text("gateway_ip"))
	}
	next.dhcp = in.truth("enable_dhcp", sub.dhcp)
	if in.has("dns_nameservers") {
		next.nameservers = stringsOf(in["dns_nameservers"])
	}
	if in.has("host_routes") {
		next.routes = s.reroute(sub.routes, routesOf(in["host_routes"]))
	}
	if in.has("service_types") {
		next.services = stringsOf(in["service_types"])
	}
	next.published = in.truth("dns_publish_fixed_ip", sub.published)
	if sub.version == 6 && !next.dhcp && in.has("enable_dhcp") && (sub.raMode != "" || sub.addressMode != "") {
		return invalidInput("Cannot disable enable_dhcp with ipv6 attributes set")
	}
	if err := s.validate(&next, in, sub.dhcp, sub.id); err != nil {
		return err
	}
	if next.gateway != sub.gateway && next.gateway.IsValid() {
		if id, ok := sub.taken[sub.gateway]; ok && s.ports.byID[id].isRouterInterface() {
			return refuse(http.StatusConflict, "GatewayIpInUse",
				"Current gateway ip %s already in use by port %s. Unable to update.", sub.gateway, id)
		}
	}
	if in.has("allocation_pools") {
		list, _ := in["allocation_pools"].([]any)
		var err *apiError
		if next.pools, err = parsePools(list); err != nil {
			return err
		}
		if err := checkPools(next.pools, sub.prefix); err != nil {
			return err
		}
	}
	if next.gateway != sub.gateway || in.has("allocation_pools") {
		if err := checkGatewayOutside(next.gateway, next.pools); err != nil {
			return err
		}
	}
	if err := tx.claim(&sub.standard); err != nil {
		return err
	}
	retyped := len(next.services)+len(sub.services) > 0 && in.has("service_types") // they are written anew
	s.subnets.change(sub, func() {
		*sub = next
		sub.rename(in)
	})
	row := tx.moves("name", "gateway_ip", "enable_dhcp") ||
		tx.moves("dns_nameservers", "host_routes", "allocation_pools") && !s.since(SubnetListsKeepRevision)
	// A description counts whatever it was, apart from what hangs on the row.
	if row || in.has("description") {
		tx.bump(&sub.standard)
	}
	beside := tx.moves("dns_publish_fixed_ip") || retyped
	if beside && !row {
		tx.bumpAgain(&sub.standard)
	}
	if row || beside || in.has("description") && !s.since(SubnetDescriptionKeepsNetwork) {
		tx.bump(&sub.network.standard)
	}
	return nil
}

func (s *Server) deleteSubnet(tx *transaction, _ *caller, sub *subnet) *apiError {
	inUse := refuse(http.StatusConflict, "SubnetInUse", "Unable to complete operation on subnet %s: "+
		"One or more ports have an IP allocation from this subnet.", sub.id)
	for _, id := range sub.taken {
		p := s.ports.byID[id]
		if p.isRouterInterface() || !sub.selfAddressed() && !p.goesWithNetwork() {
			return inUse
		}
	}
	if err := tx.claim(&sub.standard); err != nil {
		return err
	}
	for _, id := range sub.taken {
		p := s.ports.byID[id]
		p.fixedIPs = slices.DeleteFunc(slices.Clone(p.fixedIPs), func(f fixedIP) bool { return f.subnet == sub })
		tx.bump(&p.standard)
	}
	s.subnets.remove(sub)
	tx.bump(&sub.network.standard)
	return nil
}

// selfAddress gives the ports that are there already their addresses in a new network of self-made addresses.
func (s *Server) selfAddress(tx *transaction, sub *subnet) {
	if !sub.selfAddressed() {
		return
	}
	for _, p := range s.ports.with("network_id", sub.network.id) {
		if strings.HasPrefix(p.deviceOwner, ownerNetworkPrefix) {
			continue
		}
		s.assign(tx, p, sub, eui64(sub.prefix, p.mac))
		tx.bump(&p.standard)
		if !s.since(OwnAddressMovesPortOnce) {
			tx.bumpAgain(&p.standard)
		}
	}
}
