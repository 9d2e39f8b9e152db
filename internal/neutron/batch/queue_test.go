package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch/batchtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

var (
	elapsed      = virtual.Elapse
	networkTests = client.Collection{One: "network", Many: "networks", Bulk: true}
	subnetTests  = client.Collection{One: "subnet", Many: "subnets", Bulk: true}
	portTests    = client.Collection{One: "port", Many: "ports", Bulk: true}
)

type testFlow struct{}

// inFlow is a context whose calls are of a flow.
func inFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, testFlow{}, flow)
}

func flowIn(ctx context.Context) string {
	flow, _ := ctx.Value(testFlow{}).(string)
	return flow
}

// server is what a broker sends creates to.
type server = batchtest.Server

var numbered = batchtest.Numbered

// createNamed has a broker create something of a name, which it holds to be what came back.
func createNamed(ctx context.Context, b *Queue, name string) error {
	made, err := b.Create(ctx, Item{Op: "create network", Collection: networkTests, Key: name, Flow: flowIn(ctx), Body: map[string]any{"name": name}})
	if err == nil && string(made) != `"`+name+`"` {
		return fmt.Errorf("asked for %s, got %s", name, made)
	}
	return err
}

// createMany creates at once what is named, and returns the errors by name when all have ended.
func createMany(ctx context.Context, b *Queue, names ...string) map[string]error {
	return batchtest.AtOnce(names, func(name string) error { return createNamed(ctx, b, name) })
}

// rested holds that nothing is on its way or waits, a moment after the last caller has gone.
func rested(t *testing.T, b *Queue) {
	t.Helper()
	elapsed(batchWindow)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := 0
	for _, l := range b.lines {
		waiting += l.queue.Len()
	}
	if b.underway != 0 || b.overdue != 0 || waiting != 0 {
		t.Errorf("%d under way, %d overdue, %d waiting when all have ended", b.underway, b.overdue, waiting)
	}
}

// inQueue runs a test in virtual time with a queue to a server. In the end it has rested.
func inQueue(t *testing.T, most int, test func(t *testing.T, s *server, b *Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		b := New(Options{MaxCalls: most, Post: s.Post})
		test(t, s, b)
		rested(t, b)
	})
}

// busy has a first call be under way.
func busy(t *testing.T, b *Queue) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() { createMany(t.Context(), b, "first") })
	elapsed(batchWindow)
	synctest.Wait()
	return &wg
}

func TestALoneCreateWaitsForTheWindowOnly(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, _ *server, b *Queue) {
		began := time.Now()
		for i := range 3 { // as a network, and then its subnets
			expect.NoError(t, createNamed(t.Context(), b, fmt.Sprint(i)))
		}
		expect.Equal(t, 3*(time.Second+batchWindow), virtual.Since(began), "three calls of a second took")
	})
}

func TestConcurrentCreatesShareACall(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		if failed := createMany(t.Context(), b, numbered("n", 101)...); len(failed) > 0 {
			t.Fatal(failed)
		}
		sizes := s.Sizes()
		slices.Sort(sizes) // the first two are under way at the same time
		expect.Equal(t, []int{1, 25, 25, 25, 25}, sizes, "sizes of calls")
	})
}

// Creates come one after another, and each call of few costs the cloud nearly as much as one of many. While one is under
// way, the next ones gather.
func TestCreatesThatComeWhileACallIsUnderWayShareTheNext(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		s.Takes = func(creates, _ int) time.Duration { return time.Duration(40+10*creates) * time.Millisecond }
		var wg sync.WaitGroup
		for _, name := range numbered("n", 31) {
			wg.Go(func() { expect.NoError(t, createNamed(t.Context(), b, name)) })
			elapsed(3 * time.Millisecond)
		}
		wg.Wait()
		expect.Equal(t, 3, len(s.Sizes()), "calls, of %v creates", s.Sizes())
	})
}

// A lone create is not behind others' bulk for longer than a call of its own would take.
func TestALoneCreateWaitsNoWholeBulk(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		s.Takes = func(creates, _ int) time.Duration { return time.Duration(30*creates) * time.Millisecond }
		late := func(wait time.Duration) {
			t.Helper()
			done := make(chan map[string]error)
			go func() { done <- createMany(t.Context(), b, numbered("bulk", 25)...) }()
			elapsed(batchWindow)
			began := time.Now()
			expect.NoError(t, createNamed(t.Context(), b, "lone"))
			expect.Equal(t, wait+30*time.Millisecond, virtual.Since(began), "a lone create beside a bulk took")
			expect.Equal(t, 0, len(<-done), "creates of the bulk that failed")
		}
		late(crowdedWindow) // nothing is known of a call of one
		late(30 * time.Millisecond)
	})
}

// Those who come back with more when their call has ended are waited for, although none is there yet.
func TestCreatesThatFollowABulkShareACall(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		var wg sync.WaitGroup
		for _, name := range numbered("n", 26) {
			wg.Go(func() {
				err := createNamed(t.Context(), b, name)
				elapsed(time.Duration(len(name)) * time.Millisecond)
				if err = errors.Join(err, createNamed(t.Context(), b, name+"'s")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		sizes := s.Sizes()
		slices.Sort(sizes) // the first one's second may come before or after the others'
		expect.Equal(t, []int{1, 1, 25, 25}, sizes, "sizes of calls")
	})
}

func TestFlowsTakeTurns(t *testing.T) {
	inQueue(t, 2, func(t *testing.T, _ *server, b *Queue) {
		var wg sync.WaitGroup
		crowd := inFlow(t.Context(), "crowd")
		wg.Go(func() { createMany(crowd, b, numbered("crowd", 500)...) })
		synctest.Wait()
		began := time.Now()
		expect.NoError(t, createNamed(inFlow(t.Context(), "lone"), b, "lone"))
		if took := virtual.Since(began); took > 2*time.Second {
			t.Errorf("the create of one flow waited %s for those of another, in which each call takes a second", took)
		}
		began = time.Now()
		expect.NoError(t, b.Write(inFlow(t.Context(), "lone"), "delete network", flowIn(inFlow(t.Context(), "lone")), func() error { return nil }))
		if took := virtual.Since(began); took > time.Second {
			t.Errorf("a deletion waited %s for creates, of which each call takes a second", took)
		}
		wg.Wait()
	})
}

func TestWhatBeginsDoesNotWaitForWhatEnds(t *testing.T) {
	inQueue(t, 2, func(t *testing.T, _ *server, b *Queue) {
		var all sync.WaitGroup
		var ended atomic.Int32
		for range 100 {
			all.Go(func() {
				_ = b.Delete(t.Context(), "delete port", "shop", func() error {
					elapsed(time.Second)
					ended.Add(1)
					return nil
				})
			})
		}
		synctest.Wait()
		expect.NoError(t, createNamed(inFlow(t.Context(), "shop"), b, "port"))
		expect.NoError(t, b.Write(t.Context(), "bind port", "shop", func() error { return nil }))
		if n := ended.Load(); n > 6 {
			t.Errorf("a create and an update waited for %d deletions, two at a time, of their own namespace", n)
		}
		all.Wait()
	})
}

// refusal is what Neutron says of a create that is bad.
func refusal(kind client.Kind) *client.Error {
	return &client.Error{Kind: kind, Op: "create network", Reason: "broken by a test", Status: http.StatusBadRequest}
}

// ifAny gives an error for calls in which there is one whose name begins with the prefix.
func ifAny(prefix string, err *client.Error) func([]string) *client.Error {
	return func(names []string) *client.Error {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			return err
		}
		return nil
	}
}

func TestARefusedBulkIsHalvedUntilOnlyBadItemsFail(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		s.Fails = ifAny("bad", refusal(client.Invalid))
		names := slices.Concat([]string{"first"}, numbered("good", 10), []string{"bad"}, numbered("fine", 13))
		failed := createMany(t.Context(), b, names...)
		if len(failed) != 1 || client.KindOf(failed["bad"]) != client.Invalid {
			t.Errorf("failed: %v", failed)
		}
		want := map[string]int{}
		for _, name := range names {
			if name != "bad" {
				want[name] = 1
			}
		}
		expect.Equal(t, want, s.Made, "made")
		calls := len(s.Calls)
		createMany(t.Context(), b, slices.Concat([]string{"lead"}, numbered("more", 10), []string{"bad"})...)
		for _, call := range s.Calls[calls:] {
			if len(call) > 1 && slices.Contains(call, "bad") {
				t.Errorf("it went in company again: %v", call)
			}
		}
	})
}

func TestQuotaAndRateLimitEndTheBatch(t *testing.T) {
	for kind, calls := range map[client.Kind]int{client.Capacity: 1 + 5, client.Throttled: 1 + 1} {
		refused := refusal(kind)
		refused.Type = "OverQuota"
		inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
			s.Fails = func([]string) *client.Error { return refused }
			failed := createMany(t.Context(), b, numbered("n", 26)...)
			if len(failed) != 26 || len(s.Calls) != calls {
				t.Errorf("%s: %d failed in %d calls, want 26 in %d", kind, len(failed), len(s.Calls), calls)
			}
		})
	}
}

// TestWhatIsUsedUpForOneIsNotForOthers has one of a batch ask for a pool that is full.
func TestWhatIsUsedUpForOneIsNotForOthers(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		full := refusal(client.Capacity)
		full.Type = "SubnetPoolQuotaExceeded"
		s.Fails = ifAny("full", full)
		failed := createMany(t.Context(), b, append([]string{"lead", "full"}, numbered("n", 10)...)...)
		if len(failed) != 1 || failed["full"] == nil {
			t.Errorf("%d creates failed, want that of the full pool: %v", len(failed), failed)
		}
	})
}

func TestALostAnswerIsNotRetriedByTheQueue(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		s.Fails = ifAny("n", &client.Error{Kind: client.Transient, Status: http.StatusBadGateway, MaybeDone: true})
		names := numbered("n", 25)
		_ = createMany(t.Context(), b, "opens")
		failed := createMany(t.Context(), b, append([]string{"x"}, names...)...)
		for _, name := range names {
			if !client.MaybeDone(failed[name]) || s.Made[name] != 1 {
				t.Errorf("%s: %v, made %d times", name, failed[name], s.Made[name])
			}
		}
		// One of them may provoke the failure: each attempt is in half the company.
		var largest []int
		for range 6 {
			calls := len(s.Calls)
			createMany(t.Context(), b, names...)
			largest = append(largest, slices.Max(s.Sizes()[calls:]))
		}
		expect.Equal(t, []int{12, 6, 3, 1, 1, 1}, largest, "largest companies")
		s.Fails = nil
		createMany(t.Context(), b, names...)
		calls := len(s.Calls)
		createMany(t.Context(), b, names...)
		if largest := slices.Max(s.Sizes()[calls:]); largest < 24 {
			t.Errorf("after it went well they go in calls of at most %d", largest)
		}
	})
}

func TestAHangingCallBlocksNoOther(t *testing.T) {
	for _, most := range []int{1, 2, 16} {
		inQueue(t, most, func(t *testing.T, s *server, b *Queue) {
			s.Takes = func(int, int) time.Duration { return time.Hour }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() { createMany(ctx, b, numbered("black hole", 3)...) })
			synctest.Wait()
			s.Set(func() { s.Takes = nil })
			began := time.Now()
			expect.NoError(t, createNamed(t.Context(), b, "n"))
			want := patience + 2*time.Second
			if most == 1 {
				want = time.Minute + 2*time.Second // there is no more than one by order
			}
			if took := virtual.Since(began); took > want {
				t.Errorf("at most %d: it waited %s, longer than %s", most, took, want)
			}
			wg.Wait()
		})
	}
}

// If what came in the place of a call that hangs hangs, too, nothing is answered, and another one comes.
func TestCallsThatHangInARowBlockNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{Post: (&server{}).Post})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _ = b.Write(ctx, "bind port", "", func() error { <-ctx.Done(); return ctx.Err() }) })
		}
		synctest.Wait()
		began := time.Now()
		expect.NoError(t, b.Write(t.Context(), "bind port", "", func() error { return nil }))
		if took := virtual.Since(began); took > patience+2*silence {
			t.Errorf("it waited %s", took)
		}
		cancel()
		wg.Wait()
		rested(t, b)
	})
}

func TestACanceledWriteIsNotSent(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		wg := busy(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := createNamed(ctx, b, "impatient")
		writeErr := b.Write(ctx, "delete network", flowIn(ctx), func() error { t.Error("it was sent"); return nil })
		wg.Wait()
		createMany(t.Context(), b, "last")
		if err == nil || client.MaybeDone(err) || writeErr == nil || client.MaybeDone(writeErr) || s.Made["impatient"] > 0 {
			t.Errorf("got %v and %v, made %v", err, writeErr, s.Made)
		}
	})
}

func TestABatchContinuesUntilAllCallersLeft(t *testing.T) {
	for name, test := range map[string]struct {
		stays bool
		made  int
	}{
		"one stays, and gets its answer":       {true, 1},
		"none stays, and the call is given up": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
				wg := busy(t, b)
				leaving, leave := context.WithCancelCause(t.Context())
				errs := map[string]error{}
				var mu sync.Mutex
				for _, name := range []string{"a", "b"} {
					ctx := leaving
					if name == "b" && test.stays {
						ctx = t.Context()
					}
					wg.Go(func() {
						err := createNamed(ctx, b, name)
						mu.Lock()
						defer mu.Unlock()
						errs[name] = err
					})
				}
				elapsed(1500 * time.Millisecond)
				leave(nil)
				wg.Wait()
				if !client.MaybeDone(errs["a"]) || !errors.Is(errs["a"], context.Canceled) || s.Made["b"] != test.made ||
					(errs["b"] == nil) != test.stays {
					t.Errorf("errors %v, made %v", errs, s.Made)
				}
			})
		})
	}
}

func TestRetryAfterIsRespected(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		throttled := refusal(client.Throttled)
		throttled.Wait = time.Minute
		s.Fails = func([]string) *client.Error { s.Fails = nil; return throttled }
		failed := createMany(t.Context(), b, numbered("n", 30)...)
		if len(failed) != 30 || len(s.Calls) != 1 {
			t.Errorf("%d of 30 failed in %d calls, want 1", len(failed), len(s.Calls))
		}
		for name, err := range failed {
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Kind != client.Throttled || e.Wait < 59*time.Second || e.MaybeDone {
				t.Errorf("%s: %v", name, err)
			}
		}
		elapsed(time.Minute)
		expect.Empty(t, createMany(t.Context(), b, numbered("n", 30)...), "failures after the pause")
	})
}

// serving is how long calls take on a server that works on so many creates at a time, a tenth of a second each.
func serving(workers int) func(creates, underway int) time.Duration {
	return func(creates, underway int) time.Duration {
		queue := (underway + workers - 1) / workers
		return time.Duration(creates*queue) * 100 * time.Millisecond
	}
}

func TestTheLimitAdaptsToTheCloudsConcurrency(t *testing.T) {
	for name, test := range map[string]struct {
		workers        int
		atLeast, below int
	}{
		"a server of one worker":       {1, 2, 7},
		"a server of ten workers":      {10, 10, 17},
		"a server of workers for each": {1000, 16, 17},
	} {
		t.Run(name, func(t *testing.T) {
			inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
				s.Takes = serving(test.workers)
				createMany(t.Context(), b, numbered("n", 10000)...)
				if s.Most < test.atLeast || s.Most >= test.below {
					t.Errorf("at most %d calls were under way, want from %d to %d", s.Most, test.atLeast, test.below-1)
				}
			})
		})
	}
}

func TestTheLimitFallsWhenCallsFail(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, s *server, b *Queue) {
		createMany(t.Context(), b, numbered("n", 5000)...)
		before := b.limiter.limit()
		s.Fails = ifAny("", &client.Error{Kind: client.Transient, Status: http.StatusServiceUnavailable, MaybeDone: true})
		createMany(t.Context(), b, numbered("m", 500)...)
		if now := b.limiter.limit(); now > before/2 || now < 1 {
			t.Errorf("the limit went from %d to %d", before, now)
		}
		s.Fails = nil
		createMany(t.Context(), b, numbered("n", 5000)...)
		if now := b.limiter.limit(); now < before/2 {
			t.Errorf("the limit is %d long after, was %d", now, before)
		}
	})
}

// Whatever fails, each create ends once, and what its caller is told is true.
func TestEachCreateGetsItsOwnResultOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 120).Draw(rt, "creates")
		most := rapid.IntRange(1, 6).Draw(rt, "most")
		faults := rapid.SliceOfN(rapid.SampledFrom([]*client.Error{
			nil, nil, nil, refusal(client.Invalid), refusal(client.Capacity), refusal(client.Taken), refusal(client.Throttled),
			{Kind: client.Transient, Status: http.StatusBadGateway, MaybeDone: true},
			{Kind: client.Transient, Reason: "connecting"},
			{Kind: client.Transient, Op: client.OpLogin, Status: http.StatusServiceUnavailable, Wait: time.Second},
			{Kind: client.Transient, Status: http.StatusServiceUnavailable, Wait: time.Second, MaybeDone: true},
		}), 1, 30).Draw(rt, "faults")
		patience := rapid.SliceOfN(rapid.IntRange(1, 20000), count, count).Draw(rt, "patience in ms")
		rounds := rapid.IntRange(1, 3).Draw(rt, "rounds")
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			s := &server{}
			s.Fails = func([]string) *client.Error {
				calls++
				return faults[calls%len(faults)]
			}
			b := New(Options{MaxCalls: most, Post: s.Post})
			for range rounds {
				before := maps.Clone(s.Made)
				var wg sync.WaitGroup
				var mu sync.Mutex
				for i := range count {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(patience[i])*time.Millisecond)
						defer cancel()
						name := fmt.Sprint("n", i)
						err := createNamed(inFlow(ctx, fmt.Sprint(i%3)), b, name)
						mu.Lock()
						defer mu.Unlock()
						var times int
						s.Set(func() { times = s.Made[name] - before[name] })
						if times > 1 || err == nil && times != 1 || err != nil && !client.MaybeDone(err) && times != 0 {
							t.Errorf("%s: made %d times in a round, told %v", name, times, err)
						}
					})
				}
				wg.Wait()
				rested(t, b)
			}
		})
	})
}

// Should the credentials come to lead elsewhere, what was planned for one project is not done in another.
func TestCreatesOfTwoProjectsShareNoCall(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		var wg sync.WaitGroup
		wg.Go(func() { _ = createNamed(t.Context(), b, "first") })
		synctest.Wait()
		for i := range 20 {
			project := fmt.Sprint("project-", i%2)
			ctx := client.Within(inFlow(t.Context(), project), client.Identity{ProjectID: project})
			wg.Go(func() {
				if err := createNamed(ctx, b, fmt.Sprint(project, "/", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, call := range s.Calls {
			for _, name := range call {
				if first, _, _ := strings.Cut(call[0], "/"); !strings.HasPrefix(name, first) {
					t.Errorf("one call for two projects: %v", call)
				}
			}
		}
	})
}

// A call that the breaker kept back says nothing of how many the cloud can serve, and nothing has to wait for its pause.
func TestUnsentCallsDoNotChangeTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{MaxCalls: 0, Post: (&server{}).Post})
		before := b.limiter.limit()
		for range 10 {
			err := b.Write(t.Context(), "delete network", flowIn(t.Context()), func() error {
				return &client.Error{Kind: client.Transient, Wait: 5 * time.Minute, Gate: client.GateOutage}
			})
			if e, ok := errors.AsType[*client.Error](err); !ok || !e.Unsent() {
				t.Fatalf("got %v", err)
			}
		}
		expect.Equal(t, before, b.limiter.limit(), "the limit")
	})
}

// Whose create waits in a half that is yet to be sent when its caller leaves looks for it and, finding nothing, has it
// created again: the first one must not come after that.
func TestACallerThatLeftIsNotInTheHalvesOfABulk(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		s.Fails = ifAny("bad", refusal(client.Invalid))
		wg := busy(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		for _, name := range []string{"bad", "b", "c"} {
			wg.Go(func() { _ = createNamed(t.Context(), b, name) })
			synctest.Wait()
		}
		var err error
		wg.Go(func() { err = createNamed(ctx, b, "impatient") })
		wg.Wait()
		if !client.MaybeDone(err) || s.Made["impatient"] > 0 || s.Made["c"] != 1 {
			t.Errorf("told %v, made %v in calls %v", err, s.Made, s.Calls)
		}
	})
}

// A log-in that fails says nothing of what was to be created.
func TestAFailedLogInSplitsNoBulk(t *testing.T) {
	for what, err := range map[string]*client.Error{
		"Keystone is overloaded":              {Kind: client.Transient, Status: http.StatusServiceUnavailable},
		"the catalog has no network service":  {Kind: client.Invalid},
		"a proxy has lost Keystone":           {Kind: client.Transient, Status: http.StatusNotFound},
		"Keystone does not take what is sent": {Kind: client.Invalid, Status: http.StatusBadRequest},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err.Op = client.OpLogin + " to a cloud"
				s := &server{Fails: ifAny("", err)}
				b := New(Options{MaxCalls: 0, Post: s.Post})
				names := numbered("n", 26)
				expect.Len(t, len(names), createMany(t.Context(), b, names...), "failures")
				expect.Equal(t, []int{1, 25}, slices.Sorted(slices.Values(s.Sizes())), "creates by call")
				s.Fails = nil
				createMany(t.Context(), b, names...)
				if largest := slices.Max(s.Sizes()[2:]); largest < 24 {
					t.Errorf("when it succeeds again they go in calls of at most %d", largest)
				}
				rested(t, b)
			})
		})
	}
}

func TestErrorsOfHalvesAdaptTheLimit(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		s.Fails = func(names []string) *client.Error {
			switch {
			case len(names) == 4:
				return refusal(client.Invalid)
			case slices.Contains(names, "n0"):
				return &client.Error{Kind: client.Transient, Status: http.StatusServiceUnavailable, Wait: time.Minute, MaybeDone: true}
			}
			return nil
		}
		wg := busy(t, b)
		for _, name := range numbered("n", 4) {
			wg.Go(func() { _ = createNamed(t.Context(), b, name) })
			synctest.Wait()
		}
		wg.Wait()
		synctest.Wait()
		if err := createNamed(t.Context(), b, "next"); client.KindOf(err) != client.Throttled {
			t.Errorf("the cloud has asked to wait for a minute, and got a call at once: %v", err)
		}
	})
}

// The time of a bulk that had to be halved is that of several calls, and of no use to compare others with.
func TestAHalvedBulkCountsAsNoSlowCall(t *testing.T) {
	inQueue(t, 1, func(t *testing.T, s *server, b *Queue) {
		s.Fails = ifAny("bad", refusal(client.Invalid))
		wg := busy(t, b)
		wg.Go(func() { createMany(t.Context(), b, "bad", "n1", "n2", "n3") })
		wg.Wait()
		if usual := b.limiter.quickest[classOf("create network", 4)].took; usual != 0 {
			t.Errorf("a call of four takes %s", usual)
		}
	})
}

func TestAPanickingWriteReleasesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{MaxCalls: 1, Post: (&server{}).Post})
		func() {
			defer func() { _ = recover() }()
			_ = b.Write(t.Context(), "delete network", flowIn(t.Context()), func() error { panic("broken by a test") })
		}()
		rested(t, b)
	})
}

func TestResetIgnoresCallsUnderWay(t *testing.T) {
	inQueue(t, 0, func(t *testing.T, _ *server, b *Queue) {
		throttled := refusal(client.Throttled)
		throttled.Wait = time.Hour
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = b.Write(t.Context(), "delete network", flowIn(t.Context()), func() error { <-time.After(time.Second); return throttled })
		})
		synctest.Wait()
		b.Reset()
		wg.Wait()
		expect.NoError(t, createNamed(t.Context(), b, "n"))
	})
}

// TestLoadSaysWhatRunsAndWaits sends more creates than may run, and asks what the Queue does meanwhile.
func TestLoadSaysWhatRunsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		waits := map[time.Duration]int{}
		q := New(Options{MaxCalls: 1, Post: s.Post, Waited: func(op string, wait time.Duration) {
			expect.Equal(t, "create network", op, "the operation that waits")
			waits[wait]++
		}})
		for n := range 2 * maxBatch {
			go func() {
				name := fmt.Sprint(n)
				_, err := q.Create(t.Context(), Item{
					Op: "create network", Collection: networkTests, Key: name, Body: map[string]any{"name": name},
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if got, want := q.Load(), (Load{Limit: 1, Calls: 1, Waiting: maxBatch}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		<-time.After(time.Minute)
		if got, want := q.Load(), (Load{Limit: 1}); got != want {
			t.Errorf("at rest: %+v, want %+v", got, want)
		}
		// The second half waited for the end of the first call.
		if waits[0] != maxBatch || waits[time.Second] != maxBatch {
			t.Errorf("waits: %v", waits)
		}
	})
}
