package faults

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestFloatingIPs lives the life of a port with a floating IP undisturbed, and then many in which the process dies.
func TestFloatingIPs(t *testing.T) {
	t.Parallel()
	testCrashes(t, floatingIPs(), floatingIPs().undisturbed(t))
}

// floatingIPs is the course of a port with a floating IP: both come, somebody takes the floating IP away, and then the
// port, the floating IP is asked for no longer, and asked for again, and all goes. Beside it is one of others, with
// another cluster's marker.
func floatingIPs() course {
	return course{
		heading: headingFloatingIPs, name: "a port with a floating IP: ",
		stride:   map[string]int{"Kubernetes": 3},
		varies:   10,
		sparsely: 4,
		live: func(w *world, _ reference) state {
			outside := w.addOutside()
			foreign := w.cloud.Create("floatingips", harness.Resource{
				"floating_network_id": outside, "description": "[owner=11111111-2222-3333-4444-555555555555/" + w.cluster + "]",
			})
			w.createNetwork(w.namespace, "a", cidrA, gatewayA, func(spec *cloudteamv1.NetworkSpec) {
				spec.Router = &cloudteamv1.RouterSpec{ExternalNetwork: outside}
			})
			w.createPort("p", "a", addressP, macP, func(spec *cloudteamv1.NetworkPortSpec) {
				spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: outside}
			})
			address := w.awaitFloatingIP("p").Address
			keeps := func(after string) cloudteamv1.PortFloatingIPStatus {
				w.t.Helper()
				is := w.awaitFloatingIP("p")
				if is.Address != address {
					w.t.Errorf("after %s, the floating IP is %s, was %s", after, is.Address, address)
				}
				return is
			}
			w.cloud.Update("floatingips", keeps("no change").ID, harness.Resource{"port_id": nil})
			keeps("somebody took it away")
			w.cloud.Remove("ports", w.awaitPort("p").Status.PortID)
			keeps("somebody deleted the port")

			w.patchPort("p", `{"spec":{"floatingIP":null}}`)
			w.await(func() error {
				if left := w.ours()["floatingips"]; len(left) > 0 {
					return fmt.Errorf("floating IPs are left: %v", left)
				}
				return nil
			})
			w.awaitPort("p")
			w.patchPort("p", `{"spec":{"floatingIP":{"externalNetwork":"`+outside+`"}}}`)
			w.awaitFloatingIP("p")
			w.deletePort("p")
			w.deleteNetwork(w.namespace, "a")
			w.awaitPortGone("p")
			w.awaitNetworkGone(w.namespace, "a")
			w.hold(state{})
			if diff := cmp.Diff(foreign, w.cloud.One("floatingips", "id="+foreign.ID())); diff != "" {
				w.t.Errorf("a foreign floating IP was touched (-was +is):\n%s", diff)
			}
			return state{}
		},
	}
}

// addOutside makes an external network for the world, and gives its id.
func (w *world) addOutside() string {
	w.t.Helper()
	return harness.Open(w.t, w.around.CloudsFile, "admin").CreateOutside(w.name("outside")).ID()
}

// awaitFloatingIP waits until a port is Ready, and the only floating IP of ours leads to it, and gives it as the status
// shows it.
func (w *world) awaitFloatingIP(port string) cloudteamv1.PortFloatingIPStatus {
	w.t.Helper()
	return *harness.Await(w.t, w, w.portClient(), port, func(object *cloudteamv1.NetworkPort) error {
		if err := harness.Ready(object); err != nil {
			return err
		}
		is := w.ours()["floatingips"]
		shown := object.Status.FloatingIP
		if shown == nil || len(is) != 1 {
			return fmt.Errorf("the status shows %v, and there are %v, want one", shown, is)
		}
		if is[0].ID() != shown.ID || is[0]["floating_ip_address"] != shown.Address ||
			is[0]["port_id"] != object.Status.PortID || is[0]["fixed_ip_address"] != addressP {
			return fmt.Errorf("the status shows %+v, and the floating IP is %v", shown, is[0])
		}
		return nil
	}).Status.FloatingIP
}
