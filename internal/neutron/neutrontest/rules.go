package neutrontest

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// groupRule lets packets to or from the ports of a security group pass.
type groupRule struct {
	standard
	group                *securityGroup
	direction, etherType string
	// protocol, remote and remoteGroup are empty where the rule does not limit them; so are the ports with nil.
	protocol, remote, remoteGroup string
	portMin, portMax              *int
}

// etherTypes are those for which each new group lets everything out.
var etherTypes = []string{"IPv4", "IPv6"}

// protocolNumbers are the protocols with names (IP_PROTOCOL_MAP in neutron_lib/constants.py).
var protocolNumbers = map[string]string{
	"ah": "51", "dccp": "33", "egp": "8", "esp": "50", "gre": "47", "hopopt": "0", "icmp": "1", "icmpv6": "58",
	"igmp": "2", "ip": "0", "ipip": "4", "ipv6-encap": "41", "ipv6-frag": "44", "ipv6-icmp": "58", "ipv6-nonxt": "59",
	"ipv6-opts": "60", "ipv6-route": "43", "ospf": "89", "pgm": "113", "rsvp": "46", "sctp": "132", "tcp": "6",
	"udp": "17", "udplite": "136", "vrrp": "112",
}

func (s *Server) ruleKind() kind {
	k := &resources[*groupRule]{server: s, schema: ruleSchema(s), table: s.rules}
	k.admit = func(c *caller, in values) *apiError {
		group, ok := s.groups.byID[in.text("security_group_id")]
		if ok && !c.admin && group.project != c.project && s.since(RulesOfOthersAre403) {
			return disallowed("rule:create_security_group_rule")
		}
		return nil
	}
	k.build = s.createRule
	k.discard = func(tx *transaction, _ *caller, r *groupRule) *apiError {
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		tx.bump(&r.group.standard)
		s.rules.remove(r)
		return nil
	}
	return k
}

func ruleSchema(server *Server) *schema[*groupRule] {
	s := &schema[*groupRule]{
		singular: "security_group_rule", plural: "security_group_rules",
		notFound: func(id string) *apiError {
			return refuse(http.StatusNotFound, "SecurityGroupRuleNotFound", "Security group rule %s does not exist", id)
		},
		seenBy: func(v *view, r *groupRule) bool { return v.caller.admin || r.project == v.caller.project },
	}
	const given = inPost | visible | filterable | sortable
	s.attributes = append([]attribute[*groupRule]{
		identifier[*groupRule](),
		{name: "security_group_id", access: given | required, check: stringUpTo(36),
			get: func(_ *view, r *groupRule) any { return r.group.id }},
		{name: "remote_group_id", access: given, get: func(_ *view, r *groupRule) any { return orNull(r.remoteGroup) }},
		{name: "direction", access: given | required, check: oneOf("['ingress', 'egress']", "ingress", "egress"),
			get: func(_ *view, r *groupRule) any { return r.direction }},
		{name: "protocol", access: given, convert: toProtocol,
			get: func(_ *view, r *groupRule) any { return orNull(r.protocol) }},
		{name: "port_range_min", access: given, convert: toPort,
			get: func(_ *view, r *groupRule) any { return numberOrNull(r.portMin) }},
		{name: "port_range_max", access: given, convert: toPort,
			get: func(_ *view, r *groupRule) any { return numberOrNull(r.portMax) }},
		{name: "ethertype", access: given, convert: toEtherType,
			get: func(_ *view, r *groupRule) any { return r.etherType }},
		{name: "remote_ip_prefix", access: given, convert: toRemote,
			get: func(_ *view, r *groupRule) any { return orNull(r.remote) }},
		tenant[*groupRule](),
	}, standardAttributes[*groupRule]()...)
	if server.since(RulesTellDefaultGroup) {
		s.attributes = append(s.attributes, attribute[*groupRule]{name: "belongs_to_default_sg", access: visible,
			get: func(_ *view, r *groupRule) any { return r.group.name == defaultGroupName }})
	}
	return s.init()
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func numberOrNull(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

// body is the rule as part of its group.
func (s *Server) ruleBody(r *groupRule) map[string]any {
	body := map[string]any{
		"id": r.id, "security_group_id": r.group.id, "direction": r.direction, "ethertype": r.etherType,
		"protocol": orNull(r.protocol), "port_range_min": numberOrNull(r.portMin), "port_range_max": numberOrNull(r.portMax),
		"remote_ip_prefix": orNull(r.remote), "remote_group_id": orNull(r.remoteGroup), "tenant_id": r.project,
		"project_id": r.project, "description": r.description, "tags": r.tags, "revision_number": r.revision,
		"created_at": timestamp(r.created), "updated_at": timestamp(r.updated),
	}
	if s.since(RulesTellDefaultGroup) {
		body["belongs_to_default_sg"] = r.group.name == defaultGroupName
	}
	return body
}

func toProtocol(v any) (any, *apiError) {
	if v == nil {
		return nil, nil
	}
	text := strings.ToLower(pyString(v))
	if _, named := protocolNumbers[text]; named {
		return text, nil
	}
	if n, err := strconv.Atoi(text); err == nil && 0 <= n && n <= 255 {
		return text, nil
	}
	return nil, refuse(http.StatusBadRequest, "SecurityGroupRuleInvalidProtocol", "Security group rule protocol %s not "+
		"supported.", text)
}

func toPort(v any) (any, *apiError) {
	if v == nil {
		return nil, nil
	}
	n, err := strconv.Atoi(pyString(v))
	if err != nil || n < 0 || n > 65535 {
		return nil, refuse(http.StatusBadRequest, "SecurityGroupInvalidPortValue", "Invalid value for port %s", pyString(v))
	}
	return n, nil
}

func toEtherType(v any) (any, *apiError) {
	for _, etherType := range etherTypes {
		if strings.EqualFold(etherType, pyString(v)) {
			return etherType, nil
		}
	}
	return nil, refuse(http.StatusBadRequest, "SecurityGroupRuleInvalidEtherType", "Security group rule for ethertype "+
		"'%s' not supported. Allowed values are ['IPv4', 'IPv6'].", pyString(v))
}

func toRemote(v any) (any, *apiError) {
	if v == nil || v == "" {
		return nil, nil
	}
	text := pyString(v)
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()).String(), nil
	}
	prefix, ok := parsePrefix(text)
	if !ok {
		return nil, refuse(http.StatusBadRequest, "InvalidCIDR", "Invalid CIDR %s given as IP prefix.", text)
	}
	return prefix.String(), nil
}

// createRule checks and makes a rule. A rule with the whole range of ports has none.
func (s *Server) createRule(tx *transaction, c *caller, in values) (*groupRule, *apiError) {
	r := &groupRule{
		direction: in.text("direction"), etherType: cmp.Or(in.text("ethertype"), "IPv4"), protocol: in.text("protocol"),
		remote: in.text("remote_ip_prefix"), remoteGroup: in.text("remote_group_id"),
	}
	for name, field := range map[string]**int{"port_range_min": &r.portMin, "port_range_max": &r.portMax} {
		if n, ok := in[name].(int); ok {
			*field = &n
		}
	}
	if r.etherType == "IPv6" && slices.Contains([]string{"icmp", "icmpv6"}, r.protocol) {
		r.protocol = "ipv6-icmp"
	}
	if r.portMin != nil && r.portMax != nil && *r.portMin == 1 && *r.portMax == 65535 {
		r.portMin, r.portMax = nil, nil
	}
	if err := r.checkPorts(); err != nil {
		return nil, err
	}
	if remote, err := netip.ParsePrefix(r.remote); err == nil && remote.Addr().Is4() != (r.etherType == "IPv4") {
		return nil, refuse(http.StatusBadRequest, "SecurityGroupRuleParameterConflict",
			"Conflicting value ethertype %s for CIDR %s", r.etherType, r.remote)
	}
	if r.etherType == "IPv4" && protocolNumbers[r.protocol] == "58" {
		return nil, refuse(http.StatusBadRequest, "SecurityGroupEthertypeConflictWithProtocol",
			"Invalid ethertype %s for protocol %s.", r.etherType, r.protocol)
	}
	if r.remote != "" && r.remoteGroup != "" {
		return nil, refuse(http.StatusBadRequest, "SecurityGroupMultipleRemoteEntites",
			"Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
	}
	for _, id := range []string{r.remoteGroup, in.text("security_group_id")} {
		if id == "" {
			continue
		}
		group, exists := s.groups.byID[id]
		if !exists || !c.admin && group.project != c.project {
			return nil, refuse(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
		}
		r.group = group
	}
	for _, other := range s.rules.with("security_group_id", r.group.id) {
		if other.key() == r.key() {
			return nil, refuse(http.StatusConflict, "SecurityGroupRuleExists",
				"Security group rule already exists. Rule id is %s.", other.id)
		}
	}
	tx.bumpAgain(&r.group.standard) // each of a bulk counts
	r.description = in.text("description")
	s.addRule(tx, r)
	return r, nil
}

// checkPorts refuses ports that do not go with the protocol.
func (r *groupRule) checkPorts() *apiError {
	if r.portMin == nil && r.portMax == nil {
		return nil
	}
	switch number := cmp.Or(protocolNumbers[r.protocol], r.protocol); number {
	case "":
		return refuse(http.StatusBadRequest, "SecurityGroupProtocolRequiredWithPorts",
			"Must also specify protocol if port range is given.")
	case "6", "17", "33", "132", "136":
		if r.portMin != nil && *r.portMin == 0 || r.portMax != nil && *r.portMax == 0 {
			return refuse(http.StatusBadRequest, "SecurityGroupInvalidPortValue", "Invalid value for port 0")
		}
		if r.portMin == nil || r.portMax == nil || *r.portMin > *r.portMax {
			return refuse(http.StatusBadRequest, "SecurityGroupInvalidPortRange",
				"For TCP/UDP protocols, port_range_min must be <= port_range_max")
		}
	case "1", "58":
		if r.portMin == nil {
			return refuse(http.StatusBadRequest, "SecurityGroupMissingIcmpType",
				"ICMP code (port-range-max) %d is provided but ICMP type (port-range-min) is missing.", *r.portMax)
		}
	default:
		return refuse(http.StatusBadRequest, "SecurityGroupInvalidProtocolForPort", "Ports cannot be specified for protocol "+
			"%s. Ports are only supported for DCCP, SCTP, TCP, UDP, UDPLITE.", number)
	}
	return nil
}

// key is equal for rules that are duplicates (_rule_to_key in neutron/db/securitygroups_db.py).
func (r *groupRule) key() string {
	remote := r.remote
	if remote == "0.0.0.0/0" || remote == "::/0" {
		remote = ""
	}
	protocol := cmp.Or(protocolNumbers[r.protocol], r.protocol)
	if r.etherType == "IPv6" && protocol == "1" {
		protocol = "58"
	}
	return strings.Join([]string{
		r.direction, r.etherType, protocol, pyString(numberOrNull(r.portMin)), pyString(numberOrNull(r.portMax)), remote,
		r.remoteGroup,
	}, " ")
}

// addRule puts a rule into its group. The caller holds mu.
func (s *Server) addRule(tx *transaction, r *groupRule) {
	tx.stamp("security-group-rules", &r.standard, values{"tenant_id": r.group.project, "description": r.description})
	insertIn(tx, s.rules, r)
}
