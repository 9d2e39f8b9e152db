package managed_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestRunKeepsWhatIsDeclaredWithoutACallTooMany(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Run(w.c.Run, 3)
		controllertest.Settle(time.Second)
		w.WantState("Ready=True Available")
		other := example()
		other.Namespace, other.UID = "other-team", "uid-2"
		w.API.Create(t, other)
		controllertest.Settle(time.Second)
		if all := w.Neutron.Has(); len(all) != 2 || all[0].Description == all[1].Description {
			t.Fatalf("two objects of one name have %+v, want two networks", all)
		}

		// Events of the controller's own writes bring keys back, and these find nothing to do.
		w.Calls.Take()
		controllertest.Settle(time.Minute)
		w.Calls.Want(t)

		w.drift(func(n *plan.ObservedNetwork) { n.Name = "renamed" })
		w.c.Moved("uid-1")
		controllertest.Settle(time.Second)
		w.Calls.Want(t, "apply update network")

		w.Delete()
		controllertest.Settle(time.Second)
		if all := w.Neutron.Has(); w.Exists() || len(all) != 1 {
			t.Errorf("object exists: %t; networks: %d, want false and the other's one", w.Exists(),
				len(all))
		}
	}, example())
}

func TestRunFollowsACloudThatComesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		// After a log-in that failed, the client waits before the next one, and so it would not come back at once.
		if _, err := w.Neutron.Identity(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Neutron.SetDown(&client.Error{Op: "list networks", Reason: "service unavailable", Status: 503})
		w.Run(w.c.Run, 1)
		controllertest.Settle(20 * time.Minute)
		w.WantState("Ready=False Reconciling=True CloudUnavailable")
		expect.Equal(t, 1, controllertest.Count(w.Calls.Take(), "write status"), "statuses written for one failure")
		w.Events.WantReasons(t, "Warning CloudUnavailable")
		w.Neutron.SetDown(nil)
		w.Neutron.Audit(t) // the process wakes the objects of a cloud when an audit succeeds again
		w.c.EnqueueIn(managed.CloudRef{})
		controllertest.Settle(time.Second)
		w.WantState("Ready=True Available")
	}, example())
}

func TestRunHonoursHowLongTheCloudAsksToWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.Before = controllertest.Fails(plan.CreateNetwork, 1, &client.Error{
			Kind: client.Throttled, Op: "create network", Reason: "slow down", Status: 429, Wait: 10 * time.Minute,
		})
		w.Run(w.c.Run, 1)
		controllertest.Settle(time.Second)
		w.WantState("Ready=False Reconciling=True RateLimited")
		w.Calls.Take()
		controllertest.Settle(9 * time.Minute)
		if lines := w.Calls.Take(); controllertest.Count(lines, "apply") != 0 {
			t.Errorf("asked again before its time: %q", lines)
		}
		controllertest.Settle(4 * time.Minute)
		w.WantState("Ready=True Available")
	}, example())
}

func TestFailuresThatTakeTurnsBackOffAllTheSame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		attempts := 0
		w.Neutron.Before = func(plan.Step) error {
			attempts++
			// Each makes another status, whose event must not count as a reason to try at once.
			return &client.Error{Op: "create network", Reason: "bad gateway", Status: 502 + attempts%2}
		}
		w.Run(w.c.Run, 1)
		controllertest.Settle(20 * time.Minute)
		// Doubled from a quarter of a second to a minute: 8 attempts in the first minute or so, then one a minute.
		if attempts < 15 || attempts > 30 {
			t.Errorf("%d attempts in twenty minutes, want about 27", attempts)
		}
	}, example())
}

func TestMovedOfAnUnknownObjectIsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		controllertest.Settle(time.Second)
		n := w.c.Len()
		w.c.Moved("")
		w.c.Moved("uid-of-nobody")
		expect.Equal(t, n, w.c.Len(), "keys wait")
		w.c.Moved("uid-1")
		w.c.EnqueueIn(managed.CloudRef{})
		expect.Equal(t, 1, w.c.Len(), "keys wait")
	}, example())
}

func TestWhatIsRememberedOfGoneObjects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		of := func(uid types.UID) *cloudteamv1.Network {
			obj := example()
			obj.UID = uid
			return obj
		}
		gone := func(existing types.UID) (uids []types.UID) {
			for _, obj := range w.c.Gone(exampleKey, existing) {
				uids = append(uids, obj.UID)
			}
			return uids
		}
		w.c.Remember(of("1"))
		w.c.Remember(of("2"))
		if got := gone("2"); !slices.Equal(got, []types.UID{"1"}) {
			t.Errorf("beside 2, %q are gone, want 1", got)
		}
		if got := gone(""); !slices.Equal(got, []types.UID{"1", "2"}) {
			t.Errorf("%q are gone, want both", got)
		}
		w.c.Forget(of("1"))
		w.c.Forget(of("1"))
		w.c.Forget(of("2"))
		expect.Empty(t, gone(""), "how many are gone")
		expect.Equal(t, 0, w.c.Memory(), "keys in memory")
	})
}

// hanging is a cloud that never answers.
type hanging struct{ managed.Inventory }

func (hanging) Identity(ctx context.Context) (client.Identity, error) {
	<-ctx.Done()
	return client.Identity{}, ctx.Err()
}

func TestACloudThatHangsDoesNotDelayAnother(t *testing.T) {
	stuck := exampleIn(mine)
	stuck.Name, stuck.UID = "stuck", "uid-stuck"
	inWorld(t, func(t *testing.T, w *world) {
		clouds, first, _ := w.withClouds()
		clouds.set(mine, hanging{first}, nil)
		w.Run(w.c.Run, 1)
		controllertest.Settle(time.Second)
		w.Create(example())
		controllertest.Settle(time.Second)
		w.WantState("Ready=True Available")
	}, stuck)
}
