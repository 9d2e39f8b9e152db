package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// eventuallyInGroups waits until each port on a network whose name is wanted has exactly the groups of SecurityGroups.
func (c *cloud) eventuallyInGroups(networkID string, ports []string, groups ...*cloudteamv1.SecurityGroup) {
	c.t.Helper()
	var want []string
	for _, g := range groups {
		want = append(want, g.Status.SecurityGroupID)
	}
	slices.Sort(want)
	eventually(c.t, func() error {
		found := 0
		for _, port := range c.list("ports", "network_id="+networkID) {
			if !slices.Contains(ports, port["name"].(string)) {
				continue
			}
			var in []string
			for _, id := range port["security_groups"].([]any) {
				in = append(in, id.(string))
			}
			slices.Sort(in)
			if !slices.Equal(in, want) {
				return fmt.Errorf("port %s has the groups %q, want %q", port["name"], in, want)
			}
			found++
		}
		if found != len(ports) {
			return fmt.Errorf("there are %d of the ports %q", found, ports)
		}
		return nil
	})
}

// portNames are the names of the NetworkPorts that Pods have.
func portNames(t *testing.T, pods []corev1.Pod) (names []string) {
	t.Helper()
	for _, pod := range pods {
		for _, a := range allocationsOf(t, &pod) {
			names = append(names, a.Port)
		}
	}
	return names
}

// TestPortsInSecurityGroups puts NetworkPorts, a Network's ports and a Deployment's Pods into SecurityGroups by name,
// with a process that dies while it works.
func TestPortsInSecurityGroups(t *testing.T) {
	p := startController(t, "tenant")
	namespace, c := newNamespace(t), open(t, "tenant")
	network, web, base := unique(t, namespace), "web-"+namespace, "base-"+namespace
	spec := example()
	spec.SecurityGroupRefs = []string{base}
	apply(t, namespace, network, spec)
	networkID := awaitReady(t, namespace, network).Status.NetworkID
	holdApart(t, namespace)
	awaitGate(t, namespace)

	// Everything waits for its groups, without a port in Neutron.
	named := on(network)
	named.SecurityGroupRefs = []string{web}
	applyPort(t, namespace, "vm", named)
	applyPort(t, namespace, "plain", on(network))
	deploymentOn(t, namespace, "shop", network, 0)
	inBoth := `{"spec":{"replicas":2,"template":{"metadata":{"annotations":{"` + cloudteamv1.AnnotationSecurityGroups +
		`":"` + web + `, ` + base + `"}}}}}`
	editDeployment(t, namespace, "shop", inBoth)
	missing := fmt.Sprintf("SecurityGroup %s/%s does not exist", namespace, web)
	awaitPort(t, namespace, "vm", metav1.ConditionFalse, cloudteamv1.ReasonSecurityGroupNotReady, missing)
	awaitPort(t, namespace, "plain", metav1.ConditionFalse, cloudteamv1.ReasonSecurityGroupNotReady, base)
	awaitDeploymentSays(t, namespace, "shop", corev1.ConditionFalse, cloudteamv1.ReasonPortsFailed, "does not exist")
	noPorts(t, c, networkID)

	applyGroup(t, namespace, web)
	applyGroup(t, namespace, base)
	p.kill(t) // at whatever it is
	p = startController(t, "tenant")
	inWeb, inBase := awaitGroup(t, namespace, web, cloudteamv1.ReasonAvailable),
		awaitGroup(t, namespace, base, cloudteamv1.ReasonAvailable)
	pods := awaitPods(t, namespace, "app=shop", 2)
	c.eventuallyInGroups(networkID, []string{"vm"}, inWeb)
	c.eventuallyInGroups(networkID, []string{"plain"}, inBase)
	c.eventuallyInGroups(networkID, portNames(t, pods), inWeb, inBase)

	// A group stays as long as something names it.
	api := networks.CloudteamV1().SecurityGroups(namespace)
	if err := api.Delete(t.Context(), web, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.kill(t)
	startController(t, "tenant")
	eventually(t, func() error {
		g, err := api.Get(t.Context(), web, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(g.Status.Conditions, cloudteamv1.ConditionReady)
		if ready.Reason != cloudteamv1.ReasonInUse {
			return fmt.Errorf("want InUse, have %s", asJSON(g.Status))
		}
		return nil
	})
	c.eventuallyInGroups(networkID, portNames(t, pods), inWeb, inBase)

	// A rolling update gives new Pods ports in other groups.
	inOne := `{"spec":{"template":{"metadata":{"annotations":{"` + cloudteamv1.AnnotationSecurityGroups + `":"` + base + `"}}}}}`
	editDeployment(t, namespace, "shop", inOne)
	eventually(t, func() error {
		for _, pod := range awaitPods(t, namespace, "app=shop", 2) {
			if pod.Annotations[cloudteamv1.AnnotationSecurityGroups] != base {
				return fmt.Errorf("Pod %s is still there", pod.Name)
			}
		}
		return nil
	})
	c.eventuallyInGroups(networkID, portNames(t, awaitPods(t, namespace, "app=shop", 2)), inBase)
	editPort(t, namespace, "vm", `{"securityGroupRefs":[]}`)
	c.eventuallyInGroups(networkID, []string{"vm"})
	eventually(t, func() error {
		if g, err := api.Get(t.Context(), web, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w, %s", err, asJSON(g.Status))
		}
		return nil
	})
	if left := c.list("security-groups", "id="+inWeb.Status.SecurityGroupID); len(left) > 0 {
		t.Errorf("left in Neutron: %v", left)
	}

	// A Pod can name nothing of another namespace.
	pod := podOn("stray", network)
	pod.Annotations[cloudteamv1.AnnotationSecurityGroups] = "other/" + base
	if _, err := kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPodSays(t, namespace, "stray", corev1.ConditionFalse, cloudteamv1.ReasonInvalidNetworks,
		"annotation "+cloudteamv1.AnnotationSecurityGroups+`: "other/`+base+`" is no name of a SecurityGroup`)
	eventually(t, func() error {
		events, err := kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=stray,reason=" + cloudteamv1.ReasonInvalidNetworks,
		})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("no Event of it")
		}
		return err
	})
	if err := kube.CoreV1().Pods(namespace).Delete(t.Context(), "stray", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	removeDeployment(t, namespace, "shop")
	removePort(t, namespace, "vm")
	removePort(t, namespace, "plain")
	awaitPorts(t, c, namespace, networkID, 0)
	remove(t, namespace, network)
}
