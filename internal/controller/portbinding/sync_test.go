package portbinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var portKey = cache.NewObjectName("team", "web-0")

// world is a controller whose caches show what the test puts into them. It writes to an API server that is played.
type world struct {
	*controllertest.World[*cloudteamv1.NetworkPort]
	c     *Controller
	nodes cache.Indexer
	// refuse, where set, is what Neutron answers.
	refuse error
	// elsewhere says that somebody moved the port in Neutron.
	elsewhere bool
	// trunk is the parent of the trunk that has the port.
	trunk string
}

// Verify implements Clouds.
func (w *world) Verify(_ context.Context, _ *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment) (bool, error) {
	w.Calls.Note("look for %s", at.PortID)
	return !w.elsewhere, w.refuse
}

// Attach implements Clouds.
func (w *world) Attach(_ context.Context, _ *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment) error {
	if at.Mode != cloudteamv1.AttachmentTrunk {
		w.Calls.Note("bind %s to %s", at.PortID, at.Host)
		return w.refuse
	}
	w.Calls.Note("add %s to the trunk of %s", at.PortID, at.ParentMAC)
	switch {
	case w.refuse != nil:
		return w.refuse
	case w.trunk != "" && w.trunk != at.ParentMAC:
		return ErrInTrunk
	}
	at.VLAN, w.trunk = 7, at.ParentMAC
	return nil
}

// Detach implements Clouds.
func (w *world) Detach(_ context.Context, _ *cloudteamv1.NetworkPort, portID string, parentMACs ...string) error {
	w.Calls.Note("remove %s from the trunk of %s", portID, strings.Join(parentMACs, " or "))
	if w.refuse == nil && slices.Contains(parentMACs, w.trunk) {
		w.trunk = ""
	}
	return w.refuse
}

// inWorld runs a test with the port web-0, which is bound to the Pod web and has the id p1 in Neutron.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*cloudteamv1.NetworkPort](t, portKey)}
		controllertest.Serve(w.API, w.Clients, controllertest.NetworkPorts,
			controllertest.Rules[*cloudteamv1.NetworkPort]{Line: controllertest.WriteLine})
		w.NewInformers()
		caches, err := consumer.NewCaches(consumer.InformersOf(w.Informers, w.KubeInformers), nil)
		if err != nil {
			t.Fatal(err)
		}
		nodes := metadatainformer.NewSharedInformerFactory(fake.NewSimpleMetadataClient(runtime.NewScheme()), 0).
			ForResource(corev1.SchemeGroupVersion.WithResource("nodes")).Informer()
		w.nodes = nodes.GetIndexer()
		if w.c, err = NewController(w.Clients.CloudteamV1(), caches, nodes, w, w.Events); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { controllertest.Dismiss(t, w.c.Loop) })
		port := &cloudteamv1.NetworkPort{}
		port.Namespace, port.Name = portKey.Namespace, portKey.Name
		port.Status.PortID = "p1"
		port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web", UID: "pod-1"}
		port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		w.Create(port)
		w.showPort()
		test(t, w)
	})
}

// showPort puts the port into the cache as it is at the API server.
func (w *world) showPort() { w.T.Helper(); w.Show(w.Get()) }

func (w *world) showPod(uid types.UID, node string, phase corev1.PodPhase) {
	w.T.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = portKey.Namespace, "web", uid
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	w.Show(pod)
}

func (w *world) showNode(name string, annotations map[string]string) {
	w.T.Helper()
	node := &metav1.PartialObjectMetadata{}
	node.Name, node.Annotations = name, annotations
	if err := w.nodes.Add(node); err != nil {
		w.T.Fatal(err)
	}
}

// sync syncs the port, checks the calls, and shows the controller what it wrote.
func (w *world) sync(want ...string) error {
	w.T.Helper()
	_, err := w.c.sync(controllertest.Logged(w.T), portKey)
	if errors.Is(err, controller.ErrStale) {
		w.T.Errorf("sync: %v", err)
	}
	w.WantCalls(want...)
	w.showPort()
	return err
}

// state is where the port is and what the condition Attached says: "ovn on node1: False WaitingForPlug".
func (w *world) state() string {
	w.T.Helper()
	port := w.Get()
	where := "nowhere"
	if a := port.Status.Attachment; a != nil {
		where = fmt.Sprintf("%s on %s", a.Mode, a.Node)
		if port.Attachment() == nil {
			where += " (stale)"
		}
	}
	if c := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionAttached); c != nil {
		return fmt.Sprintf("%s: %s %s", where, c.Status, c.Reason)
	}
	return where
}

func (w *world) want(state string) {
	w.T.Helper()
	if got := w.state(); got != state {
		w.T.Errorf("the port is %q, want %q", got, state)
	}
}

var ovn = map[string]string{cloudteamv1.AnnotationDataplane: "ovn", cloudteamv1.AnnotationDataplaneHost: "compute-1"}

func TestAPortFollowsItsPodToTheNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_ = w.sync()
		w.want("nowhere")
		w.showNode("node1", ovn)
		w.showPod("pod-1", "", corev1.PodPending)
		_ = w.sync() // it waits for a node
		w.showPod("pod-1", "node1", corev1.PodPending)
		_ = w.sync("bind p1 to compute-1", "write status")
		w.want("ovn on node1: False WaitingForPlug")
		_ = w.sync() // at rest
		w.Edit(func(port *cloudteamv1.NetworkPort) { port.Status.PortID = "p2" })
		w.showPort()
		w.want("ovn on node1 (stale): False WaitingForPlug")
		_ = w.sync("bind p2 to compute-1", "write status")
		w.want("ovn on node1: False WaitingForPlug")
		w.showPod("pod-1", "node1", corev1.PodSucceeded)
		_ = w.sync("write status")
		w.want("nowhere")
		w.WantEvents()
	})
}

// TestAPortIsBoundForNobodyElse: a Pod of the same name, a Pod elsewhere and an unknown mode are no reason to bind.
func TestAPortIsBoundForNobodyElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showNode("plain", nil)
		w.showNode("newer", map[string]string{cloudteamv1.AnnotationDataplane: "carrier-pigeon"})
		for _, pod := range []struct {
			uid  types.UID
			node string
		}{{"another", "node1"}, {"pod-1", "plain"}, {"pod-1", "newer"}, {"pod-1", "gone"}} {
			w.showPod(pod.uid, pod.node, corev1.PodRunning)
			if err := w.sync(); err != nil {
				t.Error(err)
			}
		}
		w.want("nowhere")
	})
}

func TestWithoutTheRightToBind(t *testing.T) {
	for mode, c := range map[string]struct{ state, event string }{
		"ovn": {state: "ovn-unbound on node1: False WaitingForPlug"},
		"ovs": {state: "nowhere: False BindingFailed", event: "Warning BindingFailed"},
	} {
		t.Run(mode, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.showNode("node1", map[string]string{cloudteamv1.AnnotationDataplane: mode})
				w.showPod("pod-1", "node1", corev1.PodPending)
				w.refuse = fmt.Errorf("%w (disallowed by policy)", ErrForbidden)
				err := w.sync("bind p1 to node1", "write status")
				w.want(c.state)
				if failed := c.event != ""; failed != (err != nil) {
					t.Errorf("the sync: %v", err)
				}
				if c.event != "" {
					w.WantEvents(c.event)
				}
				attached := meta.FindStatusCondition(w.Get().Status.Conditions, cloudteamv1.ConditionAttached)
				if !strings.Contains(attached.Message, "--binding-cloud") {
					t.Errorf("the message names no remedy: %s", attached.Message)
				}
				if c.event == "" {
					_ = w.sync() // it is not tried for each event
					return
				}
				_ = w.sync("bind p1 to node1") // retried, and told once
				w.WantEvents()
				w.refuse = nil
				_ = w.sync("bind p1 to node1", "write status")
				w.want("ovs on node1: False WaitingForPlug")
			})
		})
	}
}

// TestAFailedBindingLeavesNothingToPlug: the agent must not plug a port that Neutron expects elsewhere.
func TestAFailedBindingLeavesNothingToPlug(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showNode("node2", ovn)
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("bind p1 to compute-1", "write status")
		w.showPod("pod-1", "node2", corev1.PodRunning)
		w.refuse = errors.New("the cloud is away")
		if err := w.sync("bind p1 to compute-1", "write status"); err == nil {
			t.Error("the binding is not retried")
		}
		w.want("nowhere: False BindingFailed")
	})
}

// TestASubportLeavesATrunkBeforeAnything: neither another trunk takes it before, nor does Neutron delete it.
func TestASubportLeavesATrunkBeforeAnything(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showTrunks()
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("add p1 to the trunk of mac-of-node1", "write status")
		w.want("trunk on node1: False WaitingForPlug")
		if at := w.Get().Status.Attachment; at.VLAN != 7 || at.ParentMAC != "mac-of-node1" || at.Host != "" {
			t.Errorf("the attachment is %+v", at)
		}
		_ = w.sync()
		// Somebody took it out, and it gets another VLAN: the agent hears of that.
		w.elsewhere = true
		w.Edit(func(port *cloudteamv1.NetworkPort) { port.Status.Attachment.VLAN = 6 })
		w.showPort()
		w.c.Moved(string(w.Get().UID))
		_ = w.sync("look for p1", "add p1 to the trunk of mac-of-node1", "write status")
		if at := w.Get().Status.Attachment; at.VLAN != 7 {
			t.Errorf("the attachment is %+v", at)
		}
		w.showPod("pod-1", "node2", corev1.PodRunning)
		_ = w.sync("remove p1 from the trunk of mac-of-node1", "add p1 to the trunk of mac-of-node2", "write status")
		w.want("trunk on node2: False WaitingForPlug")
		w.showPod("pod-1", "node2", corev1.PodSucceeded)
		w.refuse = errors.New("the cloud is away")
		if err := w.sync("remove p1 from the trunk of mac-of-node2"); err == nil {
			t.Error("the removal is not retried")
		}
		w.want("trunk on node2: False WaitingForPlug")
		w.refuse = nil
		_ = w.sync("remove p1 from the trunk of mac-of-node2", "write status")
		w.want("nowhere")
	})
}

// showTrunks shows node1 and node2, which are virtual machines with trunks, and one that is none.
func (w *world) showTrunks() {
	w.T.Helper()
	for _, node := range []string{"node1", "node2"} {
		w.showNode(node, map[string]string{
			cloudteamv1.AnnotationDataplane: "trunk", cloudteamv1.AnnotationDataplaneParent: "mac-of-" + node,
		})
	}
	w.showNode("bare", ovn)
}

// TestAPortLeavesATrunkThatNobodyRemembers: a process added the port to the trunk of node1, and was killed before it
// wrote so. Meanwhile the Pod ended.
func TestAPortLeavesATrunkThatNobodyRemembers(t *testing.T) {
	const out = "remove p1 from the trunk of mac-of-node1 or mac-of-node2"
	t.Run("for another Pod", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.showTrunks()
			w.trunk = "mac-of-node1"
			w.showPod("pod-1", "node2", corev1.PodPending)
			add := "add p1 to the trunk of mac-of-node2"
			_ = w.sync(add, out, add, "write status")
			w.want("trunk on node2: False WaitingForPlug")
			_ = w.sync()
			w.WantEvents()
		})
	})
	t.Run("in somebody else's trunk", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.showTrunks()
			w.trunk = "mac-of-a-user"
			w.showPod("pod-1", "node2", corev1.PodPending)
			add := "add p1 to the trunk of mac-of-node2"
			if err := w.sync(add, out, add, "write status"); err == nil {
				t.Error("it is not retried")
			}
			w.want("nowhere: False BindingFailed")
			w.WantEvents("Warning BindingFailed")
		})
	})
	t.Run("for its deletion", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.showTrunks()
			w.trunk = "mac-of-node1"
			w.Edit(func(port *cloudteamv1.NetworkPort) {
				port.Status.BoundTo, port.Finalizers = nil, []string{"test"}
				port.DeletionTimestamp = new(metav1.Now())
			})
			w.showPort()
			was := w.Get()
			if keyOfUsed(was) != nil {
				t.Error("a port that nothing uses is synced")
			}
			_ = w.sync()
			w.Edit(func(port *cloudteamv1.NetworkPort) {
				meta.SetStatusCondition(&port.Status.Conditions, metav1.Condition{
					Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse, Reason: cloudteamv1.ReasonInUse,
				})
			})
			w.showPort()
			if keyOfUsed(w.Get()) == nil || sameToBind(was, w.Get()) {
				t.Error("that Neutron keeps it is no event")
			}
			_ = w.sync(out)
			if w.trunk != "" {
				t.Errorf("it is in the trunk of %s", w.trunk)
			}
		})
	})
}

// TestTheAgentsWordIsKept: the agent writes the condition Attached, and no sync of a port at rest changes it.
func TestTheAgentsWordIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("bind p1 to compute-1", "write status")
		w.Edit(func(port *cloudteamv1.NetworkPort) {
			meta.SetStatusCondition(&port.Status.Conditions, metav1.Condition{
				Type: cloudteamv1.ConditionAttached, Status: metav1.ConditionTrue, Reason: cloudteamv1.ReasonPlugged,
			})
		})
		w.showPort()
		_ = w.sync()
		w.want("ovn on node1: True Plugged")
	})
}

// says has the agent write the condition Attached.
func (w *world) says(reason string, status metav1.ConditionStatus) {
	w.T.Helper()
	w.Edit(func(port *cloudteamv1.NetworkPort) {
		meta.SetStatusCondition(&port.Status.Conditions, metav1.Condition{
			Type: cloudteamv1.ConditionAttached, Status: status, Reason: reason, LastTransitionTime: metav1.Now(),
		})
	})
	w.showPort()
}

// TestNeutronIsAskedWhereAPortIs when no packets flow any more, and when an audit finds the port changed; and else never.
func TestNeutronIsAskedWhereAPortIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("bind p1 to compute-1", "write status")
		w.says(cloudteamv1.ReasonPlugged, metav1.ConditionTrue)
		_ = w.sync()

		was := w.Get()
		w.says(cloudteamv1.ReasonPlugFailed, metav1.ConditionFalse)
		if sameToBind(was, w.Get()) {
			t.Error("the news of the agent is no event")
		}
		_ = w.sync("look for p1")
		w.WantEvents("Warning PlugFailed")
		_ = w.sync() // it is there: the agent's failure is its own
		w.says(cloudteamv1.ReasonPlugged, metav1.ConditionTrue)
		_ = w.sync()

		// The kubelet tells a Pod that does not run yet.
		w.showPod("pod-1", "node1", corev1.PodPending)
		w.says(cloudteamv1.ReasonPlugFailed, metav1.ConditionFalse)
		_ = w.sync("look for p1")
		w.WantEvents()
		w.showPod("pod-1", "node1", corev1.PodRunning)
		w.says(cloudteamv1.ReasonPlugged, metav1.ConditionTrue)
		_ = w.sync()

		// Somebody moved it. The attachment stays while it is brought back, or the agent would unplug it.
		w.elsewhere = true
		w.c.Moved("somebody else's")
		_ = w.sync()
		w.c.Moved(string(w.Get().UID))
		w.refuse = errors.New("the cloud is away")
		if err := w.sync("look for p1"); err == nil {
			t.Error("a failed look is not retried")
		}
		w.refuse = nil
		_ = w.sync("look for p1", "bind p1 to compute-1")
		w.want("ovn on node1: True Plugged")
		_ = w.sync()

		// One that was moved before it was attached for another Pod is not looked for after that.
		w.c.Moved(string(w.Get().UID))
		w.Edit(func(port *cloudteamv1.NetworkPort) { port.Status.PortID = "p2" })
		w.showPort()
		_ = w.sync("bind p2 to compute-1", "write status")
		_ = w.sync()
		w.WantEvents()
	})
}

func TestEventsNameThePortsThatTheyConcern(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showPod("pod-1", "node1", corev1.PodRunning)
		pod, err := w.c.caches.Pods.Lister().Pods("team").Get("web")
		if err != nil {
			t.Fatal(err)
		}
		if keys := w.c.keysOfPod(pod); len(keys) != 1 || keys[0] != portKey {
			t.Errorf("the Pod concerns %v", keys)
		}
		for node, want := range map[string]int{"node1": 1, "node2": 0} {
			keys := w.c.keysOfNode(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node}})
			if len(keys) != want {
				t.Errorf("node %s concerns %v", node, keys)
			}
		}
	})
}
