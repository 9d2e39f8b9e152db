// Package trunk connects the interfaces of Pods with the VLANs of a trunk. The node is a virtual machine, whose own
// port in Neutron is the trunk's parent. It is to the agent what ovs.Switch is elsewhere, and needs no Open vSwitch.
//
// Each port has a VLAN interface on the node's own one, with the port's hardware address. Two filters of the kernel's
// traffic control redirect all packets: those of the VLAN into the Pod, and those of the Pod into the VLAN. So the
// node's network stack sees neither. What is plugged, for whom, is in the alias of the VLAN interface. A Pod cannot
// reach it, whatever it may do to its own interfaces.
package trunk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
)

// Switch is the trunk of the network namespace that the caller is in. It is safe for concurrent use, but writers must
// take turns.
type Switch struct {
	node.Signal
	parent string
	// seen is the index of the parent when it was read last; zero if it was not found.
	seen atomic.Int64
	// Write does each write. A test can end the agent between two.
	Write func(do func() error) error
}

// New makes a Switch. parent is the name of the node's interface whose port is the trunk's parent; empty means the one
// of the default route.
func New(parent string) *Switch {
	return &Switch{parent: parent, Write: func(do func() error) error { return do() }}
}

// State reads the kernel's interfaces and filters.
func (s *Switch) State(context.Context) (ovs.State, error) {
	links, err := link.All()
	if err != nil {
		return ovs.State{}, err
	}
	// Until it is found, a change of any interface may be its own.
	s.seen.Store(0)
	parent, err := s.parentOf(links)
	if err != nil {
		return ovs.State{}, err
	}
	s.seen.Store(int64(parent.Attrs().Index))
	state := ovs.State{Bridge: true, Parent: parent.Attrs().HardwareAddr.String(), Ports: map[string]ovs.Port{}}
	if isDown(parent) {
		state.Down = fmt.Sprintf("the trunk's interface %s is down", parent.Attrs().Name)
	}
	for _, l := range links {
		p, ours := portOf(l)
		if !ours {
			continue
		}
		device := slices.IndexFunc(links, func(d netlink.Link) bool { return d.Attrs().Name == p.Name })
		if device >= 0 && l.Attrs().ParentIndex == parent.Attrs().Index && l.Attrs().Flags&net.FlagUp != 0 {
			p.Open = redirects(l, links[device]) && redirects(links[device], l)
		}
		p.Error = state.Down
		state.Ports[p.Name] = p
	}
	return state, nil
}

// isDown reports whether an interface sends nothing.
func isDown(l netlink.Link) bool {
	a := l.Attrs()
	return a.Flags&net.FlagUp == 0 || a.OperState == netlink.OperDown || a.OperState == netlink.OperLowerLayerDown
}

// parentOf finds the interface whose port is the trunk's parent.
func (s *Switch) parentOf(links []netlink.Link) (netlink.Link, error) {
	effect := "interfaces on this node cannot be attached"
	if s.parent != "" {
		for _, l := range links {
			if l.Attrs().Name == s.parent && len(l.Attrs().HardwareAddr) == 6 {
				return l, nil
			}
		}
		return nil, fmt.Errorf("no interface %s with a hardware address exists (--parent); %s; name the interface whose "+
			"port in Neutron is the parent of a trunk", s.parent, effect)
	}
	var found netlink.Link
	best := math.MaxInt
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteList(nil, family)
		if err != nil {
			return nil, fmt.Errorf("listing the routes: %w", err)
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() || r.Priority >= best {
				continue
			}
			index := r.LinkIndex
			if len(r.MultiPath) > 0 {
				index = r.MultiPath[0].LinkIndex
			}
			for _, l := range links {
				if l.Attrs().Index == index && len(l.Attrs().HardwareAddr) == 6 {
					found, best = l, r.Priority
				}
			}
		}
		if found != nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("no default route has an interface with a hardware address; %s; name the interface whose "+
		"port in Neutron is the parent of a trunk by --parent", effect)
}

// The host's end of a Pod's interface is tap…, and its VLAN trk….
const devicePrefix, vlanPrefix = "tap", "trk"

func vlanOf(device string) string { return vlanPrefix + strings.TrimPrefix(device, devicePrefix) }

// portOf reads a VLAN interface of ours. One without an alias was left by an agent that ended while it made it: it is
// ours without a mark.
func portOf(l netlink.Link) (ovs.Port, bool) {
	vlan, ok := l.(*netlink.Vlan)
	if !ok || !strings.HasPrefix(vlan.Name, vlanPrefix) {
		return ovs.Port{}, false
	}
	p := ovs.Port{
		Name: devicePrefix + strings.TrimPrefix(vlan.Name, vlanPrefix), Ours: true,
		MAC: vlan.HardwareAddr.String(), Tag: vlan.VlanId,
	}
	if vlan.Alias == "" {
		return p, true
	}
	text, id, _ := cutLast(vlan.Alias)
	p.Mark, ok = mark.Parse(text)
	p.IfaceID = id
	return p, ok
}

func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// aliasOf is the alias of a port's VLAN interface.
func aliasOf(w ovs.Wanted) string { return w.Mark.String() + " " + w.IfaceID }

// redirects reports whether all packets that arrive at an interface leave by another.
func redirects(from, to netlink.Link) bool {
	filters, err := netlink.FilterList(from, netlink.HANDLE_MIN_INGRESS)
	if err != nil || len(filters) != 1 {
		return false
	}
	all, ok := filters[0].(*netlink.MatchAll)
	if !ok || len(all.Actions) != 1 {
		return false
	}
	redirect, ok := all.Actions[0].(*netlink.MirredAction)
	return ok && redirect.MirredAction == netlink.TCA_EGRESS_REDIR && redirect.Ifindex == to.Attrs().Index
}

// Put connects an interface with its VLAN. It first removes the ports that are in its way, and what was there for the
// same interface. After an error, or an end in between, the next one begins again. No packet flows before the last
// write.
func (s *Switch) Put(ctx context.Context, w ovs.Wanted, remove ...ovs.Port) error {
	if err := w.Mark.Validate(); err != nil {
		return err
	}
	links, err := link.All()
	if err != nil {
		return err
	}
	parent, err := s.parentOf(links)
	if err != nil {
		return err
	}
	device, err := netlink.LinkByName(w.Name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", w.Name, err)
	}
	vlan, err := vlanFor(w, parent)
	if err != nil {
		return err
	}
	defer s.Change()
	if err := s.Remove(ctx, append(remove, ovs.Port{Name: w.Name})...); err != nil {
		return err
	}
	if err := s.Write(func() error { return netlink.LinkAdd(vlan) }); err != nil {
		return explain(err, vlan, parent)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"marking it", func() error { return s.Write(func() error { return netlink.LinkSetAlias(vlan, aliasOf(w)) }) }},
		{"keeping IPv6 addresses off it", func() error { return s.Write(func() error { return withoutIPv6(vlan) }) }},
		{"redirecting its packets", func() error { return s.redirect(vlan, device) }},
		{"redirecting the Pod's packets", func() error { return s.redirect(device, vlan) }},
		{"setting it up", func() error { return s.Write(func() error { return netlink.LinkSetUp(vlan) }) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("making VLAN %d of %s, %s: %w", w.VLAN, parent.Attrs().Name, step.what, err)
		}
	}
	return nil
}

// vlanFor is the VLAN interface of a port, or why the parent cannot have it.
func vlanFor(w ovs.Wanted, parent netlink.Link) (*netlink.Vlan, error) {
	p := parent.Attrs()
	if p.HardwareAddr.String() != strings.ToLower(w.ParentMAC) {
		// Tenants read it: it has no hardware address of the node.
		return nil, agentapi.Errorf(agentapi.CodeTryAgain, "the port %s is prepared for another trunk than that of this "+
			"node's interface %s; the Pod's interface cannot be attached; the controller prepares it again, unless --parent "+
			"names a wrong interface; retrying", w.IfaceID, p.Name)
	}
	if w.MTU > p.MTU {
		return nil, agentapi.Errorf(agentapi.CodeInternal, "the Network's MTU of %d is larger than %d, that of the node's "+
			"interface %s; the Pod's interface cannot be attached; set the Network's mtu to %[2]d or less, or raise that of "+
			"the node's network", w.MTU, p.MTU, p.Name)
	}
	if p.Flags&net.FlagUp == 0 {
		return nil, agentapi.Errorf(agentapi.CodeTryAgain, "the trunk's interface %s is down; the Pod's interface cannot be "+
			"attached; set it up", p.Name)
	}
	mac, err := net.ParseMAC(w.MAC)
	if err != nil {
		return nil, fmt.Errorf("the port %s has an unreadable hardware address: %w", w.IfaceID, err)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.ParentIndex, attributes.HardwareAddr, attributes.MTU = vlanOf(w.Name), p.Index, mac, w.MTU
	return &netlink.Vlan{LinkAttrs: attributes, VlanId: w.VLAN, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}, nil
}

// explain says why a VLAN interface cannot be made.
func explain(err error, vlan *netlink.Vlan, parent netlink.Link) error {
	switch name := parent.Attrs().Name; {
	case errors.Is(err, unix.EEXIST):
		holder := "an interface in another network namespace"
		links, _ := link.All()
		for _, l := range links {
			if other, ok := l.(*netlink.Vlan); ok && other.VlanId == vlan.VlanId && other.ParentIndex == vlan.ParentIndex {
				holder = "the interface " + other.Name
			}
		}
		return agentapi.Errorf(agentapi.CodeTryAgain, "%s has VLAN %d of %s; the Pod's interface cannot be attached; "+
			"retrying; if it stays, delete that interface, which this agent did not make", holder, vlan.VlanId, name)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("this node's kernel has no VLANs; the Pod's interface cannot be attached; run `modprobe 8021q` "+
			"(making VLAN %d of %s: %w)", vlan.VlanId, name, err)
	default:
		return fmt.Errorf("making VLAN %d of %s: %w", vlan.VlanId, name, err)
	}
}

// withoutIPv6 has the node itself say nothing on an interface. A kernel without IPv6 says nothing anyway.
func withoutIPv6(l netlink.Link) error {
	err := netlink.LinkSetIP6AddrGenMode(l, nl.IN6_ADDR_GEN_MODE_NONE)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}

// redirect has all packets that arrive at an interface leave by another. What redirected them before goes.
func (s *Switch) redirect(from, to netlink.Link) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	// It takes its filters with it.
	err := s.Write(func() error { return netlink.QdiscDel(qdisc) })
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing filters of %s: %w", from.Attrs().Name, err)
	}
	if err = s.Write(func() error { return netlink.QdiscAdd(qdisc) }); err == nil {
		err = s.Write(func() error {
			return netlink.FilterAdd(&netlink.MatchAll{
				FilterAttrs: netlink.FilterAttrs{
					LinkIndex: from.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL,
				},
				Actions: []netlink.Action{netlink.NewMirredAction(to.Attrs().Index)},
			})
		})
	}
	if err != nil {
		return fmt.Errorf("from %s to %s: %w; the kernel needs sch_ingress, cls_matchall and act_mirred",
			from.Attrs().Name, to.Attrs().Name, err)
	}
	return nil
}

// Remove removes the VLAN interfaces of ports. It is no error if there is none.
func (s *Switch) Remove(_ context.Context, ports ...ovs.Port) error {
	if len(ports) == 0 {
		return nil
	}
	links, err := link.All()
	if err != nil {
		return err
	}
	for _, l := range links {
		have, ours := portOf(l)
		if !ours || !slices.ContainsFunc(ports, func(p ovs.Port) bool { return p.Name == have.Name }) {
			continue
		}
		err := s.Write(func() error { return netlink.LinkDel(l) })
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("deleting the interface %s: %w", l.Attrs().Name, err)
		}
		s.Change()
	}
	return nil
}

// Settle returns at once: the kernel applies each write before it answers.
func (s *Switch) Settle(context.Context) error { return nil }

// Run watches the trunk's interface and the default routes, until ctx is done. An ADD may wait for either.
func (s *Switch) Run(ctx context.Context) {
	if err := link.Follow(ctx, func(c link.Change) {
		if c == (link.Change{}) || c.DefaultRoute || s.mayBeParent(c) {
			s.Change()
		}
	}); err != nil {
		klog.FromContext(ctx).Error(err, "Watching the trunk's interface failed; its changes are seen by the next repair")
	}
	// What changed before.
	s.Change()
	<-ctx.Done()
}

// mayBeParent reports whether a change may be that of the trunk's interface.
func (s *Switch) mayBeParent(c link.Change) bool {
	if s.parent != "" {
		return c.Link == s.parent
	}
	seen := s.seen.Load()
	return seen == 0 || seen == int64(c.Index)
}

// Lost is always zero, for the same reason.
func (s *Switch) Lost() time.Duration { return 0 }
