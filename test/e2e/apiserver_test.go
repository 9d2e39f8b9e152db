package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// newNamespace makes a namespace for one test, in which Pods can be created. It stays until the control plane stops.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := harness.Create(t, kube.CoreV1().Namespaces(), harness.Namespace("e2e-"))
	if virtualTime {
		return namespace.Name
	}
	// A Pod is refused until its service account has been made.
	eventually(t, func() error {
		_, err := kube.CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// apply creates a Network.
func apply(t *testing.T, namespace, name string, spec cloudteamv1.NetworkSpec) *cloudteamv1.Network {
	t.Helper()
	return harness.Create(t, networks.CloudteamV1().Networks(namespace),
		&cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec})
}

// edit merges a patch into a Network's spec.
func edit(t *testing.T, namespace, name, spec string) {
	t.Helper()
	harness.Patch(t, networks.CloudteamV1().Networks(namespace), name, `{"spec":`+spec+`}`)
}

// annotate sets an annotation of a Network's to a value in JSON, or takes it off where that is null.
func annotate(t *testing.T, namespace, name, annotation, value string) {
	t.Helper()
	harness.Patch(t, networks.CloudteamV1().Networks(namespace), name,
		fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, value))
}

func get(t *testing.T, namespace, name string) *cloudteamv1.Network {
	t.Helper()
	return harness.Get(t, networks.CloudteamV1().Networks(namespace), name)
}

// awaitReady waits until a Network is Ready at its present generation.
func awaitReady(t *testing.T, namespace, name string) *cloudteamv1.Network {
	t.Helper()
	return harness.Await(t, surroundings, networks.CloudteamV1().Networks(namespace), name, harness.Ready)
}

// awaitSays waits until a condition of a Network has a reason, and a message that contains the text.
func awaitSays(t *testing.T, namespace, name, condition, reason, text string) *cloudteamv1.Network {
	t.Helper()
	return harness.Await(t, surroundings, networks.CloudteamV1().Networks(namespace), name,
		func(n *cloudteamv1.Network) error { return harness.Says(n, condition, reason, text) })
}

// awaitReason waits until Ready has a reason and a message that contains a text.
func awaitReason(t *testing.T, namespace, name, reason, text string) {
	t.Helper()
	awaitSays(t, namespace, name, cloudteamv1.ConditionReady, reason, text)
}

// remove deletes a Network and waits until it is gone.
func remove(t *testing.T, namespace, name string) {
	t.Helper()
	api := networks.CloudteamV1().Networks(namespace)
	harness.Delete(t, api, name)
	harness.AwaitGone(t, surroundings, api, name)
}

// awaitEvent is harness.AwaitEvent.
func awaitEvent(t *testing.T, namespace, name, reason, text string) {
	t.Helper()
	harness.AwaitEvent(t, surroundings, kube, namespace, name, reason, text)
}

// eventually is harness.Surroundings.Eventually.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	surroundings.Eventually(t, check)
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
