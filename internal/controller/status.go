package controller

import (
	"context"
	"encoding/json"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
)

// FieldManager is the name in metadata.managedFields of the fields that the controllers write.
const FieldManager = "network-controller"

// SpecGeneration is the generation of an object without its deletion, which the API server counts as one. After that, a
// new value means an edit of the spec, as before.
func SpecGeneration(obj metav1.Object) int64 {
	if obj.GetDeletionTimestamp() != nil {
		return obj.GetGeneration() - 1
	}
	return obj.GetGeneration()
}

// WasApplied reports whether the present spec of an object was applied once. applied is its status.appliedGeneration.
func WasApplied(obj metav1.Object, applied int64) bool {
	return applied > 0 && applied == SpecGeneration(obj)
}

// Patch is the method Patch of a generated client, for objects of type T in one namespace.
type Patch[T metav1.Object] func(
	ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (T, error)

// PatchAsRead writes the fields in body to an object, if the object is still the one that was read: it has obj's UID
// and resourceVersion. Otherwise it returns ErrStale. An empty resourceVersion allows other changes. body MAY contain
// metadata; PatchAsRead adds to it.
func PatchAsRead[T metav1.Object](
	ctx context.Context, patch Patch[T], kind types.PatchType, manager string, obj metav1.Object, body map[string]any,
	subresources ...string,
) (written T, err error) {
	metadata := map[string]any{"uid": obj.GetUID()}
	if version := obj.GetResourceVersion(); version != "" {
		metadata["resourceVersion"] = version
	}
	if declared, ok := body["metadata"].(map[string]any); ok {
		maps.Copy(metadata, declared)
	}
	body["metadata"] = metadata
	data, err := json.Marshal(body)
	if err != nil {
		return written, err
	}
	written, err = patch(ctx, obj.GetName(), kind, data, metav1.PatchOptions{FieldManager: manager}, subresources...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return written, ErrStale
	}
	if r := inspect.On(); r != nil && err == nil {
		r.Record(inspect.Event{Stage: inspect.Status, What: "patched", Objects: inspect.Of(ctx),
			Version: written.GetResourceVersion(), Code: inspect.Here()})
	}
	return written, err
}

// WriteStatus replaces an object's status by server-side apply, which also removes the fields that status omits. The
// UID prevents a write to another object of the same name. If the object is gone, WriteStatus returns no error. It
// records the write in expected.
func WriteStatus[T metav1.Object](
	ctx context.Context, patch Patch[T], kind schema.GroupVersionKind, obj T, status any, expected *Expectations,
) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(),
		"kind":       kind.Kind,
		"metadata":   map[string]any{"name": obj.GetName(), "namespace": obj.GetNamespace(), "uid": obj.GetUID()},
		"status":     status,
	})
	if err != nil {
		return err
	}
	written, err := patch(ctx, obj.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: FieldManager, Force: new(true)}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	expected.Written(cache.MetaObjectToName(written), written.GetUID(), written.GetResourceVersion())
	if r := inspect.On(); r != nil {
		r.Record(inspect.Event{Stage: inspect.Status, What: "written", Objects: inspect.Of(ctx),
			Version: written.GetResourceVersion()})
	}
	return nil
}
