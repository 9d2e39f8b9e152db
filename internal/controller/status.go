package controller

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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

// AnnotationTooLarge marks an object of which the cache has only a part. It is only in caches.
const AnnotationTooLarge = "cloudteam.ztgame.com/too-large"

// TooLarge reports whether the cache has only a part of an object, because the whole takes too much memory. What is
// missing looks as if it were unset, so nobody may act on the spec.
func TooLarge(obj metav1.Object) bool {
	_, marked := obj.GetAnnotations()[AnnotationTooLarge]
	return marked
}

const (
	// MaxKept is the most bytes of memory that a cache keeps of an object whose resources are in Neutron. With as
	// many of everything as the schema admits, and texts of usual length, one takes less.
	MaxKept = 36 << 10
	// MaxMessage is the most bytes of a condition's message.
	MaxMessage = 2 << 10
	// maxDrift is the most bytes of all values in status.drift, and maxValue that of one.
	maxDrift = 4 << 10
	maxValue = 512
)

// LimitStatus cuts what a cloud or many differences can make long in a status. Caches of both replicas keep it.
func LimitStatus(status *cloudteamv1.ResourceStatus) {
	for i, c := range status.Conditions {
		status.Conditions[i].Message = Limited(c.Message, MaxMessage)
	}
	left := maxDrift
	for i := range status.Drift {
		d := &status.Drift[i]
		for _, text := range []*string{&d.Resource, &d.Field, &d.Declared, &d.Actual} {
			*text = Limited(*text, maxValue)
			left -= len(*text)
		}
		if left < 0 {
			status.Drift = append([]cloudteamv1.Drift(nil), status.Drift[:i]...)
			return
		}
	}
}

// Limited cuts a text after a number of bytes.
func Limited(text string, most int) string {
	const cut = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}
