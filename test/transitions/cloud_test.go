package transitions

import (
	"context"
	"fmt"

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
