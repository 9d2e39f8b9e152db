package consumer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// PortState is the state of a port for those who want to use it.
type PortState string

const (
	// PortUsable is a port that is in Neutron as declared.
	PortUsable PortState = "usable"
	// PortPending is a port that is being made, or waits for what passes by itself.
	PortPending PortState = "pending"
	// PortFailing is a port that cannot be made or kept as things are.
	PortFailing PortState = "failing"
)

// StateOf gives a port's state. It does not look at a deletion.
//
// Three reasons for which a port is not Ready do not count as failing: a Network that is not Ready says why itself, a
// concurrent change is over with the next attempt, and a rate limit ends by itself.
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
	case cloudteamv1.ReasonWaitingForNetwork, cloudteamv1.ReasonChanging, cloudteamv1.ReasonThrottled:
		return PortPending
	}
	return PortFailing
}
