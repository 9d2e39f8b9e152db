package managed_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestOfATooLargeObjectNothingIsChanged: the cache has only a part of its spec. It can be deleted.
func TestOfATooLargeObjectNothingIsChanged(t *testing.T) {
	large := func(obj *cloudteamv1.Network) {
		obj.Annotations[controller.AnnotationTooLarge] = ""
		obj.Spec.CIDR, obj.Spec.Tags = "", nil
		obj.Generation++
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		was := w.Get().DeepCopy()
		w.Edit(large)
		w.Quiet()
		w.MustSync()
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.WantState("Ready=False Stalled=True InvalidSpec")
		w.WantMessage("more than 36 KiB of memory")
		if got := w.status().NetworkID; got != id {
			t.Errorf("the status has network %q, want %q as before", got, id)
		}

		w.EditAndSync(func(obj *cloudteamv1.Network) {
			delete(obj.Annotations, controller.AnnotationTooLarge)
			obj.Spec = was.Spec
			obj.Generation++
		})
		w.WantState("Ready=True Available")

		w.EditAndSync(large)
		w.DeleteAndSync()
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}
