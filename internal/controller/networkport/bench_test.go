package networkport

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// rest makes a controller with a number of ports of one Network, all as declared, and gives their keys.
func rest(b *testing.B, ports int) (c *Controller, keys []cache.ObjectName) {
	b.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	v1 := factory.Cloudteam().V1()
	inventory := controllertest.Converged{Where: here, Owned: map[string]plan.Observed{}}
	c, err := NewController(
		nil, v1.NetworkPorts(), v1.Networks(), nil, inventory, &record.FakeRecorder{}, owner.Cluster, nil, nil)
	expect.NoError(b, err)
	expect.NoError(b, v1.Networks().Informer().GetIndexer().Add(exampleNetwork()))
	for i := range ports {
		port := example()
		port.Name, port.UID = fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))
		port.Finalizers = []string{cloudteamv1.PortFinalizer}
		of := plan.Owner{Cluster: owner.Cluster, Object: string(port.UID)}
		observed := plan.Observed{Ports: []plan.ObservedPort{{
			ID: "port-" + port.Name, Revision: 1, NetworkID: "net-1", PortAttributes: plan.PortAttributes{
				Name: port.Name, Description: of.Marker(), AdminStateUp: true, MAC: "fa:16:3e:00:00:01",
				Addresses: []plan.PortAddress{at(fmt.Sprintf("192.168.%d.%d", 1+i/250, 1+i%250))},
			},
		}}}
		inventory.Owned[of.Object] = observed
		declared, err := declarationOf(v1.Networks().Lister(), nil, nil, limits{}, port, of)
		expect.NoError(b, err)
		show(port, declared, observed)
		port.Status.ObservedGeneration, port.Status.AppliedGeneration = 1, 1
		port.Status.Cloud = new(cloudteamv1.CloudStatus(here))
		port.Status.Conditions = controller.SetState(
			nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, "The port is as declared"))
		expect.NoError(b, v1.NetworkPorts().Informer().GetIndexer().Add(port))
		keys = append(keys, cache.MetaObjectToName(port))
	}
	return c, keys
}

// BenchmarkSyncAtRest measures the sync of a NetworkPort that is as declared.
func BenchmarkSyncAtRest(b *testing.B) {
	c, keys := rest(b, 1000)
	// A write would panic: there is no client.
	controllertest.BenchmarkSyncs(b, keys, func(key cache.ObjectName) error {
		_, err := c.Sync(b.Context(), key)
		return err
	})
}
