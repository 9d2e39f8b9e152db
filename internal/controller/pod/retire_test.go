package pod

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// A port of db-2 goes when no Pod will come back to it, and not before.
func TestRetire(t *testing.T) {
	set := func(replicas int32, edit ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db", UID: "db"}}
		s.Spec.Replicas = new(replicas)
		for _, e := range edit {
			e(s)
		}
		return s
	}
	pod := func(owners []metav1.OwnerReference) *corev1.Pod {
		p := declaringPod("team", owners)
		p.Name = "db-2"
		return p
	}
	going := openNetwork()
	going.DeletionTimestamp = &metav1.Time{}
	retain := func(s *appsv1.StatefulSet) {
		s.Annotations = map[string]string{cloudteamv1.AnnotationPortsWhenScaled: cloudteamv1.PortsRetain}
	}
	deleted := func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{} }
	for name, c := range map[string]struct {
		bound bool
		// cached are in the caches, with the port, and live is the StatefulSet at the API server.
		cached []runtime.Object
		live   *appsv1.StatefulSet
		want   bool
		stale  bool
	}{
		"a Pod is bound to it":    {bound: true},
		"the StatefulSet is gone": {want: true},
		"it has the number":       {cached: []runtime.Object{set(3)}},
		"it has one replica, as none is written": {cached: []runtime.Object{set(1, func(s *appsv1.StatefulSet) {
			s.Spec.Replicas = nil
		})}, want: true},
		"it was scaled down":                 {cached: []runtime.Object{set(2)}, live: set(2), want: true},
		"it was scaled up again":             {cached: []runtime.Object{set(2)}, live: set(3), stale: true},
		"it was just created again":          {live: set(3), stale: true},
		"it keeps what it is scaled down by": {cached: []runtime.Object{set(0, retain)}},
		"it begins with another number": {cached: []runtime.Object{set(3, func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
		})}, want: true},
		"it counts from one": {cached: []runtime.Object{set(2, func(s *appsv1.StatefulSet) {
			s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
		})}},
		"it is being deleted, and would keep it": {
			cached: []runtime.Object{set(3, retain, deleted)}, live: set(3, deleted), want: true},
		"its Pod waits for it": {cached: []runtime.Object{pod(controlledBy("apps/v1", "StatefulSet", "db", "db"))}},
		"another's Pod of the name": {
			cached: []runtime.Object{pod(controlledBy("apps/v1", "StatefulSet", "other", "db"))}, want: true},
		"a Pod of the name that nobody controls": {cached: []runtime.Object{pod(nil)}, want: true},
		"its Network is being deleted":           {cached: []runtime.Object{set(3), going}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			slot := consumer.Slot{Namespace: "team", Set: "db", Number: 2}
			port := consumer.NewPortOfSlot("db-2-net-0", slot, requestFor("net"))
			port.UID = "port"
			if c.bound {
				port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "db-2", UID: "was"}
			}
			idle := newIdle(t, append(c.cached, port)...)
			if c.live != nil {
				_, err := idle.sets.StatefulSets("team").Create(t.Context(), c.live, metav1.CreateOptions{})
				expect.NoError(t, err)
			}
			key := slot.Key()
			cached, _ := idle.caches.Pods.Lister().Pods(key.Namespace).Get(key.Name)
			err := idle.retire(controllertest.Logged(t), key, cached)
			if stale := errors.Is(err, controller.ErrStale); stale != c.stale || err != nil && !stale {
				t.Fatalf("error %v, want one that the cache is old: %t", err, c.stale)
			}
			did := false
			for _, action := range idle.ports.Ports.(*fake.FakeCloudteamV1).Actions() {
				did = did || action.GetVerb() == "delete"
			}
			expect.Equal(t, c.want, did, "whether it was deleted")
		})
	}
}

// What changes for the slots of a StatefulSet wakes the Pods of its ports, also of those that are no more.
func TestAStatefulSetWakesThePodsOfItsPorts(t *testing.T) {
	port := consumer.NewPortOfSlot("db-2-net-0", consumer.Slot{Namespace: "team", Set: "db", Number: 2}, requestFor("net"))
	port.UID = "port"
	network := openNetwork()
	c := newIdle(t, port, network)
	want := cache.NewObjectName("team", "db-2")
	plain := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db"}}
	for what, keys := range map[string][]cache.ObjectName{
		"the StatefulSet":              c.keysOfStatefulSet(workloadOf(set)[0]),
		"the port":                     c.keysOfPort(port),
		"a Pod without networks of it": c.keysOfPod(plain),
	} {
		if len(keys) != 1 || keys[0] != want {
			t.Errorf("%s wakes %v, want %s", what, keys, want)
		}
	}
	on := cache.MetaObjectToName(network)
	expect.Empty(t, c.keysOfNetwork(on), "woken by a Network that stays")
	if keys := newIdle(t, port).keysOfNetwork(on); len(keys) != 1 || keys[0] != want {
		t.Errorf("a Network that is gone wakes %v, want %s", keys, want)
	}
}

// An owner reference to a StatefulSet is believed only if that one is in the Pod's namespace: else the Pod waits.
func TestAForgedStatefulSetGivesNoPort(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: "set"}}
	for name, c := range map[string]struct {
		namespace string
		owner     []metav1.OwnerReference
	}{
		"in another namespace":              {"evil", controlledBy("apps/v1", "StatefulSet", "web-1", "set")},
		"in the same one, with a false UID": {"team", controlledBy("apps/v1", "StatefulSet", "web-1", "false")},
	} {
		t.Run(name, func(t *testing.T) {
			port := consumer.NewPortOfSlot("x", consumer.Slot{Namespace: "team", Set: "web-1"}, requestFor("net"))
			port.UID = "port"
			port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
			pod := declaringPod(c.namespace, c.owner)
			pod.Name = "web-1-0"
			idle := newIdle(t, openNetwork(), set, port, pod)
			p, err := idle.reconcile(controllertest.Logged(t), cache.MetaObjectToName(pod), pod)
			if err != nil || p.reason != cloudteamv1.ReasonPortsNotReady {
				t.Errorf("the Pod is told %+v, error %v", p, err)
			}
			expect.Empty(t, idle.ports.Ports.(*fake.FakeCloudteamV1).Actions(), "what the controller did")
		})
	}
}
