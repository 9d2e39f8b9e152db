package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// informerOf is an informer, that runs and is filled, of what a source holds.
func informerOf(t *testing.T, objects ...runtime.Object) (cache.SharedIndexInformer, *fcache.FakeControllerSource) {
	t.Helper()
	source := fcache.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	for _, obj := range objects {
		source.Add(obj)
	}
	informer := cache.NewSharedIndexInformer(source, &cloudteamv1.Network{}, 0, cache.Indexers{})
	go informer.RunWithContext(t.Context())
	synctest.Wait()
	return informer, source
}

func TestAStandbyQueuesNothingAndLooksAtEverythingOnceItRuns(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		stays, goes := object("a", "1", 1), object("b", "2", 1)
		informer, source := informerOf(t, stays, goes)
		expect.NoError(t, b.loop.Watch(informer, b.loop.Handler()))
		if !b.loop.HasSynced() {
			t.Error("not synced though its informer is")
		}
		source.Delete(goes)
		synctest.Wait()
		expect.Equal(t, 0, b.loop.Len(), "keys wait for a loop that may never run")
		b.run(1)
		b.wantSyncs(keyA, 1)
		b.wantSyncs(keyB, 0)
		source.Add(object("b", "3", 1))
		b.wantSyncs(keyB, 1)
	})
}

func TestRunWaitsForTheFirstListOfEachInformer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		filled, _ := informerOf(t, object("a", "1", 1))
		source := fcache.NewFakeControllerSource()
		t.Cleanup(source.Shutdown)
		late := cache.NewSharedIndexInformer(source, &cloudteamv1.Network{}, 0, cache.Indexers{})
		err := errors.Join(b.loop.Watch(filled, b.loop.Handler()), b.loop.Watch(late, b.loop.Handler()))
		expect.NoError(t, err)
		b.run(1)
		pass(time.Minute)
		b.wantSyncs(keyA, 0)
		if b.loop.HasSynced() {
			t.Error("synced though an informer is not")
		}
		go late.RunWithContext(t.Context())
		pass(time.Second)
		b.wantSyncs(keyA, 1)
	})
}

func TestSyncsDoNotWaitForAnOptionalInformer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		informer, _ := informerOf(t, object("a", "1", 1))
		source := fcache.NewFakeControllerSource()
		t.Cleanup(source.Shutdown)
		source.Add(object("b", "2", 1))
		optional := cache.NewSharedIndexInformer(source, &cloudteamv1.Network{}, 0, cache.Indexers{})
		err := errors.Join(b.loop.Watch(informer, b.loop.Handler()), b.loop.WatchOptional(optional, b.loop.Handler()))
		expect.NoError(t, err)
		b.loop.After(optional.HasSynced, func() { b.loop.Enqueue(keyA) })
		b.loop.After(informer.HasSynced, func() { t.Error("it was full before") })
		if !b.loop.HasSynced() {
			t.Error("not synced for want of an optional informer")
		}
		b.run(1)
		b.wantSyncs(keyA, 1)
		b.wantSyncs(keyB, 0)
		go optional.RunWithContext(t.Context())
		pass(time.Second)
		b.wantSyncs(keyA, 2)
		b.wantSyncs(keyB, 1)
	})
}

func TestAnInformerThatHasStoppedIsNotWatched(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		source := fcache.NewFakeControllerSource()
		defer source.Shutdown()
		informer := cache.NewSharedIndexInformer(source, &cloudteamv1.Network{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		informer.RunWithContext(ctx)
		if err := b.loop.Watch(informer, b.loop.Handler()); err == nil {
			t.Error("no error")
		}
	})
}

func TestADeposedLoopCancelsItsSyncsAtOnce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.does = func(ctx context.Context, _ cache.ObjectName) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}
		ctx, end := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.loop.Run(ctx, 1) }()
		b.loop.Enqueue(keyA)
		b.wantSyncs(keyA, 1)
		began := time.Now()
		end(ErrDeposed)
		expect.NoError(t, <-done)
		expect.Equal(t, time.Duration(0), virtual.Since(began), "how long Run went on")
	})
}
