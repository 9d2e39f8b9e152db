package networkport

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestPolicies(t *testing.T) {
	retained := cloudteamv1.NetworkPortSpec{
		DeletionPolicy: cloudteamv1.DeletionPolicyRetain, DriftPolicy: cloudteamv1.DriftPolicyReport,
	}
	reported := managed.Policies{Deletion: cloudteamv1.DeletionPolicyRetain, Drift: cloudteamv1.DriftPolicyReport}
	for sentence, c := range map[string]struct {
		spec  cloudteamv1.NetworkPortSpec
		owner []metav1.OwnerReference
		want  managed.Policies
	}{
		"a port that says nothing leaves it to the default": {want: managed.Policies{}},
		"a port has its own": {spec: retained, want: reported},
		"a port that was made for a Pod is not under the default": {
			owner: []metav1.OwnerReference{{Kind: "Pod", Controller: new(true)}}, want: managed.DefaultPolicies},
		"a port that was made for a Deployment may have its own": {spec: retained,
			owner: []metav1.OwnerReference{{Kind: "Deployment", Controller: new(true)}}, want: reported},
		"a port that only depends on something is like any other": {
			owner: []metav1.OwnerReference{{Kind: "Pod"}}, want: managed.Policies{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := &cloudteamv1.NetworkPort{Spec: c.spec}
			obj.OwnerReferences = c.owner
			if diff := cmp.Diff(c.want, policies(obj), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
