package neutrontest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// request is one call to the emulated Neutron.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller *caller
	call   *Call
}

// kind is a collection of the API: networks, subnets, ports, routers.
type kind interface {
	list(*request) *apiError
	create(*request) *apiError
	show(*request, string) *apiError
	update(*request, string) *apiError
	remove(*request, string) *apiError
	tags(req *request, id, tag string) *apiError
	act(req *request, id, action string) *apiError
}

// serveNetwork answers as Neutron; path is below its mount point.
func (s *Server) serveNetwork(w http.ResponseWriter, r *http.Request, path string) Call {
	call := Call{Path: path, Items: 1}
	if path == "" || path == "/" {
		call.Path = "/"
		writeJSON(w, http.StatusOK, map[string]any{"versions": []any{map[string]any{
			"id": "v2.0", "status": "CURRENT",
			"links": []link{{"self", s.base(r) + networkPrefix + "/v2.0/"}},
		}}})
		return call
	}
	rest, ok := below("/v2.0", path)
	if !ok {
		call.Path = "/unknown"
		http.Error(w, "404 Not Found\n\nThe resource could not be found.\n\n   ", http.StatusNotFound)
		return call
	}
	c, ok := s.identity.authenticate(r)
	if !ok {
		call.Path = patternOf(rest)
		s.unauthorized(w, r)
		return call
	}
	call.Path, call.Project = patternOf(rest), c.project
	if err := s.route(&request{Request: r, w: w, caller: c, call: &call}, rest); err != nil {
		writeNeutronError(w, err)
	}
	return call
}

// patternOf replaces the ids in a path below /v2.0.
func patternOf(path string) string {
	parts := collectionOf(strings.Split(strings.Trim(path, "/"), "/"))
	if len(parts) > 1 {
		parts[1] = "{id}"
	}
	if len(parts) > 3 {
		parts[3] = "{tag}"
	}
	return strings.TrimSuffix("/v2.0/"+strings.Join(parts, "/"), "/")
}

// collectionOf makes one part of what names a collection: that of an extension may be below the extension's name.
func collectionOf(parts []string) []string {
	if parts[0] != "qos" || len(parts) == 1 {
		return parts
	}
	return append([]string{parts[0] + "/" + parts[1]}, parts[2:]...)
}

func (s *Server) route(req *request, path string) *apiError {
	if path == "" {
		return hidden()
	}
	parts := strings.Split(strings.Trim(strings.TrimSuffix(path, ".json"), "/"), "/")
	switch parts[0] {
	case "":
		return s.serveResources(req)
	case "extensions":
		return s.serveExtensions(req, parts[1:])
	case "quotas":
		return s.serveQuotas(req, parts[1:])
	case "network-ip-availabilities":
		return s.serveAvailabilities(req, parts[1:])
	case "security-groups":
		s.mu.Lock()
		s.defaultGroup(req.caller.project)
		s.mu.Unlock()
	}
	parts = collectionOf(parts)
	k, ok := s.kinds[parts[0]]
	if !ok {
		return hidden()
	}
	switch len(parts) {
	case 1:
		switch req.Method {
		case http.MethodGet:
			return k.list(req)
		case http.MethodPost:
			return k.create(req)
		case http.MethodPut, http.MethodDelete:
			// The real one looks for a resource whose id is missing.
			return k.show(req, "None")
		}
	case 2:
		switch req.Method {
		case http.MethodGet:
			return k.show(req, parts[1])
		case http.MethodPut:
			return k.update(req, parts[1])
		case http.MethodDelete:
			return k.remove(req, parts[1])
		}
	case 3:
		if parts[2] == "tags" {
			return k.tags(req, parts[1], "")
		}
		return k.act(req, parts[1], parts[2])
	case 4:
		if parts[2] == "tags" {
			return k.tags(req, parts[1], parts[3])
		}
		return hidden()
	default:
		return hidden()
	}
	return methodNotAllowed()
}

func methodNotAllowed() *apiError {
	return refuse(http.StatusMethodNotAllowed, "HTTPMethodNotAllowed", "The server could not comply with the request "+
		"since it is either malformed or otherwise incorrect.")
}

// serveResources answers GET /v2.0/: the core resources.
func (s *Server) serveResources(req *request) *apiError {
	resources := make([]any, 0, 4)
	for _, name := range []string{"network", "subnet", "subnetpool", "port"} {
		resources = append(resources, map[string]any{
			"name": name, "collection": name + "s",
			"links": []link{{"self", s.base(req.Request) + networkPrefix + "/v2.0/" + name + "s"}},
		})
	}
	writeJSON(req.w, http.StatusOK, map[string]any{"resources": resources})
	return nil
}

// body reads a JSON object. An empty body is an empty object.
func (req *request) body() (map[string]any, *apiError) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, badRequest("Body contains invalid data")
	}
	if len(data) == 0 {
		return map[string]any{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	if decoder.Decode(&object) != nil || object == nil {
		return nil, badRequest("Body contains invalid data")
	}
	return object, nil
}

// resources is the collection of one kind of resource, and what is peculiar to it.
type resources[R record] struct {
	server *Server
	schema *schema[R]
	table  *table[R]

	// admit refuses a create before quotas and policy are asked, because of what it would belong to.
	admit func(*caller, values) *apiError
	// build creates the resource.
	build func(*transaction, *caller, values) (R, *apiError)
	// alter applies an update.
	alter func(*transaction, *caller, R, values) *apiError
	// discard removes the resource and what goes with it.
	discard func(*transaction, *caller, R) *apiError
	// actions are the sub-paths that change the resource by PUT and answer with their own body.
	actions map[string]func(*transaction, *caller, R, map[string]any) (any, *apiError)
}

func (k *resources[R]) view(req *request) *view { return &view{caller: req.caller, server: k.server} }

func (k *resources[R]) list(req *request) *apiError {
	q, err := k.schema.parse(req.URL.RawQuery)
	if err != nil {
		return err
	}
	v := k.view(req)
	k.server.mu.RLock()
	defer k.server.mu.RUnlock()
	page, err := k.schema.page(v, k.table, q)
	if err != nil {
		return err
	}
	req.call.Items = len(page)
	buf := make([]byte, 0, 64+len(page)*700)
	buf = append(buf, '{')
	buf = appendString(buf, k.schema.plural)
	buf = append(buf, ": ["...)
	var first, last string
	for i, r := range page {
		if i == 0 {
			first = r.common().id
		} else {
			buf = append(buf, ", "...)
		}
		last = r.common().id
		buf = k.schema.render(buf, v, r, q.fields)
	}
	buf = append(buf, ']')
	address := k.server.base(req.Request) + req.URL.EscapedPath()
	if links := q.links(address, first, last, len(page)); len(links) > 0 {
		buf = append(buf, ", "...)
		buf = appendString(buf, k.schema.plural+"_links")
		buf = append(buf, ": "...)
		buf = appendJSON(buf, links)
	}
	writeBody(req.w, http.StatusOK, append(buf, '}'))
	return nil
}

// lookup gives a resource that the caller may see.
func (k *resources[R]) lookup(v *view, id string) (R, *apiError) {
	r, ok := k.table.byID[id]
	if !ok || !k.schema.seenBy(v, r) {
		var none R
		return none, k.schema.notFound(id)
	}
	return r, nil
}

func (k *resources[R]) show(req *request, id string) *apiError {
	q, err := k.schema.parse(req.URL.RawQuery)
	if err != nil {
		return err
	}
	v := k.view(req)
	k.server.mu.RLock()
	defer k.server.mu.RUnlock()
	r, err := k.lookup(v, id)
	if err != nil {
		return err
	}
	if k.schema.listedBy != nil && !k.schema.listedBy(v, r, q.fields) {
		return hidden()
	}
	k.answer(req, v, http.StatusOK, r, q.fields)
	return nil
}

func (k *resources[R]) answer(req *request, v *view, status int, r R, fields map[string]bool) {
	buf := append([]byte("{"), `"`+k.schema.singular+`": `...)
	writeBody(req.w, status, append(k.schema.render(buf, v, r, fields), '}'))
}

// objects takes the resources out of the body of a POST.
func (k *resources[R]) objects(body map[string]any) (objects []map[string]any, bulk bool, err *apiError) {
	list, bulk := body[k.schema.plural]
	if !bulk {
		object, err := k.object(body)
		return []map[string]any{object}, false, err
	}
	items, ok := list.([]any)
	if !ok || len(items) == 0 {
		return nil, true, badRequest("Resources required")
	}
	for _, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, true, badRequest("Body contains invalid data")
		}
		if has(object, k.schema.singular) {
			if object, err = k.object(object); err != nil {
				return nil, true, err
			}
		}
		objects = append(objects, object)
	}
	return objects, true, nil
}

func (k *resources[R]) object(body map[string]any) (map[string]any, *apiError) {
	value := body[k.schema.singular]
	if value == nil {
		return nil, badRequest("Unable to find '%s' in request body", k.schema.singular)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, badRequest("Object '%s' contains invalid data", k.schema.singular)
	}
	return object, nil
}

func (k *resources[R]) create(req *request) *apiError {
	body, err := req.body()
	if err != nil {
		return err
	}
	objects, bulk, err := k.objects(body)
	if err != nil {
		return err
	}
	if bulk && k.schema.single {
		return badRequest("Bulk operation not supported")
	}
	req.call.Items, req.call.Bulk = len(objects), bulk
	wanted := make([]values, 0, len(objects))
	for _, object := range objects {
		in, err := k.schema.accept(k.server, req.caller, http.MethodPost, object)
		if err != nil {
			return err
		}
		wanted = append(wanted, in)
	}
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	if k.admit != nil {
		for _, in := range wanted {
			if err := k.admit(req.caller, in); err != nil {
				return err
			}
		}
	}
	if err := k.server.reserve(k.schema.singular, wanted); err != nil {
		return err
	}
	if k.schema.adminToWrite && !req.caller.admin {
		return disallowed("rule:create_" + k.schema.singular)
	}
	for _, in := range wanted {
		if err := k.schema.allow(req.caller, http.MethodPost, in); err != nil {
			return err
		}
	}
	tx := k.server.begin()
	tx.bulk = bulk
	made := make([]R, 0, len(wanted))
	for _, in := range wanted {
		r, err := k.build(tx, req.caller, in)
		if err != nil {
			tx.rollback()
			return err
		}
		made = append(made, r)
	}
	if tx.afterAnswer != nil {
		defer tx.afterAnswer()
	}
	v := k.view(req)
	v.answersCreate = true
	if !bulk {
		k.answer(req, v, http.StatusCreated, made[0], nil)
		return nil
	}
	buf := append([]byte("{"), `"`+k.schema.plural+`": [`...)
	for i, r := range made {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = k.schema.render(buf, v, r, nil)
	}
	writeBody(req.w, http.StatusCreated, append(buf, "]}"...))
	return nil
}

// own refuses a change to a resource that the caller can see but does not own.
func (k *resources[R]) own(c *caller, verb string, r R) *apiError {
	if c.admin || r.common().project == c.project && !k.schema.adminToWrite {
		return nil
	}
	return disallowed("rule:" + verb + "_" + k.schema.singular)
}

func (k *resources[R]) update(req *request, id string) *apiError {
	body, err := req.body()
	if err != nil {
		return err
	}
	if has(body, k.schema.plural) {
		return badRequest("Bulk operation not supported")
	}
	object, err := k.object(body)
	if err != nil {
		return err
	}
	in, err := k.schema.accept(k.server, req.caller, http.MethodPut, object)
	if err != nil {
		return err
	}
	expected, err := expectedRevision(req.Header)
	if err != nil {
		return err
	}
	v := k.view(req)
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	r, err := k.lookup(v, id)
	if err != nil {
		return err
	}
	if err := k.own(req.caller, "update", r); err != nil {
		return err
	}
	if err := k.schema.allow(req.caller, http.MethodPut, in); err != nil {
		return err
	}
	tx := k.server.begin()
	tx.expected, tx.differs = expected, k.schema.differs(v, r, in)
	if err := k.alter(tx, req.caller, r, in); err != nil {
		tx.rollback()
		return err
	}
	k.answer(req, v, http.StatusOK, r, nil)
	if tx.afterAnswer != nil {
		tx.afterAnswer()
	}
	return nil
}

func (k *resources[R]) remove(req *request, id string) *apiError {
	expected, err := expectedRevision(req.Header)
	if err != nil {
		return err
	}
	v := k.view(req)
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	r, err := k.lookup(v, id)
	if err != nil {
		return err
	}
	p, isPort := any(r).(*port)
	ofItsNetwork := isPort && p.network.project == req.caller.project
	if err := k.own(req.caller, "delete", r); err != nil && !ofItsNetwork {
		return err
	}
	if isPort && !req.caller.admin && p.isMachines() && k.server.since(MachinesPortsStay) {
		return disallowed("rule:delete_port")
	}
	if n, _ := req.Body.Read(make([]byte, 1)); n > 0 {
		return badRequest("Request body is not supported in DELETE.")
	}
	tx := k.server.begin()
	tx.expected = expected
	if err := k.discard(tx, req.caller, r); err != nil {
		tx.rollback()
		return err
	}
	req.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (k *resources[R]) act(req *request, id, action string) *apiError {
	do, ok := k.actions[action]
	if !ok {
		return hidden()
	}
	if req.Method != http.MethodPut {
		return methodNotAllowed()
	}
	body, err := req.body()
	if err != nil {
		return err
	}
	k.server.mu.Lock()
	defer k.server.mu.Unlock()
	r, err := k.lookup(k.view(req), id)
	if err != nil {
		return err
	}
	if err := k.own(req.caller, "update", r); err != nil {
		return err
	}
	tx := k.server.begin()
	out, err := do(tx, req.caller, r, body)
	if err != nil {
		tx.rollback()
		return err
	}
	writeJSON(req.w, http.StatusOK, out)
	return nil
}
