package app

import (
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestPortsOfAnotherCloudAreNotAttached: a user's own cloud may answer with the id of somebody else's port in the cloud
// of the nodes. A node would plug that port.
func TestPortsOfAnotherCloudAreNotAttached(t *testing.T) {
	tenant, admin := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	elsewhere, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	renamed, _ := cloudtest.Emulated(t, neutrontest.Options{}, nil)
	b := &binder{p: &process{access: &cloudAccess{cloud: admin}}}
	b.p.options.SameClouds = []string{endpointOf(t, renamed) + "=" + endpointOf(t, admin)}
	b.same = b.p.options.sameClouds()
	in := func(cloud, as *client.Cloud) inventory.Binder {
		return inventory.Binder{Inventory: inventory.New(cloud, "c", inventory.Options{}), As: as}
	}
	for name, c := range map[string]struct {
		ref     managed.CloudRef
		in      inventory.Binder
		refused bool
	}{
		"the own cloud":                   {managed.CloudRef{}, in(admin, nil), false},
		"a project of the own cloud":      {inTeam, in(tenant, nil), false},
		"another cloud":                   {inTeam, in(elsewhere, nil), true},
		"another than of --binding-cloud": {inTeam, in(elsewhere, admin), true},
		"that of --binding-cloud":         {inTeam, in(elsewhere, elsewhere), false},
		"another name of the nodes'":      {inTeam, in(renamed, admin), false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := b.ofTheNodes(t.Context(), c.ref, c.in); (err != nil) != c.refused {
				t.Errorf("error %v, want one: %t", err, c.refused)
			}
		})
	}
}

func endpointOf(t *testing.T, cloud *client.Cloud) string {
	t.Helper()
	identity, err := cloud.Identity(t.Context())
	expect.NoError(t, err)
	return identity.Endpoint
}

// A cloud that is not the nodes' has no subport of theirs: it is not searched, and learns nothing of the nodes.
func TestAForgottenSubportIsNotSearchedElsewhere(t *testing.T) {
	var asked atomic.Int32
	count := neutrontest.Options{OnCall: func(c neutrontest.Call) {
		if strings.Contains(c.Path, "/ports") {
			asked.Add(1)
		}
	}}
	tenant, admin := cloudtest.Emulated(t, count, nil)
	elsewhere, _ := cloudtest.Emulated(t, count, nil)
	b := &binder{p: &process{cluster: "c", access: &cloudAccess{cloud: admin}}}
	for name, c := range map[string]struct {
		ref      managed.CloudRef
		in, as   *client.Cloud
		searched bool
	}{
		"the own cloud":                   {managed.CloudRef{}, admin, nil, true},
		"a project of the own cloud":      {inTeam, tenant, nil, true},
		"another cloud":                   {inTeam, elsewhere, nil, false},
		"another than of --binding-cloud": {inTeam, elsewhere, admin, false},
	} {
		asked.Store(0)
		in := inventory.Binder{Inventory: inventory.New(c.in, "c", inventory.Options{}), As: c.as}
		err := b.in(c.ref, in).Detach(t.Context(), testPort, "gone", testParent)
		if err != nil || (asked.Load() > 0) != c.searched {
			t.Errorf("%s: error %v, asked %d times, want it searched: %t", name, err, asked.Load(), c.searched)
		}
	}
}
