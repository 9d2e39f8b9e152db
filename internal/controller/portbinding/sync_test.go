package portbinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
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
func (w *world) Attach(
	_ context.Context, _ *cloudteamv1.NetworkPort, at *cloudteamv1.PortAttachment, parent inventory.Parent,
) error {
	if at.Mode != cloudteamv1.AttachmentTrunk {
		w.Calls.Note("bind %s to %s", at.PortID, at.Host)
		return w.refuse
	}
	w.Calls.Note("add %s to the trunk of %s", at.PortID, nameOf(parent))
	switch {
	case w.refuse != nil:
		return w.refuse
	case w.trunk != "" && !strings.Contains(nameOf(parent), w.trunk):
		return ErrInTrunk
	}
	at.VLAN, w.trunk = 7, parent.MAC
	return nil
}

// Detach implements Clouds.
func (w *world) Detach(
	_ context.Context, _ *cloudteamv1.NetworkPort, portID string, parents ...inventory.Parent,
) error {
	var names []string
	for _, parent := range parents {
		names = append(names, nameOf(parent))
		if w.refuse == nil && (parent.MAC == w.trunk || parent.PortID == parent1 && w.trunk == "mac-of-node1") {
			w.trunk = ""
		}
	}
	slices.Sort(names)
	w.Calls.Note("remove %s from the trunk of %s", portID, strings.Join(names, " or "))
	return w.refuse
}

// The ids of nodes' ports.
const (
	parent1 = "a0000000-0000-4000-8000-000000000001"
	parent2 = "a0000000-0000-4000-8000-000000000002"
	parent3 = "a0000000-0000-4000-8000-000000000003"
)

// nameOf is what a node says of its parent: the port's id, its hardware address, or both.
func nameOf(parent inventory.Parent) string {
	return strings.TrimSpace(parent.PortID + " " + parent.MAC)
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
		expect.NoError(t, err)
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
	expect.NoError(w.T, w.nodes.Add(node))
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
	expect.Equal(w.T, state, w.state(), "the state of the port")
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
				expect.Equal(t, err != nil, c.event != "", "the sync: %v", err)
				if c.event != "" {
					w.WantEvents(c.event)
				}
				attached := meta.FindStatusCondition(w.Get().Status.Conditions, cloudteamv1.ConditionAttached)
				expect.Contains(t, attached.Message, "--binding-cloud", "the message, with the remedy")
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
		expect.Equal(t, int32(7), w.Get().Status.Attachment.VLAN, "the attachment's VLAN")
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
		w.showTrunk(node, inventory.Parent{MAC: "mac-of-" + node})
	}
	w.showNode("bare", ovn)
}

// showTrunk shows a node that says which port is its trunk's parent.
func (w *world) showTrunk(node string, parent inventory.Parent) {
	w.T.Helper()
	w.showNode(node, map[string]string{
		cloudteamv1.AnnotationDataplane: "trunk", cloudteamv1.AnnotationDataplaneParent: parent.MAC,
		cloudteamv1.AnnotationDataplaneParentPort: parent.PortID,
	})
}

// TestANodeThatLearnsTheIdOfItsPortKeepsItsPods: what a tenant reads is the id then, and no hardware address.
func TestANodeThatLearnsTheIdOfItsPortKeepsItsPods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showTrunks()
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("add p1 to the trunk of mac-of-node1", "write status")
		w.showTrunk("node1", inventory.Parent{PortID: parent1, MAC: "mac-of-node1"})
		w.refuse = errors.New("the cloud is away")
		if err := w.sync("add p1 to the trunk of " + parent1 + " mac-of-node1"); err == nil {
			t.Error("it is not retried")
		}
		w.want("trunk on node1: False WaitingForPlug")
		w.refuse = nil
		_ = w.sync("add p1 to the trunk of "+parent1+" mac-of-node1", "write status")
		w.want("trunk on node1: False WaitingForPlug")
		if at := w.Get().Status.Attachment; at.ParentPortID != parent1 || at.ParentMAC != "" {
			t.Errorf("the attachment is %+v", at)
		}
		if text := fmt.Sprintf("%+v", w.Get().Status); strings.Contains(text, "mac-of-") {
			t.Errorf("the status has the node's hardware address: %s", text)
		}
		// Another interface is another trunk.
		w.showTrunk("node1", inventory.Parent{PortID: parent3, MAC: "third"})
		add := "add p1 to the trunk of " + parent3 + " third"
		w.trunk = "mac-of-node1"
		_ = w.sync(add, "remove p1 from the trunk of "+parent1+" or "+parent3+" third or mac-of-node2", add, "write status")
		// What it had in another mode goes.
		w.showNode("node1", ovn)
		_ = w.sync("remove p1 from the trunk of "+parent3, "bind p1 to compute-1", "write status")
		want := cloudteamv1.PortAttachment{Node: "node1", Host: "compute-1", Mode: "ovn", PortID: "p1", PodUID: "pod-1"}
		if at := w.Get().Status.Attachment; *at != want {
			t.Errorf("the attachment is %+v, want %+v", at, want)
		}
		_ = w.sync()
	})
}

// TestTwoNodesWithOneParent: root on a node can have its agent name the trunk of another one.
func TestTwoNodesWithOneParent(t *testing.T) {
	id, mac := inventory.Parent{PortID: parent1, MAC: "mac-1"}, inventory.Parent{MAC: "MAC-1"}
	for name, c := range map[string]struct{ one, two inventory.Parent }{
		"by ids":                {id, inventory.Parent{PortID: parent1, MAC: "other"}},
		"by hardware addresses": {mac, inventory.Parent{MAC: "mac-1"}},
		"one of each":           {id, mac},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				for _, node := range []string{"node1", "node2"} {
					w.showTrunk("node1", c.one)
					w.showTrunk("node2", c.two)
					w.showPod("pod-1", node, corev1.PodPending)
					err := w.sync("write status")
					if !errors.Is(err, errDisputed) {
						t.Errorf("%s: error %v, want errDisputed: it is not retried", node, err)
					}
					w.want("nowhere: False BindingFailed")
					attached := meta.FindStatusCondition(w.Get().Status.Conditions, cloudteamv1.ConditionAttached)
					for _, words := range []string{
						"Node " + node + " and another Node say", "the Pod does not start", "Compare the annotations",
						"Delete the Node",
					} {
						expect.Contains(t, attached.Message, words, "the message")
					}
				}
				w.WantEvents("Warning BindingFailed", "Warning BindingFailed")

				// What is attached stays: else one node could disconnect another's Pods.
				w.showTrunk("node2", inventory.Parent{PortID: parent2, MAC: "mac-2"})
				_ = w.sync("add p1 to the trunk of "+parent2+" mac-2", "write status")
				w.showTrunk("node2", c.two)
				_ = w.sync()
				w.elsewhere = true
				w.c.Moved(string(w.Get().UID))
				_ = w.sync()
				w.want("trunk on node2: False WaitingForPlug")
			})
		})
	}
}

// TestANodeWhoseParentHasNoIDHasNoParent: Neutron takes the id of another node's port in capitals for the same.
func TestANodeWhoseParentHasNoIDHasNoParent(t *testing.T) {
	for _, id := range []string{strings.ToUpper(parent1), parent1 + " ", "x"} {
		inWorld(t, func(t *testing.T, w *world) {
			w.showTrunk("node1", inventory.Parent{PortID: parent1, MAC: "mac-1"})
			w.showTrunk("node2", inventory.Parent{PortID: id, MAC: "mac-1"})
			w.showPod("pod-1", "node2", corev1.PodPending)
			if err := w.sync("write status"); !errors.Is(err, errNoID) {
				t.Errorf("%q: error %v, want errNoID: it is not retried", id, err)
			}
			w.want("nowhere: False BindingFailed")
			attached := meta.FindStatusCondition(w.Get().Status.Conditions, cloudteamv1.ConditionAttached)
			for _, words := range []string{
				"dataplane-parent-port of Node node2 is not the id", "the Pod does not start", "--network-data",
			} {
				expect.Contains(t, attached.Message, words, "the message")
			}
			w.WantEvents("Warning BindingFailed")
			expect.Len(t, 1, w.c.parents(), "parents that the nodes have")

			// The other node's Pods are not disturbed.
			w.showPod("pod-1", "node1", corev1.PodPending)
			_ = w.sync("add p1 to the trunk of "+parent1+" mac-1", "write status")
			w.want("trunk on node1: False WaitingForPlug")

			// What is attached stays until the node says again which port is its own.
			w.showTrunk("node1", inventory.Parent{PortID: id, MAC: "mac-1"})
			if err := w.sync(); !errors.Is(err, errNoID) {
				t.Errorf("%q: error %v, want errNoID", id, err)
			}
			w.want("trunk on node1: False WaitingForPlug")
			w.showTrunk("node1", inventory.Parent{PortID: parent1, MAC: "mac-1"})
			_ = w.sync()
		})
	}
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
			expect.Equal(t, "", w.trunk, "the trunk that it is in")
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
		virtual.Elapse(lookInterval)
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

// TestFailuresThatComeOftenCostLittle: a node or a Pod can have a port fail and recover at any time.
func TestFailuresThatComeOftenCostLittle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showNode("node1", ovn)
		w.showPod("pod-1", "node1", corev1.PodRunning)
		_ = w.sync("bind p1 to compute-1", "write status")
		looks := func(want int, when string) {
			t.Helper()
			expect.Equal(t, want, controllertest.Count(w.Calls.Take(), "look for p1"), "looks, %s", when)
			var events []string
			for range want {
				events = append(events, "Warning PlugFailed")
			}
			w.WantEvents(events...)
		}
		sync := func() controller.Result {
			t.Helper()
			result, _ := w.c.sync(controllertest.Logged(t), portKey)
			return result
		}
		for n := range 600 { // five minutes
			w.says(cloudteamv1.ReasonPlugFailed, metav1.ConditionFalse)
			w.refuse = nil
			if n%3 == 0 {
				w.refuse = errors.New("the cloud is away") // which has it looked for again
			}
			sync()
			w.says(cloudteamv1.ReasonPlugged, metav1.ConditionTrue)
			sync()
			virtual.Elapse(500 * time.Millisecond)
		}
		looks(5, "600 failures in five minutes")
		w.refuse = nil
		virtual.Elapse(lookInterval)
		w.says(cloudteamv1.ReasonPlugFailed, metav1.ConditionFalse)
		sync()
		looks(1, "the first failure for a minute")
		virtual.Elapse(time.Second)
		w.says(cloudteamv1.ReasonPlugged, metav1.ConditionTrue)
		sync()
		w.says(cloudteamv1.ReasonPlugFailed, metav1.ConditionFalse)
		after := sync().RequeueAfter
		looks(0, "another one after a second")
		expect.Equal(t, lookInterval-time.Second, after, "after how long it is looked into")
		virtual.Elapse(after)
		sync()
		looks(1, "after a minute")
	})
}

func TestEventsNameThePortsThatTheyConcern(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.showPod("pod-1", "node1", corev1.PodRunning)
		pod, err := w.c.caches.Pods.Lister().Pods("team").Get("web")
		expect.NoError(t, err)
		if keys := w.c.keysOfPod(pod); len(keys) != 1 || keys[0] != portKey {
			t.Errorf("the Pod concerns %v", keys)
		}
		for node, want := range map[string]int{"node1": 1, "node2": 0} {
			expect.Len(t, want, w.c.keysOfNode(node), "keys that node %s concerns", node)
		}
	})
}
