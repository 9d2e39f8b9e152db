package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// keep checks the ports of a Pod that has them. It restores what others undid: lost bindings of the Pod's own ports,
// and the annotation that Multus reads.
//
// The Pod's addresses never change: its containers run with the addresses that they started with. A port that a user
// deletes stays, with its address, until the Pod is gone. If the port is gone anyway, or is another one in Neutron, the
// condition says so, and a new Pod is the remedy.
func (c *Controller) keep(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (progress, error) {
	allocations, err := consumer.Allocations(pod)
	if err != nil {
		// Somebody overwrote the annotation. What the Pod holds stays bound to it.
		return progress{}, nil //nolint:nilerr // a retry does not help
	}
	p, unrestored := c.restore(ctx, key, pod, allocations)
	p.allocated = true
	named := map[string]bool{}
	for _, a := range allocations {
		named[a.Port] = true
		port := c.caches.Port(cache.NewObjectName(pod.Namespace, a.Port))
		if p.reason == "" {
			problem, err := c.confirmProblem(ctx, a, port, pod)
			if err != nil {
				return progress{}, err
			}
			if problem != "" {
				p.reason, p.message = cloudteamv1.ReasonPortsFailed, problem
			}
		}
		if port == nil || port.Status.PortID != a.PortID || port.Status.BoundTo != nil || consumer.OfDeployment(port) {
			continue
		}
		if heir := c.caches.Successor(port, c.machines); heir != nil && heir.UID != pod.UID {
			continue // that one's sync binds it
		}
		if err := c.ports.BindAgain(ctx, key, port, pod); err != nil {
			return progress{}, err
		}
	}
	// Ports of its slot that it does not have are for its next Pod: an earlier release gave this one its own port.
	return p, controller.Worst(c.deleteOwn(ctx, c.caches.PortsOf(pod, consumer.PodKind), named), unrestored)
}

// confirmProblem is problemOf, and confirms at the API server a problem that the condition does not show yet: the cache
// of ports may be older than that of Pods.
func (c *Controller) confirmProblem(
	ctx context.Context, a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (problem string, err error) {
	problem = c.problemOf(a, port, pod)
	if was := conditionOn(pod); problem == "" || was != nil && was.Message == problem || pod.DeletionTimestamp != nil {
		return problem, nil
	}
	live, err := controller.Live(ctx, c.ports.Ports.NetworkPorts(pod.Namespace), "NetworkPort", a.Port)
	if err != nil {
		return "", err
	}
	return c.problemOf(a, live, pod), nil
}
