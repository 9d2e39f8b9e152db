package harness

import (
	"context"
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
	"sigs.k8s.io/yaml"
)

// Cloud looks at Neutron, and changes it behind the controller's back, with the credentials of one cloud. What goes
// wrong ends the test.
type Cloud struct {
	// Client speaks to Neutron.
	Client *gophercloud.ServiceClient
	// Project is the id of the credentials' project.
	Project string

	t testing.TB
}

// Resource is a Neutron resource as its JSON has it.
type Resource map[string]any

// ID is the resource's id.
func (r Resource) ID() string { return r["id"].(string) }

// Open logs in to a cloud of a clouds.yaml.
func Open(t testing.TB, path, name string) *Cloud {
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
	return &Cloud{t: t, Client: client, Project: project.ID}
}

// CloudsOf is a clouds.yaml whose only entry, "mine", is one of another clouds.yaml, after a change unless that is nil.
func CloudsOf(t testing.TB, path, name string, change func(entry map[string]any)) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	entry := file.Clouds[name]
	if entry == nil {
		t.Fatalf("%s has no cloud %q", path, name)
	}
	if change != nil {
		change(entry)
	}
	if content, err = yaml.Marshal(map[string]any{"clouds": map[string]any{"mine": entry}}); err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// List gives the resources of a collection ("networks") that fit the query ("name=x").
func (c *Cloud) List(collection, query string) []Resource {
	c.t.Helper()
	var answer map[string][]Resource
	_, err := c.Client.Get(c.t.Context(), c.Client.ServiceURL(collection)+"?"+query, &answer, nil)
	if err != nil {
		c.t.Fatalf("listing %s: %v", collection, err)
	}
	listed := answer[strings.ReplaceAll(collection, "-", "_")]
	for i := range listed {
		listed[i] = plain(c.t, listed[i])
	}
	return listed
}

// plain makes float64s of the json.Numbers that gophercloud decodes to.
func plain(t testing.TB, r Resource) Resource {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var decoded Resource
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

// One gives the only resource of a collection that fits the query.
func (c *Cloud) One(collection, query string) Resource {
	c.t.Helper()
	all := c.List(collection, query)
	if len(all) != 1 {
		c.t.Fatalf("there are %d %s with %s, want 1: %v", len(all), collection, query, all)
	}
	return all[0]
}

// Create makes a resource, and deletes it when the test ends.
func (c *Cloud) Create(collection string, body Resource) Resource {
	c.t.Helper()
	kind := strings.ReplaceAll(strings.TrimSuffix(collection, "s"), "-", "_")
	var answer map[string]Resource
	_, err := c.Client.Post(c.t.Context(), c.Client.ServiceURL(collection), map[string]any{kind: body}, &answer,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		c.t.Fatalf("creating a %s: %v", kind, err)
	}
	made := plain(c.t, answer[kind])
	c.t.Cleanup(func() {
		ctx := context.WithoutCancel(c.t.Context())
		_, err := c.Client.Delete(ctx, c.Client.ServiceURL(collection, made.ID()), nil)
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			c.t.Errorf("deleting %s %s: %v", kind, made.ID(), err)
		}
	})
	return made
}

// Update changes a resource behind the controller's back.
func (c *Cloud) Update(collection, id string, body Resource) {
	c.t.Helper()
	kind := strings.ReplaceAll(strings.TrimSuffix(collection, "s"), "-", "_")
	_, err := c.Client.Put(c.t.Context(), c.Client.ServiceURL(collection, id), map[string]any{kind: body}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("updating %s %s: %v", kind, id, err)
	}
}

// Remove deletes a resource behind the controller's back.
func (c *Cloud) Remove(collection, id string) {
	c.t.Helper()
	if _, err := c.Client.Delete(c.t.Context(), c.Client.ServiceURL(collection, id), nil); err != nil {
		c.t.Fatalf("deleting %s: %v", id, err)
	}
}

// SetQuota limits the networks of a project, as an administrator, until the test ends.
func (c *Cloud) SetQuota(project string, networks int) {
	c.t.Helper()
	c.PutQuota(project, networks)
	c.t.Cleanup(func() {
		_, err := c.Client.Delete(context.WithoutCancel(c.t.Context()), c.Client.ServiceURL("quotas", project), nil)
		if err != nil {
			c.t.Errorf("resetting the quota: %v", err)
		}
	})
}

// PutQuota limits the networks of a project, as an administrator.
func (c *Cloud) PutQuota(project string, networks int) {
	c.t.Helper()
	c.PutQuotas(project, map[string]int{"network": networks})
}

// PutQuotas limits resources of a project, as an administrator.
func (c *Cloud) PutQuotas(project string, quotas map[string]int) {
	c.t.Helper()
	_, err := c.Client.Put(c.t.Context(), c.Client.ServiceURL("quotas", project), map[string]any{"quota": quotas}, nil,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if err != nil {
		c.t.Fatalf("setting the quota: %v", err)
	}
}
