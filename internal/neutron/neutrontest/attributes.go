package neutrontest

import (
	"net/http"
	"slices"
	"strings"
)

// access says what a request may do with an attribute.
type access uint16

const (
	inPost        access = 1 << iota // may be given in POST
	inPut                            // may be given in PUT
	visible                          // is part of the body
	filterable                       // may be a query parameter
	sortable                         // may be a sort_key
	required                         // must be given in POST
	adminToSet                       // only an admin may give it a value other than the default
	adminToUpdate                    // only an admin may give it in PUT
	adminToSee                       // is part of an admin's body only
	policed                          // is named by the policy though its owner may give it

	adminOnly = adminToSet | adminToUpdate | adminToSee
)

// attribute is one line of Neutron's attribute map. The order of the lines is the real one's: it decides which of
// several mistakes in a request is the one that the answer names.
type attribute[R record] struct {
	name     string
	access   access
	fallback any                                    // the value that counts as not given, where adminToSet asks for it
	convert  func(any) (any, *apiError)             // to the canonical form; runs before check
	check    func(any) string                       // the reason why a value is wrong, or nothing
	get      func(v *view, r R) any                 // the value in a body
	match    func(v *view, r R, want []string) bool // for filters that are not equality

	// filterForm refuses a query parameter that is not of the form which match expects.
	filterForm func(string) *apiError
}

// view is the eyes through which a resource is seen: some values depend on who asks.
type view struct {
	caller *caller
	server *Server
	// answersCreate is whether the body answers the POST that made the resource; a few attributes show up there alone.
	answersCreate bool
}

// omitted is the value of an attribute that is left out of this body.
type omitted struct{}

// schema is everything that makes one kind of resource what it is on the wire.
type schema[R record] struct {
	singular   string
	plural     string
	attributes []attribute[R]
	byName     map[string]*attribute[R]
	notFound   func(id string) *apiError
	seenBy     func(v *view, r R) bool
	// listedBy, unless nil, is whether a request for some fields has what the viewer sees.
	listedBy func(v *view, r R, fields map[string]bool) bool
	// strictMarker is whether a marker that names no resource is refused; otherwise the first page is given.
	strictMarker bool
	// single is whether creates of several in one call are refused.
	single bool
	// whole is whether lists have no pages, whatever limit is asked for.
	whole bool
	// adminToWrite is whether an administrator alone creates, changes and deletes.
	adminToWrite bool
}

func (s *schema[R]) init() *schema[R] {
	s.byName = make(map[string]*attribute[R], len(s.attributes))
	for i := range s.attributes {
		s.byName[s.attributes[i].name] = &s.attributes[i]
	}
	return s
}

// values are the attributes that a request gave, in canonical form.
type values map[string]any

// asksForSomething is whether a PUT names any attribute at all.
func (v values) asksForSomething() bool { return len(v) > 0 }

func (v values) has(name string) bool { _, ok := v[name]; return ok }

func (v values) text(name string) string { s, _ := v[name].(string); return s }

func (v values) truth(name string, fallback bool) bool {
	if b, ok := v[name].(bool); ok {
		return b
	}
	return fallback
}

func (v values) number(name string) int { n, _ := v[name].(int); return n }

// accept turns the object of a POST or PUT into values, or refuses it as Neutron's API layer does: first whose it is,
// then attributes that do not exist, then those not allowed in this method, then their values.
func (s *schema[R]) accept(
	server *Server, c *caller, method string, object map[string]any,
) (values, *apiError) {
	if err := unifyProject(object); err != nil {
		return nil, err
	}
	if project, ok := object["project_id"]; ok && project != c.project && !c.admin {
		if server.since(RefusalsSayProject) {
			return nil, badRequest("Specifying 'project_id' other than the authenticated project in request is not " +
				"allowed for the current user.")
		}
		return nil, badRequest("Specifying 'project_id' or 'tenant_id' other than the authenticated project in " +
			"request requires admin or advsvc privileges")
	}
	if err := s.known(object); err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		if !has(object, "project_id") {
			object["project_id"], object["tenant_id"] = c.project, c.project
		}
		for _, a := range s.attributes {
			switch given := has(object, a.name); {
			case given && a.access&inPost == 0:
				return nil, badRequest("Attribute '%s' not allowed in POST", a.name)
			case !given && a.access&required != 0:
				return nil, badRequest("Failed to parse request. Required attribute '%s' not specified", a.name)
			}
		}
	} else {
		for _, a := range s.attributes {
			if has(object, a.name) && a.access&inPut == 0 {
				return nil, badRequest("Cannot update read-only attribute %s", a.name)
			}
		}
	}
	out := make(values, len(object))
	for _, a := range s.attributes {
		value, given := object[a.name]
		if !given {
			continue
		}
		if a.convert != nil {
			var err *apiError
			if value, err = a.convert(value); err != nil {
				return nil, err
			}
		}
		if a.check != nil {
			if reason := a.check(value); reason != "" {
				return nil, badRequest("Invalid input for %s. Reason: %s.", a.name, reason)
			}
		}
		out[a.name] = value
	}
	return out, nil
}

func has(object map[string]any, name string) bool { _, ok := object[name]; return ok }

// unifyProject keeps tenant_id and project_id, two names of one thing, alike.
func unifyProject(object map[string]any) *apiError {
	tenant, hasTenant := object["tenant_id"]
	project, hasProject := object["project_id"]
	switch {
	case hasTenant && !hasProject:
		object["project_id"] = tenant
	case hasProject && !hasTenant:
		object["tenant_id"] = project
	case hasTenant && tenant != project:
		return badRequest("'project_id' and 'tenant_id' do not match")
	}
	return nil
}

func (s *schema[R]) known(object map[string]any) *apiError {
	var strangers []string
	for _, name := range sortedKeys(object) {
		if _, ok := s.byName[name]; !ok && name != "project_id" {
			strangers = append(strangers, name)
		}
	}
	if len(strangers) > 0 {
		return badRequest("Unrecognized attribute(s) '%s'", strings.Join(strangers, ", "))
	}
	return nil
}

// allow applies the policy on attributes: some values are an admin's to give.
func (s *schema[R]) allow(c *caller, method string, in values) *apiError {
	if c.admin {
		return nil
	}
	action := "create_" + s.singular
	if method == http.MethodPut {
		action = "update_" + s.singular
	}
	rule := "rule:" + action
	restricted := adminToSet
	if method == http.MethodPut {
		restricted = adminToUpdate
	}
	refused := false
	for _, a := range s.attributes {
		value, given := in[a.name]
		if !given || method == http.MethodPost && isFallback(value, a.fallback) {
			continue
		}
		if a.access&(restricted|policed) != 0 {
			refused = refused || a.access&restricted != 0
			rule = "(" + rule + " and rule:" + action + ":" + a.name + ")"
		}
	}
	if !refused {
		return nil
	}
	return disallowed(rule)
}

// isFallback is whether a value is the default one, which nobody needs to be allowed. Lists have no default.
func isFallback(value, fallback any) bool {
	switch value.(type) {
	case []any, map[string]any:
		return false
	}
	return value == fallback
}

// differs are the attributes of an update that count as other values than the resource has. The real ones take a
// description for one in any case if another attribute is beside it.
func (s *schema[R]) differs(v *view, r R, in values) map[string]bool {
	differs := make(map[string]bool)
	for name, value := range in {
		a := s.byName[name]
		if a == nil || a.get == nil || name == "description" && len(in) > 1 ||
			string(appendJSON(nil, value)) != string(appendJSON(nil, a.get(v, r))) {
			differs[name] = true
		}
	}
	return differs
}

// render appends the JSON body of a resource as the viewer may see it. fields, unless empty, chooses attributes.
func (s *schema[R]) render(buf []byte, v *view, r R, fields map[string]bool) []byte {
	buf = append(buf, '{')
	first := true
	member := func(name string, value any) {
		if len(fields) > 0 && !fields[name] {
			return
		}
		if !first {
			buf = append(buf, ',', ' ')
		}
		first = false
		buf = appendJSON(buf, name)
		buf = append(buf, ':', ' ')
		buf = appendJSON(buf, value)
	}
	for i := range s.attributes {
		a := &s.attributes[i]
		if a.access&visible == 0 || a.access&adminToSee != 0 && !v.caller.admin {
			continue
		}
		value := a.get(v, r)
		if value == (omitted{}) {
			continue
		}
		member(a.name, value)
		if a.name == "tenant_id" {
			member("project_id", value)
		}
	}
	return append(buf, '}')
}

// standardAttributes are the lines that every kind of resource has.
func standardAttributes[R record]() []attribute[R] {
	return []attribute[R]{
		{name: "description", access: inPost | inPut | visible | filterable, check: stringUpTo(255),
			get: func(_ *view, r R) any { return r.common().description }},
		{name: "revision_number", access: visible | filterable,
			get: func(_ *view, r R) any { return r.common().revision }},
		{name: "created_at", access: visible, get: func(_ *view, r R) any { return timestamp(r.common().created) }},
		{name: "updated_at", access: visible, get: func(_ *view, r R) any { return timestamp(r.common().updated) }},
		{name: "tags", access: visible | filterable,
			get:   func(_ *view, r R) any { return r.common().tags },
			match: func(_ *view, r R, want []string) bool { return hasAllTags(r.common().tags, want) }},
		{name: "tags-any", access: filterable,
			match: func(_ *view, r R, want []string) bool { return hasAnyTag(r.common().tags, want) }},
		{name: "not-tags", access: filterable,
			match: func(_ *view, r R, want []string) bool { return !hasAllTags(r.common().tags, want) }},
		{name: "not-tags-any", access: filterable,
			match: func(_ *view, r R, want []string) bool { return !hasAnyTag(r.common().tags, want) }},
	}
}

func identifier[R record]() attribute[R] {
	return attribute[R]{name: "id", access: visible | filterable | sortable,
		get: func(_ *view, r R) any { return r.common().id }}
}

func resourceName[R record]() attribute[R] {
	return attribute[R]{name: "name", access: inPost | inPut | visible | filterable | sortable, check: stringUpTo(255),
		get: func(_ *view, r R) any { return r.common().name }}
}

func tenant[R record]() attribute[R] {
	return attribute[R]{name: "tenant_id", access: inPost | visible | filterable | sortable, check: stringUpTo(255),
		get: func(_ *view, r R) any { return r.common().project }}
}

// constant is an attribute that is there and always says the same, because what it describes is not emulated.
func constant[R record](name string, value any) attribute[R] {
	return attribute[R]{name: name, access: visible, get: func(*view, R) any { return value }}
}

// splitTags flattens the values of a tag filter: each may hold several tags, separated by commas.
func splitTags(want []string) []string {
	var tags []string
	for _, w := range want {
		tags = append(tags, strings.Split(w, ",")...)
	}
	return tags
}

func hasAllTags(tags, want []string) bool {
	for _, tag := range splitTags(want) {
		if !slices.Contains(tags, tag) {
			return false
		}
	}
	return true
}

func hasAnyTag(tags, want []string) bool {
	return slices.ContainsFunc(splitTags(want), func(tag string) bool { return slices.Contains(tags, tag) })
}
