package agent

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// The target of a live migration gets its interface before its port: the guest comes only to a Pod that runs. The port
// stays bound to the source, whose node has the packets. So nothing is plugged here. When the source has ended, the
// port is attached to this node, and a repair plugs the interface, as one that lost its port in the switch.

// standby returns the port that the Pod of an interface gets next, by what the controller says of it; nil if there is
// none, or none on this node, or several to choose from.
func (a *Agent) standby(r agentapi.Request) *cloudteamv1.NetworkPort {
	ports := slices.DeleteFunc(portsOf(a.standbys, r), func(p *cloudteamv1.NetworkPort) bool {
		return p.Status.Standby.Node != a.node || !isID(p.Status.PortID) || r.MAC != "" && !sameMAC(p.Status.MAC, r.MAC)
	})
	if len(ports) != 1 {
		return nil
	}
	return ports[0]
}

// prepareStandby says what the plugin makes of a port that the Pod gets next.
func (a *Agent) prepareStandby(
	ctx context.Context, p *cloudteamv1.NetworkPort, r agentapi.Request,
) (*agentapi.Interface, error) {
	w := standbyOf(p, r)
	if err := w.Mark.Validate(); err != nil {
		return nil, agentapi.Errorf(agentapi.CodeInvalidEnvironment, "%v", err)
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	s, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.isFree(s.State, w, p.Status.PortID); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Made an interface for the target of a live migration; plugging it when the port is "+
		"attached here", "namespace", r.PodNamespace, "pod", r.PodName, "interface", r.IfName, "port", p.Status.PortID)
	return interfaceOf(p, w, s), nil
}

// standbyOf is an interface that is not plugged yet.
func standbyOf(p *cloudteamv1.NetworkPort, r agentapi.Request) ovs.Wanted {
	return ovs.Wanted{Name: deviceOf(p.Status.PortID), Mark: markOf(p, r)}
}

// isFree refuses a device that is not the Pod's own from an earlier attempt: the plugin deletes what has the name. Two
// ports' devices can have one name, as it has only a part of the port's id. inTheWay also names what may be replaced:
// here nothing may.
func (a *Agent) isFree(s ovs.State, w ovs.Wanted, portID string) error {
	others := func(m mark.Mark) bool { return m.PortUID != w.Mark.PortUID || m.PodUID != w.Mark.PodUID }
	taken := false
	for _, have := range s.Ports {
		taken = taken || (have.Name == w.Name || have.IfaceID == portID) && (!have.Ours || others(have.Mark))
	}
	devices, err := a.links()
	if err != nil {
		return agentapi.Errorf(agentapi.CodeTryAgain, "%v", err)
	}
	for _, d := range devices {
		taken = taken || d.Name == w.Name && others(d.Mark)
	}
	if taken {
		return agentapi.Errorf(agentapi.CodeTryAgain, "the interface %s for the port %s is on this node already, and is not "+
			"this Pod's; the Pod's interface cannot be attached; it can be when the other one is gone; retrying", w.Name, portID)
	}
	return nil
}

// checkStandby says whether the interface of a port that the Pod gets next is there.
func (a *Agent) checkStandby(
	ctx context.Context, p *cloudteamv1.NetworkPort, r agentapi.Request,
) (*agentapi.Interface, error) {
	w := standbyOf(p, r)
	s, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	devices, err := a.links()
	if err != nil {
		return nil, agentapi.Errorf(agentapi.CodeInternal, "%v", err)
	}
	for _, d := range devices {
		if d.Mark == w.Mark {
			w.Name = d.Name
			return interfaceOf(p, w, s), nil
		}
	}
	return nil, agentapi.Errorf(agentapi.CodeInternal, "the interface %s of Pod %s/%s, the target of a live migration, "+
		"is not there; delete the Pod to have the migration fail and start again", r.IfName, r.PodNamespace, r.PodName)
}
