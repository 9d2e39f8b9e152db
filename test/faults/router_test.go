package faults

import (
	"fmt"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestRouters lives the life of a Network with a router undisturbed, and then many in which the process dies.
func TestRouters(t *testing.T) {
	t.Parallel()
	testCrashes(t, routers(), routers().undisturbed(t))
}

// routers is the course of a Network that has a router of its own, and a subnet whose CIDR is from a pool: it comes,
// its gateway and its routes change, its router is renamed behind the controller's back, it moves to a router that is
// there, and it goes.
func routers() course {
	return course{
		heading: headingRouters, name: "a Network with a router: ",
		stride:   map[string]int{"Kubernetes": 3},
		varies:   10,
		sparsely: 4,
		live: func(w *world, _ reference) state {
			shared := w.cloud.Create("routers", harness.Resource{"name": w.name("shared")})
			pool := w.cloud.Create("subnetpools", harness.Resource{
				"name": w.name("pool"), "prefixes": []string{"fd00:70::/48"}, "default_prefixlen": 64,
			})
			w.createNetwork(w.namespace, "a", cidrA, gatewayA, func(spec *cloudteamv1.NetworkSpec) {
				spec.Router = &cloudteamv1.RouterSpec{
					Routes: []cloudteamv1.RouterRoute{{Destination: "198.18.0.0/16", NextHop: addressP}},
				}
				spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{
					SubnetPool: pool.ID(), Gateway: cloudteamv1.GatewayNone,
				}}
			})
			own := w.awaitNetwork(w.namespace, "a").Status.Router.ID
			w.patchNetwork("a", `{"spec":{"gateway":"`+editedGatewayA+`"}}`)
			w.awaitNetwork(w.namespace, "a")
			w.cloud.Update("routers", own, harness.Resource{"name": "renamed"})
			w.await(func() error {
				if name := w.cloud.One("routers", "id="+own)["name"]; name != w.name("a") {
					return fmt.Errorf("the router's name is %s, want %s", name, w.name("a"))
				}
				return nil
			})
			w.awaitNetwork(w.namespace, "a")
			w.holdRouted()
			w.patchNetwork("a", `{"spec":{"router":{"existing":"`+shared.ID()+`","routes":null}}}`)
			w.await(func() error {
				status := w.awaitNetwork(w.namespace, "a").Status.Router
				if status == nil || status.ID != shared.ID() || !status.Existing {
					return fmt.Errorf("status.router is %+v, want the one that is there", status)
				}
				return nil
			})
			expect.Empty(w.t, w.ours()["routers"], "routers are left")
			w.removeNetwork("a")
			w.hold(state{})
			return state{}
		},
	}
}

// holdRouted holds that there is one router with one interface, that of the Network, and nothing else of ours but the
// Network's two subnets.
func (w *world) holdRouted() {
	w.t.Helper()
	w.await(func() error {
		ours := w.ours()
		for collection, count := range map[string]int{"networks": 1, "subnets": 2, "ports": 1, "routers": 1} {
			if len(ours[collection]) != count {
				return fmt.Errorf("there are %d %s, want %d: %v", len(ours[collection]), collection, count, ours[collection])
			}
		}
		if on := ours["ports"][0]["device_id"]; on != ours["routers"][0].ID() {
			return fmt.Errorf("the interface is on %v, want the Network's router", on)
		}
		return nil
	})
}
