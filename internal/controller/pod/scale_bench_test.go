package pod

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// BenchmarkAPoolOfAThousand measures what one event costs where a thousand Pods of one Deployment wait for a thousand
// ports: to name the Pods that a free port concerns, and to sync one of them while no port is ready, or all are.
func BenchmarkAPoolOfAThousand(b *testing.B) {
	const n = 1000
	for state, ready := range map[string]bool{"pending": false, "usable": true} {
		network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
		network.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
		c := newIdle(b, network)
		owner := func(kind, name string) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
		}
		show := func(informer cache.SharedIndexInformer, object any) {
			expect.NoError(b, informer.GetIndexer().Add(object))
		}
		from := c.caches.Informers
		show(from.ReplicaSets.Informer(), &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web-1", UID: "web-1", OwnerReferences: owner("Deployment", "web")}})
		var port *cloudteamv1.NetworkPort
		for i := range n {
			port = portOf(fmt.Sprintf("web-net-%d", i))
			port.OwnerReferences = owner("Deployment", "web")
			port.Status.Addresses[0].Address = fmt.Sprintf("192.168.%d.%d/16", i/256, i%256)
			if ready {
				port.Status.Conditions = network.Status.Conditions
			}
			show(from.Ports.Informer(), port)
			show(from.Pods.Informer(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: fmt.Sprintf("web-1-%d", i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Now(),
				OwnerReferences: owner("ReplicaSet", "web-1"), Annotations: map[string]string{selection.Annotation: "net"},
			}})
		}
		key := cache.NewObjectName("team", "web-1-7")
		b.Run("naming Pods, "+state, func(b *testing.B) {
			for b.Loop() {
				c.keysOfPort(port)
			}
		})
		b.Run("syncing a Pod, "+state, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.sync(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
