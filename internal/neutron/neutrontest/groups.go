package neutrontest

import (
	"net/http"
	"slices"
)

// securityGroup is a firewall for ports. What its rules do is the agents' matter.
type securityGroup struct {
	standard
	stateful bool
}

// defaultGroupName is the name of the group that each project has.
const defaultGroupName = "default"

func (s *Server) groupKind() kind {
	k := &resources[*securityGroup]{server: s, schema: groupSchema(), table: s.groups}
	k.build = func(tx *transaction, _ *caller, in values) (*securityGroup, *apiError) {
		if in.text("name") == defaultGroupName {
			return nil, refuse(http.StatusConflict, "SecurityGroupDefaultAlreadyExists",
				"Default security group already exists.")
		}
		s.defaultGroup(in.text("tenant_id"))
		project := in.text("tenant_id")
		if limit := s.limit(project, "security_group_rule"); limit >= 0 &&
			s.used(project, "security_group_rule")+len(etherTypes) > limit {
			return nil, refuse(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['security_group_rule'].")
		}
		r := &securityGroup{stateful: in.truth("stateful", true)}
		tx.stamp("security-groups", &r.standard, in)
		r.revision = 1 // its rules are written after it
		insertIn(tx, s.groups, r)
		for _, etherType := range etherTypes {
			s.addRule(tx, &groupRule{group: r, direction: "egress", etherType: etherType})
		}
		return r, nil
	}
	k.alter = func(tx *transaction, _ *caller, r *securityGroup, in values) *apiError {
		if stateful := in.truth("stateful", r.stateful); stateful != r.stateful && s.groupInUse(r) {
			return refuse(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", r.id)
		}
		if r.name == defaultGroupName && in.has("name") {
			return refuse(http.StatusConflict, "SecurityGroupCannotUpdateDefault",
				"Updating default security group not allowed.")
		}
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		if tx.moves() {
			tx.bump(&r.standard)
		}
		s.groups.change(r, func() {
			r.rename(in)
			r.stateful = in.truth("stateful", r.stateful)
		})
		return nil
	}
	k.discard = func(tx *transaction, c *caller, r *securityGroup) *apiError {
		switch {
		case r.name == defaultGroupName && !c.admin:
			return refuse(http.StatusConflict, "SecurityGroupCannotRemoveDefault",
				"Insufficient rights for removing default security group.")
		case s.groupInUse(r):
			return refuse(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", r.id)
		}
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		for _, rule := range slices.Clone(s.rules.with("security_group_id", r.id)) {
			s.rules.remove(rule)
		}
		// The rules about its members go with it. Another group counts that once, however many they are.
		for _, rule := range slices.Clone(s.rules.with("remote_group_id", r.id)) {
			tx.bump(&rule.group.standard)
			s.rules.remove(rule)
		}
		s.groups.remove(r)
		return nil
	}
	return k
}

func groupSchema() *schema[*securityGroup] {
	s := &schema[*securityGroup]{
		singular: "security_group", plural: "security_groups",
		notFound: func(id string) *apiError {
			return refuse(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
		},
		seenBy: func(v *view, r *securityGroup) bool { return v.caller.admin || r.project == v.caller.project },
	}
	s.attributes = append([]attribute[*securityGroup]{
		identifier[*securityGroup](),
		resourceName[*securityGroup](),
		{name: "stateful", access: inPost | inPut | visible | filterable, convert: toBoolean,
			get: func(_ *view, r *securityGroup) any { return r.stateful }},
		tenant[*securityGroup](),
		constant[*securityGroup]("shared", false),
		{name: "security_group_rules", access: visible, get: func(v *view, r *securityGroup) any {
			bodies := []any{}
			for _, rule := range v.server.rules.with("security_group_id", r.id) {
				bodies = append(bodies, v.server.ruleBody(rule))
			}
			return bodies
		}},
	}, standardAttributes[*securityGroup]()...)
	return s.init()
}

// defaultGroup gives the id of a project's default security group, which comes into being when it is first needed. The
// caller holds mu.
func (s *Server) defaultGroup(project string) string {
	for _, r := range s.groups.with("project_id", project) {
		if r.name == defaultGroupName {
			return r.id
		}
	}
	r := &securityGroup{stateful: true}
	tx := s.begin()
	tx.stamp("security-groups", &r.standard, values{
		"tenant_id": project, "name": defaultGroupName, "description": "Default security group",
	})
	r.revision = 1
	s.groups.insert(r)
	for _, etherType := range etherTypes {
		s.addRule(tx, &groupRule{group: r, direction: "ingress", etherType: etherType, remoteGroup: r.id})
		s.addRule(tx, &groupRule{group: r, direction: "egress", etherType: etherType})
	}
	return r.id
}

// groupInUse reports whether a port is in a group.
func (s *Server) groupInUse(r *securityGroup) bool {
	return slices.ContainsFunc(s.ports.ordered, func(p *port) bool { return slices.Contains(p.groups, r.id) })
}

// checkGroups refuses groups that do not exist.
func (s *Server) checkGroups(groups []string) *apiError {
	for _, id := range groups {
		if _, exists := s.groups.byID[id]; !exists {
			return refuse(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
		}
	}
	return nil
}
