package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// alone is a collection whose creates go one by one.
var alone = client.Collection{One: "router", Many: "routers"}

// joined makes Queues that share a Neutron, one for each tenant.
func joined(most int, s *server, tenants ...string) []*Queue {
	pools := NewPools(most)
	var queues []*Queue
	for _, tenant := range tenants {
		b := New(Options{MaxCalls: most, Post: s.Post})
		b.limiter.size = float64(most) // as after some time
		b.Join(pools, "neutron", tenant)
		queues = append(queues, b)
	}
	return queues
}

func createAlone(ctx context.Context, b *Queue, name string) error {
	_, err := b.Create(ctx, Item{Op: "create router", Collection: alone, Key: name, Body: map[string]any{"name": name}})
	return err
}

func TestQueuesToOneNeutronShareItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var wg sync.WaitGroup
		for n, b := range joined(4, s, "a", "b", "c", "d", "e") {
			for i := range 20 {
				wg.Go(func() {
					if err := createAlone(t.Context(), b, fmt.Sprint(n, "-", i)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		began := time.Now()
		wg.Wait()
		if s.Most != 4 || len(s.Calls) != 100 || virtual.Since(began) > 26*time.Second {
			t.Errorf("%d calls at a time, %d in %s", s.Most, len(s.Calls), virtual.Since(began))
		}
	})
}

func TestTenantsTakeTurnsHoweverManyQueuesTheyHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		tenants := append(slices.Repeat([]string{"many"}, 50), "one")
		queues := joined(2, s, tenants...)
		var wg sync.WaitGroup
		for n, b := range queues[:50] {
			for i := range 10 {
				wg.Go(func() { _ = createAlone(t.Context(), b, fmt.Sprint(n, "-", i)) })
			}
		}
		elapsed(10 * time.Second)
		began := time.Now()
		for i := range 5 {
			expect.NoError(t, createAlone(t.Context(), queues[50], fmt.Sprint("one-", i)))
			if took := virtual.Since(began); took > 2*time.Second+10*time.Millisecond {
				t.Errorf("one create waited %s", took)
			}
			began = time.Now()
		}
		wg.Wait()
	})
}

// Calls of one tenant that hang, as its log-ins may, stop nobody else for long.
func TestCallsThatHangLeaveTheirPlacesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{}
		queues := joined(2, s, "hangs", "good")
		queues[0].options.Post = func(
			ctx context.Context, op string, _ client.Collection, _ []map[string]any,
		) ([]json.RawMessage, error) {
			<-ctx.Done()
			return nil, client.Interrupted(op, ctx.Err())
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { _ = createAlone(ctx, queues[0], fmt.Sprint(i)) })
		}
		synctest.Wait()
		began := time.Now()
		if err := createAlone(t.Context(), queues[1], "good"); err != nil || virtual.Since(began) > patience+2*time.Second {
			t.Errorf("after %s: %v", virtual.Since(began), err)
		}
		began = time.Now()
		if err := createAlone(t.Context(), queues[1], "again"); err != nil || virtual.Since(began) > 2*time.Second {
			t.Errorf("once more after %s: %v", virtual.Since(began), err)
		}
		cancel()
		wg.Wait()
	})
}

// As many of one tenant's calls hang as all Queues may have.
func TestCallsThatHangLeaveAllTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{}
		queues := joined(16, s, "hangs", "good")
		queues[0].limiter.size = 16 // as after many quick calls
		var hung, good sync.WaitGroup
		for range 20 {
			hung.Go(func() {
				_ = queues[0].Write(ctx, "bind port", "", func() error { <-ctx.Done(); return ctx.Err() })
			})
		}
		synctest.Wait()
		began := time.Now()
		for i := range 10 {
			good.Go(func() {
				if err := createAlone(t.Context(), queues[1], fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		good.Wait()
		// Ten calls of a second each, two at a time.
		if took := virtual.Since(began); took > patience+7*time.Second {
			t.Errorf("the other tenant's calls took %s", took)
		}
		cancel()
		hung.Wait()
	})
}

func TestBadCredentialsOfOneTenantLowerNobodysLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		queues := joined(4, s, "bad", "good")
		refusals := []*client.Error{
			{Kind: client.Unauthenticated, Op: "create router", Status: http.StatusUnauthorized},
			{Kind: client.Throttled, Op: "create router", Status: http.StatusTooManyRequests, Wait: time.Hour},
			{Kind: client.Transient, Op: client.OpLogin, Status: http.StatusServiceUnavailable},
		}
		n := 0
		queues[0].options.Post = func(
			context.Context, string, client.Collection, []map[string]any,
		) ([]json.RawMessage, error) {
			n++
			return nil, refusals[n%len(refusals)]
		}
		for i := range 30 {
			_ = createAlone(t.Context(), queues[0], fmt.Sprint(i))
		}
		var wg sync.WaitGroup
		began := time.Now()
		for i := range 40 {
			wg.Go(func() { _ = createAlone(t.Context(), queues[1], fmt.Sprint(i)) })
		}
		wg.Wait()
		if took := virtual.Since(began); took > 11*time.Second {
			t.Errorf("40 creates, four at a time, took %s", took)
		}
	})
}

func TestAPlaceThatIsOfNoUseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		queues := joined(1, s, "holds", "leaves", "waits")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = createAlone(t.Context(), queues[0], "holds") })
		synctest.Wait()
		wg.Go(func() { _ = createAlone(ctx, queues[1], "leaves") })
		synctest.Wait()
		wg.Go(func() { _ = createAlone(t.Context(), queues[2], "waits") })
		synctest.Wait()
		cancel()
		wg.Wait()
		synctest.Wait()
		expect.Len(t, 2, s.Calls, "calls")
		if p := queues[0].seat.pool; p.used != 0 || p.waiting.Len() != 0 {
			t.Errorf("%d places are taken, %d wait", p.used, p.waiting.Len())
		}
	})
}

func TestOnlyNeutronsInUseHaveAPool(t *testing.T) {
	pools := NewPools(1)
	b := New(Options{})
	for i := range 1000 {
		b.Join(pools, fmt.Sprint("neutron-", i), "t")
		if i%100 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	b.Join(pools, "last", "t")
	pools.mu.Lock()
	defer pools.mu.Unlock()
	if len(pools.pools) > 200 {
		t.Errorf("%d pools are kept", len(pools.pools))
	}
}
