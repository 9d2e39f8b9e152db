package neutron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Names of what is tried, in errors and metrics.
const (
	opListNetworks       = "list networks"
	opListSubnets        = "list subnets"
	opListAvailabilities = "list network-ip-availabilities"
	opListPorts          = "list ports"
	opGetNetwork         = "get network"
	opGetPort            = "get port"
	opGetSubnet          = "get subnet"
	opFindNetwork        = "find network"
	opFindPort           = "find port"
)

// collection is a kind of resource in Neutron's API: the name that its JSON has for one, and the path of many.
type collection struct{ one, many string }

// key is the name that the JSON has for many: the end of the path, spelled as one name.
func (c collection) key() string { return strings.ReplaceAll(path.Base(c.many), "-", "_") }

var (
	networkAPI = collection{"network", "networks"}
	subnetAPI  = collection{"subnet", "subnets"}
	portAPI    = collection{"port", "ports"}
)

// path is where one resource of the collection is.
func (c collection) path(id string) string { return c.many + "/" + url.PathEscape(id) }

// listNetworks lists all networks of the project, page by page. It returns all or an error, never a part.
func (c *Cloud) listNetworks(ctx context.Context) ([]wireNetwork, error) {
	return listOfProject[wireNetwork](ctx, c, opListNetworks, networkAPI, networkFields)
}

// listSubnets is listNetworks for subnets, or lists those of one network, whatever project made them, where its id is
// given.
func (c *Cloud) listSubnets(ctx context.Context, networkID string) ([]wireSubnet, error) {
	if networkID != "" {
		query := url.Values{"network_id": {networkID}, "fields": subnetFields}
		return list[wireSubnet](ctx, c, opListSubnets, subnetAPI, query)
	}
	return listOfProject[wireSubnet](ctx, c, opListSubnets, subnetAPI, subnetFields)
}

// listPorts is listNetworks for ports.
func (c *Cloud) listPorts(ctx context.Context) ([]wirePort, error) {
	return listOfProject[wirePort](ctx, c, opListPorts, portAPI, portFields)
}

// listOfProject lists what is the project's.
func listOfProject[W identified](
	ctx context.Context, c *Cloud, op string, of collection, fields []string,
) ([]W, error) {
	identity, err := c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {identity.ProjectID}, "fields": fields}
	return list[W](ctx, c, op, of, query)
}

// listAvailabilities lists the address counts of the project's networks. Neutron answers them to administrators.
func (c *Cloud) listAvailabilities(ctx context.Context) ([]wireAvailability, error) {
	identity, err := c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	var answer map[string]json.RawMessage
	err = c.do(ctx, request{
		op: opListAvailabilities, method: http.MethodGet, path: "network-ip-availabilities",
		query: url.Values{"project_id": {identity.ProjectID}}, answer: &answer,
	})
	if err != nil {
		return nil, err
	}
	return decodePage[wireAvailability](opListAvailabilities, "network_ip_availabilities", answer)
}

// restarts is how often a list begins anew because its place was deleted, before that passes for an outage.
const restarts = 5

// list follows a collection to its end. It returns all or an error, never a part.
func list[W identified](ctx context.Context, c *Cloud, op string, of collection, query url.Values) ([]W, error) {
	for range restarts {
		all, err := listPages[W](ctx, c, op, of, query)
		if !IsNotFound(err) || hasNoSuchCollection(err) {
			return all, err
		}
		// Neutron finds the place of the next page by the last resource of this one, which somebody has deleted.
	}
	return nil, &Error{Kind: Transient, Op: op, Reason: "resources are deleted faster than they are listed"}
}

// hasNoSuchCollection reports whether an error says that the cloud does not know the collection: an extension that it
// lacks. Neutron names the resource where it knows the collection.
func hasNoSuchCollection(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.Type == "HTTPNotFound"
}

// listPages reads page by page. Sorting by id keeps the pages apart while resources come and go; whether there is a
// next page is Neutron's word (the link "next"), since it may give fewer per page than it is asked for.
func listPages[W identified](
	ctx context.Context, c *Cloud, op string, of collection, query url.Values,
) ([]W, error) {
	return follow[W](ctx, c, op, of, c.paged(query))
}

// follow reads a page, and those after it where Neutron says that there are any. It changes the query.
func follow[W identified](
	ctx context.Context, c *Cloud, op string, of collection, query url.Values,
) ([]W, error) {
	var all []W
	seen := map[string]bool{}
	last := ""
	for {
		var answer map[string]json.RawMessage
		err := c.do(ctx, request{op: op, method: http.MethodGet, path: of.many, query: query, answer: &answer})
		if err != nil {
			return nil, err
		}
		page, err := decodePage[W](op, of.key(), answer)
		if err != nil {
			return nil, err
		}
		for _, item := range page {
			last = item.id()
			if last == "" {
				return nil, decodeError(op, http.MethodGet, "an item has no id")
			}
			// This also ends a walk in circles, should a server not understand marker.
			if seen[last] {
				return nil, decodeError(op, http.MethodGet, "%s is on two pages", last)
			}
			seen[last] = true
		}
		all = append(all, page...)
		more, err := hasNext(op, of.key(), answer)
		if err != nil {
			return nil, err
		}
		if !more || len(page) == 0 {
			return all, nil
		}
		query.Set("marker", last)
	}
}

// paged is a query for a page, in the order of ids.
func (c *Cloud) paged(query url.Values) url.Values {
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(c.options.PageSize))
	query.Set("sort_key", "id")
	query.Set("sort_dir", "asc")
	return query
}

// decodePage takes the collection out of an answer. An answer without it is an error, not an empty list.
func decodePage[T any](op, collection string, answer map[string]json.RawMessage) ([]T, error) {
	raw, ok := answer[collection]
	if !ok {
		return nil, decodeError(op, http.MethodGet, "it has no %q", collection)
	}
	var page []T
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, decodeError(op, http.MethodGet, "%s", jsonProblem(err))
	}
	if page == nil {
		return nil, decodeError(op, http.MethodGet, "%q is null", collection)
	}
	return page, nil
}

func hasNext(op, collection string, answer map[string]json.RawMessage) (bool, error) {
	raw, ok := answer[collection+"_links"]
	if !ok {
		return false, nil
	}
	var links []struct {
		Rel string `json:"rel"`
	}
	if err := json.Unmarshal(raw, &links); err != nil {
		return false, decodeError(op, http.MethodGet, "%s", jsonProblem(err))
	}
	for _, link := range links {
		if link.Rel == "next" {
			return true, nil
		}
	}
	return false, nil
}

// get reads one resource; a network comes without its subnets.
func get[W identified](
	ctx context.Context, c *Cloud, op string, of collection, fields []string, id string,
) (w W, err error) {
	var answer map[string]json.RawMessage
	err = c.do(ctx, request{
		op: op, method: http.MethodGet, path: of.path(id), query: url.Values{"fields": fields}, answer: &answer,
	})
	if err != nil {
		return w, err
	}
	if w, err = decodeOne[W](op, http.MethodGet, of, answer); err == nil && w.id() != id {
		err = decodeError(op, http.MethodGet, "it is not of %s %s", of.one, id)
	}
	return w, err
}

// decodeOne takes the one resource out of an answer.
func decodeOne[W any](op, method string, of collection, answer map[string]json.RawMessage) (W, error) {
	var w *W
	if raw, ok := answer[of.one]; ok && raw != nil {
		if err := json.Unmarshal(raw, &w); err != nil {
			return *new(W), decodeError(op, method, "%s", jsonProblem(err))
		}
	}
	if w == nil {
		return *new(W), decodeError(op, method, "it has no %q", of.one)
	}
	return *w, nil
}

// calls are the requests that the actions are, without their resources' ids.
var calls = map[plan.Action]struct {
	method string
	of     collection
}{
	plan.CreateNetwork: {http.MethodPost, networkAPI},
	plan.UpdateNetwork: {http.MethodPut, networkAPI},
	plan.DeleteNetwork: {http.MethodDelete, networkAPI},
	plan.CreateSubnet:  {http.MethodPost, subnetAPI},
	plan.UpdateSubnet:  {http.MethodPut, subnetAPI},
	plan.DeleteSubnet:  {http.MethodDelete, subnetAPI},
	plan.CreatePort:    {http.MethodPost, portAPI},
	plan.UpdatePort:    {http.MethodPut, portAPI},
	plan.DeletePort:    {http.MethodDelete, portAPI},

	plan.CreateRouter:    {http.MethodPost, routerAPI},
	plan.UpdateRouter:    {http.MethodPut, routerAPI},
	plan.UpdateGateway:   {http.MethodPut, routerAPI},
	plan.DeleteRouter:    {http.MethodDelete, routerAPI},
	plan.CreateInterface: {http.MethodPost, portAPI},
	plan.DeleteInterface: {http.MethodDelete, portAPI},

	plan.UnshareNetwork: {http.MethodDelete, shareAPI},
}

// requestOf is a step that changes or deletes a resource as a request, without its body: on the condition that the
// resource is of the revision which the step was planned with. A router's gateway alone changes without one: Neutron
// takes several transactions for it, and the first moves the revision that the others are then held to. The request
// ends half-way, with a 412 and a router without a gateway whose port is still there (measured). So does a network's
// sharing: RBAC policies have no revisions.
func requestOf(step plan.Step) (request, collection) {
	call := calls[step.Action]
	r := request{op: string(step.Action), method: call.method, path: call.of.path(step.ID), revision: &step.Revision}
	if step.Action == plan.UpdateGateway || step.Action == plan.UnshareNetwork {
		r.revision = nil
	}
	return r, call.of
}

// writeStep has a step sent that creates or updates a resource. body makes the request's of the step: all fields, or
// those that it changes. observed makes the domain's resource of the answer's.
func writeStep[W, T any](
	ctx context.Context, c *Cloud, step plan.Step,
	body func(step plan.Step, all bool) map[string]any, observed func(W) (T, error),
) (T, error) {
	send := c.update
	if step.Action.Creates() {
		send = c.create
	}
	op, method, of := string(step.Action), calls[step.Action].method, calls[step.Action].of
	answer, err := send(ctx, step, body(step, step.Action.Creates()))
	if err != nil {
		return *new(T), err
	}
	w, err := decodeOne[W](op, method, of, map[string]json.RawMessage{of.one: answer})
	if err != nil {
		return *new(T), err
	}
	written, err := observed(w)
	if err != nil {
		return *new(T), decodeError(op, method, "%s", err)
	}
	return written, nil
}

// unsettle has what is known of the room on a network forgotten where a step changes its subnets: before the step, and
// after it, by the function that it returns.
func (c *Cloud) unsettle(step plan.Step) (after func()) {
	if calls[step.Action].of != subnetAPI {
		return func() {}
	}
	c.broker.unsettle(step.NetworkRef.ID)
	return func() { c.broker.unsettle(step.NetworkRef.ID) }
}

// update sends a step that changes a resource, and returns the resource as Neutron's JSON.
func (c *Cloud) update(ctx context.Context, step plan.Step, body map[string]any) (json.RawMessage, error) {
	r, of := requestOf(step)
	var answer map[string]json.RawMessage
	r.body = map[string]any{of.one: body}
	r.answer = &answer
	defer c.unsettle(step)()
	if err := c.broker.Write(ctx, r.op, func() error { return c.do(ctx, r) }); err != nil {
		return nil, err
	}
	return answer[of.one], nil
}

// create has a resource created, in one call with others as a rule, and returns it as Neutron's JSON.
func (c *Cloud) create(ctx context.Context, step plan.Step, body map[string]any) (json.RawMessage, error) {
	op, of := string(step.Action), calls[step.Action].of
	// The marker tells one owner's resources from all others', and the CIDR, or the pool that it is to come from, one
	// owner's subnets from each other.
	identity := fmt.Sprint(of.one, " ", body["description"], " ", body["cidr"], " ", body["subnetpool_id"])
	defer c.unsettle(step)()
	made, err := c.broker.Create(ctx, op, of, identity, body)
	if err != nil {
		return nil, err
	}
	// Were the answers to several creates mixed up, each would take another's resource for its own.
	var told map[string]any
	if json.Unmarshal(made, &told) == nil {
		for _, field := range []string{"description", "network_id", "subnetpool_id"} {
			if said, ok := told[field]; ok && body[field] != nil && said != body[field] {
				return nil, decodeError(op, http.MethodPost, "it is of another %s than the one that was asked for", of.one)
			}
		}
	}
	return made, nil
}

// remove has a step sent that deletes a resource, a network with its subnets. What is gone already counts as removed.
func (c *Cloud) remove(ctx context.Context, step plan.Step) error {
	r, _ := requestOf(step)
	defer c.unsettle(step)()
	err := c.broker.Write(ctx, r.op, func() error { return c.do(ctx, r) })
	if IsNotFound(err) {
		return nil
	}
	return err
}

// tag has a step sent that gives a network its tags. It is sent without a condition: Neutron answers a 500 to one that
// does not hold (measured), and the tags replace whatever there are.
func (c *Cloud) tag(ctx context.Context, step plan.Step) error {
	r := request{
		op: string(step.Action), method: http.MethodPut, path: networkAPI.path(step.ID) + "/tags",
		body: map[string]any{"tags": append([]string{}, step.Attributes.Tags...)}, answer: new(json.RawMessage),
	}
	return c.broker.Write(ctx, r.op, func() error { return c.do(ctx, r) })
}
