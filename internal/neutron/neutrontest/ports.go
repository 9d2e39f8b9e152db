package neutrontest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Who a port may belong to, as far as Neutron itself cares (device_owner).
const (
	ownerNetworkPrefix   = "network:"
	ownerRouterInterface = "network:router_interface"
	ownerRouterGateway   = "network:router_gateway"
	ownerDHCP            = "network:dhcp"
	// Those of the interfaces of routers on several agents, and on all compute hosts.
	ownerReplicatedInterface  = "network:ha_router_replicated_interface"
	ownerDistributedInterface = "network:router_interface_distributed"
)

// fixedIP is one address of a port.
type fixedIP struct {
	subnet  *subnet
	address netip.Addr
}

// port is a place on a network with a MAC and any number of addresses.
type port struct {
	standard
	network      *network
	mac          string
	adminStateUp bool
	deviceID     string
	deviceOwner  string
	fixedIPs     []fixedIP
	unaddressed  bool // fixed_ips was given as an empty list
	portSecurity bool
	groups       []string
	host         string
	vnic         string
	dnsName      string
	dnsDomain    string
	policy       *qosPolicy // nil: none
	pairs        []pairBody
}

// isMachines is whether a port is a virtual or a bare machine's, or a file share's.
func (p *port) isMachines() bool {
	return slices.ContainsFunc([]string{"compute:", "baremetal:", "manila:"}, func(prefix string) bool {
		return strings.HasPrefix(p.deviceOwner, prefix)
	})
}

// goesWithNetwork is whether Neutron removes the port itself when its network is deleted.
func (p *port) goesWithNetwork() bool { return p.deviceOwner == ownerDHCP }

func (p *port) isRouterInterface() bool {
	switch p.deviceOwner {
	case ownerRouterInterface, ownerReplicatedInterface, ownerDistributedInterface:
		return true
	}
	return false
}

func (s *Server) portKind() kind {
	k := &resources[*port]{server: s, schema: portSchema(s), table: s.ports}
	k.admit = func(c *caller, in values) *apiError { return s.mayUseNetwork(c, "port", in) }
	k.build = s.createPort
	k.alter = s.updatePort
	k.discard = s.deletePort
	return k
}

// fixedIPBody and dnsBody are parts of a port's body.
type fixedIPBody struct {
	SubnetID  string `json:"subnet_id"`
	IPAddress string `json:"ip_address"`
}

// pairBody is one of a port's address pairs.
type pairBody struct {
	MACAddress string `json:"mac_address"`
	IPAddress  string `json:"ip_address"`
}

type dnsBody struct {
	IPAddress string `json:"ip_address"`
	Hostname  string `json:"hostname"`
	FQDN      string `json:"fqdn"`
}

func (p *port) fixedIPBodies() []fixedIPBody {
	out := make([]fixedIPBody, 0, len(p.fixedIPs))
	for _, f := range p.fixedIPs {
		out = append(out, fixedIPBody{f.subnet.id, f.address.String()})
	}
	return out
}

func (p *port) dnsBodies() []dnsBody {
	out := make([]dnsBody, 0, len(p.fixedIPs))
	for _, f := range p.fixedIPs {
		host := p.dnsName
		if host == "" {
			host = "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(f.address.String())
		}
		out = append(out, dnsBody{f.address.String(), host, host + ".openstacklocal."})
	}
	return out
}

func isAddressFilter(text string) *apiError {
	if key, _, ok := strings.Cut(text, "="); !ok || key == "" {
		return invalidInput("'%s' is not of the form <key>=[value]", text)
	}
	return nil
}

// hasAddress is the filter fixed_ips: each of its values is "ip_address=…" or "subnet_id=…", and for each of the
// two keys one of its values must be true of some address.
func hasAddress(_ *view, p *port, want []string) bool {
	byKey := make(map[string][]string)
	for _, w := range want {
		key, value, _ := strings.Cut(w, "=")
		byKey[key] = append(byKey[key], value)
	}
	for key, values := range byKey {
		if !slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool {
			return key == "ip_address" && slices.Contains(values, f.address.String()) ||
				key == "subnet_id" && slices.Contains(values, f.subnet.id)
		}) {
			return false
		}
	}
	return true
}

// hasMAC is the filter mac_address, which does not mind the spelling. Whether two ports have one MAC is another
// question, in which the real one minds it.
func hasMAC(_ *view, p *port, want []string) bool {
	mac, _ := canonicalMAC(p.mac)
	return slices.ContainsFunc(want, func(w string) bool {
		wanted, ok := canonicalMAC(w)
		return ok && wanted == mac
	})
}

func portSchema(server *Server) *schema[*port] {
	s := &schema[*port]{
		singular: "port", plural: "ports", notFound: portNotFound, strictMarker: true,
		seenBy: func(v *view, p *port) bool {
			return v.caller.admin || p.project == v.caller.project || p.network.project == v.caller.project
		},
	}
	mac := func(v any) (any, *apiError) { return v, nil }
	if server.since(MACsHaveOneForm) {
		mac = toCanonicalMAC
	}
	common := standardAttributes[*port]()
	for i := range common {
		if common[i].name == "tags" {
			common[i].access |= inPost
			common[i].check = areUniqueStrings(maxTagLength)
		}
	}
	s.attributes = append([]attribute[*port]{
		identifier[*port](),
		resourceName[*port](),
		{name: "network_id", access: inPost | required | visible | filterable | sortable, check: isUUID,
			get: func(_ *view, p *port) any { return p.network.id }},
		{name: "admin_state_up", access: inPost | inPut | visible | filterable | sortable, convert: toBoolean,
			get: func(_ *view, p *port) any { return p.adminStateUp }},
		{name: "mac_address", access: inPost | inPut | visible | filterable | sortable | adminToUpdate | policed,
			convert: mac, check: orNone(isMACAddress), get: func(_ *view, p *port) any { return p.mac }, match: hasMAC},
		{name: "fixed_ips", access: inPost | inPut | visible | filterable | policed, check: areFixedIPs,
			get:   func(_ *view, p *port) any { return p.fixedIPBodies() },
			match: hasAddress, filterForm: isAddressFilter},
		{name: "device_id", access: inPost | inPut | visible | filterable | sortable, check: stringUpTo(255),
			get: func(_ *view, p *port) any { return p.deviceID }},
		{name: "device_owner", access: inPost | inPut | visible | filterable | sortable, check: stringUpTo(255),
			get: func(_ *view, p *port) any { return p.deviceOwner }},
		tenant[*port](),
		{name: "status", access: visible | filterable | sortable, get: func(*view, *port) any { return "DOWN" }},
		{name: "port_security_enabled", access: inPost | inPut | visible | policed, convert: toBoolean,
			get: func(_ *view, p *port) any { return p.portSecurity }},
		{name: "dns_name", access: inPost | inPut | visible, convert: toLower, check: isDNSName,
			get: func(_ *view, p *port) any { return p.dnsName }},
		{name: "dns_domain", access: inPost | inPut | visible, convert: toLower, check: isDNSDomain,
			get: func(_ *view, p *port) any { return p.dnsDomain }},
		{name: "dns_assignment", access: visible, get: func(_ *view, p *port) any { return p.dnsBodies() }},
		{name: "qos_policy_id", access: inPost | inPut | visible, check: orNone(isUUID),
			get: func(_ *view, p *port) any { return p.policy.shownID() }},
		{name: "qos_network_policy_id", access: visible,
			get: func(_ *view, p *port) any { return p.network.policy.shownID() }},
		{name: "binding:vif_type", access: visible | adminToSee, get: func(v *view, p *port) any {
			switch {
			case p.host == "":
				return "unbound"
			case slices.Contains(v.server.options.DeadHosts, p.host):
				return "binding_failed"
			}
			return "ovs"
		}},
		{name: "binding:vif_details", access: visible | adminToSee,
			get: func(*view, *port) any { return struct{}{} }},
		{name: "binding:vnic_type", access: inPost | inPut | visible, check: stringUpTo(64),
			get: func(_ *view, p *port) any { return p.vnic }},
		{name: "binding:host_id", access: inPost | inPut | visible | filterable | adminOnly, check: stringUpTo(255),
			get: func(_ *view, p *port) any { return p.host }},
		{name: "binding:profile", access: visible | adminToSee, get: func(*view, *port) any { return struct{}{} }},
		{name: "trunk_details", access: visible, get: func(v *view, p *port) any { return v.server.trunkDetails(p) }},
		{name: "allowed_address_pairs", access: inPost | inPut | visible | policed, convert: noneToEmptyList,
			check: arePairs, get: func(_ *view, p *port) any { return append([]pairBody{}, p.pairs...) }},
		constant[*port]("extra_dhcp_opts", []string{}),
		{name: "security_groups", access: inPost | inPut | visible | filterable, convert: noneToEmptyList, check: areUUIDs,
			get: func(_ *view, p *port) any { return p.groups },
			match: func(_ *view, p *port, want []string) bool {
				return slices.ContainsFunc(want, func(id string) bool { return slices.Contains(p.groups, id) })
			}},
		{name: "resource_request", access: visible | adminToSee, get: func(*view, *port) any { return nil }},
		{name: "ip_allocation", access: visible | filterable | sortable, get: func(_ *view, p *port) any {
			if p.unaddressed {
				return "none"
			}
			return "immediate"
		}},
	}, common...)
	return s.init()
}

func (s *Server) createPort(tx *transaction, c *caller, in values) (*port, *apiError) {
	n, ok := s.networks.byID[in.text("network_id")]
	if !ok {
		return nil, networkNotFound(in.text("network_id"))
	}
	p := &port{
		network:      n,
		mac:          in.text("mac_address"),
		adminStateUp: in.truth("admin_state_up", true),
		deviceID:     in.text("device_id"),
		deviceOwner:  in.text("device_owner"),
		host:         in.text("binding:host_id"),
		vnic:         "normal",
		dnsName:      in.text("dns_name"),
		dnsDomain:    in.text("dns_domain"),
		groups:       []string{},
	}
	if in.has("binding:vnic_type") {
		p.vnic = in.text("binding:vnic_type")
	}
	if p.mac == "" {
		p.mac = s.newMAC(n)
	} else if s.macInUse(n, p.mac) {
		return nil, refuse(http.StatusConflict, "MacAddressInUse",
			"Unable to complete operation for network %s. The mac address %s is in use.", n.id, p.mac)
	}
	// Neutron's own ports are behind no firewall.
	own := strings.HasPrefix(p.deviceOwner, ownerNetworkPrefix)
	p.portSecurity = in.truth("port_security_enabled", n.portSecurity && !own)
	var refused *apiError
	if p.policy, refused = s.wantedPolicy(c, in); refused != nil {
		return nil, refused
	}
	p.pairs = pairsOf(in, p.mac)
	if len(p.pairs) > 0 && !p.portSecurity {
		return nil, pairsNeedSecurity()
	}
	tx.stamp("ports", &p.standard, in)
	p.tags = append(p.tags, stringsOf(in["tags"])...)
	p.revision = 1 // its binding is written after it
	step := len(tx.undo)
	if err := s.address(tx, p, in); err != nil {
		tx.rollbackTo(step)
		tx.losesAddresses = tx.bulk && !s.since(RefusedBulksLeakNothing)
		return nil, err
	}
	switch {
	case in.has("security_groups"):
		p.groups = stringsOf(in["security_groups"])
		if len(p.groups) > 0 && !p.portSecurity {
			return nil, groupsNeedSecurity()
		}
		if err := s.checkGroups(p.groups); err != nil {
			return nil, err
		}
	case p.portSecurity:
		p.groups = []string{s.defaultGroup(p.project)}
	}
	insertIn(tx, s.ports, p)
	return p, nil
}

// pairsOf are the address pairs of a request. One without a MAC has the port's.
func pairsOf(in values, mac string) (pairs []pairBody) {
	list, _ := in["allowed_address_pairs"].([]any)
	for _, item := range list {
		given := item.(map[string]any)
		pair := pairBody{mac, given["ip_address"].(string)}
		if other, ok := given["mac_address"].(string); ok {
			pair.MACAddress = other
		}
		pairs = append(pairs, pair)
	}
	return pairs
}

func pairsNeedSecurity() *apiError {
	return refuse(http.StatusConflict, "AddressPairAndPortSecurityRequired",
		"Port Security must be enabled in order to have allowed address pairs on a port.")
}

func groupsNeedSecurity() *apiError {
	return refuse(http.StatusBadRequest, "PortSecurityAndIPRequiredForSecurityGroups",
		"Port security must be enabled and port must have an IP address in order to use security groups.")
}

// newMAC makes a MAC with the prefix that is Neutron's default (base_mac).
func (s *Server) newMAC(n *network) string {
	for {
		x := rand.Uint32()
		mac := fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(x), byte(x>>8), byte(x>>16))
		if !s.macInUse(n, mac) {
			return mac
		}
	}
}

func (s *Server) macInUse(n *network, mac string) bool {
	return slices.ContainsFunc(s.ports.with("network_id", n.id), func(p *port) bool { return p.mac == mac })
}

// address gives a new port its addresses: those asked for, or else one of each IP version. Addresses that ports make
// of their MACs come by themselves, even to a port that wants none.
func (s *Server) address(tx *transaction, p *port, in values) *apiError {
	subnets, err := s.eligible(p)
	if err != nil {
		return err
	}
	// In a bulk some real ones have no MAC yet to make an address of.
	if tx.bulk && !s.since(SLAACPortsGoInBulk) && !in.has("mac_address") &&
		slices.ContainsFunc(subnets, (*subnet).selfAddressed) {
		return internalError()
	}
	if list, ok := in["fixed_ips"].([]any); ok {
		p.unaddressed = len(list) == 0
		for _, wanted := range s.specificFirst(list) {
			if err := s.assignWanted(tx, p, subnets, wanted); err != nil {
				return err
			}
		}
	} else {
		for _, version := range []int{4, 6} {
			ofVersion := slices.DeleteFunc(slices.Clone(subnets), func(sub *subnet) bool {
				return sub.version != version || sub.selfAddressed()
			})
			if len(ofVersion) == 0 {
				continue
			}
			if err := s.assignAny(tx, p, ofVersion); err != nil {
				return err
			}
		}
	}
	if strings.HasPrefix(p.deviceOwner, ownerNetworkPrefix) {
		return nil
	}
	for _, sub := range subnets {
		if sub.selfAddressed() && !slices.ContainsFunc(p.fixedIPs, func(f fixedIP) bool { return f.subnet == sub }) {
			s.assign(tx, p, sub, eui64(sub.prefix, p.mac))
		}
	}
	return nil
}

// eligible are the subnets that may serve a port: those for its kind of owner first, then those for everyone.
func (s *Server) eligible(p *port) ([]*subnet, *apiError) {
	all := s.subnets.with("network_id", p.network.id)
	var special, general []*subnet
	for _, sub := range all {
		switch {
		case len(sub.services) == 0:
			general = append(general, sub)
		case slices.Contains(sub.services, p.deviceOwner):
			special = append(special, sub)
		}
	}
	if len(all) > 0 && len(special)+len(general) == 0 {
		return nil, refuse(http.StatusConflict, "IpAddressGenerationFailureNoMatchingSubnet", "No valid service "+
			"subnet for the given device owner, network %s, service type %s.", p.network.id, p.deviceOwner)
	}
	return append(special, general...), nil
}

// specificFirst puts the wishes for an address of one's choice before those that any address satisfies.
func (*Server) specificFirst(list []any) []map[string]any {
	out := make([]map[string]any, 0, len(list))
	for _, item := range list {
		out = append(out, item.(map[string]any))
	}
	slices.SortStableFunc(out, func(a, b map[string]any) int {
		return boolRank(!has(a, "ip_address")) - boolRank(!has(b, "ip_address"))
	})
	return out
}

func (s *Server) assignWanted(tx *transaction, p *port, subnets []*subnet, wanted map[string]any) *apiError {
	if len(subnets) == 0 {
		return invalidInput("IP allocation requires subnets for network")
	}
	given, hasAddress := wanted["ip_address"].(string)
	address, _ := parseAddr(given)
	fits := func(sub *subnet) bool {
		return sub.prefix.Contains(address) && !firstNetworkOrBroadcast(sub.prefix, address)
	}
	var sub *subnet
	if id, ok := wanted["subnet_id"].(string); ok {
		i := slices.IndexFunc(subnets, func(sub *subnet) bool { return sub.id == id })
		if i < 0 {
			if _, ok := s.subnets.byID[id]; !ok {
				return subnetNotFound(id)
			}
			return invalidInput("Failed to create port on network %s, because fixed_ips included invalid subnet %s",
				p.network.id, id)
		}
		sub = subnets[i]
		if hasAddress && !fits(sub) {
			return refuse(http.StatusBadRequest, "InvalidIpForSubnet",
				"IP address %s is not a valid IP for the specified subnet.", given)
		}
	} else {
		if !hasAddress {
			return invalidInput("IP allocation requires subnet_id or ip_address")
		}
		i := slices.IndexFunc(subnets, fits)
		if i < 0 {
			return refuse(http.StatusBadRequest, "InvalidIpForNetwork",
				"IP address %s is not a valid IP for any of the subnets on the specified network.", given)
		}
		sub = subnets[i]
	}
	if sub.selfAddressed() && !p.isRouterInterface() {
		if hasAddress {
			return refuse(http.StatusBadRequest, "AllocationOnAutoAddressSubnet", "IPv6 address %s cannot be directly "+
				"assigned to a port on subnet %s as the subnet is configured for automatic addresses", given, sub.id)
		}
		return nil // it comes by itself
	}
	if !hasAddress {
		return s.assignAny(tx, p, []*subnet{sub})
	}
	if sub.has(address) {
		return refuse(http.StatusConflict, "IpAddressAlreadyAllocated",
			"IP address %s already allocated in subnet %s", address, sub.id)
	}
	s.assign(tx, p, sub, address)
	return nil
}

// assignAny gives the port an address of the first of the subnets that has one left.
func (s *Server) assignAny(tx *transaction, p *port, subnets []*subnet) *apiError {
	for _, sub := range subnets {
		if address, ok := free(sub); ok {
			s.assign(tx, p, sub, address)
			return nil
		}
	}
	return refuse(http.StatusConflict, "IpAddressGenerationFailure",
		"No more IP addresses available on network %s.", p.network.id)
}

func (s *Server) assign(tx *transaction, p *port, sub *subnet, address netip.Addr) {
	before := p.fixedIPs
	sub.taken[address] = p.id
	p.fixedIPs = append(slices.Clone(before), fixedIP{sub, address})
	tx.onUndo(func() {
		delete(sub.taken, address)
		p.fixedIPs = before
		if tx.losesAddresses {
			sub.lost[address] = true
		}
	})
}

func (s *Server) release(tx *transaction, p *port, f fixedIP) {
	before := p.fixedIPs
	delete(f.subnet.taken, f.address)
	p.fixedIPs = slices.DeleteFunc(slices.Clone(before), func(g fixedIP) bool { return g == f })
	tx.onUndo(func() {
		f.subnet.taken[f.address] = p.id
		p.fixedIPs = before
	})
}

func (s *Server) updatePort(tx *transaction, c *caller, p *port, in values) *apiError {
	if list, ok := in["fixed_ips"].([]any); ok && s.since(FloatingIPsKeepTheirPort) {
		if err := s.keepsFloatingIP(c, p, list); err != nil {
			return err
		}
	}
	if err := tx.claim(&p.standard); err != nil {
		return err
	}
	security := in.truth("port_security_enabled", p.portSecurity)
	groups := p.groups
	if in.has("security_groups") {
		groups = stringsOf(in["security_groups"])
		if err := s.checkGroups(groups); err != nil {
			return err
		}
	}
	if !security && len(groups) > 0 {
		if in.has("security_groups") {
			return groupsNeedSecurity()
		}
		return refuse(http.StatusConflict, "PortSecurityPortHasSecurityGroup", "Port has security group associated. "+
			"Cannot disable port security or IP address until security group is removed.")
	}
	policy, pairs := p.policy, p.pairs
	if in.has("qos_policy_id") {
		var err *apiError
		if policy, err = s.wantedPolicy(c, in); err != nil {
			return err
		}
	}
	if in.has("allowed_address_pairs") {
		pairs = pairsOf(in, p.mac)
	}
	if !security && len(pairs) > 0 {
		return pairsNeedSecurity()
	}
	mac := p.mac
	if in.has("mac_address") {
		mac = in.text("mac_address")
		if mac != p.mac && s.macInUse(p.network, mac) {
			return refuse(http.StatusConflict, "MacAddressInUse",
				"Unable to complete operation for network %s. The mac address %s is in use.", p.network.id, mac)
		}
	}
	before := p.fixedIPs
	if list, ok := in["fixed_ips"].([]any); ok {
		if err := s.readdress(tx, p, s.specificFirst(list)); err != nil {
			return err
		}
	}
	// The real one counts the attributes that all resources have with the port's own row, and once more what hangs on the
	// row if that is written and the row is not. Where neither is, it moves the revision all the same, but only when it
	// has made the answer, which still shows the old one.
	rewritten := policy != nil && in.has("qos_policy_id") || len(pairs) > 0 && in.has("allowed_address_pairs")
	row := slices.ContainsFunc(ownRow(in), func(name string) bool { return tx.moves(name) })
	if row || in.has("description") && tx.moves("description") {
		tx.bump(&p.standard)
	}
	switch {
	case row:
	case !slices.Equal(before, p.fixedIPs), !sameSet(groups, p.groups), policy != p.policy,
		!slices.Equal(pairs, p.pairs), rewritten:
		tx.bumpAgain(&p.standard)
	case !s.since(PortRevisionIsInItsAnswer):
		tx.afterAnswer = func() { tx.bumpAgain(&p.standard) }
	}
	if host := in.text("binding:host_id"); host != "" && host != p.host && s.since(BindingMovesPortThrice) {
		tx.bumpAgain(&p.standard)
		tx.bumpAgain(&p.standard)
	}
	s.ports.change(p, func() {
		p.rename(in)
		p.mac = mac
		p.adminStateUp = in.truth("admin_state_up", p.adminStateUp)
		p.portSecurity, p.groups, p.policy, p.pairs = security, groups, policy, pairs
		if in.has("device_id") {
			p.deviceID = in.text("device_id")
		}
		if in.has("device_owner") {
			p.deviceOwner = in.text("device_owner")
		}
		if in.has("binding:host_id") {
			p.host = in.text("binding:host_id")
		}
		if in.has("dns_name") {
			p.dnsName = in.text("dns_name")
		}
		if in.has("dns_domain") {
			p.dnsDomain = in.text("dns_domain")
		}
	})
	return nil
}

// ownRow are the attributes of an update that are written with the port's own row.
func ownRow(in values) (names []string) {
	for name := range in {
		switch name {
		case "fixed_ips", "security_groups", "dns_name", "dns_domain", "description", "qos_policy_id",
			"allowed_address_pairs":
		default:
			names = append(names, name)
		}
	}
	return names
}

func sameSet(a, b []string) bool {
	sorted := func(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
	return slices.Equal(sorted(a), sorted(b))
}

// readdress makes a port's addresses those asked for, keeping what it has where that will do.
func (s *Server) readdress(tx *transaction, p *port, wanted []map[string]any) *apiError {
	spare := slices.Clone(p.fixedIPs)
	var missing []map[string]any
	for _, w := range wanted {
		i := slices.IndexFunc(spare, func(f fixedIP) bool {
			id, hasSubnet := w["subnet_id"]
			address, hasAddress := w["ip_address"]
			return (!hasSubnet || id == f.subnet.id) && (!hasAddress || address == f.address.String()) &&
				(hasSubnet || hasAddress)
		})
		if i >= 0 {
			spare = slices.Delete(spare, i, i+1)
		} else {
			missing = append(missing, w)
		}
	}
	for _, f := range spare {
		if !f.subnet.selfAddressed() {
			s.release(tx, p, f)
		}
	}
	for _, w := range missing {
		if err := s.assignWanted(tx, p, s.subnets.with("network_id", p.network.id), w); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) deletePort(tx *transaction, _ *caller, p *port) *apiError {
	if _, routed := s.routers.byID[p.deviceID]; routed && len(p.fixedIPs) > 0 &&
		(p.isRouterInterface() || p.deviceOwner == ownerRouterGateway) {
		return refuse(http.StatusConflict, "ServicePortInUse",
			"Port %s cannot be deleted directly via the port API: has device owner %s.", p.id, p.deviceOwner)
	}
	if _, floats := s.floating.byID[p.deviceID]; floats && p.deviceOwner == ownerFloatingIP {
		return refuse(http.StatusConflict, "ServicePortInUse",
			"Port %s cannot be deleted directly via the port API: has device owner %s.", p.id, p.deviceOwner)
	}
	if err := s.inTrunk(p); err != nil {
		return err
	}
	if err := tx.claim(&p.standard); err != nil {
		return err
	}
	s.disassociate(tx, p)
	s.dropPort(tx, p)
	return nil
}

// dropPort removes a port and gives its addresses back.
func (s *Server) dropPort(tx *transaction, p *port) {
	for _, f := range p.fixedIPs {
		s.release(tx, p, f)
	}
	s.ports.remove(p)
}
