package classes

import (
	"fmt"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// LimitMessage gives the message that says that a namespace has as many objects of a kind, such as Network, as the
// class allows.
func (r Rule) LimitMessage(kind string) func(limit int32) string {
	return func(limit int32) string {
		return fmt.Sprintf("NetworkClass %q allows %d %ss per namespace, and this namespace already has that many. Nothing "+
			"is created. Delete a %[3]s of this class, name another class in spec.className, or have the limit raised.", r.Name,
			limit, kind)
	}
}

// PortLimitMessage says that a Network has as many NetworkPorts as its class allows.
func PortLimitMessage(on fmt.Stringer, limit int32) string {
	return fmt.Sprintf("The NetworkClass of Network %s allows %d NetworkPorts on it, and it already has that many. The "+
		"port is created when one of them is deleted. Delete a NetworkPort, use another Network, or have the limit raised.",
		on, limit)
}

// PortsPerDeployment gives the number of NetworkPorts that one Deployment may have on a Network; limited is false
// without a limit.
func (c *Classes) PortsPerDeployment(on *cloudteamv1.Network) (most int, limited bool) {
	if limit := c.RuleOf(on).Limits().PortsPerDeployment; limit != nil {
		return int(*limit), true
	}
	return 0, false
}
