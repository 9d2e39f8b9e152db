package neutron

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// Names of what is tried, in errors and metrics.
const (
	opListNetworks       = "list networks"
	opListSubnets        = "list subnets"
	opListAvailabilities = "list network-ip-availabilities"
	opGetNetwork         = "get network"
)

// listNetworks lists all networks of the project, page by page. It returns all or an error, never a part.
func (c *Cloud) listNetworks(ctx context.Context) ([]wireNetwork, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {s.identity.ProjectID}, "fields": networkFields}
	return list(ctx, c, opListNetworks, "networks", query, func(w wireNetwork) string { return w.ID })
}

// listSubnets lists all subnets of the project, or of one network where its id is given.
func (c *Cloud) listSubnets(ctx context.Context, networkID string) ([]wireSubnet, error) {
	query := url.Values{"fields": subnetFields}
	if networkID != "" {
		// All of the network's, whatever project made them.
		query.Set("network_id", networkID)
	} else {
		s, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		query.Set("project_id", s.identity.ProjectID)
	}
	return list(ctx, c, opListSubnets, "subnets", query, func(w wireSubnet) string { return w.ID })
}

// listAvailabilities lists the address counts of the project's networks. Neutron answers them to administrators.
func (c *Cloud) listAvailabilities(ctx context.Context) ([]wireAvailability, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	const collection = "network_ip_availabilities"
	var answer map[string]json.RawMessage
	err = c.do(ctx, request{
		op: opListAvailabilities, method: http.MethodGet, path: "network-ip-availabilities",
		query: url.Values{"project_id": {s.identity.ProjectID}}, answer: &answer,
	})
	if err != nil {
		return nil, err
	}
	return decodePage[wireAvailability](opListAvailabilities, collection, answer)
}

// restarts is how often a list begins anew because its place was deleted, before that passes for an outage.
const restarts = 5

// list follows a collection to its end. It returns all or an error, never a part.
func list[T any](
	ctx context.Context, c *Cloud, op, collection string, query url.Values, id func(T) string,
) ([]T, error) {
	for range restarts {
		all, err := listPages(ctx, c, op, collection, query, id)
		if !IsNotFound(err) {
			return all, err
		}
		// Neutron finds the place of the next page by the last resource of this one, which somebody has deleted.
	}
	return nil, &Error{Kind: Transient, Op: op, Reason: "resources are deleted faster than they are listed"}
}

// listPages reads page by page. Sorting by id keeps the pages apart while resources come and go; whether there is a next
// page is Neutron's word (the link "next"), since it may give fewer per page than it is asked for.
func listPages[T any](
	ctx context.Context, c *Cloud, op, collection string, query url.Values, id func(T) string,
) ([]T, error) {
	query = maps.Clone(query)
	query.Set("limit", strconv.Itoa(c.options.PageSize))
	query.Set("sort_key", "id")
	query.Set("sort_dir", "asc")
	var all []T
	seen := map[string]bool{}
	last := ""
	for {
		var answer map[string]json.RawMessage
		err := c.do(ctx, request{op: op, method: http.MethodGet, path: collection, query: query, answer: &answer})
		if err != nil {
			return nil, err
		}
		page, err := decodePage[T](op, collection, answer)
		if err != nil {
			return nil, err
		}
		for _, item := range page {
			last = id(item)
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
		more, err := hasNext(op, collection, answer)
		if err != nil {
			return nil, err
		}
		if !more || len(page) == 0 {
			return all, nil
		}
		query.Set("marker", last)
	}
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

// getNetwork reads one network, without its subnets.
func (c *Cloud) getNetwork(ctx context.Context, id string) (wireNetwork, error) {
	var answer struct {
		Network *wireNetwork `json:"network"`
	}
	err := c.do(ctx, request{
		op: opGetNetwork, method: http.MethodGet, path: "networks/" + url.PathEscape(id),
		query: url.Values{"fields": networkFields}, answer: &answer,
	})
	if err != nil {
		return wireNetwork{}, err
	}
	if answer.Network == nil || answer.Network.ID != id {
		return wireNetwork{}, decodeError(opGetNetwork, http.MethodGet, "it is not of network %s", id)
	}
	return *answer.Network, nil
}

// writeNetwork sends a step that creates or updates a network.
func (c *Cloud) writeNetwork(ctx context.Context, step network.Step) (network.ObservedNetwork, error) {
	r := request{op: string(step.Action), method: http.MethodPost, path: "networks"}
	if step.Action == network.UpdateNetwork {
		r.method, r.path, r.revision = http.MethodPut, "networks/"+url.PathEscape(step.ID), &step.Revision
	}
	var answer struct {
		Network *wireNetwork `json:"network"`
	}
	r.body = map[string]any{"network": networkBody(step, step.Action == network.CreateNetwork)}
	r.answer = &answer
	if err := c.do(ctx, r); err != nil {
		return network.ObservedNetwork{}, err
	}
	if answer.Network == nil {
		return network.ObservedNetwork{}, decodeError(r.op, r.method, "it has no %q", "network")
	}
	observed, err := answer.Network.observed()
	if err != nil {
		return network.ObservedNetwork{}, decodeError(r.op, r.method, "%s", err)
	}
	return observed, nil
}

// writeSubnet sends a step that creates or updates a subnet.
func (c *Cloud) writeSubnet(ctx context.Context, step network.Step) (network.ObservedSubnet, error) {
	r := request{op: string(step.Action), method: http.MethodPost, path: "subnets"}
	if step.Action == network.UpdateSubnet {
		r.method, r.path, r.revision = http.MethodPut, "subnets/"+url.PathEscape(step.ID), &step.Revision
	}
	var answer struct {
		Subnet *wireSubnet `json:"subnet"`
	}
	r.body = map[string]any{"subnet": subnetBody(step, step.Action == network.CreateSubnet)}
	r.answer = &answer
	if err := c.do(ctx, r); err != nil {
		return network.ObservedSubnet{}, err
	}
	if answer.Subnet == nil {
		return network.ObservedSubnet{}, decodeError(r.op, r.method, "it has no %q", "subnet")
	}
	observed, err := answer.Subnet.observed()
	if err != nil {
		return network.ObservedSubnet{}, decodeError(r.op, r.method, "%s", err)
	}
	return observed, nil
}

// remove sends a step that deletes a network, with its subnets, or a subnet. What is gone already counts as removed.
func (c *Cloud) remove(ctx context.Context, step network.Step) error {
	path := "networks/"
	if step.Action == network.DeleteSubnet {
		path = "subnets/"
	}
	err := c.do(ctx, request{
		op: string(step.Action), method: http.MethodDelete, path: path + url.PathEscape(step.ID), revision: &step.Revision,
	})
	if IsNotFound(err) {
		return nil
	}
	return err
}
