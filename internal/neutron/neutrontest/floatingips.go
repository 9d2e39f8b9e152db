package neutrontest

import (
	"net/http"
	"net/netip"
	"slices"
)

// floatingIP is an address of an external network that a router translates to that of a port.
type floatingIP struct {
	standard
	// outer is the port on the external network that holds the address. Nobody but an administrator sees it.
	outer *port
	// port and fixed are what it leads to; nil and invalid for nothing.
	port      *port
	fixed     netip.Addr
	router    *router
	qosPolicy *qosPolicy
}

const ownerFloatingIP = "network:floatingip"

func (s *Server) floatingIPKind() kind {
	k := &resources[*floatingIP]{server: s, schema: floatingIPSchema(), table: s.floating}
	k.build = s.createFloatingIP
	k.alter = func(tx *transaction, _ *caller, r *floatingIP, in values) *apiError {
		next := *r
		if !in.has("port_id") && r.port != nil {
			in["port_id"] = r.port.id // what is not named is as it was, and is looked up anew
		}
		if err := s.associate(&next, in); err != nil {
			return err
		}
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		tx.bump(&r.standard)
		s.floating.change(r, func() {
			r.rename(in)
			r.port, r.fixed, r.router = next.port, next.fixed, next.router
			r.qosPolicy = nil // the real one takes it away with each update that does not name it
			if policy, ok := s.qos.byID[in.text("qos_policy_id")]; ok {
				r.qosPolicy = policy
			}
		})
		return nil
	}
	k.discard = func(tx *transaction, _ *caller, r *floatingIP) *apiError {
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		s.dropPort(tx, r.outer)
		s.floating.remove(r)
		return nil
	}
	return k
}

func floatingIPSchema() *schema[*floatingIP] {
	id := func(p *port) any {
		if p == nil {
			return nil
		}
		return p.id
	}
	s := &schema[*floatingIP]{
		singular: "floatingip", plural: "floatingips", single: true,
		notFound: func(id string) *apiError {
			return refuse(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", id)
		},
		seenBy: func(v *view, r *floatingIP) bool { return v.caller.admin || r.project == v.caller.project },
	}
	s.attributes = append([]attribute[*floatingIP]{
		identifier[*floatingIP](),
		{name: "floating_ip_address", access: inPost | visible | filterable | sortable | adminToSet, check: isAddressOrNone,
			get: func(_ *view, r *floatingIP) any { return r.address() }},
		{name: "subnet_id", access: inPost, check: isUUIDOrNone},
		{name: "floating_network_id", access: inPost | visible | filterable | sortable | required, check: isUUID,
			get: func(_ *view, r *floatingIP) any { return r.outer.network.id }},
		{name: "router_id", access: visible | filterable | sortable, get: func(_ *view, r *floatingIP) any {
			if r.router == nil {
				return nil
			}
			return r.router.id
		}},
		{name: "port_id", access: inPost | inPut | visible | filterable, check: isUUIDOrNone,
			get: func(_ *view, r *floatingIP) any { return id(r.port) }},
		{name: "fixed_ip_address", access: inPost | inPut | visible | filterable | sortable, check: isAddressOrNone,
			get: func(_ *view, r *floatingIP) any {
				if !r.fixed.IsValid() {
					return nil
				}
				return r.fixed.String()
			}},
		tenant[*floatingIP](),
		{name: "status", access: visible | filterable | sortable, get: func(_ *view, r *floatingIP) any {
			if r.port == nil {
				return "DOWN"
			}
			return "ACTIVE"
		}},
		{name: "qos_policy_id", access: inPost | inPut | visible | filterable, check: isUUIDOrNone,
			get: func(_ *view, r *floatingIP) any {
				if r.qosPolicy == nil {
					return nil
				}
				return r.qosPolicy.id
			}},
	}, standardAttributes[*floatingIP]()...)
	return s.init()
}

func isUUIDOrNone(v any) string {
	if v == nil {
		return ""
	}
	return isUUID(v)
}

func isAddressOrNone(v any) string {
	if v == nil {
		return ""
	}
	return isIPAddress(v)
}

// address is the one of the external network.
func (r *floatingIP) address() string { return r.outer.fixedIPs[0].address.String() }

func (s *Server) createFloatingIP(tx *transaction, c *caller, in values) (*floatingIP, *apiError) {
	n, ok := s.networks.byID[in.text("floating_network_id")]
	isFour := func(sub *subnet) bool { return sub.prefix.Addr().Is4() }
	switch {
	case !ok || !s.sees(c, n):
		return nil, networkNotFound(in.text("floating_network_id"))
	case !n.external:
		return nil, badResource("floatingip", "Network %s is not a valid external network", n.id)
	case !slices.ContainsFunc(s.subnets.with("network_id", n.id), isFour):
		return nil, badResource("floatingip", "Network %s does not contain any IPv4 subnet", n.id)
	}
	wanted := values{"network_id": n.id, "device_owner": ownerFloatingIP}
	fixed := map[string]any{}
	if id := in.text("subnet_id"); id != "" {
		fixed["subnet_id"] = id
	}
	if address := in.text("floating_ip_address"); address != "" {
		fixed["ip_address"] = address
	}
	if len(fixed) > 0 {
		wanted["fixed_ips"] = []any{fixed}
	}
	// The port is nobody's, so that no tenant sees it.
	outer, err := s.createPort(tx, c, wanted)
	if err != nil {
		return nil, err
	}
	four := func(f fixedIP) bool { return f.address.Is4() }
	if !slices.ContainsFunc(outer.fixedIPs, four) {
		return nil, refuse(http.StatusConflict, "ExternalIpAddressExhausted",
			"Unable to find any IP address on external network %s.", n.id)
	}
	outer.fixedIPs = slices.SortedStableFunc(slices.Values(outer.fixedIPs), func(a, b fixedIP) int {
		return a.address.Compare(b.address) // IPv4 first
	})
	r := &floatingIP{outer: outer}
	tx.stamp("floatingips", &r.standard, in)
	outer.deviceID = r.id
	if policy, ok := s.qos.byID[in.text("qos_policy_id")]; ok {
		r.qosPolicy = policy
	}
	if err := s.associate(r, in); err != nil {
		return nil, err
	}
	insertIn(tx, s.floating, r)
	return r, nil
}

// associate makes a floating IP lead to the port that a request names, or nowhere.
func (s *Server) associate(r *floatingIP, in values) *apiError {
	fixed := in.text("fixed_ip_address")
	if in.text("port_id") == "" {
		if fixed != "" {
			return badResource("floatingip", "fixed_ip_address cannot be specified without a port_id")
		}
		r.port, r.fixed, r.router = nil, netip.Addr{}, nil
		return nil
	}
	p, ok := s.ports.byID[in.text("port_id")]
	switch {
	case !ok:
		return portNotFound(in.text("port_id"))
	case p.project != r.project:
		return badResource("floatingip", "Cannot process floating IP association with Port %s, since that port is owned "+
			"by a different %s", p.id, s.tenantWord())
	}
	at, err := s.leadsTo(p, fixed)
	if err != nil {
		return err
	}
	router := s.routerBetween(at.subnet, r.outer.network)
	if router == nil {
		return refuse(http.StatusNotFound, "ExternalGatewayForFloatingIPNotFound",
			"External network %s is not reachable from subnet %s.  Therefore, cannot associate Port %s with a Floating IP.",
			r.outer.network.id, at.subnet.id, p.id)
	}
	if r.port != p {
		for _, other := range s.floating.with("port_id", p.id) {
			if other.outer.network == r.outer.network && other.fixed == at.address {
				return refuse(http.StatusConflict, "FloatingIPPortAlreadyAssociated", "Cannot associate floating IP %s (%s) "+
					"with port %s using fixed IP %s, as that fixed IP already has a floating IP on external network %s.",
					r.address(), r.id, p.id, at.address, r.outer.network.id)
			}
		}
	}
	r.port, r.fixed, r.router = p, at.address, router
	return nil
}

// keepsFloatingIP refuses other addresses for a port if they do not name the one that its floating IP leads to. Neutron
// 23 and later look at the first one that the caller may see, before anything else of the request
// (prevent_internal_ip_change_for_fip in neutron.db.l3_db).
func (s *Server) keepsFloatingIP(c *caller, p *port, wanted []any) *apiError {
	for _, r := range s.floating.with("port_id", p.id) {
		if !c.admin && r.project != c.project {
			continue
		}
		if slices.ContainsFunc(wanted, func(w any) bool { return w.(map[string]any)["ip_address"] == r.fixed.String() }) {
			return nil
		}
		return badResource("port", "Cannot update the fixed_ips of the port %s, because its original fixed_ip has been "+
			"associated to a floating ip", p.id)
	}
	return nil
}

// leadsTo is the address of a port that a floating IP is associated with: the wanted one, or its only one of IPv4.
func (s *Server) leadsTo(p *port, wanted string) (fixedIP, *apiError) {
	if wanted != "" {
		address, ok := parseAddr(wanted)
		if !ok || !address.Is4() {
			return fixedIP{}, badResource("floatingip", "Cannot process floating IP association with %s, since that is not "+
				"an IPv4 address", wanted)
		}
		for _, f := range p.fixedIPs {
			if f.address == address {
				return f, nil
			}
		}
		return fixedIP{}, badResource("floatingip", "Port %s does not have fixed ip %s", p.id, wanted)
	}
	four := slices.DeleteFunc(slices.Clone(p.fixedIPs), func(f fixedIP) bool { return !f.address.Is4() })
	switch len(four) {
	case 0:
		return fixedIP{}, badResource("floatingip",
			"Cannot add floating IP to port %s that has no fixed IPv4 addresses", p.id)
	case 1:
		return four[0], nil
	}
	return fixedIP{}, badResource("floatingip", "Port %s has multiple fixed IPv4 addresses.  "+
		"Must provide a specific IPv4 address when assigning a floating IP", p.id)
}

// routerBetween is a router with an interface on a subnet and a gateway on an external network, or nil.
func (s *Server) routerBetween(inner *subnet, outer *network) *router {
	for _, r := range s.routers.ordered {
		serves := slices.ContainsFunc(s.interfaces(r), func(p *port) bool {
			return slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.subnet == inner })
		})
		if serves && r.gateway != nil && r.gateway.network == outer {
			return r
		}
	}
	return nil
}

// disassociate makes the floating IPs of a port that goes lead nowhere.
func (s *Server) disassociate(tx *transaction, p *port) {
	for _, r := range slices.Clone(s.floating.with("port_id", p.id)) {
		was := *r
		tx.onUndo(func() { s.floating.change(r, func() { r.port, r.fixed, r.router = was.port, was.fixed, was.router }) })
		tx.bump(&r.standard)
		s.floating.change(r, func() { r.port, r.fixed, r.router = nil, netip.Addr{}, nil })
	}
}

// floatingIPsOf are those that a router serves, from the subnets if there are any.
func (s *Server) floatingIPsOf(r *router, from ...*subnet) []*floatingIP {
	return slices.DeleteFunc(slices.Clone(s.floating.ordered), func(f *floatingIP) bool {
		inside := func(sub *subnet) bool { return sub.prefix.Contains(f.fixed) }
		return f.router != r || len(from) > 0 && !slices.ContainsFunc(from, inside)
	})
}
