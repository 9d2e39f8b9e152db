package managed_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestACacheThatStillHoldsWhatWasLetGoIsNotActedOn(t *testing.T) {
	for name, policy := range map[string]cloudteamv1.DeletionPolicy{
		"after a deletion": cloudteamv1.DeletionPolicyDelete, "after a release": cloudteamv1.DeletionPolicyRetain,
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy = policy
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.Delete()
				synctest.Wait()
				gate := controllertest.GateOf[*cloudteamv1.Network](w.API)
				gate.Hold()
				w.MustSync()
				w.Quiet()
				w.MustSync()
				gate.Release()
				w.MustSync()
				w.Calls.Want(t)
				w.Events.WantReasons(t)
				// A later object of the name is another.
				again := example()
				again.UID = "uid-2"
				w.API.Create(t, again)
				w.MustSync()
				w.WantState("Ready=True Available")
			}, obj)
		})
	}
}

func TestDeletionOfWhatWasNeverCreated(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{cloudteamv1.Finalizer}
	obj.Spec.CIDR = "nonsense"
	inWorld(t, func(t *testing.T, w *world) {
		w.DeleteAndSync()
		// An earlier process may have created something that the list does not show.
		w.Calls.Want(t, "list", "find network", "write finalizers")
		w.WantGone()
	}, obj)
}

// TestNoFinalizerOfACrowdedObjectIsTakenOff: the cache has only some of its finalizers.
func TestNoFinalizerOfACrowdedObjectIsTakenOff(t *testing.T) {
	few := []string{"a.test/1", "a.test/2"}
	crowd := append(slices.Clone(few), managed.TooManyFinalizers)
	obj := example()
	obj.Finalizers = crowd
	inWorld(t, func(t *testing.T, w *world) {
		finalizers := func(want ...string) {
			t.Helper()
			expect.Equal(t, want, w.Get().Finalizers, "finalizers")
		}
		w.SyncFails()
		w.WantState("Ready=False Stalled=True InvalidSpec")
		finalizers(crowd...)
		wantNetworks(t, w.Neutron, 0)

		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Finalizers = few })
		all := append(slices.Clone(crowd), cloudteamv1.Finalizer)
		w.Edit(func(obj *cloudteamv1.Network) { obj.Finalizers = all })
		w.Delete()
		w.SyncFails()
		finalizers(all...)
		wantNetworks(t, w.Neutron, 0)
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Finalizers = append(slices.Clone(few), cloudteamv1.Finalizer) })
		finalizers(few...)
	}, obj)
}

func TestAFinalizerThatOthersTookOffIsNoLossWhileAnotherStays(t *testing.T) {
	obj := example()
	obj.Finalizers = []string{"a.test/first"}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Delete()
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Finalizers = []string{"a.test/first"} })
		expect.Empty(t, w.Neutron.Has(), "left in Neutron")
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t)
	}, obj)
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
		w.MustSync()
		w.Delete()
		w.Quiet()
		orders := []string{"p1,p2", "p2,p1", "p1,p2"}
		w.Neutron.Before = func(step plan.Step) error {
			if step.Action != plan.DeleteNetwork || len(orders) == 0 {
				return nil
			}
			ids := orders[0]
			orders = orders[1:]
			return refusedAsInUse(ids)
		}
		w.Neutron.PutRouter(plan.ObservedRouter{ID: "r1"})
		id := w.status().NetworkID
		w.Neutron.PutPort(plan.ObservedPort{ID: "p1", NetworkID: id, Device: "compute:nova, device 9a"})
		w.Neutron.PutPort(plan.ObservedPort{ID: "p2", NetworkID: id, Router: "r1"})
		w.SyncFails()
		w.Calls.Want(t, "apply delete network", "blockers", "write status")
		w.WantState("Ready=False Reconciling=True InUse")
		const want = "delete network: in use by port p1 (compute:nova, device 9a), port p2 (interface of router r1). " +
			"Retrying with backoff. Remove what uses it."
		expect.Equal(t, want, w.Ready().Message, "message")
		w.Events.Want(t, "Warning InUse "+want)

		w.SyncFails()
		w.Calls.Want(t, "apply delete network", "blockers")
		w.Events.WantReasons(t)

		w.Neutron.Reads = func(string) error { return errors.New("no answer") }
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True InUse")
		w.Neutron.Reads = nil
		w.Neutron.Remove("p1")
		w.Neutron.Detach("p2")
		w.MustSync()
		w.WantGone()
	}, example())
}

func TestRetainTakesTheMarkersOffInOneSync(t *testing.T) {
	obj := example()
	obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	obj.Spec.Description = "keep me"
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Delete()
		w.Quiet()
		w.MustSync()
		lines := w.Calls.Take()
		expect.Equal(t, 0, controllertest.Count(lines, "apply delete"), "deletions under Retain")
		expect.Equal(t, 0, controllertest.Count(lines, "write status"), "statuses written that nobody needs: %q", lines)
		w.WantGone()
		w.Events.WantReasons(t, "Normal Retained")
		all := w.Neutron.Has()
		if len(all) != 1 || all[0].Description != "keep me" || all[0].Subnets[0].Description != "" {
			t.Errorf("Neutron has %+v, want the network and its subnet without markers", all)
		}
	}, obj)
}

func TestAMarkerRemovedWhileTheDeletionIsUnderWay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		id := w.status().NetworkID
		w.Neutron.Edit(t, id, func(n *plan.ObservedNetwork) { n.Description = "mine now" })
		w.Delete()
		w.MustSync() // the Inventory still holds the network as ours; the DELETE is refused
		w.WantGone()
		wantNetworks(t, w.Neutron, 1)
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
				w.MustSync()
				id := w.status().NetworkID
				w.Delete()
				rivals := c.rivals
				w.Neutron.Before = func(plan.Step) error {
					if rivals > 0 {
						rivals--
						w.Neutron.Rival(id, func(*plan.ObservedNetwork) {})
					}
					return nil
				}
				w.Calls.Take()
				err := w.sync()
				if n := controllertest.Count(w.Calls.Take(), "apply"); n > managed.Rounds {
					t.Errorf("%d attempts in one sync, want at most %d", n, managed.Rounds)
				}
				if gone := !w.Exists(); gone != c.goes || (err == nil) != c.goes {
					t.Errorf("object is gone: %t, error: %v; want gone: %t", gone, err, c.goes)
				}
				if !c.goes {
					w.WantState("Ready=False Reconciling=True Conflict")
				}
			}, example())
		})
	}
}

func TestADeletionBlockedByAForeignSubnet(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.drift(func(n *plan.ObservedNetwork) {
			n.Subnets = append(n.Subnets, plan.ObservedSubnet{
				ID: "foreign", Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/24")},
			})
		})
		w.Delete()
		w.SyncFails()
		w.WantState("Ready=False Stalled=True Blocked")
		if len(w.Neutron.Has()) != 1 || !w.Exists() {
			t.Error("somebody else's subnet was deleted with the network, or the object went without it")
		}
	}, example())
}

func TestWhatAnObjectLeftBehindIsPruned(t *testing.T) {
	for name, c := range map[string]struct {
		policy       cloudteamv1.DeletionPolicy
		refused      bool
		wantNetworks int
	}{
		"a finalizer that was forced off":              {"", false, 0},
		"a deletion that Neutron refuses once":         {"", true, 0},
		"a finalizer that was forced off under Retain": {cloudteamv1.DeletionPolicyRetain, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.DeletionPolicy = c.policy
			inWorld(t, func(t *testing.T, w *world) {
				w.MustSync()
				w.DeleteByForce()
				if c.refused {
					w.Neutron.Before = controllertest.Fails(plan.DeleteNetwork, 1, &client.Error{Kind: client.Transient, Status: 503})
					w.SyncFails()
				}
				w.MustSync()
				all := w.Neutron.Has()
				expect.Len(t, c.wantNetworks, all, "networks in Neutron")
				for _, n := range all {
					if _, _, marked := plan.ParseDescription(n.Description); marked {
						t.Errorf("a network that was retained is still marked: %s", n.Description)
					}
				}
				expect.Equal(t, 0, w.c.Memory(), "keys in memory of what is gone")
				w.Calls.Take()
				w.MustSync()
				w.Calls.Want(t)
			}, obj)
		})
	}
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
				w.MustSync()
				w.DeleteByForce()
				w.API.Create(t, again)
				w.Neutron.Before = before
				err := w.sync()
				expect.Equal(t, before != nil, err != nil, "whether the old network is tried again: error %v", err)
				w.WantState("Ready=True Available")
				w.MustSync()
				all := w.Neutron.Has()
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
		w.MustSync()
		w.MustSync()
		w.DeleteByForce()
		w.Neutron.Lead(t, elsewhere)
		w.Calls.Take()
		w.SyncFails()
		w.Calls.Want(t)
		expect.Equal(t, 1, w.c.Memory(), "keys in memory of a network that cannot be seen")
		w.Neutron.Lead(t, here)
		w.MustSync()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

func TestAGoneObjectsNetworkIsSoughtByItsIDWhereAListFallsShort(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.MustSync()
		id := w.status().NetworkID
		w.DeleteByForce()
		w.Neutron.Missed = map[string]bool{id: true}
		w.Neutron.Audit(t)
		w.Calls.Take()
		w.MustSync()
		w.Calls.Want(t, "reread network "+id, "apply delete network")
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

func TestTheMarkerSaysWhetherTheObjectIsRetained(t *testing.T) {
	description := func(w *world) string { return w.Neutron.Has()[0].Description }
	retained := ownerOfExample.Describe("[retain]")
	inWorld(t, func(t *testing.T, w *world) {
		w.c.DefaultTo(managed.Policies{Deletion: cloudteamv1.DeletionPolicyRetain, Drift: cloudteamv1.DriftPolicyReport})
		w.MustSync()
		expect.Equal(t, retained, description(w), "the description when created")
		w.Quiet()
		w.EditAndSync(func(obj *cloudteamv1.Network) {
			obj.Spec.DeletionPolicy, obj.Generation = cloudteamv1.DeletionPolicyDelete, 2
		})
		w.WantCalls("apply update network", "write status")
		expect.Equal(t, ownerOfExample.Marker(), description(w), "the description after the edit")
		w.MustSync()
		w.WantCalls()
	}, example())

	// The default of the flag changes, or the object was made by an earlier release: driftPolicy does not matter.
	obj := example()
	obj.Spec.DriftPolicy = cloudteamv1.DriftPolicyReport
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.drift(func(n *plan.ObservedNetwork) { n.Name = "renamed" })
		w.restart()
		w.c.DefaultTo(managed.Policies{Deletion: cloudteamv1.DeletionPolicyRetain, Drift: cloudteamv1.DriftPolicyCorrect})
		w.Quiet()
		w.MustSync()
		if n := w.Neutron.Has()[0]; n.Description != retained || n.Name != "renamed" {
			t.Errorf("the network is %q, %q", n.Name, n.Description)
		}
		w.WantState("Ready=True DriftDetected")
		w.WantEvents("Normal Updated", "Warning DriftDetected")
	}, obj)
}
