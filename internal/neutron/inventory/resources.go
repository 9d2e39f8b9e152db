package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Names of operations, for errors and metrics.
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

var (
	networkAPI = client.Collection{One: "network", Many: "networks", Bulk: true}
	subnetAPI  = client.Collection{One: "subnet", Many: "subnets", Bulk: true}
	// availabilityAPI is the collection of address counts. They have no ids and come in one page.
	availabilityAPI = client.Collection{One: "network_ip_availability", Many: "network-ip-availabilities"}
	portAPI         = client.Collection{One: "port", Many: "ports", Bulk: true}
)

// Probe is the collection that a Cloud reads to learn whether Neutron answers. Neutron serves it from its database.
var Probe = networkAPI

// listNetworks lists all networks of the project, page by page. It returns all or an error, never a part.
func (i *Inventory) listNetworks(ctx context.Context) ([]wireNetwork, error) {
	return listOfProject[wireNetwork](ctx, i, opListNetworks, networkAPI, networkFields)
}

// listSubnets is listNetworks for subnets. With a network's id, it lists that network's subnets, of any project.
func (i *Inventory) listSubnets(ctx context.Context, networkID string) ([]wireSubnet, error) {
	if networkID != "" {
		query := url.Values{"network_id": {networkID}, "fields": subnetFields}
		return client.List[wireSubnet](ctx, i.cloud, opListSubnets, subnetAPI, query)
	}
	return listOfProject[wireSubnet](ctx, i, opListSubnets, subnetAPI, subnetFields)
}

// listPorts is listNetworks for ports.
func (i *Inventory) listPorts(ctx context.Context) ([]wirePort, error) {
	return listOfProject[wirePort](ctx, i, opListPorts, portAPI, portFields)
}

// listOfProject lists the resources of the credentials' project.
func listOfProject[W client.Identified](
	ctx context.Context, i *Inventory, op string, of client.Collection, fields []string,
) ([]W, error) {
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {identity.ProjectID}, "fields": fields}
	return client.List[W](ctx, i.cloud, op, of, query)
}

// listAvailabilities lists the address counts of the project's networks. Neutron shows them to administrators only.
func (i *Inventory) listAvailabilities(ctx context.Context) ([]wireAvailability, error) {
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := client.Page[wireAvailability](
		ctx, i.cloud, opListAvailabilities, availabilityAPI, url.Values{"project_id": {identity.ProjectID}},
	)
	return all, err
}

// calls maps each action to its request, without the resource's id.
var calls = map[plan.Action]struct {
	method string
	of     client.Collection
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

// requestOf returns the request of a step that changes or deletes a resource, without its body. The request is
// conditional on the revision that the step was planned with. Two actions are unconditional.
//
// Neutron changes a router's gateway in several transactions. The first one moves the revision, and the others are
// checked against it. A conditional request stops half-way with a 412: the router has no gateway, but its port still
// exists (measured). RBAC policies, which share a network, have no revisions.
func requestOf(step plan.Step) (client.Request, client.Collection) {
	call := calls[step.Action]
	r := client.Request{
		Op: string(step.Action), Method: call.method, Path: call.of.Path(step.ID), Revision: &step.Revision,
	}
	if step.Action == plan.UpdateGateway || step.Action == plan.UnshareNetwork {
		r.Revision = nil
	}
	return r, call.of
}

// writeStep sends a step that creates or updates a resource. body makes the request's body: all fields, or those that
// the step changes. observed converts the answer to the domain's type.
func writeStep[W, T any](
	ctx context.Context, i *Inventory, step plan.Step,
	body func(step plan.Step, all bool) map[string]any, observed func(W) (T, error),
) (T, error) {
	send := i.update
	if step.Action.Creates() {
		send = i.create
	}
	op, method, of := string(step.Action), calls[step.Action].method, calls[step.Action].of
	answer, err := send(ctx, step, body(step, step.Action.Creates()))
	if err != nil {
		return *new(T), err
	}
	w, err := client.DecodeOne[W](op, method, of, map[string]json.RawMessage{of.One: answer})
	if err != nil {
		return *new(T), err
	}
	written, err := observed(w)
	if err != nil {
		return *new(T), client.BadAnswer(op, method, "%s", err)
	}
	return written, nil
}

// update sends a step that changes a resource and returns the resource as Neutron's JSON.
func (i *Inventory) update(ctx context.Context, step plan.Step, body map[string]any) (json.RawMessage, error) {
	r, of := requestOf(step)
	var answer map[string]json.RawMessage
	r.Body = map[string]any{of.One: body}
	r.Answer = &answer
	if err := i.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return i.cloud.Do(ctx, r) }); err != nil {
		return nil, err
	}
	return answer[of.One], nil
}

// create creates a resource, normally in one call with others, and returns it as Neutron's JSON.
func (i *Inventory) create(ctx context.Context, step plan.Step, body map[string]any) (json.RawMessage, error) {
	op, of := string(step.Action), calls[step.Action].of
	// The marker distinguishes owners. The CIDR, or the pool that it comes from, distinguishes one owner's subnets.
	identity := fmt.Sprint(of.One, " ", body["description"], " ", body["cidr"], " ", body["subnetpool_id"])
	item := batch.Item{Op: op, Collection: of, Key: identity, Flow: flowOf(ctx), Body: body}
	if of == portAPI {
		goesAlone, left, err := i.enterRoom(ctx, op, drawOf(step))
		if err != nil {
			return nil, err
		}
		defer left()
		item.Alone = goesAlone
	}
	made, err := i.queue.Create(ctx, item)
	if err != nil {
		return nil, err
	}
	// If the answers to several creates were mixed up, each caller would take another's resource for its own.
	var told map[string]any
	if json.Unmarshal(made, &told) == nil {
		for _, field := range []string{"description", "network_id", "subnetpool_id"} {
			if said, ok := told[field]; ok && body[field] != nil && said != body[field] {
				return nil, client.BadAnswer(op, http.MethodPost, "it is of another %s than the one that was asked for", of.One)
			}
		}
	}
	return made, nil
}

// remove sends a step that deletes a resource; a network goes with its subnets. A resource that is gone counts as
// removed.
func (i *Inventory) remove(ctx context.Context, step plan.Step) error {
	r, _ := requestOf(step)
	err := i.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return i.cloud.Do(ctx, r) })
	if client.IsNotFound(err) {
		return nil
	}
	return err
}

// tag sends a step that sets a network's tags. It is unconditional: Neutron answers 500 if a condition does not hold
// (measured), and the tags replace all others.
func (i *Inventory) tag(ctx context.Context, step plan.Step) error {
	r := client.Request{
		Op: string(step.Action), Method: http.MethodPut, Path: networkAPI.Path(step.ID) + "/tags",
		Body: map[string]any{"tags": append([]string{}, step.Attributes.Tags...)}, Answer: new(json.RawMessage),
	}
	return i.queue.Write(ctx, r.Op, flowOf(ctx), func() error { return i.cloud.Do(ctx, r) })
}

// flowKey is the context key of WithFlow.
type flowKey struct{}

// WithFlow sets on whose behalf steps run, normally a namespace; see batch.Item.Flow.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

func flowOf(ctx context.Context) string {
	flow, _ := ctx.Value(flowKey{}).(string)
	return flow
}

// refusedItems adapts refused to batch.Options.Refused.
func (i *Inventory) refusedItems(of client.Collection, items []batch.Item, err error) (oneByOne bool) {
	networks := make([]string, len(items))
	for at, item := range items {
		networks[at], _ = item.Body["network_id"].(string)
	}
	return i.refused(of, networks, err)
}
