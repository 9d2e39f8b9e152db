package controller

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// FieldManager is the name in metadata.managedFields of the fields that the controllers write.
const FieldManager = "network-controller"

// Patch is the method Patch of a generated client, for objects of type T in one namespace.
type Patch[T metav1.Object] func(
	ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (T, error)

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
	return nil
}
