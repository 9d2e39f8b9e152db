package managed_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// count has so many addresses of a network's first subnet in use, as of an audit, and the example synced. It reports
// whether the status was written.
func (w *world) count(id string, used int64) (wrote bool) {
	w.T.Helper()
	all := w.Neutron.Has()
	at := slices.IndexFunc(all, func(n plan.ObservedNetwork) bool { return n.ID == id })
	w.Neutron.Used = map[string]int64{all[at].Subnets[0].ID: used}
	w.Neutron.Audit(w.T)
	w.Calls.Take()
	w.MustSync()
	return slices.Contains(w.Calls.Take(), "write status")
}

func (w *world) addressesLow() bool {
	w.T.Helper()
	low := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionAddressesLow)
	return low != nil && low.Status == metav1.ConditionTrue && low.Reason == cloudteamv1.ReasonAddressesLow
}

// TestAddressesAreToldWithinBounds holds when the counts are written, and that running low on addresses is told by one
// Event, until it is over: the example has 65533 addresses, of which 6554 should be free, and 9830 for it to be over.
func TestAddressesAreToldWithinBounds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Events.Take()
		id := w.status().NetworkID
		for _, step := range []struct {
			name   string
			used   int64
			writes bool
			low    bool
			events []string
		}{
			{"the first count was told at once", 0, false, false, nil},
			{"an address is not", 1, false, false, nil},
			{"a twentieth of all is", 3277, true, false, nil},
			{"that few are free, but enough, is nothing special", 58_970, true, false, nil},
			{"that too few are is, once", 58_980, true, true, []string{"Warning AddressesLow"}},
			{"and not again", 58_985, false, true, nil},
			{"nor is it over when a few more are free", 58_970, false, true, nil},
			{"that all are in use is another count", 65_533, true, true, nil},
			{"it is over when half as many again are free", 55_703, true, false, nil},
			{"and told anew when it begins anew", 58_980, true, true, []string{"Warning AddressesLow"}},
		} {
			expect.Equal(t, step.writes, w.count(id, step.used), "%s: the status was written", step.name)
			if low := w.addressesLow(); low != step.low {
				t.Errorf("%s: low: %t", step.name, low)
			}
			w.Events.WantReasons(t, step.events...)
			if used := *w.status().Subnets[0].UsedAddresses; step.writes && used != step.used {
				t.Errorf("%s: the status tells %d", step.name, used)
			}
			w.MustSync()
			w.Calls.Want(t)
		}

		// Another process knows it from the status.
		w.restart()
		w.Neutron.Audit(t)
		w.MustSync()
		w.Events.WantReasons(t)
		w.WantState("AddressesLow=True Ready=True Available")
	}, example())
}

func TestWhatIsNotWorthAWriteGoesWithTheNext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.count(id, 0)
		if w.count(id, 5) {
			t.Error("five addresses were worth a write")
		}
		w.EditAndSync(func(n *cloudteamv1.Network) { n.Spec.Description = "edited"; n.Generation++ })
		expect.Equal(t, int64(5), *w.status().Subnets[0].UsedAddresses, "used addresses in the status")
	}, example())
}

func TestANetworkThatGoesDoesNotRunLow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.count(id, 65_533)
		if !w.addressesLow() {
			t.Fatal("it is not low")
		}
		w.Neutron.PutPort(plan.ObservedPort{ID: "in-the-way", NetworkID: id})
		w.Delete()
		w.SyncFails()
		if w.addressesLow() {
			t.Error("it still asks for addresses")
		}
	}, example())
}

func TestAnObservedNetworkRunsLow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		w.MustSync()
		w.WantState("Ready=True Observed")
		w.Events.Take()
		w.count(legacyID, 65_533)
		w.Events.WantReasons(t, "Warning AddressesLow")
		w.WantState("AddressesLow=True Ready=True Observed")
		if w.count(legacyID, 65_530) {
			t.Error("three addresses were worth a write")
		}
		w.count(legacyID, 7)
		w.WantState("Ready=True Observed")
	}, importing(func(spec *cloudteamv1.NetworkSpec) { spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve }))
}
