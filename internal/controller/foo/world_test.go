package foo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
	*controllertest.World[*v1alpha1.Foo]
	c *Controller
	// fooGate and deploymentGate are between the watches and the informers.
	fooGate, deploymentGate *controllertest.Gate
}

// resync is the informers' resync period.
const resync = 30 * time.Second

// inWorld runs a test in a bubble of synthetic time, in which the given Foos and Deployments exist.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...controllertest.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: controllertest.NewWorld[*v1alpha1.Foo](t, exampleKey)}
		w.serve()
		w.fooGate = controllertest.GateOf[*v1alpha1.Foo](w.API)
		w.deploymentGate = controllertest.GateOf[*appsv1.Deployment](w.API)
		w.Create(objects...)
		w.Resync = resync
		w.NewInformers()
		c, err := NewController(w.Clients.SamplecontrollerV1alpha1(), w.Kube.AppsV1(),
			w.Informers.Samplecontroller().V1alpha1().Foos(), w.KubeInformers.Apps().V1().Deployments(), w.Events)
		expect.NoError(t, err)
		w.c = c
		w.Start(controllertest.Process{
			Loop: c.Loop, Sync: c.sync, Caches: []cache.Indexer{c.indexer, c.deploymentIndexer},
		})
		w.Calls.Take()
		test(t, w)
	})
}

// sync syncs the example, and returns what the Loop makes of the result.
func (w *world) sync() (requeue bool, err error) {
	w.T.Helper()
	return controllertest.Requeues(w.Sync(exampleKey))
}

// mustSync is a sync that has nothing left to wait for.
func (w *world) mustSync() {
	w.T.Helper()
	if requeue, err := w.sync(); requeue || err != nil {
		w.T.Fatalf("sync: requeue %t, error %v", requeue, err)
	}
}

// mustWait is a sync that finds a cache behind, and neither writes nor tells anything.
func (w *world) mustWait() {
	w.T.Helper()
	version := w.Get().ResourceVersion
	if _, err := w.sync(); err != nil {
		w.T.Fatalf("sync: %v", err)
	}
	expect.Equal(w.T, version, w.Get().ResourceVersion, "the status was written: %+v", w.Get().Status)
	w.WantEvents()
}

// deployment is a Deployment at the API server, or nil.
func (w *world) deployment(name string) *appsv1.Deployment {
	found, _ := controllertest.Find[*appsv1.Deployment](w.API, cache.NewObjectName(exampleKey.Namespace, name))
	return found
}

// wantDeployments holds the names and replicas of the Deployments, such as "a=1 b=3", against what they should be.
func (w *world) wantDeployments(want string) {
	w.T.Helper()
	list, err := w.Kube.Tracker().List(
		deploymentsResource, appsv1.SchemeGroupVersion.WithKind("Deployment"), exampleKey.Namespace)
	expect.NoError(w.T, err)
	var got []string
	for _, d := range list.(*appsv1.DeploymentList).Items {
		got = append(got, fmt.Sprintf("%s=%d", d.Name, replicasOf(&d)))
	}
	slices.Sort(got)
	expect.Equal(w.T, want, strings.Join(got, " "), "Deployments")
}

// serve makes an API server of the clientsets. It writes down what it is asked as "create example-foo", "get foo" and
// the like, and of a Deployment it lets nothing but the replicas be patched.
func (w *world) serve() {
	controllertest.Serve(w.API, w.Clients, v1alpha1.SchemeGroupVersion.WithResource("foos"),
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
	controllertest.Serve(w.API, w.Kube, deploymentsResource, controllertest.Rules[*appsv1.Deployment]{
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

// remove deletes an object as garbage collection does, whatever its finalizers.
func (w *world) remove(obj controllertest.Object) {
	w.T.Helper()
	w.API.DeleteByForce(w.T, obj)
}

// editDeployment changes a Deployment of the example's namespace as somebody else would.
func (w *world) editDeployment(name string, change func(*appsv1.Deployment)) {
	w.T.Helper()
	controllertest.Edit(w.T, w.API, cache.NewObjectName(exampleKey.Namespace, name), change)
}

// respec edits the example's spec.
func (w *world) respec(change func(*v1alpha1.FooSpec)) {
	w.T.Helper()
	w.Edit(func(foo *v1alpha1.Foo) { change(&foo.Spec) })
}

// rescale sets a Deployment's replicas, as kubectl scale does.
func (w *world) rescale(name string, replicas *int32) {
	w.T.Helper()
	w.editDeployment(name, func(d *appsv1.Deployment) { d.Spec.Replicas = replicas })
}

// makeAvailable sets how many replicas a Deployment has, as its controller does.
func (w *world) makeAvailable(name string, replicas int32) {
	w.T.Helper()
	w.editDeployment(name, func(d *appsv1.Deployment) { d.Status.AvailableReplicas = replicas })
}
