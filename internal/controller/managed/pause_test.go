package managed_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// pause writes the annotation, or takes it off where the value is empty.
func (w *world) pause(value string) {
	w.T.Helper()
	w.Edit(func(obj *cloudteamv1.Network) {
		if obj.Annotations == nil {
			obj.Annotations = map[string]string{}
		}
		obj.Annotations[cloudteamv1.AnnotationPaused] = value
		if value == "" {
			delete(obj.Annotations, cloudteamv1.AnnotationPaused)
		}
	})
}

func TestAPausedObjectIsLeftAsItIsAndTellsSoOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.pause("true")
		w.Quiet()
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.WantState("Ready=True Paused")
		w.WantMessage("until the annotation is removed")

		// Drift is left, and costs nothing.
		w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
		w.MustSync()
		w.MustSync()
		w.Calls.Want(t)

		// So is an edit, which is not Ready before it is applied.
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.WantState("Ready=False Reconciling=True Paused")
		w.WantMessage("not applied")
		if got := w.status(); got.ObservedGeneration != 2 || got.AppliedGeneration != 1 || got.NetworkID != id {
			t.Errorf("status %+v, want what was known, of the second generation", got)
		}

		w.restart()
		w.MustSync()
		w.Calls.Want(t)

		w.pause("")
		w.MustSync()
		w.WantState("Ready=True Available")
		n := w.Neutron.Has()[0]
		if want := ownerOfExample.Describe("second edition"); !n.AdminStateUp || n.Description != want {
			t.Errorf("Neutron has %+v after the pause", n)
		}
		w.Events.WantReasons(t, "Normal Updated")
	}, example())
}

func TestAnObjectThatIsPausedFromTheFirstIsNotClaimed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pause("true")
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.WantState("Ready=False Reconciling=True Paused")
		w.pause("false")
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}

func TestAPausedObjectThatIsDeletedStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.pause("yes") // what is not "false" pauses
		w.DeleteAndSync()
		w.MustSync()
		w.WantState("Ready=False Reconciling=True Paused")
		w.WantMessage("Deletion waits until the annotation is removed")
		if len(w.Neutron.Has()) != 1 || !slices.Contains(w.Get().Finalizers, cloudteamv1.Finalizer) {
			t.Errorf("Neutron has %+v, the object %v", w.Neutron.Has(), w.Get().Finalizers)
		}
		w.pause("")
		w.MustSync()
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

// Of what is paused, nothing is removed with the finalizer.
func TestWhatAnObjectAsideHadIsLeftWhenItsFinalizerIsForcedOff(t *testing.T) {
	for sentence, set := range aside {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.EditAndSync(set)
				w.DeleteByForce()
				w.MustSync()
				wantNetworks(t, w.Neutron, 1)
				// Who looks for orphans is told that it is looked after.
				expect.Equal(t, []types.UID{types.UID(ownerOfExample.Object)}, w.c.Remembered(), "remembered")
			}, example())
		})
	}
}

// TestATenantCannotFillTheMemoryWithGoneObjects has a tenant write the finalizer and take it off, again and again. What
// cannot be removed now is remembered, but only so much of each namespace.
func TestATenantCannotFillTheMemoryWithGoneObjects(t *testing.T) {
	for name, change := range map[string]func(*cloudteamv1.Network){
		"paused": func(obj *cloudteamv1.Network) {
			obj.Annotations = map[string]string{cloudteamv1.AnnotationPaused: "true"}
		},
		"in a cloud that fails": func(obj *cloudteamv1.Network) { obj.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "none"} },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.c.ReachClouds(&secretClouds{err: errors.New("it hangs")})
				for n := range managed.MaxGone + 10 {
					obj := example()
					obj.UID, obj.Finalizers = types.UID(fmt.Sprint("uid-", n)), []string{cloudteamv1.Finalizer}
					change(obj)
					w.Create(obj)
					_ = w.sync() // the cloud may fail
					w.DeleteByForce()
					_ = w.sync()
				}
				got := w.c.Remembered()
				if len(got) != managed.MaxGone || slices.Contains(got, "uid-9") || !slices.Contains(got, "uid-10") {
					t.Errorf("%d objects that are gone are remembered, want the newest %d", len(got), managed.MaxGone)
				}

				// What is one too many is found among the namespace's own, and nothing is left of what is forgotten.
				if n, all := w.c.Left(exampleKey.Namespace); n != managed.MaxGone || all != 1 {
					t.Errorf("%d objects of the namespace are gone, want %d; %d namespaces have any", n, managed.MaxGone, all)
				}
				for _, uid := range got {
					obj := example()
					obj.UID = uid
					w.c.Forget(obj)
				}
				if n, all := w.c.Left(exampleKey.Namespace); n != 0 || all != 0 {
					t.Errorf("%d objects of the namespace and %d namespaces are left of what is forgotten", n, all)
				}
			})
		})
	}
}

// TestManagementPolicyPlanOfAnEarlierVersionPauses holds that an object which has it stays as it is, and says what to do.
func TestManagementPolicyPlanOfAnEarlierVersionPauses(t *testing.T) {
	become := func(w *world, policy cloudteamv1.ManagementPolicy, mtu int32) {
		w.EditAndSync(func(obj *cloudteamv1.Network) {
			obj.Spec.ManagementPolicy, obj.Spec.MTU, obj.Generation = policy, new(mtu), obj.Generation+1
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		become(w, "Plan", 1400)
		w.WantState("Ready=False Reconciling=True Paused")
		w.WantMessage("kubectl network plan")
		wantNetworks(t, w.Neutron, 0)
		become(w, "", 1400)
		w.WantState("Ready=True Available")
		become(w, "Plan", 1300)
		w.DeleteAndSync()
		w.WantState("Ready=False Reconciling=True Paused")
		w.WantMessage("Deletion waits until you remove managementPolicy")
		if got := w.Neutron.Has(); len(got) != 1 || got[0].MTU != 1400 {
			t.Errorf("the networks are %+v, want the one before", got)
		}
		become(w, "", 1300)
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

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

				for range 3 { // silence counts only while the record is read
					controllertest.Settle(controllertest.AuditInterval)
					w.Neutron.Audit(t)
				}
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
