package managed_test

import (
	"net/netip"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const clusterUID = "c1"

var (
	exampleKey = cache.NewObjectName("team", "example-network")
	here       = client.Identity{Endpoint: "https://neutron.test/", Region: "one", ProjectID: "p1"}
	elsewhere  = client.Identity{Endpoint: "https://other.test/", Region: "two", ProjectID: "p2"}
)

// example is a Network as the API server holds it after a first apply.
func example() *cloudteamv1.Network {
	obj := &cloudteamv1.Network{}
	obj.Namespace, obj.Name, obj.UID, obj.Generation = exampleKey.Namespace, exampleKey.Name, "uid-1", 1
	obj.Spec.CIDR, obj.Spec.Gateway = "192.168.0.0/16", "192.168.0.1"
	return obj
}

// ownerOfExample is the marker's content of what belongs to example().
var ownerOfExample = plan.Owner{Cluster: clusterUID, Object: "uid-1"}

// world is the controller of Networks between an API server and a cloud that are both played. Its informer is real.
type world struct {
	*controllertest.World[*cloudteamv1.Network]
	c *networkcontroller.Controller
	// classes has the open class at the beginning.
	classes *controllertest.Classes
}

// inWorld runs a test in a bubble of synthetic time, in which the given objects exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...*cloudteamv1.Network) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*cloudteamv1.Network](t, exampleKey).WithNeutron(here, clusterUID)}
		controllertest.Serve(w.API, w.Clients, controllertest.Networks,
			controllertest.Rules[*cloudteamv1.Network]{Line: controllertest.WriteLine, Admit: admit})
		w.Neutron.PutPool("office", netip.MustParsePrefix("100.64.0.0/10"), 26)
		w.Neutron.PutPool("office-v6", netip.MustParsePrefix("2001:db8::/32"), 64)
		for _, obj := range objects {
			w.Create(obj)
		}
		w.classes = controllertest.NewClasses(controllertest.OpenClass())
		w.restart()
		test(t, w)
	})
}

// admit refuses the statuses that the CRD does.
func admit(_ clienttesting.Action, obj *cloudteamv1.Network) error {
	for _, c := range obj.Status.Conditions {
		if c.Reason == "" || c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse {
			kind := cloudteamv1.SchemeGroupVersion.WithKind("Network").GroupKind()
			return apierrors.NewInvalid(kind, obj.Name, nil)
		}
	}
	return nil
}

// restart replaces the controller by a new one, which knows nothing but what the API server and the cloud hold. The
// former has its informer still.
func (w *world) restart() { w.T.Helper(); w.restartOn(w.Neutron) }

// restartOn is restart with an Inventory of its own.
func (w *world) restartOn(inventory managed.Inventory) {
	w.T.Helper()
	w.NewInformers()
	c, err := networkcontroller.NewController(
		w.Clients.CloudteamV1(), w.Informers.Cloudteam().V1().Networks(), nil, inventory, w.Events, clusterUID,
		networkcontroller.Options{AddressesLow: 0.1, Classes: w.classes.Classes})
	expect.NoError(w.T, err)
	w.c = c
	w.Start(controllertest.Process{Loop: c.Loop, Sync: c.Sync, Caches: []cache.Indexer{c.Indexer()}})
}

// sync syncs the example.
func (w *world) sync() error {
	w.T.Helper()
	_, err := w.Sync(exampleKey)
	return err
}

// deleteAsNextGeneration is Delete by an API server that counts the deletion as a generation.
func (w *world) deleteAsNextGeneration() {
	w.T.Helper()
	next := w.Get().Generation + 1
	w.Delete()
	w.Edit(func(obj *cloudteamv1.Network) { obj.Generation = next })
}

// drift changes the example's network as somebody else would, and has that seen.
func (w *world) drift(change func(*plan.ObservedNetwork)) {
	w.T.Helper()
	w.Neutron.Edit(w.T, w.Neutron.Has()[0].ID, change)
	w.Neutron.Audit(w.T)
}

// status is the example's status at the API server.
func (w *world) status() cloudteamv1.NetworkStatus {
	w.T.Helper()
	return w.Get().Status
}

// wantNetworks holds how many networks are in a cloud.
func wantNetworks(t *testing.T, in *controllertest.Neutron, want int) {
	t.Helper()
	expect.Len(t, want, in.Has(), "networks in Neutron")
}
