package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
	for _, p := range w.c.List("ports", "device_id="+routerID+"&device_owner=network:router_interface") {
		found[p["fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)] = p
	}
	return found
}

func (w *routed) wantInterfaces(routerID string, addresses ...string) {
	w.t.Helper()
	got := slices.Sorted(maps.Keys(w.interfaces(routerID)))
	expect.Equal(w.t, slices.Sorted(slices.Values(addresses)), got, "interfaces of router %s", routerID)
}

// lifeOfARouter has a Network's router become real, follow its spec, come back from drift and be deleted.
func lifeOfARouter(t *testing.T) {
	w, namespace := &routed{t, open(t, "tenant")}, newNamespace(t)
	name := unique(t, namespace)
	outside := open(t, "admin").CreateOutside(namespace + "-outside")
	created := apply(t, namespace, name, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.41.0.0/24"},
		Router: &cloudteamv1.RouterSpec{
			ExternalNetwork: outside["name"].(string),
			Routes:          []cloudteamv1.RouterRoute{{Destination: "198.18.0.0/16", NextHop: "10.41.0.9"}},
		},
	})
	ready := awaitReady(t, namespace, name)
	router := w.c.One("routers", "name="+name)
	wantFields(t, router, resource{
		"description": markerOf(t, created), "admin_state_up": true,
		"routes": []any{map[string]any{"destination": "198.18.0.0/16", "nexthop": "10.41.0.9"}},
	})
	gateway, _ := router["external_gateway_info"].(map[string]any)
	if gateway["network_id"] != outside.ID() {
		t.Fatalf("the router leads to %v, want %s", gateway, outside.ID())
	}
	address := gateway["external_fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)
	want := &cloudteamv1.RouterStatus{
		ID: router.ID(), ExternalNetworkID: outside.ID(), ExternalIPs: []string{address},
	}
	expect.Equal(t, want, ready.Status.Router, "status.router")
	w.wantInterfaces(router.ID(), "10.41.0.1")
	wantFields(t, w.interfaces(router.ID())["10.41.0.1"], resource{"name": name, "description": markerOf(t, created)})

	edit(t, namespace, name, `{"gateway":"10.41.0.254","router":{"externalNetwork":"`+outside.ID()+
		`","routes":[{"destination":"198.18.0.0/16","nextHop":"10.41.0.9"},{"destination":"198.19.0.0/16","nextHop":"10.41.0.8"}]}}`)
	awaitReady(t, namespace, name)
	w.wantInterfaces(router.ID(), "10.41.0.254")
	if routes := w.c.One("routers", "name="+name)["routes"].([]any); len(routes) != 2 {
		t.Errorf("routes: %v", routes)
	}

	// Somebody changes the router, takes its way outside and its interface.
	port := w.interfaces(router.ID())["10.41.0.254"].ID()
	eventually(t, func() error {
		err := w.c.Neutron.Update(t.Context(), "routers", router.ID(),
			resource{"name": "renamed", "routes": []any{}, "external_gateway_info": resource{}})
		if err == nil { // refused if the controller was faster, and has put the routes back
			_, err = w.c.Neutron.Act(t.Context(), "routers", router.ID(), "remove_router_interface", resource{"port_id": port})
		}
		return err
	})
	eventually(t, func() error {
		is := w.c.One("routers", "id="+router.ID())
		if _, leads := is["external_gateway_info"].(map[string]any); is["name"] != name || !leads ||
			len(is["routes"].([]any)) != 2 || len(w.interfaces(router.ID())) != 1 {
			return fmt.Errorf("the router is %v, with the interfaces %v", is, w.interfaces(router.ID()))
		}
		return nil
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "Attached port")
	awaitReady(t, namespace, name)

	edit(t, namespace, name, `{"router":{"externalNetwork":null,"routes":null}}`)
	awaitReady(t, namespace, name)
	wantFields(t, w.c.One("routers", "id="+router.ID()), resource{"external_gateway_info": nil, "routes": []any{}})

	edit(t, namespace, name, `{"router":null}`)
	if got := awaitReady(t, namespace, name).Status.Router; got != nil {
		t.Errorf("status.router is %v", got)
	}
	expect.Empty(t, w.c.List("routers", "name="+name), "routers are left")
	edit(t, namespace, name, `{"router":{}}`)
	awaitReady(t, namespace, name)
	w.wantInterfaces(w.c.One("routers", "name="+name).ID(), "10.41.0.254")
	remove(t, namespace, name)
	for _, collection := range []string{"routers", "networks", "ports"} {
		expect.Empty(t, w.c.List(collection, "name="+name), "%s are left", collection)
	}
}
