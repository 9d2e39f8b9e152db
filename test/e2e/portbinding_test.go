package e2e

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
