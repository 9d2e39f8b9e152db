package managed_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestDeletionLeavesNeutronBeforeKubernetes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.calls.Take()
		w.events.Take()
		w.mustSync()
		w.calls.Want(t, "apply delete network", "write finalizers")
		w.events.WantReasons(t, "Normal Deleted")
		if w.exists() || len(w.cloud.Has()) != 0 {
			t.Errorf("object exists: %t; networks: %d", w.exists(), len(w.cloud.Has()))
		}
		w.mustSync()
		w.calls.Want(t)
	}, example())
}

func TestACacheThatStillHoldsWhatWasLetGoIsNotActedOn(t *testing.T) {
	for name, policy := range map[string]cloudteamv1.DeletionPolicy{
		"after a deletion": cloudteamv1.DeletionPolicyDelete, "after a release": cloudteamv1.DeletionPolicyRetain,
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy = policy
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.delete()
				synctest.Wait()
				gate := controllertest.GateOf[*cloudteamv1.Network](w.api)
				gate.Hold()
				w.mustSync()
				w.calls.Take()
				w.events.Take()
				w.mustSync()
				gate.Release()
				w.mustSync()
				w.calls.Want(t)
				w.events.WantReasons(t)
				// A later object of the name is another.
				again := example()
				again.UID = "uid-2"
				w.api.Create(t, again)
				w.mustSync()
				w.wantState("Ready=True Available")
			}, obj)
		})
	}
}

func TestDeletionOfWhatWasNeverCreated(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{cloudteamv1.Finalizer}
	obj.Spec.CIDR = "nonsense"
	inWorld(t, func(t *testing.T, w *world) {
		w.delete()
		w.mustSync()
		// An earlier process may have created something that the list does not show.
		w.calls.Want(t, "list", "find network", "write finalizers")
		if w.exists() {
			t.Error("the object stays")
		}
	}, obj)
}

func TestOthersFinalizersStay(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first", "b.test/second"}
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		want := []string{"a.test/first", "b.test/second", cloudteamv1.Finalizer}
		if diff := cmp.Diff(want, w.get().Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		w.delete()
		w.mustSync()
		if diff := cmp.Diff(want[:2], w.get().Finalizers); diff != "" {
			t.Errorf("finalizers after the deletion (-want +got):\n%s", diff)
		}
		w.calls.Take()
		w.mustSync()
		w.calls.Want(t)
	}, obj)
}

func TestAFinalizerThatOthersTookOffIsNoLossWhileAnotherStays(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first"}
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.edit(func(obj *cloudteamv1.Network) { obj.Finalizers = []string{"a.test/first"} })
		w.mustSync()
		if left := w.cloud.Has(); len(left) > 0 {
			t.Errorf("Neutron still has %v", left)
		}
		w.calls.Take()
		w.mustSync()
		w.calls.Want(t)
	}, obj)
}

func TestANetworkInUseKeepsItsObject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.events.Take()
		w.cloud.Before = controllertest.Fails(plan.DeleteNetwork, 2, &client.Error{
			Kind: client.InUse, Op: "delete network", Reason: "ports are on it", Type: "NetworkInUse", Status: 409,
		})
		w.syncFails()
		w.syncFails()
		w.wantState("Ready=False Reconciling=True InUse")
		w.events.WantReasons(t, "Warning InUse")
		if got := w.status(); got.NetworkID == "" || len(got.Subnets) != 1 {
			t.Errorf("the status no longer shows what is there: %+v", got)
		}
		w.mustSync()
		if w.exists() {
			t.Error("the object stays")
		}
		w.events.WantReasons(t, "Normal Deleted")
	}, example())
}

// refusedAsInUse is Neutron's answer to the deletion of what ports are on. It names them in any order.
func refusedAsInUse(ids string) error {
	return &client.Error{
		Kind: client.InUse, Op: "delete network", Type: "NetworkInUse", Status: 409,
		Reason: "There are one or more ports still in use on the network, id for these ports is: " + ids,
	}
}

func TestADeletionThatIsRefusedNamesThePortsInItsWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.calls.Take()
		w.events.Take()
		orders := []string{"p1,p2", "p2,p1", "p1,p2"}
		w.cloud.Before = func(step plan.Step) error {
			if step.Action != plan.DeleteNetwork || len(orders) == 0 {
				return nil
			}
			ids := orders[0]
			orders = orders[1:]
			return refusedAsInUse(ids)
		}
		w.cloud.InTheWay = inventory.Blockers{Ports: []inventory.Blocker{
			{ID: "p1", DeviceOwner: "compute:nova", DeviceID: "9a"},
			{ID: "p2", DeviceOwner: "network:router_interface", DeviceID: "r1"},
		}}
		w.syncFails()
		w.calls.Want(t, "apply delete network", "blockers of delete network", "write status")
		w.wantState("Ready=False Reconciling=True InUse")
		const want = "delete network: in use by port p1 (compute:nova, device 9a), port p2 (interface of router r1). " +
			"Retrying with backoff. Remove what uses it."
		ready := meta.FindStatusCondition(w.status().Conditions, cloudteamv1.ConditionReady)
		if ready.Message != want {
			t.Errorf("message %q, want %q", ready.Message, want)
		}
		w.events.Want(t, "Warning InUse "+want)

		w.syncFails()
		w.calls.Want(t, "apply delete network", "blockers of delete network")
		w.events.WantReasons(t)

		w.cloud.InTheWay, w.cloud.BlockersFail = inventory.Blockers{}, errors.New("no answer")
		w.syncFails()
		w.wantState("Ready=False Reconciling=True InUse")
		w.mustSync()
		if w.exists() {
			t.Error("the object stays")
		}
	}, example())
}

func TestRetainTakesTheMarkersOffInOneSync(t *testing.T) {
	obj := example()
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	obj.Spec.Description = "keep me"
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.calls.Take()
		w.events.Take()
		w.mustSync()
		lines := w.calls.Take()
		if n := controllertest.Count(lines, "apply delete"); n != 0 {
			t.Errorf("%d deletions under Retain", n)
		}
		if n := controllertest.Count(lines, "write status"); n != 0 {
			t.Errorf("%d writes of a status that nobody needs: %q", n, lines)
		}
		if w.exists() {
			t.Error("the object stays")
		}
		w.events.WantReasons(t, "Normal Retained")
		all := w.cloud.Has()
		if len(all) != 1 || all[0].Description != "keep me" || all[0].Subnets[0].Description != "" {
			t.Errorf("Neutron has %+v, want the network and its subnet without markers", all)
		}
	}, obj)
}

func TestARetainThatWasCutOffIsTakenUpAgain(t *testing.T) {
	obj := example()
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.delete()
		w.cloud.Before = controllertest.Fails(plan.UpdateNetwork, 1, &client.Error{Op: "update network", Reason: "canceled"})
		w.syncFails()
		w.restart()
		w.mustSync()
		if all := w.cloud.Has(); w.exists() || len(all) != 1 || all[0].Description != "" {
			t.Errorf("object exists: %t; Neutron has %+v", w.exists(), all)
		}
	}, obj)
}

func TestAMarkerRemovedWhileTheDeletionIsUnderWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		id := w.status().NetworkID
		w.cloud.Edit(t, id, func(n *plan.ObservedNetwork) { n.Description = "mine now" })
		w.delete()
		w.mustSync() // the Inventory still holds the network as ours; the DELETE is refused
		if w.exists() || len(w.cloud.Has()) != 1 {
			t.Errorf("object exists: %t; networks: %d, want false and 1", w.exists(), len(w.cloud.Has()))
		}
	}, example())
}

func TestADeletionThatMeetsRivals(t *testing.T) {
	for name, c := range map[string]struct {
		rivals int
		goes   bool
	}{
		"one rival is overcome at once":                {1, true},
		"a rival in each round but the last is too":    {managed.Rounds - 1, true},
		"a rival that never rests is left until later": {99, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				id := w.status().NetworkID
				w.delete()
				rivals := c.rivals
				w.cloud.Before = func(plan.Step) error {
					if rivals > 0 {
						rivals--
						w.cloud.Rival(id, func(*plan.ObservedNetwork) {})
					}
					return nil
				}
				w.calls.Take()
				err := w.sync(exampleKey)
				if n := controllertest.Count(w.calls.Take(), "apply"); n > managed.Rounds {
					t.Errorf("%d attempts in one sync, want at most %d", n, managed.Rounds)
				}
				if gone := !w.exists(); gone != c.goes || (err == nil) != c.goes {
					t.Errorf("object is gone: %t, error: %v; want gone: %t", gone, err, c.goes)
				}
				if !c.goes {
					w.wantState("Ready=False Reconciling=True Conflict")
				}
			}, example())
		})
	}
}

func TestADeletionBlockedByAForeignSubnet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.cloud.Edit(t, w.status().NetworkID, func(n *plan.ObservedNetwork) {
			n.Subnets = append(n.Subnets, plan.ObservedSubnet{
				ID: "foreign", Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")},
			})
		})
		w.cloud.Audit(t)
		w.delete()
		w.syncFails()
		w.wantState("Ready=False Stalled=True Blocked")
		if len(w.cloud.Has()) != 1 || !w.exists() {
			t.Error("somebody else's subnet was deleted with the network, or the object went without it")
		}
	}, example())
}

func TestWhatAnObjectLeftBehindIsPruned(t *testing.T) {
	for name, c := range map[string]struct {
		policy       cloudteamv1.DeletionPolicy
		wantNetworks int
	}{
		"a finalizer that was forced off":              {"", 0},
		"a finalizer that was forced off under Retain": {cloudteamv1.DeletionPolicyRetain, 1},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy = c.policy
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.deleteByForce()
				w.mustSync()
				all := w.cloud.Has()
				if len(all) != c.wantNetworks {
					t.Errorf("Neutron has %d networks, want %d", len(all), c.wantNetworks)
				}
				for _, n := range all {
					if _, _, marked := plan.ParseDescription(n.Description); marked {
						t.Errorf("a network that was retained is still marked: %s", n.Description)
					}
				}
				if keys := w.c.Memory(); keys != 0 {
					t.Errorf("what is gone is remembered: %d keys", keys)
				}
				w.calls.Take()
				w.mustSync()
				w.calls.Want(t)
			}, obj)
		})
	}
}

func TestAPruneThatFailsIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.deleteByForce()
		w.cloud.Before = controllertest.Fails(plan.DeleteNetwork, 1, &client.Error{Op: "delete network", Reason: "down",
			Status: 503})
		w.syncFails()
		w.mustSync()
		if n := len(w.cloud.Has()); n != 0 {
			t.Errorf("Neutron has %d networks, want none", n)
		}
	}, example())
}

func TestAnObjectThatBearsTheNameOfAGoneOne(t *testing.T) {
	again := example()
	again.UID = "uid-2"
	for name, before := range map[string]func(plan.Step) error{
		"has a network of its own, and the old one goes": nil,
		"does not wait for an old network that is still in use": controllertest.Fails(plan.DeleteNetwork, 1, &client.Error{
			Kind: client.InUse, Op: "delete network", Reason: "ports are on it", Type: "NetworkInUse", Status: 409,
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.mustSync()
				w.deleteByForce()
				w.api.Create(t, again)
				w.cloud.Before = before
				err := w.sync(exampleKey)
				if (err != nil) != (before != nil) {
					t.Errorf("error %v, want one: %t, so that the old network is tried again", err, before != nil)
				}
				w.wantState("Ready=True Available")
				w.mustSync()
				all := w.cloud.Has()
				if len(all) != 1 || all[0].ID != w.status().NetworkID ||
					all[0].Description != (plan.Owner{Cluster: clusterUID, Object: "uid-2"}).Marker() {
					t.Errorf("Neutron has %+v, want the new object's alone", all)
				}
			}, example())
		})
	}
}

func TestAGoneObjectsNetworkIsSoughtInItsOwnCloud(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.mustSync()
		w.deleteByForce()
		w.cloud.Credentials = elsewhere
		w.calls.Take()
		w.syncFails()
		w.calls.Want(t)
		if keys := w.c.Memory(); keys != 1 {
			t.Error("the network was forgotten where it could not be seen")
		}
		w.cloud.Credentials = here
		w.mustSync()
		if n := len(w.cloud.Has()); n != 0 {
			t.Errorf("Neutron has %d networks, want none", n)
		}
	}, example())
}

func TestAGoneObjectsNetworkIsSoughtByItsIDWhereAListFallsShort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mustSync()
		w.mustSync()
		id := w.status().NetworkID
		w.deleteByForce()
		w.cloud.Missed = map[string]bool{id: true}
		w.cloud.Audit(t)
		w.calls.Take()
		w.mustSync()
		w.calls.Want(t, "reread network "+id, "apply delete network")
		if n := len(w.cloud.Has()); n != 0 {
			t.Errorf("Neutron has %d networks, want none", n)
		}
	}, example())
}
