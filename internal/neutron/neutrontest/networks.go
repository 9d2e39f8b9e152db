package neutrontest

import (
	"net/http"
	"strings"
)

// network is a layer 2 segment that subnets and ports belong to.
type network struct {
	standard
	adminStateUp bool
	mtu          int
	shared       bool
	external     bool
	portSecurity bool
	dnsDomain    string
	isDefault    bool
	segment      int // vxlan id
}

// public is whether others than the owner see the network.
func (n *network) public() bool { return n.shared || n.external }

// segmentIDs gives out vxlan ids, the lowest free one first. Ids above the limit are there for those who ask for them.
type segmentIDs struct {
	limit int // Unlimited, or the highest id to be given out
	next  int // no id below it is free
	used  map[int]bool
}

func (s *segmentIDs) take() (int, bool) {
	for s.next = max(s.next, 1); s.limit == Unlimited || s.next <= s.limit; s.next++ {
		if s.takeOne(s.next) {
			return s.next, true
		}
	}
	return 0, false
}

func (s *segmentIDs) takeOne(id int) bool {
	if s.used[id] {
		return false
	}
	s.used[id] = true
	return true
}

func (s *segmentIDs) release(id int) {
	delete(s.used, id)
	s.next = min(s.next, id)
}

func (s *Server) networkKind() kind {
	k := &resources[*network]{server: s, schema: networkSchema(), table: s.networks}
	k.build = s.createNetwork
	k.alter = s.updateNetwork
	k.discard = s.deleteNetwork
	return k
}

func networkSchema() *schema[*network] {
	s := &schema[*network]{
		singular: "network", plural: "networks", notFound: networkNotFound, strictMarker: true,
		seenBy: func(v *view, n *network) bool { return sees(v.caller, n) },
	}
	s.attributes = append([]attribute[*network]{
		identifier[*network](),
		resourceName[*network](),
		{name: "subnets", access: visible, get: func(v *view, n *network) any { return v.server.subnetIDs(n) }},
		{name: "admin_state_up", access: inPost | inPut | visible | filterable | sortable, convert: toBoolean,
			get: func(_ *view, n *network) any { return n.adminStateUp }},
		{name: "status", access: visible | filterable | sortable,
			get: func(*view, *network) any { return "ACTIVE" }},
		tenant[*network](),
		{name: "shared", access: inPost | inPut | visible | filterable | adminToSet | adminToUpdate,
			fallback: false, convert: toBoolean, get: func(_ *view, n *network) any { return n.shared }},
		{name: "router:external", access: inPost | inPut | visible | filterable | adminToSet | adminToUpdate,
			fallback: false, convert: toBoolean, get: func(_ *view, n *network) any { return n.external }},
		{name: "provider:network_type", access: inPost | inPut | visible | filterable | adminOnly,
			check: stringUpTo(32), get: func(*view, *network) any { return "vxlan" }},
		{name: "provider:physical_network", access: inPost | inPut | visible | filterable | adminOnly,
			check: stringUpTo(64), get: func(*view, *network) any { return nil }},
		{name: "provider:segmentation_id", access: inPost | inPut | visible | filterable | adminOnly,
			convert: toInteger, get: func(_ *view, n *network) any { return n.segment }},
		{name: "port_security_enabled", access: inPost | inPut | visible | policed, fallback: true, convert: toBoolean,
			get: func(_ *view, n *network) any { return n.portSecurity }},
		constant[*network]("availability_zones", []string{}),
		{name: "availability_zone_hints", access: inPost | visible | sortable, check: areUniqueStrings(255),
			get: func(*view, *network) any { return []string{} }},
		{name: "mtu", access: inPost | inPut | visible | filterable | sortable, convert: toInteger,
			check: nonNegative, get: func(_ *view, n *network) any { return n.mtu }},
		constant[*network]("ipv4_address_scope", nil),
		constant[*network]("ipv6_address_scope", nil),
		constant[*network]("l2_adjacency", true),
		{name: "dns_domain", access: inPost | inPut | visible, convert: toLower, check: isDNSDomain,
			get: func(_ *view, n *network) any { return n.dnsDomain }},
		{name: "qos_policy_id", access: inPost | inPut | visible, check: orNone(isUUID),
			get: func(*view, *network) any { return nil }},
		{name: "is_default", access: inPost | inPut | visible | filterable | adminToSet | adminToUpdate,
			fallback: false, convert: toBoolean, match: func(*view, *network, []string) bool { return true },
			get: func(v *view, n *network) any {
				if n.external || v.answersCreate {
					return n.isDefault
				}
				return omitted{}
			}},
	}, standardAttributes[*network]()...)
	return s.init()
}

// sees is whether a caller sees a network: its own, and those that are shared with everyone or lead outside.
func sees(c *caller, n *network) bool { return c.admin || n.project == c.project || n.public() }

// subnetIDs gives the ids of a network's subnets in their order.
func (s *Server) subnetIDs(n *network) []string {
	list := s.subnets.with("network_id", n.id)
	ids := make([]string, len(list))
	for i, sub := range list {
		ids[i] = sub.id
	}
	return ids
}

func (s *Server) createNetwork(tx *transaction, _ *caller, in values) (*network, *apiError) {
	segment, err := s.takeSegment(in)
	if err != nil {
		return nil, err
	}
	tx.onUndo(func() { s.segments.release(segment) })
	mtu, err := s.mtu(in)
	if err != nil {
		return nil, err
	}
	if hints := stringsOf(in["availability_zone_hints"]); len(hints) > 0 {
		return nil, refuse(http.StatusNotFound, "AvailabilityZoneNotFound",
			"AvailabilityZone %s could not be found.", hints[0])
	}
	n := &network{
		adminStateUp: in.truth("admin_state_up", true),
		mtu:          mtu,
		shared:       in.truth("shared", false),
		external:     in.truth("router:external", false),
		portSecurity: in.truth("port_security_enabled", true),
		dnsDomain:    in.text("dns_domain"),
		isDefault:    in.truth("is_default", false),
		segment:      segment,
	}
	tx.stamp(&n.standard, in)
	n.revision = 1 // its segment and its port security are written after it
	insertIn(tx, s.networks, n)
	return n, nil
}

// takeSegment gives a vxlan id: the one that an admin asks for, or any. The cloud has no other kind of network.
func (s *Server) takeSegment(in values) (int, *apiError) {
	switch wanted := in.text("provider:network_type"); {
	case wanted == "" && (in.has("provider:segmentation_id") || in.has("provider:physical_network")):
		return 0, invalidInput("network_type required")
	case wanted != "" && wanted != "vxlan":
		return 0, invalidInput("network_type value '%s' not supported", wanted)
	case in.has("provider:physical_network"):
		return 0, invalidInput("provider:physical_network specified for vxlan network")
	}
	if in.has("provider:segmentation_id") {
		id := in.number("provider:segmentation_id")
		if !s.segments.takeOne(id) {
			return 0, refuse(http.StatusConflict, "TunnelIdInUse",
				"Unable to create the network. The tunnel ID %d is in use.", id)
		}
		return id, nil
	}
	id, ok := s.segments.take()
	if !ok {
		return 0, refuse(http.StatusServiceUnavailable, "NoNetworkAvailable",
			"Unable to create the network. No tenant network is available for allocation.")
	}
	return id, nil
}

// mtu gives the MTU that a request asks for; zero asks for the largest one.
func (s *Server) mtu(in values) (int, *apiError) {
	switch mtu := in.number("mtu"); {
	case mtu == 0:
		return s.options.MaxMTU, nil
	case mtu > s.options.MaxMTU:
		return 0, invalidInput("Requested MTU is too big, maximum is %d", s.options.MaxMTU)
	default:
		return mtu, nil
	}
}

func (s *Server) updateNetwork(tx *transaction, _ *caller, n *network, in values) *apiError {
	if !in.asksForSomething() {
		return nil
	}
	if err := tx.claim(&n.standard); err != nil {
		return err
	}
	mtu := n.mtu
	if in.has("mtu") {
		var err *apiError
		if mtu, err = s.mtu(in); err != nil {
			return err
		}
	}
	tx.bump(&n.standard)
	s.networks.change(n, func() {
		n.rename(in)
		n.mtu = mtu
		n.adminStateUp = in.truth("admin_state_up", n.adminStateUp)
		n.shared = in.truth("shared", n.shared)
		n.external = in.truth("router:external", n.external)
		n.portSecurity = in.truth("port_security_enabled", n.portSecurity)
		if in.has("dns_domain") {
			n.dnsDomain = in.text("dns_domain")
		}
	})
	return nil
}

func (s *Server) deleteNetwork(tx *transaction, _ *caller, n *network) *apiError {
	var using []string
	for _, p := range s.ports.with("network_id", n.id) {
		if !p.goesWithNetwork() {
			using = append(using, p.id)
		}
	}
	if len(using) > 0 {
		return refuse(http.StatusConflict, "NetworkInUse", "Unable to complete operation on network %s. There are one "+
			"or more ports still in use on the network, id for these ports is: %s.", n.id, strings.Join(using, ","))
	}
	if err := tx.claim(&n.standard); err != nil {
		return err
	}
	for _, p := range append([]*port(nil), s.ports.with("network_id", n.id)...) {
		s.dropPort(tx, p)
	}
	for _, sub := range append([]*subnet(nil), s.subnets.with("network_id", n.id)...) {
		s.subnets.remove(sub)
	}
	s.networks.remove(n)
	s.segments.release(n.segment)
	return nil
}
