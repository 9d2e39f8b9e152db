package planning

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// anyRange is for the CIDR that a subnet pool will give. Any address may be in it.
var anyRange = map[int]string{4: "0.0.0.0/0", 6: "::/0"}

// coming has later plans find an object as its status will show it after a change.
func (p *Planner) coming(obj kinds.Object, change plan.Change) error {
	switch obj := obj.(type) {
	case *cloudteamv1.Network:
		return p.comingNetwork(obj, change)
	case *cloudteamv1.SecurityGroup:
		return p.comingGroup(obj, change)
	case *cloudteamv1.NetworkPort:
		return p.comingPort(obj, change)
	}
	return nil // nothing depends on it
}

// comingNetwork is coming for a Network.
func (p *Planner) comingNetwork(n *cloudteamv1.Network, change plan.Change) error {
	if !creates(change, plan.CreateNetwork) {
		return nil
	}
	n = n.DeepCopy()
	status := &n.Status
	status.NetworkID = toBeMade(n.Name)
	for _, s := range change {
		if s.Action != plan.CreateSubnet {
			continue
		}
		is := cloudteamv1.SubnetStatus{
			ID: status.NetworkID + " subnet " + s.Subnet.CIDR.String(), CIDR: s.Subnet.CIDR.String(),
			Gateway: cloudteamv1.GatewayNone, ServiceTypes: s.Subnet.ServiceTypes,
			IPv6AddressMode: cloudteamv1.IPv6Mode(s.Subnet.IPv6AddressMode),
			IPv6RAMode:      cloudteamv1.IPv6Mode(s.Subnet.IPv6RAMode),
		}
		if s.Subnet.Gateway.IsValid() {
			is.Gateway = s.Subnet.Gateway.String()
		}
		if s.Subnet.Pending() {
			is.CIDR, is.SubnetPool = anyRange[s.Subnet.From.Pool.IPVersion], s.Subnet.From.Name
		}
		status.Subnets = append(status.Subnets, is)
	}
	made, _, _, _ := p.classes.Judge(n)
	status.Class, status.AppliedGeneration = made.With, n.Generation
	willBeReady(&status.Conditions)
	return p.Know(n)
}

// comingGroup is coming for a SecurityGroup.
func (p *Planner) comingGroup(g *cloudteamv1.SecurityGroup, change plan.Change) error {
	if !creates(change, plan.CreateGroup) {
		return nil
	}
	g = g.DeepCopy()
	g.Status.SecurityGroupID = toBeMade(g.Name)
	g.Status.AppliedGeneration = g.Generation
	willBeReady(&g.Status.Conditions)
	return p.Know(g)
}

// withComing is an Inventory that also has the ports that earlier plans create.
type withComing struct {
	managed.Inventory
	p *Planner
}

// Observed implements managed.Inventory.
func (c withComing) Observed(
	ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind,
) (plan.Observed, error) {
	observed, err := c.Inventory.Observed(ctx, owner, since, need...)
	if port, comes := c.p.made[types.UID(owner.Object)]; comes && err == nil {
		observed.Ports = append(slices.Clone(observed.Ports), port)
	}
	return observed, err
}

// comingPort has the FloatingIPs of the same files find a NetworkPort. If a change creates its port, that has the
// addresses that the change asks for.
func (p *Planner) comingPort(port *cloudteamv1.NetworkPort, change plan.Change) error {
	port = port.DeepCopy()
	for _, s := range change {
		if s.Action != plan.CreatePort {
			continue
		}
		port.Status.PortID, port.Status.Addresses = toBeMade(port.Name), nil
		p.made[port.UID] = plan.ObservedPort{ID: port.Status.PortID, PortAttributes: s.Port}
		for _, a := range s.Port.Addresses {
			is := cloudteamv1.PortAddress{SubnetID: a.SubnetID, Address: p.rangeOf(port, a.SubnetID)}
			if a.Address.IsValid() {
				is.Address = netip.PrefixFrom(a.Address, a.Address.BitLen()).String()
			}
			port.Status.Addresses = append(port.Status.Addresses, is)
		}
	}
	return p.Know(port)
}

// rangeOf is the CIDR of a subnet of a port's Network, which is for an address that Neutron will choose there.
func (p *Planner) rangeOf(port *cloudteamv1.NetworkPort, subnet string) string {
	stored, _, _ := p.known.GetByKey(port.Network().String()) // its key is good
	if n, known := stored.(*cloudteamv1.Network); known {
		for _, s := range n.Status.Subnets {
			if s.ID == subnet {
				return s.CIDR
			}
		}
	}
	return ""
}

// toBeMade is for the id of what does not exist yet, in texts for users.
func toBeMade(name string) string { return fmt.Sprintf("%q created above", name) }

func willBeReady(conditions *[]metav1.Condition) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: cloudteamv1.ReasonAvailable})
}

func creates(change plan.Change, action plan.Action) bool {
	return slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action == action })
}
