package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Neutron is gophercloud's client of Neutron, with the credentials of one cloud. It is safe for concurrent use.
type Neutron struct {
	// Client speaks to Neutron.
	Client *gophercloud.ServiceClient
	// Project is the id of the credentials' project.
	Project string
}

// Resource is a Neutron resource as its JSON has it.
type Resource map[string]any

// ID is the resource's id.
func (r Resource) ID() string { return r["id"].(string) }

// Text is an attribute that is a text; empty where it is none.
func (r Resource) Text(attribute string) string { text, _ := r[attribute].(string); return text }

// LogIn logs in to a cloud of a clouds.yaml.
func LogIn(ctx context.Context, path, name string) (*Neutron, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName(name), clouds.WithCloudsYAML(file))
	if err != nil {
		return nil, fmt.Errorf("reading clouds.yaml: %w", err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth)
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", name, err)
	}
	provider.UseTokenLock()
	client, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("finding Neutron of %s: %w", name, err)
	}
	result, ok := provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return nil, errors.New("no answer of version 3 comes from Keystone")
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, fmt.Errorf("reading the project of %s: %w", name, err)
	}
	return &Neutron{client, project.ID}, nil
}

// List gives the resources of a collection ("networks") that fit the query ("name=x").
func (n *Neutron) List(ctx context.Context, collection, query string) ([]Resource, error) {
	var answer map[string][]Resource
	if _, err := n.Client.Get(ctx, n.Client.ServiceURL(collection)+"?"+query, &answer, nil); err != nil {
		return nil, fmt.Errorf("listing %s: %w", collection, err)
	}
	return plain(answer[strings.ReplaceAll(path.Base(collection), "-", "_")])
}

// Create makes a resource. gophercloud writes into the options of a request, so that each has its own.
func (n *Neutron) Create(ctx context.Context, collection string, body Resource) (Resource, error) {
	kind := Singular(collection)
	var answer map[string]Resource
	_, err := n.Client.Post(ctx, n.Client.ServiceURL(collection), map[string]any{kind: body}, &answer,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		return nil, fmt.Errorf("creating a %s: %w", kind, err)
	}
	return plain(answer[kind])
}

// Update changes a resource.
func (n *Neutron) Update(ctx context.Context, collection, id string, body Resource) error {
	_, err := n.put(ctx, map[string]any{Singular(collection): body}, collection, id)
	return err
}

// Act has Neutron take an action on a resource ("routers", "add_router_interface"), and gives what it answers.
func (n *Neutron) Act(ctx context.Context, collection, id, action string, body Resource) (Resource, error) {
	return n.put(ctx, body, collection, id, action)
}

func (n *Neutron) put(ctx context.Context, body any, path ...string) (answer Resource, err error) {
	_, err = n.Client.Put(ctx, n.Client.ServiceURL(path...), body, &answer,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	return answer, err
}

// Remove deletes a resource.
func (n *Neutron) Remove(ctx context.Context, collection, id string) error {
	_, err := n.Client.Delete(ctx, n.Client.ServiceURL(collection, id), nil)
	return err
}

// Singular is what Neutron calls one of a collection: a "security_group" of "security-groups".
func Singular(collection string) string {
	name := strings.ReplaceAll(path.Base(collection), "-", "_")
	if stem, is := strings.CutSuffix(name, "ies"); is {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}

// plain makes float64s of the json.Numbers that gophercloud decodes to.
func plain[T any](decoded T) (again T, err error) {
	text, err := json.Marshal(decoded)
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	return again, err
}

// Cloud looks at Neutron, and changes it behind the controller's back, with the credentials of one cloud. What goes
// wrong ends the test.
type Cloud struct {
	*Neutron
	t testing.TB
}

// Open logs in to a cloud of a clouds.yaml.
func Open(t testing.TB, path, name string) *Cloud {
	t.Helper()
	n, err := LogIn(t.Context(), path, name)
	expect.NoError(t, err)
	return &Cloud{n, t}
}

// CloudsOf is a clouds.yaml whose only entry, "mine", is one of another clouds.yaml, after a change unless that is nil.
func CloudsOf(t testing.TB, path, name string, change func(entry map[string]any)) string {
	t.Helper()
	content, err := os.ReadFile(path)
	expect.NoError(t, err)
	var file struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	expect.NoError(t, yaml.Unmarshal(content, &file))
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
	all, err := c.Neutron.List(c.t.Context(), collection, query)
	expect.NoError(c.t, err)
	return all
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
	made, err := c.Neutron.Create(c.t.Context(), collection, body)
	expect.NoError(c.t, err)
	c.t.Cleanup(func() {
		err := c.Neutron.Remove(context.WithoutCancel(c.t.Context()), collection, made.ID())
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			c.t.Errorf("deleting %s %s: %v", collection, made.ID(), err)
		}
	})
	return made
}

// CreateOutside makes an external network with the subnet 203.0.113.0/24, as an administrator.
func (c *Cloud) CreateOutside(name string) Resource {
	c.t.Helper()
	return c.CreateExternal(name, "203.0.113.0/24")
}

// CreateExternal makes an external network with a subnet of a /24, as an administrator. Neutron draws the addresses of
// routers' gateways, here from .100 to .199 alone. A test that asks for a certain address MUST ask for another one.
func (c *Cloud) CreateExternal(name, cidr string) Resource {
	c.t.Helper()
	external := c.Create("networks", Resource{"name": name, "router:external": true})
	first := netip.MustParsePrefix(cidr).Addr().As4()
	at := func(last byte) string { first[3] = last; return netip.AddrFrom4(first).String() }
	c.Create("subnets", Resource{
		"network_id": external.ID(), "cidr": cidr, "ip_version": 4, "enable_dhcp": false,
		"allocation_pools": []Resource{{"start": at(100), "end": at(199)}},
	})
	return external
}

// Update changes a resource behind the controller's back.
func (c *Cloud) Update(collection, id string, body Resource) {
	c.t.Helper()
	if err := c.Neutron.Update(c.t.Context(), collection, id, body); err != nil {
		c.t.Fatalf("updating %s %s: %v", collection, id, err)
	}
}

// Act has Neutron take an action on a resource ("routers", "add_router_interface"), and gives what it answers.
func (c *Cloud) Act(collection, id, action string, body Resource) Resource {
	c.t.Helper()
	answer, err := c.Neutron.Act(c.t.Context(), collection, id, action, body)
	if err != nil {
		c.t.Fatalf("%s of %s %s: %v", action, collection, id, err)
	}
	return answer
}

// Remove deletes a resource behind the controller's back.
func (c *Cloud) Remove(collection, id string) {
	c.t.Helper()
	if err := c.Neutron.Remove(c.t.Context(), collection, id); err != nil {
		c.t.Fatalf("deleting %s: %v", id, err)
	}
}

// PutQuotas limits resources of a project, as an administrator.
func (c *Cloud) PutQuotas(project string, quotas map[string]int) {
	c.t.Helper()
	if _, err := c.put(c.t.Context(), map[string]any{"quota": quotas}, "quotas", project); err != nil {
		c.t.Fatalf("setting the quota: %v", err)
	}
}
