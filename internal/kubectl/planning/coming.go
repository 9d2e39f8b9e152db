package planning

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// anyRange stands for the CIDR that a subnet pool will give. Any address may be in it.
var anyRange = map[int]string{4: "0.0.0.0/0", 6: "::/0"}

// coming has the ports of the same files find a Network that a change creates, as its status will show it.
func (p *Planner) coming(n *cloudteamv1.Network, change plan.Change) error {
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
	return p.Know([]*cloudteamv1.Network{n}, nil, nil)
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
	return p.Know(nil, nil, []*cloudteamv1.SecurityGroup{g})
}

// toBeMade stands for the id of what does not exist yet, in texts for users.
func toBeMade(name string) string { return fmt.Sprintf("%q created above", name) }

func willBeReady(conditions *[]metav1.Condition) {
	meta.SetStatusCondition(conditions, metav1.Condition{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: cloudteamv1.ReasonAvailable})
}

func creates(change plan.Change, action plan.Action) bool {
	return slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action == action })
}
