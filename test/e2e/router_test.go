package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestRouter takes Networks with routers through their lives.
func TestRouter(t *testing.T) {
	startController(t, "tenant")
	administrator := open(t, "admin")
	outside := administrator.create("networks", resource{"name": newNamespace(t) + "-outside", "router:external": true})
	administrator.create("subnets", resource{
		"network_id": outside.id(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
	})
	t.Run("group", func(t *testing.T) {
		for sentence, test := range map[string]func(t *testing.T, w *routed){
			"a Network has a router of its own, which follows its spec, comes back from drift and goes": testOwnRouter,
			"Networks share a router that is there, and leave it as it was":                             testExistingRouter,
			"while a router cannot be told by its name, the network is made, and keeps what it has":     testMissingRouter,
			"deletionPolicy Retain leaves the router and its interface, without their markers":          testRetainedRouter,
			"what uses a Network's router is named, and the Network goes when it is gone":               testRouterInUse,
		} {
			t.Run(sentence, func(t *testing.T) {
				t.Parallel()
				namespace := newNamespace(t)
				test(t, &routed{t, open(t, "tenant"), namespace, unique(t, namespace), outside})
			})
		}
	})
}

// routed is what a test of routers works with.
type routed struct {
	t               *testing.T
	c               *cloud
	namespace, name string
	outside         resource
}

func (w *routed) spec(cidr string, router *cloudteamv1.RouterSpec) cloudteamv1.NetworkSpec {
	return cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: cidr}, Router: router}
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

func testOwnRouter(t *testing.T, w *routed) {
	created := apply(t, w.namespace, w.name, w.spec("10.41.0.0/24", &cloudteamv1.RouterSpec{
		ExternalNetwork: w.outside["name"].(string),
		Routes:          []cloudteamv1.RouterRoute{{Destination: "198.18.0.0/16", NextHop: "10.41.0.9"}},
	}))
	ready := awaitReady(t, w.namespace, w.name)
	router := w.c.one("routers", "name="+w.name)
	wantFields(t, router, resource{
		"description": markerOf(t, created), "admin_state_up": true,
		"routes": []any{map[string]any{"destination": "198.18.0.0/16", "nexthop": "10.41.0.9"}},
	})
	gateway, _ := router["external_gateway_info"].(map[string]any)
	if gateway["network_id"] != w.outside.id() {
		t.Fatalf("the router leads to %v, want %s", gateway, w.outside.id())
	}
	address := gateway["external_fixed_ips"].([]any)[0].(map[string]any)["ip_address"].(string)
	want := &cloudteamv1.RouterStatus{
		ID: router.id(), ExternalNetworkID: w.outside.id(), ExternalIPs: []string{address},
	}
	if diff := cmp.Diff(want, ready.Status.Router); diff != "" {
		t.Errorf("status.router (-want +got):\n%s", diff)
	}
	w.wantInterfaces(router.id(), "10.41.0.1")
	wantFields(t, w.interfaces(router.id())["10.41.0.1"], resource{"name": w.name, "description": markerOf(t, created)})

	edit(t, w.namespace, w.name, `{"gateway":"10.41.0.254","router":{"externalNetwork":"`+w.outside.id()+
		`","routes":[{"destination":"198.18.0.0/16","nextHop":"10.41.0.9"},{"destination":"198.19.0.0/16","nextHop":"10.41.0.8"}]}}`)
	awaitReady(t, w.namespace, w.name)
	w.wantInterfaces(router.id(), "10.41.0.254")
	if routes := w.c.one("routers", "name="+w.name)["routes"].([]any); len(routes) != 2 {
		t.Errorf("routes: %v", routes)
	}

	// Somebody changes the router, takes its way outside and its interface.
	w.c.update("routers", router.id(), resource{"name": "renamed", "routes": []any{}, "external_gateway_info": resource{}})
	w.act(router.id(), "remove_router_interface", resource{"port_id": w.interfaces(router.id())["10.41.0.254"].id()})
	eventually(t, func() error {
		is := w.c.one("routers", "id="+router.id())
		if _, leads := is["external_gateway_info"].(map[string]any); is["name"] != w.name || !leads ||
			len(is["routes"].([]any)) != 2 || len(w.interfaces(router.id())) != 1 {
			return fmt.Errorf("the router is %v, with the interfaces %v", is, w.interfaces(router.id()))
		}
		return nil
	})
	awaitEvent(t, w.namespace, w.name, cloudteamv1.EventDriftCorrected, "Attached port")
	awaitReady(t, w.namespace, w.name)

	edit(t, w.namespace, w.name, `{"router":{"externalNetwork":null,"routes":null}}`)
	awaitReady(t, w.namespace, w.name)
	wantFields(t, w.c.one("routers", "id="+router.id()), resource{"external_gateway_info": nil, "routes": []any{}})

	edit(t, w.namespace, w.name, `{"router":null}`)
	if got := awaitReady(t, w.namespace, w.name).Status.Router; got != nil {
		t.Errorf("status.router is %v", got)
	}
	if left := w.c.list("routers", "name="+w.name); len(left) > 0 {
		t.Errorf("routers are left: %v", left)
	}
	edit(t, w.namespace, w.name, `{"router":{}}`)
	awaitReady(t, w.namespace, w.name)
	w.wantInterfaces(w.c.one("routers", "name="+w.name).id(), "10.41.0.254")
	remove(t, w.namespace, w.name)
	for _, collection := range []string{"routers", "networks", "ports"} {
		if left := w.c.list(collection, "name="+w.name); len(left) > 0 {
			t.Errorf("%s are left: %v", collection, left)
		}
	}
}

func testExistingRouter(t *testing.T, w *routed) {
	shared := w.c.create("routers", resource{"name": w.name + "-shared", "description": "somebody else's"})
	existing := &cloudteamv1.RouterSpec{Existing: w.name + "-shared"}
	other, clashing := w.name+"-other", w.name+"-clashing"
	apply(t, w.namespace, w.name, w.spec("10.42.0.0/24", existing))
	apply(t, w.namespace, other, w.spec("10.43.0.0/24", &cloudteamv1.RouterSpec{Existing: shared.id()}))
	want := &cloudteamv1.RouterStatus{ID: shared.id(), Existing: true}
	for _, name := range []string{w.name, other} {
		if diff := cmp.Diff(want, awaitReady(t, w.namespace, name).Status.Router); diff != "" {
			t.Errorf("status.router of %s (-want +got):\n%s", name, diff)
		}
	}
	w.wantInterfaces(shared.id(), "10.42.0.1", "10.43.0.1")

	apply(t, w.namespace, clashing, w.spec("10.42.0.0/16", existing))
	stalled := awaitCondition(t, w.namespace, clashing, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
		cloudteamv1.ReasonRejected)
	for _, named := range []string{clashing, "10.42.0.0/16", shared.id()} {
		wantMessage(t, stalled, named)
	}
	if message := stalled.Status.Conditions[0].Message; strings.Contains(message, "10.42.0.0/24") {
		t.Errorf("the message names another Network's subnet, which may be another namespace's: %s", message)
	}
	remove(t, w.namespace, clashing)

	edit(t, w.namespace, other, `{"router":{"existing":null}}`)
	own := awaitReady(t, w.namespace, other).Status.Router
	if own == nil || own.Existing || own.ID == shared.id() {
		t.Errorf("status.router is %v", own)
	}
	w.wantInterfaces(shared.id(), "10.42.0.1")
	remove(t, w.namespace, other)
	remove(t, w.namespace, w.name)
	is := w.c.one("routers", "id="+shared.id())
	for _, moving := range []string{"revision_number", "updated_at"} {
		delete(is, moving)
		delete(shared, moving)
	}
	if diff := cmp.Diff(shared, is); diff != "" {
		t.Errorf("the shared router (-was +is):\n%s", diff)
	}
	w.wantInterfaces(shared.id())
}

// testMissingRouter holds that a Network is made and kept while it is not known which router is meant, and that an
// interface which is there stays.
func testMissingRouter(t *testing.T, w *routed) {
	missing := w.name + "-missing"
	apply(t, w.namespace, w.name, w.spec("10.47.0.0/24", &cloudteamv1.RouterSpec{Existing: missing}))
	refused := func() *cloudteamv1.Network {
		t.Helper()
		obj := awaitCondition(t, w.namespace, w.name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
			cloudteamv1.ReasonRejected)
		wantMessage(t, obj, missing)
		return obj
	}
	network := refused().Status.NetworkID
	awaitEvent(t, w.namespace, w.name, cloudteamv1.ReasonRejected, missing)
	edit(t, w.namespace, w.name, `{"dnsServers":["10.47.0.53"]}`)
	refused()
	wantFields(t, w.c.one("subnets", "network_id="+network), resource{"dns_nameservers": []any{"10.47.0.53"}})

	existing := w.c.create("routers", resource{"name": missing})
	awaitReady(t, w.namespace, w.name)
	w.wantInterfaces(existing.id(), "10.47.0.1")

	edit(t, w.namespace, w.name, `{"router":{"existing":null,"externalNetwork":"`+missing+`"},"dnsServers":null}`)
	refused()
	w.wantInterfaces(existing.id(), "10.47.0.1")
	wantFields(t, w.c.one("subnets", "network_id="+network), resource{"dns_nameservers": []any{}})
	// A gateway that goes takes its interface along, whatever is to become of the router.
	edit(t, w.namespace, w.name, `{"gateway":"10.47.0.254"}`)
	refused()
	w.wantInterfaces(existing.id())
	wantFields(t, w.c.one("subnets", "network_id="+network), resource{"gateway_ip": "10.47.0.254"})

	edit(t, w.namespace, w.name, `{"router":{"externalNetwork":"`+w.outside.id()+`"}}`)
	own := awaitReady(t, w.namespace, w.name).Status.Router
	if own.Existing || own.ExternalNetworkID != w.outside.id() {
		t.Errorf("status.router is %+v", own)
	}
	w.wantInterfaces(own.ID, "10.47.0.254")
	remove(t, w.namespace, w.name)
}

func testRetainedRouter(t *testing.T, w *routed) {
	spec := w.spec("10.44.0.0/24", &cloudteamv1.RouterSpec{})
	spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	apply(t, w.namespace, w.name, spec)
	status := awaitReady(t, w.namespace, w.name).Status
	left := w.interfaces(status.Router.ID)
	remove(t, w.namespace, w.name)
	t.Cleanup(func() {
		ctx := contextOf(t)
		for _, p := range left {
			_, _ = w.c.client.Put(ctx, w.c.client.ServiceURL("routers", status.Router.ID, "remove_router_interface"),
				map[string]any{"port_id": p.id()}, nil, &gophercloud.RequestOpts{OkCodes: []int{200}})
		}
		_, _ = w.c.client.Delete(ctx, w.c.client.ServiceURL("routers", status.Router.ID), nil)
		_, _ = w.c.client.Delete(ctx, w.c.client.ServiceURL("networks", status.NetworkID), nil)
	})
	wantFields(t, w.c.one("routers", "name="+w.name), resource{"id": status.Router.ID, "description": "[released]"})
	w.wantInterfaces(status.Router.ID, "10.44.0.1")
	wantFields(t, w.interfaces(status.Router.ID)["10.44.0.1"], resource{"description": ""})
	wantFields(t, w.c.one("networks", "name="+w.name), resource{"description": ""})
}

func testRouterInUse(t *testing.T, w *routed) {
	apply(t, w.namespace, w.name, w.spec("10.45.0.0/24", &cloudteamv1.RouterSpec{}))
	router := awaitReady(t, w.namespace, w.name).Status.Router.ID
	guest := w.c.create("networks", resource{"name": w.name + "-guest"})
	subnet := w.c.create("subnets", resource{"network_id": guest.id(), "cidr": "10.46.0.0/24", "ip_version": 4})
	w.act(router, "add_router_interface", resource{"subnet_id": subnet.id()})
	port := w.interfaces(router)["10.46.0.1"].id()
	err := networks.CloudteamV1().Networks(w.namespace).Delete(t.Context(), w.name, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := awaitCondition(t, w.namespace, w.name, cloudteamv1.ConditionReady, metav1.ConditionFalse,
		cloudteamv1.ReasonInUse)
	wantMessage(t, waiting, port)
	w.act(router, "remove_router_interface", resource{"subnet_id": subnet.id()})
	awaitGone(t, w.namespace, w.name)
}
