//go:build linux

package dataplane

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestThePolicyOfTheDocsLetsARoleBind gives a Neutron the lines that docs/dataplane.md has for its policy.yaml.
func TestThePolicyOfTheDocsLetsARoleBind(t *testing.T) {
	needsNodes(t)
	page, err := os.ReadFile(filepath.Join(surroundings.Root, "docs", "dataplane.md"))
	expect.NoError(t, err)
	_, policy, _ := strings.Cut(string(page), "```yaml\nupdate_port:binding:host_id")
	policy, _, found := strings.Cut("update_port:binding:host_id"+policy, "```")
	if !found {
		t.Fatal("docs/dataplane.md has no lines for policy.yaml that begin with update_port:binding:host_id")
	}
	member := harness.Open(t, surroundings.CloudsFile, "tenant")
	network := member.Create("networks", harness.Resource{"name": "policy"})
	port := member.Create("ports", harness.Resource{"network_id": network.ID()})
	bind := func(c *harness.Cloud) (harness.Resource, error) {
		var answer map[string]harness.Resource
		_, err := c.Client.Put(t.Context(), c.Client.ServiceURL("ports", port.ID()),
			map[string]any{"port": map[string]any{"binding:host_id": "nowhere"}}, &answer,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		return answer["port"], err
	}
	if _, err := bind(member); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Fatalf("a member binds a port: %v", err)
	}

	file := filepath.Join(filepath.Dir(surroundings.CloudsFile), "neutron", "policy.d", "binder.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(policy), 0o600))
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	})
	if _, err := bind(member); !gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		t.Fatalf("a member without the role binds a port: %v", err)
	}
	giveRole(t, member, "port_binder")
	binder := harness.Open(t, surroundings.CloudsFile, "tenant")
	var bound harness.Resource
	if err := harness.Poll(t.Context().Done(), patience, time.Second, func() (err error) {
		bound, err = bind(binder)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// Without the other two lines the controller could not tell that nothing binds the port there.
	if bound["binding:host_id"] != "nowhere" || bound["binding:vif_type"] != "binding_failed" || bound["binding:vif_details"] == nil {
		t.Errorf("the role sees %v", bound)
	}
}

// giveRole gives a user a role of Keystone's in its project until the test ends. It is in the user's next token.
func giveRole(t *testing.T, to *harness.Cloud, name string) {
	t.Helper()
	admin := harness.Open(t, surroundings.CloudsFile, "admin")
	keystone, err := openstack.NewIdentityV3(admin.Client.ProviderClient, gophercloud.EndpointOpts{})
	expect.NoError(t, err)
	user, err := to.Client.GetAuthResult().(tokens.CreateResult).ExtractUser()
	expect.NoError(t, err)
	role, err := roles.Create(t.Context(), keystone, roles.CreateOpts{Name: name}).Extract()
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := roles.Delete(context.WithoutCancel(t.Context()), keystone, role.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	err = roles.Assign(t.Context(), keystone, role.ID, roles.AssignOpts{UserID: user.ID, ProjectID: to.Project}).ExtractErr()
	expect.NoError(t, err)
}
