package managed_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// pause writes the annotation, or takes it off where the value is empty.
func (w *world) pause(value string) {
	w.t.Helper()
	w.edit(func(obj *cloudteamv1.Network) {
		if obj.Annotations == nil {
			obj.Annotations = map[string]string{}
		}
		obj.Annotations[cloudteamv1.AnnotationPaused] = value
		if value == "" {
			delete(obj.Annotations, cloudteamv1.AnnotationPaused)
		}
	})
}

// wantMessage holds a part of the message of Ready.
func (w *world) wantMessage(part string) {
	w.t.Helper()
	ready := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionReady)
	if ready == nil || !strings.Contains(ready.Message, part) {
		w.t.Errorf("condition Ready is %+v, want a message that says %q", ready, part)
	}
}

func TestAPausedObjectIsLeftAsItIsAndTellsSoOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.pause("true")
		w.events.Take()
		w.calls.Take()
		w.mustSync()
		w.calls.Want(t, "write status")
		w.wantState("Ready=True Paused")
		w.wantMessage("until the annotation is removed")

		// Drift is left, and costs nothing.
		w.cloud.Edit(t, id, func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
		w.cloud.Audit(t)
		w.mustSync()
		w.mustSync()
		w.calls.Want(t)

		// So is an edit, which is not Ready before it is applied.
		w.edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		w.mustSync()
		w.mustSync()
		w.calls.Want(t, "write status")
		w.wantState("Ready=False Reconciling=True Paused")
		w.wantMessage("not applied")
		if got := w.status(); got.ObservedGeneration != 2 || got.AppliedGeneration != 1 || got.NetworkID != id {
			t.Errorf("status %+v, want what was known, of the second generation", got)
		}

		w.restart()
		w.mustSync()
		w.calls.Want(t)

		w.pause("")
		w.mustSync()
		w.wantState("Ready=True Available")
		n := w.cloud.Has()[0]
		if want := ownerOfExample.Describe("second edition"); !n.AdminStateUp || n.Description != want {
			t.Errorf("Neutron has %+v after the pause", n)
		}
		w.events.WantReasons(t, "Normal Updated")
	}, example())
}

func TestAnObjectThatIsPausedFromTheFirstIsNotClaimed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pause("true")
		w.mustSync()
		w.calls.Want(t, "write status")
		w.wantState("Ready=False Reconciling=True Paused")
		w.pause("false")
		w.mustSync()
		w.wantState("Ready=True Available")
	}, example())
}

func TestAPausedObjectThatIsDeletedStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.pause("yes") // what is not "false" pauses
		w.delete()
		w.mustSync()
		w.mustSync()
		w.wantState("Ready=False Reconciling=True Paused")
		w.wantMessage("Deletion waits until the annotation is removed")
		if len(w.cloud.Has()) != 1 || !slices.Contains(w.get().Finalizers, cloudteamv1.Finalizer) {
			t.Errorf("Neutron has %+v, the object %v", w.cloud.Has(), w.get().Finalizers)
		}
		w.pause("")
		w.mustSync()
		if w.exists() || len(w.cloud.Has()) != 0 {
			t.Errorf("the object exists: %t; Neutron has %+v", w.exists(), w.cloud.Has())
		}
	}, example())
}

func TestWhatAPausedObjectHadIsLeftWhenItsFinalizerIsForcedOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.pause("true")
		w.mustSync()
		w.deleteByForce()
		w.mustSync()
		if len(w.cloud.Has()) != 1 {
			t.Errorf("Neutron has %+v, want the network", w.cloud.Has())
		}
		// Who looks for orphans is told that it is looked after.
		if got := w.c.Remembered(); len(got) != 1 || string(got[0]) != ownerOfExample.Object {
			t.Errorf("remembered are %v", got)
		}
	}, example())
}
