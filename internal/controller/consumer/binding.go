package consumer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

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

// Writer writes ports and their bindings for the syncs of one controller. Its methods take the key of the sync. They
// return controller.ErrStale if a cache is older than the API server. It is safe for concurrent use.
type Writer struct {
	Ports portclient.NetworkPortsGetter
	Pods  coreclient.PodsGetter
	// Expected records what was written.
	Expected controller.Expectations
}

// CaughtUp reports whether the cache of ports shows all writes under the key. Call it before the sync reads that cache.
func (w *Writer) CaughtUp(key cache.ObjectName, caches *Caches) bool {
	return w.Expected.CaughtUp(key, caches.Ports.Informer().GetIndexer().LastStoreSyncResourceVersion())
}

// Create creates a port. It may also return controller.ErrTerminating.
func (w *Writer) Create(ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort) error {
	_, err := controller.CreateOwned(
		ctx, w.Ports.NetworkPorts(port.Namespace), "NetworkPort", key, port, &w.Expected)
	if err == nil {
		klog.FromContext(ctx).Info("Created port", "port", port.Name)
	}
	return err
}

// Bind binds a port to a Pod; with a nil Pod it releases the port. The write succeeds only if the port has not changed
// since it was read: if two processes give one port to two Pods, one fails. It writes status.boundTo and nothing else.
func (w *Writer) Bind(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (*cloudteamv1.NetworkPort, error) {
	var binding *cloudteamv1.PortBinding
	if pod != nil && pod.Namespace != port.Namespace {
		return nil, fmt.Errorf("NetworkPort %q is not in the namespace of Pod %q", port.Name, pod.Name)
	}
	if pod != nil {
		binding = &cloudteamv1.PortBinding{Kind: bindingKind, Name: pod.Name, UID: pod.UID}
	}
	written, err := controller.PatchAsRead(ctx, w.Ports.NetworkPorts(port.Namespace).Patch, types.MergePatchType, binder,
		port, map[string]any{"status": map[string]any{"boundTo": binding}}, "status")
	if err != nil {
		return nil, fmt.Errorf("writing the binding of NetworkPort %q: %w", port.Name, err)
	}
	w.Expected.Written(key, written.UID, written.ResourceVersion)
	klog.FromContext(ctx).V(2).Info("Wrote binding", "port", port.Name, "boundTo", binding)
	return written, nil
}

// BindAgain binds a port to the Pod that was given it before, after the binding was lost. It reads the Pod from the API
// server first: the cache may show a Pod that is gone, and whose port was released.
func (w *Writer) BindAgain(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) error {
	live, err := controller.Live(ctx, w.Pods.Pods(pod.Namespace), bindingKind, pod.Name)
	if err != nil {
		return err
	}
	if live == nil || live.UID != pod.UID || Ended(live) {
		return controller.ErrStale
	}
	klog.FromContext(ctx).Info("Binding again a port whose binding was lost", "port", port.Name)
	_, err = w.Bind(ctx, key, port, pod)
	return err
}

// Release releases ports that are bound under the name of one Pod. By the state in cached, that Pod is gone, has ended
// or does not need them. cached is nil if the cache has no Pod of the name.
//
// Release reads the Pod from the API server first. The cache may be stale: the ports' Pod may be newer than our list of
// Pods. That a Pod does not need a port was derived from its cached state. So the Pod MUST still be in that state.
//
// heir, if not nil, gives the Pod that a port goes to in the same write, or nil.
func (w *Writer) Release(
	ctx context.Context, key cache.ObjectName, cached *corev1.Pod, heir func(*cloudteamv1.NetworkPort) *corev1.Pod,
	ports ...*cloudteamv1.NetworkPort,
) error {
	if len(ports) == 0 {
		return nil
	}
	live, err := controller.Live(ctx, w.Pods.Pods(key.Namespace), bindingKind, ports[0].Status.BoundTo.Name)
	if err != nil {
		return err
	}
	errs := make([]error, len(ports))
	for i, port := range ports {
		errs[i] = controller.ErrStale
		if !Has(live, port) || Has(cached, port) && live.ResourceVersion == cached.ResourceVersion {
			var next *corev1.Pod
			if heir != nil {
				next = heir(port)
			}
			_, errs[i] = w.Bind(ctx, key, port, next)
		}
	}
	return controller.Worst(errs...)
}

// Delete deletes a port, unless it was replaced by another of its name. If asRead is true, the port must not have
// changed either. A port that is gone counts as deleted.
func (w *Writer) Delete(ctx context.Context, port *cloudteamv1.NetworkPort, asRead bool) error {
	is := &metav1.ObjectMeta{Name: port.Name, UID: port.UID}
	if asRead {
		is.ResourceVersion = port.ResourceVersion
	}
	return controller.DeleteAsRead(ctx, w.Ports.NetworkPorts(port.Namespace).Delete, "NetworkPort", is)
}
