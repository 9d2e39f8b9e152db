package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// cloud looks at Neutron, and changes it behind the controller's back, with the credentials of one cloud.
type cloud struct {
	t       *testing.T
	client  *gophercloud.ServiceClient
	project string
}

// resource is a Neutron resource as its JSON has it.
type resource map[string]any

func (r resource) id() string { return r["id"].(string) }

// open logs in to a cloud of cloudsFile.
func open(t *testing.T, name string) *cloud {
	t.Helper()
	return openFile(t, cloudsFile, name)
}

// openFile logs in to a cloud of a clouds.yaml.
func openFile(t *testing.T, path, name string) *cloud {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("opening clouds.yaml: %v", err)
	}
	defer file.Close()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName(name), clouds.WithCloudsYAML(file))
	if err != nil {
		t.Fatalf("reading clouds.yaml: %v", err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(t.Context(), auth)
	if err != nil {
		t.Fatalf("logging in to %s: %v", name, err)
	}
	client, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		t.Fatalf("finding Neutron of %s: %v", name, err)
	}
	result := provider.GetAuthResult().(tokens.CreateResult)
	project, err := result.ExtractProject()
	if err != nil {
		t.Fatalf("reading the project of %s: %v", name, err)
	}
	return &cloud{t: t, client: client, project: project.ID}
}

// list gives the resources of a collection ("networks") that fit the query ("name=x").
func (c *cloud) list(collection, query string) []resource {
	c.t.Helper()
	var answer map[string][]resource
	_, err := c.client.Get(c.t.Context(), c.client.ServiceURL(collection)+"?"+query, &answer, nil)
	if err != nil {
		c.t.Fatalf("listing %s: %v", collection, err)
	}
	for i := range answer[collection] {
		answer[collection][i] = plain(c.t, answer[collection][i])
	}
	return answer[collection]
}

// plain makes float64s of the json.Numbers that gophercloud decodes to.
func plain(t *testing.T, r resource) resource {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var decoded resource
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// one gives the only resource of a collection that fits the query.
func (c *cloud) one(collection, query string) resource {
	c.t.Helper()
	all := c.list(collection, query)
	if len(all) != 1 {
		c.t.Fatalf("there are %d %s with %s, want 1: %v", len(all), collection, query, all)
	}
	return all[0]
}

// create makes a resource, and deletes it when the test ends.
func (c *cloud) create(collection string, body resource) resource {
	c.t.Helper()
	kind := strings.TrimSuffix(collection, "s")
	var answer map[string]resource
	_, err := c.client.Post(c.t.Context(), c.client.ServiceURL(collection), map[string]any{kind: body}, &answer,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		c.t.Fatalf("creating a %s: %v", kind, err)
	}
	made := plain(c.t, answer[kind])
	c.t.Cleanup(func() {
		ctx := contextOf(c.t)
		_, err := c.client.Delete(ctx, c.client.ServiceURL(collection, made.id()), nil)
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			c.t.Errorf("deleting %s %s: %v", kind, made.id(), err)
		}
	})
	return made
}

// update changes a resource behind the controller's back.
func (c *cloud) update(collection, id string, body resource) {
	c.t.Helper()
	kind := strings.TrimSuffix(collection, "s")
	_, err := c.client.Put(c.t.Context(), c.client.ServiceURL(collection, id), map[string]any{kind: body}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("updating %s %s: %v", kind, id, err)
	}
}

// remove deletes a resource behind the controller's back.
func (c *cloud) remove(collection, id string) {
	c.t.Helper()
	if _, err := c.client.Delete(c.t.Context(), c.client.ServiceURL(collection, id), nil); err != nil {
		c.t.Fatalf("deleting %s: %v", id, err)
	}
}

// setQuota limits the networks of a project, as an administrator, until the test ends.
func (c *cloud) setQuota(project string, networks int) {
	c.t.Helper()
	c.putQuota(project, networks)
	c.t.Cleanup(func() {
		_, err := c.client.Delete(contextOf(c.t), c.client.ServiceURL("quotas", project), nil)
		if err != nil {
			c.t.Errorf("resetting the quota: %v", err)
		}
	})
}

func (c *cloud) putQuota(project string, networks int) {
	c.t.Helper()
	_, err := c.client.Put(c.t.Context(), c.client.ServiceURL("quotas", project),
		map[string]any{"quota": map[string]any{"network": networks}}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("setting the quota: %v", err)
	}
}
