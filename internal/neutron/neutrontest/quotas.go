package neutrontest

import (
	"maps"
	"net/http"
	"slices"
)

// quotaNames are the resources that a quota can be set for, in the order in which they are reported.
func (s *Server) quotaNames() []string {
	names := []string{
		"network", "subnet", "subnetpool", "port", "router", "floatingip", "rbac_policy", "security_group",
		"security_group_rule", "trunk",
	}
	if s.since(RoutesHaveQuota) {
		names = append(names, "router_route")
	}
	return names
}

// maxQuota is the largest number that Neutron's database can hold.
const maxQuota = 1<<31 - 1

// limits are the quotas of a project: what was set for it, or else the defaults.
func (s *Server) limits(project string) map[string]int {
	out := make(map[string]int)
	for _, name := range s.quotaNames() {
		out[name] = s.limit(project, name)
	}
	return out
}

func (s *Server) limit(project, name string) int {
	if n, ok := s.quotas[project][name]; ok {
		return n
	}
	if n, ok := s.options.Quotas[name]; ok {
		return n
	}
	return Unlimited
}

// used counts a project's resources of one kind.
func (s *Server) used(project, name string) int {
	switch name {
	case "network":
		return len(s.networks.with("project_id", project))
	case "subnet":
		return len(s.subnets.with("project_id", project))
	case "subnetpool":
		return len(s.pools.with("project_id", project))
	case "port":
		return len(s.ports.with("project_id", project))
	case "floatingip":
		return len(s.floating.with("project_id", project))
	case "router":
		return len(s.routers.with("project_id", project))
	case "security_group":
		return len(s.groups.with("project_id", project))
	case "security_group_rule":
		return len(s.rules.with("project_id", project))
	case "rbac_policy":
		return len(s.policies.with("project_id", project))
	}
	return 0
}

// reserve refuses creates that a project has no room for. Resources count for the project that they will belong to.
func (s *Server) reserve(name string, wanted []values) *apiError {
	more := make(map[string]int)
	for _, in := range wanted {
		more[in.text("tenant_id")]++
	}
	for _, project := range sortedKeys(more) {
		if limit := s.limit(project, name); limit >= 0 && s.used(project, name)+more[project] > limit {
			return refuse(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['%s'].", name)
		}
	}
	return nil
}

// serveQuotas answers what is below /v2.0/quotas.
func (s *Server) serveQuotas(req *request, path []string) *apiError {
	verb := map[string]string{http.MethodPut: "update", http.MethodDelete: "delete"}[req.Method]
	if verb == "" {
		verb = "get"
	}
	if len(path) == 1 && path[0] == "tenant" || len(path) == 1 && path[0] == "project" {
		writeJSON(req.w, http.StatusOK, map[string]any{
			path[0]: map[string]string{path[0] + "_id": req.caller.project},
		})
		return nil
	}
	own := len(path) > 0 && path[0] == req.caller.project && verb == "get"
	if !req.caller.admin && !own {
		return disallowed("rule:" + verb + "_quota")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(path) == 0 {
		return s.listQuotas(req)
	}
	project := path[0]
	switch {
	case len(path) > 2:
		return hidden()
	case len(path) == 2 && path[1] == "default":
		project = ""
	case len(path) == 2 && path[1] == "details":
		details := make(map[string]any)
		for name, limit := range s.limits(project) {
			details[name] = map[string]int{"limit": limit, "used": s.used(project, name), "reserved": 0}
		}
		writeJSON(req.w, http.StatusOK, map[string]any{"quota": details})
		return nil
	case len(path) == 2:
		return hidden()
	}
	switch req.Method {
	case http.MethodGet:
	case http.MethodPut:
		if err := s.setQuotas(req, project); err != nil {
			return err
		}
	case http.MethodDelete:
		if _, ok := s.quotas[project]; !ok {
			word := "tenant"
			if s.since(QuotasSayProject) {
				word = "project"
			}
			return refuse(http.StatusNotFound, "TenantQuotaNotFound", "Quota for %s %s could not be found.", word, project)
		}
		delete(s.quotas, project)
		req.w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		return methodNotAllowed()
	}
	writeJSON(req.w, http.StatusOK, map[string]any{"quota": s.limits(project)})
	return nil
}

// listQuotas answers with the projects for which something was set.
func (s *Server) listQuotas(req *request) *apiError {
	if req.Method != http.MethodGet {
		return methodNotAllowed()
	}
	list := make([]any, 0, len(s.quotas))
	for _, project := range sortedKeys(s.quotas) {
		body := map[string]any{"project_id": project, "tenant_id": project}
		for name, limit := range s.limits(project) {
			body[name] = limit
		}
		list = append(list, body)
	}
	writeJSON(req.w, http.StatusOK, map[string]any{"quotas": list})
	return nil
}

func (s *Server) setQuotas(req *request, project string) *apiError {
	body, err := req.body()
	if err != nil {
		return err
	}
	object, ok := body["quota"].(map[string]any)
	if !ok {
		return internalError()
	}
	known := s.quotaNames()
	next := maps.Clone(s.quotas[project])
	if next == nil {
		next = make(map[string]int)
	}
	for _, name := range sortedKeys(object) {
		if !slices.Contains(known, name) {
			return badRequest("Unrecognized attribute(s) '%s'", name)
		}
		value, err := toInteger(object[name])
		if err != nil {
			return err
		}
		switch n := value.(int); {
		case n < Unlimited:
			return badRequest("Invalid input for %s. Reason: '%d' is too small - must be at least '-1'.", name, n)
		case n > maxQuota:
			return badRequest("Invalid input for %s. Reason: '%d' is too large - must be no larger than '%d'.",
				name, n, maxQuota)
		default:
			next[name] = n
		}
	}
	s.quotas[project] = next
	return nil
}
