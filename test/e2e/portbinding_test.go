package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// annotateNodes writes annotations on all Nodes, as an agent does on its own; nil removes the value.
func annotateNodes(t *testing.T, annotations func(node string) map[string]any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cleanups call it, too
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, node := range nodes.Items {
		harness.Patch(t, kube.CoreV1().Nodes(), node.Name, asJSON(map[string]any{"metadata": map[string]any{"annotations": annotations(node.Name)}}))
	}
}

// TestNeutronExpectsAPortOnTheNodeOfItsPod: with an agent on the nodes, the ports of Pods are bound there, by
// credentials of their own, and the agent is told. On the real Neutron, which has no agents of its own here, the binding
// fails, and the NetworkPort says so.
func TestNeutronExpectsAPortOnTheNodeOfItsPod(t *testing.T) {
	withProcesses(t)
	for name, c := range map[string]struct {
		arguments []string
		mode      cloudteamv1.AttachmentMode
		// bound says that Neutron knows the host.
		bound bool
	}{
		"with credentials that may bind": {[]string{"--binding-cloud=admin"}, cloudteamv1.AttachmentOVN, true},
		"with a member's credentials":    {nil, cloudteamv1.AttachmentOVNUnbound, false},
	} {
		t.Run(name, func(t *testing.T) {
			startController(t, "tenant", c.arguments...)
			namespace := newNamespace(t)
			awaitGate(t, namespace)
			network := unique(t, namespace)
			apply(t, namespace, network, example())
			networkID := awaitReady(t, namespace, network).Status.NetworkID
			annotateNodes(t, func(node string) map[string]any {
				return map[string]any{
					cloudteamv1.AnnotationDataplane: "ovn", cloudteamv1.AnnotationDataplaneHost: "host-of-" + node,
				}
			})
			t.Cleanup(func() {
				annotateNodes(t, func(string) map[string]any {
					return map[string]any{cloudteamv1.AnnotationDataplane: nil, cloudteamv1.AnnotationDataplaneHost: nil}
				})
			})

			deploymentOn(t, namespace, "web", network, 2)
			pods := awaitPods(t, namespace, "app=web", 2)
			admin, tenant := open(t, "admin"), open(t, "tenant")
			attached := func() error { return areAttached(t, admin, namespace, networkID, pods, c.mode, c.bound) }
			if c.bound && os.Getenv("E2E_OPENSTACK") != "" {
				attached = func() error { return failToBind(t, namespace, len(pods)) }
			}
			eventually(t, attached)
			for _, port := range awaitPorts(t, tenant, namespace, networkID, 2) {
				tenant.Remove("ports", port.ID())
			}
			eventually(t, attached) // made again, with other ids
			removeDeployment(t, namespace, "web")
			awaitPorts(t, tenant, namespace, networkID, 0)
			remove(t, namespace, network)
		})
	}
}

// TestAPortGoesIntoTheTrunkOfItsPodsNode: where a node is a virtual machine, its port's trunk carries the ports of its
// Pods, each with a VLAN of its own, by a member's rights. They leave it before they are deleted.
func TestAPortGoesIntoTheTrunkOfItsPodsNode(t *testing.T) {
	withProcesses(t)
	startController(t, "tenant")
	namespace := newNamespace(t)
	awaitGate(t, namespace)
	network := unique(t, namespace)
	apply(t, namespace, network, example())
	networkID := awaitReady(t, namespace, network).Status.NetworkID
	tenant := open(t, "tenant")

	underlay := tenant.Create("networks", resource{"name": network + "-nodes"})
	defer tenant.Remove("networks", underlay.ID())
	parents := map[string]string{} // by what a node says of the parent, its id
	var made []resource
	defer func() {
		for _, r := range made {
			tenant.Remove("trunks", r["trunk"].(string))
			tenant.Remove("ports", r["parent"].(string))
		}
	}()
	annotateNodes(t, func(string) map[string]any {
		parent := tenant.Create("ports", resource{"network_id": underlay.ID()})
		trunk := tenant.Create("trunks", resource{"port_id": parent.ID()})
		made = append(made, resource{"trunk": trunk.ID(), "parent": parent.ID()})
		mac := parent["mac_address"].(string)
		said := map[string]any{cloudteamv1.AnnotationDataplane: "trunk", cloudteamv1.AnnotationDataplaneParent: mac}
		if len(made)%2 == 1 { // the other nodes do not know it
			said[cloudteamv1.AnnotationDataplaneParentPort], mac = parent.ID(), ""
		}
		parents[cmp.Or(mac, parent.ID())] = parent.ID()
		return said
	})
	t.Cleanup(func() {
		annotateNodes(t, func(string) map[string]any {
			return map[string]any{
				cloudteamv1.AnnotationDataplane: nil, cloudteamv1.AnnotationDataplaneParent: nil,
				cloudteamv1.AnnotationDataplaneParentPort: nil,
			}
		})
	})

	deploymentOn(t, namespace, "web", network, 3)
	awaitPods(t, namespace, "app=web", 3)
	eventually(t, func() error {
		list, err := networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		inTrunks := map[string]float64{}
		for _, port := range tenant.List("ports", "network_id="+underlay.ID()) {
			for _, sub := range port["trunk_details"].(map[string]any)["sub_ports"].([]any) {
				s := sub.(map[string]any)
				inTrunks[port.ID()+" "+s["port_id"].(string)] = s["segmentation_id"].(float64)
			}
		}
		if len(inTrunks) != 3 || len(list.Items) != 3 {
			return fmt.Errorf("%d NetworkPorts and the subports %v, want 3", len(list.Items), inTrunks)
		}
		for _, port := range list.Items {
			at := port.Attachment()
			if at == nil || float64(at.VLAN) != inTrunks[parents[cmp.Or(at.ParentPortID, at.ParentMAC)]+" "+port.Status.PortID] {
				return fmt.Errorf("NetworkPort %s says %s, and the trunks have %v", port.Name, asJSON(port.Status), inTrunks)
			}
		}
		return nil
	})
	removeDeployment(t, namespace, "web")
	awaitPorts(t, tenant, namespace, networkID, 0)

	// A controller that added a port, and was killed before it wrote so, left it in the trunk when the Pod ended.
	applyPort(t, namespace, "forgotten", on(network))
	id := awaitPortReady(t, namespace, "forgotten").Status.PortID
	tenant.Act("trunks", made[0]["trunk"].(string), "add_subports", resource{
		"sub_ports": []resource{{"port_id": id, "segmentation_type": "vlan", "segmentation_id": 99}},
	})
	removePort(t, namespace, "forgotten")
	remove(t, namespace, network)
}

// failToBind returns how the ports of a namespace differ from ports that Neutron cannot bind.
func failToBind(t *testing.T, namespace string, ports int) error {
	t.Helper()
	list, err := networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != ports {
		return fmt.Errorf("there are %d NetworkPorts, want %d", len(list.Items), ports)
	}
	for _, port := range list.Items {
		c := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionAttached)
		if port.Status.Attachment != nil || c == nil || c.Reason != cloudteamv1.ReasonBindingFailed ||
			!strings.Contains(c.Message, "binding_failed") {
			return fmt.Errorf("NetworkPort %s says %s", port.Name, asJSON(port.Status))
		}
	}
	return nil
}

// areAttached returns how the ports of Pods differ from ports that wait for their nodes' agents.
func areAttached(
	t *testing.T, admin *cloud, namespace, networkID string, pods []corev1.Pod, mode cloudteamv1.AttachmentMode,
	bound bool,
) error {
	t.Helper()
	list, err := networks.CloudteamV1().NetworkPorts(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	hosts := map[string]string{}
	for _, port := range admin.List("ports", "network_id="+networkID) {
		hosts[port.ID()] = fmt.Sprint(port["binding:host_id"])
	}
	nodes := map[types.UID]string{}
	for _, pod := range pods {
		nodes[pod.UID] = pod.Spec.NodeName
	}
	if len(list.Items) != len(pods) {
		return fmt.Errorf("there are %d NetworkPorts, want %d", len(list.Items), len(pods))
	}
	for _, port := range list.Items {
		at := port.Attachment()
		if at == nil || at.Node != nodes[at.PodUID] || at.Mode != mode || at.Host != "host-of-"+at.Node {
			return fmt.Errorf("NetworkPort %s says %s", port.Name, asJSON(port.Status))
		}
		if host, there := hosts[port.Status.PortID]; !there || bound != (host == at.Host) {
			return fmt.Errorf("Neutron expects port %s on host %q, and its status says %s", port.Name, host, asJSON(at))
		}
		c := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionAttached)
		if c == nil || c.Reason != cloudteamv1.ReasonWaitingForPlug {
			return fmt.Errorf("NetworkPort %s has the conditions %s", port.Name, asJSON(port.Status.Conditions))
		}
	}
	return nil
}
