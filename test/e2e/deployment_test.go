package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// awaitGate is harness.Surroundings.AwaitGate.
func awaitGate(t *testing.T, namespace string) { t.Helper(); surroundings.AwaitGate(t, namespace) }

// deploymentOn creates a Deployment whose Pods declare networks.
func deploymentOn(t *testing.T, namespace, name, declares string, replicas int32) {
	t.Helper()
	harness.Create(t, kube.AppsV1().Deployments(namespace), harness.DeploymentOn(name, declares, replicas))
}

// editDeployment merges a patch into a Deployment.
func editDeployment(t *testing.T, namespace, name, patch string) {
	t.Helper()
	harness.Patch(t, kube.AppsV1().Deployments(namespace), name, patch)
}

// removeDeployment deletes a Deployment as kubectl does, and waits until its Pods are gone.
func removeDeployment(t *testing.T, namespace, name string) {
	t.Helper()
	harness.Delete(t, kube.AppsV1().Deployments(namespace), name,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	awaitPods(t, namespace, "app="+name, 0)
}

// awaitDeploymentSays waits until a Deployment's condition about its networks is False with a reason, and a message that
// contains the text.
func awaitDeploymentSays(t *testing.T, namespace, name, reason, text string) {
	t.Helper()
	harness.Await(t, surroundings, kube.AppsV1().Deployments(namespace), name, func(d *appsv1.Deployment) error {
		return harness.SaysOfNetworks(d, corev1.ConditionFalse, reason, text)
	})
}

// awaitPodSays is awaitDeploymentSays for a Pod, and any status.
func awaitPodSays(t *testing.T, namespace, name string, status corev1.ConditionStatus, reason, text string) {
	t.Helper()
	harness.Await(t, surroundings, kube.CoreV1().Pods(namespace), name, func(p *corev1.Pod) error {
		return harness.SaysOfNetworks(p, status, reason, text)
	})
}

// awaitPorts waits until there are as many NetworkPorts as wanted in a namespace, and ports in Neutron beside those
// of a router.
func awaitPorts(t *testing.T, c *cloud, namespace, networkID string, want int) []resource {
	t.Helper()
	var found []resource
	eventually(t, func() error {
		list, err := networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(c.List("ports", "network_id="+networkID), func(r resource) bool {
			return strings.HasPrefix(fmt.Sprint(r["device_owner"]), "network:router")
		})
		if len(list.Items) != want || len(found) != want {
			var names, others []string
			known := map[string]bool{}
			for _, port := range list.Items {
				names = append(names, fmt.Sprintf("%s %s", port.Name, asJSON(port.Status)))
				known[port.Status.PortID] = true
			}
			for _, port := range found {
				if !known[port.ID()] {
					others = append(others, fmt.Sprintf("%s %s (%s)", port["name"], port.ID(), port["description"]))
				}
			}
			return fmt.Errorf("%d NetworkPorts and %d ports in Neutron, want %d; of no NetworkPort are %q; NetworkPorts: %s",
				len(list.Items), len(found), want, others, strings.Join(names, "; "))
		}
		return nil
	})
	return found
}

// allocationsOf is harness.AllocationsOf.
func allocationsOf(t *testing.T, pod *corev1.Pod) []cloudteamv1.Allocation {
	t.Helper()
	return harness.AllocationsOf(t, pod)
}

// wantAllocations holds that each Pod has an address of its own inside the range, which is that of a port in Neutron.
func wantAllocations(t *testing.T, pods []corev1.Pod, ports []resource, cidr string) {
	t.Helper()
	within := netip.MustParsePrefix(cidr)
	byID := map[string]resource{}
	for _, port := range ports {
		byID[port.ID()] = port
	}
	seen := map[string]string{}
	for _, pod := range pods {
		allocations := allocationsOf(t, &pod)
		if len(allocations) == 0 {
			t.Errorf("Pod %s has no allocations: %s", pod.Name, asJSON(pod.Annotations))
		}
		for _, a := range allocations {
			port, ours := byID[a.PortID]
			if !ours || len(a.IPs) != 1 || a.MAC != port["mac_address"] || len(a.Gateway) != 1 || a.MTU == 0 {
				t.Errorf("Pod %s has %s, its port in Neutron is %s", pod.Name, asJSON(a), asJSON(port))
				continue
			}
			address := netip.MustParsePrefix(a.IPs[0])
			fixed := port["fixed_ips"].([]any)[0].(map[string]any)
			if address.Bits() != within.Bits() || !within.Contains(address.Addr()) ||
				fixed["ip_address"] != address.Addr().String() {
				t.Errorf("Pod %s has %s, the port in Neutron %v", pod.Name, address, fixed)
			}
			expect.Equal(t, "", seen[address.String()], "a Pod that has %s, beside Pod %s", address, pod.Name)
			seen[address.String()] = pod.Name
			selections, err := selection.Parse(pod.Annotations[selection.Annotation], pod.Namespace)
			if err != nil || !slices.ContainsFunc(selections, func(s selection.Selection) bool {
				return s.MAC == a.MAC && slices.Equal(s.Addresses, []netip.Prefix{address})
			}) {
				t.Errorf("Pod %s declares %q, was given %s (%v)",
					pod.Name, pod.Annotations[selection.Annotation], asJSON(a), err)
			}
		}
	}
}

// holdApart is harness.Surroundings.HoldApart.
func holdApart(t *testing.T, namespace string) { t.Helper(); surroundings.HoldApart(t, namespace) }

// lifeOfDeployments takes Deployments and Pods that declare networks through their lives, on a control plane that makes
// and schedules Pods.
func lifeOfDeployments(t *testing.T) {
	awaitGate(t, newNamespace(t))
	parallel := func(sentence string, test func(t *testing.T, c *cloud, namespace, network, networkID string)) {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			network := unique(t, namespace)
			apply(t, namespace, network, example())
			networkID := awaitReady(t, namespace, network).Status.NetworkID
			holdApart(t, namespace)
			c := open(t, "tenant")
			test(t, c, namespace, network, networkID)
			awaitPorts(t, c, namespace, networkID, 0)
			remove(t, namespace, network)
		})
	}

	parallel("a Deployment of 5 has 5 ports; scaled to 2 it has 2; deleted it has none", func(
		t *testing.T, c *cloud, namespace, network, networkID string,
	) {
		deploymentOn(t, namespace, "web", network, 5)
		pods := awaitPods(t, namespace, "app=web", 5)
		wantAllocations(t, pods, awaitPorts(t, c, namespace, networkID, 5), "192.168.0.0/16")
		scale(t, namespace, "web", 2)
		pods = awaitPods(t, namespace, "app=web", 2)
		wantAllocations(t, pods, awaitPorts(t, c, namespace, networkID, 2), "192.168.0.0/16")
		removeDeployment(t, namespace, "web")
	})

	parallel("a bare Pod on two networks has a port on each, which go with it", func(
		t *testing.T, c *cloud, namespace, network, networkID string,
	) {
		second := network + "-2"
		apply(t, namespace, second, cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.7.0.0/24"}})
		applied := func(labels string) *corev1.Pod {
			pod, err := kube.CoreV1().Pods(namespace).Patch(t.Context(), "bare", types.ApplyPatchType, fmt.Appendf(nil,
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"bare","labels":%s,"annotations":{%q:"%s,%s@net2"}},`+
					`"spec":{"containers":[{"name":"web","image":"web"}]}}`, labels, selection.Annotation, network, second),
				metav1.PatchOptions{FieldManager: "user"})
			expect.NoError(t, err)
			return pod
		}
		pod := applied("{}")
		expect.Len(t, 1, pod.Spec.SchedulingGates, "gates")
		running := awaitPods(t, namespace, "", 1)[0]
		allocations := allocationsOf(t, &running)
		if len(allocations) != 2 || allocations[0].Name != namespace+"/"+network ||
			!strings.HasPrefix(allocations[1].IPs[0], "10.7.0.") || allocations[1].Interface != "net2" {
			t.Errorf("allocations %s", asJSON(allocations))
		}
		again := applied(`{"again":"yes"}`)
		expect.Equal(t, running.Annotations, again.Annotations, "annotations after it was applied again")
		expect.Equal(t, map[string]string{"again": "yes"}, again.Labels, "labels")
		harness.Delete(t, kube.CoreV1().Pods(namespace), "bare")
		awaitPods(t, namespace, "", 0)
		awaitPorts(t, c, namespace, networkID, 0)
		remove(t, namespace, second)
	})

	parallel("a Pod with ports of its own does not wait for them when it is deleted in the foreground", func(
		t *testing.T, c *cloud, namespace, network, networkID string,
	) {
		harness.Create(t, kube.CoreV1().Pods(namespace), harness.PodOn("bare", network))
		awaitPods(t, namespace, "", 1)
		harness.Delete(t, kube.CoreV1().Pods(namespace), "bare",
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
		awaitPods(t, namespace, "", 0)
		awaitPorts(t, c, namespace, networkID, 0)
	})

	parallel("a Deployment uses a Network of another namespace that allows it", func(
		t *testing.T, c *cloud, namespace, network, networkID string,
	) {
		other := newNamespace(t)
		deploymentOn(t, other, "web", namespace+"/"+network, 2)
		awaitDeploymentSays(t, other, "web", cloudteamv1.ReasonNamespaceNotAllowed, "allowedNamespaces")
		edit(t, namespace, network, `{"allowedNamespaces":["*"]}`)
		wantAllocations(t, awaitPods(t, other, "app=web", 2), awaitPorts(t, c, other, networkID, 2), "192.168.0.0/16")
		removeDeployment(t, other, "web")
		awaitPorts(t, c, other, networkID, 0)
	})

	parallel("a surge of all replicas at once never shares an address", func(
		t *testing.T, c *cloud, namespace, network, networkID string,
	) {
		deploymentOn(t, namespace, "web", network, 5)
		editDeployment(t, namespace, "web", `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"100%","maxUnavailable":0}}}}`)
		awaitPods(t, namespace, "app=web", 5)
		editDeployment(t, namespace, "web", `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
		harness.Await(t, surroundings, kube.AppsV1().Deployments(namespace), "web", func(d *appsv1.Deployment) error {
			if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != 5 || s.Replicas != 5 ||
				s.AvailableReplicas != 5 {
				return fmt.Errorf("status %s", asJSON(s))
			}
			return nil
		})
		wantAllocations(t, awaitPods(t, namespace, "app=web", 5), awaitPorts(t, c, namespace, networkID, 5),
			"192.168.0.0/16")
		removeDeployment(t, namespace, "web")
	})
}

// scale scales a Deployment as kubectl scale does.
func scale(t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	harness.Scale(t, kube.AppsV1().Deployments(namespace), name, replicas)
}

// awaitPods is harness.AwaitPods.
func awaitPods(t *testing.T, namespace, selector string, want int) []corev1.Pod {
	t.Helper()
	return harness.AwaitPods(t, surroundings, kube, namespace, selector, want)
}
