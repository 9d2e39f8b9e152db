package pod

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// quiet is how long after its creation a Pod may wait for ports before its condition says so. Usually they are
	// Ready by then, and a condition that is obsolete at once is not written.
	quiet = 10 * time.Second
	// recheck is how often a waiting Pod is synced without an event. Usually an event comes earlier. It covers changes
	// without an event, and costs no call.
	recheck = 30 * time.Second
)

// progress is the result of a sync of a Pod.
type progress struct {
	// reason and message say what blocks the Pod; empty if nothing does, or if it is unknown.
	reason, message string
	// passing is true for an obstacle that is reported only if it lasts.
	passing bool
	// allocated is true if the Pod has its ports, or needs none.
	allocated bool
}

// sync gives one Pod the ports that it is bound to. It is level-triggered: it acts on the current state of the
// caches.
//
// The process may crash after any write. The next sync, in any process, finds each of them. It finds a port by its
// name, and a binding by the Pod's UID in it. The allocation is the last write, and it is on the Pod.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	if c.reportOnly {
		return controller.Result{}, c.syncWaiting(ctx, key)
	}
	if err := c.caches.DeleteOrphans(ctx, &c.ports, consumer.PodKind, key); err != nil {
		return controller.Result{}, err
	}
	pod := c.caches.Pod(key)
	switch {
	case pod == nil:
		c.expected.Forget(key)
	case !c.expected.Met(key, pod.UID, pod.ResourceVersion):
		// The cache is older than our last write. The event that updates the cache requeues the key.
		return controller.Result{}, nil
	}
	if !c.ports.CaughtUp(key, c.caches) {
		return controller.Result{}, controller.ErrStale
	}
	if err := controller.Worst(c.releaseUseless(ctx, key, pod), c.retire(ctx, key, pod)); err != nil || pod == nil {
		return controller.Result{}, err
	}
	p, err := c.reconcile(ctx, key, pod)
	if err != nil && p.reason == "" {
		return controller.Result{}, err
	}
	if left := quiet - time.Since(pod.CreationTimestamp.Time); p.passing && left > 0 && !isBlocked(pod) {
		return controller.Result{RequeueAfter: left}, err
	}
	var result controller.Result
	if p.reason != "" {
		result.RequeueAfter = recheck
	}
	return result, controller.Worst(err, c.report(ctx, pod, p))
}

// syncWaiting says of a Pod that waits for its ports that the controller makes none now.
func (c *Controller) syncWaiting(ctx context.Context, key cache.ObjectName) error {
	pod := c.caches.Pod(key)
	switch {
	case pod == nil:
		c.expected.Forget(key)
		return nil
	case !c.expected.Met(key, pod.UID, pod.ResourceVersion), !consumer.Gated(pod), !consumer.Waiting(pod):
		return nil
	}
	return c.report(ctx, pod, planned())
}

// reconcile does what the Pod needs.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (progress, error) {
	switch {
	case consumer.Mirror(pod):
		// The kubelet owns it, and takes no change from the API server.
		return progress{}, nil
	case consumer.Ended(pod):
		// Garbage collection keeps its ports until somebody deletes the Pod, which may never happen. Those of a slot are
		// for its next Pod.
		return progress{}, c.deleteOwn(ctx, c.caches.PortsOf(pod, consumer.PodKind), nil)
	case consumer.Allocated(pod):
		return c.keep(ctx, key, pod)
	case pod.DeletionTimestamp != nil:
		// Its containers may still run: it keeps what it holds until it is gone.
		return progress{}, nil
	}
	declaration := consumer.DeclarationOf(pod, c.caches.Resolve)
	switch {
	case declaration.Invalid != nil:
		return invalid(declaration.Invalid), nil //nolint:nilerr // a retry does not help
	case declaration.Missing != nil:
		return missing(pod, *declaration.Missing), nil
	case len(declaration.Ours) == 0:
		return c.letGo(ctx, key, pod)
	case pod.Spec.HostNetwork:
		return onHostNetwork(), nil
	}
	return c.provide(ctx, key, pod, declaration)
}

// provide allocates to a Pod the ports that it is bound to, once there is one for each of its requests. It makes and
// binds the ports of a Pod without a Deployment.
func (c *Controller) provide(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, declaration consumer.Declaration,
) (progress, error) {
	requests, held := declaration.Requests, c.held(key, pod)
	if given := consumer.AsGiven(requests, held); given != nil && !consumer.Gated(pod) {
		return c.allocate(ctx, key, pod, declaration, given, true)
	}
	deployment, known := c.caches.DeploymentOf(pod)
	if !known {
		return withoutDeployment(pod), nil
	}
	slot, known := c.caches.SlotOfPod(pod, c.machines)
	if !known {
		return c.withoutSlot(pod), nil
	}
	if slot != nil && slot.Machine != "" {
		held = append(held, c.ofSource(pod, *slot)...)
	}
	var bound []*cloudteamv1.NetworkPort
	if deployment == nil {
		var p progress
		var err error
		if bound, p, err = c.provideOwn(ctx, key, pod, slot, requests, held); err != nil || p.reason != "" {
			return p, err
		}
	}
	ports := consumer.Served(requests, append(held, bound...))
	if slices.Contains(ports, nil) {
		return c.lacking(pod, c.poolOf(pod, deployment, slot), requests, ports, held), nil
	}
	for i, port := range ports {
		if consumer.StateOf(port) != consumer.PortUsable {
			return unready(port), nil
		}
		if slices.Contains(bound, port) {
			if lacks := c.policies.Lacks(port); lacks != "" {
				return insecure(lacks), nil
			}
			continue
		}
		// The cache may show a binding that was released, and the port may now be another Pod's.
		live, err := controller.Live(ctx, c.ports.Ports.NetworkPorts(port.Namespace), "NetworkPort", port.Name)
		if err != nil {
			return progress{}, err
		}
		if live == nil || live.UID != port.UID || consumer.BoundTo(live) != consumer.BoundTo(port) ||
			live.DeletionTimestamp != nil || consumer.StateOf(live) != consumer.PortUsable {
			return progress{}, controller.ErrStale
		}
		if lacks := c.policies.Lacks(live); lacks != "" {
			return insecure(lacks), nil
		}
		ports[i] = live
	}
	return c.allocate(ctx, key, pod, declaration, ports, false)
}

// poolOf gives the ports that a Pod may be bound to: those of its Deployment, or those that were made for it or its
// slot.
func (c *Controller) poolOf(
	pod *corev1.Pod, deployment *appsv1.Deployment, slot *consumer.Slot,
) []*cloudteamv1.NetworkPort {
	if deployment != nil {
		return c.caches.PortsOf(deployment, consumer.DeploymentKind)
	}
	return c.madeFor(pod, slot)
}

// held gives the ports that the cache shows to be bound to a Pod.
func (c *Controller) held(key cache.ObjectName, pod *corev1.Pod) []*cloudteamv1.NetworkPort {
	return slices.DeleteFunc(c.caches.PortsBoundTo(key), func(port *cloudteamv1.NetworkPort) bool {
		return consumer.BoundTo(port) != pod.UID
	})
}

// ofSource gives the ports of a Pod's virtual machine that another Pod of the same instance has. That is the source
// of a live migration. The target is given the same ports, and bound to them when the source has ended.
func (c *Controller) ofSource(pod *corev1.Pod, slot consumer.Slot) []*cloudteamv1.NetworkPort {
	return slices.DeleteFunc(c.caches.PortsOfSlot(slot.Key()), func(port *cloudteamv1.NetworkPort) bool {
		return c.caches.Source(pod, port) == nil
	})
}
