package foo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

var (
	exampleKey          = cache.NewObjectName("team", "example-foo")
	foosResource        = v1alpha1.SchemeGroupVersion.WithResource("foos")
	deploymentsResource = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// example is a Foo as the API server holds it after a first apply.
func example() *v1alpha1.Foo {
	foo := &v1alpha1.Foo{}
	foo.Namespace, foo.Name, foo.UID, foo.Generation = exampleKey.Namespace, exampleKey.Name, "foo-1", 1
	foo.Spec.DeploymentName, foo.Spec.Replicas = "example-foo", new(int32(1))
	return foo
}

// declaring is the example with another deploymentName.
func declaring(name string) *v1alpha1.Foo {
	foo := example()
	foo.Spec.DeploymentName = name
	return foo
}

// foreign is a Deployment that the controller would make for a Foo, with other owners.
func foreign(foo *v1alpha1.Foo, owners ...metav1.OwnerReference) *appsv1.Deployment {
	deployment := desired(foo)
	deployment.UID, deployment.Generation, deployment.OwnerReferences = "foreign", 1, owners
	return deployment
}

// logged is the test's context with a logger whose lines belong to the test.
func logged(t *testing.T) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

// world is a controller before an API server that is played. Its informers are real.
type world struct {
	t      *testing.T
	api    *apiServer
	events *events
	c      *Controller
}

// resync is the informers' resync period.
const resync = 30 * time.Second

// inWorld runs a test in a bubble of synthetic time, in which the given Foos and Deployments exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...metav1.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, api: newAPIServer(t), events: &events{}}
		for _, obj := range objects {
			w.api.add(obj)
		}
		factory := informers.NewSharedInformerFactory(w.api.foos, resync)
		kubeFactory := kubeinformers.NewSharedInformerFactory(w.api.kube, resync)
		c, err := NewController(w.api.foos.SamplecontrollerV1alpha1(), w.api.kube.AppsV1(),
			factory.Samplecontroller().V1alpha1().Foos(), kubeFactory.Apps().V1().Deployments(), w.events)
		if err != nil {
			t.Fatal(err)
		}
		w.c = c
		ctx, cancel := context.WithCancel(logged(t))
		factory.StartWithContext(ctx)
		kubeFactory.StartWithContext(ctx)
		t.Cleanup(func() {
			cancel()
			factory.Shutdown()
			kubeFactory.Shutdown()
			// A loop that is told to stop before it starts lets go of its queue.
			if err := c.loop.Run(ctx, 1); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		w.api.take()
		test(t, w)
	})
}

// sync syncs the example when the informers have come to rest, and holds that it changes no object of the listers.
func (w *world) sync() (requeue bool, err error) {
	w.t.Helper()
	synctest.Wait()
	cached := append(w.c.indexer.List(), w.c.deploymentIndexer.List()...)
	before := make([]runtime.Object, len(cached))
	for i, obj := range cached {
		before[i] = obj.(runtime.Object).DeepCopyObject()
	}
	result, err := w.c.sync(logged(w.t), exampleKey)
	for i, obj := range cached {
		if diff := cmp.Diff(before[i], obj.(runtime.Object)); diff != "" {
			w.t.Errorf("the sync changed an object of a lister (-before +after):\n%s", diff)
		}
	}
	synctest.Wait()
	return result.RequeueAfter > 0, err
}

// mustSync is a sync that has nothing left to wait for.
func (w *world) mustSync() {
	w.t.Helper()
	if requeue, err := w.sync(); requeue || err != nil {
		w.t.Fatalf("sync: requeue %t, error %v", requeue, err)
	}
}

// mustWait is a sync that finds a cache behind, and neither writes nor tells anything.
func (w *world) mustWait() {
	w.t.Helper()
	version := w.foo().ResourceVersion
	if _, err := w.sync(); err != nil {
		w.t.Fatalf("sync: %v", err)
	}
	if w.foo().ResourceVersion != version {
		w.t.Errorf("the status was written: %+v", w.foo().Status)
	}
	w.wantEvents()
}

// syncFails is a sync with an error, which has it tried again.
func (w *world) syncFails() {
	w.t.Helper()
	if _, err := w.sync(); err == nil {
		w.t.Fatal("sync: no error, so that the key would not be tried again")
	}
}

// run runs the controller until the test ends.
func (w *world) run() {
	ctx, cancel := context.WithCancel(logged(w.t))
	done := make(chan error, 1)
	go func() { done <- w.c.Run(ctx, 2) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

// settle lets time pass, and what it brings be done.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// foo is the example at the API server.
func (w *world) foo() *v1alpha1.Foo {
	w.t.Helper()
	obj, err := w.api.foos.Tracker().Get(foosResource, exampleKey.Namespace, exampleKey.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return obj.(*v1alpha1.Foo)
}

// deployment is a Deployment at the API server, or nil.
func (w *world) deployment(name string) *appsv1.Deployment {
	obj, err := w.api.kube.Tracker().Get(deploymentsResource, exampleKey.Namespace, name)
	if err != nil {
		return nil
	}
	return obj.(*appsv1.Deployment)
}

// wantDeployments holds the names and replicas of the Deployments, such as "a=1 b=3", against what they should be.
func (w *world) wantDeployments(want string) {
	w.t.Helper()
	list, err := w.api.kube.Tracker().List(
		deploymentsResource, appsv1.SchemeGroupVersion.WithKind("Deployment"), exampleKey.Namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, d := range list.(*appsv1.DeploymentList).Items {
		got = append(got, fmt.Sprintf("%s=%d", d.Name, replicasOf(&d)))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		w.t.Errorf("Deployments (-want +got):\n%s", diff)
	}
}

// wantState holds the example's conditions against "Ready=True Available" and the like.
func (w *world) wantState(want string) {
	w.t.Helper()
	var texts []string
	reason := ""
	for _, c := range w.foo().Status.Conditions {
		texts = append(texts, c.Type+"="+string(c.Status))
		reason = c.Reason
	}
	if got := strings.Join(append(texts, reason), " "); got != want {
		w.t.Errorf("state is %q, want %q: %+v", got, want, w.foo().Status)
	}
}

// wantAsked holds what was asked of the API server since this was last called.
func (w *world) wantAsked(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.api.take()); diff != "" {
		w.t.Errorf("asked of the API server (-want +got):\n%s", diff)
	}
}

// wantEvents holds the Events since this was last called, each without its message.
func (w *world) wantEvents(want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range w.events.take() {
		words := strings.SplitN(line, " ", 3)
		got = append(got, words[0]+" "+words[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// diary keeps lines.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take gives what was noted since it was last called.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// events is a record.EventRecorder that keeps what it is given.
type events struct{ diary }

func (e *events) Event(_ runtime.Object, kind, reason, message string) {
	e.note("%s %s %s", kind, reason, message)
}

func (e *events) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	e.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(
	obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any,
) {
	e.Eventf(obj, kind, reason, format, args...)
}

// gate is what the events of a watch go through. While it is held they wait.
type gate struct {
	mu   sync.Mutex
	held bool
	wait []func()
}

func (g *gate) watch(inner watch.Interface) watch.Interface {
	out := make(chan watch.Event, 100)
	go func() {
		for e := range inner.ResultChan() {
			g.mu.Lock()
			if g.held {
				g.wait = append(g.wait, func() { out <- e })
			} else {
				out <- e
			}
			g.mu.Unlock()
		}
		close(out)
	}()
	return watched{inner, out}
}

type watched struct {
	watch.Interface
	out chan watch.Event
}

func (w watched) ResultChan() <-chan watch.Event { return w.out }

func (g *gate) hold() {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

// drop loses what waits, as a watch that is begun anew does.
func (g *gate) drop() {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = nil
}

func (g *gate) release() {
	synctest.Wait()
	g.mu.Lock()
	g.held = false
	for _, pass := range g.wait {
		pass()
	}
	g.wait = nil
	g.mu.Unlock()
	synctest.Wait()
}

// apiServer is two fake clientsets, made to treat Foos and Deployments as an API server does where their trackers do
// not: resource versions move with every change and with nothing else, preconditions hold, and of a Deployment nothing
// but the replicas may be patched. It notes what it is asked, without lists and watches.
type apiServer struct {
	t    *testing.T
	foos *fake.Clientset
	kube *kubefake.Clientset
	diary
	// fooEvents and deploymentEvents are between the watches and the informers.
	fooEvents, deploymentEvents gate

	mu      sync.Mutex
	version int64
	// refuse, where it holds something, may fail a request; what is "recheck", "create", "scale", "delete",
	// "get" or "status".
	refuse atomic.Pointer[func(what string) error]
	// lose, where set, may fail a create that is carried out all the same.
	lose func() error
}

func newAPIServer(t *testing.T) *apiServer {
	// The clientset that tracks fields has no schema for types of a CRD and refuses them.
	a := &apiServer{t: t, foos: fake.NewSimpleClientset(), kube: kubefake.NewSimpleClientset(), version: 100}
	a.foos.PrependReactor("patch", "foos", a.writeStatus)
	a.foos.PrependReactor("get", "foos", func(clienttesting.Action) (bool, runtime.Object, error) {
		a.note("get foo")
		err := a.refused("recheck")
		return err != nil, nil, err
	})
	a.kube.PrependReactor("create", "deployments", a.create)
	a.kube.PrependReactor("patch", "deployments", a.scale)
	a.kube.PrependReactor("delete", "deployments", a.delete)
	a.kube.PrependReactor("get", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.note("get %s", action.(clienttesting.GetAction).GetName())
		err := a.refused("get")
		return err != nil, nil, err
	})
	a.kube.PrependReactor("list", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, err := a.kube.Tracker().List(deploymentsResource, appsv1.SchemeGroupVersion.WithKind("Deployment"), "")
		if err == nil {
			list.(*appsv1.DeploymentList).ResourceVersion = strconv.FormatInt(a.version, 10)
		}
		return true, list, err
	})
	for resource, through := range map[schema.GroupVersionResource]*gate{
		foosResource: &a.fooEvents, deploymentsResource: &a.deploymentEvents,
	} {
		react, tracker := a.foos.PrependWatchReactor, a.foos.Tracker()
		if resource == deploymentsResource {
			react, tracker = a.kube.PrependWatchReactor, a.kube.Tracker()
		}
		react(resource.Resource, func(clienttesting.Action) (bool, watch.Interface, error) {
			inner, err := tracker.Watch(resource, "")
			if err != nil {
				return true, nil, err
			}
			return true, through.watch(inner), nil
		})
	}
	return a
}

// refuses has requests refused, or with nil no more.
func (a *apiServer) refuses(refuse func(what string) error) { a.refuse.Store(&refuse) }

// refusing refuses one thing.
func refusing(what string, err error) func(string) error {
	return func(asked string) error {
		if asked == what {
			return err
		}
		return nil
	}
}

func (a *apiServer) refused(what string) error {
	if refuse := a.refuse.Load(); refuse != nil && *refuse != nil {
		return (*refuse)(what)
	}
	return nil
}

func (a *apiServer) nextVersion() string {
	a.version++
	return strconv.FormatInt(a.version, 10)
}

// trackerOf gives where the objects of a kind are kept.
func (a *apiServer) trackerOf(obj metav1.Object) (clienttesting.ObjectTracker, schema.GroupVersionResource) {
	if _, ok := obj.(*appsv1.Deployment); ok {
		return a.kube.Tracker(), deploymentsResource
	}
	return a.foos.Tracker(), foosResource
}

// add creates an object as somebody else would.
func (a *apiServer) add(obj metav1.Object) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	copied := obj.(runtime.Object).DeepCopyObject()
	copied.(metav1.Object).SetResourceVersion(a.nextVersion())
	tracker, resource := a.trackerOf(obj)
	if err := tracker.Create(resource, copied, obj.GetNamespace()); err != nil {
		a.t.Fatal(err)
	}
}

// remove deletes an object as garbage collection would.
func (a *apiServer) remove(obj metav1.Object) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	tracker, resource := a.trackerOf(obj)
	if err := tracker.Delete(resource, obj.GetNamespace(), obj.GetName()); err != nil {
		a.t.Fatal(err)
	}
}

// edit changes an object as somebody else would.
func edit[T interface {
	metav1.Object
	runtime.Object
}](a *apiServer, was T, change func(T)) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	obj := was.DeepCopyObject().(T)
	change(obj)
	obj.SetResourceVersion(a.nextVersion())
	tracker, resource := a.trackerOf(obj)
	if err := tracker.Update(resource, obj, obj.GetNamespace()); err != nil {
		a.t.Fatal(err)
	}
}

// respec edits the example's spec.
func (w *world) respec(change func(*v1alpha1.FooSpec)) {
	w.t.Helper()
	edit(w.api, w.foo(), func(foo *v1alpha1.Foo) {
		change(&foo.Spec)
		foo.Generation++
	})
}

// rescale sets a Deployment's replicas, as kubectl scale does.
func (w *world) rescale(name string, replicas *int32) {
	w.t.Helper()
	edit(w.api, w.deployment(name), func(d *appsv1.Deployment) {
		d.Spec.Replicas = replicas
		d.Generation++
	})
}

// makeAvailable sets how many replicas a Deployment has, as its controller does.
func (w *world) makeAvailable(name string, replicas int32) {
	w.t.Helper()
	edit(w.api, w.deployment(name), func(d *appsv1.Deployment) { d.Status.AvailableReplicas = replicas })
}

func (a *apiServer) create(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	obj := action.(clienttesting.CreateAction).GetObject().(*appsv1.Deployment).DeepCopy()
	a.note("create %s", obj.Name)
	if err := a.refused("create"); err != nil {
		return true, nil, err
	}
	obj.ResourceVersion, obj.Generation = a.nextVersion(), 1
	obj.UID = types.UID("deployment-" + obj.ResourceVersion)
	if obj.Spec.Replicas == nil {
		obj.Spec.Replicas = new(int32(1))
	}
	if err := a.kube.Tracker().Create(deploymentsResource, obj, obj.Namespace); err != nil {
		return true, nil, err
	}
	if a.lose != nil {
		if err := a.lose(); err != nil {
			return true, nil, err
		}
	}
	return true, obj.DeepCopy(), nil
}

func (a *apiServer) scale(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	var body struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	decoder := json.NewDecoder(bytes.NewReader(patch.Patch))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || patch.PatchType != types.MergePatchType || body.Spec.Replicas == nil {
		return true, nil, apierrors.NewBadRequest(fmt.Sprintf("a write of an unknown kind: %s", patch.Patch))
	}
	a.note("scale %s to %d", patch.Name, *body.Spec.Replicas)
	if err := a.refused("scale"); err != nil {
		return true, nil, err
	}
	stored, err := a.kube.Tracker().Get(deploymentsResource, patch.Namespace, patch.Name)
	if err != nil {
		return true, nil, err
	}
	obj := stored.(*appsv1.Deployment).DeepCopy()
	if body.Metadata.UID != obj.UID || body.Metadata.ResourceVersion != obj.ResourceVersion {
		return true, nil, conflict(deploymentsResource, patch.Name)
	}
	obj.Spec.Replicas = body.Spec.Replicas
	obj.Generation++
	obj.ResourceVersion = a.nextVersion()
	err = a.kube.Tracker().Update(deploymentsResource, obj, obj.Namespace)
	return true, obj.DeepCopy(), err
}

func (a *apiServer) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	deletion := action.(clienttesting.DeleteActionImpl)
	options := deletion.DeleteOptions
	a.note("delete %s", deletion.Name)
	if err := a.refused("delete"); err != nil {
		return true, nil, err
	}
	stored, err := a.kube.Tracker().Get(deploymentsResource, deletion.Namespace, deletion.Name)
	if err != nil {
		return true, nil, err
	}
	obj := stored.(*appsv1.Deployment)
	switch {
	case options.Preconditions == nil || options.Preconditions.UID == nil ||
		options.PropagationPolicy == nil || *options.PropagationPolicy != metav1.DeletePropagationBackground:
		return true, nil, apierrors.NewBadRequest("a deletion without a UID, or not in the background")
	case *options.Preconditions.UID != obj.UID, *options.Preconditions.ResourceVersion != obj.ResourceVersion:
		return true, nil, conflict(deploymentsResource, deletion.Name)
	}
	a.version++
	return true, nil, a.kube.Tracker().Delete(deploymentsResource, deletion.Namespace, deletion.Name)
}

func (a *apiServer) writeStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	patch := action.(clienttesting.PatchActionImpl)
	a.note("write %s", patch.Subresource)
	if err := a.refused("status"); err != nil {
		return true, nil, err
	}
	stored, err := a.foos.Tracker().Get(foosResource, patch.Namespace, patch.Name)
	if err != nil {
		return true, nil, err
	}
	var body v1alpha1.Foo
	if err := json.Unmarshal(patch.Patch, &body); err != nil {
		return true, nil, apierrors.NewBadRequest(err.Error())
	}
	obj := stored.(*v1alpha1.Foo).DeepCopy()
	switch {
	case patch.PatchType != types.ApplyPatchType || patch.Subresource != "status":
		return true, nil, apierrors.NewBadRequest("a write of an unknown kind")
	case body.UID != obj.UID:
		return true, nil, conflict(foosResource, patch.Name)
	}
	obj.Status = body.Status
	if cmp.Equal(stored, runtime.Object(obj)) {
		return true, obj, nil
	}
	if meta.FindStatusCondition(obj.Status.Conditions, v1alpha1.ConditionReady) == nil {
		return true, nil, apierrors.NewBadRequest("a status without the condition Ready")
	}
	obj.ResourceVersion = a.nextVersion()
	err = a.foos.Tracker().Update(foosResource, obj, obj.Namespace)
	return true, obj.DeepCopy(), err
}

func conflict(resource schema.GroupVersionResource, name string) error {
	return apierrors.NewConflict(resource.GroupResource(), name, fmt.Errorf("the object has been modified"))
}
