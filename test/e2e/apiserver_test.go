package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// newNamespace makes a namespace for one test, in which Pods can be created. It stays until the control plane stops.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace, err := kube.CoreV1().Namespaces().Create(t.Context(),
		harness.Namespace("e2e-"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	if virtualTime {
		return namespace.Name
	}
	// A Pod is refused until its service account has been made.
	eventually(t, func() error {
		_, err := kube.CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// apply creates a Network.
func apply(t *testing.T, namespace, name string, spec cloudteamv1.NetworkSpec) *cloudteamv1.Network {
	t.Helper()
	object := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	created, err := networks.CloudteamV1().Networks(namespace).Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating Network %s: %v", name, err)
	}
	return created
}

// edit merges a patch into a Network's spec and returns the generation that it made.
func edit(t *testing.T, namespace, name, spec string) int64 {
	t.Helper()
	edited, err := networks.CloudteamV1().Networks(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("editing Network %s: %v", name, err)
	}
	return edited.Generation
}

// annotate sets an annotation of a Network's to a value in JSON, or takes it off where that is null.
func annotate(t *testing.T, namespace, name, annotation, value string) {
	t.Helper()
	_, err := networks.CloudteamV1().Networks(namespace).Patch(t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, annotation, value), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("annotating Network %s: %v", name, err)
	}
}

func get(t *testing.T, namespace, name string) *cloudteamv1.Network {
	t.Helper()
	object, err := networks.CloudteamV1().Networks(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading Network %s: %v", name, err)
	}
	return object
}

// awaitReady waits until a Network is Ready at its present generation.
func awaitReady(t *testing.T, namespace, name string) *cloudteamv1.Network {
	t.Helper()
	return awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionTrue, "")
}

// awaitCondition waits until a condition has a status and, unless empty, a reason, at the present generation.
func awaitCondition(
	t *testing.T, namespace, name, condition string, status metav1.ConditionStatus, reason string,
) *cloudteamv1.Network {
	t.Helper()
	var object *cloudteamv1.Network
	eventually(t, func() error {
		object = get(t, namespace, name)
		is := meta.FindStatusCondition(object.Status.Conditions, condition)
		if is == nil || is.Status != status || reason != "" && is.Reason != reason ||
			is.ObservedGeneration != object.Generation {
			return fmt.Errorf("generation %d: want %s=%s %s, have %s",
				object.Generation, condition, status, reason, asJSON(object.Status.Conditions))
		}
		return nil
	})
	return object
}

// wantMessage holds that the first condition's message says something.
func wantMessage(t *testing.T, object *cloudteamv1.Network, says string) {
	t.Helper()
	if message := object.Status.Conditions[0].Message; !strings.Contains(message, says) {
		t.Errorf("the message does not say %q: %s", says, message)
	}
}

// remove deletes a Network and waits until it is gone.
func remove(t *testing.T, namespace, name string) {
	t.Helper()
	client := networks.CloudteamV1().Networks(namespace)
	err := client.Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("deleting Network %s: %v", name, err)
	}
	awaitGone(t, namespace, name)
}

func awaitGone(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, func() error { return isGone(t.Context(), name, networks.CloudteamV1().Networks(namespace).Get) })
}

// isGone returns nil once an object is gone.
func isGone[T any](
	ctx context.Context, name string, get func(context.Context, string, metav1.GetOptions) (T, error),
) error {
	object, err := get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is still there: %s", name, asJSON(object))
}

// awaitEvent waits for an Event of a Network with the reason and a message that contains the text.
func awaitEvent(t *testing.T, namespace, name, reason, text string) {
	t.Helper()
	eventually(t, func() error {
		events, err := kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Name != name {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("no Event %s with %q; there are %q", reason, text, seen)
	})
}

// eventually is harness.Surroundings.Eventually.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	surroundings.Eventually(t, check)
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
