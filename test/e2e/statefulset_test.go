package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// statefulSetOn creates a StatefulSet whose Pods declare networks. All its Pods start at once.
func statefulSetOn(t *testing.T, namespace, name, declares string, replicas int32) {
	t.Helper()
	eventually(t, func() error {
		_, err := kube.AppsV1().StatefulSets(namespace).Create(t.Context(), harness.StatefulSetOn(
			name, declares, replicas, appsv1.ParallelPodManagement), metav1.CreateOptions{})
		return err
	})
}

func editStatefulSet(t *testing.T, namespace, name, patch string) {
	t.Helper()
	harness.Patch(t, kube.AppsV1().StatefulSets(namespace), name, patch)
}

func removeStatefulSet(t *testing.T, namespace, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	api := kube.AppsV1().StatefulSets(namespace)
	harness.Delete(t, api, name, metav1.DeleteOptions{PropagationPolicy: &policy})
	harness.AwaitGone(t, surroundings, api, name)
}

// whatPodsHave waits until as many Pods run, and gives what each has by its name: of each interface the port's id, the
// addresses and the MAC.
func whatPodsHave(t *testing.T, namespace string, want int) map[string][]string {
	t.Helper()
	has := map[string][]string{}
	for _, pod := range awaitPods(t, namespace, "", want) {
		for _, a := range allocationsOf(t, &pod) {
			has[pod.Name] = append(has[pod.Name], fmt.Sprintf("%s %s %s %s", a.Name, a.PortID, strings.Join(a.IPs, ","), a.MAC))
		}
	}
	return has
}

// lifeOfAStatefulSet has its Pods come back to their ports, through all that a StatefulSet goes
// through, and the ports go when no Pod will come back.
func lifeOfAStatefulSet(t *testing.T) {
	c := open(t, "tenant")
	namespace := newNamespace(t)
	network := unique(t, namespace)
	apply(t, namespace, network, example())
	id := awaitReady(t, namespace, network).Status.NetworkID
	awaitGate(t, namespace)

	statefulSetOn(t, namespace, "db", network+", "+network, 2)
	had := whatPodsHave(t, namespace, 2)
	if len(had["db-0"]) != 2 || len(had["db-1"]) != 2 || had["db-0"][0] == had["db-0"][1] {
		t.Fatalf("the Pods have %v, want two ports each", had)
	}
	same := func(after string) {
		t.Helper()
		expect.Equal(t, had, whatPodsHave(t, namespace, 2), "%s, the Pods have other ports", after)
		awaitPorts(t, c, namespace, id, 4)
	}
	restart := func(name string) {
		t.Helper()
		pods := kube.CoreV1().Pods(namespace)
		was := harness.Get(t, pods, name)
		harness.Delete(t, pods, name)
		harness.Await(t, surroundings, pods, name, func(is *corev1.Pod) error {
			if is.UID == was.UID {
				return fmt.Errorf("Pod %s is the one of before", name)
			}
			return nil
		})
	}
	restart("db-0")
	same("after a Pod came back")

	// It is created again over its Pods, as for a change of a field that cannot change.
	removeStatefulSet(t, namespace, "db", metav1.DeletePropagationOrphan)
	statefulSetOn(t, namespace, "db", network+", "+network, 2)
	restart("db-0")
	same("after the StatefulSet was created again over its Pods")

	editStatefulSet(t, namespace, "db", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"replicas":0}}`,
		cloudteamv1.AnnotationPortsWhenScaled, cloudteamv1.PortsRetain))
	awaitPods(t, namespace, "", 0)
	awaitPorts(t, c, namespace, id, 4)
	editStatefulSet(t, namespace, "db", `{"spec":{"replicas":2}}`)
	same("after it was scaled down, keeping its ports, and up")

	editStatefulSet(t, namespace, "db", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"replicas":1}}`,
		cloudteamv1.AnnotationPortsWhenScaled))
	awaitPods(t, namespace, "", 1)
	left := awaitPorts(t, c, namespace, id, 2)
	for _, port := range left {
		if !slices.ContainsFunc(had["db-0"], func(text string) bool { return strings.Contains(text, port.ID()) }) {
			t.Errorf("of the ports %v, %s is left", had, port.ID())
		}
	}

	removeStatefulSet(t, namespace, "db", metav1.DeletePropagationBackground)
	awaitPods(t, namespace, "", 0)
	awaitPorts(t, c, namespace, id, 0)

	// A Network does not wait for ports that nobody uses.
	statefulSetOn(t, namespace, "idle", network, 1)
	awaitPods(t, namespace, "", 1)
	editStatefulSet(t, namespace, "idle", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"replicas":0}}`,
		cloudteamv1.AnnotationPortsWhenScaled, cloudteamv1.PortsRetain))
	awaitPods(t, namespace, "", 0)
	awaitPorts(t, c, namespace, id, 1)
	remove(t, namespace, network)
}
