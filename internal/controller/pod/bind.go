package pod

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// binder owns status.boundTo of NetworkPorts, in metadata.managedFields. The rest of their status is
// controller.FieldManager's, whose server-side apply would remove a field of its own that it does not send.
const binder = controller.FieldManager + "-binder"

// bind binds a port to a Pod. The write holds only while the port is as it was when the Pod was given it, so that of
// two processes that give it to two Pods one fails. behind is true where the port has moved on.
func (c *Controller) bind(
	ctx context.Context, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (bound *cloudteamv1.NetworkPort, behind bool, err error) {
	bound, behind, err = c.setBinding(ctx, port, &cloudteamv1.PortBinding{Kind: kind.Kind, Name: pod.Name, UID: pod.UID})
	if err != nil {
		return nil, false, fmt.Errorf("binding NetworkPort %q: %w", port.Name, err)
	}
	if bound != nil {
		c.ledger.wrote(bound, cache.MetaObjectToName(pod), pod.UID)
		klog.FromContext(ctx).V(2).Info("Bound", "port", bound.Name)
	}
	return bound, behind, nil
}

// release frees a port, as it was when it was found to be of no use. behind is true where it has moved on.
func (c *Controller) release(ctx context.Context, port *cloudteamv1.NetworkPort) (behind bool, err error) {
	released, behind, err := c.setBinding(ctx, port, nil)
	if err != nil {
		return false, fmt.Errorf("releasing NetworkPort %q: %w", port.Name, err)
	}
	if released != nil {
		c.ledger.wrote(released, cache.ObjectName{}, "")
	}
	return behind, nil
}

// setBinding writes status.boundTo and nothing else.
func (c *Controller) setBinding(
	ctx context.Context, port *cloudteamv1.NetworkPort, binding *cloudteamv1.PortBinding,
) (written *cloudteamv1.NetworkPort, behind bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": port.UID, "resourceVersion": port.ResourceVersion},
		"status":   map[string]any{"boundTo": binding},
	})
	if err != nil {
		return nil, false, err
	}
	written, err = c.ports.NetworkPorts(port.Namespace).Patch(ctx, port.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: binder}, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	return written, false, nil
}

// releaseWhere frees those of the ports that free says so of, given the Pod as it is at the API server (nil: it is
// gone). A cache may be behind: a Pod that an earlier leader bound may be newer than our list of Pods, and its port
// MUST NOT be given to another for that. behind is true where something is left to be looked at again.
//
// It asks the API server nothing where no ports are given. After a crash the ports that are left are found by the same
// look at the cache.
func (c *Controller) releaseWhere(
	ctx context.Context, key cache.ObjectName, ports []*cloudteamv1.NetworkPort,
	free func(live *corev1.Pod, port *cloudteamv1.NetworkPort) bool,
) (behind bool, err error) {
	if len(ports) == 0 {
		return false, nil
	}
	live, err := c.livePod(ctx, key)
	if err != nil {
		return false, err
	}
	for _, port := range ports {
		if !free(live, port) {
			behind = true
			continue
		}
		moved, err := c.release(ctx, port)
		if err != nil {
			return false, err
		}
		behind = behind || moved
	}
	return behind, nil
}

// livePod reads a Pod at the API server. It is nil where there is none.
func (c *Controller) livePod(ctx context.Context, key cache.ObjectName) (*corev1.Pod, error) {
	live, err := c.pods.Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // gone is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Pod: %w", err)
	}
	return live, nil
}

// releaseGone frees the ports that are bound under a Pod's name to a Pod that is gone, was another, or has ended. pod
// is that of the cache, nil where it has none.
func (c *Controller) releaseGone(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (behind bool, err error) {
	var ports []*cloudteamv1.NetworkPort
	for _, port := range c.caches.PortsBoundTo(key) {
		switch {
		case port.Status.BoundTo.Kind != kind.Kind || has(pod, port):
		case c.ledger.ahead(port):
			// What is known ahead may be a binding that is being tried, and that fails: no event tells of that.
			behind = true
		default:
			ports = append(ports, port)
		}
	}
	left, err := c.releaseWhere(ctx, key, ports, func(live *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
		return !has(live, port)
	})
	return behind || left, err
}

// has reports whether a port is bound to a Pod, which may be nil, and the Pod may still use it.
func has(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	return pod != nil && pod.UID == boundTo(port) && !consumer.Ended(pod)
}

// deleteDoubles deletes ports whose address is that of a port that a Pod has, so that this one gets it back.
func (c *Controller) deleteDoubles(ctx context.Context, ports []*cloudteamv1.NetworkPort) error {
	for _, port := range ports {
		moved, err := consumer.DeletePort(ctx, c.ports, port, new(port.ResourceVersion))
		if err != nil {
			return err
		}
		if !moved {
			klog.FromContext(ctx).Info("Deleted a port whose address another one is to get back", "port", port.Name)
		}
	}
	return nil
}

// deleteOwn deletes the ports that a Pod controls, save those to keep. Garbage collection does so for a Pod that is
// gone.
func (c *Controller) deleteOwn(
	ctx context.Context, pod *corev1.Pod, keep func(*cloudteamv1.NetworkPort) bool,
) error {
	for _, port := range c.caches.PortsOf(pod.UID) {
		if port.DeletionTimestamp != nil || keep(port) {
			continue
		}
		if _, err := consumer.DeletePort(ctx, c.ports, port, nil); err != nil {
			return err
		}
	}
	return nil
}
