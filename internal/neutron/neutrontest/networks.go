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
	segment      segment
}

// public is whether others than the owner see the network.
func (n *network) public() bool { return n.shared || n.external }

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
			check: stringUpTo(32), get: func(_ *view, n *network) any { return n.segment.networkType }},
		{name: "provider:physical_network", access: inPost | inPut | visible | filterable | adminOnly,
			check: stringUpTo(64), get: func(_ *view, n *network) any { return text(n.segment.physical) }},
		{name: "provider:segmentation_id", access: inPost | inPut | visible | filterable | adminOnly,
			convert: toInteger, get: func(_ *view, n *network) any { return n.segment.shownID() }},
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
	mtu, err := s.mtu(in, segment)
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
		if mtu, err = s.mtu(in, n.segment); err != nil {
			return err
		}
	}
	if err := s.checkUsers(n, in); err != nil {
		return err
	}
	if err := s.resegment(n, in); err != nil {
		return err
	}
	if in.asksForMoreThanASegment() {
		tx.bump(&n.standard)
	}
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

// checkUsers refuses to take a network back from those who use it.
func (s *Server) checkUsers(n *network, in values) *apiError {
	for _, p := range s.ports.with("network_id", n.id) {
		switch {
		case n.shared && !in.truth("shared", true) && p.project != n.project && !p.goesWithNetwork():
			return refuse(http.StatusConflict, "InvalidSharedSetting", "Unable to reconfigure sharing settings for network "+
				"%s. Multiple tenants are using it.", n.name)
		case n.external && !in.truth("router:external", true) && p.deviceOwner == "network:router_gateway":
			return refuse(http.StatusConflict, "ExternalNetworkInUse", "External network %s cannot be updated to be made "+
				"non-external, since it has existing gateway ports.", n.id)
		}
	}
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
