package managed_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
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
	t       *testing.T
	calls   *controllertest.CallLog
	api     *controllertest.APIServer
	clients *fake.Clientset
	cloud   *controllertest.Cloud
	events  *controllertest.Events
	c       *networkcontroller.Controller
}

// inWorld runs a test in a bubble of synthetic time, in which the given objects exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...*cloudteamv1.Network) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		calls := &controllertest.CallLog{}
		w := &world{
			t: t, calls: calls, api: controllertest.NewAPIServer(calls), clients: fake.NewSimpleClientset(),
			cloud: controllertest.NewCloud(calls, here, clusterUID), events: &controllertest.Events{},
		}
		controllertest.Serve(w.api, w.clients, cloudteamv1.SchemeGroupVersion.WithResource("networks"),
			controllertest.Rules[*cloudteamv1.Network]{Line: lineOf, Admit: admit})
		for _, obj := range objects {
			w.api.Create(t, obj)
		}
		w.restart()
		test(t, w)
	})
}

// lineOf is a write as it is in the calls.
func lineOf(action clienttesting.Action) string {
	if action.GetSubresource() != "" {
		return "write " + action.GetSubresource()
	}
	if patch, ok := action.(clienttesting.PatchAction); ok && !strings.Contains(string(patch.GetPatch()), `"finalizers"`) {
		return "write annotations"
	}
	return "write finalizers"
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

// restart replaces the controller by a new one, which knows nothing but what the API server and the cloud hold.
func (w *world) restart() { w.t.Helper(); w.restartOn(w.cloud) }

// restartOn is restart with an Inventory of its own.
func (w *world) restartOn(inventory managed.Inventory) {
	w.t.Helper()
	factory := informers.NewSharedInformerFactory(w.clients, 0)
	c, err := networkcontroller.NewController(
		w.clients.CloudteamV1(), factory.Cloudteam().V1().Networks(), nil, inventory, w.events, clusterUID,
		networkcontroller.Options{AddressesLow: 0.1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	ctx, cancel := context.WithCancel(controllertest.Logged(w.t))
	factory.StartWithContext(ctx)
	w.t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		controllertest.Dismiss(w.t, c.Loop)
	})
	synctest.Wait()
}

// sync syncs one key when the informer has come to rest, and holds that it changes nothing that others own: the objects
// of the lister and what the Inventory handed out.
func (w *world) sync(key cache.ObjectName) error {
	w.t.Helper()
	synctest.Wait()
	checkUntouched := controllertest.Untouched(w.t, w.c.Indexer())
	_, err := w.c.Sync(controllertest.Logged(w.t), key)
	checkUntouched()
	w.cloud.CheckUntouched(w.t)
	synctest.Wait()
	return err
}

// mustSync is sync of the example without an error.
func (w *world) mustSync() {
	w.t.Helper()
	if err := w.sync(exampleKey); err != nil {
		w.t.Fatalf("sync: %v", err)
	}
}

// syncFails is sync of the example with an error.
func (w *world) syncFails() {
	w.t.Helper()
	if w.sync(exampleKey) == nil {
		w.t.Fatal("sync: no error, so that the key would not be tried again")
	}
}

// get is the example at the API server.
func (w *world) get() *cloudteamv1.Network {
	w.t.Helper()
	return controllertest.Get[*cloudteamv1.Network](w.t, w.api, exampleKey)
}

// exists reports whether the API server has the example.
func (w *world) exists() bool {
	_, exists := controllertest.Find[*cloudteamv1.Network](w.api, exampleKey)
	return exists
}

// edit changes the example as its user would.
func (w *world) edit(change func(*cloudteamv1.Network)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, exampleKey, change)
}

// delete deletes the example as its user would: it stays until its finalizers are off.
func (w *world) delete() {
	w.t.Helper()
	w.api.Delete(w.t, w.get())
}

// deleteAsNextGeneration is delete by an API server that counts the deletion as a generation.
func (w *world) deleteAsNextGeneration() {
	w.t.Helper()
	next := w.get().Generation + 1
	w.delete()
	w.edit(func(obj *cloudteamv1.Network) { obj.Generation = next })
}

// deleteByForce takes the example's finalizers off and deletes it.
func (w *world) deleteByForce() {
	w.t.Helper()
	w.api.DeleteByForce(w.t, w.get())
}

// status is the example's status at the API server.
func (w *world) status() cloudteamv1.NetworkStatus {
	w.t.Helper()
	return w.get().Status
}

// wantState holds the example's conditions against "Ready=True Available" and the like.
func (w *world) wantState(want string) {
	w.t.Helper()
	if got := stateText(w.status()); got != want {
		ready := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionReady)
		w.t.Errorf("state is %q, want %q; condition Ready: %+v", got, want, ready)
	}
}

func stateText(s cloudteamv1.NetworkStatus) string {
	var texts []string
	reason := ""
	for _, c := range s.Conditions {
		if c.Type == cloudteamv1.ConditionReady || c.Status != metav1.ConditionFalse {
			texts = append(texts, c.Type+"="+string(c.Status))
		}
		reason = c.Reason
	}
	slices.Sort(texts)
	return strings.Join(append(texts, reason), " ")
}
