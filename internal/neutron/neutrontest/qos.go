package neutrontest

import (
	"net/http"
)

// qosPolicy is a policy of the quality of service that networks and ports can have. It has no rules here: what they do
// is the agents' matter.
type qosPolicy struct {
	standard
	shared bool
}

func (s *Server) qosKind() kind {
	k := &resources[*qosPolicy]{server: s, schema: qosSchema(), table: s.qos}
	k.build = func(tx *transaction, _ *caller, in values) (*qosPolicy, *apiError) {
		r := &qosPolicy{shared: in.truth("shared", false)}
		tx.stamp("qos/policies", &r.standard, in)
		insertIn(tx, s.qos, r)
		return r, nil
	}
	k.alter = func(tx *transaction, _ *caller, r *qosPolicy, in values) *apiError {
		if err := tx.claim(&r.standard); err != nil {
			return err
		}
		if tx.moves() {
			tx.bump(&r.standard)
		}
		s.qos.change(r, func() {
			r.rename(in)
			r.shared = in.truth("shared", r.shared)
		})
		return nil
	}
	k.discard = s.deleteQoSPolicy
	return k
}

func qosSchema() *schema[*qosPolicy] {
	s := &schema[*qosPolicy]{
		singular: "policy", plural: "policies", notFound: qosPolicyNotFound, adminToWrite: true,
		seenBy: func(v *view, r *qosPolicy) bool { return mayUsePolicy(v.caller, r) },
		listedBy: func(v *view, r *qosPolicy, fields map[string]bool) bool {
			return len(fields) == 0 || fields["shared"] || !v.server.since(SharedPoliciesNeedField) || v.caller.admin ||
				r.project == v.caller.project
		},
	}
	s.attributes = append([]attribute[*qosPolicy]{
		identifier[*qosPolicy](),
		resourceName[*qosPolicy](),
		{name: "shared", access: inPost | inPut | visible | filterable, convert: toBoolean,
			get: func(_ *view, r *qosPolicy) any { return r.shared }},
		tenant[*qosPolicy](),
		{name: "rules", access: visible, get: func(*view, *qosPolicy) any { return []string{} }},
		constant[*qosPolicy]("is_default", false),
	}, standardAttributes[*qosPolicy]()...)
	return s.init()
}

func qosPolicyNotFound(id string) *apiError {
	return refuse(http.StatusNotFound, "QosPolicyNotFound", "QoS policy %s could not be found.", id)
}

func mayUsePolicy(c *caller, r *qosPolicy) bool { return c.admin || r.shared || r.project == c.project }

// wantedPolicy is the QoS policy that a request asks for, or nil for none.
func (s *Server) wantedPolicy(c *caller, in values) (*qosPolicy, *apiError) {
	id := in.text("qos_policy_id")
	if id == "" {
		return nil, nil
	}
	r, ok := s.qos.byID[id]
	if !ok || !mayUsePolicy(c, r) {
		return nil, qosPolicyNotFound(id)
	}
	return r, nil
}

func (r *qosPolicy) shownID() any {
	if r == nil {
		return nil
	}
	return r.id
}

func (s *Server) deleteQoSPolicy(_ *transaction, _ *caller, r *qosPolicy) *apiError {
	for _, n := range s.networks.ordered {
		if n.policy == r {
			return refuse(http.StatusConflict, "QosPolicyInUse", "QoS Policy %s is used by network %s.", r.id, n.id)
		}
	}
	for _, p := range s.ports.ordered {
		if p.policy == r {
			return refuse(http.StatusConflict, "QosPolicyInUse", "QoS Policy %s is used by port %s.", r.id, p.id)
		}
	}
	s.qos.remove(r)
	return nil
}
