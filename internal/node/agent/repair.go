package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// repair compares the NetworkPorts of this node, the Pods' interfaces and the switch's ports, and makes the last
// follow the first two. It never touches an interface: that goes with the Pod.
func (a *Agent) repair(ctx context.Context) error {
	// A port that is not read yet looks like one that is gone.
	if !a.synced() {
		return nil
	}
	findings, err := a.mend(ctx)
	for _, f := range findings {
		a.writeCondition(ctx, f.port, f.condition)
	}
	return err
}

// finding is what a NetworkPort is told.
type finding struct {
	port      *cloudteamv1.NetworkPort
	condition condition
}

// mend does what repair does, but tells nobody: a slow API server must not delay a DEL.
func (a *Agent) mend(ctx context.Context) ([]finding, error) {
	a.turn.Lock()
	defer a.turn.Unlock()
	s, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	devices, err := a.links()
	if err != nil {
		return nil, err
	}
	ports := map[types.UID]*cloudteamv1.NetworkPort{}
	for _, object := range a.ports.List() {
		if p, ok := object.(*cloudteamv1.NetworkPort); ok && p.Status.Attachment != nil {
			ports[p.UID] = p
		}
	}
	gone := func(uid types.UID) bool { return ports[uid] == nil }
	maps.DeleteFunc(a.claims, func(uid types.UID, _ string) bool { return gone(uid) })
	maps.DeleteFunc(a.names, func(uid types.UID, _ string) bool { return gone(uid) })
	maps.DeleteFunc(a.silent, func(uid types.UID, _ time.Time) bool { return gone(uid) })

	s.Ports = maps.Clone(s.Ports)
	failed := []error{a.collect(ctx, s, devices, ports)}
	var findings []finding
	for _, d := range a.youngest(devices) {
		p := ports[d.Mark.PortUID]
		if p == nil || p.Attachment() == nil || p.Status.Attachment.PodUID != d.Mark.PodUID ||
			!isID(p.Status.PortID) || !a.supports(p.Status.Attachment.Mode) {
			continue
		}
		a.names[p.UID] = d.Name
		c, err := a.keep(ctx, s.State, d, p)
		if failed = append(failed, err); c != nil {
			findings = append(findings, finding{p, *c})
		}
	}
	return findings, errors.Join(failed...)
}

// collect removes the agent's ports that no interface or no NetworkPort has any more. While Neutron is prepared for a
// port that was made again, its former id stays: nothing answers to it.
func (a *Agent) collect(ctx context.Context, s surroundings, devices []link.Device,
	ports map[types.UID]*cloudteamv1.NetworkPort,
) error {
	var gone []ovs.Port
	for _, have := range s.Ports {
		if !have.Ours {
			continue
		}
		d, ok := deviceNamed(devices, have.Name)
		p := ports[have.Mark.PortUID]
		why := ""
		switch {
		case !ok || d.Mark != have.Mark:
			why = "its interface is gone"
		case p == nil:
			why = "its NetworkPort is gone, or not attached to this node"
		case p.Status.Attachment.PodUID != have.Mark.PodUID:
			why = "its NetworkPort is another Pod's"
		default:
			continue
		}
		klog.FromContext(ctx).Info("Unplugging", "reason", why, "device", have.Name, "port", have.IfaceID,
			"sandbox", have.Mark.Sandbox)
		repairs.WithLabelValues("removed").Inc()
		gone = append(gone, have)
	}
	if err := a.vswitch.Remove(ctx, gone...); err != nil {
		return err
	}
	for _, p := range gone {
		delete(s.Ports, p.Name)
	}
	return nil
}

// youngest returns the interface of each port that counts: that of the sandbox which the port was last prepared for, or
// the youngest. An older sandbox may exist until the container runtime has removed it.
func (a *Agent) youngest(devices []link.Device) map[types.UID]link.Device {
	result := map[types.UID]link.Device{}
	for _, d := range devices {
		uid := d.Mark.PortUID
		if claim, ok := a.claims[uid]; ok && claim != d.Mark.Sandbox {
			continue
		}
		if other, ok := result[uid]; !ok || d.Index > other.Index {
			result[uid] = d
		}
	}
	return result
}

// keep plugs an interface again that lost its port in the switch, or whose port has another id now. It returns the
// condition that follows; nil if there is no news.
func (a *Agent) keep(ctx context.Context, s ovs.State, d link.Device, p *cloudteamv1.NetworkPort) (*condition, error) {
	w := a.wantedFor(p, d.Name, d.Mark)
	have, ok := s.Ports[d.Name]
	if ok && have.Ours && have.Mark == d.Mark && have.IfaceID == w.IfaceID && sameMAC(have.MAC, w.MAC) &&
		(w.VLAN == 0 || have.Tag == w.VLAN && have.Open) {
		flowing, why := flows(p.Status.Attachment.Mode, have)
		if flowing {
			delete(a.silent, p.UID)
			return new(plugged(w, p.Status.Attachment.Mode, a.node)), nil
		}
		since, ok := a.silent[p.UID]
		if !ok {
			a.silent[p.UID] = time.Now()
		} else if isPlugged(p) && expired(since, a.patience()) {
			return new(failedLater(w, why)), nil
		}
		return nil, nil
	}
	stale, err := a.inTheWay(s, w)
	if err == nil {
		reason := "the port is gone from the switch"
		if ok {
			reason = fmt.Sprintf("the port had the id %s and VLAN %d, or was not connected", have.IfaceID, have.Tag)
		}
		klog.FromContext(ctx).Info("Plugging again", "reason", reason, "device", d.Name, "port", w.IfaceID)
		repairs.WithLabelValues("plugged").Inc()
		err = a.vswitch.Put(ctx, w, stale...)
	}
	if err != nil {
		return new(failedLater(w, err.Error())), err
	}
	return nil, nil
}
