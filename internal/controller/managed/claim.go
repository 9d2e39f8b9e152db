package managed

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// claimed reports whether the object has the finalizer.
func (r *Reconciler[T]) claimed(obj T) bool {
	return slices.Contains(obj.GetFinalizers(), r.kind.Finalizer)
}

// claim adds the finalizer to the object. The same write records the cloud where its resources are about to be created.
// It also records the credentials, for an object that cannot tell them for ever, such as a NetworkPort without its
// Network, and the fields in the spec that may have to be taken back. If the process ends right after the create,
// the next one knows where to look, even if its credentials lead elsewhere. The status would need another write. For an
// import no fields are recorded, because nothing is set before the adoption.
func (r *Reconciler[T]) claim(
	ctx context.Context, obj T, at home, identity client.Identity, declared Declaration,
) (T, error) {
	cloud, err := json.Marshal(recordOf(at.ref, identity))
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

// cloudRecord is the content of cloudteamv1.AnnotationCloud.
type cloudRecord struct {
	cloudteamv1.CloudStatus
	// Credentials lead there; nil means the process's own.
	Credentials *recordedCredentials `json:"credentials,omitempty"`
}

// recordedCredentials is a CloudRef in JSON.
type recordedCredentials struct {
	Namespace  string `json:"namespace"`
	SecretName string `json:"secretName"`
	Name       string `json:"name,omitempty"`
}

func recordOf(ref CloudRef, identity client.Identity) cloudRecord {
	record := cloudRecord{CloudStatus: cloudteamv1.CloudStatus(identity)}
	if !ref.IsOwn() {
		record.Credentials = &recordedCredentials{ref.Namespace, ref.Secret, ref.Entry}
	}
	return record
}

// ref is the place of the recorded credentials.
func (c cloudRecord) ref() CloudRef {
	if c.Credentials == nil {
		return CloudRef{}
	}
	return CloudRef{Namespace: c.Credentials.Namespace, Secret: c.Credentials.SecretName, Entry: c.Credentials.Name}
}

// recorded reads the record of an object; known is false if there is none.
func recorded(obj Object) (record cloudRecord, known bool) {
	known = json.Unmarshal([]byte(obj.GetAnnotations()[cloudteamv1.AnnotationCloud]), &record) == nil
	return record, known
}

// record renews the record of a claimed object, if other credentials or another endpoint lead to its cloud now. Objects
// without a record, such as those of earlier releases, need one only if a Secret holds the credentials.
func (r *Reconciler[T]) record(ctx context.Context, obj T, at home, identity client.Identity) (T, error) {
	was, known := recorded(obj)
	if known && was.ref() == at.ref && client.Identity(was.CloudStatus) == identity || !known && at.ref.IsOwn() {
		return obj, nil
	}
	cloud, err := json.Marshal(recordOf(at.ref, identity))
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
	return written, nil
}
