package managed_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// edits are of the example, each after the one before.
var edits = []func(*cloudteamv1.NetworkSpec){
	func(*cloudteamv1.NetworkSpec) {},
	func(s *cloudteamv1.NetworkSpec) { s.Description, s.MTU = "second", new(int32(1400)) },
	func(s *cloudteamv1.NetworkSpec) { s.Tags, s.SharedWith = []string{"a"}, []string{projectA} },
	func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "public"} },
	func(s *cloudteamv1.NetworkSpec) {
		s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "10.9.0.0/24"}, {CIDR: "fd00:9::/64"}}
	},
	func(s *cloudteamv1.NetworkSpec) { s.Gateway, s.DNSServers = "192.168.0.9", []string{"192.168.0.53"} },
	func(s *cloudteamv1.NetworkSpec) { s.AdditionalSubnets, s.Tags = s.AdditionalSubnets[1:], nil },
	func(s *cloudteamv1.NetworkSpec) { s.Router = nil },
}

// told is what a step is to users, whatever the ids of what is created.
func told(change plan.Change) (steps []string) {
	for _, s := range change {
		steps = append(steps, fmt.Sprintf("%s %v %s", s.Action, s.Differences, s.Reason))
	}
	return steps
}

func TestASyncDoesWhatItsPreviewSays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Outside("public", netip.MustParsePrefix("203.0.113.0/24"))
		for i, edit := range edits {
			if i > 0 {
				w.Edit(func(obj *cloudteamv1.Network) { edit(&obj.Spec); obj.Generation++ })
			}
			w.Calls.Take()
			preview, err := w.c.Preview(t.Context(), w.Get())
			expect.NoError(t, err)
			for _, call := range w.Calls.Take() {
				if strings.HasPrefix(call, "apply") || strings.HasPrefix(call, "write") {
					t.Errorf("edit %d: the preview calls %s", i, call)
				}
			}
			w.Neutron.Applied()
			w.MustSync()
			done := w.Neutron.Applied()
			if len(done) == 0 || !slices.Equal(told(preview.Change), told(done)) {
				t.Errorf("edit %d: the preview is\n%s\nand the sync did\n%s", i, strings.Join(told(preview.Change), "\n"),
					strings.Join(told(done), "\n"))
			}
			if preview, err := w.c.Preview(t.Context(), w.Get()); err != nil || !preview.Change.Empty() {
				t.Errorf("edit %d: after the sync the preview is %v, %v", i, preview.Change, err)
			}
		}
	}, example())
}

func TestReportOnlySaysWhatWouldBeDoneAndDoesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.reportOnly()
		for range 2 {
			if again := w.MustSync(); again == 0 {
				t.Error("the object is not looked at again")
			}
		}
		w.Calls.Want(t, "list", "find network", "write status", "find network")
		w.WantState("Ready=False Stalled=True Planned")
		w.WantMessage("create network")
		if n := w.Get(); len(n.Finalizers) > 0 || len(w.Neutron.Has()) > 0 {
			t.Errorf("finalizers %v, networks %v; want none", n.Finalizers, w.Neutron.Has())
		}

		// The controller that follows does it, and one that only reports leaves what it finds.
		w.restart()
		w.MustSync()
		w.WantState("Ready=True Available")
		w.reportOnly()
		w.Calls.Take()
		w.MustSync()
		w.WantState("Ready=True Planned")
		w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
		w.MustSync()
		w.WantMessage("adminState")
		w.DeleteAndSync()
		w.WantState("Ready=False Reconciling=True Planned")
		if len(w.Neutron.Has()) != 1 || slices.ContainsFunc(w.Calls.Take(), func(call string) bool {
			return strings.HasPrefix(call, "apply")
		}) {
			t.Error("the network was changed")
		}
		w.restart()
		w.MustSync()
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

// reportOnly replaces the controller by one that only reports.
func (w *world) reportOnly() {
	w.T.Helper()
	w.restart()
	policies := managed.DefaultPolicies
	policies.Plan = true
	w.c.DefaultTo(policies)
}
