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

// prodID and otherID are ids of Neutron's form, which an annotation may have.
const (
	prodID  = "b0b5a1f0-3c2d-4e5f-8a9b-0c1d2e3f4a5b"
	otherID = "b0b5a1f0-3c2d-4e5f-8a9b-0c1d2e3f4a5c"
)

// searching is the example that imports the network "prod" with the tag "live".
func searching(policy cloudteamv1.ManagementPolicy) *cloudteamv1.Network {
	return importing(func(s *cloudteamv1.NetworkSpec) {
		s.ManagementPolicy = policy
		s.Import = &cloudteamv1.NetworkImport{Filter: &cloudteamv1.NetworkImportFilter{Name: "prod", Tags: []string{"live"}}}
	})
}

// named is legacy() with another id, and the tags "live" and "old".
func named(id string, change func(*plan.ObservedNetwork)) plan.ObservedNetwork {
	n := legacy()
	n.Created = time.Time{} // its clock would end the tokens
	n.ID, n.Tags, n.Subnets[0].ID = id, []string{"live", "old"}, "sub-"+id[len(id)-6:]
	if change != nil {
		change(&n)
	}
	return n
}

// network is a network as Neutron has it.
func (w *world) network(id string) plan.ObservedNetwork {
	w.T.Helper()
	all := w.Neutron.Has()
	at := slices.IndexFunc(all, func(n plan.ObservedNetwork) bool { return n.ID == id })
	if at < 0 {
		w.T.Fatalf("Neutron has no network %s", id)
	}
	return all[at]
}

func TestAnImportIsSearchedOnceByItsFilter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(named(prodID, nil))
		for id, change := range map[string]func(*plan.ObservedNetwork){
			"b0b5a1f0-3c2d-4e5f-8a9b-000000000001": func(n *plan.ObservedNetwork) { n.Name = "production" },
			"b0b5a1f0-3c2d-4e5f-8a9b-000000000002": func(n *plan.ObservedNetwork) { n.Tags = []string{"old"} },
			"b0b5a1f0-3c2d-4e5f-8a9b-000000000003": func(n *plan.ObservedNetwork) { n.Description = rival.Marker() },
		} {
			w.Neutron.Put(named(id, change))
		}
		w.Neutron.PutIn("p2", named("b0b5a1f0-3c2d-4e5f-8a9b-000000000004", func(n *plan.ObservedNetwork) { n.Shared = new(true) }))
		preview, err := w.c.Preview(t.Context(), w.Get())
		if err != nil || !preview.Adopts || len(preview.Change) != 1 || preview.Change[0].ID != prodID {
			t.Errorf("the preview is %+v, %v", preview, err)
		}
		if got := w.Get(); len(got.Finalizers)+len(got.Annotations) > 0 {
			t.Errorf("the preview wrote %+v", got.ObjectMeta)
		}
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t, "find network", "write finalizers", "reread network "+prodID, "get network "+prodID,
			"apply update network", "reread network "+prodID, "apply update subnet", "write status")
		w.WantState("Ready=True Available")
		expect.Equal(t, prodID, w.Get().Annotations[cloudteamv1.AnnotationImportID], "the annotation")

		// From here on, neither names nor tags matter, nor whether the annotation stays.
		w.Neutron.Rival(prodID, func(n *plan.ObservedNetwork) { n.Name, n.Tags = "renamed", nil })
		w.Neutron.Put(named(otherID, nil))
		before := w.network(otherID)
		for _, annotation := range []string{prodID, "", "../ports"} {
			w.Edit(func(obj *cloudteamv1.Network) { obj.Annotations[cloudteamv1.AnnotationImportID] = annotation })
			w.restart()
			w.MustSync()
			w.WantState("Ready=True Available")
			expect.Equal(t, prodID, w.status().NetworkID, "the network with the annotation %q", annotation)
		}
		expect.Equal(t, 0, controllertest.Count(w.Calls.Take(), "find"), "searches after the first")

		// Whoever writes another one gets nothing.
		w.Edit(func(obj *cloudteamv1.Network) { obj.Annotations[cloudteamv1.AnnotationImportID] = otherID })
		w.SyncFails()
		w.WantState("Ready=False Stalled=True Blocked")
		w.DeleteAndSync()
		w.WantGone()
		expect.Equal(t, before.Revision, w.network(otherID).Revision, "the revision of the other network")
		expect.Equal(t, "", w.network(prodID).Description, "the description of what was imported")
	}, searching(""))
}

func TestAFilterThatDoesNotMeanOneNetworkImportsNone(t *testing.T) {
	for _, policy := range []cloudteamv1.ManagementPolicy{"", cloudteamv1.ManagementPolicyObserve} {
		inWorld(t, func(t *testing.T, w *world) {
			w.SyncFails()
			first := []string{"list", "find network", "write status"}
			if policy == cloudteamv1.ManagementPolicyObserve {
				first = first[1:] // nothing can bear its marker
			}
			w.Calls.Want(t, first...)
			w.WantState("Ready=False Reconciling=True ImportNotFound")
			w.WantMessage(`that has the name "prod" and the tag "live" and no other owner's marker. The controller does not create`)
			w.SyncFails()
			w.Calls.Want(t, "find network") // which is all that waiting costs

			var ids []string
			for n := range 12 {
				ids = append(ids, prodID[:len(prodID)-2]+string(rune('a'+n/6))+string(rune('0'+n%6)))
				w.Neutron.Put(named(ids[n], nil))
			}
			w.SyncFails()
			w.Calls.Want(t, "find network", "write status")
			w.WantState("Ready=False Stalled=True ImportAmbiguous")
			w.WantMessage("12 networks", strings.Join(ids[:10], ", ")+" and 2 more. None is imported", "right id in import.id")
			for _, id := range ids[1:] {
				w.Neutron.Rival(id, func(n *plan.ObservedNetwork) { n.Description = rival.Marker() })
			}
			if got := w.Get(); len(got.Finalizers)+len(got.Annotations) > 0 {
				t.Errorf("it has %+v", got.ObjectMeta)
			}
			w.MustSync()
			expect.Equal(t, ids[0], w.status().NetworkID, "the network")
		}, searching(policy))
	}
}

func TestAnObservedImportStaysTheOneThatWasFound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.PutIn("p2", named(prodID, func(n *plan.ObservedNetwork) { n.Shared = new(true) }))
		w.MustSync()
		w.Calls.Want(t, "find network", "write annotations", "get network "+prodID, "write status")
		w.WantState("Ready=True Observed")
		w.Neutron.Remove(prodID)
		w.Neutron.Put(named(otherID, nil))
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True ImportNotFound")
		w.WantMessage(prodID)
		expect.Empty(t, w.Get().Finalizers, "finalizers")
	}, searching(cloudteamv1.ManagementPolicyObserve))
}

// TestAnImportIsNotSearchedAgain has somebody take the annotation off, and the network go.
func TestAnImportIsNotSearchedAgain(t *testing.T) {
	for _, policy := range []cloudteamv1.ManagementPolicy{"", cloudteamv1.ManagementPolicyObserve} {
		inWorld(t, func(t *testing.T, w *world) {
			w.Neutron.Put(named(prodID, nil))
			w.MustSync()
			w.Calls.Take()
			w.Edit(func(obj *cloudteamv1.Network) { delete(obj.Annotations, cloudteamv1.AnnotationImportID) })
			w.MustSync()
			expect.Equal(t, prodID, w.Get().Annotations[cloudteamv1.AnnotationImportID], "the annotation that was taken off")
			if policy != "" {
				return
			}
			w.Edit(func(obj *cloudteamv1.Network) {
				delete(obj.Annotations, cloudteamv1.AnnotationImportID)
				obj.Status.NetworkID = "" // as it is when the network is gone
			})
			w.Neutron.Remove(prodID)
			w.Neutron.Put(named(otherID, nil))
			w.restart()
			w.SyncFails()
			w.WantState("Ready=False Reconciling=True ImportNotFound")
			w.WantMessage("was imported and is gone")
			expect.Equal(t, 0, controllertest.Count(w.Calls.Take(), "find"), "searches after it was applied")
		}, searching(policy))
	}
}

// TestWhatBearsTheMarkerIsMeant has an import that renamed its network, and an object that knows nothing of it.
func TestWhatBearsTheMarkerIsMeant(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Put(named(prodID, func(n *plan.ObservedNetwork) {
			n.Name, n.Description = "renamed", plan.Owner{Cluster: clusterUID, Object: string(w.Get().UID)}.Marker()
		}))
		w.Neutron.Put(named(otherID, nil))
		_ = w.sync()
		expect.Equal(t, prodID, w.Get().Annotations[cloudteamv1.AnnotationImportID], "what was found")
		expect.Equal(t, "", w.network(otherID).Description, "the description of what has the name")
	}, searching(""))
}

// The marker of the import is the write after the search. What is renamed between the two is imported all the same.
func TestAnImportThatWasFoundOutlastsTheProcess(t *testing.T) {
	lost := &client.Error{Kind: client.Transient, Op: "update", Reason: "no answer in time", MaybeDone: true}
	for sentence, done := range map[string]bool{"before the marker": false, "after it": true} {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.Put(named(prodID, nil))
				if hook := controllertest.Fails(plan.UpdateNetwork, 1, lost); done {
					w.Neutron.After = hook
				} else {
					w.Neutron.Before = hook
				}
				w.SyncFails()
				w.Neutron.Rival(prodID, func(n *plan.ObservedNetwork) { n.Name = "renamed" })
				w.Neutron.Put(named(otherID, nil))
				w.restart()
				w.MustSync()
				w.WantState("Ready=True Available")
				expect.Equal(t, prodID, w.status().NetworkID, "the network")
				expect.Equal(t, "", w.network(otherID).Description, "the other network's description")
			}, searching(""))
		})
	}
}

// An annotation of a user's own is an id, and no more.
func TestAnAnnotationGivesNoMoreThanAnID(t *testing.T) {
	for sentence, c := range map[string]struct{ annotation, state string }{
		"another object's network": {otherID, "Ready=False Stalled=True AlreadyOwned"},
		"no id":                    {"../ports", "Ready=True Available"},
	} {
		t.Run(sentence, func(t *testing.T) {
			obj := searching("")
			obj.Annotations = map[string]string{cloudteamv1.AnnotationImportID: c.annotation}
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.Put(named(prodID, nil))
				w.Neutron.Put(named(otherID, func(n *plan.ObservedNetwork) { n.Description = rival.Marker() }))
				_ = w.sync()
				w.WantState(c.state)
				expect.Equal(t, rival.Marker(), w.network(otherID).Description, "the other's description")
			}, obj)
		})
	}
	obj := searching(cloudteamv1.ManagementPolicyObserve)
	obj.Finalizers = []string{cloudteamv1.Finalizer} // a user's, too
	inWorld(t, func(t *testing.T, w *world) {
		closed := controllertest.OpenClass()
		closed.Spec.AllowedFields = nil
		w.classes.Set(closed)
		w.Neutron.Put(named(prodID, nil))
		w.MustSync()
		w.WantState("Ready=False Stalled=True ForbiddenByClass")
		w.Calls.Want(t, "write status")
	}, obj)
}
