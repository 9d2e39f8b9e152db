package consumer

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
)

// newCaches makes caches that hold nothing.
func newCaches(t *testing.T) *Caches {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	kubeFactory := kubeinformers.NewSharedInformerFactory(kubefake.NewSimpleClientset(), 0)
	caches, err := NewCaches(Informers{
		Networks:    factory.Cloudteam().V1().Networks(),
		Ports:       factory.Cloudteam().V1().NetworkPorts(),
		Pods:        kubeFactory.Core().V1().Pods(),
		ReplicaSets: kubeFactory.Apps().V1().ReplicaSets(),
		Deployments: kubeFactory.Apps().V1().Deployments(),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return caches
}

// Anybody can write any UID into an owner reference, in a namespace of their own.
func TestPodsOfADeploymentAreOfItsNamespace(t *testing.T) {
	caches := newCaches(t)
	add := func(store cache.Indexer, obj any) {
		if err := store.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"team", "evil"} {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web-1", UID: types.UID("set-of-" + namespace), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)},
			}}}
		add(caches.Informers.ReplicaSets.Informer().GetIndexer(), set)
		for _, in := range []string{"team", "evil"} {
			add(caches.Informers.Pods.Informer().GetIndexer(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: in, Name: "pod-of-" + namespace, Annotations: map[string]string{selection.Annotation: "net"},
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: set.UID, Controller: new(true)},
				}}})
		}
	}
	pods := caches.PodsOf("team", "web")
	if len(pods) != 1 || pods[0].Namespace != "team" || pods[0].Name != "pod-of-team" {
		t.Errorf("got %d Pods: %v", len(pods), pods)
	}
}

// A Deployment that never declared a network costs no look at its Pods.
func TestPodsThatUseNoNetworksAreNotIndexed(t *testing.T) {
	caches := newCaches(t)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web-1", UID: "set", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)},
		}}}
	if err := caches.Informers.ReplicaSets.Informer().GetIndexer().Add(set); err != nil {
		t.Fatal(err)
	}
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
		if err := pods.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, pod := range caches.PodsOf("team", "web") {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"allocated", "declares", "gated"}, names); diff != "" {
		t.Errorf("Pods of the Deployment (-want +got):\n%s", diff)
	}
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
		"a Pod of nobody's has none":         {known: true},
		"a Pod of a ReplicaSet has its":      {set, owner("apps/v1", "Deployment", "web"), "web", true},
		"another version is the same":        {set, owner("apps/v1beta1", "Deployment", "web"), "web", true},
		"a ReplicaSet of nobody's has none":  {set, &metav1.OwnerReference{}, "", true},
		"another's Deployment is not one":    {set, owner("example.com/v1", "Deployment", "web"), "", true},
		"another's ReplicaSet is not one":    {owner("example.com/v1", "ReplicaSet", "web-1"), nil, "", true},
		"what has not come yet is not known": {set, nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			caches := newCaches(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1-a"}}
			if c.pod != nil {
				pod.OwnerReferences = []metav1.OwnerReference{*c.pod}
			}
			if c.set != nil {
				replicaSet := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: "uid",
					OwnerReferences: []metav1.OwnerReference{*c.set}}}
				if err := caches.Informers.ReplicaSets.Informer().GetIndexer().Add(replicaSet); err != nil {
					t.Fatal(err)
				}
			}
			got, known := caches.DeploymentOf(pod)
			if known != c.known || (got == nil) != (c.want == "") || got != nil && got.Name != c.want {
				t.Errorf("got %+v, %t; want %q, %t", got, known, c.want, c.known)
			}
		})
	}
}
