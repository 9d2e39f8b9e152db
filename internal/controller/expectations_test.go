package controller

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestExpectations(t *testing.T) {
	type state struct {
		uid             types.UID
		resourceVersion string
	}
	for name, c := range map[string]struct {
		written []state
		cached  state
		want    bool
	}{
		"nothing was written":               {nil, state{"a", "5"}, true},
		"the cache is older than the write": {[]state{{"a", "10"}}, state{"a", "9"}, false},
		"versions are numbers and not text": {[]state{{"a", "1000"}}, state{"a", "999"}, false},
		"the cache is at the write":         {[]state{{"a", "10"}}, state{"a", "10"}, true},
		"the cache is newer than the write": {[]state{{"a", "10"}}, state{"a", "11"}, true},
		"versions outgrow 64 bits": {
			[]state{{"a", "18446744073709551617"}}, state{"a", "18446744073709551616"}, false,
		},
		"the last of two writes counts":                   {[]state{{"a", "10"}, {"a", "12"}}, state{"a", "11"}, false},
		"the newest counts, in whatever order it is told": {[]state{{"a", "12"}, {"a", "10"}}, state{"a", "11"}, false},
		"another object of the name is not waited for":    {[]state{{"a", "10"}}, state{"b", "1"}, true},
		"a write to another object of the name counts":    {[]state{{"a", "10"}, {"b", "20"}}, state{"b", "19"}, false},
		"written versions that do not compare":            {[]state{{"a", "x"}}, state{"a", "9"}, true},
		"cached versions that do not compare":             {[]state{{"a", "10"}}, state{"a", "x"}, true},
		"a cached object without a version":               {[]state{{"a", "10"}}, state{"a", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var e Expectations
			for _, w := range c.written {
				e.Written(keyA, w.uid, w.resourceVersion)
			}
			for _, attempt := range []string{"first", "second"} {
				expect.Equal(t, c.want, e.Met(keyA, c.cached.uid, c.cached.resourceVersion), "the %s time Met", attempt)
			}
			if !e.Met(keyB, c.cached.uid, "1") {
				t.Error("another key waits as well")
			}
		})
	}
}

func TestExpectationsOfAnObjectThatTheCacheLacks(t *testing.T) {
	for name, c := range map[string]struct {
		written, version string
		want             bool
	}{
		"nothing was written":              {"", "5", true},
		"the cache has not come that far":  {"10", "9", false},
		"the cache has come that far":      {"10", "10", true},
		"the cache has come further":       {"10", "11", true},
		"the cache does not tell how far":  {"10", "", true},
		"the versions do not compare":      {"x", "9", true},
		"versions are numbers and no text": {"1000", "999", false},
	} {
		t.Run(name, func(t *testing.T) {
			var e Expectations
			if c.written != "" {
				e.Written(keyA, "a", c.written)
			}
			for _, attempt := range []string{"first", "second"} {
				expect.Equal(t, c.want, e.CaughtUp(keyA, c.version), "the %s time CaughtUp", attempt)
			}
			if waits := len(e.written) > 0; waits == c.want {
				t.Errorf("it still holds %v", e.written)
			}
			if !e.CaughtUp(keyB, "1") {
				t.Error("another key waits as well")
			}
		})
	}
}

func TestAnObjectThatWasLetGoIsExpectedToGo(t *testing.T) {
	var e Expectations
	e.LetGo(keyA, "a")
	if e.Met(keyA, "a", "1") || e.Met(keyA, "a", "999") {
		t.Error("a cache that still holds it passes for up to date")
	}
	if !e.Met(keyA, "b", "1") {
		t.Error("another object of the name is held up")
	}
	e.LetGo(keyA, "a")
	e.Forget(keyA)
	if !e.Met(keyA, "a", "1") {
		t.Error("what was forgotten is waited for")
	}
	e.LetGo(keyA, "a")
	if !e.CaughtUp(keyA, "1") {
		t.Error("a cache without it passes for behind")
	}
}

func TestRemovedObjectsAreRememberedUntilTheCacheShowsIt(t *testing.T) {
	var e Expectations
	e.Written(keyA, "port", "10")
	e.LetGo(keyA, "a")
	e.LetGo(keyA, "b")
	if !e.CaughtUp(keyA, "10") {
		t.Error("a removal holds up a cache that has caught up")
	}
	e.KeepRemoved(keyA, func(uid types.UID) bool { return uid == "b" })
	if e.Removed(keyA, "a") || !e.Removed(keyA, "b") || e.Removed(keyB, "b") {
		t.Errorf("what is remembered is %+v", e.written[keyA])
	}
	e.KeepRemoved(keyA, func(types.UID) bool { return false })
	expect.Empty(t, e.written, "memory grows")
}

func TestExpectationsThatAreForgottenOrMetHoldNothing(t *testing.T) {
	var e Expectations
	e.Forget(keyA)
	e.Written(keyA, "a", "10")
	e.Forget(keyA)
	if !e.Met(keyA, "a", "1") {
		t.Error("what was forgotten is waited for")
	}
	e.Written(keyA, "a", "10")
	e.Met(keyA, "a", "10")
	expect.Empty(t, e.written, "keys in memory")
}

func TestExpectationsOfManyGoroutines(t *testing.T) {
	var e Expectations
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				version := fmt.Sprint(i + 1)
				e.Written(keyA, "a", version)
				e.Met(keyA, "a", version)
				e.Forget(keyB)
			}
		})
	}
	wg.Wait()
	if !e.Met(keyA, "a", "500") {
		t.Error("the newest of all versions does not meet what was written")
	}
}
