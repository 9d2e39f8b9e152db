package neutrontest

import (
	"net/http"
	"slices"
	"strings"
)

// The words of RBAC policies (neutron.db.rbac_db_models). Of the kinds of objects that the real one knows, this one has
// networks alone.
const (
	rbacNetwork    = "network"
	accessShared   = "access_as_shared"
	accessExternal = "access_as_external"
	everyone       = "*"
)

// rbacPolicy lets a project, or everyone, use a network in one of two ways. It is what sharing is made of: a network's
// attributes shared and router:external are policies for everyone.
type rbacPolicy struct {
	standard
	network *network
	target  string
	action  string
}

func (s *Server) rbacKind() kind {
	k := &resources[*rbacPolicy]{server: s, schema: rbacSchema(s.since(ShareTargetsAreUUIDs)), table: s.policies}
	k.build = s.createRBACPolicy
	k.alter = s.updateRBACPolicy
	k.discard = s.deleteRBACPolicy
	return k
}

// rbacSchema has the attributes. uuids is whether a target has to be like a project's id.
func rbacSchema(uuids bool) *schema[*rbacPolicy] {
	toTarget := func(v any) (any, *apiError) {
		if uuids && v != everyone && isUUID(v) != "" {
			return nil, invalidInput("'%s' is not a valid target project ID; expected a UUID or '*'", pyString(v))
		}
		return v, nil
	}
	s := &schema[*rbacPolicy]{
		singular: "rbac_policy", plural: "rbac_policies", single: true, whole: true,
		notFound: func(id string) *apiError {
			return refuse(http.StatusNotFound, "RbacPolicyNotFound", "RBAC policy of type unknown with ID %s not found", id)
		},
		seenBy: func(v *view, r *rbacPolicy) bool { return v.caller.admin || r.project == v.caller.project },
	}
	s.attributes = []attribute[*rbacPolicy]{
		{name: "id", access: visible | filterable, get: func(_ *view, r *rbacPolicy) any { return r.id }},
		{name: "object_type", access: inPost | visible | filterable | required, convert: toObjectType,
			get: func(*view, *rbacPolicy) any { return rbacNetwork }},
		{name: "object_id", access: inPost | visible | filterable | required, check: isUUID,
			get: func(_ *view, r *rbacPolicy) any { return r.network.id }},
		{name: "target_tenant", access: inPost | inPut | visible | filterable | required | policed, check: stringUpTo(255),
			convert: toTarget, get: func(_ *view, r *rbacPolicy) any { return r.target }},
		{name: "tenant_id", access: inPost | visible | filterable, check: stringUpTo(255),
			get: func(_ *view, r *rbacPolicy) any { return r.project }},
		{name: "action", access: inPost | visible | filterable | required, check: stringUpTo(255),
			get: func(_ *view, r *rbacPolicy) any { return r.action }},
	}
	return s.init()
}

// toObjectType accepts the kinds of objects that can be shared here.
func toObjectType(v any) (any, *apiError) {
	if kind := strings.ToLower(strings.TrimSpace(pyString(v))); kind == rbacNetwork {
		return kind, nil
	}
	return nil, invalidInput("'%s' is not a valid RBAC object type", pyString(v))
}

func (s *Server) createRBACPolicy(tx *transaction, c *caller, in values) (*rbacPolicy, *apiError) {
	target, action := in.text("target_tenant"), in.text("action")
	if target == everyone && !c.admin {
		return nil, disallowed("rule:create_rbac_policy and rule:create_rbac_policy:target_tenant")
	}
	n, ok := s.networks.byID[in.text("object_id")]
	switch {
	case !ok || !s.sees(c, n):
		// The real one asks whether the network is there in a callback, whose failure is an input that is wrong.
		return nil, invalidInput("Network %s could not be found", in.text("object_id"))
	case !c.admin && n.project != c.project:
		return nil, invalidInput("Only admins can manipulate policies on networks they do not own")
	case action != accessShared && action != accessExternal:
		return nil, refuse(http.StatusBadRequest, "InvalidActionForType", "Invalid action '%s' for object type '%s'. Valid "+
			"actions: ('%s', '%s')", action, rbacNetwork, accessShared, accessExternal)
	case s.grants(n, action, target) != nil:
		return nil, refuse(http.StatusConflict, "DuplicateRbacPolicy", "An RBAC policy already exists with those values.")
	}
	tx.bump(&n.standard)
	s.follow(tx, n, action, target, true)
	return s.grant(tx, n, action, target, in), nil
}

// follow has one of a network's attributes say what the policy for everyone does.
func (s *Server) follow(tx *transaction, n *network, action, target string, on bool) {
	if target != everyone {
		return
	}
	attribute := &n.shared
	if action == accessExternal {
		attribute = &n.external
	}
	was := *attribute
	tx.onUndo(func() { *attribute = was })
	*attribute = on
}

// grant makes a policy.
func (s *Server) grant(tx *transaction, n *network, action, target string, in values) *rbacPolicy {
	r := &rbacPolicy{network: n, action: action, target: target}
	tx.stamp("rbac-policies", &r.standard, in)
	insertIn(tx, s.policies, r)
	return r
}

// revoke removes a policy, if it is there.
func (s *Server) revoke(tx *transaction, r *rbacPolicy) {
	if r == nil {
		return
	}
	s.policies.remove(r)
	tx.onUndo(func() { s.policies.insert(r) })
}

// grants finds the policy that lets a target use a network in a way, or nil.
func (s *Server) grants(n *network, action, target string) *rbacPolicy {
	for _, r := range s.policies.with("object_id", n.id) {
		if r.action == action && r.target == target {
			return r
		}
	}
	return nil
}

// setEveryone makes or removes the policy behind one of a network's attributes.
func (s *Server) setEveryone(tx *transaction, n *network, action string, on bool) {
	switch there := s.grants(n, action, everyone); {
	case on && there == nil:
		s.grant(tx, n, action, everyone, values{"tenant_id": n.project})
	case !on:
		s.revoke(tx, there)
	}
}

// sharesWith is whether a project may use a network as if it were its own.
func (s *Server) sharesWith(n *network, project string) bool {
	return slices.ContainsFunc(s.policies.with("object_id", n.id), func(r *rbacPolicy) bool {
		return r.action == accessShared && (r.target == everyone || r.target == project)
	})
}

func (s *Server) updateRBACPolicy(tx *transaction, c *caller, r *rbacPolicy, in values) *apiError {
	target := in.text("target_tenant")
	if !in.has("target_tenant") || target == r.target {
		return nil
	}
	if target == everyone && !c.admin {
		return disallowed("rule:update_rbac_policy and rule:update_rbac_policy:target_tenant")
	}
	if err := s.checkTarget(r); err != nil {
		return err
	}
	tx.bump(&r.network.standard)
	s.follow(tx, r.network, r.action, r.target, false)
	s.follow(tx, r.network, r.action, target, true)
	s.policies.change(r, func() { r.target = target })
	return nil
}

func (s *Server) deleteRBACPolicy(tx *transaction, _ *caller, r *rbacPolicy) *apiError {
	if err := s.checkTarget(r); err != nil {
		return err
	}
	tx.bump(&r.network.standard)
	s.follow(tx, r.network, r.action, r.target, false)
	s.revoke(tx, r)
	return nil
}

// checkTarget refuses to take a network from a project whose ports are on it by this policy alone.
func (s *Server) checkTarget(r *rbacPolicy) *apiError {
	n := r.network
	if r.action != accessShared || r.target == n.project ||
		r.target != everyone && s.grants(n, accessShared, everyone) != nil {
		return nil
	}
	for _, p := range s.ports.with("network_id", n.id) {
		loses := p.project == r.target
		if r.target == everyone {
			loses = p.project != n.project && s.grants(n, accessShared, p.project) == nil
		}
		if loses {
			return refuse(http.StatusConflict, "RbacPolicyInUse", "RBAC policy on object %s cannot be removed because other "+
				"objects depend on it.\nDetails: Unable to reconfigure sharing settings for network %s. Multiple tenants are "+
				"using it.", n.id, n.id)
		}
	}
	return nil
}
