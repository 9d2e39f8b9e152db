package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// counter is a cloud that works on so many calls at a time, first come, first served. A create takes its time whatever
// goes with it.
type counter struct {
	turns chan struct{}
	takes map[client.Collection]time.Duration

	mu    sync.Mutex
	calls int
}

func (c *counter) post(
	_ context.Context, _ string, of client.Collection, bodies []map[string]any,
) ([]json.RawMessage, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	c.turns <- struct{}{}
	elapsed(time.Duration(len(bodies)) * c.takes[of])
	<-c.turns
	return make([]json.RawMessage, len(bodies)), nil
}

// make has workers create networks, each with its subnet, with what else they do before and after.
func (c *counter) make(ctx context.Context, b *Queue, networks, workers int) (took time.Duration) {
	began := time.Now()
	keys := make(chan int)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for key := range keys {
				elapsed(20 * time.Millisecond)
				_, _ = b.Create(ctx, Item{Op: "create network", Collection: networkTests, Key: fmt.Sprint("network ", key), Flow: flowIn(ctx), Body: nil})
				_, _ = b.Create(ctx, Item{Op: "create subnet", Collection: subnetTests, Key: fmt.Sprint("subnet ", key), Flow: flowIn(ctx), Body: nil})
				elapsed(20 * time.Millisecond)
			}
		})
	}
	for key := range networks {
		keys <- key
	}
	close(keys)
	wg.Wait()
	return virtual.Since(began)
}

// A fleet is made nearly as fast as by who knows from the start how many calls the cloud serves.
func TestTheLimitGrowsFastAtFirst(t *testing.T) {
	for workers, most := range map[int]float64{1: 1.05, 2: 1.08, 8: 1.08, 16: 1.08} {
		t.Run(fmt.Sprint("by ", workers, " workers of its own"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &counter{turns: make(chan struct{}, workers), takes: map[client.Collection]time.Duration{
					networkTests: 38 * time.Millisecond, subnetTests: 71 * time.Millisecond,
				}}
				b := New(Options{MaxCalls: 0, Post: c.post})
				networks := 625 * workers
				took := c.make(t.Context(), b, networks, 500)
				bare := 625 * (38 + 71) * time.Millisecond
				if ratio := took.Seconds() / bare.Seconds(); ratio > most {
					t.Errorf("it took %s, %.3f times the %s that it takes at best; want at most %.3f", took, ratio, bare, most)
				}
				if c.calls > networks/10 {
					t.Errorf("%d calls for %d networks", c.calls, networks)
				}
				rested(t, b)
			})
		})
	}
}

// A Neutron that serves one call at a time gets few more than it serves, although the first ones of each kind wait for
// others: then nobody knows yet how long they take, nor whether they hang.
func TestASlowCloudIsNotGivenMoreCallsForThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Post: (&server{}).Post})
		turn := make(chan struct{}, 1)
		most := 0
		var all sync.WaitGroup
		write := func(n int, op string, takes time.Duration) {
			for range n {
				all.Go(func() {
					_ = b.Write(t.Context(), op, "", func() error {
						turn <- struct{}{}
						most = max(most, b.Load().Calls) // the turn guards it
						elapsed(takes)
						<-turn
						return nil
					})
				})
			}
			synctest.Wait()
		}
		write(3, "create ports", 10*time.Second)
		for _, op := range []string{"bind port", "delete port", "tag port"} {
			write(60, op, 1500*time.Millisecond)
			all.Wait()
			if most > 12 || b.limiter.limit() > 7 {
				t.Errorf("%s: up to %d calls were under way, and %d may be from now on", op, most, b.limiter.limit())
			}
		}
		rested(t, b)
	})
}

// sharing is a cloud whose workers share their time between all calls, as Neutron's green threads do.
type sharing struct {
	workers float64
	mu      sync.Mutex
	running float64
}

func (c *sharing) post(
	_ context.Context, _ string, of client.Collection, bodies []map[string]any,
) ([]json.RawMessage, error) {
	takes := map[client.Collection]time.Duration{networkTests: 60, subnetTests: 80, portTests: 140}[of] * time.Millisecond
	c.work(time.Duration(len(bodies)) * takes)
	return make([]json.RawMessage, len(bodies)), nil
}

// work takes so long on an idle worker.
func (c *sharing) work(takes time.Duration) {
	const slice = 10 * time.Millisecond
	change := func(by float64) (slowness float64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running += by
		return max(1, c.running/c.workers)
	}
	change(1)
	for ; takes > 0; takes -= slice {
		elapsed(time.Duration(float64(slice) * change(0)))
	}
	change(-1)
}

// The first calls of a kind may come while many run, and a kind may not be called for long.
func TestEachKindOfCallFindsTheSameLimit(t *testing.T) {
	for workers, wants := range map[float64]struct{ least, most int }{1: {2, 8}, 2: {2, 9}, 16: {9, 16}} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &sharing{workers: workers}
				b := New(Options{Post: c.post})
				create := func(collections ...client.Collection) {
					keys := make(chan int)
					var all sync.WaitGroup
					for range 500 {
						all.Go(func() {
							for key := range keys {
								for _, of := range collections {
									_, err := b.Create(t.Context(), Item{Op: "create " + of.One, Collection: of, Key: fmt.Sprint(of.One, key)})
									expect.NoError(t, err)
								}
							}
						})
					}
					for key := range 1000 {
						keys <- key
					}
					close(keys)
					all.Wait()
					if limit := b.Load().Limit; limit < wants.least || limit > wants.most {
						t.Errorf("creating %v: the limit is %d, want %+v", collections, limit, wants)
					}
				}
				bind := func(times, together int, every time.Duration) {
					for n := range times {
						var all sync.WaitGroup
						for range together {
							all.Go(func() {
								expect.NoError(t, b.Write(t.Context(), "bind port", "", func() error {
									// All but the first one are slow by themselves.
									c.work(time.Duration(200+60*min(n+together-1, n%4+1)) * time.Millisecond)
									return nil
								}))
							})
						}
						all.Wait()
						elapsed(every)
					}
				}
				create(networkTests, subnetTests)
				bind(1, 1, 0)
				bind(30, 4, time.Second)
				for range 6 {
					create(portTests)
				}
				for range 3 {
					bind(120, 1, 30*time.Second)
					create(networkTests, subnetTests)
					create(portTests)
				}
				rested(t, b)
			})
		})
	}
}

// hear has a limiter hear of calls of a class, as many as are under way at the limit, that were begun together and
// took so long.
func hear(l *limiter, of string, took time.Duration) {
	began := time.Now()
	elapsed(took)
	together := l.limit()
	for range together {
		l.succeeded(classOf(of, 25), 25, began, time.Now(), float64(together), true)
	}
}

func TestACloudThatBecomesSlowerForGoodIsUsedFullyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(16)
		for range 4 {
			hear(l, "create network", time.Second)
		}
		if l.limit() != 16 {
			t.Fatalf("the limit is %d after four rounds of calls that do not wait", l.limit())
		}
		for range 30 {
			hear(l, "create network", 4*time.Second)
		}
		if l.limit() > 3 {
			t.Errorf("the limit is %d after calls that took four times as long, want that of a busy cloud", l.limit())
		}
		for range 40 {
			elapsed(period)
			hear(l, "create network", 4*time.Second)
		}
		for range 30 {
			hear(l, "create network", 4*time.Second)
		}
		expect.Equal(t, 16, l.limit(), "the limit when calls have taken that long for 40 minutes")
	})
}

// A first call that is quicker than all others of its class must not have the limit fall to nothing.
func TestOneSlowCallAtMostHalvesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(16)
		for range 4 {
			hear(l, "create network", time.Second)
		}
		began := time.Now()
		elapsed(time.Minute / 2)
		l.succeeded(classOf("create network", 25), 25, began, time.Now(), float64(l.limit()), true)
		expect.Equal(t, 8, l.limit(), "the limit after one slow call")
		if l.starting {
			t.Error("it still leaps")
		}
	})
}

// A call that takes longer by itself says nothing of the others, whatever ran beside the quickest of its class.
func TestALongCallAmongManyCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(16)
		for range 4 {
			hear(l, "create network", time.Second)
		}
		hear(l, "bind port", time.Second)
		for range 20 {
			began := time.Now()
			elapsed(5 * time.Second / 2)
			l.succeeded(classOf("bind port", 25), 25, began, time.Now(), float64(l.limit()), true)
			hear(l, "bind port", time.Second)
		}
		if l.limit() < 14 {
			t.Errorf("the limit of a cloud that serves all at once fell to %d", l.limit())
		}
	})
}
