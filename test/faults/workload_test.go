package faults

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
	w.deletePort("q")
	w.awaitPortGone("q")
	w.deleteNetwork(w.namespace, "b")
	w.awaitNetworkGone(w.namespace, "b")
}

// endOfLife removes what a life leaves.
func (w *world) endOfLife() {
	w.t.Helper()
	w.deletePort("p")
	w.awaitPortGone("p")
	w.deleteNetwork(w.namespace, "a")
	w.awaitNetworkGone(w.namespace, "a")
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
	created, err := w.around.Networks.CloudteamV1().Networks(namespace).Create(w.t.Context(), &cloudteamv1.Network{
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
	_, err := w.around.Networks.CloudteamV1().NetworkPorts(w.namespace).Create(w.t.Context(),
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
	_, err := w.around.Networks.CloudteamV1().Networks(w.namespace).Patch(w.t.Context(), w.name(short),
		kind, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatalf("patching Network %s: %v", short, err)
	}
}

func (w *world) getNetwork(namespace, short string) (*cloudteamv1.Network, error) {
	return w.around.Networks.CloudteamV1().Networks(namespace).Get(w.t.Context(), w.name(short), metav1.GetOptions{})
}

func (w *world) getPort(name string) (*cloudteamv1.NetworkPort, error) {
	return w.around.Networks.CloudteamV1().NetworkPorts(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
}

// notReady is nil where conditions say Ready of a generation.
func notReady(what string, generation int64, status cloudteamv1.ResourceStatus) error {
	ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != generation {
		return fmt.Errorf("%s of generation %d is not Ready: %+v", what, generation, status.Conditions)
	}
	return nil
}

func (w *world) awaitNetwork(namespace, short string) (object *cloudteamv1.Network) {
	w.t.Helper()
	w.await(func() (err error) {
		if object, err = w.getNetwork(namespace, short); err == nil {
			err = notReady("Network "+short, object.Generation, object.Status.ResourceStatus)
		}
		return err
	})
	return object
}

func (w *world) awaitPort(name string) (object *cloudteamv1.NetworkPort) {
	w.t.Helper()
	w.await(func() (err error) {
		if object, err = w.getPort(name); err == nil {
			err = notReady("NetworkPort "+name, object.Generation, object.Status.ResourceStatus)
		}
		return err
	})
	return object
}

func (w *world) deleteNetwork(namespace, short string) {
	w.t.Helper()
	err := w.around.Networks.CloudteamV1().Networks(namespace).Delete(w.t.Context(), w.name(short),
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatalf("deleting Network %s: %v", short, err)
	}
}

func (w *world) patchPort(name, patch string) {
	w.t.Helper()
	_, err := w.around.Networks.CloudteamV1().NetworkPorts(w.namespace).Patch(w.t.Context(), name,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatalf("patching NetworkPort %s: %v", name, err)
	}
}

func (w *world) deletePort(name string) {
	w.t.Helper()
	err := w.around.Networks.CloudteamV1().NetworkPorts(w.namespace).Delete(w.t.Context(), name,
		metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatalf("deleting NetworkPort %s: %v", name, err)
	}
}

func (w *world) awaitNetworkGone(namespace, short string) {
	w.t.Helper()
	w.await(func() error {
		object, err := w.getNetwork(namespace, short)
		return gone("Network "+short, object.Status.ResourceStatus, err)
	})
}

func (w *world) awaitPortGone(name string) {
	w.t.Helper()
	w.await(func() error {
		object, err := w.getPort(name)
		return gone("NetworkPort "+name, object.Status.ResourceStatus, err)
	})
}

// gone is nil where reading an object gave that it is not there.
func gone(what string, status cloudteamv1.ResourceStatus, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is still there: %+v", what, status.Conditions)
}
