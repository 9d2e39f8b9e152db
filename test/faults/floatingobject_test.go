package faults

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestFloatingIPObjects lives the life of a FloatingIP, and of that of a Service, undisturbed, and then many in which
// the process dies.
func TestFloatingIPObjects(t *testing.T) {
	t.Parallel()
	testCrashes(t, floatingObjects(), floatingObjects().undisturbed(t))
}

// floatingObjects is the course of a FloatingIP that leads to one port after another, of a port that asks for one by its
// own spec, and of a Service's that leads to one Pod after another: others take the address away from the port, and
// delete the port, and all goes. The addresses stay. Beside them is a floating IP of others.
func floatingObjects() course {
	return course{
		heading: headingFloatingIPs, name: "a FloatingIP and a Service's: ",
		stride:   map[string]int{"Neutron": 3, "Kubernetes": 6},
		varies:   15,
		sparsely: 6,
		prepare: func(w *world) {
			w.arguments = append(w.arguments, "--controllers=floatingip,service,pod")
			w.around.AwaitGate(w.t, w.namespace)
		},
		live: func(w *world, _ reference) state {
			outside := w.addOutside()
			foreign := w.cloud.Create("floatingips", harness.Resource{"floating_network_id": outside, "description": "theirs"})
			w.createNetwork(w.namespace, "a", cidrA, gatewayA, func(spec *cloudteamv1.NetworkSpec) {
				spec.Router = &cloudteamv1.RouterSpec{ExternalNetwork: outside}
			})
			w.createFloating("f", outside, "p")
			w.createPort("p", "a", addressP, macP)
			address := w.awaitLeads("f", w.awaitPort("p").Status.PortID)
			keeps := func(after, name, port, was string) {
				w.t.Helper()
				expect.Equal(w.t, was, w.awaitLeads(name, port), "what FloatingIP %s has after %s", name, after)
			}
			w.createPort("q", "a", "10.1.0.11", "fa:16:3e:0a:01:0b")
			harness.Patch(w.t, w.floatingClient(), "f", `{"spec":{"portName":"q"}}`)
			keeps("it moved", "f", w.awaitPort("q").Status.PortID, address)
			w.patchPort("p", `{"spec":{"floatingIP":{"externalNetwork":"`+outside+`"}}}`)
			own := w.awaitOwn("p").Address
			w.cloud.Remove("ports", w.awaitPort("p").Status.PortID)
			expect.Equal(w.t, own, w.awaitOwn("p").Address, "the floating IP after somebody deleted the port")
			w.patchPort("p", `{"spec":{"floatingIP":null}}`)
			w.await(func() error {
				if left := w.cloud.List("floatingips", "floating_ip_address="+own); len(left) > 0 {
					return fmt.Errorf("what the port no longer asks for is left: %v", left)
				}
				return nil
			})
			w.cloud.Update("floatingips", harness.Get(w.t, w.floatingClient(), "f").Status.FloatingIPID, harness.Resource{"port_id": nil})
			keeps("somebody took it away", "f", w.awaitPort("q").Status.PortID, address)
			w.cloud.Remove("ports", w.awaitPort("q").Status.PortID)
			w.await(func() error { // the status shows the old port until the next audit
				if left := harness.Get(w.t, w.floatingClient(), "f").Status.PortID; len(w.cloud.List("ports", "id="+left)) == 0 {
					return fmt.Errorf("the status shows port %s, which is gone", left)
				}
				return nil
			})
			keeps("somebody deleted the port", "f", w.awaitPort("q").Status.PortID, address)
			harness.Patch(w.t, w.floatingClient(), "f", `{"spec":{"portName":null}}`)
			keeps("it leads nowhere", "f", "", address)

			w.createService("web", outside)
			w.createBackend("x")
			address = w.awaitLeads("web", w.awaitBackend("x"))
			w.createBackend("y")
			to := w.awaitBackend("y")
			w.kill("x")
			keeps("its Pod died", "web", to, address)
			harness.Patch(w.t, w.serviceClient(), "web", `{"metadata":{"annotations":{"`+cloudteamv1.AnnotationFloatingIP+`":null}}}`)
			w.awaitFloatingGone("web")
			w.kill("y")

			harness.Delete(w.t, w.floatingClient(), "f")
			w.awaitFloatingGone("f")
			w.deletePort("p")
			w.deletePort("q")
			w.awaitPortGone("p")
			w.awaitPortGone("q")
			w.removeNetwork("a")
			w.hold(state{})
			expect.Empty(w.t, w.ours()["floatingips"], "floating IPs are left")
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

// awaitOwn waits until a port is Ready with its own floating IP, the only one, and gives it as the status shows it.
func (w *world) awaitOwn(port string) cloudteamv1.PortFloatingIPStatus {
	w.t.Helper()
	return *harness.Await(w.t, w, w.portClient(), port, func(p *cloudteamv1.NetworkPort) error {
		if err := harness.Ready(p); err != nil {
			return err
		}
		is := w.cloud.List("floatingips", "description=[owner="+w.cluster+"/"+string(p.UID)+"]")
		if shown := p.Status.FloatingIP; shown == nil || len(is) != 1 || is[0].ID() != shown.ID ||
			is[0]["floating_ip_address"] != shown.Address || is[0]["port_id"] != p.Status.PortID {
			return fmt.Errorf("the status shows %+v, and there are %v, want one for port %s", shown, is, p.Status.PortID)
		}
		return nil
	}).Status.FloatingIP
}

func (w *world) createFloating(name, outside, port string) {
	w.t.Helper()
	f := &cloudteamv1.FloatingIP{ObjectMeta: w.meta(w.namespace, name)}
	f.Spec = cloudteamv1.FloatingIPSpec{ExternalNetwork: outside, PortName: port}
	harness.Create(w.t, w.floatingClient(), f)
}

// awaitLeads waits until a FloatingIP is Ready, and its only floating IP leads to a port, or nowhere for "". It gives
// the address.
func (w *world) awaitLeads(name, port string) (address string) {
	w.t.Helper()
	return harness.Await(w.t, w, w.floatingClient(), name, func(f *cloudteamv1.FloatingIP) error {
		if err := harness.Ready(f); err != nil {
			return err
		}
		marker := "[owner=" + w.cluster + "/" + string(f.UID) + "]"
		is := w.cloud.List("floatingips", "description="+marker)
		if len(is) != 1 {
			return fmt.Errorf("there are %v, want one", is)
		}
		leads, _ := is[0]["port_id"].(string)
		if is[0].ID() != f.Status.FloatingIPID || is[0]["floating_ip_address"] != f.Status.Address || leads != port ||
			f.Status.PortID != port {
			return fmt.Errorf("the status shows %+v, and the floating IP is %v, want it to lead to %q", f.Status, is[0], port)
		}
		return nil
	}).Status.Address
}

func (w *world) awaitFloatingGone(name string) {
	w.t.Helper()
	harness.AwaitGone(w.t, w, w.floatingClient(), name)
}

func (w *world) serviceClient() corev1client.ServiceInterface {
	return w.around.Kube.CoreV1().Services(w.namespace)
}

// createService creates a Service with a floating IP. It selects the Pods with app=web.
func (w *world) createService(name, outside string) {
	w.t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{cloudteamv1.AnnotationFloatingIP: outside},
	}}
	s.Spec = corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}},
	}
	harness.Create(w.t, w.serviceClient(), s)
}

// createBackend creates a Pod on Network a, with app=web.
func (w *world) createBackend(name string) {
	w.t.Helper()
	p := harness.PodOn(name, w.name("a"))
	p.Labels = map[string]string{"app": "web"}
	harness.Create(w.t, w.podClient(), p)
}

// awaitBackend waits until a Pod runs, and gives the id of its port.
func (w *world) awaitBackend(name string) (port string) {
	w.t.Helper()
	return harness.AllocationsOf(w.t, harness.Await(w.t, w, w.podClient(), name, runs))[0].PortID
}

// runs is nil where a Pod runs.
func runs(p *corev1.Pod) error {
	if p.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("Pod %s is %s: %+v", p.Name, p.Status.Phase, p.Status.Conditions)
	}
	return nil
}
