package managed_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestAnObjectWaitsForTheEndOfADispute(t *testing.T) {
	const says = "Ready=False Stalled=True IdentityDisputed"
	for name, c := range map[string]struct {
		change func(w *world)
		// tried is the step that is refused.
		tried string
	}{
		"edited": {func(w *world) {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		}, "update network"},
		"deleted": {func(w *world) { w.Delete() }, "delete network"},
		"deleted with Retain": {func(w *world) {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain })
			w.Delete()
		}, "update subnet"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Cloud.Before = func(plan.Step) error { return inventory.ErrDisputed }
				c.change(w)
				w.Events.Take()
				w.MustSync() // no retry helps
				w.WantState(says)
				w.wantMessage("Ask the operator to stop the controller of one of the two clusters")
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t, "apply "+c.tried)

				w.Cloud.Before = nil
				w.c.EnqueueIn(managed.CloudRef{})
				w.MustSync()
				if name == "edited" {
					w.WantState("Ready=True Available")
				} else if w.Exists() {
					t.Error("the object is still there")
				}
			}, example())
		})
	}
}
