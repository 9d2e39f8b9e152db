package networkport

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/class"
	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// limits are those of the Networks' classes.
type limits struct {
	of    *classes.Classes
	ports cache.Indexer
}

// withhold says that no port may be created on a Network that has as many as its class allows; nil if one may. A port
// that exists, or that something uses, stays.
func (l limits) withhold(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) *managed.Problem {
	if obj.Status.PortID != "" || obj.Status.BoundTo != nil {
		return nil
	}
	limit := l.of.RuleOf(on).Limits().PortsPerNetwork
	if limit == nil {
		return nil
	}
	// A port from a namespace that may not use the Network takes no room of it.
	beside := slices.DeleteFunc(controller.PortsOn(l.ports, cache.ObjectName(obj.Network())),
		func(other *cloudteamv1.NetworkPort) bool {
			return other.Status.PortID == "" && !controller.Allows(on, other.Namespace)
		})
	mayExist := func(other *cloudteamv1.NetworkPort) bool {
		return other.Status.PortID != "" || slices.Contains(other.Finalizers, cloudteamv1.PortFinalizer)
	}
	if !classes.Full(obj, beside, limit, mayExist) {
		return nil
	}
	return managed.Waits(controller.Stalled(
		cloudteamv1.ReasonClassLimitReached, classes.PortLimitMessage(obj.Network(), *limit)))
}

// forbid says that the class of the Network forbids a field of the port's spec; nil if it does not, or if this spec was
// applied before. As long as the Network's own spec is not applied, nobody knows whether its class may judge.
func (l limits) forbid(on *cloudteamv1.Network, obj *cloudteamv1.NetworkPort) *managed.Problem {
	if controller.WasApplied(obj, obj.Status.AppliedGeneration) {
		return nil
	}
	if message := l.of.JudgePort(on, &obj.Spec, false); message != "" {
		return managed.Waits(controller.Stalled(cloudteamv1.ReasonForbiddenByClass, message))
	}
	if privileged := class.PortFields(&obj.Spec); len(privileged) > 0 && classes.Unapplied(on) {
		return waiting("Network %s has a change that is not applied yet. spec.%s waits for that. Run kubectl describe on "+
			"the Network to see why.", obj.Network(), privileged[0])
	}
	return nil
}

// tell writes what the class of the Network forbids of a port that is kept as declared.
func (l limits) tell(networks listers.NetworkLister, obj *cloudteamv1.NetworkPort) {
	var forbids *controller.State
	on, err := networks.Networks(obj.Network().Namespace).Get(obj.Network().Name)
	if err == nil && controller.WasApplied(obj, obj.Status.AppliedGeneration) {
		if message := l.of.JudgePort(on, &obj.Spec, true); message != "" {
			forbids = new(controller.Stalled(cloudteamv1.ReasonForbiddenByClass, message))
		}
	}
	managed.TellViolation(obj, &obj.Status.Conditions, forbids)
}

// roomHandler requeues the NetworkPorts that wait for room on a Network when another one is gone.
func roomHandler(c *Controller, ports cache.Indexer) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		gone, ok := obj.(*cloudteamv1.NetworkPort)
		if !ok {
			return
		}
		c.EnqueueWaiting(controller.PortsOn(ports, cache.ObjectName(gone.Network())))
	}}
}
