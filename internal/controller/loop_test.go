package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/metric/metrictest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

var (
	keyA = cache.NewObjectName("team", "a")
	keyB = cache.NewObjectName("team", "b")
)

// bench is a loop whose syncs are noted and do what the test says.
type bench struct {
	t    *testing.T
	loop *Loop

	mu    sync.Mutex
	syncs map[cache.ObjectName][]time.Time
	// does is what a sync does; nil for nothing.
	does func(ctx context.Context, key cache.ObjectName) (Result, error)
}

// onBench runs a test in a bubble of synthetic time.
func onBench(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, syncs: map[cache.ObjectName][]time.Time{}}
		b.loop = NewLoop("test", func(ctx context.Context, key cache.ObjectName) (Result, error) {
			b.mu.Lock()
			b.syncs[key] = append(b.syncs[key], time.Now())
			does := b.does
			b.mu.Unlock()
			if does == nil {
				return Result{}, nil
			}
			return does(ctx, key)
		})
		t.Cleanup(b.loop.queue.ShutDown)
		test(t, b)
	})
}

// run starts the workers; stop ends them, waits until Run has returned, and may be called twice.
func (b *bench) run(workers int) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(
		klog.NewContext(b.t.Context(), ktesting.NewLogger(b.t, ktesting.NewConfig())))
	done := make(chan error, 1)
	go func() { done <- b.loop.Run(ctx, workers) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// at gives the times of a key's syncs.
func (b *bench) at(key cache.ObjectName) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.syncs[key])
}

func (b *bench) wantSyncs(key cache.ObjectName, want int) {
	b.t.Helper()
	synctest.Wait()
	expect.Len(b.t, want, b.at(key), "how often %s was synced", key)
}

// pass lets synthetic time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// object is an object as the API server hands it out.
func object(name, resourceVersion string, generation int64) *cloudteamv1.Network {
	return &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: "uid", ResourceVersion: resourceVersion, Generation: generation,
	}}
}

// TestHandlerPutsKeysOnTheQueue has events of the synced kind, and of another one whose label names the key that it
// affects.
func TestHandlerPutsKeysOnTheQueue(t *testing.T) {
	keyC := cache.NewObjectName("team", "c")
	affecting := func(name, version string) *cloudteamv1.Network {
		obj := object("other", version, 1)
		obj.Labels = map[string]string{"for": name}
		return obj
	}
	keysOf := func(obj metav1.Object) []cache.ObjectName {
		name, ok := obj.GetLabels()["for"]
		if !ok {
			return nil
		}
		return []cache.ObjectName{cache.NewObjectName(obj.GetNamespace(), name)}
	}
	for name, c := range map[string]struct {
		event func(h, ofOthers cache.ResourceEventHandler)
		want  []cache.ObjectName
	}{
		"an object that is there at the first list": {
			func(h, _ cache.ResourceEventHandler) { h.OnAdd(object("a", "1", 1), true) }, []cache.ObjectName{keyA}},
		"an update of the spec": {
			func(h, _ cache.ResourceEventHandler) { h.OnUpdate(object("a", "1", 1), object("a", "2", 2)) },
			[]cache.ObjectName{keyA}},
		"an update of the status alone": {
			func(h, _ cache.ResourceEventHandler) { h.OnUpdate(object("a", "1", 1), object("a", "2", 1)) },
			[]cache.ObjectName{keyA}},
		"a resync is dropped": {
			func(h, _ cache.ResourceEventHandler) { h.OnUpdate(object("a", "1", 1), object("a", "1", 1)) }, nil},
		"a deletion": {
			func(h, _ cache.ResourceEventHandler) { h.OnDelete(object("a", "1", 1)) }, []cache.ObjectName{keyA}},
		"a tombstone without the object": {
			func(h, _ cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "team/a"}) },
			[]cache.ObjectName{keyA}},
		"a tombstone with a key that is none": {
			func(h, _ cache.ResourceEventHandler) { h.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/b/c"}) }, nil},
		"two events of one object are one key": {
			func(h, _ cache.ResourceEventHandler) {
				h.OnAdd(object("a", "1", 1), false)
				h.OnUpdate(object("a", "1", 1), object("a", "2", 2))
			}, []cache.ObjectName{keyA}},
		"junk": {
			func(h, _ cache.ResourceEventHandler) {
				for _, junk := range []any{nil, 1, "team/a", struct{}{}, errors.New("x")} {
					h.OnAdd(junk, false)
					h.OnUpdate(junk, junk)
					h.OnDelete(junk)
				}
			}, nil},
		"junk that becomes an object": {
			func(h, _ cache.ResourceEventHandler) { h.OnUpdate("junk", object("a", "1", 1)) }, []cache.ObjectName{keyA}},
		"an object that becomes junk": {
			func(h, _ cache.ResourceEventHandler) { h.OnUpdate(object("a", "1", 1), "junk") }, nil},
		"another kind's object that affects none": {
			func(_, h cache.ResourceEventHandler) { h.OnAdd(object("other", "1", 1), false) }, nil},
		"another kind's status": {
			func(_, h cache.ResourceEventHandler) { h.OnUpdate(affecting("a", "1"), affecting("a", "2")) },
			[]cache.ObjectName{keyA}},
		"another kind's update affects the key before and the key after": {
			func(_, h cache.ResourceEventHandler) { h.OnUpdate(affecting("a", "1"), affecting("c", "2")) },
			[]cache.ObjectName{keyA, keyC}},
		"another kind's tombstone with the object": {
			func(_, h cache.ResourceEventHandler) {
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: "team/other", Obj: affecting("a", "1")})
			}, []cache.ObjectName{keyA}},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				c.event(b.loop.Handler(), b.loop.HandlerOf(keysOf))
				var got []cache.ObjectName
				for b.loop.Len() > 0 {
					key, _ := b.loop.queue.Get()
					b.loop.queue.Done(key)
					got = append(got, key)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("keys %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestSyncsOfOneKeyNeverOverlapAndOthersProceed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		release := make(chan struct{})
		running := map[cache.ObjectName]int{}
		b.does = func(_ context.Context, key cache.ObjectName) (Result, error) {
			b.mu.Lock()
			if running[key]++; running[key] > 1 {
				t.Errorf("%d syncs of %s at a time", running[key], key)
			}
			b.mu.Unlock()
			if key == keyA {
				<-release
			}
			b.mu.Lock()
			running[key]--
			b.mu.Unlock()
			return Result{}, nil
		}
		b.run(4)
		b.loop.Enqueue(keyA)
		b.wantSyncs(keyA, 1)
		for range 5 {
			b.loop.Enqueue(keyA)
			b.loop.Enqueue(keyB)
			synctest.Wait()
		}
		b.wantSyncs(keyA, 1)
		b.wantSyncs(keyB, 5)
		close(release)
		// What was added during the sync is one more sync, however often it was added.
		b.wantSyncs(keyA, 2)
	})
}

func TestAFailureBacksOffWithJitterUpToTheCapAndForEver(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, errors.New("down") }
		b.run(1)
		b.loop.Enqueue(keyA)
		const attempts = 200
		for len(b.at(keyA)) < attempts {
			pass(BackoffLast)
		}
		times := b.at(keyA)
		least := BackoffFirst
		jittered := false
		for n := range attempts - 1 {
			pause := virtual.Since(times[n]) - virtual.Since(times[n+1])
			// A millisecond for the queue's own rounding.
			if pause < least || pause > least+least/5+time.Millisecond {
				t.Errorf("pause %d is %s, want from %s to %s", n+1, pause, least, least+least/5)
			}
			jittered = jittered || pause != least
			least = min(2*least, BackoffLast)
		}
		if !jittered {
			t.Error("no pause has jitter: keys that failed together come back together")
		}
	})
}

// TestRepeatedFailuresAreNotErrorsEachTime keeps the log of a cluster with many broken objects readable.
func TestRepeatedFailuresAreNotErrorsEachTime(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, errors.New("down") }
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
		ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
		done := make(chan error, 1)
		go func() { done <- b.loop.Run(ctx, 1) }()
		b.loop.Enqueue(keyA)
		for len(b.at(keyA)) < 100 {
			pass(BackoffLast)
		}
		stop()
		expect.NoError(t, <-done)
		logged := map[ktesting.LogType]int{}
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			if strings.HasPrefix(entry.Message, "Sync failed") {
				logged[entry.Type]++
			}
		}
		expect.Equal(t, map[ktesting.LogType]int{ktesting.LogError: 7}, logged, "failures 1, 2, 4, 8, 16, 32, 64")
	})
}

func TestASuccessForgetsTheBackoff(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		down := errors.New("down")
		b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, down }
		b.run(1)
		b.loop.Enqueue(keyA)
		pass(time.Hour)
		b.mu.Lock()
		b.does = nil
		b.mu.Unlock()
		pass(time.Hour)
		n := len(b.at(keyA))
		pass(time.Hour)
		b.wantSyncs(keyA, n) // nothing is left on the queue after a success

		b.mu.Lock()
		b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, down }
		b.mu.Unlock()
		b.loop.Enqueue(keyA)
		pass(BackoffFirst + BackoffFirst/5)
		b.wantSyncs(keyA, n+2)
	})
}

// wait is an error that names its own pause, as a cloud's error does.
type wait time.Duration

func (w wait) Error() string             { return "wait " + time.Duration(w).String() }
func (w wait) RetryAfter() time.Duration { return time.Duration(w) }

func TestAnErrorThatNamesItsPauseIsHonoured(t *testing.T) {
	const pause = 10 * time.Minute
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"as it is":                          {wait(pause), pause},
		"wrapped":                           {fmt.Errorf("creating: %w", wait(pause)), pause},
		"joined with another":               {errors.Join(errors.New("x"), wait(pause)), pause},
		"joined behind one without a pause": {errors.Join(wait(0), wait(pause)), pause},
		"joined with a shorter one":         {errors.Join(wait(pause), wait(time.Minute), wait(pause/2)), pause},
		"wrapped in one without a pause":    {fmt.Errorf("%w: %w", wait(0), fmt.Errorf("x: %w", wait(pause))), pause},
		"a pause of nothing is backoff":     {wait(0), BackoffFirst},
		"a negative pause is backoff":       {wait(-pause), BackoffFirst},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, c.err }
				b.run(1)
				b.loop.Enqueue(keyA)
				pass(c.want - time.Millisecond)
				b.wantSyncs(keyA, 1)
				pass(c.want/5 + 2*time.Millisecond)
				b.wantSyncs(keyA, 2)
			})
		})
	}
}

func TestAPauseAfterAFailure(t *testing.T) {
	was := object("a", "1", 1)
	with := func(change func(*cloudteamv1.Network)) *cloudteamv1.Network {
		obj := object("a", "2", 1)
		change(obj)
		return obj
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		happens func(l *Loop)
		ends    bool
	}{
		"outlasts an update of the status": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Status.MTU = 1 }))
		}, false},
		"outlasts an update of the finalizers": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Finalizers = []string{"x"} }))
		}, false},
		"outlasts a finalizer that comes with an annotation": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) {
				obj.Finalizers, obj.Annotations = []string{"x"}, map[string]string{"a": "b"}
			}))
		}, false},
		"outlasts a resync": {func(l *Loop) { l.Handler().OnUpdate(was, was) }, false},
		"ends with an edit of the spec": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Generation++ }))
		}, true},
		"ends with an edit of the annotations": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) {
				obj.Annotations = map[string]string{"a": "b"}
			}))
		}, true},
		"ends with an edit of the labels": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Labels = map[string]string{"a": "b"} }))
		}, true},
		"ends with another owner": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) {
				obj.OwnerReferences = []metav1.OwnerReference{{Name: "owner", UID: "o1"}}
			}))
		}, true},
		"ends with the order to delete": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.DeletionTimestamp = &now }))
		}, true},
		"ends with another object of the name": {func(l *Loop) {
			l.Handler().OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.UID = "other" }))
		}, true},
		"ends with any update of a kind that has no generations": {func(l *Loop) {
			l.Handler().OnUpdate(object("a", "1", 0), object("a", "2", 0))
		}, true},
		"ends with the deletion": {func(l *Loop) { l.Handler().OnDelete(was) }, true},
		"ends with Enqueue":      {func(l *Loop) { l.Enqueue(keyA) }, true},
	} {
		for when, during := range map[string]bool{"afterwards": false, "during the sync that fails": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				onBench(t, func(t *testing.T, b *bench) {
					first := true
					b.does = func(context.Context, cache.ObjectName) (Result, error) {
						if during && first {
							c.happens(b.loop)
						}
						first = false
						return Result{}, wait(time.Hour)
					}
					b.run(1)
					b.loop.Enqueue(keyA)
					synctest.Wait()
					if !during {
						c.happens(b.loop)
					}
					pass(time.Minute)
					want := 1
					if c.ends {
						want = 2
					}
					b.wantSyncs(keyA, want)
					// Either way the key comes back by itself.
					pass(2 * time.Hour)
					if got := len(b.at(keyA)); got <= want {
						t.Errorf("%d syncs after two hours: the key is lost", got)
					}
				})
			})
		}
	}
}

func TestAPausedKeyLeavesNothingBehind(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		fail := true
		b.does = func(context.Context, cache.ObjectName) (Result, error) {
			if fail {
				fail = false
				return Result{}, errors.New("down")
			}
			return Result{}, nil
		}
		b.run(1)
		b.loop.Enqueue(keyA)
		pass(time.Minute)
		b.loop.mu.Lock()
		defer b.loop.mu.Unlock()
		if len(b.loop.paused) != 0 || len(b.loop.running) != 0 {
			t.Errorf("memory grows: paused %v, running %v", b.loop.paused, b.loop.running)
		}
	})
}

func TestRequeueAfter(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  int
	}{
		"a positive time brings the key back": {time.Minute, 10},
		"zero does not":                       {0, 1},
		"a negative time does not":            {-time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.does = func(context.Context, cache.ObjectName) (Result, error) {
					return Result{RequeueAfter: c.after}, nil
				}
				b.run(1)
				b.loop.Enqueue(keyA)
				pass(9*time.Minute + time.Second)
				b.wantSyncs(keyA, c.want)
			})
		})
	}
}

func TestAStaleCacheIsNoFailure(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(_ context.Context, key cache.ObjectName) (Result, error) {
			if key == keyB {
				return Result{}, fmt.Errorf("creating: %w", ErrTerminating)
			}
			return Result{}, fmt.Errorf("binding: %w", ErrStale)
		}
		b.loop.Enqueue(keyA, keyB)
		b.run(1)
		pass(10*StalePause - 1)
		b.wantSyncs(keyA, 10) // at the start and after each pause: there is no backoff
		b.wantSyncs(keyB, 1)
		expect.Equal(t, 0, b.loop.queue.NumRequeues(keyA)+b.loop.queue.NumRequeues(keyB), "failures that are counted")
	})
}

func TestTheWorstOfErrors(t *testing.T) {
	failure := errors.New("failure")
	for name, c := range map[string]struct {
		errs []error
		want error
	}{
		"none is none":                       {[]error{nil, nil}, nil},
		"a stale cache counts":               {[]error{nil, ErrStale}, ErrStale},
		"a failure counts more":              {[]error{ErrStale, failure, errors.New("another")}, failure},
		"the end of the namespace counts so": {[]error{ErrStale, ErrTerminating}, ErrTerminating},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Worst(c.errs...); !errors.Is(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// panicsCounted is the metric of panics for the loop of onBench.
func panicsCounted(t *testing.T) float64 {
	t.Helper()
	return metrictest.Value(t, "network_controller_sync_panics_total", "test")
}

// TestSyncsAreCountedByResult holds the metrics that dashboards for controller-runtime read.
func TestSyncsAreCountedByResult(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		outcomes := []struct {
			result Result
			err    error
		}{
			{err: errors.New("down")}, {err: ErrStale}, {result: Result{RequeueAfter: time.Second}}, {}, {err: ErrTerminating},
		}
		counted := func() (values []float64) {
			for _, result := range []string{resultError, resultRequeue, resultRequeueAfter, resultSuccess} {
				values = append(values, metrictest.Value(t, "controller_runtime_reconcile_total", "test", result))
			}
			return append(values, metrictest.Value(t, "controller_runtime_reconcile_errors_total", "test"),
				metrictest.Value(t, "controller_runtime_reconcile_time_seconds", "test"))
		}
		before, running := counted(), 0.0
		b.does = func(context.Context, cache.ObjectName) (Result, error) {
			running = metrictest.Value(t, "controller_runtime_active_workers", "test")
			o := outcomes[0]
			outcomes = outcomes[1:]
			return o.result, o.err
		}
		b.run(2)
		b.loop.Enqueue(keyA)
		pass(time.Minute)
		b.loop.Enqueue(keyA)
		pass(time.Minute)
		var got []float64
		for i, is := range counted() {
			got = append(got, is-before[i])
		}
		if want := []float64{1, 1, 1, 2, 1, 5}; !slices.Equal(got, want) {
			t.Errorf("error, requeue, requeue_after, success, errors, durations: %v, want %v", got, want)
		}
		if is := metrictest.Value(t, "controller_runtime_active_workers", "test"); running != 1 || is != 0 {
			t.Errorf("%g active workers in a sync and %g after it", running, is)
		}
		if most := metrictest.Value(t, "controller_runtime_max_concurrent_reconciles", "test"); most != 8 {
			t.Errorf("at most %g syncs, want 2 for one namespace, and four times as many in all", most)
		}
	})
}

func TestAPanicIsAFailureOfItsKeyAlone(t *testing.T) {
	for name, value := range map[string]any{
		"a text": "boom", "an error": errors.New("boom"), "nothing at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				before := panicsCounted(t)
				panicking := 3
				b.does = func(_ context.Context, key cache.ObjectName) (Result, error) {
					if key == keyA && panicking > 0 {
						panicking--
						panic(value)
					}
					return Result{}, nil
				}
				b.run(1)
				b.loop.Enqueue(keyA)
				b.loop.Enqueue(keyB)
				b.wantSyncs(keyA, 1)
				b.wantSyncs(keyB, 1)
				pass(time.Minute)
				b.wantSyncs(keyA, 4)
				expect.Equal(t, 3.0, panicsCounted(t)-before, "panics that the metric counts")
			})
		})
	}
}

func TestRunDrains(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(ctx context.Context, _ cache.ObjectName) (Result, error) {
			select {
			case <-time.After(DefaultDrain - time.Second):
			case <-ctx.Done():
				t.Error("a sync was canceled within the drain")
			}
			return Result{}, errors.New("no more retries after the end")
		}
		stop := b.run(1)
		b.loop.Enqueue(keyA)
		synctest.Wait()
		b.loop.Enqueue(keyA)
		b.loop.Enqueue(keyB)
		began := time.Now()
		stop()
		expect.Equal(t, DefaultDrain-time.Second, virtual.Since(began), "how long Run takes: as the running sync")
		pass(time.Hour)
		b.wantSyncs(keyA, 1)
		b.wantSyncs(keyB, 0)
	})
}

func TestRunCancelsWhatOutlastsTheDrain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		finished := 0
		b.does = func(ctx context.Context, _ cache.ObjectName) (Result, error) {
			<-ctx.Done()
			<-time.After(time.Second) // tidying up
			b.mu.Lock()
			finished++
			b.mu.Unlock()
			return Result{}, ctx.Err()
		}
		stop := b.run(2)
		b.loop.Enqueue(keyA)
		b.loop.Enqueue(keyB)
		synctest.Wait()
		began := time.Now()
		stop()
		if took := virtual.Since(began); took != DefaultDrain+time.Second {
			t.Errorf("Run returned after %s, want the drain and what the syncs took to end", took)
		}
		expect.Equal(t, 2, finished, "syncs that finished before Run returned")
	})
}

func TestRunRefusesToRunWithoutWorkers(t *testing.T) {
	for _, workers := range []int{0, -1} {
		onBench(t, func(t *testing.T, b *bench) {
			err := b.loop.Run(t.Context(), workers)
			expect.ErrorSays(t, err, "test")
		})
	}
}
