package consumer

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// binder owns status.boundTo of NetworkPorts in metadata.managedFields. The rest of their status belongs to
// controller.FieldManager, whose server-side apply removes any field of its own that it does not send.
const binder = controller.FieldManager + "-binder"

// bindingKind is the kind that ports are bound to.
const bindingKind = "Pod"

// BoundTo gives the UID of the Pod that a port is bound to, empty for none.
func BoundTo(port *cloudteamv1.NetworkPort) types.UID {
	if port.Status.BoundTo == nil {
		return ""
	}
	return port.Status.BoundTo.UID
}

// IsBoundToPod reports whether a port is bound to a Pod, which may be gone.
func IsBoundToPod(port *cloudteamv1.NetworkPort) bool {
	return port.Status.BoundTo != nil && port.Status.BoundTo.Kind == bindingKind
}

// Has reports whether a port is bound to a Pod, which may be nil, and the Pod may still use it.
func Has(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	return pod != nil && pod.UID == BoundTo(port) && !Ended(pod)
}

// Bind binds a port to a Pod; with a nil Pod it releases the port. The write succeeds only if the port has not changed
// since it was read: if two processes give one port to two Pods, one fails with controller.ErrStale. It writes
// status.boundTo and nothing else.
func Bind(
	ctx context.Context, client portclient.NetworkPortsGetter, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (written *cloudteamv1.NetworkPort, err error) {
	var binding *cloudteamv1.PortBinding
	if pod != nil {
		binding = &cloudteamv1.PortBinding{Kind: bindingKind, Name: pod.Name, UID: pod.UID}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": port.UID, "resourceVersion": port.ResourceVersion},
		"status":   map[string]any{"boundTo": binding},
	})
	if err != nil {
		return nil, err
	}
	written, err = client.NetworkPorts(port.Namespace).Patch(ctx, port.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: binder}, "status")
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return nil, controller.ErrStale
	case err != nil && pod == nil:
		return nil, fmt.Errorf("releasing NetworkPort %q: %w", port.Name, err)
	case err != nil:
		return nil, fmt.Errorf("binding NetworkPort %q to Pod %q: %w", port.Name, pod.Name, err)
	}
	return written, nil
}

// LivePod reads a Pod from the API server. It is nil if there is none.
func LivePod(ctx context.Context, client coreclient.PodsGetter, key cache.ObjectName) (*corev1.Pod, error) {
	live, err := client.Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // gone is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading Pod %q: %w", key.Name, err)
	}
	return live, nil
}

// MayRelease reports whether a port may be taken from its Pod. By the state in cached, that Pod is gone, has ended or
// does not need the port. live is the Pod at the API server, nil if it is gone.
//
// The cache may be stale: the port's Pod may be newer than our list of Pods. That a Pod does not need the port was
// derived from its cached state. So the Pod MUST still be in that state.
func MayRelease(port *cloudteamv1.NetworkPort, cached, live *corev1.Pod) bool {
	return !Has(live, port) || Has(cached, port) && live.ResourceVersion == cached.ResourceVersion
}
