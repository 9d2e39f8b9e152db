package transitions

import (
	"context"
	"slices"
)

// policies are those by which networks are shared with single projects. The one with all projects is the network's field
// shared.
func (c *cloud) policies(ctx context.Context) ([]resource, error) {
	all, err := c.List(ctx, "rbac-policies", "action=access_as_shared")
	return slices.DeleteFunc(all, func(r resource) bool { return r.Text("target_tenant") == "*" }), err
}

// shares are the projects that networks are shared with, sorted, by the networks' ids.
func (c *cloud) shares(ctx context.Context) (map[string][]string, error) {
	policies, err := c.policies(ctx)
	if err != nil {
		return nil, err
	}
	shares := map[string][]string{}
	for _, r := range policies {
		shares[r.Text("object_id")] = append(shares[r.Text("object_id")], r.Text("target_tenant"))
	}
	for _, projects := range shares {
		slices.Sort(projects)
	}
	return shares, nil
}

// share has a network shared with these projects and no others.
func (c *cloud) share(ctx context.Context, network string, projects []string) error {
	policies, err := c.policies(ctx)
	if err != nil {
		return err
	}
	for _, r := range policies {
		if r.Text("object_id") == network {
			if err := c.Remove(ctx, "rbac-policies", r.ID()); err != nil {
				return err
			}
		}
	}
	for _, project := range projects {
		_, err := c.Create(ctx, "rbac-policies", resource{
			"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": project,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
