package transitions

import (
	"k8s.io/apimachinery/pkg/api/meta"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// met is what the sequences of all lanes came across.
var met lanes.Tally

// countState counts how an object ended.
func countState(kind string, status cloudteamv1.ResourceStatus, in resource) {
	reason := ""
	if ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		reason = ready.Reason
	}
	if in == nil {
		reason += ", not in Neutron"
	}
	met.Count(kind + " " + reason)
}
