package consumer

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// newCaches makes caches that hold nothing.
func newCaches(t *testing.T) *Caches {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	kubeFactory := kubeinformers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0)
	caches, err := NewCaches(InformersOf(factory, kubeFactory), nil)
	expect.NoError(t, err)
	return caches
}

// show puts an object into the cache of its kind.
func show(t *testing.T, caches *Caches, obj metav1.Object) {
	t.Helper()
	informer := map[string]cache.SharedIndexInformer{
		"*v1.Deployment": caches.Deployments.Informer(), "*v1.ReplicaSet": caches.ReplicaSets.Informer(),
		"*v1.Pod": caches.Pods.Informer(), "*v1.NetworkPort": caches.Ports.Informer(),
	}[fmt.Sprintf("%T", obj)]
	expect.NoError(t, informer.GetIndexer().Add(obj))
}

// called is what an object is called by.
func called(namespace, name string, uid types.UID, owner ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, OwnerReferences: owner}
}

// controlledBy is an owner reference to a controller.
func controlledBy(version, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: new(true)}
}

// Anybody can write any owner reference, in a namespace of their own and in one that they share.
func TestOnlyALivingOwnerInTheSameNamespaceCounts(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: called("team", "web", "web")}
	for name, c := range map[string]struct {
		namespace string
		set       metav1.OwnerReference
		want      bool
	}{
		"the Deployment itself":                {"team", controlledBy("apps/v1", "Deployment", "web", "web"), true},
		"its UID in another namespace":         {"evil", controlledBy("apps/v1", "Deployment", "web", "web"), false},
		"a UID that is not its own":            {"team", controlledBy("apps/v1", "Deployment", "web", "other"), false},
		"its UID under another name":           {"team", controlledBy("apps/v1", "Deployment", "other", "web"), false},
		"its UID as another kind":              {"team", controlledBy("apps/v1", "StatefulSet", "web", "web"), false},
		"its UID as the kind of another group": {"team", controlledBy("example.com/v1", "Deployment", "web", "web"), false},
	} {
		t.Run(name, func(t *testing.T) {
			caches := newCaches(t)
			show(t, caches, web)
			// A stranger may have a Deployment of that name, too.
			show(t, caches, &appsv1.Deployment{ObjectMeta: called("evil", "web", "theirs")})
			set := &appsv1.ReplicaSet{ObjectMeta: called(c.namespace, "web-1", "set", c.set)}
			pod := &corev1.Pod{ObjectMeta: called(c.namespace, "web-1-a", "pod",
				controlledBy("apps/v1", "ReplicaSet", "web-1", "set"))}
			pod.Annotations = map[string]string{selection.Annotation: "net"}
			port := &cloudteamv1.NetworkPort{ObjectMeta: called(c.namespace, "web-net-0", "port", c.set)}
			for _, obj := range []metav1.Object{set, pod, port} {
				show(t, caches, obj)
			}
			deployment, _ := caches.DeploymentOf(pod)
			if got := deployment == web; got != c.want || !got && deployment != nil {
				t.Errorf("the Pod's Deployment is %v, want web: %t", deployment, c.want)
			}
			if got := caches.PodsOf(web); (len(got) == 1) != c.want {
				t.Errorf("the Deployment has the Pods %v, want one: %t", got, c.want)
			}
			if got := caches.PortsOf(web, DeploymentKind); (len(got) == 1) != c.want {
				t.Errorf("the Deployment has the ports %v, want one: %t", got, c.want)
			}
		})
	}
}

func TestAPodIsOfTheReplicaSetThatItNames(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: called("team", "web", "web")}
	for name, c := range map[string]struct {
		namespace string
		owner     metav1.OwnerReference
	}{
		"its UID in another namespace": {"evil", controlledBy("apps/v1", "ReplicaSet", "web-1", "set")},
		"its UID under another name":   {"team", controlledBy("apps/v1", "ReplicaSet", "web-2", "set")},
		"a UID that is not its own":    {"team", controlledBy("apps/v1", "ReplicaSet", "web-1", "other")},
	} {
		t.Run(name, func(t *testing.T) {
			caches := newCaches(t)
			show(t, caches, web)
			show(t, caches, &appsv1.ReplicaSet{
				ObjectMeta: called("team", "web-1", "set", controlledBy("apps/v1", "Deployment", "web", "web"))})
			pod := &corev1.Pod{ObjectMeta: called(c.namespace, "web-1-a", "pod", c.owner)}
			pod.Annotations = map[string]string{selection.Annotation: "net"}
			show(t, caches, pod)
			if deployment, known := caches.DeploymentOf(pod); deployment != nil || known {
				t.Errorf("the Pod's Deployment is %v, known: %t", deployment, known)
			}
			expect.Empty(t, caches.PodsOf(web), "the Deployment's Pods")
		})
	}
}

// A Deployment that never declared a network costs no look at its Pods.
func TestPodsThatUseNoNetworksAreNotIndexed(t *testing.T) {
	caches := newCaches(t)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web-1", UID: "set", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)},
		}}}
	expect.NoError(t, caches.Informers.ReplicaSets.Informer().GetIndexer().Add(set))
	pods := caches.Informers.Pods.Informer().GetIndexer()
	for name, uses := range map[string]func(*corev1.Pod){
		"plain":     func(*corev1.Pod) {},
		"declares":  func(pod *corev1.Pod) { pod.Annotations = map[string]string{selection.Annotation: "net"} },
		"allocated": func(pod *corev1.Pod) { pod.Annotations = map[string]string{cloudteamv1.AnnotationAllocations: "[]"} },
		"gated": func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "set", Controller: new(true)},
			}}}
		uses(pod)
		expect.NoError(t, pods.Add(pod))
	}
	var names []string
	web := &appsv1.Deployment{ObjectMeta: called("team", "web", "web")}
	for _, pod := range caches.PodsOf(web) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	expect.Equal(t, []string{"allocated", "declares", "gated"}, names, "Pods of the Deployment")
}

func TestDeploymentOf(t *testing.T) {
	owner := func(version, kind, name string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: "uid", Controller: new(true)}
	}
	set := owner("apps/v1", "ReplicaSet", "web-1")
	for name, c := range map[string]struct {
		pod, set *metav1.OwnerReference // set is nil for a ReplicaSet that is not there
		want     string
		known    bool
	}{
		"a Pod of nobody's has none":             {known: true},
		"a Pod of a ReplicaSet has its":          {set, owner("apps/v1", "Deployment", "web"), "web", true},
		"another version is the same":            {set, owner("apps/v1beta1", "Deployment", "web"), "web", true},
		"a ReplicaSet of nobody's has none":      {set, &metav1.OwnerReference{}, "", true},
		"another's Deployment is not one":        {set, owner("example.com/v1", "Deployment", "web"), "", true},
		"another's ReplicaSet is not one":        {owner("example.com/v1", "ReplicaSet", "web-1"), nil, "", true},
		"what has not come yet is not known":     {set, nil, "", false},
		"nor what has a Deployment that has not": {set, owner("apps/v1", "Deployment", "late"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			caches := newCaches(t)
			show(t, caches, &appsv1.Deployment{ObjectMeta: called("team", "web", "uid")})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1-a"}}
			if c.pod != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*c.pod}
			}
			if c.set != nil {
				replicaSet := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: "uid",
					OwnerReferences: []metav1.OwnerReference{*c.set}}}
				expect.NoError(t, caches.Informers.ReplicaSets.Informer().GetIndexer().Add(replicaSet))
			}
			got, known := caches.DeploymentOf(pod)
			if known != c.known || (got == nil) != (c.want == "") || got != nil && got.Name != c.want {
				t.Errorf("got %+v, %t; want %q, %t", got, known, c.want, c.known)
			}
		})
	}
}

func TestGatedPodsAreThoseThatWaitForOurPorts(t *testing.T) {
	caches := newCaches(t)
	for name, change := range map[string]func(*corev1.Pod){
		"waits":        func(*corev1.Pod) {},
		"no gate":      func(pod *corev1.Pod) { pod.Spec.SchedulingGates = nil },
		"other's gate": func(pod *corev1.Pod) { pod.Spec.SchedulingGates[0].Name = "example.com/other" },
		"no networks":  func(pod *corev1.Pod) { pod.Annotations = nil },
		"being deleted": func(pod *corev1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{}
		},
	} {
		pod := &corev1.Pod{ObjectMeta: called("team", name, types.UID(name))}
		pod.Annotations = map[string]string{selection.Annotation: "net"}
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		change(pod)
		show(t, caches, pod)
	}
	var got []string
	for _, pod := range caches.Gated() {
		got = append(got, pod.Name)
	}
	expect.Equal(t, []string{"waits"}, got, "gated Pods")
}
