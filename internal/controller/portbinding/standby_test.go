package portbinding

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// launchers gives a function that shows a Pod of a virtual machine which was given the port, each younger than the last.
func (w *world) launchers() func(name string, uid, instance types.UID, node string, edit ...func(*corev1.Pod)) {
	created := time.Now()
	return func(name string, uid, instance types.UID, node string, edit ...func(*corev1.Pod)) {
		pod := &corev1.Pod{}
		created = created.Add(time.Second)
		pod.Namespace, pod.Name, pod.UID, pod.CreationTimestamp = portKey.Namespace, name, uid, metav1.NewTime(created)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance",
			Name: "vm", UID: instance, Controller: new(true)}}
		pod.Annotations = map[string]string{cloudteamv1.AnnotationAllocations: `[{"portID":"p1","port":"web-0"}]`}
		pod.Spec.NodeName = node
		for _, e := range edit {
			e(pod)
		}
		w.Show(pod)
	}
}

// Whether a port's cloud is the nodes' own is known when the port is attached. Another cloud can give a port any id.
func TestAPortThatIsNotAttachedHasNoStandby(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showNode("node2", ovn)
		launcher := w.launchers()
		launcher("web", "pod-1", "run-1", "node1")
		launcher("target", "target", "run-1", "node2")
		w.refuse = errors.New("it is in another cloud than the nodes' ports")
		_ = w.sync("bind p1 to compute-1", "write status")
		_ = w.sync("bind p1 to compute-1")
		if port := w.Get(); port.Status.Standby != nil {
			t.Errorf("the node is told: %+v", port.Status)
		}
	})
}

// A node learns of the target of a live migration before the port is bound to it, and no longer than that.
func TestTheNodeOfAMigrationsTargetIsTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showNode("node2", ovn)
		w.showNode("plain", nil)
		launcher := w.launchers()
		next := func(want string) {
			t.Helper()
			got := ""
			if s := w.Get().Status.Standby; s != nil {
				got = string(s.PodUID) + " on " + s.Node
			}
			expect.Equal(t, want, got, "the next one")
			w.want("ovn on node1: False WaitingForPlug")
		}
		launcher("web", "pod-1", "run-1", "node1")
		_ = w.sync("bind p1 to compute-1", "write status")
		launcher("other", "other", "run-2", "node2")
		launcher("failed", "failed", "run-1", "node2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		launcher("target", "target", "run-1", "")
		_ = w.sync() // it waits for a node
		next("")
		launcher("target", "target", "run-1", "plain")
		_ = w.sync()
		next("")
		launcher("target", "target", "run-1", "node2")
		_ = w.sync("write status")
		next("target on node2")
		_ = w.sync() // at rest
		if keys := w.c.keysOfNode("node2"); !slices.Contains(keys, portKey) {
			t.Errorf("a change of its node wakes %v", keys)
		}
		launcher("target", "target", "run-1", "node2", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })
		_ = w.sync("write status")
		next("")

		launcher("target", "target", "run-1", "node2")
		_ = w.sync("write status")
		w.Edit(func(port *cloudteamv1.NetworkPort) {
			port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "target", UID: "target"}
		})
		launcher("web", "pod-1", "run-1", "node1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.showPort()
		_ = w.sync("write status")
		_ = w.sync("bind p1 to compute-1", "write status")
		if port := w.Get(); port.Status.Standby != nil || port.Attachment() == nil || port.Attachment().Node != "node2" {
			t.Errorf("the status is %+v", port.Status)
		}
	})
}
