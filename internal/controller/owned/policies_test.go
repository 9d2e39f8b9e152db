package owned_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestPoliciesThatAreUnsetAreTheControllers(t *testing.T) {
	everything := owned.Policies{Deletion: cloudteamv1.DeletionPolicyRetain, Drift: cloudteamv1.DriftPolicyReport}
	for sentence, c := range map[string]struct {
		defaults         owned.Policies
		own              cloudteamv1.NetworkSpec
		reports, retains bool
	}{
		"unset means what the controller was told": {defaults: everything, reports: true, retains: true},
		"what is set stands": {defaults: everything, own: cloudteamv1.NetworkSpec{
			DeletionPolicy: cloudteamv1.DeletionPolicyDelete, DriftPolicy: cloudteamv1.DriftPolicyCorrect,
		}},
		"one may be set alone": {defaults: everything, retains: true, own: cloudteamv1.NetworkSpec{
			DriftPolicy: cloudteamv1.DriftPolicyCorrect,
		}},
		"without a word, they are Delete and Correct": {defaults: owned.DefaultPolicies},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy, obj.Spec.DriftPolicy = c.own.DeletionPolicy, c.own.DriftPolicy
			inWorld(t, func(t *testing.T, w *world) {
				w.c.DefaultTo(c.defaults)
				w.mustSync()
				w.cloud.Edit(t, w.status().NetworkID, func(n *network.ObservedNetwork) { n.AdminStateUp = false })
				w.cloud.Audit(t)
				w.mustSync()
				if reported := len(w.status().Drift) > 0; reported != c.reports || w.cloud.Has()[0].AdminStateUp == c.reports {
					t.Errorf("drift is reported: %t, want %t; Neutron has %+v", reported, c.reports, w.cloud.Has())
				}
				w.delete()
				w.mustSync()
				if w.exists() {
					t.Error("the object is still there")
				}
				if left := len(w.cloud.Has()) > 0; left != c.retains {
					t.Errorf("the network stays: %t, want %t", left, c.retains)
				}
			}, obj)
		})
	}
}
