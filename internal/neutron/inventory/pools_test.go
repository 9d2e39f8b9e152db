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
)

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
