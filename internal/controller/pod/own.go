package pod

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// A Pod without a Deployment has its own ports. This controller makes, binds and releases them, as that of
// Deployments does with a pool.

// ownPortName is the name of the port for the i-th request of a Pod. It is the same in every sync, so that a create
// whose answer was lost is not repeated under another name. A recreated Pod of the same name, as in a StatefulSet, has
// other ports: those of its predecessor may still exist. An edited annotation has other ports, too.
func ownPortName(pod *corev1.Pod, i int, request consumer.Request) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s %d %s %s %s", pod.UID, i, request.Network, request.Addresses, request.MAC)
	return consumer.PortName(pod.Name, request.Network.Name, hex.EncodeToString(sum.Sum(nil))[:8])
}

// ownerOf is the reference by which a Pod controls a port of its own. It does not block the Pod's deletion. A port
// stays as long as its Pod, so in foreground deletion both would wait for each other.
func ownerOf(pod *corev1.Pod) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(pod, kind)
	owner.BlockOwnerDeletion = nil
	return owner
}

// provideOwn makes a Pod's own ports, deletes those that it no longer requests, and binds those that serve what it
// lacks. It returns the ports that it bound. held are those that are bound already.
func (c *Controller) provideOwn(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, requests []consumer.Request,
	held []*cloudteamv1.NetworkPort,
) (bound []*cloudteamv1.NetworkPort, p progress, err error) {
	wanted := map[string]bool{}
	for i, request := range requests {
		name := ownPortName(pod, i, request)
		wanted[name] = true
		port, err := c.caches.Ports.Lister().NetworkPorts(pod.Namespace).Get(name)
		if apierrors.IsNotFound(err) {
			// Garbage collection removes it with the Pod, even if the Pod is already gone.
			port = consumer.NewPort(pod.Namespace, name, ownerOf(pod), request)
			err = c.ports.Create(ctx, key, port)
		}
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			// A quota or an admission policy. It is retried anyway, because either may change.
			return nil, progress{reason: cloudteamv1.ReasonPortsFailed, message: err.Error()}, err
		case err != nil:
			return nil, progress{}, err
		case !controller.Controls(pod, consumer.PodKind, port):
			return nil, progress{reason: cloudteamv1.ReasonPortsFailed, message: fmt.Sprintf(
				"NetworkPort %q exists and is not this Pod's: delete it", name)}, nil
		}
	}
	if err := c.deleteOwn(ctx, pod, wanted); err != nil {
		return nil, progress{}, err
	}
	bound, err = c.bindOwn(ctx, key, pod, requests, held)
	return bound, progress{}, err
}

// bindOwn binds a Pod to those of its own ports that serve what it lacks: all of them or none.
func (c *Controller) bindOwn(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, requests []consumer.Request,
	held []*cloudteamv1.NetworkPort,
) (bound []*cloudteamv1.NetworkPort, err error) {
	own := c.caches.PortsOf(pod, consumer.PodKind)
	var chosen []*cloudteamv1.NetworkPort
	for i, port := range consumer.Served(requests, held) {
		if port != nil {
			continue
		}
		offers := free(own, requests[i])[consumer.PortUsable]
		slices.SortFunc(offers, consumer.CompareByName)
		offers = slices.DeleteFunc(offers, func(free *cloudteamv1.NetworkPort) bool {
			return slices.Contains(chosen, free) || slices.ContainsFunc(c.caches.GivenTo(free), func(other *corev1.Pod) bool {
				return other.UID != pod.UID
			})
		})
		if len(offers) == 0 {
			return nil, nil
		}
		if rival := c.caches.Rival(offers[0]); rival != nil {
			return nil, controller.Worst(controller.ErrStale, c.deleteDouble(ctx, offers[0], rival))
		}
		chosen = append(chosen, offers[0])
	}
	for _, port := range chosen {
		written, err := c.ports.Bind(ctx, key, port, pod)
		if err != nil {
			return nil, err
		}
		bound = append(bound, written)
	}
	return bound, nil
}

// deleteDouble deletes a free port whose address belongs to a bound port, which gets it back. Of two free ports none is
// deleted: one of them will be gone soon.
func (c *Controller) deleteDouble(ctx context.Context, port, rival *cloudteamv1.NetworkPort) error {
	if consumer.BoundTo(rival) == "" {
		return nil
	}
	klog.FromContext(ctx).Info("Deleting port whose address another one gets back", "port", port.Name)
	return c.ports.Delete(ctx, port, true)
}

// releaseUseless releases the useless ports that are bound under a Pod's name. They are useless if the Pod is gone, was
// replaced, has ended, or requests something else. pod is nil if the cache has none.
//
// A Deployment's ports are released here only while the Pod waits for its allocation: only this sync knows that it is
// not giving the Pod that port at the moment.
func (c *Controller) releaseUseless(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) error {
	return c.ports.Release(ctx, key, pod, slices.DeleteFunc(c.caches.PortsBoundTo(key),
		func(port *cloudteamv1.NetworkPort) bool {
			waiting := consumer.Has(pod, port) && !consumer.Allocated(pod)
			return consumer.OfDeployment(port) && !waiting || !consumer.IsBoundToPod(port) || consumer.Has(pod, port) &&
				!consumer.Useless(pod, port, func() consumer.Declaration {
					return consumer.DeclarationOf(pod, c.caches.Resolve)
				})
		})...)
}

// deleteOwn deletes the ports that a Pod controls, except those to keep. For a Pod that is gone, garbage collection
// does it.
func (c *Controller) deleteOwn(ctx context.Context, pod *corev1.Pod, keep map[string]bool) error {
	for _, port := range c.caches.PortsOf(pod, consumer.PodKind) {
		if port.DeletionTimestamp != nil || keep[port.Name] {
			continue
		}
		if err := c.ports.Delete(ctx, port, false); err != nil {
			return err
		}
	}
	return nil
}
