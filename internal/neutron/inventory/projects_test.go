package inventory

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// twoProjects is an Inventory whose cloud can be made to lead to another project, which has networks of its own.
func twoProjects(t *testing.T) (n *fakeNeutron, c *client.Cloud, i *Inventory, move func()) {
	n = newFakeNeutron()
	f, c := inBubble(t, n.ServeHTTP, client.Options{})
	i = New(c, cluster, Options{})
	return n, c, i, func() {
		other := endpoint{Interface: "public", Region: "two", RegionID: "two", URL: "http://other.invalid"}
		f.Set(func() { f.Endpoints = []endpoint{other} })
		expect.NoError(t, c.Replace(t.Context(), f.credentials()))
	}
}

func TestWhatWasPlannedForOneProjectIsNotDoneToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, i, move := twoProjects(t)
		was, err := c.Identity(t.Context())
		expect.NoError(t, err)
		ctx := client.Within(t.Context(), was)
		owner := plan.Owner{Cluster: cluster, Object: "o"}
		if _, err := i.Observed(ctx, owner, time.Time{}); err != nil {
			t.Fatal(err)
		}
		move()
		before := len(n.calls)
		_, err = i.Apply(ctx, plan.Change{{Action: plan.CreateNetwork}})
		if err == nil || client.MaybeDone(err) {
			t.Errorf("a create in another project: %v", err)
		}
		if _, err := i.Reread(ctx, plan.Resource{Kind: plan.KindNetwork, ID: "x"}); err == nil {
			t.Error("what is not in another project was taken for gone")
		}
		expect.Empty(t, n.calls[before:], "the other project was called")
	})
}

func TestWhatIsHeldOfOneProjectIsNotGivenForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, c, i, move := twoProjects(t)
		was, err := c.Identity(t.Context())
		expect.NoError(t, err)
		owner := plan.Owner{Cluster: cluster, Object: "o"}
		n.change(func() {
			n.networks["n1"] = &wireNetwork{wireBase: wireBase{ID: "n1", Description: owner.Marker(), Created: created("2026-01-01T00:00:00Z")}}
		})
		expect.NoError(t, i.Audit(t.Context()))
		move()
		n.change(func() { delete(n.networks, "n1") })
		is, err := c.Identity(t.Context())
		if err != nil || is == was {
			t.Fatalf("the credentials lead to %v, %v", is, err)
		}
		observed, err := i.Observed(client.Within(t.Context(), is), owner, time.Time{})
		expect.NoError(t, err)
		expect.Equal(t, plan.Observed{}, observed, "the former project shows through")
		// And the other way about: the new list says nothing of the former project.
		if _, err := i.Observed(client.Within(t.Context(), was), owner, time.Time{}); err == nil {
			t.Error("a list of another project was taken for one of the former")
		}
	})
}

func TestAnotherCloudIsNotLeftAloneBecauseTheFormerAskedForIt(t *testing.T) {
	f := newFakeCloud(t, newFakeNeutron().ServeHTTP)
	former := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		answer(w, http.StatusTooManyRequests, "{}")
	})
	c := former.cloud(client.Options{})
	i := New(c, cluster, Options{})
	create := func() error {
		step := plan.Step{Action: plan.CreateNetwork, Attributes: plan.Attributes{Name: "n"}}
		_, err := networkKind.create(t.Context(), i.access, step, nil)
		return err
	}
	for range 2 {
		if err := create(); client.KindOf(err) != client.Throttled {
			t.Fatalf("got %v", err)
		}
	}
	expect.NoError(t, c.Replace(t.Context(), f.credentials()))
	t.Cleanup(c.Close)
	if err := create(); err != nil {
		t.Errorf("got %v", err)
	}
}

// Fifty Secrets for one project are not fifty times the calls.
func TestSessionsOfOneNeutronShareItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		neutron := newFakeNeutron()
		var mu sync.Mutex
		underway, most := 0, 0
		neutron.setBefore(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			mu.Lock()
			underway++
			most = max(most, underway)
			mu.Unlock()
			elapse(time.Second)
			mu.Lock()
			underway--
			mu.Unlock()
			return false
		})
		pools := batch.NewPools(3)
		var wg sync.WaitGroup
		for n := range 10 {
			_, c := inBubble(t, neutron.ServeHTTP, client.Options{})
			i := New(c, cluster, Options{Pools: pools, Tenant: fmt.Sprint(n), MaxCalls: 3})
			if _, err := i.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			for at := range 5 {
				wg.Go(func() {
					step := plan.Step{Action: plan.CreateNetwork, Attributes: plan.Attributes{
						Name: fmt.Sprint(n, at), Description: ownerOf(fmt.Sprint(n, at)).Marker(),
					}}
					if _, err := i.Apply(t.Context(), plan.Change{step}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		if most > 3 {
			t.Errorf("%d writes at a time, want at most 3", most)
		}
	})
}
