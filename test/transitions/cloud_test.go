package transitions

import (
	"context"
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// cloud is what people have who work in Neutron behind the controllers' backs.
type cloud struct{ *harness.Neutron }

type resource = harness.Resource

// ownerOf is the UID of the object whose marker a resource bears, if that object is of the cluster, or empty.
func ownerOf(r resource, cluster string) string {
	if _, owner, marked := plan.ParseDescription(r.Text("description")); marked && owner.Cluster == cluster {
		return owner.Object
	}
	return ""
}

// detach takes a router's interface off, and the port with it.
func (c *cloud) detach(ctx context.Context, router, port string) error {
	_, err := c.Act(ctx, "routers", router, "remove_router_interface", resource{"port_id": port})
	return err
}

// makeKind makes a router another kind, and leaves it switched off.
func (c *cloud) makeKind(ctx context.Context, router string, kind resource) error {
	if err := c.Update(ctx, "routers", router, resource{"admin_state_up": false}); err != nil {
		return err
	}
	return c.Update(ctx, "routers", router, kind)
}

// tag replaces the tags of a network.
func (c *cloud) tag(ctx context.Context, id string, tags []string) error {
	_, err := c.Act(ctx, "networks", id, "tags", resource{"tags": tags})
	return err
}

// defaultGroup finds the id of the project's default security group, which Neutron puts a port into.
func (c *cloud) defaultGroup(ctx context.Context) (string, error) {
	on, err := c.Create(ctx, "networks", resource{"name": "default-group"})
	if err != nil {
		return "", err
	}
	port, err := c.Create(ctx, "ports", resource{"network_id": on["id"]})
	if err != nil {
		return "", err
	}
	groups, _ := port["security_groups"].([]any)
	if len(groups) != 1 {
		return "", fmt.Errorf("a port without a wish is in the security groups %v, want one", groups)
	}
	if err := c.Remove(ctx, "ports", port.ID()); err != nil {
		return "", err
	}
	return fmt.Sprint(groups[0]), c.Remove(ctx, "networks", on.ID())
}

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
