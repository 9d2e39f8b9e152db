package app

import (
	"os"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// cloudsOf gives a tenant and an administrator of a new emulated cloud.
func cloudsOf(t *testing.T) (tenant, admin *client.Cloud) {
	t.Helper()
	listener, err := neutrontest.New(neutrontest.Options{}).Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	for name, to := range map[string]**client.Cloud{"tenant": &tenant, "admin": &admin} {
		credentials, err := client.LoadCredentials(name)
		if err != nil {
			t.Fatal(err)
		}
		*to = client.NewCloud(credentials, client.Options{})
	}
	return tenant, admin
}

// TestPortsOfAnotherCloudAreNotAttached: a user's own cloud may answer with the id of somebody else's port in the cloud
// of the nodes. A node would plug that port.
func TestPortsOfAnotherCloudAreNotAttached(t *testing.T) {
	tenant, admin := cloudsOf(t)
	elsewhere, _ := cloudsOf(t)
	b := &binder{p: &process{access: &cloudAccess{cloud: admin}}}
	users := managed.CloudRef{Namespace: "team", Secret: "openstack"}
	in := func(cloud, as *client.Cloud) inventory.Binder {
		return inventory.Binder{Inventory: inventory.New(cloud, "c", inventory.Options{}), As: as}
	}
	for name, c := range map[string]struct {
		ref     managed.CloudRef
		in      inventory.Binder
		refused bool
	}{
		"the own cloud":                         {managed.CloudRef{}, in(admin, nil), false},
		"a project of the own cloud":            {users, in(tenant, nil), false},
		"another cloud":                         {users, in(elsewhere, nil), true},
		"with credentials that check it anyway": {users, in(elsewhere, admin), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.ofTheNodes(t.Context(), c.ref, c.in); (err != nil) != c.refused {
				t.Errorf("error %v, want one: %t", err, c.refused)
			}
		})
	}
}
