package network

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// run runs the controller's workers; stop ends them and returns what Run returned.
func (w *world) run(workers int) (stop func() error) {
	ctx, cancel := context.WithCancel(logged(w.t))
	done := make(chan error, 1)
	go func() { done <- w.c.Run(ctx, workers) }()
	return func() error {
		cancel()
		return <-done
	}
}

// settle lets the given synthetic time go by, in which whatever is due happens.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRunKeepsWhatIsDeclaredWithoutACallTooMany(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.run(3)
		settle(time.Second)
		w.wantState("Ready=True Available")
		other := example()
		other.Namespace, other.UID = "other-team", "uid-2"
		w.api.create(t, other)
		settle(time.Second)
		if all := w.cloud.has(); len(all) != 2 || all[0].Description == all[1].Description {
			t.Fatalf("two objects of one name have %+v, want two networks", all)
		}

		// Events of the controller's own writes bring keys back, and these find nothing to do.
		w.diary.take()
		settle(time.Minute)
		wantDiary(t, w.diary.take())

		id := w.status().NetworkID
		w.cloud.edit(t, id, func(n *network.ObservedNetwork) { n.Name = "renamed" })
		w.cloud.audit(t)
		w.c.Moved("uid-1")
		settle(time.Second)
		wantDiary(t, w.diary.take(), "apply update network")

		w.api.remove(t, exampleKey)
		settle(time.Second)
		if all := w.cloud.has(); w.api.exists(exampleKey) || len(all) != 1 {
			t.Errorf("object exists: %t; networks: %d, want false and the other's one", w.api.exists(exampleKey),
				len(all))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}, example())
}

func TestRunFollowsACloudThatComesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.down = &neutron.Error{Op: "list networks", Reason: "service unavailable", Status: 503}
		stop := w.run(1)
		settle(20 * time.Minute)
		w.wantState("Ready=False Reconciling=True CloudUnavailable")
		if n := count(w.diary.take(), "write status"); n != 1 {
			t.Errorf("%d statuses were written for one failure, want 1", n)
		}
		wantEvents(t, w, "Warning CloudUnavailable")
		w.cloud.mu.Lock()
		w.cloud.down = nil
		w.cloud.mu.Unlock()
		w.c.EnqueueAll()
		settle(time.Second)
		w.wantState("Ready=True Available")
		if err := stop(); err != nil {
			t.Error(err)
		}
	}, example())
}

func TestRunHonoursHowLongTheCloudAsksToWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.before = fails(network.CreateNetwork, 1, &neutron.Error{
			Kind: neutron.Throttled, Op: "create network", Reason: "slow down", Status: 429, Wait: 10 * time.Minute,
		})
		stop := w.run(1)
		settle(time.Second)
		w.wantState("Ready=False Reconciling=True Throttled")
		w.diary.take()
		settle(9 * time.Minute)
		if lines := w.diary.take(); count(lines, "apply") != 0 {
			t.Errorf("asked again before its time: %q", lines)
		}
		settle(4 * time.Minute)
		w.wantState("Ready=True Available")
		if err := stop(); err != nil {
			t.Error(err)
		}
	}, example())
}

func TestFailuresThatTakeTurnsBackOffAllTheSame(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		attempts := 0
		w.cloud.before = func(network.Step) error {
			attempts++
			// Each makes another status, whose event must not count as a reason to try at once.
			return &neutron.Error{Op: "create network", Reason: "bad gateway", Status: 502 + attempts%2}
		}
		stop := w.run(1)
		settle(20 * time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		// Doubled from a quarter of a second to a minute: 8 attempts in the first minute or so, then one a minute.
		if attempts < 15 || attempts > 30 {
			t.Errorf("%d attempts in twenty minutes, want about 27", attempts)
		}
	}, example())
}

func TestAnEditIsTriedAtOnceThoughTheLastAttemptFailed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cloud.before = func(step network.Step) error {
			if step.SubnetName != "" && step.Subnet.CIDR.String() == "192.168.0.0/16" {
				return &neutron.Error{Kind: neutron.Capacity, Op: "create subnet", Reason: "full", Wait: time.Hour}
			}
			return nil
		}
		stop := w.run(1)
		settle(time.Minute)
		w.wantState("Ready=False Reconciling=True QuotaExceeded")
		w.api.edit(t, exampleKey, func(obj *cloudteamv1.Network) {
			obj.Spec.CIDR, obj.Spec.Gateway = "10.0.0.0/24", "10.0.0.1"
		})
		settle(time.Second)
		w.wantState("Ready=True Available")
		if err := stop(); err != nil {
			t.Error(err)
		}
	}, example())
}

func TestMovedOfAnUnknownObjectIsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		settle(time.Second)
		n := w.c.loop.Len()
		w.c.Moved("")
		w.c.Moved("uid-of-nobody")
		if got := w.c.loop.Len(); got != n {
			t.Errorf("%d keys wait, want %d", got, n)
		}
		w.c.Moved("uid-1")
		w.c.EnqueueAll()
		if got := w.c.loop.Len(); got != 1 {
			t.Errorf("%d keys wait, want the example's alone", got)
		}
	}, example())
}

func TestRunWaitsForTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		api := newAPIServer(d)
		api.create(t, example())
		played := &cloud{diary: d, identity: here, index: map[string]network.ObservedNetwork{}}
		factory := informers.NewSharedInformerFactory(api, 0)
		c, err := NewController(api, factory.Cloudteam().V1().Networks(), played, &events{}, clusterUID)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(logged(t))
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx, 1) }()
		settle(time.Minute)
		if c.HasSynced() {
			t.Error("HasSynced before the informer ran")
		}
		wantDiary(t, d.take())
		factory.StartWithContext(ctx)
		settle(time.Minute)
		if !c.HasSynced() {
			t.Error("not synced though the informer runs")
		}
		if n := count(d.take(), "apply create network"); n != 1 {
			t.Errorf("%d creations, want 1", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
}

func TestWhatIsRememberedOfGoneObjects(t *testing.T) {
	key := cache.NewObjectName("a", "b")
	c := &Controller{
		doubts: map[types.UID]time.Time{},
		owned:  map[cache.ObjectName]map[types.UID]cloudteamv1.DeletionPolicy{},
	}
	remember := func(uid types.UID) {
		obj := example()
		obj.UID = uid
		c.remember(key, obj)
	}
	gone := func(existing types.UID) []types.UID {
		var uids []types.UID
		for uid := range c.gone(key, existing) {
			uids = append(uids, uid)
		}
		slices.Sort(uids)
		return uids
	}
	remember("1")
	remember("2")
	if got := gone("2"); !slices.Equal(got, []types.UID{"1"}) {
		t.Errorf("beside 2, %q are gone, want 1", got)
	}
	if got := gone(""); !slices.Equal(got, []types.UID{"1", "2"}) {
		t.Errorf("%q are gone, want both", got)
	}
	c.doubt("1")
	c.forget(key, "1")
	c.forget(key, "1")
	c.forget(key, "2")
	if got := gone(""); len(got) != 0 {
		t.Errorf("%q are gone, want none", got)
	}
	if len(c.owned) != 0 || len(c.doubts) != 0 {
		t.Errorf("memory grows: owned %v, doubts %v", c.owned, c.doubts)
	}
}
