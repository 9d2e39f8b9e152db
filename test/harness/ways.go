package harness

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"
)

// Way is a tool by which a user writes a whole object to the API server. What the object has no longer is removed
// there, as far as the tool can.
type Way string

// The ways that users have. Flux applies as ServerSideApply does, Argo CD as either of the first two.
const (
	Apply           Way = "kubectl apply"
	ServerSideApply Way = "kubectl apply --server-side"
	Edit            Way = "kubectl edit"
)

// Ways are all of them.
var Ways = []Way{Apply, ServerSideApply, Edit}

// lastApplied is the annotation in which `kubectl apply` keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Write makes the object of the manifest's name as the manifest says, in the requests that the tool sends, and returns
// it as it is stored.
func (w Way) Write(
	ctx context.Context, client dynamic.ResourceInterface, manifest *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	const manager, strict = "user", metav1.FieldValidationStrict
	options := metav1.PatchOptions{FieldManager: manager, FieldValidation: strict}
	text, err := manifest.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if w == ServerSideApply {
		return client.Patch(ctx, manifest.GetName(), types.ApplyPatchType, text, options)
	}
	desired := manifest.DeepCopy()
	if w == Apply {
		desired.SetAnnotations(map[string]string{lastApplied: string(text)})
	}
	live, err := client.Get(ctx, manifest.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return client.Create(ctx, desired, metav1.CreateOptions{FieldManager: manager, FieldValidation: strict})
	}
	if err != nil {
		return nil, err
	}
	patch, err := w.patch(live, desired)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, manifest.GetName(), types.MergePatchType, patch, options)
}

// patch is from the live object to the desired one. A user who applies removes what the last manifest had, a user who
// edits what the spec has.
func (w Way) patch(live, desired *unstructured.Unstructured) ([]byte, error) {
	was := []byte(live.GetAnnotations()[lastApplied])
	if w == Edit {
		was = []byte(asJSON(map[string]any{"spec": live.Object["spec"]}))
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(was, []byte(asJSON(desired.Object)), []byte(asJSON(live.Object)))
}

// asJSON is a value of unstructured content.
func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was JSON before
	}
	return string(text)
}
