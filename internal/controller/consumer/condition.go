package consumer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// WriteCondition writes one condition into the status of a Pod or Deployment and keeps those of others: the API server
// merges them by type. patch is the object's client. If anyVersion is true, the object may have changed since it was
// read. Otherwise WriteCondition returns controller.ErrStale then, as for an object that is gone. It records the write
// in expected.
func WriteCondition[T metav1.Object](
	ctx context.Context, patch controller.Patch[T], obj T, anyVersion bool, condition any,
	expected *controller.Expectations,
) (written T, err error) {
	read := &metav1.ObjectMeta{Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()}
	if anyVersion {
		read.ResourceVersion = ""
	}
	written, err = controller.PatchAsRead(ctx, patch, types.StrategicMergePatchType, controller.FieldManager, read,
		map[string]any{"status": map[string]any{"conditions": []any{condition}}}, "status")
	if err != nil {
		return written, fmt.Errorf("writing the condition %s: %w", cloudteamv1.ConditionNetworksReady, err)
	}
	expected.Written(cache.MetaObjectToName(written), written.GetUID(), written.GetResourceVersion())
	return written, nil
}

// Reference refers to an object in an Event, so that the recorder's scheme need not know its kind.
func Reference(kind schema.GroupVersionKind, obj metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
