package faults

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientv1 "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// What the workload declares.
const (
	cidrA, gatewayA, editedGatewayA = "10.1.0.0/24", "10.1.0.1", "10.1.0.254"
	cidrB, gatewayB                 = "10.2.0.0/24", "10.2.0.1"
	addressP, addressQ              = "10.1.0.10", "10.2.0.10"
	macP, macQ                      = "fa:16:3e:0a:01:0a", "fa:16:3e:0a:02:0a"
	declaredDescription             = "made by the fault suite"
)

// life is the work that every scenario does: Networks a and b with a NetworkPort each come, a is edited, the port of a
// is changed behind the controller's back, and b goes with its port. It waits for each step's end, so that two lives
// without a fault are the same to the call.
func (w *world) life() {
	w.t.Helper()
	w.createNetworks()
	w.restOfLife()
}

func (w *world) createNetworks() {
	w.t.Helper()
	w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	w.createNetwork(w.namespace, "b", cidrB, gatewayB)
	w.awaitNetwork(w.namespace, "a")
	w.awaitNetwork(w.namespace, "b")
}

// restOfLife is what comes after createNetworks.
func (w *world) restOfLife() {
	w.t.Helper()
	w.createPort("p", "a", addressP, macP)
	w.createPort("q", "b", addressQ, macQ)
	port := w.awaitPort("p").Status.PortID
	w.awaitPort("q")
	w.editA()
	w.awaitNetwork(w.namespace, "a")
	w.cloud.Update("ports", port, harness.Resource{"name": "renamed"})
	w.await(func() error {
		if name := w.cloud.One("ports", "id="+port)["name"]; name != "p" {
			return fmt.Errorf("the port's name is %s, want p", name)
		}
		return nil
	})
	w.removePort("q")
	w.removeNetwork("b")
}

// endOfLife removes what a life leaves.
func (w *world) endOfLife() {
	w.t.Helper()
	w.removePort("p")
	w.removeNetwork("a")
}

func (w *world) meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{worldLabel: w.namespace}}
}

// createNetwork creates a Network whose name ends with the short one, unless a scenario has done so before the life
// that it lives on with.
func (w *world) createNetwork(
	namespace, short, cidr, gateway string, options ...func(*cloudteamv1.NetworkSpec),
) *cloudteamv1.Network {
	w.t.Helper()
	spec := cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: cidr, Gateway: gateway}, Description: declaredDescription,
	}
	for _, option := range options {
		option(&spec)
	}
	created, err := w.api().Networks(namespace).Create(w.t.Context(), &cloudteamv1.Network{
		ObjectMeta: w.meta(namespace, w.name(short)), Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("creating Network %s: %v", short, err)
	}
	return created
}

func (w *world) createPort(name, network, address, mac string, options ...func(*cloudteamv1.NetworkPortSpec)) {
	w.t.Helper()
	spec := cloudteamv1.NetworkPortSpec{NetworkName: w.name(network), Addresses: []string{address}, MAC: mac}
	for _, option := range options {
		option(&spec)
	}
	_, err := w.portClient().Create(w.t.Context(),
		&cloudteamv1.NetworkPort{
			ObjectMeta: w.meta(w.namespace, name), Spec: spec,
		}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatalf("creating NetworkPort %s: %v", name, err)
	}
}

// editA edits Network a, once in a life.
func (w *world) editA() {
	w.t.Helper()
	w.patchNetwork("a", `{"spec":{"gateway":"`+editedGatewayA+`","description":"edited"}}`)
}

func (w *world) patchNetwork(short, patch string) {
	w.t.Helper()
	w.patchNetworkAs(types.MergePatchType, short, []byte(patch))
}

func (w *world) patchNetworkAs(kind types.PatchType, short string, patch []byte) {
	w.t.Helper()
	_, err := w.api().Networks(w.namespace).Patch(w.t.Context(), w.name(short),
		kind, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatalf("patching Network %s: %v", short, err)
	}
}

// The clients of the world's namespace.

func (w *world) api() clientv1.CloudteamV1Interface { return w.around.Networks.CloudteamV1() }

func (w *world) portClient() clientv1.NetworkPortInterface {
	return w.api().NetworkPorts(w.namespace)
}

func (w *world) groupClient() clientv1.SecurityGroupInterface {
	return w.api().SecurityGroups(w.namespace)
}

func (w *world) floatingClient() clientv1.FloatingIPInterface {
	return w.api().FloatingIPs(w.namespace)
}

func (w *world) podClient() corev1client.PodInterface {
	return w.around.Kube.CoreV1().Pods(w.namespace)
}

func (w *world) getPort(name string) (*cloudteamv1.NetworkPort, error) {
	return w.portClient().Get(w.t.Context(), name, metav1.GetOptions{})
}

func (w *world) awaitNetwork(namespace, short string) *cloudteamv1.Network {
	w.t.Helper()
	return harness.Await(w.t, w, w.api().Networks(namespace), w.name(short), harness.Ready)
}

func (w *world) awaitPort(name string) *cloudteamv1.NetworkPort {
	w.t.Helper()
	return harness.Await(w.t, w, w.portClient(), name, harness.Ready)
}

func (w *world) deleteNetwork(namespace, short string) {
	w.t.Helper()
	harness.Delete(w.t, w.api().Networks(namespace), w.name(short))
}

// removeNetwork deletes a Network of the world's namespace, and waits until it is gone.
func (w *world) removeNetwork(short string) {
	w.t.Helper()
	w.deleteNetwork(w.namespace, short)
	w.awaitNetworkGone(w.namespace, short)
}

func (w *world) patchPort(name, patch string) {
	w.t.Helper()
	harness.Patch(w.t, w.portClient(), name, patch)
}

func (w *world) deletePort(name string) { w.t.Helper(); harness.Delete(w.t, w.portClient(), name) }

// removePort deletes a NetworkPort, and waits until it is gone.
func (w *world) removePort(name string) {
	w.t.Helper()
	w.deletePort(name)
	w.awaitPortGone(name)
}

func (w *world) awaitNetworkGone(namespace, short string) {
	w.t.Helper()
	harness.AwaitGone(w.t, w, w.api().Networks(namespace), w.name(short))
}

func (w *world) awaitPortGone(name string) {
	w.t.Helper()
	harness.AwaitGone(w.t, w, w.portClient(), name)
}
