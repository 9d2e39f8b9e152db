package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
)

// queueing is a controller before an API server that is played, and whose events come when the test has them come. The
// queue is the test's, too: a key is on it once, and what was put there is counted.
type queueing struct {
	fail    func(format string, args ...any)
	c       *Controller
	version int
	ports   map[string]*cloudteamv1.NetworkPort
	pods    map[string]*corev1.Pod
	// news are the changes that the caches do not show yet, in their order.
	news  []func()
	queue []cache.ObjectName
	// paused are the keys that failed; later are those that asked to be looked at again soon.
	paused, later map[cache.ObjectName]bool
	enqueued      int
	// refuse may fail a write of a Pod or a port. Writes for Pods that are spoilt fail each time, and their pauses do not
	// end.
	refuse func() bool
	spoilt map[string]bool
	ctx    context.Context
}

func newQueueing(t *testing.T, networks ...string) *queueing {
	t.Helper()
	var objects []runtime.Object
	for _, name := range networks {
		n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		n.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		objects = append(objects, n)
	}
	q := &queueing{
		c: newIdle(t, objects...), ports: map[string]*cloudteamv1.NetworkPort{}, pods: map[string]*corev1.Pod{},
		paused: map[cache.ObjectName]bool{}, later: map[cache.ObjectName]bool{}, refuse: func() bool { return false },
		spoilt: map[string]bool{}, ctx: controllertest.Logged(t),
	}
	q.fail = t.Fatalf
	q.c.look, q.c.paused = q.enqueue, func(key cache.ObjectName) bool { return q.paused[key] }
	clients, kube := fake.NewSimpleClientset(), kubefake.NewSimpleClientset()
	clients.PrependReactor("*", "networkports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := answer(q, action, q.ports, q.showPort, func(port *cloudteamv1.NetworkPort, patch patch) {
			port.Status.BoundTo = patch.Status.BoundTo
		})
		return true, obj, err
	})
	kube.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		obj, err := answer(q, action, q.pods, q.showPod, func(pod *corev1.Pod, patch patch) {
			pod.Status.Conditions = append(pod.Status.Conditions[:0], patch.Status.Conditions...)
			for key, value := range patch.Metadata.Annotations {
				pod.Annotations[key] = value
				pod.Spec.SchedulingGates = nil
			}
		})
		return true, obj, err
	})
	q.c.ports, q.c.pods = versioned.Interface(clients).CloudteamV1(), kubernetes.Interface(kube).CoreV1()
	for _, set := range []string{"web-1", "web-2"} {
		must(t, q.c.caches.Informers.ReplicaSets.Informer().GetIndexer().Add(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: set, UID: types.UID(set), OwnerReferences: controlledBy("Deployment", "web")}}))
	}
	return q
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func controlledBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)},
	}
}

// patch is what the controller writes.
type patch struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		BoundTo    *cloudteamv1.PortBinding `json:"boundTo"`
		Conditions []corev1.PodCondition    `json:"conditions"`
	} `json:"status"`
}

// answer is what the API server answers to a read or a patch. A patch holds while the object is as it was.
func answer[T interface {
	metav1.Object
	runtime.Object
}](
	q *queueing, action clienttesting.Action, stored map[string]T, show func(was, is T), write func(T, patch),
) (runtime.Object, error) {
	named, ok := action.(interface{ GetName() string })
	if !ok {
		return nil, fmt.Errorf("%s is not played", action.GetVerb())
	}
	was, exists := stored[named.GetName()]
	if !exists {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, named.GetName())
	}
	sent, ok := action.(clienttesting.PatchAction)
	if !ok {
		return was.DeepCopyObject(), nil
	}
	var p patch
	if err := json.Unmarshal(sent.GetPatch(), &p); err != nil {
		return nil, err
	}
	if to := p.Status.BoundTo; q.refuse() || to != nil && q.spoilt[to.Name] {
		return nil, errors.New("refused")
	}
	if p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != was.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, named.GetName(), errors.New("it has changed"))
	}
	is := was.DeepCopyObject().(T)
	write(is, p)
	show(was, is)
	return is.DeepCopyObject(), nil
}

// enqueue puts a key on the queue, where it is once.
func (q *queueing) enqueue(key cache.ObjectName) {
	q.enqueued++
	if !slices.Contains(q.queue, key) {
		q.queue = append(q.queue, key)
	}
}

func (q *queueing) stamp(obj metav1.Object) {
	q.version++
	obj.SetResourceVersion(strconv.Itoa(q.version))
}

// showPort stores a port, and has the cache and its handler hear of it by and by. was is nil for a new one.
func (q *queueing) showPort(was, is *cloudteamv1.NetworkPort) {
	q.stamp(is)
	q.ports[is.Name] = is
	q.news = append(q.news, func() {
		if err := q.c.portIndexer.Update(is); err != nil {
			q.fail("%v", err)
		}
		q.tell(q.c.keysOfPort, was, is, was == nil)
	})
}

// showPod is showPort for a Pod. is is nil for one that is gone.
func (q *queueing) showPod(was, is *corev1.Pod) {
	if is == nil {
		delete(q.pods, was.Name)
		q.news = append(q.news, func() {
			if err := q.c.podIndexer.Delete(was); err != nil {
				q.fail("%v", err)
			}
			q.tell(q.c.keysOfPod, nil, was, true)
		})
		return
	}
	q.stamp(is)
	q.pods[is.Name] = is
	q.news = append(q.news, func() {
		if err := q.c.podIndexer.Update(is); err != nil {
			q.fail("%v", err)
		}
		q.tell(q.c.keysOfPod, was, is, was == nil)
	})
}

// tell is what controller.Loop's handlers do.
func (q *queueing) tell(keysOf func(metav1.Object) []cache.ObjectName, was, is metav1.Object, alone bool) {
	if !alone {
		for _, key := range keysOf(was) {
			q.enqueue(key)
		}
	}
	for _, key := range keysOf(is) {
		q.enqueue(key)
	}
}

// hear has the caches hear of the next change.
func (q *queueing) hear() bool {
	if len(q.news) == 0 {
		return false
	}
	next := q.news[0]
	q.news = q.news[1:]
	next()
	return true
}

// work syncs the key at a place of the queue.
func (q *queueing) work(at int) bool {
	if len(q.queue) == 0 {
		return false
	}
	at %= len(q.queue)
	key := q.queue[at]
	q.queue = slices.Delete(q.queue, at, at+1)
	if q.paused[key] {
		q.c.heldBack(key)
		return true
	}
	result, err := q.c.sync(q.ctx, key)
	switch {
	case err != nil:
		q.paused[key] = true
	case result.RequeueAfter > 0 && result.RequeueAfter <= behindPause:
		q.later[key] = true
	}
	return true
}

// wait lets the pauses of failures and the short ones pass. The long ones, after which a Pod that waits looks by
// itself, do not.
func (q *queueing) wait() bool {
	keys := slices.Collect(maps.Keys(q.paused))
	keys = append(keys, slices.Collect(maps.Keys(q.later))...)
	slices.SortFunc(keys, func(a, b cache.ObjectName) int { return strings.Compare(a.Name, b.Name) })
	keys = slices.DeleteFunc(keys, func(key cache.ObjectName) bool { return q.spoilt[key.Name] })
	for _, key := range keys {
		delete(q.paused, key)
		delete(q.later, key)
		q.enqueue(key)
	}
	return len(keys) > 0
}

// settle runs everything until there is nothing to do. It fails where that takes more than a number of syncs.
func (q *queueing) settle(most int) {
	for range most {
		if !q.hear() && !q.work(0) && !q.wait() {
			return
		}
	}
	q.fail("it does not come to rest: %d keys, %d changes", len(q.queue), len(q.news))
}

// addPod adds a Pod of a ReplicaSet that declares networks, the i-th.
func (q *queueing) addPod(i int, set, declares string) {
	name := fmt.Sprintf("%s-%d", set, i)
	q.showPod(nil, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID(name), OwnerReferences: controlledBy("ReplicaSet", set),
			CreationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(i) * time.Second)),
			Annotations:       map[string]string{selection.Annotation: declares},
		},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}},
	})
}

// addPort adds a port of the Deployment's pool that is being made, the i-th on a network.
func (q *queueing) addPort(network string, i int) {
	port := portOf(fmt.Sprintf("web-%s-%d", network, i))
	port.OwnerReferences = controlledBy("Deployment", "web")
	port.Status.Addresses[0].Address = fmt.Sprintf("192.168.%d.%d/16", i/256, i%256)
	q.showPort(nil, port)
}

// readyPort makes a port usable.
func (q *queueing) readyPort(name string) {
	is := q.ports[name].DeepCopy()
	is.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	q.showPort(q.ports[name], is)
}

// waiting are the names of the Pods without their ports.
func (q *queueing) waiting() []string {
	var names []string
	for name, pod := range q.pods {
		if !consumer.Allocated(pod) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestFreePortsBringAsManyPods counts what is put on the queue while 500 Pods of one Deployment wait for 500 ports:
// some for each Pod and each port, and not all Pods for each port.
func TestFreePortsBringAsManyPods(t *testing.T) {
	const n = 500
	for name, burst := range map[string]bool{
		"ports that come one after the other": false,
		"ports that come at once":             true,
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueueing(t, "net")
			for i := range n {
				q.addPod(i, "web-1", "net")
				q.addPort("net", i)
			}
			q.settle(20 * n)
			q.enqueued = 0
			for i := range n {
				q.readyPort(fmt.Sprintf("web-net-%d", i))
				if !burst {
					q.settle(20 * n)
				}
			}
			for burst && q.hear() {
			}
			q.settle(20 * n)
			if left := q.waiting(); len(left) > 0 {
				t.Errorf("%d Pods still wait", len(left))
			}
			// For each port: its readiness and its binding, each as it was and as it is. For each Pod: its allocation, as it
			// was and as it is, and the look that it passes on.
			if most := 12 * n; q.enqueued > most {
				t.Errorf("%d keys were put on the queue, want at most %d", q.enqueued, most)
			}
			t.Logf("%d keys were put on the queue", q.enqueued)
		})
	}
}

// A Pod on which the code trips holds up no other one, as controller.Loop has it.
func TestAPodWhoseSyncPanicsHasAnotherOneLook(t *testing.T) {
	q := newQueueing(t, "net")
	for i := range 2 {
		q.addPod(i, "web-1", "net")
		q.addPort("net", i)
	}
	q.settle(100)
	// The first in line has to free first what a former Pod of its name had.
	left := q.ports["web-net-1"].DeepCopy()
	left.Status.BoundTo = &cloudteamv1.PortBinding{Kind: kind.Kind, Name: "web-1-0", UID: "former"}
	q.showPort(q.ports["web-net-1"], left)
	q.readyPort("web-net-0")
	for q.hear() {
	}
	q.queue = []cache.ObjectName{{Namespace: "team", Name: "web-1-0"}}
	q.refuse = func() bool { panic("broken by a test") }
	func() {
		defer func() { _ = recover() }()
		q.work(0)
	}()
	want := []cache.ObjectName{{Namespace: "team", Name: "web-1-1"}}
	if diff := cmp.Diff(want, q.queue); diff != "" {
		t.Errorf("those who are to look (-want +got):\n%s", diff)
	}
}

// A turn that was passed to a Pod while its sync ran, and failed then, is another's, long before the pause is over.
func TestATurnDoesNotWaitForAPause(t *testing.T) {
	q := newQueueing(t, "net")
	for i := range 2 {
		q.addPod(i, "web-1", "net")
		q.addPort("net", i)
	}
	q.settle(100)
	q.readyPort("web-net-0")
	for q.hear() {
	}
	first := cache.ObjectName{Namespace: "team", Name: "web-1-0"}
	if diff := cmp.Diff([]cache.ObjectName{first}, q.queue); diff != "" {
		t.Fatalf("whose turn it is (-want +got):\n%s", diff)
	}
	q.paused[first] = true
	for q.work(0) {
	}
	for q.hear() {
	}
	if diff := cmp.Diff([]string{"web-1-0"}, q.waiting()); diff != "" {
		t.Errorf("those who wait (-want +got):\n%s", diff)
	}
}

// TestNoPortIsLeftWhileAPodWaits runs changes, their events and syncs through each other in any order. When all is
// quiet, without a Pod's having looked by itself, no Pod waits for what the free ports could serve.
func TestNoPortIsLeftWhileAPodWaits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newQueueing(t, "a", "b")
		q.fail = rt.Fatalf
		pods, ports, refusals := 0, 0, 0
		q.refuse = func() bool {
			refused := refusals > 0
			refusals = max(0, refusals-1)
			return refused
		}
		anyPod := func(rt *rapid.T) *corev1.Pod {
			if len(q.pods) == 0 {
				rt.Skip("there is none")
			}
			return q.pods[rapid.SampledFrom(slices.Sorted(maps.Keys(q.pods))).Draw(rt, "pod")]
		}
		hear := func(*rapid.T) { q.hear() }
		work := func(rt *rapid.T) { q.work(rapid.IntRange(0, 9).Draw(rt, "at")) }
		rt.Repeat(map[string]func(*rapid.T){
			"a Pod is created": func(rt *rapid.T) {
				set := rapid.SampledFrom([]string{"web-1 a", "web-1 a", "web-2 a,b", "web-2 b"}).Draw(rt, "set")
				name, declares, _ := strings.Cut(set, " ")
				q.addPod(pods, name, declares)
				pods++
			},
			"a port is made": func(rt *rapid.T) {
				q.addPort(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "network"), ports)
				ports++
			},
			"a port is ready": func(rt *rapid.T) {
				if len(q.ports) == 0 {
					rt.Skip("there is none")
				}
				q.readyPort(rapid.SampledFrom(slices.Sorted(maps.Keys(q.ports))).Draw(rt, "port"))
			},
			"a Pod goes":        func(rt *rapid.T) { q.showPod(anyPod(rt), nil) },
			"a Pod is spoilt":   func(rt *rapid.T) { q.spoilt[anyPod(rt).Name] = true },
			"writes are failed": func(rt *rapid.T) { refusals = rapid.IntRange(1, 3).Draw(rt, "times") },
			"a cache hears 1":   hear,
			"a cache hears 2":   hear,
			"a key is synced 1": work,
			"a key is synced 2": work,
			"a key is synced 3": work,
			"a pause is over":   func(*rapid.T) { q.wait() },
		})
		refusals = 0
		q.settle(10_000)

		free := map[string]int{}
		for _, port := range q.ports {
			if conditionOf(port) == usable && port.Status.BoundTo == nil {
				free[port.Spec.NetworkName]++
			}
		}
		for _, name := range q.waiting() {
			if q.spoilt[name] {
				continue
			}
			lacks := strings.Split(q.pods[name].Annotations[selection.Annotation], ",")
			for _, port := range q.ports {
				if boundTo(port) == q.pods[name].UID {
					lacks = slices.DeleteFunc(lacks, func(network string) bool { return network == port.Spec.NetworkName })
				}
			}
			if !slices.ContainsFunc(lacks, func(network string) bool { return free[network] == 0 }) {
				rt.Fatalf("Pod %s waits while ports are free: %v", name, free)
			}
		}
	})
}
