package app

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// TestPortsOfAnotherCloudAreNotAttached: a user's own cloud may answer with the id of somebody else's port in the cloud
// of the nodes. A node would plug that port.
func TestPortsOfAnotherCloudAreNotAttached(t *testing.T) {
	tenant, admin := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	elsewhere, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
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
