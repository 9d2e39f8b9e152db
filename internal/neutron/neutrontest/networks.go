package neutrontest

import (
	"math"
	"net/http"
	"slices"
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
	policy       *qosPolicy // nil: none
	isDefault    bool
	segment      segment
	zoneHints    []string // sorted
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
		seenBy: func(v *view, n *network) bool { return v.server.sees(v.caller, n) },
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
			fallback: false, convert: toBoolean, get: func(v *view, n *network) any {
				return v.server.sharesWith(n, v.caller.project)
			}},
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
		{name: "availability_zone_hints", access: inPost | visible | sortable, convert: toZoneHints,
			check: areUniqueStrings(math.MaxInt), get: func(_ *view, n *network) any { return n.zoneHints }},
		{name: "mtu", access: inPost | inPut | visible | filterable | sortable, convert: toInteger,
			check: nonNegative, get: func(_ *view, n *network) any { return n.mtu }},
		constant[*network]("ipv4_address_scope", nil),
		constant[*network]("ipv6_address_scope", nil),
		constant[*network]("l2_adjacency", true),
		{name: "dns_domain", access: inPost | inPut | visible, convert: toLower, check: isDNSDomain,
			get: func(_ *view, n *network) any { return n.dnsDomain }},
		{name: "qos_policy_id", access: inPost | inPut | visible, check: orNone(isUUID),
			get: func(_ *view, n *network) any { return n.policy.shownID() }},
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

// sees is whether a caller sees a network: its own, those that are shared with it and those that lead outside.
func (s *Server) sees(c *caller, n *network) bool {
	return c.admin || n.project == c.project || n.external || s.sharesWith(n, c.project)
}

// subnetIDs gives the ids of a network's subnets in their order.
func (s *Server) subnetIDs(n *network) []string {
	list := s.subnets.with("network_id", n.id)
	ids := make([]string, len(list))
	for i, sub := range list {
		ids[i] = sub.id
	}
	return ids
}

func (s *Server) createNetwork(tx *transaction, c *caller, in values) (*network, *apiError) {
	policy, err := s.wantedPolicy(c, in)
	if err != nil {
		return nil, err
	}
	segment, err := s.takeSegment(in)
	if err != nil {
		return nil, err
	}
	tx.onUndo(func() { s.segments.release(segment) })
	mtu, err := s.mtu(in, segment)
	if err != nil {
		return nil, err
	}
	hints := stringsOf(in["availability_zone_hints"])
	slices.Sort(hints)
	for _, hint := range hints {
		if !slices.Contains(s.options.Zones, hint) {
			return nil, refuse(http.StatusNotFound, "AvailabilityZoneNotFound",
				"AvailabilityZone %s could not be found.", hint)
		}
	}
	n := &network{
		adminStateUp: in.truth("admin_state_up", true),
		mtu:          mtu,
		shared:       in.truth("shared", false),
		external:     in.truth("router:external", false),
		portSecurity: in.truth("port_security_enabled", true),
		dnsDomain:    in.text("dns_domain"),
		policy:       policy,
		isDefault:    in.truth("is_default", false),
		segment:      segment,
		zoneHints:    hints,
	}
	tx.stamp("networks", &n.standard, in)
	n.revision = 1 // its segment and its port security are written after it
	insertIn(tx, s.networks, n)
	s.setEveryone(tx, n, accessShared, n.shared)
	s.setEveryone(tx, n, accessExternal, n.external)
	return n, nil
}

func (s *Server) updateNetwork(tx *transaction, c *caller, n *network, in values) *apiError {
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
	policy := n.policy
	if in.has("qos_policy_id") {
		if policy != nil && !mayUsePolicy(c, policy) {
			return refuse(http.StatusForbidden, "PolicyRemoveAuthorizationError", "Failed to remove provided policy %s "+
				"because you are not authorized.", policy.id)
		}
		var err *apiError
		if policy, err = s.wantedPolicy(c, in); err != nil {
			return err
		}
	}
	if err := s.checkUsers(n, in); err != nil {
		return err
	}
	if err := s.resegment(n, in); err != nil {
		return err
	}
	// What hangs on the network's row counts apart from a description, unless the row counts. That a network without a
	// policy is to have none is no change. The one that it has is written anew.
	asks := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return in.has(name) && tx.moves(name) })
	}
	row := asks("name", "admin_state_up", "mtu") ||
		tx.differs["shared"] || tx.differs["router:external"] || tx.differs["is_default"]
	if row || asks("description") {
		tx.bump(&n.standard)
	}
	rewritten := in.has("qos_policy_id") && (policy != nil || n.policy != nil)
	if !row && (asks("port_security_enabled") || tx.differs["dns_domain"] || rewritten) {
		tx.bumpAgain(&n.standard)
	}
	s.networks.change(n, func() {
		n.rename(in)
		n.mtu = mtu
		n.adminStateUp = in.truth("admin_state_up", n.adminStateUp)
		n.shared = in.truth("shared", n.shared)
		n.external = in.truth("router:external", n.external)
		n.portSecurity = in.truth("port_security_enabled", n.portSecurity)
		n.policy = policy
		if in.has("dns_domain") {
			n.dnsDomain = in.text("dns_domain")
		}
	})
	if in.has("shared") {
		s.setEveryone(tx, n, accessShared, n.shared)
	}
	if in.has("router:external") {
		s.setEveryone(tx, n, accessExternal, n.external)
	}
	return nil
}

// checkUsers refuses to take a network back from those who use it.
func (s *Server) checkUsers(n *network, in values) *apiError {
	for _, p := range s.ports.with("network_id", n.id) {
		switch {
		case n.shared && !in.truth("shared", true) && p.project != n.project && !p.goesWithNetwork() &&
			s.grants(n, accessShared, p.project) == nil:
			return refuse(http.StatusConflict, "InvalidSharedSetting", "Unable to reconfigure sharing settings for network "+
				"%s. Multiple %ss are using it.", n.name, s.tenantWord())
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
	for _, r := range append([]*rbacPolicy(nil), s.policies.with("object_id", n.id)...) {
		s.policies.remove(r)
	}
	s.networks.remove(n)
	s.segments.release(n.segment)
	return nil
}
