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

// rest makes a controller with a number of ports of one Network, all as declared, and gives their keys. The events of
// its informers do not run: handle is the Network's handler.
func rest(b *testing.B, ports int) (c *Controller, keys []cache.ObjectName, handle cache.ResourceEventHandler) {
	b.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	v1 := factory.Cloudteam().V1()
	inventory := controllertest.Converged{Where: here, Owned: map[string]plan.Observed{}}
	c, err := NewController(
		nil, v1.NetworkPorts(), v1.Networks(), nil, inventory, &record.FakeRecorder{}, owner.Cluster, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
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
		if err != nil {
			b.Fatal(err)
		}
		show(port, declared, observed)
		port.Status.ObservedGeneration, port.Status.AppliedGeneration = 1, 1
		port.Status.Cloud = new(cloudteamv1.CloudStatus(here))
		port.Status.Conditions = controller.SetState(
			nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, "The port is as declared"))
		expect.NoError(b, v1.NetworkPorts().Informer().GetIndexer().Add(port))
		keys = append(keys, cache.MetaObjectToName(port))
	}
	return c, keys, networkHandler(c, v1.NetworkPorts().Informer().GetIndexer(), v1.Networks().Lister())
}

// BenchmarkSyncAtRest measures the sync of a NetworkPort that is as declared.
func BenchmarkSyncAtRest(b *testing.B) {
	c, keys, _ := rest(b, 1000)
	// A write would panic: there is no client.
	controllertest.BenchmarkSyncs(b, keys, func(key cache.ObjectName) error {
		_, err := c.Sync(b.Context(), key)
		return err
	})
}

// BenchmarkNetworkEvent is what an update of a Network with 1000 ports costs, before any of them is looked at.
func BenchmarkNetworkEvent(b *testing.B) {
	for name, change := range map[string]func(*cloudteamv1.Network){
		"its address counts": func(n *cloudteamv1.Network) { n.Status.Subnets[0].UsedAddresses = new(int64(9)) },
		"its MTU":            func(n *cloudteamv1.Network) { n.Status.MTU = 9000 },
	} {
		b.Run(name, func(b *testing.B) {
			c, keys, handle := rest(b, 1000)
			for _, key := range keys {
				if _, err := c.Sync(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
			was, is := exampleNetwork(), of(exampleNetwork(), change)
			was.ResourceVersion, is.ResourceVersion = "1", "2"
			b.ReportAllocs()
			for b.Loop() {
				handle.OnUpdate(was, is)
			}
			b.ReportMetric(float64(c.Len()), "keys")
		})
	}
}
