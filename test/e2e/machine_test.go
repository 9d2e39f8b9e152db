package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// whatPodHas waits until a Pod runs, and gives its only port: its id, addresses, MAC and floating IP.
func whatPodHas(t *testing.T, namespace, pod string) (has string) {
	t.Helper()
	harness.Await(t, surroundings, kube.CoreV1().Pods(namespace), pod, func(is *corev1.Pod) error {
		allocations := allocationsOf(t, is)
		if is.Status.Phase != corev1.PodRunning || len(allocations) != 1 {
			return fmt.Errorf("Pod %s is %s with %v: %s", pod, is.Status.Phase, allocations, asJSON(is.Status.Conditions))
		}
		a := allocations[0]
		port := harness.Get(t, networks.CloudteamV1().NetworkPorts(namespace), a.Port)
		if port.Status.FloatingIP == nil {
			return fmt.Errorf("NetworkPort %s has no floating IP", a.Port)
		}
		has = fmt.Sprintf("%s %s %s %s", a.PortID, a.IPs, a.MAC, port.Status.FloatingIP.Address)
		return nil
	})
	return has
}

// removePod deletes a Pod at once.
func removePod(t *testing.T, namespace, name string) {
	t.Helper()
	harness.Delete(t, kube.CoreV1().Pods(namespace), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// awaitBoundTo waits until the only NetworkPort of a namespace is bound to a Pod.
func awaitBoundTo(t *testing.T, namespace string, pod *corev1.Pod) {
	t.Helper()
	eventually(t, func() error {
		list, err := networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.BoundTo == nil || list.Items[0].Status.BoundTo.UID != pod.UID {
			return fmt.Errorf("want one port, bound to Pod %s, have %s", pod.Name, asJSON(list.Items))
		}
		return nil
	})
}

// lifeOfAVirtualMachine takes one of KubeVirt through restarts and live migrations with one port, which goes with it.
func lifeOfAVirtualMachine(t *testing.T) {
	c, namespace := open(t, "tenant"), newNamespace(t)
	outside := open(t, "admin").CreateOutside(namespace + "-outside")
	network := unique(t, namespace)
	spec := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.72.0.0/24"}}
	spec.Router = &cloudteamv1.RouterSpec{ExternalNetwork: outside.ID()}
	apply(t, namespace, network, spec)
	id := awaitReady(t, namespace, network).Status.NetworkID
	awaitGate(t, namespace)

	vm := surroundings.NewMachine(t, namespace, "vm", network,
		map[string]string{cloudteamv1.AnnotationFloatingIP: outside.ID()})
	pod := vm.Start()
	had := whatPodHas(t, namespace, pod.Name)
	same := func(after string) {
		t.Helper()
		expect.Equal(t, had, whatPodHas(t, namespace, pod.Name), "%s, what it has", after)
		awaitBoundTo(t, namespace, pod)
		awaitPorts(t, c, namespace, id, 1)
	}
	stop := func() {
		t.Helper()
		vm.Stop()
		awaitPods(t, namespace, "", 0)
	}
	stop()
	pod = vm.Start()
	same("after a restart")

	// A migration is cancelled.
	target := vm.Launch()
	expect.Equal(t, had, whatPodHas(t, namespace, target.Name), "what the target of a migration has")
	same("in a migration")
	removePod(t, namespace, target.Name)
	awaitPods(t, namespace, "", 1)
	same("after a cancelled migration")

	// The next one succeeds.
	source := pod
	pod = vm.Launch()
	whatPodHas(t, namespace, pod.Name)
	awaitBoundTo(t, namespace, source)
	surroundings.EndPod(t, namespace, source.Name)
	same("after a migration")
	removePod(t, namespace, source.Name)
	awaitPods(t, namespace, "", 1)
	same("after the source of a migration went")

	// It stays with a stopped machine, and goes with the machine.
	stop()
	awaitPorts(t, c, namespace, id, 1)
	vm.Delete()
	awaitPorts(t, c, namespace, id, 0)
	eventually(t, func() error {
		if left := c.List("floatingips", "floating_network_id="+outside.ID()); len(left) > 0 {
			return fmt.Errorf("floating IPs are left: %v", left)
		}
		return nil
	})

	remove(t, namespace, network)
}
