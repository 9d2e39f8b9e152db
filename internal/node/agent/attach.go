package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// choose returns the port of an interface: one that the controller bound to this very Pod and prepared for this node.
// The hardware address only chooses among those, because a tenant can write it.
func (a *Agent) choose(r agentapi.Request) (*cloudteamv1.NetworkPort, error) {
	effect := fmt.Sprintf("the interface %s of Pod %s/%s cannot be attached yet", r.IfName, r.PodNamespace, r.PodName)
	remedy := fmt.Sprintf("retrying; see the condition Attached in `kubectl get networkports -n %s -o yaml`",
		r.PodNamespace)
	own := slices.DeleteFunc(portsOf(a.ports, r), func(p *cloudteamv1.NetworkPort) bool {
		return p.Status.BoundTo.Kind != "Pod"
	})
	if len(own) == 0 {
		return nil, agentapi.Errorf(agentapi.CodeTryAgain,
			"no NetworkPort of the Pod is prepared for node %s; %s; %s; if the Pod has no NetworkPort, name a Network in its "+
				"annotation k8s.v1.cni.cncf.io/networks: a NetworkAttachmentDefinition that is no Network's gives no port",
			a.node, effect, remedy)
	}
	if r.MAC != "" {
		wanted, err := net.ParseMAC(r.MAC)
		if err != nil {
			return nil, agentapi.Errorf(agentapi.CodeInvalidConfig, "%q is no hardware address; %s; "+
				"leave the Pod's annotation k8s.v1.cni.cncf.io/networks to the controller", r.MAC, effect)
		}
		var same, macs = own[:0:0], []string(nil)
		for _, p := range own {
			macs = append(macs, p.Status.MAC)
			if mac, err := net.ParseMAC(p.Status.MAC); err == nil && mac.String() == wanted.String() {
				same = append(same, p)
			}
		}
		if own = same; len(own) == 0 {
			return nil, agentapi.Errorf(agentapi.CodeTryAgain, "no port of the Pod on node %s has the hardware address %s "+
				"(they have %s); %s; %s", a.node, r.MAC, strings.Join(macs, ", "), effect, remedy)
		}
	}
	if len(own) > 1 {
		return nil, agentapi.Errorf(agentapi.CodeInvalidConfig, "the Pod has %d ports here and the interface no hardware "+
			"address to choose by; %s; leave the Pod's annotation k8s.v1.cni.cncf.io/networks to the controller",
			len(own), effect)
	}
	p := own[0]
	attachment := p.Attachment()
	if attachment == nil || attachment.Node != a.node {
		return nil, agentapi.Errorf(agentapi.CodeTryAgain,
			"the NetworkPort %s is not prepared for node %s; %s; %s", p.Name, a.node, effect, remedy)
	}
	if !isID(p.Status.PortID) {
		return nil, agentapi.Errorf(agentapi.CodeInternal, "the NetworkPort %s has %q, which is no id of a port in "+
			"Neutron; %s; ask the operator of its cloud", p.Name, p.Status.PortID, effect)
	}
	if !slices.Contains(modes, attachment.Mode) {
		return nil, agentapi.Errorf(agentapi.CodeInternal,
			"the NetworkPort %s is prepared for the mode %q, which this agent does not know; %s; update the agent",
			p.Name, attachment.Mode, effect)
	}
	if !a.supports(attachment.Mode) {
		return nil, agentapi.Errorf(agentapi.CodeTryAgain, "the NetworkPort %s is prepared for the mode %q, and the agent "+
			"of node %s works in another one; %s; the controller prepares it again when the agent has annotated the Node; "+
			"retrying", p.Name, attachment.Mode, a.node, effect)
	}
	return p, nil
}

// portsOf are the ports of the Pod of a request, by an index of Agent.
func portsOf(index cache.Indexer, r agentapi.Request) (ports []*cloudteamv1.NetworkPort) {
	found, _ := index.ByIndex(byPod, string(r.PodUID)) // the index exists
	for _, object := range found {
		p, ok := object.(*cloudteamv1.NetworkPort)
		if ok && p.Namespace == r.PodNamespace && r.PodUID != "" {
			ports = append(ports, p)
		}
	}
	return ports
}

// isID reports whether a cloud's id of a port is of the usual form. It becomes a part of an interface's name.
var isID = regexp.MustCompile(`^[0-9A-Za-z-]{11,36}$`).MatchString

// modes are those that an agent can attach in.
var modes = []cloudteamv1.AttachmentMode{
	cloudteamv1.AttachmentOVN, cloudteamv1.AttachmentOVNUnbound, cloudteamv1.AttachmentOVS, cloudteamv1.AttachmentTrunk,
}

// supports reports whether this agent can attach in a mode: either by Open vSwitch or by a trunk.
func (a *Agent) supports(mode cloudteamv1.AttachmentMode) bool {
	return slices.Contains(modes, mode) && (mode == cloudteamv1.AttachmentTrunk) == a.onTrunk()
}

// onTrunk reports whether the node is a virtual machine with a trunk.
func (a *Agent) onTrunk() bool { return a.mode == string(cloudteamv1.AttachmentTrunk) }

// flows reports whether packets flow between a port of the switch and Neutron, and for whom it waits otherwise.
func flows(mode cloudteamv1.AttachmentMode, p ovs.Port) (bool, string) {
	if mode == cloudteamv1.AttachmentTrunk {
		if p.Error == "" && !p.Open {
			p.Error = "it is not connected with its VLAN on the trunk"
		}
		return p.Error == "", p.Error
	}
	if p.Error != "" {
		return false, "Open vSwitch reports: " + p.Error
	}
	if mode == cloudteamv1.AttachmentOVS {
		return p.Wired(), "neutron-openvswitch-agent has not connected it; look at its log on this node"
	}
	return p.Installed, "ovn-controller has not installed its flows; look at its log on this node, " +
		"and whether the port is bound to another host"
}

// wantedOf is the interface of a port.
func (a *Agent) wantedOf(p *cloudteamv1.NetworkPort, r agentapi.Request) (ovs.Wanted, error) {
	w := a.wantedFor(p, deviceOf(p.Status.PortID), markOf(p, r))
	w.Netns = r.Netns
	if w.NeutronAgent {
		// A port that was made again has an interface of the former id's name. If Neutron's agent sees that go and another
		// come with the same id, it disconnects the new one.
		a.turn.Lock()
		if name, ok := a.names[p.UID]; ok {
			w.Name = name
		}
		a.turn.Unlock()
	}
	if err := w.Mark.Validate(); err != nil {
		return w, agentapi.Errorf(agentapi.CodeInvalidEnvironment, "%v", err)
	}
	return w, nil
}

// markOf is the mark of the interface that a request makes for a port.
func markOf(p *cloudteamv1.NetworkPort, r agentapi.Request) mark.Mark {
	return mark.Mark{Sandbox: r.Sandbox, IfName: r.IfName, PodUID: r.PodUID, PortUID: p.UID}
}

// wantedFor is how an interface with a mark is connected to a port that is attached.
func (a *Agent) wantedFor(p *cloudteamv1.NetworkPort, device string, m mark.Mark) ovs.Wanted {
	at := p.Status.Attachment
	w := ovs.Wanted{
		Name: device, IfaceID: p.Status.PortID, MAC: p.Status.MAC, Mark: m,
		NeutronAgent: at.Mode == cloudteamv1.AttachmentOVS,
	}
	if at.Mode == cloudteamv1.AttachmentTrunk {
		w.VLAN, w.ParentMAC, w.MTU = int(at.VLAN), a.parentMAC(at), int(p.Status.MTU)
	}
	return w
}

// sameMAC compares hardware addresses, however they are written.
func sameMAC(a, b string) bool { return strings.EqualFold(a, b) }

// prepare waits until the interface's port is prepared. Then it removes from the switch what an earlier sandbox of the
// Pod left, so that the plugin can make the interface again.
func (a *Agent) prepare(ctx context.Context, r agentapi.Request) (*agentapi.Interface, error) {
	p, standby, err := a.await(ctx, r)
	if err != nil {
		return nil, err
	}
	if standby {
		return a.prepareStandby(ctx, p, r)
	}
	w, err := a.wantedOf(p, r)
	if err != nil {
		return nil, err
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	s, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	stale, err := a.inTheWay(s.State, w)
	if err != nil {
		return nil, err
	}
	// What a crashed attempt of the same sandbox left is made again, too.
	if own, ok := s.Ports[w.Name]; ok && own.Ours && own.Mark == w.Mark {
		stale = append(stale, own)
	}
	a.claims[p.UID] = r.Sandbox
	if len(stale) > 0 {
		if err := a.vswitch.Remove(ctx, stale...); err != nil {
			return nil, err
		}
		if err := a.vswitch.Settle(ctx); err != nil {
			return nil, err
		}
	}
	return interfaceOf(p, w, s), nil
}

// await waits until choose finds the port, or standby does.
func (a *Agent) await(
	ctx context.Context, r agentapi.Request,
) (port *cloudteamv1.NetworkPort, standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	for {
		ports, vswitch := a.portsChanged.Changed(), a.vswitch.Changed()
		p, err := a.choose(r)
		var next *cloudteamv1.NetworkPort
		if err != nil {
			next = a.standby(r)
		}
		if next != nil {
			p, err = next, nil
		}
		if err == nil {
			if _, err = a.ready(ctx); err == nil {
				return p, next != nil, nil
			}
			err = agentapi.Errorf(agentapi.CodeTryAgain, "%v", err)
		}
		if refusal := (*agentapi.Error)(nil); !errors.As(err, &refusal) || refusal.Code != agentapi.CodeTryAgain {
			return nil, false, err
		}
		select {
		case <-ctx.Done():
			return nil, false, err
		case <-ports:
		case <-vswitch:
		}
	}
}

// interfaceOf says what the plugin makes.
func interfaceOf(p *cloudteamv1.NetworkPort, w ovs.Wanted, s surroundings) *agentapi.Interface {
	i := &agentapi.Interface{
		PortID: p.Status.PortID, Device: w.Name, Alias: w.Mark.String(), MAC: p.Status.MAC, MTU: int(p.Status.MTU),
		TxChecksumOff: s.UserSpace,
	}
	for _, address := range p.Status.Addresses {
		i.Addresses = append(i.Addresses, agentapi.Address{Address: address.Address, Gateway: address.Gateway})
	}
	return i
}

// inTheWay returns the ports of the switch that older sandboxes left for a port. It refuses a second interface of one
// port, and what somebody else put there: two interfaces with one id confuse OVN. It also refuses an id that another
// Pod has: clouds give the ids, and a tenant can have its own cloud.
func (a *Agent) inTheWay(s ovs.State, w ovs.Wanted) ([]ovs.Port, error) {
	var stale []ovs.Port
	for _, have := range s.Ports {
		sameVLAN := w.VLAN != 0 && have.Tag == w.VLAN
		if have.IfaceID != w.IfaceID && have.Name != w.Name && !sameVLAN &&
			(!have.Ours || have.Mark.PortUID != w.Mark.PortUID) {
			continue
		}
		switch {
		case !have.Ours:
			return nil, agentapi.Errorf(agentapi.CodeInternal, "Open vSwitch has an interface %s for the port %s that this "+
				"agent did not plug; the Pod's interface cannot be attached; remove it with `ovs-vsctl del-port %s` "+
				"if nothing uses it",
				have.Name, w.IfaceID, have.Name)
		case have.Mark == (mark.Mark{}):
			// An agent ended while it made it.
			stale = append(stale, have)
		case have.IfaceID != w.IfaceID && have.Mark.PortUID != w.Mark.PortUID && sameVLAN:
			return nil, agentapi.Errorf(agentapi.CodeTryAgain, "VLAN %d of the trunk is still connected for another Pod's "+
				"port, %s; the Pod's interface cannot be attached; it is disconnected as soon as the controller has taken "+
				"that port off the node; retrying", w.VLAN, have.IfaceID)
		case have.Mark.PortUID != w.Mark.PortUID:
			return nil, agentapi.Errorf(agentapi.CodeTryAgain, "the port %s is plugged for another Pod on this node; the Pod's "+
				"interface cannot be attached; if the other Pod has ended, it is unplugged soon; retrying", w.IfaceID)
		case have.Mark == w.Mark && have.Name == w.Name:
		case have.Mark.Sandbox == w.Mark.Sandbox && have.Mark.IfName != w.Mark.IfName:
			return nil, agentapi.Errorf(agentapi.CodeInvalidConfig, "the port %s is the Pod's interface %s already; it cannot "+
				"be %s, too; name the network once in the Pod's annotation k8s.v1.cni.cncf.io/networks",
				w.IfaceID, have.Mark.IfName, w.Mark.IfName)
		default:
			stale = append(stale, have)
		}
	}
	return stale, nil
}

// plug connects the interface that the plugin made, and waits until packets flow.
func (a *Agent) plug(ctx context.Context, r agentapi.Request) error {
	p, err := a.choose(r)
	if err != nil {
		if next := a.standby(r); next != nil && next.Status.PortID == r.PortID {
			return nil // a repair plugs it when the port is attached here
		}
		return err
	}
	if r.PortID != p.Status.PortID {
		return agentapi.Errorf(agentapi.CodeTryAgain, "the NetworkPort %s has another port in Neutron now, %s and not %s; "+
			"the interface %s has to be created again; retrying", p.Name, p.Status.PortID, r.PortID, r.IfName)
	}
	w, err := a.wantedOf(p, r)
	if err != nil {
		return err
	}
	if err := a.connect(ctx, w); err != nil {
		a.writeCondition(ctx, p, failed(err.Error()))
		return err
	}
	mode := p.Status.Attachment.Mode
	waiting, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	for {
		changed := a.vswitch.Changed()
		s, err := a.vswitch.State(waiting)
		why := "it vanished from the switch"
		if err != nil {
			why = err.Error()
		} else if have, ok := s.Ports[w.Name]; ok && have.Ours && have.Mark == w.Mark {
			var flowing bool
			if flowing, why = flows(mode, have); flowing {
				klog.FromContext(ctx).Info("Plugged", "namespace", r.PodNamespace, "pod", r.PodName, "interface", r.IfName,
					"port", w.IfaceID, "device", w.Name)
				// A repair, which the same event starts, writes the condition: the Pod does not wait for the API server.
				return nil
			}
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return agentapi.Errorf(agentapi.CodeTryAgain, "the agent stops, or the plugin does; retrying")
			}
			refusal := agentapi.Errorf(agentapi.CodeTryAgain, "no packets flow at the interface %s of port %s after %s: %s; "+
				"the Pod does not start; retrying", w.Name, w.IfaceID, a.wait, why)
			a.writeCondition(ctx, p, failed(refusal.Message))
			return refusal
		case <-changed:
		}
	}
}

// connect connects the interface with the switch.
func (a *Agent) connect(ctx context.Context, w ovs.Wanted) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	devices, err := a.links()
	if err != nil {
		return err
	}
	if d, ok := deviceNamed(devices, w.Name); !ok || d.Mark != w.Mark {
		return fmt.Errorf("the interface %s does not exist for sandbox %s; the plugin and the agent have to share the "+
			"node's network namespace", w.Name, w.Mark.Sandbox)
	}
	s, err := a.vswitch.State(ctx)
	if err != nil {
		return err
	}
	stale, err := a.inTheWay(s, w)
	if err != nil {
		return err
	}
	a.claims[w.Mark.PortUID] = w.Mark.Sandbox
	return a.vswitch.Put(ctx, w, stale...)
}

func deviceNamed(devices []link.Device, name string) (link.Device, bool) {
	for _, d := range devices {
		if d.Name == name {
			return d, true
		}
	}
	return link.Device{}, false
}

// unplug removes what was plugged for an interface of a sandbox.
func (a *Agent) unplug(ctx context.Context, r agentapi.Request) error {
	if r.Sandbox == "" || r.IfName == "" {
		return agentapi.Errorf(agentapi.CodeInvalidEnvironment, "the request names no sandbox or no interface")
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	s, err := a.vswitch.State(ctx)
	if err != nil {
		return err
	}
	var gone []ovs.Port
	for _, p := range s.Ports {
		if p.Ours && p.Mark.Of(r.Sandbox, r.IfName) {
			gone = append(gone, p)
			klog.FromContext(ctx).Info("Unplugged", "interface", r.IfName, "sandbox", r.Sandbox, "port", p.IfaceID,
				"device", p.Name)
		}
	}
	return a.vswitch.Remove(ctx, gone...)
}

// check fails if packets do not flow at an interface.
func (a *Agent) check(ctx context.Context, r agentapi.Request) (*agentapi.Interface, error) {
	p, err := a.choose(r)
	if err != nil {
		if next := a.standby(r); next != nil {
			return a.checkStandby(ctx, next, r)
		}
		return nil, err
	}
	s, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	w, err := a.wantedOf(p, r)
	if err != nil {
		return nil, err
	}
	// The name of the interface stays when the port's id changes.
	have, ok := s.Find(func(have ovs.Port) bool { return have.Ours && have.Mark == w.Mark })
	if !ok || have.IfaceID != w.IfaceID {
		return nil, agentapi.Errorf(agentapi.CodeInternal, "the interface %s of Pod %s/%s is not plugged as port %s; "+
			"the agent repairs it within %s", r.IfName, r.PodNamespace, r.PodName, w.IfaceID, repairInterval)
	}
	if flowing, why := flows(p.Status.Attachment.Mode, have); !flowing {
		return nil, agentapi.Errorf(agentapi.CodeInternal, "no packets flow at the interface %s of Pod %s/%s: %s",
			r.IfName, r.PodNamespace, r.PodName, why)
	}
	w.Name = have.Name
	return interfaceOf(p, w, s), nil
}

// expired reports whether a moment is longer ago than a duration.
func expired(at time.Time, after time.Duration) bool { return time.Since(at) > after }
