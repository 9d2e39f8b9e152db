package managed_test

import (
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// settle syncs until a sync succeeds, as the queue does.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		if w.sync() == nil {
			return
		}
		virtual.Elapse(5 * time.Second)
	}
	t.Fatal("no sync succeeds")
}

// TestOneNetworkLivesInCloudsThatAnswerLateOrOtherwise has a Network made, changed and deleted in each.
func TestOneNetworkLivesInCloudsThatAnswerLateOrOtherwise(t *testing.T) {
	for _, habit := range []neutrontest.Habit{
		neutrontest.NoDate, neutrontest.SkewedDates, neutrontest.InternalLinks,
		neutrontest.LateReads, neutrontest.ShortPages, neutrontest.DatedRetries, neutrontest.ZeroMTU,
		neutrontest.HiddenMTU,
	} {
		t.Run(string(habit), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.SetHabits(t, habit)
				lives := func() {
					t.Helper()
					w.settle(t)
					virtual.Elapse(time.Minute)
					w.settle(t)
					w.WantState("Ready=True Available")
					wantNetworks(t, w.Neutron, 1)
				}
				lives()
				w.restart()
				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "words" })
				lives()
				w.Delete()
				w.settle(t)
				virtual.Elapse(time.Minute)
				if w.Exists() {
					w.settle(t)
				}
				w.WantGone()
				wantNetworks(t, w.Neutron, 0)
			}, example())
		})
	}
}

// A cloud may not say the MTU that it uses. What the spec asks for cannot be seen then.
func TestAnMTUThatTheCloudDoesNotSayCanBeIgnored(t *testing.T) {
	for _, habit := range []neutrontest.Habit{neutrontest.ZeroMTU, neutrontest.HiddenMTU} {
		t.Run(string(habit), func(t *testing.T) {
			obj := example()
			obj.Spec.MTU = new(int32(1400))
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.SetHabits(t, habit)
				w.SyncFails()
				w.WantState("Ready=False Stalled=True NotConverged")
				w.WantMessage("does not show it: network mtu is 0, declared 1400", "spec.ignoreDrift: [mtu]")
				w.EditAndSync(func(obj *cloudteamv1.Network) {
					obj.Spec.IgnoreDrift = []cloudteamv1.NetworkDriftField{plan.FieldMTU}
				})
				w.WantState("Ready=True Available")
			}, obj)
		})
	}
}
