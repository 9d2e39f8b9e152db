package harness

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// The functions of this file do with the typed clients what cannot fail in a test. They work in its clean-ups, too.

// Getter is a typed client that reads objects.
type Getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// Create creates an object, and gives it as it is stored.
func Create[T metav1.Object](t testing.TB, api interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}, object T) T {
	t.Helper()
	made, err := api.Create(context.WithoutCancel(t.Context()), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating %s: %v", nameOf(object), err)
	}
	return made
}

// Get reads an object.
func Get[T any](t testing.TB, api Getter[T], name string) T {
	t.Helper()
	object, err := api.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return object
}

// Patch merges a patch into an object, and gives what it became.
func Patch[T any](t testing.TB, api interface {
	Patch(ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions,
		subresources ...string) (T, error)
}, name, patch string) T {
	t.Helper()
	patched, err := api.Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patching %s: %v", name, err)
	}
	return patched
}

// Delete deletes an object, unless it is gone already, with options if there are some.
func Delete(t testing.TB, api interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}, name string, options ...metav1.DeleteOptions) {
	t.Helper()
	var with metav1.DeleteOptions
	if len(options) > 0 {
		with = options[0]
	}
	err := api.Delete(context.WithoutCancel(t.Context()), name, with)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("deleting %s: %v", name, err)
	}
}

// Scale scales a Deployment or a StatefulSet as kubectl scale does.
func Scale(t testing.TB, api interface {
	UpdateScale(ctx context.Context, name string, scale *autoscalingv1.Scale, options metav1.UpdateOptions) (
		*autoscalingv1.Scale, error)
}, name string, replicas int32) {
	t.Helper()
	_, err := api.UpdateScale(t.Context(), name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("scaling %s: %v", name, err)
	}
}

// Gone is nil once an object is gone.
func Gone[T metav1.Object](ctx context.Context, api Getter[T], name string) error {
	object, err := api.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is still there: %s", nameOf(object), asJSON(object))
}

// NoneLeft is nil once there is no object, of those that the options select if there are some.
func NoneLeft[L runtime.Object](ctx context.Context, api interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
}, options ...metav1.ListOptions) error {
	var with metav1.ListOptions
	if len(options) > 0 {
		with = options[0]
	}
	list, err := api.List(ctx, with)
	if err != nil {
		return err
	}
	left, err := meta.ExtractList(list)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d objects are left, such as %s", len(left), asJSON(left[0]))
	}
	return err
}

// waiter polls until a check gives nil: Surroundings, and what tests make of them.
type waiter interface {
	Eventually(t testing.TB, check func() error)
}

// Await polls an object until check gives nil, and gives it.
func Await[T any](t testing.TB, w waiter, api Getter[T], name string, check func(T) error) (object T) {
	t.Helper()
	w.Eventually(t, func() (err error) {
		if object, err = api.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			err = check(object)
		}
		return err
	})
	return object
}

// AwaitEvent waits until there is an Event about an object of a name that has a reason and says something.
func AwaitEvent(t testing.TB, w waiter, kube kubernetes.Interface, namespace, object, reason, says string) {
	t.Helper()
	w.Eventually(t, func() error {
		list, err := kube.CoreV1().Events(namespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + object})
		if err != nil {
			return err
		}
		var seen []string
		for _, event := range list.Items {
			if event.Reason == reason && strings.Contains(event.Message, says) {
				return nil
			}
			seen = append(seen, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("no Event %s of %s says %q, only %q", reason, object, says, seen)
	})
}

// AwaitGone waits until an object is gone.
func AwaitGone[T metav1.Object](t testing.TB, w waiter, api Getter[T], name string) {
	t.Helper()
	w.Eventually(t, func() error { return Gone(context.WithoutCancel(t.Context()), api, name) })
}

// StatusOf gives what the statuses of the project's kinds have in common.
func StatusOf(object metav1.Object) cloudteamv1.ResourceStatus {
	switch object := object.(type) {
	case *cloudteamv1.Network:
		return object.Status.ResourceStatus
	case *cloudteamv1.NetworkPort:
		return object.Status.ResourceStatus
	case *cloudteamv1.SecurityGroup:
		return object.Status.ResourceStatus
	case *cloudteamv1.FloatingIP:
		return object.Status.ResourceStatus
	}
	panic(fmt.Sprintf("%T is none of the project's kinds with a status", object))
}

// Ready is nil where an object is Ready at its present generation.
func Ready[T metav1.Object](object T) error {
	ready := meta.FindStatusCondition(StatusOf(object).Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != object.GetGeneration() {
		return fmt.Errorf("%s of generation %d is not Ready: %s", nameOf(object), object.GetGeneration(),
			asJSON(StatusOf(object).Conditions))
	}
	return nil
}

// Says is nil where a condition of an object has a reason and a message that contains the text.
func Says(object metav1.Object, condition, reason, text string) error {
	status := StatusOf(object)
	is := meta.FindStatusCondition(status.Conditions, condition)
	if is == nil || is.Reason != reason || !strings.Contains(is.Message, text) {
		return fmt.Errorf("%s: want %s %s with %q, have %s", nameOf(object), condition, reason, text, asJSON(status))
	}
	return nil
}

// SaysOfNetworks is nil where the condition of a Pod or a Deployment about its networks has a status, a reason, and a
// message that contains the text.
func SaysOfNetworks(object metav1.Object, status corev1.ConditionStatus, reason, text string) error {
	var is corev1.PodCondition
	switch object := object.(type) {
	case *corev1.Pod:
		for _, c := range object.Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady {
				is = c
			}
		}
	case *appsv1.Deployment:
		for _, c := range object.Status.Conditions {
			if c.Type == cloudteamv1.ConditionNetworksReady {
				is = corev1.PodCondition{Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
		}
	}
	if is.Status != status || is.Reason != reason || !strings.Contains(is.Message, text) {
		return fmt.Errorf("%s: want %s %s with %q of its networks, have %s", nameOf(object), status, reason, text, asJSON(is))
	}
	return nil
}

// nameOf is an object's kind and name.
func nameOf(object metav1.Object) string {
	return reflect.TypeOf(object).Elem().Name() + " " + object.GetName()
}
