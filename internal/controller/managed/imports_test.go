package managed_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const legacyID = "net-legacy"

// legacy is a network that was there before any object, and is as example() declares.
func legacy() plan.ObservedNetwork {
	address := netip.MustParseAddr
	return plan.ObservedNetwork{
		ID: legacyID, Revision: 7, Created: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		Attributes: plan.Attributes{Name: "prod", AdminStateUp: true, MTU: 1450},
		Subnets: []plan.ObservedSubnet{{
			ID: "sub-legacy", Revision: 3, Name: "prod-subnet", Description: "the old one",
			Subnet: plan.Subnet{
				CIDR: netip.MustParsePrefix("192.168.0.0/16"), Gateway: address("192.168.0.1"), DHCP: true,
				Pools: []plan.Range{{Start: address("192.168.0.2"), End: address("192.168.255.254")}},
			},
		}},
	}
}

// importing is the example that imports legacy().
func importing(change func(*cloudteamv1.NetworkSpec)) *cloudteamv1.Network {
	obj := example()
	obj.Spec.Import = &cloudteamv1.NetworkImport{ID: legacyID}
	if change != nil {
		change(&obj.Spec)
	}
	return obj
}

// rival is the owner of another object.
var rival = plan.Owner{Cluster: clusterUID, Object: "uid-rival"}

// put has Neutron have a network, and returns it as Neutron shows it.
func (w *world) put(n plan.ObservedNetwork) plan.ObservedNetwork {
	w.T.Helper()
	w.Neutron.Put(n)
	return w.Neutron.Has()[0]
}

func (w *world) wantUnchanged(want ...plan.ObservedNetwork) {
	w.T.Helper()
	expect.EqualWith(w.T, cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}, want, w.Neutron.Has(), "what is in Neutron")
}

func TestAnImportIsTakenOverUnderItsOwnNames(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		want := w.put(legacy())
		w.MustSync()
		w.Calls.Want(t, "write finalizers", "list", "reread network net-legacy", "get network net-legacy",
			"apply update network", "reread network net-legacy", "apply update subnet", "write status")
		w.WantState("Ready=True Available")
		want.Description = ownerOfExample.Describe("[imported]")
		want.Subnets[0].Description = ownerOfExample.Describe("the old one")
		got := w.Neutron.Has()[0]
		want.Revision, want.Subnets[0].Revision = got.Revision, got.Subnets[0].Revision
		w.wantUnchanged(want)
		w.Events.WantReasons(t, "Normal Adopted", "Normal Updated")
		if s := w.status(); s.NetworkID != legacyID || len(s.Subnets) != 1 || s.AppliedGeneration != 1 {
			t.Errorf("status is %+v", s)
		}

		// From here on it is one like any other, but for its names.
		w.MustSync()
		w.Calls.Want(t)
		w.drift(func(n *plan.ObservedNetwork) { n.AdminStateUp, n.Name = false, "renamed" })
		w.MustSync()
		if n := w.Neutron.Has()[0]; !n.AdminStateUp || n.Subnets[0].Name != "prod-subnet" {
			t.Errorf("Neutron has %+v", n)
		}
	}, importing(nil))
}

func TestWhatCannotBeImportedIsNotTouched(t *testing.T) {
	describe := func(text string) func(*plan.ObservedNetwork) {
		return func(n *plan.ObservedNetwork) { n.Description = text }
	}
	for sentence, c := range map[string]struct {
		there   func(*plan.ObservedNetwork)
		project string
		policy  cloudteamv1.ManagementPolicy
		state   string
		says    string
		// drift is how many differences are listed.
		drift int
	}{
		"another object's network": {there: describe(rival.Describe("theirs")),
			state: "Ready=False Stalled=True AlreadyOwned", says: rival.Marker()},
		"another cluster's network": {there: describe(plan.Owner{Cluster: "c2", Object: "uid-1"}.Marker()),
			state: "Ready=False Stalled=True AlreadyOwned", says: "[owner=c2/uid-1]"},
		"a network with another object's subnet": {
			there: func(n *plan.ObservedNetwork) { n.Subnets[0].Description = rival.Marker() },
			state: "Ready=False Stalled=True AlreadyOwned", says: "subnet sub-legacy"},
		"another project's network": {project: "p9",
			state: "Ready=False Stalled=True ProjectMismatch", says: "belongs to project p9"},
		"a network that differs": {
			there: func(n *plan.ObservedNetwork) {
				n.AdminStateUp, n.Subnets[0].DHCP, n.Description = false, false, "a text"
			},
			state: "Ready=False Stalled=True ImportMismatch", says: "dhcp is false, declared true", drift: 3},
		"a network without the declared subnet": {there: func(n *plan.ObservedNetwork) { n.Subnets = nil },
			state: "Ready=False Stalled=True ImportMismatch", says: "does not exist", drift: 1},
		"an observed network that is another object's": {there: describe(rival.Marker()),
			policy: cloudteamv1.ManagementPolicyObserve,
			state:  "Ready=False Stalled=True AlreadyOwned", says: rival.Marker()},
		"an observed network without the declared subnet": {there: func(n *plan.ObservedNetwork) { n.Subnets = nil },
			policy: cloudteamv1.ManagementPolicyObserve,
			state:  "Ready=False Stalled=True ImportMismatch", says: "does not exist", drift: 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := importing(func(s *cloudteamv1.NetworkSpec) { s.ManagementPolicy = c.policy })
			inWorld(t, func(t *testing.T, w *world) {
				n := legacy()
				if c.there != nil {
					c.there(&n)
				}
				if c.project != "" {
					n.Shared = new(true)
					w.Neutron.PutIn(c.project, n)
				} else {
					w.Neutron.Put(n)
				}
				n = w.Neutron.Has()[0]
				_ = w.sync()
				_ = w.sync()
				w.wantUnchanged(n)
				w.WantState(c.state)
				w.WantMessage(c.says)
				expect.Len(t, c.drift, w.status().Drift, "differences in status.drift")
				w.DeleteAndSync()
				w.WantGone()
				w.wantUnchanged(n)
			}, obj)
		})
	}
}

// What cannot be told by its name cannot be compared either, so that the import waits.
func TestNothingIsTakenOverWhileAPartOfTheSpecIsNotKnown(t *testing.T) {
	for sentence, tc := range map[string]struct {
		policy cloudteamv1.ManagementPolicy
		state  string
	}{
		"an import":           {"", "Ready=True Available"},
		"an observed network": {cloudteamv1.ManagementPolicyObserve, "Ready=True Observed"},
	} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				before := w.put(legacy())
				w.SyncFails()
				w.SyncFails()
				w.WantState("Ready=False Stalled=True Rejected")
				w.WantMessage("find QoS policy: spec.qosPolicy: \"gold\" is neither the id nor the name of one that these credentials see; openstack network qos policy list shows those. Retrying periodically. Change the spec")
				w.wantUnchanged(before)
				if shown := w.status().NetworkID == legacyID; shown != (tc.policy == cloudteamv1.ManagementPolicyObserve) {
					t.Errorf("the status shows the network: %t", shown)
				}

				w.Neutron.PutPolicy("gold")
				controllertest.Settle(time.Minute) // a name that meant nothing is not looked up at once
				w.Neutron.Edit(t, legacyID, func(n *plan.ObservedNetwork) { n.QoSPolicy = new("gold") })
				w.MustSync()
				w.WantState(tc.state)
			}, importing(func(s *cloudteamv1.NetworkSpec) { s.ManagementPolicy, s.QoSPolicy = tc.policy, "gold" }))
		})
	}
}

func TestDriftFromAnotherSpecIsNotShown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		w.SyncFails()
		w.WantState("Ready=False Stalled=True ImportMismatch")
		if drift := w.status().Drift; len(drift) != 1 {
			t.Errorf("the drift is %+v, want that of the mtu", drift)
		}
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.Description = "[owner=" })
		w.WantState("Ready=False Stalled=True InvalidSpec")
		expect.Empty(t, w.status().Drift, "differences in status.drift from the former spec")
	}, importing(func(s *cloudteamv1.NetworkSpec) { s.MTU = new(int32(1400)) }))
}

func TestAnImportThatIsNotThereIsWaitedForAndNeverMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True ImportNotFound")
		w.WantMessage(legacyID)
		w.Neutron.Put(legacy())
		w.MustSync()
		w.WantState("Ready=True Available")
		w.Neutron.Remove(legacyID)
		w.Neutron.Audit(t)
		w.SyncFails()
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True ImportNotFound")
		w.wantUnchanged()
	}, importing(nil))
}

func TestWithOverwriteAnImportBecomesAsDeclared(t *testing.T) {
	obj := importing(func(s *cloudteamv1.NetworkSpec) { s.Import.Overwrite, s.Description = true, "mine" })
	inWorld(t, func(t *testing.T, w *world) {
		n := legacy()
		n.Subnets[0].DHCP = false
		w.Neutron.Put(n)
		w.MustSync()
		w.WantState("Ready=True Available")
		got := w.Neutron.Has()[0]
		if got.Name != "example-network" || got.Description != ownerOfExample.Describe("mine [imported]") ||
			got.Subnets[0].Name != "example-network" || !got.Subnets[0].DHCP ||
			got.Subnets[0].Description != ownerOfExample.Marker() {
			t.Errorf("Neutron has %+v", got)
		}
	}, obj)
}

func TestOfTwoThatImportOneNetworkTheMarkerDecides(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		// The other one writes between our look and our write, which then fails on the revision.
		w.Neutron.Before = func(step plan.Step) error {
			if step.Action == plan.UpdateNetwork {
				w.Neutron.Before = nil
				w.Neutron.Rival(legacyID, func(n *plan.ObservedNetwork) { n.Description = rival.Marker() })
			}
			return nil
		}
		w.SyncFails()
		w.WantState("Ready=False Stalled=True AlreadyOwned")
		if n := w.Neutron.Has()[0]; n.Description != rival.Marker() || n.Subnets[0].Description != "the old one" {
			t.Errorf("Neutron has %+v", n)
		}
	}, importing(nil))
}

func TestAnImportThatIsInterruptedIsTakenUp(t *testing.T) {
	lost := &client.Error{Kind: client.Transient, Op: "update", Reason: "no answer in time", MaybeDone: true}
	for sentence, c := range map[string]struct {
		action plan.Action
		done   bool
	}{
		"before the network's marker":  {plan.UpdateNetwork, false},
		"after the network's marker":   {plan.UpdateNetwork, true},
		"before a subnet's marker":     {plan.UpdateSubnet, false},
		"after the last of the writes": {plan.UpdateSubnet, true},
	} {
		for how, restart := range map[string]bool{"": false, ", with a restart": true} {
			t.Run(sentence+how, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.Neutron.Put(legacy())
					hook := controllertest.Fails(c.action, 1, lost)
					if c.done {
						w.Neutron.After = hook
					} else {
						w.Neutron.Before = hook
					}
					w.SyncFails()
					if restart {
						w.restart()
					}
					w.MustSync()
					w.WantState("Ready=True Available")
					n := w.Neutron.Has()[0]
					if len(w.Neutron.Has()) != 1 || !ownerOfExample.Owns(n.Description) || n.Name != "prod" ||
						!ownerOfExample.Owns(n.Subnets[0].Description) {
						t.Errorf("Neutron has %+v", w.Neutron.Has())
					}
				}, importing(nil))
			})
		}
	}
}

func TestAnImportedNetworkStaysUnlessItSaysOtherwise(t *testing.T) {
	for sentence, c := range map[string]struct {
		policy, byDefault cloudteamv1.DeletionPolicy
		stays             bool
	}{
		"without a word it stays, whatever the default is": {"", cloudteamv1.DeletionPolicyDelete, true},
		"with Delete it goes":                              {cloudteamv1.DeletionPolicyDelete, cloudteamv1.DeletionPolicyRetain, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := importing(func(s *cloudteamv1.NetworkSpec) { s.DeletionPolicy = c.policy })
			inWorld(t, func(t *testing.T, w *world) {
				w.c.DefaultTo(managed.Policies{Deletion: c.byDefault})
				want := w.put(legacy())
				w.MustSync()
				w.DeleteAndSync()
				w.WantGone()
				if !c.stays {
					w.wantUnchanged()
					return
				}
				got := w.Neutron.Has()[0]
				want.Revision, want.Subnets[0].Revision = got.Revision, got.Subnets[0].Revision
				w.wantUnchanged(want)
			}, obj)
		})
	}
}

func TestAnImportedNetworkWhoseMarkerIsTakenOffIsNotTakenOverAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		w.MustSync()
		w.drift(func(n *plan.ObservedNetwork) { n.Description = "" })
		w.SyncFails()
		w.WantState("Ready=False Stalled=True OwnershipLost")
		w.WantMessage("or delete this object")
		expect.Equal(t, "", w.Neutron.Has()[0].Description, "the network's description")
	}, importing(nil))
}

func TestAnObservedNetworkIsShownAndNeverWrittenTo(t *testing.T) {
	observing := importing(func(s *cloudteamv1.NetworkSpec) { s.ManagementPolicy = cloudteamv1.ManagementPolicyObserve })
	inWorld(t, func(t *testing.T, w *world) {
		shared := legacy()
		shared.Shared = new(true)
		w.Neutron.PutIn("p9", shared) // shared by another project
		w.c.ObserveEvery(time.Hour)
		result, err := w.c.Sync(controllertest.Logged(t), exampleKey)
		if err != nil || result.RequeueAfter != time.Hour {
			t.Errorf("sync gives %+v, %v", result, err)
		}
		w.Calls.Want(t, "get network net-legacy", "write status")
		w.WantState("Ready=True Observed")
		s := w.status()
		if s.NetworkID != legacyID || s.MTU != 1450 || len(s.Subnets) != 1 || s.AppliedGeneration != 0 {
			t.Errorf("status is %+v", s)
		}
		w.MustSync()
		w.Calls.Want(t, "get network net-legacy")

		w.Neutron.Edit(t, legacyID, func(n *plan.ObservedNetwork) { n.AdminStateUp = false })
		w.MustSync()
		w.WantState("Ready=True DriftDetected")
		w.WantMessage("adminState is down")
		w.Neutron.Remove(legacyID)
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True ImportNotFound")
		if got := w.status(); got.NetworkID != "" || len(got.Drift) != 0 {
			t.Errorf("status is %+v", got)
		}
		if slices.Contains(w.Get().Finalizers, cloudteamv1.Finalizer) {
			t.Error("it has the finalizer")
		}
		if lines := w.Calls.Take(); slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "apply") }) {
			t.Errorf("something was written: %q", lines)
		}
	}, observing)
}

func TestAnObservedNetworkMayBecomeAManagedOne(t *testing.T) {
	observing := importing(func(s *cloudteamv1.NetworkSpec) { s.ManagementPolicy = cloudteamv1.ManagementPolicyObserve })
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(legacy())
		w.MustSync()
		w.WantState("Ready=True Observed")
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.ManagementPolicy = "" })
		w.WantState("Ready=True Available")
		if n := w.Neutron.Has()[0]; !ownerOfExample.Owns(n.Description) || !ownerOfExample.Owns(n.Subnets[0].Description) {
			t.Errorf("Neutron has %+v", n)
		}
	}, observing)
}
