package networkport

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// policies is the Kind's Policies. Ports of a Deployment or a Pod are created and deleted often by its controller. So
// the cluster's default for objects of users does not apply to them. If they were retained, each rollout would leave
// unknown ports whose addresses nobody can get.
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
