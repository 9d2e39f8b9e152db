package network

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// inTheCloud is where the credentials lead.
var inTheCloud = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}

// rest makes a controller with a number of Networks, each with one subnet and all as declared, and gives their keys.
func rest(tb testing.TB, networks int) (c *Controller, keys []cache.ObjectName) {
	tb.Helper()
	informer := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0).Cloudteam().V1().Networks()
	inventory := controllertest.Converged{Where: inTheCloud, Owned: map[string]plan.Observed{}}
	c, err := NewController(nil, informer, nil, inventory, &record.FakeRecorder{}, "c1", Options{})
	expect.NoError(tb, err)
	for i := range networks {
		obj := &cloudteamv1.Network{}
		obj.Namespace, obj.Name, obj.UID = "team", fmt.Sprintf("net-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		obj.Generation, obj.Finalizers = 1, []string{cloudteamv1.Finalizer}
		obj.Spec.CIDR = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
		obj.Spec.Gateway = fmt.Sprintf("10.%d.%d.1", i/256, i%256)
		owner := plan.Owner{Cluster: "c1", Object: string(obj.UID)}
		spec, err := declare.Network(obj, owner)
		expect.NoError(tb, err)
		n := plan.ObservedNetwork{ID: "net-" + obj.Name, Revision: 1, Attributes: spec.Attributes()}
		n.MTU = 1450
		n.Subnets = []plan.ObservedSubnet{{
			ID: "sub-" + obj.Name, Name: obj.Name, Description: owner.Marker(), Subnet: spec.Subnets[0],
		}}
		observed := plan.Observed{Networks: []plan.ObservedNetwork{n}}
		inventory.Owned[owner.Object] = observed
		show(obj, declaration{Spec: spec}, owner, observed)
		obj.Status.ObservedGeneration, obj.Status.AppliedGeneration = 1, 1
		obj.Status.Cloud = new(cloudteamv1.CloudStatus(inTheCloud))
		obj.Status.Conditions = controller.SetState(
			nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, "The network is as declared"))
		expect.NoError(tb, informer.Informer().GetIndexer().Add(obj))
		keys = append(keys, cache.MetaObjectToName(obj))
	}
	return c, keys
}

// BenchmarkSyncAtRest measures the sync of a Network that is as declared.
func BenchmarkSyncAtRest(b *testing.B) {
	c, keys := rest(b, 1000)
	// A write would panic: there is no client.
	controllertest.BenchmarkSyncs(b, keys, func(key cache.ObjectName) error {
		_, err := c.Sync(b.Context(), key)
		return err
	})
}
