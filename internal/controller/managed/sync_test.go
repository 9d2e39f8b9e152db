package managed_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric/metrictest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestANetworkIsCreatedBehindItsFinalizerAndThenLeftAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Calls.Want(t, "write finalizers", "list", "apply create network", "apply create subnet", "write status")
		w.Events.WantReasons(t, "Normal Created")
		w.WantState("Ready=True Available")
		if got := w.Get().Finalizers; !slices.Equal(got, []string{cloudteamv1.Finalizer}) {
			t.Errorf("finalizers %q", got)
		}
		n := w.Neutron.Has()[0]
		want := cloudteamv1.NetworkStatus{
			ResourceStatus: cloudteamv1.ResourceStatus{
				ObservedGeneration: 1, AppliedGeneration: 1,
				Cloud: &cloudteamv1.CloudStatus{Endpoint: here.Endpoint, Region: here.Region, ProjectID: here.ProjectID},
			},
			NetworkID: n.ID, MTU: 1450,
			Subnets: []cloudteamv1.SubnetStatus{
				{
					ID: n.Subnets[0].ID, CIDR: "192.168.0.0/16", Gateway: "192.168.0.1",
					TotalAddresses: new(int64(65533)), UsedAddresses: new(int64(0)),
				},
			},
			Class: &cloudteamv1.AppliedClass{Name: "open"},
		}
		ignore := cmpopts.IgnoreFields(cloudteamv1.ResourceStatus{}, "Conditions")
		expect.EqualWith(t, cmp.Options{ignore}, want, w.status(), "status")

		before := w.Get()
		for range 3 {
			w.MustSync()
		}
		w.Calls.Want(t)
		w.Events.WantReasons(t)
		expect.Equal(t, before, w.Get(), "syncs of an unchanged object changed it")
	}, example())
}

func TestNothingIsCreatedWhereTheFinalizerCannotBeWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.API.Refuse(func(string) error { return errors.New("etcd is away") })
		w.SyncFails()
		w.Calls.Want(t, "write finalizers")
	}, example())
}

func TestTheCloudIsPinnedBeforeTheFirstResource(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.crashAfter(plan.CreateNetwork)

		// The next process is given credentials of another cloud, which has nothing of this object's.
		there := controllertest.NewNeutron(w.Calls, elsewhere, clusterUID)
		w.Neutron = there
		w.restart()
		w.SyncFails()
		w.WantState("Ready=False Stalled=True CloudMismatch")
		wantNetworks(t, there, 0)

		w.Delete()
		w.SyncFails()
		if !w.Exists() {
			t.Error("the object went, and its network stays in the first cloud for ever")
		}
	}, example())
}

func TestAnObjectThatTheCloudNeverSawIsFreeToGo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.SetDown(&client.Error{Op: "log in", Reason: "no answer in time"})
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True CloudUnavailable")
		w.Calls.Want(t, "write status")
		w.Delete()
		w.WantGone()
	}, example())
}

func TestAnotherCloudThanThePinnedOneStalls(t *testing.T) {
	for name, c := range map[string]struct {
		identity client.Identity
		// unrecorded is whether the annotation is gone, so that only the status tells the cloud.
		unrecorded bool
	}{
		"another endpoint": {identity: client.Identity{
			Endpoint: "https://x.test/", Region: here.Region, ProjectID: here.ProjectID,
		}},
		"another region": {identity: client.Identity{
			Endpoint: here.Endpoint, Region: "x", ProjectID: here.ProjectID,
		}},
		"another project":               {identity: client.Identity{Endpoint: here.Endpoint, Region: here.Region, ProjectID: "x"}},
		"as the status alone remembers": {identity: elsewhere, unrecorded: true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Quiet()
				w.Neutron.Lead(t, c.identity)
				w.Edit(func(obj *cloudteamv1.Network) {
					if obj.Spec.Description = "new"; c.unrecorded {
						obj.Annotations = nil
					}
				})
				w.SyncFails()
				w.SyncFails()
				w.Calls.Want(t, "write status")
				w.Events.WantReasons(t, "Warning CloudMismatch")
				w.WantState("Ready=False Stalled=True CloudMismatch")
				if got := w.status(); got.NetworkID == "" || got.AppliedGeneration != 1 || got.ObservedGeneration != 2 {
					t.Errorf("status forgot what it knew: %+v", got)
				}
				w.Delete()
				w.SyncFails()
				if lines := w.Calls.Take(); controllertest.Count(lines, "apply") != 0 || !w.Exists() {
					t.Errorf("deletion did something in another cloud, or gave up: %q", lines)
				}
			}, example())
		})
	}
}

func TestTheFinalizersOfOthersAreTheirs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gate := controllertest.GateOf[*cloudteamv1.Network](w.API)
		meanwhile := func(change func(*cloudteamv1.Network)) {
			gate.Hold()
			w.Edit(change)
			w.SyncFails() // the cache does not show it yet
			gate.Release()
			w.MustSync()
		}
		meanwhile(func(obj *cloudteamv1.Network) { obj.Finalizers = []string{"a.test/first", "b.test/second"} })
		want := []string{"a.test/first", "b.test/second", cloudteamv1.Finalizer}
		expect.Equal(t, want, w.Get().Finalizers, "finalizers where others were put on")
		w.Delete()
		meanwhile(func(obj *cloudteamv1.Network) { obj.Finalizers = obj.Finalizers[1:] })
		expect.Equal(t, want[1:2], w.Get().Finalizers, "finalizers where others were taken off")
	}, example())
}

func TestDriftPolicy(t *testing.T) {
	rename := func(n *plan.ObservedNetwork) { n.Name = "renamed" }
	dropSubnet := func(n *plan.ObservedNetwork) { n.Subnets = nil }
	for name, c := range map[string]struct {
		policy     cloudteamv1.DriftPolicy
		hand       func(*plan.ObservedNetwork)
		wantApply  int
		wantState  string
		wantEvent  string
		wantFields []string
	}{
		"by default a hand edit is put back": {
			"", rename, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Correct a hand edit is put back": {
			cloudteamv1.DriftPolicyCorrect, rename, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Correct a missing subnet is made again": {
			cloudteamv1.DriftPolicyCorrect, dropSubnet, 1, "Ready=True Available", "Normal DriftCorrected", nil},
		"under Report a hand edit is reported and the network stays Ready": {
			cloudteamv1.DriftPolicyReport, rename, 0, "Ready=True DriftDetected", "Warning DriftDetected",
			[]string{"name"}},
		"under Report a missing subnet is reported and the network is not Ready": {
			cloudteamv1.DriftPolicyReport, dropSubnet, 0, "Ready=False Stalled=True DriftDetected",
			"Warning DriftDetected", []string{"exists"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DriftPolicy = c.policy
			inWorld(t, func(t *testing.T, w *world) {
				action := "corrected"
				if c.policy == cloudteamv1.DriftPolicyReport {
					action = "left"
				}
				counted := func() (ready, drifts float64) {
					return metrictest.Value(t, "network_controller_ready_duration_seconds", "Network"),
						metrictest.Value(t, "network_controller_drift_total", "Network", action)
				}
				ready, drifts := counted()
				w.MustSync()
				w.drift(c.hand)
				w.Quiet()
				w.MustSync()
				w.MustSync()
				if readyNow, driftsNow := counted(); readyNow != ready+1 || driftsNow != drifts+1 {
					t.Errorf("it became Ready %g times, and drift was %s %g times, want 1 and 1",
						readyNow-ready, action, driftsNow-drifts)
				}
				expect.Equal(t, c.wantApply, controllertest.Count(w.Calls.Take(), "apply"), "steps applied")
				w.WantState(c.wantState)
				w.Events.WantReasons(t, c.wantEvent)
				var fields []string
				for _, d := range w.status().Drift {
					fields = append(fields, d.Field)
				}
				expect.Equal(t, c.wantFields, fields, "fields in status.drift")
			}, obj)
		})
	}
}

func TestUnderReportASpecIsAppliedOnceAndWhole(t *testing.T) {
	obj := example()
	obj.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	inWorld(t, func(t *testing.T, w *world) {
		// The first attempt stops half way. What is missing is no drift: the spec was never applied.
		refusal := &client.Error{Kind: client.Capacity, Op: "create subnet", Reason: "full", Type: "OverQuota",
			Status: 409}
		w.Neutron.Before = controllertest.Fails(plan.CreateSubnet, 1, refusal)
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True QuotaExceeded")
		if got := w.status(); got.AppliedGeneration != 0 || got.NetworkID == "" {
			t.Errorf("status after half a creation: %+v", got)
		}
		controllertest.Settle(time.Minute) // a quota that was full is tried now and then
		w.MustSync()
		w.WantState("Ready=True Available")
		expect.Equal(t, int64(1), w.status().AppliedGeneration, "appliedGeneration")

		w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
		w.MustSync()
		w.WantState("Ready=True DriftDetected")

		w.Events.Take()
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "second edition" })
		w.WantState("Ready=True Available")
		w.Events.WantReasons(t, "Normal Updated")
		if got := w.status(); len(got.Drift) != 0 || got.AppliedGeneration != 2 {
			t.Errorf("status after the edit: %+v", got)
		}
		n := w.Neutron.Has()[0]
		if want := ownerOfExample.Describe("second edition"); n.Description != want || !n.AdminStateUp {
			t.Errorf("network has description %q and admin state %t, want %q and true", n.Description, n.AdminStateUp,
				want)
		}
	}, obj)
}

func TestACreateThatMayBeDoneIsLookedForBeforeTheNext(t *testing.T) {
	lost := func(op string) error {
		return &client.Error{Kind: client.Transient, Op: op, Reason: "no answer in time", MaybeDone: true}
	}
	for name, c := range map[string]struct {
		action     plan.Action
		done       bool
		wantSecond []string
	}{
		"a network that was created is found": {
			plan.CreateNetwork, true, []string{"list", "apply create subnet", "write status"}},
		"a network that was not created is created": {plan.CreateNetwork, false,
			[]string{"list", "find network", "apply create network", "apply create subnet", "write status"}},
		"a subnet that was created is found": {
			plan.CreateSubnet, true, []string{"list", "write status"}},
		"a subnet that was not created is created": {
			plan.CreateSubnet, false, []string{"list", "apply create subnet", "write status"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				hook := controllertest.Fails(c.action, 1, lost(string(c.action)))
				if c.done {
					w.Neutron.After = hook
				} else {
					w.Neutron.Before = hook
				}
				w.SyncFails()
				w.WantState("Ready=False Reconciling=True CloudUnavailable")
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t, c.wantSecond...)
				w.WantState("Ready=True Available")
				if all := w.Neutron.Has(); len(all) != 1 || len(all[0].Subnets) != 1 {
					t.Errorf("Neutron has %+v, want one network with one subnet", all)
				}
				w.MustSync()
				w.Calls.Want(t)
			}, example())
		})
	}
}

func TestARestartLooksBeforeItCreates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.restart()
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t, "list")
		// A list that fails says nothing, and above all not that there is nothing.
		w.restart()
		w.Neutron.SetDown(&client.Error{Op: "list networks", Reason: "service unavailable", Status: 503})
		w.Calls.Take()
		w.SyncFails()
		if n := controllertest.Count(w.Calls.Take(), "apply"); n != 0 {
			t.Errorf("%d steps were applied on the strength of a failed list", n)
		}
		w.WantState("Ready=False Reconciling=True CloudUnavailable")
		if w.status().NetworkID == "" {
			t.Error("the status forgot the network because a list failed")
		}
		w.Neutron.SetDown(nil)
		controllertest.Settle(5 * time.Second) // a list that failed is not repeated at once
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}

func TestAListThatFallsShortBeforeTheFirstStatusHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		deleted, restarted bool
		want               []string
	}{
		"from a process that has just begun": {false, true, []string{"list", "find network", "reread network net-1", "write status"}},
		"from the process whose answer was lost": {
			false, false, []string{"list", "find network", "reread network net-1", "apply create subnet", "write status"}},
		"from a deletion": {true, true, []string{
			"list", "find network", "reread network net-1", "apply delete network", "write finalizers"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if c.restarted {
					w.MustSync()
					w.Edit(func(obj *cloudteamv1.Network) { obj.Status = cloudteamv1.NetworkStatus{} })
					w.restart()
				} else {
					w.Neutron.After = controllertest.Fails(plan.CreateNetwork, 1,
						&client.Error{Op: "create network", Reason: "no answer in time", MaybeDone: true})
					w.SyncFails()
				}
				made := w.Neutron.Has()[0].ID
				w.Neutron.Missed = map[string]bool{made: true}
				if c.deleted {
					w.Delete()
				}
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t, c.want...)
				left := w.Neutron.Has()
				if c.deleted && len(left) > 0 {
					t.Errorf("the object is gone, and left %v", left)
				}
				if !c.deleted && (len(left) != 1 || w.status().NetworkID != made) {
					t.Errorf("the network is %q, of %d, want the one that was made, %s", w.status().NetworkID, len(left), made)
				}
			}, example())
		})
	}
}

// TestANewLeaderLooksBeforeItCreates has a former leader create a network after the standby's last list, and end before
// it could write the status.
func TestANewLeaderLooksBeforeItCreates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		made := w.Neutron.Has()[0]
		w.Neutron.Remove(made.ID)

		w.restart()
		standby := w.c
		controllertest.Settle(time.Hour)
		w.Neutron.Audit(t)
		controllertest.Settle(time.Hour)
		w.Neutron.Put(made)
		w.Edit(func(obj *cloudteamv1.Network) { obj.Status = cloudteamv1.NetworkStatus{} })

		standby.ActSince(time.Now())
		w.MustSync()
		if n := controllertest.Count(w.Calls.Take(), "apply create"); n != 0 {
			t.Errorf("%d resources were created beside those of the former leader", n)
		}
		expect.Equal(t, made.ID, w.status().NetworkID, "the network, which is the former leader's")
	}, example())
}

func TestAConflictIsReadAgainAndPlannedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		rivals    int // changes by others, one in front of each attempt
		wantApply int
		wantState string
		wantError bool
	}{
		"one rival is overcome at once":                {1, 2, "Ready=True Available", false},
		"a rival in each round but the last is too":    {managed.Rounds - 1, managed.Rounds, "Ready=True Available", false},
		"a rival that never rests is left until later": {99, managed.Rounds, "Ready=False Reconciling=True Conflict", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				id := w.status().NetworkID
				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
				rivals := c.rivals
				w.Neutron.Before = func(plan.Step) error {
					if rivals > 0 {
						rivals--
						w.Neutron.Rival(id, func(n *plan.ObservedNetwork) { n.Name = fmt.Sprint("rival ", rivals) })
					}
					return nil
				}
				w.Calls.Take()
				err := w.sync()
				expect.Equal(t, c.wantError, err != nil, "error %v", err)
				lines := w.Calls.Take()
				expect.Equal(t, c.wantApply, controllertest.Count(lines, "apply"), "steps that were tried: %q", lines)
				w.WantState(c.wantState)
			}, example())
		})
	}
}

func TestANetworkThatVanishesUnderAnUpdateIsMadeAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		first := w.status().NetworkID
		w.Neutron.Remove(first)
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
		w.WantState("Ready=True Available")
		all := w.Neutron.Has()
		if len(all) != 1 || all[0].ID == first || w.status().NetworkID != all[0].ID {
			t.Errorf("Neutron has %+v and the status says %s", all, w.status().NetworkID)
		}
	}, example())
}

func TestACreateThatMissesWhatIsNotItsOwnIsNotTriedAgainAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Before = controllertest.Fails(plan.CreateNetwork, 1, &client.Error{
			Kind: client.NotFound, Op: "create network", Reason: "there is no such project", Status: 404,
		})
		w.SyncFails()
		w.Calls.Want(t, "write finalizers", "list", "apply create network", "write status")
		w.WantState("Ready=False Reconciling=True Conflict")
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}

func TestAListThatFallsShortMakesNoSecondNetwork(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.Neutron.Missed = map[string]bool{id: true}
		w.Neutron.Audit(t)
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t, "reread network "+id)
		w.WantState("Ready=True Available")
	}, example())
}

func TestARemovedMarkerStallsAndNothingIsCreated(t *testing.T) {
	for name, description := range map[string]string{
		"the marker is gone":                 "mine now",
		"it is another cluster's":            plan.Owner{Cluster: "c2", Object: "uid-1"}.Marker(),
		"it is another object's of ours":     plan.Owner{Cluster: clusterUID, Object: "uid-2"}.Marker(),
		"text stands behind what was marked": ownerOfExample.Marker() + " and more",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				id := w.status().NetworkID
				w.drift(func(n *plan.ObservedNetwork) { n.Description = description })
				w.Quiet()
				w.SyncFails()
				w.SyncFails()
				w.Calls.Want(t, "reread network "+id, "write status", "reread network "+id)
				w.Events.WantReasons(t, "Warning OwnershipLost")
				w.WantState("Ready=False Stalled=True OwnershipLost")
				if got := w.status().NetworkID; got != id {
					t.Errorf("networkID is %q, want %q: the next sync would create a second network", got, id)
				}

				// Deleting the object leaves what is not ours.
				w.DeleteAndSync()
				w.WantGone()
				wantNetworks(t, w.Neutron, 1)
				w.Events.WantReasons(t, "Normal Retained")
			}, example())
		})
	}
}

func TestAMarkerPutBackEndsTheStall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.drift(func(n *plan.ObservedNetwork) { n.Description = "mine now" })
		w.SyncFails()
		w.Neutron.Edit(t, id, func(n *plan.ObservedNetwork) { n.Description = "back " + ownerOfExample.Marker() })
		w.MustSync()
		w.WantState("Ready=True Available")
		wantNetworks(t, w.Neutron, 1)
	}, example())
}

func TestAChangeThatNeutronDoesNotShow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Quiet()
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.MTU = new(int32(1400)) })
		w.Neutron.Deaf = func(plan.Step) bool { return true }
		w.SyncFails()
		w.Calls.Want(t, "apply update network", "write status")
		w.Events.WantReasons(t, "Warning NotConverged")
		w.WantState("Ready=False Stalled=True NotConverged")
		expect.Equal(t, int64(1), w.status().AppliedGeneration, "appliedGeneration: the edit was not applied")
		// Later attempts cost a call each and tell nothing new.
		w.SyncFails()
		w.Calls.Want(t, "apply update network")
		w.Events.WantReasons(t)

		w.Neutron.Deaf = nil
		w.MustSync()
		w.WantState("Ready=True Available")
		w.Events.WantReasons(t, "Normal Updated")
	}, example())
}

func TestARivalWhoUndoesAChangeIsNotTakenForNeutron(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.drift(func(n *plan.ObservedNetwork) { n.Name = "renamed" })
		// The name is put right. Then another field is wrong, and, before that is put right, the name is in its place.
		w.Neutron.After = func(plan.Step) error {
			w.Neutron.After = nil
			w.Neutron.Rival(id, func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
			w.Neutron.Before = func(plan.Step) error {
				w.Neutron.Before = nil
				w.Neutron.Rival(id, func(n *plan.ObservedNetwork) { n.AdminStateUp, n.Name = true, "renamed" })
				return nil
			}
			return nil
		}
		w.Neutron.Lists = true // each look shows what others have done
		w.Calls.Take()
		w.MustSync()
		lines := w.Calls.Take()
		if writes, reads := controllertest.Count(lines, "apply"), controllertest.Count(lines, "reread"); writes != 3 || reads != 1 {
			t.Errorf("it took %q", lines)
		}
		w.WantState("Ready=True Available")
	}, example())
}

func TestAPartOfAChangeThatNeutronDoesNotShow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Quiet()
		w.Edit(func(obj *cloudteamv1.Network) {
			obj.Spec.MTU = new(int32(1400))
			obj.Spec.DNSServers = []string{"192.0.2.1"}
		})
		w.Neutron.Deaf = func(step plan.Step) bool { return step.Action == plan.UpdateNetwork }
		w.SyncFails()
		w.Calls.Want(t, "apply update network", "apply update subnet", "apply update network",
			"write status")
		w.WantState("Ready=False Stalled=True NotConverged")
	}, example())
}

func TestEventsTellTransitionsOnly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		refused := &client.Error{Kind: client.Invalid, Op: "create network", Reason: "no", Status: 400}
		w.Neutron.Before = controllertest.Fails(plan.CreateNetwork, 4, refused)
		for range 3 {
			w.SyncFails()
		}
		w.Events.WantReasons(t, "Warning Rejected")
		// A status that says the same of another spec is none.
		w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Description = "new" })
		w.Calls.Take()
		w.SyncFails()
		w.Calls.Want(t, "apply create network", "write status")
		w.Events.WantReasons(t)
		// The same reason with other words is news.
		w.Neutron.Before = controllertest.Fails(plan.CreateNetwork, 2,
			&client.Error{Kind: client.Invalid, Op: "create network", Reason: "still no", Status: 400})
		w.SyncFails()
		w.SyncFails()
		w.Events.WantReasons(t, "Warning Rejected")
		w.MustSync()
		w.MustSync()
		w.Events.WantReasons(t, "Normal Created")
	}, example())
}

func TestAnInvalidSpecIsToldOnceAndNotTriedAgain(t *testing.T) {
	obj := example()
	obj.Spec.CIDR = "nonsense"
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.MustSync()
		w.Calls.Want(t, "write status")
		w.Events.WantReasons(t, "Warning InvalidSpec")
		w.WantState("Ready=False Stalled=True InvalidSpec")
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.CIDR = "192.168.0.0/16" })
		w.WantState("Ready=True Available")
	}, obj)
}

func TestACacheBehindTheFinalizerIsNotActedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gate := controllertest.GateOf[*cloudteamv1.Network](w.API)
		gate.Hold()
		w.API.Refuse(controllertest.Refusing("write status", errors.New("etcd is away")))
		w.SyncFails()
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t)
		w.API.Refuse(nil)
		gate.Release()
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}

func TestACacheBehindOurOwnWriteIsNotActedOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.c.Expected().Written(exampleKey, "uid-1", "999999")
		w.MustSync()
		w.Calls.Want(t)
		// Another object of the name is waited for by nobody.
		w.c.Expected().Written(exampleKey, "uid-0", "999999")
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}

func TestAFailureIsToldOnceItsStatusIsWritten(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.SetDown(&client.Error{Op: "log in", Reason: "no answer in time"})
		refused := 0
		w.API.Refuse(func(string) error {
			if refused++; refused <= 2 {
				return errors.New("etcd is away")
			}
			return nil
		})
		w.SyncFails()
		w.SyncFails()
		w.Events.WantReasons(t)
		w.SyncFails()
		w.SyncFails()
		w.Events.WantReasons(t, "Warning CloudUnavailable")
	}, example())
}

func TestAnOldListReplacesNoNetwork(t *testing.T) {
	for name, both := range map[string]bool{"that shows both": true, "that shows only the one that is gone": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				id := w.status().NetworkID
				old := w.Neutron.Listing()
				old.Ghost("networks", id, "ghost")
				if !both {
					old["networks"] = old["networks"][1:]
				}
				w.Neutron.Replayed = old
				w.Neutron.Audit(t)
				w.MustSync()
				if all := w.Neutron.Has(); len(all) != 1 || all[0].ID != id || w.status().NetworkID != id {
					t.Errorf("Neutron has %v, the status shows %s", all, w.status().NetworkID)
				}
				w.WantState("Ready=True Available")
			}, example())
		})
	}
}

// The list ends after the network was found by its name, and before the sync looks at all of it.
func TestAnOldListThatEndsAfterALiveReadDoublesNothing(t *testing.T) {
	obj := example()
	obj.Spec.Router = &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Replayed, w.Neutron.Lists = w.Neutron.Listing(), true
		for range 5 {
			if err := w.sync(); !client.IsConflict(err) {
				t.Errorf("want a conflict of the list with what exists, got %v", err)
			}
		}
		w.WantState("Ready=False Reconciling=True Conflict")
		if has := w.Neutron.Everything(); len(has.Networks) != 1 || len(has.Routers) != 1 {
			t.Errorf("Neutron has %d networks and %d routers, want one of each", len(has.Networks), len(has.Routers))
		}
		w.Neutron.Replayed = nil
		w.MustSync()
		w.WantState("Ready=True Available")
	}, obj)
}

func TestAnOldListReplacesNoRouter(t *testing.T) {
	obj := example()
	obj.Spec.Router = &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		old := w.Neutron.Listing()
		old.Ghost("routers", w.routers()[0].ID, "ghost")
		w.Neutron.Replayed = old
		w.Neutron.Audit(t)
		before := w.Neutron.Everything()
		w.MustSync()
		expect.EqualWith(t, cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}, before, w.Neutron.Everything(), "Neutron")
		w.WantState("Ready=True Available")
	}, obj)
}

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
		expect.Equal(t, id, w.status().NetworkID, "the network in the status")

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
