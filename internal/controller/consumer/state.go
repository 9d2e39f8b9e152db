package consumer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// PortState is the state of a port for its possible users.
type PortState string

const (
	// PortUsable is a port that exists in Neutron as declared.
	PortUsable PortState = "usable"
	// PortPending is a port that is being created, or that waits for something that ends by itself.
	PortPending PortState = "pending"
	// PortFailing is a port that cannot be created or kept in the current state.
	PortFailing PortState = "failing"
)

// StateOf gives a port's state. It ignores a deletion.
//
// Some reasons for a port that is not Ready do not count as failing. A Network or SecurityGroup that is not Ready has
// its own condition. A concurrent change ends with the next attempt. A wait for a turn or a rate limit ends
// by itself.
func StateOf(port *cloudteamv1.NetworkPort) PortState {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	switch {
	case ready == nil:
		return PortPending
	case ready.Status == metav1.ConditionTrue:
		if port.Status.PortID == "" || port.Status.MAC == "" || len(port.Status.Addresses) == 0 {
			return PortPending
		}
		return PortUsable
	}
	switch ready.Reason {
	case cloudteamv1.ReasonNetworkNotReady, cloudteamv1.ReasonSecurityGroupNotReady, cloudteamv1.ReasonConflict,
		cloudteamv1.ReasonRateLimited, cloudteamv1.ReasonPending:
		return PortPending
	}
	return PortFailing
}
