package managed_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Projects, sorted. From Neutron 29 on, what a network is shared with has to be like a UUID.
const (
	projectA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	projectB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	projectC = "cccccccccccccccccccccccccccccccc"
)

// wantSharedWith holds with whom the one network in Neutron is shared.
func (w *world) wantSharedWith(projects ...string) {
	w.T.Helper()
	all := w.Neutron.Has()
	if len(all) != 1 {
		w.T.Fatalf("Neutron has %d networks", len(all))
	}
	var got []string
	for _, s := range all[0].Shares {
		got = append(got, s.Project)
	}
	slices.Sort(got)
	if !slices.Equal(got, projects) {
		w.T.Errorf("shared with %q, want %q", got, projects)
	}
}

func sharedWith(projects ...string) func(*cloudteamv1.Network) {
	return func(obj *cloudteamv1.Network) { obj.Spec.SharedWith = append([]string{}, projects...) }
}

func TestAProjectThatUsesTheNetworkHoldsUpNothingElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.EditAndSync(sharedWith(projectA, projectB))
		w.Quiet()

		w.Neutron.PutPortIn(projectA, plan.ObservedPort{ID: "p1", NetworkID: w.status().NetworkID, Device: "compute:nova, device 9a"})
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.SharedWith, obj.Spec.Tags = []string{projectC}, []string{"t"} })
		w.SyncFails()
		w.Calls.Want(t, "write annotations", "reread network net-1", "apply unshare network", "blockers",
			"reread network net-1", "apply unshare network", "apply share network", "apply tag network", "write status")
		w.wantSharedWith(projectA, projectC)
		w.WantState("Ready=False Reconciling=True InUse")
		w.WantMessage(fmt.Sprintf("unshare network (sharedWith): project %q: in use by port p1 (compute:nova, device 9a). "+
			"Retrying with backoff. Remove what uses it", projectA))
		w.Events.WantReasons(t, "Normal Updated", "Warning InUse")

		w.Neutron.Remove("p1")
		w.MustSync()
		w.wantSharedWith(projectC)
		w.WantState("Ready=True Available")
	}, example())
}

// A project's default quota is 10 RBAC policies. What a network has besides does not wait for a larger one, whether the
// network is new or not.
func TestAShareThatIsRefusedHoldsUpNothingElse(t *testing.T) {
	for sentence, tc := range map[string]struct {
		refusal client.Error
		state   string
	}{
		"for the quota": {
			client.Error{Kind: client.Capacity, Op: "share network", Type: "OverQuota", Status: 409, Reason: "it is full"},
			"Ready=False Reconciling=True QuotaExceeded",
		},
		"by a cloud without it": {
			client.Error{Kind: client.NotFound, Op: "share network", Status: 404, Type: "HTTPNotFound", Reason: "no such resource"},
			"Ready=False Stalled=True Rejected",
		},
		"by the cloud's policy": {
			client.Error{Kind: client.Forbidden, Op: "share network", Status: 403, Reason: "it is not allowed"},
			"Ready=False Stalled=True Forbidden",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := example()
			obj.Spec.SharedWith, obj.Spec.Tags = []string{projectA, projectB}, []string{"t"}
			inWorld(t, func(t *testing.T, w *world) {
				full := true
				w.Neutron.Before = func(step plan.Step) error {
					if full && step.Action == plan.ShareNetwork {
						return &tc.refusal
					}
					return nil
				}
				w.SyncFails()
				w.Calls.Want(t, "write finalizers", "list", "apply create network", "apply create subnet", "apply share network",
					"reread network net-1", "apply tag network", "write status")
				w.WantState(tc.state)
				w.wantTags("t")

				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Tags = []string{"t", "u"} })
				w.SyncFails()
				again := []string{"reread network net-1", "apply share network"}
				if tc.refusal.Kind == client.Capacity {
					again = again[:1] // the Inventory holds back what has no room
				}
				w.Calls.Want(t, append(again, "reread network net-1", "apply tag network", "write status")...)
				w.wantTags("t", "u")
				// One refused project stands for all of them.
				w.SyncFails()
				w.Calls.Want(t, again...)

				full = false
				controllertest.Settle(time.Minute) // a quota that was full is tried now and then
				w.MustSync()
				w.wantSharedWith(projectA, projectB)
				w.WantState("Ready=True Available")
			}, obj)
		})
	}
}

// wantTags holds the tags of the one network in Neutron.
func (w *world) wantTags(tags ...string) {
	w.T.Helper()
	if all := w.Neutron.Has(); len(all) != 1 || !slices.Equal(all[0].Tags, tags) {
		w.T.Errorf("Neutron has %+v, want one network with the tags %q", all, tags)
	}
}
