package consumer

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// WriteCondition writes one condition into the status of a Pod or Deployment and keeps those of others: the API server
// merges them by type. patch is the object's client. If resourceVersion is not empty, the object must still have it.
// The write is recorded in expected. moved is true if the object is gone, was replaced or has changed: an event
// follows.
func WriteCondition[T metav1.Object](
	ctx context.Context, patch controller.Patch[T], obj T, resourceVersion string, condition any,
	expected *controller.Expectations,
) (written T, moved bool, err error) {
	metadata := map[string]any{"uid": obj.GetUID()}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	body, err := json.Marshal(map[string]any{
		"metadata": metadata, "status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return written, false, err
	}
	written, err = patch(ctx, obj.GetName(), types.StrategicMergePatchType, body,
		metav1.PatchOptions{FieldManager: controller.FieldManager}, "status")
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return written, true, nil
	case err != nil:
		return written, false, fmt.Errorf("writing the condition %s: %w", cloudteamv1.ConditionNetworksReady, err)
	}
	expected.Written(cache.MetaObjectToName(written), written.GetUID(), written.GetResourceVersion())
	return written, false, nil
}

// Reference refers to an object in an Event, so that the recorder's scheme need not know its kind.
func Reference(kind schema.GroupVersionKind, obj metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
