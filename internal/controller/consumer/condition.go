package consumer

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// PodCondition gives the condition of a type on a Pod, nil if there is none.
func PodCondition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// NotFound says that names refer to nothing that objects of a namespace may use: neither to a Network nor to a
// NetworkAttachmentDefinition. Of another namespace's Network it says the same whether that exists or not. remedy says
// what else to do than to create the Network.
func NotFound(namespace string, names []cache.ObjectName, remedy string) (reason, message string) {
	others := func(name cache.ObjectName) bool { return name.Namespace != namespace }
	own := slices.DeleteFunc(slices.Clone(names), others)
	if len(own) > 0 {
		names = own
	}
	const most = 3
	var texts []string
	for _, name := range names[:min(most, len(names))] {
		texts = append(texts, name.String())
	}
	list := strings.Join(texts, ", ")
	if len(names) > most {
		list += fmt.Sprintf(" (and %d more)", len(names)-most)
	}
	if len(own) > 0 {
		return cloudteamv1.ReasonNetworkNotFound, fmt.Sprintf(
			"there is neither a Network nor a NetworkAttachmentDefinition %s: create it, or %s", list, remedy)
	}
	return cloudteamv1.ReasonNamespaceNotAllowed, fmt.Sprintf("there is neither a Network %s that allows namespace %s "+
		"nor a NetworkAttachmentDefinition: have it created with the namespace in its spec.allowedNamespaces, or %s", list,
		namespace, remedy)
}

// Quoted cuts a message of another object, which another message quotes. It leaves out the id of a request: objects of
// one problem have different ids, and a message must not depend on which of them it quotes.
func Quoted(message string) string { return fmt.Sprintf("%.1024s", controller.WithoutRequest(message)) }

// Reference refers to an object in an Event, so that the recorder's scheme need not know its kind.
func Reference(kind schema.GroupVersionKind, obj metav1.Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}
}
