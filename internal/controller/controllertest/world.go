package controllertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// World is everything around a controller in a unit test. A package's tests embed it in their own type, which adds
// the controller and what is particular to it. A test makes a World in a bubble of testing/synctest, in five steps:
//
//  1. NewWorld makes the clients, the API server and the recorders. WithNeutron adds a cloud.
//  2. Serve adds kinds to the API server, or rules to the kinds that it has. Create adds objects.
//  3. NewInformers makes the informers of one process. The test passes them to its NewController.
//  4. Start runs the informers. Tests that want caches behind the API server call Show instead.
//  5. Sync, MustSync and SyncFails run one sync; Run runs the workers.
//
// A restart of the process repeats the steps 3 to 5, after Stop if the first process ends. T is the kind of the object
// that the test is about, the example.
type World[T Object] struct {
	T *testing.T
	// Key is the example's.
	Key cache.ObjectName

	// Calls lists what the controller asks of the API server and of the cloud, in order.
	Calls *CallLog
	// API is the API server in front of Clients. It serves Networks and NetworkPorts, without a line in Calls.
	API     *APIServer
	Clients *fake.Clientset
	Kube    *kubefake.Clientset
	// Neutron is nil without WithNeutron.
	Neutron *Neutron
	Events  *Events

	// Resync is the resync period of the informers that NewInformers makes.
	Resync time.Duration
	// Informers and KubeInformers are those of the last process.
	Informers     informers.SharedInformerFactory
	KubeInformers kubeinformers.SharedInformerFactory

	process Process
	// ends end what runs, the last first.
	ends []func()
}

// Process is a controller as a World runs it.
type Process struct {
	Loop *controller.Loop
	Sync func(ctx context.Context, key cache.ObjectName) (controller.Result, error)
	// Caches are those whose objects a sync must not change.
	Caches []cache.Indexer
}

// NewWorld makes a World for the example of that key. All that runs in it ends with the test.
func NewWorld[T Object](t *testing.T, key cache.ObjectName) *World[T] {
	calls := &CallLog{}
	w := &World[T]{
		T: t, Key: key, Calls: calls, API: NewAPIServer(calls), Clients: fake.NewSimpleClientset(),
		Kube: kubefake.NewSimpleClientset(), Events: &Events{},
	}
	Serve(w.API, w.Clients, Networks, Rules[*cloudteamv1.Network]{})
	Serve(w.API, w.Clients, NetworkPorts, Rules[*cloudteamv1.NetworkPort]{})
	t.Cleanup(w.Stop)
	return w
}

// WithNeutron gives credentials for a project of an emulated cloud, and has the Inventory hold what belongs to the
// cluster.
func (w *World[T]) WithNeutron(credentials client.Identity, cluster string) *World[T] {
	w.Neutron = NewNeutron(w.Calls, credentials, cluster)
	return w
}

// checkUntouched fails the test where what the Inventory handed out was changed.
func (w *World[T]) checkUntouched() {
	w.T.Helper()
	if w.Neutron != nil {
		w.Neutron.CheckUntouched(w.T)
	}
}

// The resources that a World serves.
var (
	Networks     = cloudteamv1.SchemeGroupVersion.WithResource("networks")
	NetworkPorts = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	// SecurityGroups and FloatingIPs are not served by NewWorld: a test that plays with them serves them.
	SecurityGroups = cloudteamv1.SchemeGroupVersion.WithResource("securitygroups")
	FloatingIPs    = cloudteamv1.SchemeGroupVersion.WithResource("floatingips")
)

// WriteLine is a Rules.Line of writes: "write status", "write finalizers" or "write annotations". A live read is
// "read".
func WriteLine(action clienttesting.Action) string {
	if action.GetVerb() == "get" {
		return "read"
	}
	if action.GetSubresource() != "" {
		return "write " + action.GetSubresource()
	}
	if patch, ok := action.(clienttesting.PatchAction); ok && !strings.Contains(string(patch.GetPatch()), `"finalizers"`) {
		return "write annotations"
	}
	return "write finalizers"
}

// NewInformers makes the informers of another process, which do not run yet.
func (w *World[T]) NewInformers() {
	w.Informers = informers.NewSharedInformerFactory(w.Clients, w.Resync)
	w.KubeInformers = kubeinformers.NewSharedInformerFactory(w.Kube, w.Resync)
}

// Start runs the informers of a new process until it ends, and waits until they have seen what exists. A process that
// was started before runs on unless Stop ends it.
func (w *World[T]) Start(p Process) {
	w.T.Helper()
	w.process = p
	own, kube := w.Informers, w.KubeInformers
	ctx, cancel := context.WithCancel(Logged(w.T))
	own.StartWithContext(ctx)
	kube.StartWithContext(ctx)
	w.ends = append(w.ends, func() {
		cancel()
		own.Shutdown()
		kube.Shutdown()
		Dismiss(w.T, p.Loop)
	})
	synctest.Wait()
}

// Run runs workers until the process ends. They must change no object of the caches, nor what the Inventory gave them.
func (w *World[T]) Run(run func(ctx context.Context, workers int) error, workers int) {
	w.T.Helper()
	untouched := Untouched(w.T, w.process.Caches...)
	stop := Run(w.T, run, workers)
	w.ends = append(w.ends, func() {
		w.T.Helper()
		if err := stop(); err != nil {
			w.T.Error(err)
		}
		untouched()
		w.checkUntouched()
	})
	synctest.Wait()
}

// Stop ends all that runs.
func (w *World[T]) Stop() {
	w.T.Helper()
	for _, end := range slices.Backward(w.ends) {
		end()
	}
	w.ends = nil
}

// Sync runs one sync when the informers have come to rest. It must change no object of the caches, nor what the
// Inventory gave it.
func (w *World[T]) Sync(key cache.ObjectName) (controller.Result, error) {
	w.T.Helper()
	synctest.Wait()
	untouched := Untouched(w.T, w.process.Caches...)
	result, err := w.process.Sync(Logged(w.T), key)
	untouched()
	w.checkUntouched()
	synctest.Wait()
	return result, err
}

// MustSync syncs the example without an error, and returns when it is to be synced again.
func (w *World[T]) MustSync() time.Duration {
	w.T.Helper()
	result, err := w.Sync(w.Key)
	if err != nil {
		w.T.Fatalf("sync: %v", err)
	}
	return result.RequeueAfter
}

// SyncFails syncs the example with an error that has the Loop retry with backoff.
func (w *World[T]) SyncFails() {
	w.T.Helper()
	if _, err := Requeues(w.Sync(w.Key)); err == nil {
		w.T.Fatal("sync: no error, so that the key would not be retried")
	}
}

// Requeues is what the Loop makes of a sync: whether it syncs the key again without a failure, and the failure.
func Requeues(result controller.Result, err error) (requeue bool, failure error) {
	switch {
	case errors.Is(err, controller.ErrStale):
		return true, nil
	case errors.Is(err, controller.ErrTerminating):
		return false, nil
	}
	return result.RequeueAfter > 0, err
}

// Create creates objects as their users would.
func (w *World[T]) Create(objects ...Object) {
	w.T.Helper()
	for _, obj := range objects {
		w.API.Create(w.T, obj)
	}
}

// Get is the example at the API server.
func (w *World[T]) Get() T {
	w.T.Helper()
	return Get[T](w.T, w.API, w.Key)
}

// Exists reports whether the API server has the example.
func (w *World[T]) Exists() bool {
	_, exists := Find[T](w.API, w.Key)
	return exists
}

// WantGone checks that the example is gone.
func (w *World[T]) WantGone() {
	w.T.Helper()
	if w.Exists() {
		w.T.Errorf("the object is still there; condition Ready: %+v", w.Ready())
	}
}

// Edit changes the example as its user would.
func (w *World[T]) Edit(change func(T)) {
	w.T.Helper()
	Edit(w.T, w.API, w.Key, change)
}

// EditAndSync is Edit, and MustSync.
func (w *World[T]) EditAndSync(change func(T)) {
	w.T.Helper()
	w.Edit(change)
	w.MustSync()
}

// Delete deletes the example as its user would: it stays until its finalizers are off.
func (w *World[T]) Delete() {
	w.T.Helper()
	w.API.Delete(w.T, w.Get())
}

// DeleteAndSync is Delete, and MustSync.
func (w *World[T]) DeleteAndSync() {
	w.T.Helper()
	w.Delete()
	w.MustSync()
}

// DeleteByForce takes the example's finalizers off and deletes it.
func (w *World[T]) DeleteByForce() {
	w.T.Helper()
	w.API.DeleteByForce(w.T, w.Get())
}

// Show puts an object into the cache of its kind's informer, which exists and does not run.
func (w *World[T]) Show(obj runtime.Object) {
	w.T.Helper()
	ShowIn(w.T, w.Informers, w.KubeInformers, obj)
}

// ShowIn puts an object into the cache of its kind's informer, which one of the factories has made and which does not
// run.
func ShowIn(
	t testing.TB, own informers.SharedInformerFactory, kube kubeinformers.SharedInformerFactory, obj runtime.Object,
) {
	t.Helper()
	var informer cache.SharedIndexInformer
	if _, _, err := kubescheme.Scheme.ObjectKinds(obj); err == nil {
		informer = kube.InformerFor(obj, nil)
	} else {
		informer = own.InformerFor(obj, nil)
	}
	if err := informer.GetIndexer().Add(obj); err != nil {
		t.Fatal(err)
	}
}

// Quiet drops the calls and the Events until now.
func (w *World[T]) Quiet() {
	w.Calls.Take()
	w.Events.Take()
}

// WantCalls checks the calls since the last WantCalls or Quiet.
func (w *World[T]) WantCalls(want ...string) {
	w.T.Helper()
	w.Calls.Want(w.T, want...)
}

// WantEvents checks the Events since the last WantEvents or Quiet, each without its message: "Normal Created".
func (w *World[T]) WantEvents(want ...string) {
	w.T.Helper()
	w.Events.WantReasons(w.T, want...)
}

// conditions are the example's at the API server.
func (w *World[T]) conditions() (conditions []metav1.Condition) {
	w.T.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.Get())
	if err != nil {
		w.T.Fatal(err)
	}
	var text struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &text); err != nil {
		w.T.Fatal(err)
	}
	return text.Status.Conditions
}

// Ready is the example's condition Ready; the zero value if it has none.
func (w *World[T]) Ready() metav1.Condition {
	w.T.Helper()
	if ready := meta.FindStatusCondition(w.conditions(), cloudteamv1.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

// WantState checks the example's conditions, such as "Ready=True Available": Ready, those that are not False, and the
// reason of Ready.
func (w *World[T]) WantState(want string) {
	w.T.Helper()
	if got := StateOf(w.conditions()); got != want {
		w.T.Errorf("state is %q, want %q; condition Ready: %+v", got, want, w.Ready())
	}
}

// WantMessage checks that the message of Ready says the texts.
func (w *World[T]) WantMessage(texts ...string) {
	w.T.Helper()
	ready := w.Ready()
	for _, text := range texts {
		if !strings.Contains(ready.Message, text) {
			w.T.Errorf("condition Ready is %+v, want a message that says %q", ready, text)
		}
	}
}

// StateOf is the text that WantState compares.
func StateOf(conditions []metav1.Condition) string {
	var texts []string
	reason := ""
	for _, c := range conditions {
		if c.Type == cloudteamv1.ConditionReady || c.Status != metav1.ConditionFalse {
			texts = append(texts, c.Type+"="+string(c.Status))
		}
		if c.Type == cloudteamv1.ConditionReady {
			reason = c.Reason
		}
	}
	slices.Sort(texts)
	return strings.Join(append(texts, reason), " ")
}
