package pod

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// ownPortName is the name of the port that is made for a request of a Pod's, the i-th. It is the same at every look, so
// that a create that was tried already is not tried under another name. A Pod that comes back under its name, as a
// StatefulSet's does, has other ports: those of its predecessor may not be gone yet. So has an annotation that is
// edited.
func ownPortName(pod *corev1.Pod, i int, request consumer.Request) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s %d %s %s %s", pod.UID, i, request.Network, request.Addresses, request.MAC)
	return consumer.PortName(pod.Name, request.Network.Name, hex.EncodeToString(sum.Sum(nil))[:8])
}

// ownerOf is the reference by which a port of its own is controlled by a Pod. It does not block the Pod's deletion: a
// port stays for as long as its Pod does, so that a Pod that is deleted in the foreground, by itself or with what it
// belongs to, would wait for ports that wait for it.
func ownerOf(pod *corev1.Pod) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(pod, kind)
	owner.BlockOwnerDeletion = nil
	return owner
}

// ensureOwn makes the ports of a Pod that belongs to no Deployment, and deletes those that it asks for no more. The Pod
// controls them: they go with it. problem is what stands in the way, for the user.
func (c *Controller) ensureOwn(
	ctx context.Context, pod *corev1.Pod, requests []consumer.Request,
) (behind bool, problem string, err error) {
	wanted := map[string]bool{}
	for i, request := range requests {
		name := ownPortName(pod, i, request)
		wanted[name] = true
		port, err := c.caches.Ports.NetworkPorts(pod.Namespace).Get(name)
		if err == nil {
			if !metav1.IsControlledBy(port, pod) {
				return false, fmt.Sprintf("NetworkPort %q exists and is not this Pod's: delete it", name), nil
			}
			continue
		}
		if !apierrors.IsNotFound(err) {
			return false, "", err
		}
		port = consumer.NewPort(pod.Namespace, name, ownerOf(pod), request)
		_, err = c.ports.NetworkPorts(pod.Namespace).Create(ctx, port,
			metav1.CreateOptions{FieldManager: controller.FieldManager})
		switch {
		case apierrors.IsAlreadyExists(err):
			behind = true // the cache is
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return false, "", nil // the Pod goes with its namespace
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			// A quota, or somebody's admission. It is tried again all the same: either may change.
			return false, fmt.Sprintf("NetworkPort %q cannot be created: %v", name, err), err
		case err != nil:
			return false, "", fmt.Errorf("creating NetworkPort %q: %w", name, err)
		}
	}
	return behind, "", c.deleteOwn(ctx, pod, func(port *cloudteamv1.NetworkPort) bool { return wanted[port.Name] })
}
