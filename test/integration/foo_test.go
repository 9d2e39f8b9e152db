package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	foocontroller "cloudteam.ztgame.com/network-controller/internal/controller/foo"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// fooWorld is a namespace in which the Foo controller works. There is no controller-manager: nobody but the test makes
// replicas available, and nobody collects garbage.
type fooWorld struct {
	t         *testing.T
	namespace string
	// resyncs counts how often the informer of Foos has handed out once more what it holds.
	resyncs atomic.Int64
}

// serveFoos runs the Foo controller in a namespace of its own until the test ends, with a resync each second.
func serveFoos(t *testing.T) *fooWorld {
	t.Helper()
	w := &fooWorld{t: t, namespace: newNamespace(t)}
	ctx, cancel := context.WithCancel(logged(t))
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactoryWithOptions(
		networkAPI, time.Second, informers.WithNamespace(w.namespace))
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(
		kubeClient, time.Second, kubeinformers.WithNamespace(w.namespace))
	c, err := foocontroller.NewController(networkAPI.SamplecontrollerV1alpha1(), kubeClient.AppsV1(),
		factory.Samplecontroller().V1alpha1().Foos(), kubeFactory.Apps().V1().Deployments(),
		broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = factory.Samplecontroller().V1alpha1().Foos().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) {
			if was.(*v1alpha1.Foo).ResourceVersion == is.(*v1alpha1.Foo).ResourceVersion {
				w.resyncs.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	kubeFactory.StartWithContext(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, 2) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		broadcaster.Shutdown()
		factory.Shutdown()
		kubeFactory.Shutdown()
	})
	return w
}

// create creates the Foo that config/samples/foo.yaml holds, and returns it.
func (w *fooWorld) create() *v1alpha1.Foo {
	w.t.Helper()
	apply(w.t, w.namespace, readObjects(w.t, filepath.Join(repository, "config", "samples", "foo.yaml"))[0])
	return w.foo()
}

func (w *fooWorld) foo() *v1alpha1.Foo {
	w.t.Helper()
	foo, err := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace).
		Get(w.t.Context(), "example-foo", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return foo
}

// edit merges a patch into the Foo's spec.
func (w *fooWorld) edit(spec string) {
	w.t.Helper()
	_, err := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace).Patch(w.t.Context(), "example-foo",
		types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{FieldValidation: "Strict"})
	if err != nil {
		w.t.Fatal(err)
	}
}

// deployment waits until the Deployment exists and is controlled by the Foo, or by nobody where foo is nil.
func (w *fooWorld) deployment(name string, foo *v1alpha1.Foo) *appsv1.Deployment {
	w.t.Helper()
	var found *appsv1.Deployment
	eventually(w.t, func() (err error) {
		found, err = kubeClient.AppsV1().Deployments(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && (foo == nil) != (metav1.GetControllerOf(found) == nil) {
			err = fmt.Errorf("its owners are %+v", found.OwnerReferences)
		}
		if err == nil && foo != nil && !metav1.IsControlledBy(found, foo) {
			err = fmt.Errorf("its owners are %+v, not Foo %s", found.OwnerReferences, foo.UID)
		}
		return err
	})
	return found
}

// patchDeployment changes a Deployment as somebody else would.
func (w *fooWorld) patchDeployment(name, patch string, subresource ...string) *appsv1.Deployment {
	w.t.Helper()
	patched, err := kubeClient.AppsV1().Deployments(w.namespace).Patch(w.t.Context(), name, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}, subresource...)
	if err != nil {
		w.t.Fatal(err)
	}
	return patched
}

// makeAvailable writes the status that a controller-manager would.
func (w *fooWorld) makeAvailable(name string, replicas int) {
	w.t.Helper()
	w.patchDeployment(name, fmt.Sprintf(
		`{"status":{"replicas":%[1]d,"readyReplicas":%[1]d,"availableReplicas":%[1]d}}`, replicas), "status")
}

func (w *fooWorld) removeDeployment(name string) {
	w.t.Helper()
	err := kubeClient.AppsV1().Deployments(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// createForeign creates a Deployment of somebody else's under the name.
func (w *fooWorld) createForeign(name string) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": "theirs"}
	created, err := kubeClient.AppsV1().Deployments(w.namespace).Create(w.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// awaitReplicas waits until a Deployment declares a number of replicas.
func (w *fooWorld) awaitReplicas(name string, want int32) {
	w.t.Helper()
	eventually(w.t, func() error {
		found, err := kubeClient.AppsV1().Deployments(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && *found.Spec.Replicas != want {
			err = fmt.Errorf("it declares %d replicas, want %d", *found.Spec.Replicas, want)
		}
		return err
	})
}

// awaitGone waits until a Deployment is gone.
func (w *fooWorld) awaitGone(name string) {
	w.t.Helper()
	eventually(w.t, func() error {
		_, err := kubeClient.AppsV1().Deployments(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.New("it is still there")
	})
}

// awaitState waits until the Foo's present generation has conditions such as "Ready=True Available".
func (w *fooWorld) awaitState(want string) *v1alpha1.Foo {
	w.t.Helper()
	var foo *v1alpha1.Foo
	eventually(w.t, func() error {
		foo = w.foo()
		var texts []string
		reason := ""
		for _, c := range foo.Status.Conditions {
			texts = append(texts, c.Type+"="+string(c.Status))
			reason = c.Reason
		}
		if got := strings.Join(append(texts, reason), " "); got != want || foo.Status.ObservedGeneration != foo.Generation {
			return fmt.Errorf("state is %q at generation %d of %d, want %q", got, foo.Status.ObservedGeneration,
				foo.Generation, want)
		}
		return nil
	})
	return foo
}

// awaitEvents waits until exactly the Events given, each such as "Normal Created", have been sent.
func (w *fooWorld) awaitEvents(want ...string) {
	w.t.Helper()
	eventually(w.t, func() error {
		list, err := kubeClient.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		counts := map[string]int32{}
		for _, e := range list.Items {
			counts[e.Type+" "+e.Reason] += e.Count
		}
		wanted := map[string]int32{}
		for _, event := range want {
			wanted[event]++
		}
		if diff := cmp.Diff(wanted, counts); diff != "" {
			return fmt.Errorf("Events (-want +got):\n%s", diff)
		}
		return nil
	})
}

const (
	progressing = "Ready=False Reconciling=True Progressing"
	available   = "Ready=True Available"
)

func TestFooController(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *fooWorld){
		"the sample becomes a Deployment whose replicas are counted": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			d := w.deployment("example-foo", foo)
			if *d.Spec.Replicas != 1 || d.Labels["controller"] != "example-foo" ||
				d.Spec.Template.Spec.Containers[0].Image != "nginx:latest" {
				t.Errorf("the Deployment is %+v", d.Spec)
			}
			w.awaitState(progressing)
			w.makeAvailable("example-foo", 1)
			if n := w.awaitState(available).Status.AvailableReplicas; n != 1 {
				t.Errorf("status.availableReplicas is %d", n)
			}
			w.awaitEvents("Normal Created", "Normal Synced")

			before := w.foo()
			deployment := w.deployment("example-foo", foo)
			since := w.resyncs.Load()
			eventually(w.t, func() error {
				if resyncs := w.resyncs.Load() - since; resyncs < 3 {
					return fmt.Errorf("%d resyncs so far", resyncs)
				}
				return nil
			})
			if diff := cmp.Diff(before, w.foo()); diff != "" {
				t.Errorf("it was written at rest (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(deployment, w.deployment("example-foo", foo)); diff != "" {
				t.Errorf("the Deployment was written at rest (-before +after):\n%s", diff)
			}
			w.awaitEvents("Normal Created", "Normal Synced")
		},
		"it follows its replicas, and comes back to them": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			w.edit(`{"replicas":3}`)
			w.awaitReplicas("example-foo", 3)
			// As kubectl scale does it.
			scale, err := kubeClient.AppsV1().Deployments(w.namespace).GetScale(t.Context(), "example-foo", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			scale.Spec.Replicas = 0
			_, err = kubeClient.AppsV1().Deployments(w.namespace).
				UpdateScale(t.Context(), "example-foo", scale, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w.awaitReplicas("example-foo", 3)
			w.awaitEvents("Normal Created", "Normal Synced", "Normal Scaled", "Normal Scaled")

			w.patchDeployment("example-foo",
				`{"spec":{"template":{"metadata":{"annotations":{"theirs":"yes"}}},"revisionHistoryLimit":3}}`)
			w.edit(`{"replicas":2}`)
			w.awaitReplicas("example-foo", 2)
			d := w.deployment("example-foo", foo)
			if d.Spec.Template.Annotations["theirs"] != "yes" || *d.Spec.RevisionHistoryLimit != 3 {
				t.Errorf("what others set is gone: %+v", d.Spec)
			}
		},
		"without replicas others scale": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			w.edit(`{"replicas":null}`)
			w.awaitState(progressing)
			w.patchDeployment("example-foo", `{"spec":{"replicas":5}}`)
			w.makeAvailable("example-foo", 5)
			if n := w.awaitState(available).Status.AvailableReplicas; n != 5 {
				t.Errorf("status.availableReplicas is %d", n)
			}
			w.awaitReplicas("example-foo", 5)
		},
		"a name that is taken is waited for": func(t *testing.T, w *fooWorld) {
			theirs := w.createForeign("example-foo")
			foo := w.create()
			w.awaitState("Ready=False Stalled=True ErrResourceExists")
			w.awaitEvents("Warning ErrResourceExists")
			if diff := cmp.Diff(theirs, w.deployment("example-foo", nil)); diff != "" {
				t.Errorf("it was changed (-before +after):\n%s", diff)
			}
			w.removeDeployment("example-foo")
			w.deployment("example-foo", foo)
			w.awaitState(progressing)
			w.awaitEvents("Warning ErrResourceExists", "Normal Created", "Normal Synced")
		},
		"a Deployment that is taken away is let go": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			w.awaitState(progressing)
			w.patchDeployment("example-foo", `{"metadata":{"ownerReferences":null},"spec":{"replicas":7}}`)
			w.awaitState("Ready=False Stalled=True ErrResourceExists")
			if d := w.deployment("example-foo", nil); *d.Spec.Replicas != 7 {
				t.Errorf("it has %d replicas, want the 7 that its new owner declares", *d.Spec.Replicas)
			}
		},
		"deleted by hand, it comes back": func(_ *testing.T, w *fooWorld) {
			foo := w.create()
			was := w.deployment("example-foo", foo)
			w.removeDeployment("example-foo")
			eventually(w.t, func() error {
				if is := w.deployment("example-foo", foo); is.UID == was.UID {
					return errors.New("it is still the one that was deleted")
				}
				return nil
			})
		},
		"renamed, it leaves no orphan": func(_ *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			w.awaitState(progressing)
			w.createForeign("taken")
			w.edit(`{"deploymentName":"taken"}`)
			w.awaitState("Ready=False Stalled=True ErrResourceExists")
			w.deployment("example-foo", foo)
			w.edit(`{"deploymentName":"renamed"}`)
			w.deployment("renamed", foo)
			w.awaitGone("example-foo")
			w.deployment("taken", nil)
			w.awaitState(progressing)
		},
		"made anew, it does not take the Deployment of the earlier one": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			was := w.deployment("example-foo", foo)
			w.awaitState(progressing)
			err := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace).
				Delete(t.Context(), "example-foo", metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			again := w.create()
			w.awaitState("Ready=False Reconciling=True Terminating")
			if diff := cmp.Diff(was, w.deployment("example-foo", foo)); diff != "" {
				t.Errorf("it was changed (-before +after):\n%s", diff)
			}
			// What garbage collection would do.
			w.removeDeployment("example-foo")
			w.deployment("example-foo", again)
		},
		"deleted in the foreground, it makes no Deployment anew": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			w.awaitState(progressing)
			client := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace)
			err := client.Delete(t.Context(), "example-foo",
				metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
			if err != nil {
				t.Fatal(err)
			}
			// Another Foo that goes through its life after that shows that the controller has come this far.
			w.removeDeployment("example-foo")
			other := &v1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "other"},
				Spec: v1alpha1.FooSpec{DeploymentName: "other"}}
			if other, err = client.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.deployment("other", other)
			w.awaitGone("example-foo")
		},
		"a second Foo of the same Deployment waits for the first": func(t *testing.T, w *fooWorld) {
			foo := w.create()
			w.deployment("example-foo", foo)
			second, err := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace).Create(t.Context(),
				&v1alpha1.Foo{ObjectMeta: metav1.ObjectMeta{Name: "second"},
					Spec: v1alpha1.FooSpec{DeploymentName: "example-foo"}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(w.t, func() error {
				got, err := networkAPI.SamplecontrollerV1alpha1().Foos(w.namespace).
					Get(t.Context(), "second", metav1.GetOptions{})
				if err != nil {
					return err
				}
				ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
				if ready == nil || ready.Reason != v1alpha1.ReasonResourceExists ||
					!strings.Contains(ready.Message, `Foo "example-foo" controls it`) {
					text, _ := json.Marshal(got.Status)
					return fmt.Errorf("status is %s", text)
				}
				return nil
			})
			w.edit(`{"deploymentName":"elsewhere"}`)
			w.deployment("example-foo", second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, serveFoos(t))
		})
	}
}
