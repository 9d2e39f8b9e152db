package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// keysIn gives n keys of one namespace.
func keysIn(namespace string, n int) []cache.ObjectName {
	var keys []cache.ObjectName
	for i := range n {
		keys = append(keys, cache.NewObjectName(namespace, fmt.Sprint("k", i)))
	}
	return keys
}

// hang lets the syncs of some keys block until the test ends.
func (b *bench) hang(of func(cache.ObjectName) bool) {
	released := make(chan struct{})
	b.t.Cleanup(func() { close(released) })
	b.does = func(ctx context.Context, key cache.ObjectName) (Result, error) {
		if of(key) {
			select {
			case <-ctx.Done():
			case <-released:
			}
		}
		return Result{}, nil
	}
}

// count gives how many keys of a namespace were synced.
func (b *bench) count(namespace string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for key := range b.syncs {
		if key.Namespace == namespace {
			n++
		}
	}
	return n
}

func TestANamespaceThatHangsLeavesWorkersToOthers(t *testing.T) {
	for _, c := range []struct{ noisy, workers int }{
		{1, 1}, {1, 4}, {2, 4}, {1, 500}, {2, 500}, {10, 500}, {50, 500},
	} {
		t.Run(fmt.Sprintf("%d of them, %d workers", c.noisy, c.workers), func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.hang(func(key cache.ObjectName) bool { return strings.HasPrefix(key.Namespace, "noisy") })
				b.run(c.workers)
				for n := range c.noisy {
					b.loop.Enqueue(keysIn(fmt.Sprint("noisy", n), 2*c.workers)...)
				}
				synctest.Wait()
				b.loop.Enqueue(keysIn("quiet", 100)...)
				synctest.Wait() // no time passes
				expect.Equal(t, 100, b.count("quiet"), "keys of the other namespace that were synced")
			})
		})
	}
}

func TestOneNamespaceAloneUsesAllItsWorkers(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.hang(func(cache.ObjectName) bool { return true })
		b.run(500)
		b.loop.Enqueue(keysIn("team", 1000)...)
		synctest.Wait()
		expect.Equal(t, 500, b.count("team"), "workers that it holds")
		expect.Equal(t, 500, b.loop.Len(), "Len with 500 of 1000 keys running")
	})
}

func TestACloudThatHangsLeavesWorkersToOtherClouds(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.loop.ServeBackends(func(key cache.ObjectName) string {
			cloud, _, _ := strings.Cut(key.Name, "-")
			return cloud
		})
		b.hang(func(key cache.ObjectName) bool { return strings.HasPrefix(key.Name, "hole-") })
		b.run(100)
		for n := range 300 {
			b.loop.Enqueue(cache.NewObjectName(fmt.Sprint("team", n), "hole-a"))
		}
		synctest.Wait()
		for n := range 300 {
			b.loop.Enqueue(cache.NewObjectName(fmt.Sprint("team", n), "other-a"))
		}
		synctest.Wait()
		for n := range 300 {
			b.wantSyncs(cache.NewObjectName(fmt.Sprint("team", n), "other-a"), 1)
		}
	})
}

func TestKeysTakeTurnsByNamespace(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(context.Context, cache.ObjectName) (Result, error) {
			<-time.After(time.Second)
			return Result{}, nil
		}
		for n := range 10 {
			b.loop.Enqueue(keysIn(fmt.Sprint("noisy", n), 1000)...)
		}
		b.loop.Enqueue(keysIn("quiet", 3)...)
		b.run(1)
		// Two keys a second, of eleven namespaces.
		pass(17 * time.Second)
		expect.Equal(t, 3, b.count("quiet"), "keys that were synced after three turns of all")
	})
}

func TestAFreedWorkerServesThoseThatWait(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(_ context.Context, key cache.ObjectName) (Result, error) {
			if key.Namespace == "first" {
				<-time.After(time.Minute)
			} else {
				<-time.After(time.Hour)
			}
			return Result{}, nil
		}
		b.run(100)
		b.loop.Enqueue(keysIn("first", 100)...)
		synctest.Wait()
		b.loop.Enqueue(keysIn("second", 200)...)
		synctest.Wait()
		before := b.count("second")
		pass(2 * time.Minute)
		// Nothing of its own has ended, and the other's workers are free.
		if after := b.count("second"); before > 50 || after != 100 {
			t.Errorf("it held %d workers beside the other, and holds %d of 100 alone", before, after)
		}
	})
}

func TestAKeyThatWaitsForAWorkerFollowsItsCloud(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		moved := false
		last := cache.NewObjectName("team", "last")
		b.loop.ServeBackends(func(key cache.ObjectName) string {
			if key == last && moved {
				return "other"
			}
			return "hole"
		})
		b.hang(func(key cache.ObjectName) bool { return key != last })
		b.run(100)
		for n := range 200 {
			b.loop.Enqueue(cache.NewObjectName(fmt.Sprint("team", n), "a"))
		}
		synctest.Wait()
		b.loop.Enqueue(last)
		b.wantSyncs(last, 0)
		moved = true
		b.loop.Enqueue(last)
		b.wantSyncs(last, 1)
	})
}

// TestShares checks the rules on random sequences.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShares("test")
		workers := rapid.IntRange(1, 20).Draw(t, "workers")
		s.limit(workers)
		backends := map[cache.ObjectName]string{}
		s.backend = func(key cache.ObjectName) string { return backends[key] }
		running, waiting := map[cache.ObjectName]flow{}, map[cache.ObjectName]flow{}
		count := func(of map[cache.ObjectName]flow, match func(flow) bool) (n int) {
			for _, f := range of {
				if match(f) {
					n++
				}
			}
			return n
		}
		start := func(t *rapid.T) {
			for s.runnable() {
				key := s.Pop()
				f, waits := waiting[key]
				if _, twice := running[key]; twice || !waits {
					t.Fatalf("%s runs twice at once: %t; waits: %t", key, twice, waits)
				}
				delete(waiting, key)
				running[key] = f
			}
			if len(waiting) > 0 && len(running) == 0 {
				t.Fatalf("%d keys wait while nothing runs", len(waiting))
			}
			if len(running) > 4*workers {
				t.Fatalf("%d keys run, with %d workers for each", len(running), workers)
			}
			for _, f := range running {
				if n := count(running, func(g flow) bool { return g == f }); n > workers {
					t.Fatalf("%+v holds %d of %d workers", f, n, workers)
				}
				if n := count(running, func(g flow) bool { return g.backend == f.backend }); n > 2*workers {
					t.Fatalf("backend %q holds %d, with %d workers for each namespace", f.backend, n, workers)
				}
			}
			// Whoever holds nothing waits only if the backend, or all of them, are full.
			for key, f := range waiting {
				inBackend := count(running, func(g flow) bool { return g.backend == f.backend })
				if count(running, func(g flow) bool { return g == f }) == 0 && len(running) < 4*workers &&
					(inBackend == 0 || inBackend < share(4*workers, 2, len(running)-inBackend)) {
					t.Fatalf("%s waits in %+v, which holds nothing, with %d running", key, f, len(running))
				}
			}
		}
		finish := func(t *rapid.T, key cache.ObjectName) {
			delete(running, key)
			s.release(key)
			start(t)
		}
		backend := rapid.SampledFrom([]string{"", "x", "y"})
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				for n := range rapid.IntRange(1, 50).Draw(t, "keys") {
					namespace := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "namespace")
					key := cache.NewObjectName(namespace, fmt.Sprint(n))
					_, runs := running[key]
					if _, waits := waiting[key]; !waits && !runs {
						backends[key] = backend.Draw(t, "backend")
						waiting[key] = flow{namespace, backends[key]}
						s.Push(key)
					}
				}
				start(t)
			},
			"move": func(t *rapid.T) {
				if len(waiting) > 0 {
					key := rapid.SampledFrom(sortedKeys(waiting)).Draw(t, "key")
					backends[key] = backend.Draw(t, "backend")
					waiting[key] = flow{key.Namespace, backends[key]}
					s.Touch(key)
					start(t)
				}
			},
			"finish": func(t *rapid.T) {
				if len(running) > 0 {
					finish(t, rapid.SampledFrom(sortedKeys(running)).Draw(t, "key"))
				}
			},
			"": func(t *rapid.T) {
				if s.Len() != len(waiting) {
					t.Fatalf("Len is %d, %d wait", s.Len(), len(waiting))
				}
			},
		})
		for len(running) > 0 {
			finish(t, sortedKeys(running)[0])
		}
		if len(waiting) != 0 {
			t.Fatalf("lost: %v", waiting)
		}
		if len(s.of)+len(s.held)+len(s.byFlow)+len(s.byBackend) != 0 {
			t.Fatalf("memory grows: %+v", s)
		}
	})
}

// TestSharesLeaveRoom counts how many hanging namespaces and clouds it takes until the next one waits, when they come
// one after another and each takes what it may.
func TestSharesLeaveRoom(t *testing.T) {
	const workers = 500
	hogs := func(next func(n int) flow) int {
		s := newShares("test")
		s.limit(workers)
		var f flow
		s.backend = func(cache.ObjectName) string { return f.backend }
		for n := range 10_000 {
			f = next(n)
			for i := 0; s.may(f); i++ {
				s.Push(cache.NewObjectName(f.namespace, fmt.Sprint(n, "-", i)))
				s.Pop()
			}
			if s.byFlow[f] == 0 {
				return n
			}
		}
		return 0
	}
	if n := hogs(func(n int) flow { return flow{fmt.Sprint("team", n), "shared"} }); n < 60 {
		t.Errorf("%d namespaces fill a cloud", n)
	}
	if n := hogs(func(n int) flow { return flow{"team", fmt.Sprint("cloud", n)} }); n < 100 {
		t.Errorf("%d clouds hold all workers", n)
	}
}

func sortedKeys(of map[cache.ObjectName]flow) []cache.ObjectName {
	return slices.SortedFunc(maps.Keys(of), func(a, b cache.ObjectName) int {
		return strings.Compare(a.String(), b.String())
	})
}

// TestSyncsThatComputeShareTheProcessors has the syncs of one namespace compute without an end, in two Loops.
func TestSyncsThatComputeShareTheProcessors(t *testing.T) {
	processors := fair.NewProcessors(4)
	onBench(t, func(t *testing.T, b *bench) {
		b.loop.Compute(processors)
		b.hang(func(key cache.ObjectName) bool { return key.Namespace == "noisy" })
		b.run(10)
		b.loop.Enqueue(keysIn("noisy", 20)...)
		synctest.Wait()
		b.loop.Enqueue(keysIn("quiet", 100)...)
		synctest.Wait() // no time passes
		if noisy, quiet := b.count("noisy"), b.count("quiet"); noisy != 2 || quiet != 100 {
			t.Errorf("%d syncs of the noisy namespace run, want half of 4; %d of the other's 100 keys were synced", noisy, quiet)
		}
	})
}
