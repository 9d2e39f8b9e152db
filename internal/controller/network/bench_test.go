package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// atRest is an Inventory in which each object's network is as declared.
type atRest map[string]network.Observed

// Identity is owned.Inventory's.
func (atRest) Identity(context.Context) (neutron.Identity, error) {
	return neutron.Identity{ProjectID: "p1"}, nil
}

// Observed is owned.Inventory's.
func (a atRest) Observed(_ context.Context, owner network.Owner, _ time.Time) (network.Observed, error) {
	return a[owner.Object], nil
}

// Reread is owned.Inventory's.
func (atRest) Reread(context.Context, network.Resource) (bool, error) { return true, nil }

// Apply is owned.Inventory's.
func (atRest) Apply(context.Context, network.Change) (network.Change, error) {
	return nil, errors.New("nothing is to be written at rest")
}

// Blockers is owned.Inventory's.
func (atRest) Blockers(context.Context, network.Step) (neutron.Blockers, error) { return neutron.Blockers{}, nil }

// BenchmarkSyncAtRest is what a look at a Network costs that is as declared, one of a thousand.
func BenchmarkSyncAtRest(b *testing.B) {
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	v1 := factory.Cloudteam().V1()
	inventory := atRest{}
	// A write would panic: there is no client.
	c, err := NewController(nil, v1.Networks(), v1.NetworkPorts(), inventory, &record.FakeRecorder{}, specCluster)
	if err != nil {
		b.Fatal(err)
	}
	var keys []cache.ObjectName
	for i := range 1000 {
		obj := networkOf(specOf(cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}))
		obj.Name, obj.UID, obj.Generation = fmt.Sprintf("net-%d", i), types.UID(fmt.Sprintf("uid-%d", i)), 1
		obj.Finalizers = []string{cloudteamv1.Finalizer}
		owner := network.Owner{Cluster: specCluster, Object: string(obj.UID)}
		spec, err := desired(obj, owner)
		if err != nil {
			b.Fatal(err)
		}
		attributes := spec.Attributes()
		attributes.MTU = 1450
		subnet := spec.Subnets[0]
		subnet.Pools = []network.Range{{
			Start: netip.MustParseAddr("192.168.0.2"), End: netip.MustParseAddr("192.168.255.254"),
		}}
		observed := network.Observed{Networks: []network.ObservedNetwork{{
			ID: "net-" + obj.Name, Revision: 2, Attributes: attributes,
			Subnets: []network.ObservedSubnet{{
				ID: "sub-" + obj.Name, Name: obj.Name, Description: owner.Marker(), Subnet: subnet.Canonical(),
			}},
		}}}
		inventory[owner.Object] = observed
		show(obj, declaration(spec), owner, observed)
		obj.Status.ObservedGeneration, obj.Status.AppliedGeneration = 1, 1
		obj.Status.Cloud = new(cloudteamv1.CloudStatus(neutron.Identity{ProjectID: "p1"}))
		obj.Status.Conditions = controller.SetState(
			nil, 1, controller.Ready(cloudteamv1.ReasonAvailable, "The network is as declared"))
		if err := v1.Networks().Informer().GetIndexer().Add(obj); err != nil {
			b.Fatal(err)
		}
		keys = append(keys, cache.MetaObjectToName(obj))
	}
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := c.Sync(ctx, keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
