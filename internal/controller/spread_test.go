package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// dependents are as many keys of a namespace.
func dependents(namespace string, n int) (keys []cache.ObjectName) {
	for i := range n {
		keys = append(keys, cache.NewObjectName(namespace, fmt.Sprint("port-", i)))
	}
	return keys
}

// TestAnObjectOfManyCostsItsHandlersLittle: whoever changes it again and again has its dependents synced seldom, and
// after the last change once more.
func TestAnObjectOfManyCostsItsHandlersLittle(t *testing.T) {
	const n, edits = 3000, 1000
	onBench(t, func(t *testing.T, b *bench) {
		asked := 0
		keysOf := func(on cache.ObjectName) []cache.ObjectName {
			asked++
			return dependents(on.Namespace, n)
		}
		h := HandlerOfMany(b.loop, KeyOf, keysOf, func(was, is *cloudteamv1.Network) bool {
			return was.Generation == is.Generation
		})
		b.run(1)
		h.OnAdd(object("a", "1", 1), true)
		pass(time.Minute)
		expect.Equal(t, 0, asked, "how often the first list has them synced again")
		for i := range edits {
			h.OnUpdate(object("a", fmt.Sprint(i), int64(i)), object("a", fmt.Sprint(i+1), int64(i+1)))
			pass(10 * time.Millisecond) // ten seconds in all
		}
		last := time.Now()
		pass(time.Minute)
		if asked > 5 {
			t.Errorf("after %d edits, the keys were asked for %d times", edits, asked)
		}
		for _, key := range dependents("team", n) {
			if at := b.at(key); len(at) == 0 || at[len(at)-1].Before(last) {
				t.Fatalf("%s is not synced after the last edit", key)
			}
		}
		before := asked
		h.OnUpdate(object("a", "1", 1), object("a", "2", 1))
		pass(time.Minute)
		expect.Equal(t, before, asked, "how often they were asked for, after what changes nothing for them")
		h.OnDelete(object("a", "1", 1))
		pass(time.Minute)
		expect.Equal(t, before+1, asked, "how often the keys were asked for, after a deletion")
	})
}

// TestAnObjectOfManyRestsForLonger, each time that it changes again, also by whoever waits until it has rested. After a
// while without changes it is followed as at first.
func TestAnObjectOfManyRestsForLonger(t *testing.T) {
	const n = 100
	onBench(t, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		var began time.Time
		var asked []time.Duration
		begin := func() {
			mu.Lock()
			defer mu.Unlock()
			began, asked = time.Now(), nil
		}
		begin()
		h := HandlerOfManyByStatus(b.loop, KeyOf, func(on cache.ObjectName) []cache.ObjectName {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, virtual.Since(began))
			return dependents(on.Namespace, n)
		}, anyDiffers)
		edit := func() { h.OnUpdate(object("a", "1", 1), object("a", "2", 2)) }
		b.run(1)
		want := func(at ...time.Duration) {
			t.Helper()
			mu.Lock()
			if !slices.Equal(asked, at) {
				t.Errorf("the keys were asked for after %v, want %v", asked, at)
			}
			mu.Unlock()
			begin()
		}
		// Edits follow each other.
		for range 2000 {
			edit()
			pass(time.Millisecond)
		}
		want(0, 100*time.Millisecond, 300*time.Millisecond, 700*time.Millisecond, 1500*time.Millisecond)
		pass(time.Minute)
		want(300 * time.Millisecond) // after the last one
		// One edit each time that it has rested.
		for _, rest := range []time.Duration{100, 200, 400, 800, 800} {
			edit()
			pass(rest*time.Millisecond + time.Millisecond)
		}
		want(0, 101*time.Millisecond, 302*time.Millisecond, 703*time.Millisecond, 1504*time.Millisecond)
		// It calms down after as long again.
		pass(time.Second)
		begin()
		edit()
		pass(time.Millisecond)
		edit()
		pass(150 * time.Millisecond)
		want(0, 100*time.Millisecond)
	})
}

// TestOnlySomeOfManyAreSynced: those that the change concerns. To look at the others is work, too.
func TestOnlySomeOfManyAreSynced(t *testing.T) {
	const n = 3200
	onBench(t, func(t *testing.T, b *bench) {
		asked := 0
		only := func(cache.ObjectName) func(cache.ObjectName) bool {
			asked++
			return func(key cache.ObjectName) bool { return key.Name == "port-7" || key.Name == "port-3000" }
		}
		h := HandlerOfSome(b.loop, KeyOf, func(on cache.ObjectName) []cache.ObjectName {
			return dependents(on.Namespace, n)
		}, only, anyDiffers)
		b.run(1)
		for range 3 * (n/looksPerKey + 2) {
			h.OnUpdate(object("a", "1", 1), object("a", "2", 2))
			pass(time.Millisecond)
		}
		if asked != 3 { // at first, after its rest, and after one that is twice as long
			t.Errorf("it was asked %d times", asked)
		}
		for _, key := range dependents("team", n) {
			expect.Equal(t, only(key)(key), len(b.at(key)) > 0, "whether %s is synced", key)
		}
	})
}

// anyDiffers has each update count.
func anyDiffers(_, _ *cloudteamv1.Network) bool { return false }

// TestAnObjectOfFewIsFollowedAtOnce, also one whose namespace has another of many.
func TestAnObjectOfFewIsFollowedAtOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		keysOf := func(on cache.ObjectName) []cache.ObjectName {
			if on.Name == "many" {
				return dependents(on.Namespace, 5000)
			}
			return []cache.ObjectName{keyA}
		}
		h := HandlerOfManyByStatus(b.loop, KeyOf, keysOf, anyDiffers)
		b.run(1)
		h.OnAdd(object("many", "1", 1), false)
		synctest.Wait()
		for i := range 3 {
			h.OnUpdate(object("many", "1", 1), object("many", "2", 2))
			h.OnAdd(object("few", "1", 1), false)
			pass(5 * time.Millisecond)
			b.wantSyncs(keyA, i+1)
		}
	})
}

// TestAStatusOfManyEndsNoDelay, as with HandlerOf.
func TestAStatusOfManyEndsNoDelay(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, wait(time.Hour) }
		b.run(1)
		b.loop.Enqueue(keyA)
		synctest.Wait()
		keysOf := func(cache.ObjectName) []cache.ObjectName { return []cache.ObjectName{keyA} }
		h := HandlerOfManyByStatus(b.loop, KeyOf, keysOf, anyDiffers)
		h.OnUpdate(object("a", "1", 1), object("a", "1", 1)) // a resync
		h.OnUpdate(object("a", "1", 1), object("a", "2", 1))
		pass(time.Minute)
		b.wantSyncs(keyA, 1)
		h.OnUpdate(object("a", "1", 1), object("a", "2", 2))
		pass(time.Minute)
		b.wantSyncs(keyA, 2)
	})
}

// TestASourceIsAskedForEachOfItsStates: what an object names in one of its states is told of the change, too.
func TestASourceIsAskedForEachOfItsStates(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		of := func(obj metav1.Object) []string { return []string{obj.GetResourceVersion()} }
		keysOf := func(version string) []cache.ObjectName {
			return []cache.ObjectName{cache.NewObjectName("team", version)}
		}
		h := HandlerOfMany(b.loop, of, keysOf, anyDiffers)
		b.run(1)
		h.OnUpdate(object("a", "1", 1), object("a", "2", 2))
		h.OnUpdate(object("a", "2", 2), object("a", "3", 3))
		pass(time.Minute)
		for _, version := range []string{"1", "2", "3"} {
			if len(b.at(cache.NewObjectName("team", version))) == 0 {
				t.Errorf("what depends on state %s is not synced", version)
			}
		}
	})
}
