package foo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

var (
	exampleKey          = cache.NewObjectName("team", "example-foo")
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

// world is a controller before an API server that is played. Its informers are real.
type world struct {
	t      *testing.T
	calls  *controllertest.CallLog
	api    *controllertest.APIServer
	foos   *fake.Clientset
	kube   *kubefake.Clientset
	events *controllertest.Events
	c      *Controller
	// fooGate and deploymentGate are between the watches and the informers.
	fooGate, deploymentGate *controllertest.Gate
}

// resync is the informers' resync period.
const resync = 30 * time.Second

// inWorld runs a test in a bubble of synthetic time, in which the given Foos and Deployments exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		calls := &controllertest.CallLog{}
		w := &world{
			t: t, calls: calls, api: controllertest.NewAPIServer(calls), foos: fake.NewSimpleClientset(),
			kube: kubefake.NewSimpleClientset(), events: &controllertest.Events{},
		}
		w.serve()
		w.fooGate = controllertest.GateOf[*v1alpha1.Foo](w.api)
		w.deploymentGate = controllertest.GateOf[*appsv1.Deployment](w.api)
		for _, obj := range objects {
			w.api.Create(t, obj)
		}
		factory := informers.NewSharedInformerFactory(w.foos, resync)
		kubeFactory := kubeinformers.NewSharedInformerFactory(w.kube, resync)
		c, err := NewController(w.foos.SamplecontrollerV1alpha1(), w.kube.AppsV1(),
			factory.Samplecontroller().V1alpha1().Foos(), kubeFactory.Apps().V1().Deployments(), w.events)
		if err != nil {
			t.Fatal(err)
		}
		w.c = c
		ctx, cancel := context.WithCancel(controllertest.Logged(t))
		factory.StartWithContext(ctx)
		kubeFactory.StartWithContext(ctx)
		t.Cleanup(func() {
			cancel()
			factory.Shutdown()
			kubeFactory.Shutdown()
			controllertest.Dismiss(t, c.Loop)
		})
		synctest.Wait()
		w.calls.Take()
		test(t, w)
	})
}

// sync syncs the example when the informers have come to rest, and holds that it changes no object of the listers.
func (w *world) sync() (requeue bool, err error) {
	w.t.Helper()
	synctest.Wait()
	checkUntouched := controllertest.Untouched(w.t, w.c.indexer, w.c.deploymentIndexer)
	result, err := w.c.sync(controllertest.Logged(w.t), exampleKey)
	checkUntouched()
	synctest.Wait()
	if errors.Is(err, controller.ErrStale) { // the Loop requeues the key
		return true, nil
	}
	if errors.Is(err, controller.ErrTerminating) { // the Loop is done with the key
		return false, nil
	}
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
	stop := controllertest.Run(w.t, w.c.Run, 2)
	w.t.Cleanup(func() {
		if err := stop(); err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

// foo is the example at the API server.
func (w *world) foo() *v1alpha1.Foo {
	w.t.Helper()
	return controllertest.Get[*v1alpha1.Foo](w.t, w.api, exampleKey)
}

// deployment is a Deployment at the API server, or nil.
func (w *world) deployment(name string) *appsv1.Deployment {
	found, _ := controllertest.Find[*appsv1.Deployment](w.api, cache.NewObjectName(exampleKey.Namespace, name))
	return found
}

// wantDeployments holds the names and replicas of the Deployments, such as "a=1 b=3", against what they should be.
func (w *world) wantDeployments(want string) {
	w.t.Helper()
	list, err := w.kube.Tracker().List(
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
	w.calls.Want(w.t, want...)
}

// wantEvents holds the Events since this was last called, each without its message.
func (w *world) wantEvents(want ...string) {
	w.t.Helper()
	w.events.WantReasons(w.t, want...)
}

// serve makes an API server of the clientsets. It writes down what it is asked as "create example-foo", "get foo" and
// the like, and of a Deployment it lets nothing but the replicas be patched.
func (w *world) serve() {
	controllertest.Serve(w.api, w.foos, v1alpha1.SchemeGroupVersion.WithResource("foos"),
		controllertest.Rules[*v1alpha1.Foo]{
			Line: func(action clienttesting.Action) string {
				if action.GetSubresource() != "" {
					return "write " + action.GetSubresource()
				}
				return action.GetVerb() + " foo"
			},
			Admit: func(action clienttesting.Action, foo *v1alpha1.Foo) error {
				if action.GetVerb() == "patch" && (action.GetSubresource() != "status" ||
					meta.FindStatusCondition(foo.Status.Conditions, v1alpha1.ConditionReady) == nil) {
					return apierrors.NewBadRequest("a write of something else than a status with the condition Ready")
				}
				return nil
			},
		})
	controllertest.Serve(w.api, w.kube, deploymentsResource, controllertest.Rules[*appsv1.Deployment]{
		Line: func(action clienttesting.Action) string {
			switch action := action.(type) {
			case clienttesting.CreateActionImpl:
				return "create " + action.GetObject().(*appsv1.Deployment).Name
			case clienttesting.PatchActionImpl:
				scaling, err := scalingOf(action.Patch)
				if err != nil {
					return "patch " + action.Name
				}
				return fmt.Sprintf("scale %s to %d", action.Name, *scaling.Spec.Replicas)
			default:
				return action.GetVerb() + " " + action.(interface{ GetName() string }).GetName()
			}
		},
		Default: func(deployment *appsv1.Deployment) {
			if deployment.Spec.Replicas == nil {
				deployment.Spec.Replicas = new(int32(1))
			}
		},
		Admit: func(action clienttesting.Action, _ *appsv1.Deployment) error {
			switch action := action.(type) {
			case clienttesting.PatchActionImpl:
				if _, err := scalingOf(action.Patch); err != nil {
					return apierrors.NewBadRequest(err.Error())
				}
			case clienttesting.DeleteActionImpl:
				preconditions, policy := action.DeleteOptions.Preconditions, action.DeleteOptions.PropagationPolicy
				if preconditions == nil || preconditions.UID == nil || preconditions.ResourceVersion == nil ||
					policy == nil || *policy != metav1.DeletePropagationBackground {
					return apierrors.NewBadRequest("a deletion without a UID and a version, or not in the background")
				}
			}
			return nil
		},
	})
}

// scaling is a patch of a Deployment's replicas, while it is the one that was read.
type scaling struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
}

func scalingOf(patch []byte) (s scaling, err error) {
	decoder := json.NewDecoder(bytes.NewReader(patch))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&s)
	if err == nil && (s.Metadata.UID == "" || s.Metadata.ResourceVersion == "" || s.Spec.Replicas == nil) {
		err = fmt.Errorf("a patch without a UID, a version or replicas: %s", patch)
	}
	return s, err
}

// refusing refuses the requests whose line begins so.
func refusing(prefix string, err error) func(string) error {
	return func(line string) error {
		if strings.HasPrefix(line, prefix) {
			return err
		}
		return nil
	}
}

// remove deletes an object as garbage collection does, whatever its finalizers.
func (w *world) remove(obj controllertest.Object) {
	w.t.Helper()
	w.api.DeleteByForce(w.t, obj)
}

// editDeployment changes a Deployment of the example's namespace as somebody else would.
func (w *world) editDeployment(name string, change func(*appsv1.Deployment)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, cache.NewObjectName(exampleKey.Namespace, name), change)
}

// respec edits the example's spec.
func (w *world) respec(change func(*v1alpha1.FooSpec)) {
	w.t.Helper()
	controllertest.Edit(w.t, w.api, exampleKey, func(foo *v1alpha1.Foo) { change(&foo.Spec) })
}

// rescale sets a Deployment's replicas, as kubectl scale does.
func (w *world) rescale(name string, replicas *int32) {
	w.t.Helper()
	w.editDeployment(name, func(d *appsv1.Deployment) { d.Spec.Replicas = replicas })
}

// makeAvailable sets how many replicas a Deployment has, as its controller does.
func (w *world) makeAvailable(name string, replicas int32) {
	w.t.Helper()
	w.editDeployment(name, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = replicas })
}
