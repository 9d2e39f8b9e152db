package pod

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestAnEventNamesFewPods has many Pods name one instance of a virtual machine, and say that they were given one port.
func TestAnEventNamesFewPods(t *testing.T) {
	port := machinePort("")
	c := newIdle(t, port)
	var last *corev1.Pod
	for i := range 10 * wake {
		last = declaringPod("team", controlledBy("kubevirt.io/v1", "VirtualMachineInstance", "web", "vmi"))
		last.Name, last.UID = fmt.Sprintf("p%03d", i), types.UID(fmt.Sprint("p", i))
		last.CreationTimestamp = metav1.Unix(int64(i), 0)
		if i%2 == 1 {
			last.Spec.SchedulingGates = nil
			last.Annotations[cloudteamv1.AnnotationAllocations] = fmt.Sprintf(`[{"portID": %q}]`, port.Status.PortID)
		}
		c.show(t, last)
	}
	going := last.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	for what, keys := range map[string][]cache.ObjectName{
		"a Pod": c.keysOfPod(going), "the port": c.keysOfPort(port), "the virtual machine": c.keysOfMachine(
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web"}}),
	} {
		if len(keys) > 2*wake+2 || !slices.Contains(keys, cache.NewObjectName("team", "p000")) {
			t.Errorf("an event of %s names %d keys, want few, and the oldest Pod: %v", what, len(keys), keys)
		}
	}
}

// countedPorts count the lists by an index.
type countedPorts struct {
	informers.NetworkPortInformer
	lists map[string]int
}

func (p countedPorts) Informer() cache.SharedIndexInformer {
	return countedInformer{p.NetworkPortInformer.Informer(), p.lists}
}

type countedInformer struct {
	cache.SharedIndexInformer
	lists map[string]int
}

func (i countedInformer) GetIndexer() cache.Indexer {
	return countedIndexer{i.SharedIndexInformer.GetIndexer(), i.lists}
}

type countedIndexer struct {
	cache.Indexer
	lists map[string]int
}

func (i countedIndexer) ByIndex(index, value string) ([]any, error) {
	i.lists[index]++
	return i.Indexer.ByIndex(index, value)
}

// TestTheFirstPortThatFailsNamesThePods has ports of one Deployment fail. No event goes through them all.
func TestTheFirstPortThatFailsNamesThePods(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "web"}}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web-1", UID: "set", OwnerReferences: controlledBy("apps/v1", "Deployment", "web", "web")}}
	waits := declaringPod("team", controlledBy("apps/v1", "ReplicaSet", "web-1", "set"))
	c := newIdle(t, web, set, waits)
	lists := map[string]int{}
	c.caches.Ports = countedPorts{c.caches.Ports, lists}
	var ports []*cloudteamv1.NetworkPort
	for _, name := range []string{"web-net-10", "web-net-9", "web-net-11"} {
		port := portOf(name)
		port.OwnerReferences = controlledBy("apps/v1", "Deployment", "web", "web")
		port.Status.Conditions = controller.SetState(nil, 0, controller.Stalled("InvalidSpec", "x"))
		c.show(t, port)
		ports = append(ports, port)
	}
	names := func(port *cloudteamv1.NetworkPort) bool {
		return slices.Contains(c.keysOfPort(port), cache.MetaObjectToName(waits))
	}
	if names(ports[0]) || !names(ports[1]) || names(ports[2]) {
		t.Error("another port than web-net-9, the first one, names the Pods that wait")
	}
	// It serves no request any more: the next one does.
	usable := ports[1].DeepCopy()
	usable.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	c.show(t, usable)
	if !names(ports[0]) || names(usable) {
		t.Error("when web-net-9 is usable, web-net-10 does not name the Pods that wait")
	}
	expect.Empty(t, lists, "events of ports list ports")
}

// show has the caches show a Pod or a port.
func (c *Controller) show(t *testing.T, object controllertest.Object) {
	t.Helper()
	in := c.caches.Pods.Informer()
	if _, ok := object.(*cloudteamv1.NetworkPort); ok {
		in = c.caches.Ports.Informer()
	}
	expect.NoError(t, in.GetIndexer().Add(object))
	c.note(object)
}
