package managed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// MaxFinalizers is the most finalizers of an object that a Reconciler handles. Kubernetes sets no limit, and a tenant
	// can fill it.
	MaxFinalizers = 64
	// MaxFinalizersSize is the most bytes of all of them.
	MaxFinalizersSize = 2 << 10
	// TooManyFinalizers replaces, in caches, the other finalizers of an object with more. A write would take them off.
	TooManyFinalizers = "cloudteam.ztgame.com/too-many-finalizers"
)

// crowded is the problem of an object with TooManyFinalizers; nil if the cache has all of them.
func crowded(obj Object) error {
	if !slices.Contains(obj.GetFinalizers(), TooManyFinalizers) {
		return nil
	}
	message := fmt.Sprintf("The object has more than %d finalizers, or more than %d bytes of them. Nothing is created, "+
		"and the controller keeps its own. Remove others.", MaxFinalizers, MaxFinalizersSize)
	// No event tells of another finalizer, so it is tried again.
	return &Problem{Err: errors.New(message), State: controller.Stalled(cloudteamv1.ReasonInvalidSpec, message)}
}

// partial is the problem of an object of which the cache has only a part; nil if it has the whole.
func partial(obj Object) error {
	if !controller.TooLarge(obj) {
		return nil
	}
	return Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
		"The object takes more than %d KiB of memory. Nothing is changed in Neutron. Shorten the lists and texts of its "+
			"spec, or divide it.", controller.MaxKept>>10)))
}

// claimed reports whether the object has the finalizer.
func (r *Reconciler[T]) claimed(obj T) bool {
	return slices.Contains(obj.GetFinalizers(), r.kind.Finalizer)
}

// claim adds the finalizer to the object. The same write records the cloud where its resources are about to be created.
// It also records the fields in the spec that may have to be taken back. If the process ends right after the create,
// the next one knows where to look, even if its credentials are for another project or cloud. The status would need
// another write. For an import no fields are recorded, because nothing is set before the adoption.
func (r *Reconciler[T]) claim(
	ctx context.Context, obj T, identity client.Identity, declared Declaration,
) (T, error) {
	cloud, err := json.Marshal(cloudteamv1.CloudStatus(identity))
	if err != nil {
		return obj, err
	}
	annotations := map[string]any{cloudteamv1.AnnotationCloud: string(cloud)}
	if fields := rememberedOrSet(obj, declared); len(fields) > 0 && !r.kind.Expected(obj)[0].Imported {
		if annotations[cloudteamv1.AnnotationTakeBack], err = annotationOf(obj, fields); err != nil {
			return obj, err
		}
	}
	return r.patchMetadata(ctx, obj, map[string]any{
		"finalizers":  append(slices.Clone(obj.GetFinalizers()), r.kind.Finalizer),
		"annotations": annotations,
	})
}

// recorded reads the cloud that claim recorded for an object; known is false if there is none. Users can write it, so
// it only keeps the object from other clouds: it says nothing about credentials.
func recorded(obj Object) (cloud cloudteamv1.CloudStatus, known bool) {
	known = json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationCloud]), &cloud) == nil
	return cloud, known
}

// record renews the record of a claimed object, if another endpoint leads to its cloud now.
func (r *Reconciler[T]) record(ctx context.Context, obj T, identity client.Identity) (T, error) {
	was, known := recorded(obj)
	if !known || client.Identity(was) == identity {
		return obj, nil
	}
	cloud, err := json.Marshal(cloudteamv1.CloudStatus(identity))
	if err != nil {
		return obj, err
	}
	return r.patchMetadata(ctx, obj, map[string]any{
		"annotations": map[string]any{cloudteamv1.AnnotationCloud: string(cloud)},
	})
}

// patchMetadata writes fields of the object's metadata, if the object has not changed since it was read.
func (r *Reconciler[T]) patchMetadata(ctx context.Context, obj T, metadata map[string]any) (T, error) {
	metadata["uid"], metadata["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return obj, err
	}
	written, err := r.kind.Patch(obj.GetNamespace())(
		ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if err != nil {
		return obj, err
	}
	r.expected.Written(cache.MetaObjectToName(obj), written.GetUID(), written.GetResourceVersion())
	if recorder := inspect.On(); recorder != nil {
		recorder.Record(inspect.Event{Stage: inspect.Status, What: "metadata", Objects: inspect.Of(ctx),
			Version: written.GetResourceVersion(), Text: "The metadata was written to the API server: the finalizer, or " +
				"what the next process must know. The watch will bring it back."})
	}
	return written, nil
}
