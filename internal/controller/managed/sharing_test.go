package managed_test

import (
	"slices"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
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

func TestSharesComeAndGoWithTheSpec(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Edit(sharedWith("b", "a"))
		w.Quiet()
		w.MustSync()
		w.Calls.Want(t, "write annotations", "reread network net-1", "apply share network", "apply share network",
			"write status")
		w.Events.WantReasons(t, "Normal Updated")
		w.wantSharedWith("a", "b")
		w.EditAndSync(sharedWith())
		w.wantSharedWith()
		w.WantState("Ready=True Available")
	}, example())
}

func TestAProjectThatUsesTheNetworkHoldsUpNothingElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.EditAndSync(sharedWith("a", "b"))
		w.Quiet()

		w.Neutron.PutPortIn("a", plan.ObservedPort{ID: "p1", NetworkID: w.status().NetworkID, Device: "compute:nova, device 9a"})
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.SharedWith, obj.Spec.Tags = []string{"c"}, []string{"t"} })
		w.SyncFails()
		w.Calls.Want(t, "write annotations", "reread network net-1", "apply unshare network", "blockers",
			"reread network net-1", "apply unshare network", "apply share network", "apply tag network", "write status")
		w.wantSharedWith("a", "c")
		w.WantState("Ready=False Reconciling=True InUse")
		const want = `unshare network (sharedWith): project "a": in use by port p1 (compute:nova, device 9a). ` +
			"Retrying with backoff. Remove what uses it"
		w.WantMessage(want)
		w.Events.WantReasons(t, "Normal Updated", "Warning InUse")

		w.Neutron.Remove("p1")
		w.MustSync()
		w.wantSharedWith("c")
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
			obj.Spec.SharedWith, obj.Spec.Tags = []string{"a", "b"}, []string{"t"}
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
				w.wantSharedWith("a", "b")
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

func TestSharesOfOthersAreReportedWhereDriftIs(t *testing.T) {
	obj := example()
	obj.Spec.DriftPolicy, obj.Spec.SharedWith = cloudteamv1.DriftPolicyReport, []string{"a"}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Neutron.Edit(t, w.Neutron.Has()[0].ID, func(n *plan.ObservedNetwork) {
			n.Shares = []plan.Share{{ID: "rbac-theirs", Project: "b"}, {ID: "rbac-others", Project: "c"}}
		})
		w.Neutron.Audit(t)
		w.MustSync()
		w.WantState("Ready=True DriftDetected")
		w.wantSharedWith("b", "c")
		want := []cloudteamv1.Drift{{Resource: "network", Field: "sharedWith", Declared: `"a"`, Actual: `"b", "c"`}}
		expect.Equal(t, want, w.status().Drift, "status.drift")
		w.EditAndSync(sharedWith("a", "b"))
		w.wantSharedWith("a", "b")
		w.WantState("Ready=True Available")
	}, obj)
}

func TestTheSharesOfAnObservedNetworkAreCompared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		there := legacy()
		there.Shares = []plan.Share{{ID: "rbac-1", Project: "a"}}
		w.Neutron.Put(there)
		w.MustSync()
		w.WantState("Ready=True DriftDetected")
		want := []cloudteamv1.Drift{{Resource: "network", Field: "sharedWith", Declared: `"b", "c"`, Actual: `"a"`}}
		expect.Equal(t, want, w.status().Drift, "status.drift")
		w.wantSharedWith("a")
	}, importing(func(s *cloudteamv1.NetworkSpec) {
		s.ManagementPolicy, s.SharedWith = cloudteamv1.ManagementPolicyObserve, []string{"b", "c"}
	}))
}
