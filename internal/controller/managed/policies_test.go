package managed_test

import (
	"net/netip"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestPoliciesThatAreUnsetAreTheControllers(t *testing.T) {
	everything := managed.Policies{Deletion: cloudteamv1.DeletionPolicyRetain, Drift: cloudteamv1.DriftPolicyReport}
	for sentence, c := range map[string]struct {
		defaults         managed.Policies
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
		"without a word, they are Delete and Correct": {defaults: managed.DefaultPolicies},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy, obj.Spec.DriftPolicy = c.own.DeletionPolicy, c.own.DriftPolicy
			inWorld(t, func(t *testing.T, w *world) {
				w.c.DefaultTo(c.defaults)
				w.MustSync()
				w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
				w.MustSync()
				if reported := len(w.status().Drift) > 0; reported != c.reports || w.Neutron.Has()[0].AdminStateUp == c.reports {
					t.Errorf("drift is reported: %t, want %t; Neutron has %+v", reported, c.reports, w.Neutron.Has())
				}
				w.DeleteAndSync()
				w.WantGone()
				expect.Equal(t, c.retains, len(w.Neutron.Has()) > 0, "the network stays")
			}, obj)
		})
	}
}

func TestDriftInFieldsThatAreIgnoredIsLeftUntilTheSpecChanges(t *testing.T) {
	for sentence, c := range map[string]struct {
		policy    cloudteamv1.DriftPolicy
		wantState string
		// wantName is the network's name in Neutron, which is not ignored.
		wantName  string
		wantDrift int
	}{
		"under Correct, others are put back": {
			cloudteamv1.DriftPolicyCorrect, "Ready=True Available", "example-network", 0},
		"under Report, others are reported": {
			cloudteamv1.DriftPolicyReport, "Ready=True DriftDetected", "renamed", 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := example()
			obj.Spec.DriftPolicy = c.policy
			obj.Spec.IgnoreDrift = []cloudteamv1.NetworkDriftField{"dhcp", "dnsServers"}
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Quiet()
				server := netip.MustParseAddr("192.168.0.53")
				w.drift(func(n *plan.ObservedNetwork) {
					n.Subnets[0].DHCP, n.Subnets[0].DNSServers = false, []netip.Addr{server}
				})
				w.MustSync()
				w.Calls.Want(t)
				w.WantState("Ready=True Available")

				w.drift(func(n *plan.ObservedNetwork) { n.Name = "renamed" })
				w.MustSync()
				w.WantState(c.wantState)
				n := w.Neutron.Has()[0]
				if n.Name != c.wantName || n.Subnets[0].DHCP || len(n.Subnets[0].DNSServers) != 1 {
					t.Errorf("Neutron has %+v, want name %q and the rest as others made it", n, c.wantName)
				}
				expect.Len(t, c.wantDrift, w.status().Drift, "differences in status.drift")

				w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
				w.WantState("Ready=True Available")
				n = w.Neutron.Has()[0]
				if n.Name != "example-network" || !n.Subnets[0].DHCP || len(n.Subnets[0].DNSServers) != 0 {
					t.Errorf("Neutron has %+v after an edit of the spec, want all as declared", n)
				}
			}, obj)
		})
	}
}

func TestDriftPoliciesHoldWhileADeletionWaits(t *testing.T) {
	for sentence, c := range map[string]struct {
		policy cloudteamv1.DriftPolicy
		ignore []cloudteamv1.NetworkDriftField
	}{
		"ignored fields stay as others set them": {ignore: []cloudteamv1.NetworkDriftField{"name"}},
		"reported drift stays":                   {policy: cloudteamv1.DriftPolicyReport},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := example()
			obj.Spec.DriftPolicy, obj.Spec.IgnoreDrift = c.policy, c.ignore
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.c.Kind().InUse = func(*cloudteamv1.Network) string { return "Pod a uses it" }
				w.deleteAsNextGeneration()
				for _, name := range []string{"renamed", "renamed again"} {
					w.drift(func(n *plan.ObservedNetwork) { n.Name = name })
					w.MustSync()
					expect.Equal(t, name, w.Neutron.Has()[0].Name, "the network's name, as others set it")
				}

				// An edit of the spec still applies.
				w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
				expect.Equal(t, "example-network", w.Neutron.Has()[0].Name, "the network's name after an edit")
				w.drift(func(n *plan.ObservedNetwork) { n.Name = "renamed" })
				w.MustSync()
				expect.Equal(t, "renamed", w.Neutron.Has()[0].Name, "the network's name after that edit was applied")
			}, obj)
		})
	}
}
