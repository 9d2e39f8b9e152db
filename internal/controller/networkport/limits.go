package networkport

import (
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
	of *classes.Classes
	// room bounds how many ports a Network has; nil for no bound.
	room *managed.Room[*cloudteamv1.NetworkPort]
}

// roomOn bounds how many ports there are on each Network.
func roomOn(networks listers.NetworkLister, of *classes.Classes) *managed.Room[*cloudteamv1.NetworkPort] {
	return &managed.Room[*cloudteamv1.NetworkPort]{
		Group: func(obj *cloudteamv1.NetworkPort) (cache.ObjectName, bool) {
			return cache.ObjectName(obj.Network()), true
		},
		Exists: func(obj *cloudteamv1.NetworkPort) bool { return obj.Status.PortID != "" },
		Barred: func(obj *cloudteamv1.NetworkPort) bool {
			on := obj.Network()
			network, err := networks.Networks(on.Namespace).Get(on.Name)
			if err != nil { // anybody can name one that others may make later, and write the finalizer
				return on.Namespace != obj.Namespace
			}
			return !controller.Allows(network, obj.Namespace)
		},
		Limit: func(on cache.ObjectName) (*int32, []cache.ObjectName) {
			network, err := networks.Networks(on.Namespace).Get(on.Name)
			if err != nil {
				return nil, nil // no port is created there
			}
			return of.RuleOf(network).Limits().PortsPerNetwork, []cache.ObjectName{on}
		},
	}
}

// withhold says that no port may be created on a Network that has as many as its class allows; nil if one may. A port
// that exists, or that something uses, stays.
func (l limits) withhold(obj *cloudteamv1.NetworkPort) *managed.Problem {
	if l.room == nil || obj.Status.BoundTo != nil {
		return nil
	}
	return l.room.Refuse(obj, func(limit int32) string { return classes.PortLimitMessage(obj.Network(), limit) })
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

// setViolation writes what the class of the Network forbids of a port that is kept as declared.
func (l limits) setViolation(networks listers.NetworkLister, obj *cloudteamv1.NetworkPort) {
	var forbids *controller.State
	on, err := networks.Networks(obj.Network().Namespace).Get(obj.Network().Name)
	if err == nil && controller.WasApplied(obj, obj.Status.AppliedGeneration) {
		if message := l.of.JudgePort(on, &obj.Spec, true); message != "" {
			forbids = new(controller.Stalled(cloudteamv1.ReasonForbiddenByClass, message))
		}
	}
	managed.SetViolation(obj, &obj.Status.Conditions, forbids)
}
