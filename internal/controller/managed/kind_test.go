package managed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestWhatKubernetesUsesWaitsToBeDeletedWithoutACall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		users := []string{"Pod a", "Pod b"}
		w.c.Kind().InUse = func(*cloudteamv1.Network) string { return strings.Join(users, ", ") }
		w.Delete()
		w.Quiet()
		for range 2 {
			w.MustSync()
			w.WantState("Ready=False Reconciling=True InUse")
			expect.Equal(t, "Pod a, Pod b", w.Ready().Message, "message")
		}
		w.Calls.Want(t, "write status")
		users = users[1:]
		w.MustSync()
		w.MustSync()
		w.Calls.Want(t, "write status")
		if got := w.status(); got.NetworkID == "" || len(got.Subnets) != 1 {
			t.Errorf("the status no longer shows what is there: %+v", got)
		}

		users = nil
		w.MustSync()
		w.Calls.Want(t, "apply delete network", "write finalizers")
		w.Events.WantReasons(t, "Normal Deleted")
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

func TestWhatIsInUseAndWasImportedIsNotLookedForOnceItHasGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		w.MustSync()
		w.c.Kind().InUse = func(*cloudteamv1.Network) string { return "Pod a" }
		w.Neutron.Remove(legacyID)
		w.Neutron.Audit(t)
		w.DeleteAndSync()
		w.WantState("Ready=False Reconciling=True InUse")
		w.WantMessage("Pod a")
		w.c.Kind().InUse = func(*cloudteamv1.Network) string { return "" }
		w.MustSync()
		w.WantGone()
	}, importing(nil))
}

func TestWhatIsInUseAndCannotBeKeptTellsBoth(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.c.Kind().InUse = func(*cloudteamv1.Network) string { return "Pod a uses it" }
		w.Delete()
		w.Neutron.Remove(w.status().NetworkID)
		w.Neutron.Audit(t)
		w.Neutron.Before = func(plan.Step) error {
			return &client.Error{Kind: client.Capacity, Op: "create network", Reason: "over quota"}
		}
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True QuotaExceeded")
		w.WantMessage("over quota")
		w.WantMessage("Deletion waits: Pod a uses it")
	}, example())
}

func TestWhatIsInUseAndWasNeverOursIsNobodysToHold(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first"}
	inWorld(t, func(t *testing.T, w *world) {
		w.c.Kind().InUse = func(*cloudteamv1.Network) string { return "Pod a" }
		w.DeleteAndSync()
		w.Calls.Want(t)
	}, obj)
}

func TestADeclarationThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		wantState string
		wantEvent []string
	}{
		"for what comes by itself is under way, also in a wrapper": {
			fmt.Errorf("declaring: %w",
				managed.Waits(controller.Reconciling(cloudteamv1.ReasonNetworkNotReady, "Network a is not Ready"))),
			"Ready=False Reconciling=True NetworkNotReady", nil},
		"for somebody to act is stalled and told, whatever the kind's reason": {
			managed.Waits(controller.Stalled("Undecided", "Network a is not Ready")),
			"Ready=False Stalled=True Undecided", []string{"Warning Undecided"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				declare := w.c.Kind().Declare
				waits := func(*cloudteamv1.Network, plan.Owner) (managed.Declaration, error) { return nil, c.err }
				w.c.Kind().Declare = waits
				wantWaiting := func() {
					t.Helper()
					// No error: the event of what is waited for brings the key back.
					w.MustSync()
					w.MustSync()
					w.WantState(c.wantState)
					expect.Equal(t, "Network a is not Ready", w.Ready().Message, "message")
					w.Calls.Want(t, "write status")
					w.Events.WantReasons(t, c.wantEvent...)
				}
				wantWaiting()
				expect.Empty(t, w.Get().Finalizers, "finalizers although nothing was made")

				w.c.Kind().Declare = declare
				w.MustSync()
				w.WantState("Ready=True Available")
				made := w.status()
				w.Quiet()

				// What was made stays while it waits again.
				w.c.Kind().Declare = waits
				wantWaiting()
				ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
				expect.EqualWith(t, cmp.Options{ignore}, made, w.status(), "status")
				// And goes when the object does, without a wait.
				w.DeleteAndSync()
				w.WantGone()
				wantNetworks(t, w.Neutron, 0)
			}, example())
		})
	}
}

// planned is a declaration whose plan waits.
type planned struct {
	managed.Declaration
	waits error
}

func (p planned) Resolve(context.Context, managed.Inventory) (managed.Declaration, error) {
	return p, nil
}

func (p planned) Plan(plan.Observed) (plan.Change, error) { return nil, p.waits }

func TestAPlanThatWaitsShowsWhatThereIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		declare := w.c.Kind().Declare
		w.c.Kind().Declare = func(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
			d, err := declare(obj, owner)
			return planned{d, managed.Waits(controller.Reconciling("A", "Pod a uses it"))}, err
		}
		w.drift(func(n *plan.ObservedNetwork) { n.MTU = 1400 })
		w.Quiet()
		w.MustSync()
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.Events.WantReasons(t)
		w.WantState("Ready=False Reconciling=True A")
		if got := w.status(); got.NetworkID != id || got.MTU != 1400 {
			t.Errorf("the status tells of %s with MTU %d, want %s and 1400", got.NetworkID, got.MTU, id)
		}
	}, example())
}

func TestAPartOfTheStatusThatIsSomebodyElsesIsLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// The MTU is to be another controller's.
		w.c.Kind().ToWrite = func(was, is *cloudteamv1.Network) (any, bool) {
			before, after := was.Status, is.Status
			before.MTU, after.MTU = 0, 0
			return after, managed.Differs(before, after)
		}
		w.MustSync()
		if got := w.status(); got.NetworkID == "" || got.MTU != 0 {
			t.Errorf("status %+v, want one without the other's part", got)
		}
		w.Edit(func(obj *cloudteamv1.Network) { obj.Status.MTU = 9000 })
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t)
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
		w.Calls.Want(t, "apply update network", "write status")
		if got := w.status(); got.MTU != 9000 || got.AppliedGeneration != 2 {
			t.Errorf("status %+v, want our part of generation 2 and the other's as it was", got)
		}
	}, example())
}
