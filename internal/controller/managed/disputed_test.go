package managed_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestAnObjectWaitsForTheEndOfADispute(t *testing.T) {
	const says = "Ready=False Stalled=True IdentityDisputed"
	for name, change := range map[string]func(w *world){
		"edited": func(w *world) {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		},
		"deleted": func(w *world) { w.Delete() },
		"deleted with Retain": func(w *world) {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain })
			w.Delete()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Neutron.Claim(clusterUID, "lease")
				w.Neutron.Term = &inventory.Term{Lease: "lease", Number: 1, Holder: "me"}
				change(w)
				w.Events.Take()
				w.MustSync() // no retry helps
				w.WantState(says)
				w.WantMessage("Ask the operator to stop the controller of one of the two clusters")
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t)

				controllertest.Settle(3 * controllertest.AuditInterval)
				w.Neutron.Audit(t)
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
