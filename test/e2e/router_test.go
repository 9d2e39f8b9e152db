package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// routed is what a test of routers works with.
type routed struct {
	t *testing.T
	c *cloud
}

// interfaces are the ports by which a router serves subnets, by address.
func (w *routed) interfaces(routerID string) map[string]resource {
	w.t.Helper()
	found := map[string]resource{}
	for _, p := range w.c.list("ports", "device_id="+routerID+"&device_owner=network:router_interface") {
		found[p["fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)] = p
	}
	return found
}

func (w *routed) wantInterfaces(routerID string, addresses ...string) {
	w.t.Helper()
	got := slices.Sorted(maps.Keys(w.interfaces(routerID)))
	if diff := cmp.Diff(slices.Sorted(slices.Values(addresses)), got); diff != "" {
		w.t.Errorf("interfaces of router %s (-want +got):\n%s", routerID, diff)
	}
}

// act has Neutron take an action on a router, behind the controller's back.
func (w *routed) act(routerID, action string, body resource) {
	w.t.Helper()
	_, err := w.c.client.Put(w.t.Context(), w.c.client.ServiceURL("routers", routerID, action), map[string]any(body), nil,
		&gophercloud.RequestOpts{OkCodes: []int{200}})
	if err != nil {
		w.t.Fatalf("%s: %v", action, err)
	}
}

// TestRouter has a Network's router become real, follow its spec, come back from drift and be deleted.
func TestRouter(t *testing.T) {
	withProcesses(t)
	startController(t, "tenant")
	w, administrator, namespace := &routed{t, open(t, "tenant")}, open(t, "admin"), newNamespace(t)
	name := unique(t, namespace)
	outside := administrator.create("networks", resource{"name": namespace + "-outside", "router:external": true})
	administrator.create("subnets", resource{
		"network_id": outside.id(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
	})
	created := apply(t, namespace, name, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.41.0.0/24"},
		Router: &cloudteamv1.RouterSpec{
			ExternalNetwork: outside["name"].(string),
			Routes:          []cloudteamv1.RouterRoute{{Destination: "198.18.0.0/16", NextHop: "10.41.0.9"}},
		},
	})
	ready := awaitReady(t, namespace, name)
	router := w.c.one("routers", "name="+name)
	wantFields(t, router, resource{
		"description": markerOf(t, created), "admin_state_up": true,
		"routes": []any{map[string]any{"destination": "198.18.0.0/16", "nexthop": "10.41.0.9"}},
	})
	gateway, _ := router["external_gateway_info"].(map[string]any)
	if gateway["network_id"] != outside.id() {
		t.Fatalf("the router leads to %v, want %s", gateway, outside.id())
	}
	address := gateway["external_fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)
	want := &cloudteamv1.RouterStatus{
		ID: router.id(), ExternalNetworkID: outside.id(), ExternalIPs: []string{address},
	}
	if diff := cmp.Diff(want, ready.Status.Router); diff != "" {
		t.Errorf("status.router (-want +got):\n%s", diff)
	}
	w.wantInterfaces(router.id(), "10.41.0.1")
	wantFields(t, w.interfaces(router.id())["10.41.0.1"], resource{"name": name, "description": markerOf(t, created)})

	edit(t, namespace, name, `{"gateway":"10.41.0.254","router":{"externalNetwork":"`+outside.id()+
		`","routes":[{"destination":"198.18.0.0/16","nextHop":"10.41.0.9"},{"destination":"198.19.0.0/16","nextHop":"10.41.0.8"}]}}`)
	awaitReady(t, namespace, name)
	w.wantInterfaces(router.id(), "10.41.0.254")
	if routes := w.c.one("routers", "name="+name)["routes"].([]any); len(routes) != 2 {
		t.Errorf("routes: %v", routes)
	}

	// Somebody changes the router, takes its way outside and its interface.
	w.c.update("routers", router.id(), resource{"name": "renamed", "routes": []any{}, "external_gateway_info": resource{}})
	w.act(router.id(), "remove_router_interface", resource{"port_id": w.interfaces(router.id())["10.41.0.254"].id()})
	eventually(t, func() error {
		is := w.c.one("routers", "id="+router.id())
		if _, leads := is["external_gateway_info"].(map[string]any); is["name"] != name || !leads ||
			len(is["routes"].([]any)) != 2 || len(w.interfaces(router.id())) != 1 {
			return fmt.Errorf("the router is %v, with the interfaces %v", is, w.interfaces(router.id()))
		}
		return nil
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "Attached port")
	awaitReady(t, namespace, name)

	edit(t, namespace, name, `{"router":{"externalNetwork":null,"routes":null}}`)
	awaitReady(t, namespace, name)
	wantFields(t, w.c.one("routers", "id="+router.id()), resource{"external_gateway_info": nil, "routes": []any{}})

	edit(t, namespace, name, `{"router":null}`)
	if got := awaitReady(t, namespace, name).Status.Router; got != nil {
		t.Errorf("status.router is %v", got)
	}
	if left := w.c.list("routers", "name="+name); len(left) > 0 {
		t.Errorf("routers are left: %v", left)
	}
	edit(t, namespace, name, `{"router":{}}`)
	awaitReady(t, namespace, name)
	w.wantInterfaces(w.c.one("routers", "name="+name).id(), "10.41.0.254")
	remove(t, namespace, name)
	for _, collection := range []string{"routers", "networks", "ports"} {
		if left := w.c.list(collection, "name="+name); len(left) > 0 {
			t.Errorf("%s are left: %v", collection, left)
		}
	}
}
