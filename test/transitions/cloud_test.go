package transitions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// cloud is what people have who work in Neutron behind the controllers' backs: gophercloud's own client. It is safe for
// concurrent use.
type cloud struct{ client *gophercloud.ServiceClient }

// resource is a Neutron resource as its JSON has it.
type resource map[string]any

func (r resource) text(field string) string { text, _ := r[field].(string); return text }

// owner is the UID of the object whose marker the resource bears, if that object is of the cluster, or empty.
func (r resource) owner(cluster string) string {
	if _, owner, marked := plan.ParseDescription(r.text("description")); marked && owner.Cluster == cluster {
		return owner.Object
	}
	return ""
}

func openCloud(ctx context.Context, file, name string) (*cloud, error) {
	content, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName(name), clouds.WithCloudsYAML(content))
	if err != nil {
		return nil, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth)
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", name, err)
	}
	provider.UseTokenLock()
	client, err := openstack.NewNetworkV2(provider, endpoint)
	return &cloud{client}, err
}

// list gives all resources of a collection that the credentials see and that fit the query ("network_id=x").
func (c *cloud) list(ctx context.Context, collection, query string) ([]resource, error) {
	var answer map[string][]resource
	if _, err := c.client.Get(ctx, c.client.ServiceURL(collection)+"?"+query, &answer, nil); err != nil {
		return nil, fmt.Errorf("listing %s: %w", collection, err)
	}
	// gophercloud decodes numbers to json.Number; once more makes them float64.
	text, err := json.Marshal(answer[collection])
	if err != nil {
		return nil, err
	}
	var plain []resource
	return plain, json.Unmarshal(text, &plain)
}

func (c *cloud) create(ctx context.Context, collection string, body resource) (resource, error) {
	kind := singular(collection)
	var answer map[string]resource
	_, err := c.client.Post(ctx, c.client.ServiceURL(collection), map[string]any{kind: body}, &answer,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	return answer[kind], err
}

// update changes a resource. Its error is Neutron's refusal, as is remove's.
func (c *cloud) update(ctx context.Context, collection, id string, body resource) error {
	_, err := c.client.Put(ctx, c.client.ServiceURL(collection, id), map[string]any{singular(collection): body}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return err
}

// detach takes a router's interface off, and the port with it.
func (c *cloud) detach(ctx context.Context, router, port string) error {
	_, err := c.client.Put(ctx, c.client.ServiceURL("routers", router, "remove_router_interface"),
		map[string]any{"port_id": port}, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return err
}

// makeKind makes a router another kind, and leaves it switched off.
func (c *cloud) makeKind(ctx context.Context, router string, kind resource) error {
	if err := c.update(ctx, "routers", router, resource{"admin_state_up": false}); err != nil {
		return err
	}
	return c.update(ctx, "routers", router, kind)
}

// tag replaces the tags of a network.
func (c *cloud) tag(ctx context.Context, id string, tags []string) error {
	_, err := c.client.Put(ctx, c.client.ServiceURL("networks", id, "tags"), map[string]any{"tags": tags}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return err
}

func (c *cloud) remove(ctx context.Context, collection, id string) error {
	_, err := c.client.Delete(ctx, c.client.ServiceURL(collection, id), nil)
	return err
}

func singular(collection string) string { return collection[:len(collection)-1] }

// defaultGroup finds the id of the project's default security group, which Neutron puts a port into.
func (c *cloud) defaultGroup(ctx context.Context) (string, error) {
	on, err := c.create(ctx, "networks", resource{"name": "default-group"})
	if err != nil {
		return "", err
	}
	port, err := c.create(ctx, "ports", resource{"network_id": on["id"]})
	if err != nil {
		return "", err
	}
	groups, _ := port["security_groups"].([]any)
	if len(groups) != 1 {
		return "", fmt.Errorf("a port without a wish is in the security groups %v, want one", groups)
	}
	if err := c.remove(ctx, "ports", port.text("id")); err != nil {
		return "", err
	}
	return fmt.Sprint(groups[0]), c.remove(ctx, "networks", on.text("id"))
}
