package classes

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Full reports whether as many objects come before obj as a limit allows: those that have something in Neutron, and
// older ones. others may contain obj. A nil limit is none.
//
// The first come first: of objects of one second, the order is that of the names. One that may have something already
// counts whatever its age, so that a burst within one second does not pass.
func Full[T metav1.Object](obj T, others []T, limit *int32, has func(T) bool) bool {
	if limit == nil {
		return false
	}
	ahead := int32(0)
	for _, other := range others {
		if other.GetUID() != obj.GetUID() && (has(other) || older(other, obj)) {
			ahead++
		}
	}
	return ahead >= *limit
}

func older(a, b metav1.Object) bool {
	of, than := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !of.Equal(&than) {
		return of.Before(&than)
	}
	if a.GetNamespace() != b.GetNamespace() {
		return a.GetNamespace() < b.GetNamespace()
	}
	return a.GetName() < b.GetName()
}

// LimitMessage says that a namespace has as many objects of a kind, such as Network, of a class as the class allows.
func LimitMessage(kind, class string, limit int32) string {
	return fmt.Sprintf("NetworkClass %q allows %d %ss in each namespace, and there are as many. Nothing is created. "+
		"Delete a %[3]s of this class, name another class in spec.className, or have the limit raised.", class, limit, kind)
}

// PortLimitMessage says that a Network has as many NetworkPorts as its class allows.
func PortLimitMessage(on fmt.Stringer, limit int32) string {
	return fmt.Sprintf("The NetworkClass of Network %s allows %d NetworkPorts on it, and there are as many. The port is "+
		"created when one of them is gone. Delete a NetworkPort, use another Network, or have the limit raised.", on, limit)
}

// PortsPerDeployment gives the number of NetworkPorts that one Deployment may have on a Network; limited is false
// without a limit.
func (c *Classes) PortsPerDeployment(on *cloudteamv1.Network) (most int, limited bool) {
	if limit := c.RuleOf(on).Limits().PortsPerDeployment; limit != nil {
		return int(*limit), true
	}
	return 0, false
}
