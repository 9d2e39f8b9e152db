package networkport

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// policies is managed.Kind's. A port that a controller made, for a Deployment or a Pod, is its maker's own to make and
// delete by the dozen. What the cluster's default says of what people declare does not hold for it: retained, each
// rollout would leave ports behind that nobody knows and whose addresses nobody gets.
func policies(obj *cloudteamv1.NetworkPort) managed.Policies {
	p := managed.Policies{
		Deletion: obj.Spec.DeletionPolicy, Drift: obj.Spec.DriftPolicy,
		IgnoreDrift: managed.Fields(obj.Spec.IgnoreDrift),
	}
	if metav1.GetControllerOf(obj) != nil {
		p.Deletion = cmp.Or(p.Deletion, managed.DefaultPolicies.Deletion)
		p.Drift = cmp.Or(p.Drift, managed.DefaultPolicies.Drift)
	}
	return p
}
