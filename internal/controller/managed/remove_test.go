package managed_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func TestAnObjectIsRememberedUntilItsResourcesAreGone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		want := func(uids ...types.UID) {
			t.Helper()
			if diff := cmp.Diff(uids, w.c.Remembered(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
		}
		want()
		w.MustSync()
		want("uid-1")
		w.DeleteByForce()
		w.Neutron.Before = controllertest.Fails(plan.DeleteNetwork, 1, &client.Error{Op: "delete network", Status: 503})
		w.SyncFails()
		want("uid-1")
		w.MustSync()
		want()
	}, example())
}
