package e2e

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestAttachments holds what a cluster with Multus gets: a NetworkAttachmentDefinition for each Network, and those of
// others left to it. Garbage collection, which takes half a minute to learn of a new CRD, is not waited for.
func TestAttachments(t *testing.T) {
	withProcesses(t)
	client := dynamic.NewForConfigOrDie(admin)
	surroundings.KnowAttachments(t)
	namespace := newNamespace(t)
	awaitGate(t, namespace)
	startController(t, "tenant", "--attachment-plugin=macvlan:eth1")
	network := unique(t, namespace)
	attachments := client.Resource(harness.AttachmentResource).Namespace(namespace)

	spec := example()
	spec.HostRoutes = []cloudteamv1.HostRoute{{Destination: "10.9.0.0/16", NextHop: "192.168.0.7"}}
	created := apply(t, namespace, network, spec)
	ready := awaitReady(t, namespace, network)
	var attachment *unstructured.Unstructured
	eventually(t, func() (err error) {
		attachment, err = attachments.Get(t.Context(), network, metav1.GetOptions{})
		return err
	})
	if owner := metav1.GetControllerOf(attachment); owner == nil || owner.UID != created.UID {
		t.Errorf("owners %s", asJSON(attachment.GetOwnerReferences()))
	}
	text, _, _ := unstructured.NestedString(attachment.Object, "spec", "config")
	var config struct {
		Name    string `json:"name"`
		Plugins []struct {
			Type, Master string
			MTU          int32
			Capabilities map[string]bool
			IPAM         struct {
				Type   string
				Routes []struct{ Dst, GW string }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil || len(config.Plugins) != 1 {
		t.Fatalf("configuration %s: %v", text, err)
	}
	plugin := config.Plugins[0]
	if config.Name != network || plugin.Type != "macvlan" || plugin.Master != "eth1" || plugin.MTU != ready.Status.MTU ||
		!plugin.Capabilities["ips"] || !plugin.Capabilities["mac"] || plugin.IPAM.Type != "static" ||
		len(plugin.IPAM.Routes) != 1 || plugin.IPAM.Routes[0].Dst != "10.9.0.0/16" {
		t.Errorf("configuration %s", text)
	}

	// Deleted by hand, it comes back.
	expect.NoError(t, attachments.Delete(t.Context(), network, metav1.DeleteOptions{}))
	eventually(t, func() error {
		is, err := attachments.Get(t.Context(), network, metav1.GetOptions{})
		if err == nil && is.GetUID() == attachment.GetUID() {
			err = errors.New("it is the one that was deleted")
		}
		return err
	})

	// A name that is somebody else's NetworkAttachmentDefinition is Multus' business; the Pod is let go as it is.
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]any{"name": "foreign"}, "spec": map[string]any{"config": "{}"},
	}}
	harness.Create(t, kube.CoreV1().Pods(namespace), harness.PodOn("mixed", network+"@eth1,foreign@eth2"))
	awaitPodSays(t, namespace, "mixed", corev1.ConditionFalse, cloudteamv1.ReasonNetworkNotFound, "foreign")
	_, err := attachments.Create(t.Context(), foreign, metav1.CreateOptions{})
	expect.NoError(t, err)
	running := awaitPods(t, namespace, "", 1)[0]
	if allocations := allocationsOf(t, &running); len(allocations) != 1 || allocations[0].Name != namespace+"/"+network {
		t.Errorf("allocations %s", asJSON(allocations))
	}
	harness.Delete(t, kube.CoreV1().Pods(namespace), "mixed")
	remove(t, namespace, network)
}
