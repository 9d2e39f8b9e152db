package neutrontest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// router joins subnets, and leads outside if it has a gateway.
type router struct {
	standard
	adminStateUp bool
	gateway      *port // nil: none
	snat         bool
	routes       []route
	ha           bool // on several agents
	distributed  bool // on all compute hosts
}

// interfaceOwner is the device owner of the router's interfaces.
func (r *router) interfaceOwner() string {
	switch {
	case r.distributed:
		return ownerDistributedInterface
	case r.ha:
		return ownerReplicatedInterface
	default:
		return ownerRouterInterface
	}
}

func (s *Server) routerKind() kind {
	k := &resources[*router]{server: s, schema: routerSchema(s), table: s.routers}
	k.build = s.createRouter
	k.alter = s.updateRouter
	k.discard = s.deleteRouter
	k.actions = map[string]func(*transaction, *caller, *router, map[string]any) (any, *apiError){
		"add_router_interface":    s.addRouterInterface,
		"remove_router_interface": s.removeRouterInterface,
	}
	return k
}

// gatewayBody is the external_gateway_info of a router.
type gatewayBody struct {
	NetworkID        string        `json:"network_id"`
	ExternalFixedIPs []fixedIPBody `json:"external_fixed_ips"`
	EnableSNAT       bool          `json:"enable_snat"`
}

func routerSchema(server *Server) *schema[*router] {
	s := &schema[*router]{
		singular: "router", plural: "routers", notFound: routerNotFound, single: true,
		seenBy: func(v *view, r *router) bool { return v.caller.admin || r.project == v.caller.project },
	}
	s.attributes = append([]attribute[*router]{
		identifier[*router](),
		resourceName[*router](),
		{name: "admin_state_up", access: inPost | inPut | visible | filterable | sortable, convert: toBoolean,
			get: func(_ *view, r *router) any { return r.adminStateUp }},
		{name: "status", access: visible | sortable, get: func(*view, *router) any { return "ACTIVE" }},
		tenant[*router](),
		{name: "external_gateway_info", access: inPost | inPut | visible, check: isGatewayInfo,
			get: func(_ *view, r *router) any {
				if r.gateway == nil {
					return nil
				}
				return gatewayBody{r.gateway.network.id, r.gateway.fixedIPBodies(), r.snat}
			}},
		{name: "routes", access: inPut | visible, convert: noneToEmptyList,
			check: areHostRoutes(server.since(RoutesHaveOtherWords)), get: func(_ *view, r *router) any { return r.routes }},
		constant[*router]("flavor_id", nil),
		constant[*router]("availability_zones", []string{}),
		constant[*router]("availability_zone_hints", []string{}),
		{name: "distributed", access: inPost | inPut | visible | adminOnly, convert: toBoolean,
			get: func(_ *view, r *router) any { return r.distributed }},
		{name: "ha", access: inPost | inPut | visible | adminOnly, convert: toBoolean,
			get: func(_ *view, r *router) any { return r.ha }},
	}, standardAttributes[*router]()...)
	return s.init()
}

// isGatewayInfo accepts nothing, an empty object, and an object that names a network.
func isGatewayInfo(v any) string {
	object, ok := v.(map[string]any)
	if v == nil || ok && len(object) == 0 {
		return ""
	}
	if !ok {
		return "'" + pyString(v) + "' is not a dictionary"
	}
	return isUUID(object["network_id"])
}

func (s *Server) createRouter(tx *transaction, c *caller, in values) (*router, *apiError) {
	r := &router{
		adminStateUp: in.truth("admin_state_up", true), snat: true, routes: []route{},
		ha: in.truth("ha", false), distributed: in.truth("distributed", false),
	}
	tx.stamp("routers", &r.standard, in)
	r.revision = 1 // its attributes of other extensions are written after it
	if err := s.setGateway(tx, c, "create", r, in); err != nil {
		return nil, err
	}
	if r.gateway != nil && !s.since(GatewayMovesRouterLess) {
		tx.bumpAgain(&r.standard)
	}
	insertIn(tx, s.routers, r)
	return r, nil
}

// setGateway connects a router to an external network, or takes it off. A gateway on the same network stays as it is. A
// gateway's port that comes or goes moves the router's revision each time, and so before a conditional request is held
// to it: the real one answers 412 then, and unlike this one leaves the request half done.
func (s *Server) setGateway(tx *transaction, c *caller, verb string, r *router, in values) *apiError {
	if !in.has("external_gateway_info") {
		return nil
	}
	info, _ := in["external_gateway_info"].(map[string]any)
	for _, part := range []string{"enable_snat", "external_fixed_ips"} {
		if has(info, part) && !c.admin {
			rule := "rule:" + verb + "_router"
			whole := rule + ":external_gateway_info"
			return disallowed("(" + rule + " and (" + whole + " and (" + whole + ":network_id and " + whole + ":" +
				part + ")))")
		}
	}
	old := r.gateway
	if old != nil && info["network_id"] != old.network.id && len(s.floatingIPsOf(r)) > 0 {
		return refuse(http.StatusConflict, "RouterExternalGatewayInUseByFloatingIp", "Gateway cannot be updated for router "+
			"%s, since a gateway to external network %s is required by one or more floating IPs.", r.id, old.network.id)
	}
	if len(info) == 0 {
		if old != nil {
			r.gateway = nil
			tx.onUndo(func() { r.gateway = old })
			s.dropGateway(tx, r, old)
		}
		return nil
	}
	id, _ := info["network_id"].(string)
	n, ok := s.networks.byID[id]
	if !ok || !s.sees(c, n) {
		return networkNotFound(id)
	}
	if !n.external {
		return badResource("router", "Network %s is not an external network", id)
	}
	was := r.snat
	tx.onUndo(func() { r.snat = was })
	r.snat = true // its default, also where the router had it otherwise
	if given, ok := info["enable_snat"]; ok {
		snat, err := toBoolean(given)
		if err != nil {
			return err
		}
		r.snat = snat.(bool)
	}
	if old != nil && old.network == n && !has(info, "external_fixed_ips") {
		return nil
	}
	if old != nil {
		s.dropGateway(tx, r, old)
	}
	wanted := values{"network_id": id, "device_id": r.id, "device_owner": ownerRouterGateway}
	if list, ok := info["external_fixed_ips"]; ok {
		wanted["fixed_ips"] = list
	}
	// The port is nobody's, so that no tenant sees it.
	p, err := s.createPort(tx, c, wanted)
	if err != nil {
		return err
	}
	r.gateway = p
	tx.onUndo(func() { r.gateway = old })
	tx.bumpAgain(&r.standard)
	return nil
}

func (s *Server) dropGateway(tx *transaction, r *router, gateway *port) {
	s.dropPort(tx, gateway)
	tx.onUndo(func() { s.ports.insert(gateway) })
	tx.bumpAgain(&r.standard)
	tx.bumpAgain(&r.standard)
}

func (s *Server) updateRouter(tx *transaction, c *caller, r *router, in values) *apiError {
	if !in.asksForSomething() {
		return nil
	}
	routes := r.routes
	if in.has("routes") {
		routes = routesOf(in["routes"])
		for _, route := range routes {
			if !s.reaches(r, route.Nexthop) {
				return refuse(http.StatusBadRequest, "InvalidRoutes",
					"Invalid format for routes: %s, the nexthop is not connected with router", pyRepr(in["routes"]))
			}
		}
	}
	snat := r.snat
	if err := s.setGateway(tx, c, "update", r, in); err != nil {
		return err
	}
	if err := r.checkKind(in); err != nil {
		return err
	}
	if err := tx.claim(&r.standard); err != nil {
		return err
	}
	delete(tx.differs, "external_gateway_info") // its port has counted
	if tx.moves() || snat != r.snat {
		tx.bumpAgain(&r.standard)
	}
	s.routers.change(r, func() {
		r.rename(in)
		r.routes = routes
		r.adminStateUp = in.truth("admin_state_up", r.adminStateUp)
		r.ha, r.distributed = in.truth("ha", r.ha), in.truth("distributed", r.distributed)
	})
	for _, p := range s.interfaces(r) {
		if p.deviceOwner != r.interfaceOwner() {
			tx.bump(&p.standard)
			s.ports.change(p, func() { p.deviceOwner = r.interfaceOwner() })
		}
	}
	return nil
}

// checkKind refuses to make a router of another kind while it is switched on. It may not be switched off, or on, for
// being distributed in the same request.
func (r *router) checkKind(in values) *apiError {
	const off = " of active routers. Please set router admin_state_up to False prior to upgrade"
	up := in.truth("admin_state_up", r.adminStateUp)
	switch {
	case in.truth("distributed", r.distributed) != r.distributed && (up || r.adminStateUp):
		return badResource("router", "Cannot change the 'distributed' attribute"+off)
	case in.truth("ha", r.ha) != r.ha && up:
		return badResource("router", "Cannot change HA attribute"+off)
	}
	return nil
}

// reaches is whether an address is in one of the networks that a router is connected to.
func (s *Server) reaches(r *router, nexthop string) bool {
	address, _ := parseAddr(nexthop)
	return slices.ContainsFunc(s.routerSubnets(r), func(sub *subnet) bool { return sub.prefix.Contains(address) })
}

// routerSubnets are the subnets on which a router has a port, the outer ones included.
func (s *Server) routerSubnets(r *router) []*subnet {
	var out []*subnet
	for _, p := range s.ports.with("device_id", r.id) {
		for _, f := range p.fixedIPs {
			out = append(out, f.subnet)
		}
	}
	return out
}

// interfaces are the ports by which a router serves subnets.
func (s *Server) interfaces(r *router) []*port {
	return slices.DeleteFunc(slices.Clone(s.ports.with("device_id", r.id)), func(p *port) bool {
		return !p.isRouterInterface()
	})
}

func (s *Server) deleteRouter(tx *transaction, _ *caller, r *router) *apiError {
	if ports := s.interfaces(r); len(ports) > 0 {
		ids := make([]string, 0, len(ports))
		for _, p := range ports {
			ids = append(ids, p.id)
		}
		return refuse(http.StatusConflict, "RouterInUse", "Router %s has ports still attached: %s",
			r.id, strings.Join(ids, ", "))
	}
	if (r.gateway != nil || s.options.OVN) && tx.expected != nil {
		tx.bumpAgain(&r.standard) // by its gateway's going; see setGateway
	}
	if err := tx.claim(&r.standard); err != nil {
		return err
	}
	if r.gateway != nil {
		s.dropPort(tx, r.gateway)
	}
	s.routers.remove(r)
	return nil
}

// interfaceBody is what adding and removing an interface answer.
type interfaceBody struct {
	ID        string   `json:"id"`
	TenantID  string   `json:"tenant_id,omitempty"`
	ProjectID string   `json:"project_id,omitempty"`
	PortID    string   `json:"port_id"`
	NetworkID string   `json:"network_id"`
	SubnetID  string   `json:"subnet_id"`
	SubnetIDs []string `json:"subnet_ids"`
}

func (s *Server) newInterfaceBody(r *router, p *port, subnets []*subnet) interfaceBody {
	body := interfaceBody{ID: r.id, TenantID: p.project, PortID: p.id, NetworkID: p.network.id}
	if s.since(InterfacesTellProject) {
		body.TenantID, body.ProjectID = "", p.project
	}
	for _, sub := range subnets {
		body.SubnetID = sub.id
		body.SubnetIDs = append(body.SubnetIDs, sub.id)
	}
	return body
}

// interfaceTarget reads what an interface is to be added for or removed from.
func interfaceTarget(body map[string]any, adding bool) (portID, subnetID string, err *apiError) {
	if !has(body, "port_id") && !has(body, "subnet_id") {
		return "", "", badResource("router", "Either subnet_id or port_id must be specified")
	}
	for _, key := range []string{"port_id", "subnet_id"} {
		if id, given := body[key]; given {
			if reason := isUUID(id); reason != "" {
				return "", "", badResource("router", "%s", reason)
			}
		}
	}
	if adding && has(body, "port_id") && has(body, "subnet_id") {
		return "", "", badResource("router", "Cannot specify both subnet-id and port-id")
	}
	portID, _ = body["port_id"].(string)
	subnetID, _ = body["subnet_id"].(string)
	return portID, subnetID, nil
}

func (s *Server) addRouterInterface(tx *transaction, c *caller, r *router, body map[string]any) (any, *apiError) {
	portID, subnetID, err := interfaceTarget(body, true)
	if err != nil {
		return nil, err
	}
	var p *port
	var subnets []*subnet
	if portID != "" {
		var ok bool
		if p, ok = s.ports.byID[portID]; !ok || !c.admin && p.project != c.project {
			return nil, portNotFound(portID)
		}
		if p.deviceID != "" {
			return nil, refuse(http.StatusConflict, "PortInUse", "Unable to complete operation on port %s for network "+
				"%s. Port already has an attached device %s.", p.id, p.network.id, p.deviceID)
		}
		if len(p.fixedIPs) == 0 {
			return nil, badResource("router", "Router port must have at least one fixed IP")
		}
		for _, f := range p.fixedIPs {
			subnets = append(subnets, f.subnet)
		}
	} else {
		sub, ok := s.subnets.byID[subnetID]
		if !ok || !s.seesSubnet(c, sub) {
			return nil, subnetNotFound(subnetID)
		}
		if !sub.gateway.IsValid() {
			return nil, badResource("router", "Subnet for router interface must have a gateway IP")
		}
		subnets = []*subnet{sub}
	}
	for _, sub := range subnets {
		if sub.advertisedByOthers() {
			return nil, badResource("router", "IPv6 subnet %s configured to receive RAs from an external router cannot be "+
				"added to Neutron Router.", sub.id)
		}
	}
	if p != nil {
		if err := s.checkInterfaceSubnets(r, p, subnets); err != nil {
			return nil, err
		}
	}
	if err := s.checkRouterOverlap(r, subnets); err != nil {
		return nil, err
	}
	if p == nil {
		sub := subnets[0]
		if p, err = s.createPort(tx, c, values{
			"network_id": sub.network.id, "tenant_id": r.project,
			"device_id": r.id, "device_owner": r.interfaceOwner(),
			"fixed_ips": []any{map[string]any{"subnet_id": sub.id, "ip_address": sub.gateway.String()}},
		}); err != nil {
			return nil, err
		}
		if !s.since(InterfaceMovesPortOnce) {
			p.revision++ // being attached counts as a change
		}
	} else {
		tx.bump(&p.standard)
		if !s.since(InterfaceMovesPortOnce) {
			tx.bumpAgain(&p.standard) // it is written before and after the checks
		}
		s.ports.change(p, func() {
			p.deviceID, p.deviceOwner = r.id, r.interfaceOwner()
		})
	}
	tx.bump(&r.standard)
	return s.newInterfaceBody(r, p, subnets), nil
}

// checkInterfaceSubnets refuses a port with several IPv4 subnets, and a second one with IPv6 subnets of a network.
func (s *Server) checkInterfaceSubnets(r *router, p *port, subnets []*subnet) *apiError {
	fours := 0
	for _, sub := range subnets {
		if sub.prefix.Addr().Is4() {
			fours++
		}
	}
	if fours < len(subnets) {
		for _, other := range s.interfaces(r) {
			if other.network == p.network && slices.ContainsFunc(other.fixedIPs, func(f fixedIP) bool {
				return f.subnet.prefix.Addr().Is6()
			}) {
				if s.since(SecondIPv6PortHasOtherWords) {
					return badResource("router", "Router already contains IPv6 port %s belonging to network id %s. Only one "+
						"IPv6 port from the same network subnet can be connected to a router.", other.id, p.network.id)
				}
				return badResource("router", "Cannot have multiple router ports with the same network id if both contain "+
					"IPv6 subnets. Existing port %s has IPv6 subnet(s) and network id %s", other.id, p.network.id)
			}
		}
	}
	if fours > 1 {
		return badResource("router", "Cannot have multiple IPv4 subnets on router port")
	}
	return nil
}

// checkRouterOverlap refuses to route between networks whose addresses cannot be told apart.
func (s *Server) checkRouterOverlap(r *router, subnets []*subnet) *apiError {
	present := s.routerSubnets(r)
	for _, sub := range subnets {
		if slices.Contains(present, sub) {
			return badResource("router", "Router already has a port on subnet %s", sub.id)
		}
		for _, other := range present {
			if other.prefix.Overlaps(sub.prefix) {
				return badResource("router", "Cidr %s of subnet %s overlaps with cidr %s of subnet %s",
					sub.prefix, sub.id, other.prefix, other.id)
			}
		}
	}
	return nil
}

func (s *Server) removeRouterInterface(tx *transaction, c *caller, r *router, body map[string]any) (any, *apiError) {
	portID, subnetID, err := interfaceTarget(body, false)
	if err != nil {
		return nil, err
	}
	if portID == "" {
		if sub, ok := s.subnets.byID[subnetID]; !ok || !s.seesSubnet(c, sub) {
			return nil, subnetNotFound(subnetID)
		}
	}
	var found *port
	for _, p := range s.interfaces(r) {
		onSubnet := slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.subnet.id == subnetID })
		if portID != "" && p.id == portID || portID == "" && onSubnet {
			found = p
		}
	}
	switch {
	case found == nil && portID != "":
		return nil, refuse(http.StatusNotFound, "RouterInterfaceNotFound",
			"Router %s does not have an interface with id %s", r.id, portID)
	case found == nil:
		return nil, refuse(http.StatusNotFound, "RouterInterfaceNotFoundForSubnet",
			"Router %s has no interface on subnet %s", r.id, subnetID)
	}
	var subnets []*subnet
	for _, f := range found.fixedIPs {
		subnets = append(subnets, f.subnet)
		for _, route := range r.routes {
			if nexthop, err := netip.ParseAddr(route.Nexthop); err == nil && f.subnet.prefix.Contains(nexthop) {
				return nil, refuse(http.StatusConflict, "RouterInterfaceInUseByRoute", "Router interface for subnet "+
					"%s on router %s cannot be deleted, as it is required by one or more routes.", f.subnet.id, r.id)
			}
		}
	}
	if len(s.floatingIPsOf(r, subnets...)) > 0 {
		return nil, refuse(http.StatusConflict, "RouterInterfaceInUseByFloatingIP", "Router interface for subnet %s on "+
			"router %s cannot be deleted, as it is required by one or more floating IPs.", subnets[0].id, r.id)
	}
	answer := s.newInterfaceBody(r, found, subnets)
	s.dropPort(tx, found)
	tx.bump(&r.standard)
	return answer, nil
}
