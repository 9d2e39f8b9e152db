package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func TestAHandlerOfAPartPassesOnWhatMovesIt(t *testing.T) {
	was := object("a", "1", 1)
	with := func(change func(*cloudteamv1.Network)) *cloudteamv1.Network {
		obj := object("a", "2", 1)
		change(obj)
		return obj
	}
	for name, c := range map[string]struct {
		event func(h cache.ResourceEventHandler)
		// looks is whether the key, which pauses after a failure, is looked at.
		looks bool
	}{
		"a resync is dropped": {func(h cache.ResourceEventHandler) { h.OnUpdate(was, was) }, false},
		"an update of the rest is dropped": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Status.NetworkID = "n" }))
		}, false},
		"an update of the part ends the pause": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.Status.MTU = 1 }))
		}, true},
		"so does another object of the name that is the same in that part": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(was, with(func(obj *cloudteamv1.Network) { obj.UID = "other" }))
		}, true},
		"so does an object that comes": {func(h cache.ResourceEventHandler) { h.OnAdd(was, false) }, true},
		"so does one that goes":        {func(h cache.ResourceEventHandler) { h.OnDelete(was) }, true},
		"so does one whose deletion was missed": {func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "team/a"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(_ *testing.T, b *bench) {
				b.does = func(context.Context, cache.ObjectName) (Result, error) { return Result{}, wait(time.Hour) }
				b.run(1)
				b.loop.Enqueue(keyA)
				synctest.Wait()
				keysOf := func(obj metav1.Object) []cache.ObjectName {
					return []cache.ObjectName{cache.MetaObjectToName(obj)}
				}
				same := func(was, is *cloudteamv1.Network) bool { return was.Status.MTU == is.Status.MTU }
				c.event(HandlerOfPart(b.loop, keysOf, same))
				pass(time.Minute)
				want := 1
				if c.looks {
					want = 2
				}
				b.wantSyncs(keyA, want)
			})
		})
	}
}
