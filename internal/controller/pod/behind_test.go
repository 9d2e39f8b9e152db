package pod

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// newIdle makes a controller whose caches show the objects given, and whose API server has none of them.
func newIdle(t testing.TB, shown ...runtime.Object) *Controller {
	t.Helper()
	client, kube := fake.NewSimpleClientset(), kubefake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	kubeFactory := kubeinformers.NewSharedInformerFactory(kube, 0)
	caches, err := consumer.NewCaches(consumer.Informers{
		Networks:    factory.Cloudteam().V1().Networks(),
		Ports:       factory.Cloudteam().V1().NetworkPorts(),
		Pods:        kubeFactory.Core().V1().Pods(),
		ReplicaSets: kubeFactory.Apps().V1().ReplicaSets(),
		Deployments: kubeFactory.Apps().V1().Deployments(),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewController(client.CloudteamV1(), kube.CoreV1(), caches, record.NewFakeRecorder(10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Run(ctx, 1); err != nil {
			t.Error(err)
		}
	})
	for _, object := range shown {
		var informer cache.SharedIndexInformer
		switch object.(type) {
		case *cloudteamv1.Network:
			informer = caches.Informers.Networks.Informer()
		case *cloudteamv1.NetworkPort:
			informer = caches.Informers.Ports.Informer()
		case *corev1.Pod:
			informer = caches.Informers.Pods.Informer()
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestABindingThatIsBeingTriedHoldsUpNoRelease(t *testing.T) {
	free, bound := portOf("web-net-0"), portOf("web-net-0 bound:gone version:2")
	c := newIdle(t, bound)
	c.ledger.choose(cache.NewObjectName("team", "b"), "b", requestsFor([]string{"net"}), nil,
		serving([]*cloudteamv1.NetworkPort{free}), fits)
	result, err := c.sync(t.Context(), cache.NewObjectName("team", "gone"))
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("it is not looked at again: %+v, %v", result, err)
	}
}

func TestABindingIsForgottenWhosePortIsGone(t *testing.T) {
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "b", UID: "b", ResourceVersion: "1",
		Annotations: map[string]string{selection.Annotation: "net"}}}
	key := cache.MetaObjectToName(pod)
	c := newIdle(t, network, pod)
	port := portOf("b-net-0 bound:b")
	port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	c.ledger.wrote(port, key, pod.UID)
	if _, err := c.sync(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if len(c.ledger.entries) > 0 {
		t.Errorf("the ledger has %+v", c.ledger.entries)
	}
}
