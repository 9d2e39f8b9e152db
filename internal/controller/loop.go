package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Sync brings one object's world in line with the object. It is called with the object's key and nothing else: it MUST
// look at the present state, and MUST NOT assume why it was called, that it was called for every change, or that it was
// not called before. Syncs of one key never overlap.
//
// An error puts the key back on the queue, with backoff; an error that has a method RetryAfter() time.Duration names
// its own pause. Without an error, a positive Result.RequeueAfter puts it back after that time.
type Sync func(ctx context.Context, key cache.ObjectName) (Result, error)

// Result is what a sync without an error asks for.
type Result struct {
	// RequeueAfter, where positive, is when the key is looked at again without an event.
	RequeueAfter time.Duration
}

// Backoff of a key that fails: doubled each time from the first to the last, and then for good, with jitter. A key is
// never given up: what is wrong in the cloud may take a day to be put right.
const (
	BackoffFirst = 250 * time.Millisecond
	BackoffLast  = time.Minute
)

// DefaultDrain is how long running syncs may go on after the order to stop.
const DefaultDrain = 30 * time.Second

// Loop is a controller's engine: a workqueue of keys and the workers that sync them. Make one with NewLoop, register
// Handler with an informer, then Run it once.
type Loop struct {
	name    string
	sync    Sync
	limiter workqueue.TypedRateLimiter[cache.ObjectName]
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	drain   time.Duration
}

// NewLoop makes a Loop. The name stands in logs and in the workqueue's metrics.
func NewLoop(name string, sync Sync) *Loop {
	registerMetrics()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](BackoffFirst, BackoffLast)
	return &Loop{
		name:    name,
		sync:    sync,
		limiter: limiter,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name}),
		drain: DefaultDrain,
	}
}

// Enqueue puts a key on the queue. A key that waits there already is not put twice.
func (l *Loop) Enqueue(key cache.ObjectName) { l.queue.Add(key) }

// Len is how many keys wait.
func (l *Loop) Len() int { return l.queue.Len() }

// Handler gives the event handlers to register with an informer. They put keys on the queue and do nothing else.
//
// A periodic resync hands out every object as an update from itself to itself. Nothing has changed then, so it is
// dropped: what changes in the cloud is found by the Inventory's audits, and a failed key is on the queue already.
func (l *Loop) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: l.enqueueObject,
		UpdateFunc: func(was, is any) {
			if old, err := meta.Accessor(was); err == nil {
				if updated, err := meta.Accessor(is); err == nil &&
					old.GetResourceVersion() == updated.GetResourceVersion() {
					return
				}
			}
			l.enqueueObject(is)
		},
		DeleteFunc: l.enqueueObject,
	}
}

// enqueueObject understands tombstones: where the watch missed a deletion, the informer hands out a
// cache.DeletedFinalStateUnknown with the key and the last state it knew.
func (l *Loop) enqueueObject(obj any) {
	key, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		klog.Background().Error(err, "Event of an object without a key",
			"controller", l.name, "type", fmt.Sprintf("%T", obj))
		return
	}
	l.queue.Add(key)
}

// Run starts the workers and blocks until ctx is done and they have stopped: the queue hands out no more keys, running
// syncs go on for up to DefaultDrain and are then canceled. The caller makes sure that caches are synced before.
func (l *Loop) Run(ctx context.Context, workers int) error {
	if workers < 1 {
		return fmt.Errorf("%s: %d workers: there must be at least one", l.name, workers)
	}
	logger := klog.FromContext(ctx).WithValues("controller", l.name)
	logger.Info("Starting workers", "count", workers)

	// Syncs do not stop with ctx: a write that is under way is better finished than cut off with its outcome unknown.
	working, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logger))
	defer cancel()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for l.processNextWorkItem(ctx, working) {
			}
		})
	}

	<-ctx.Done()
	logger.Info("Draining", "waiting", l.queue.Len(), "atMost", l.drain)
	l.queue.ShutDown()
	stopped := make(chan struct{})
	go func() { wg.Wait(); close(stopped) }()
	timer := time.NewTimer(l.drain)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		logger.Info("Canceling syncs that are still running", "after", l.drain)
		cancel()
		<-stopped
	}
	logger.Info("Workers have stopped")
	return nil
}

// processNextWorkItem takes one key and syncs it. It returns false when the queue is shut down. Keys that still wait
// once stop is done are left: the next process finds their objects by listing them.
func (l *Loop) processNextWorkItem(stop, ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	// Until Done the queue hands the key to no other worker; if it is added meanwhile, it comes back then.
	defer l.queue.Done(key)
	if stop.Err() != nil {
		return true
	}

	logger := klog.FromContext(ctx).WithValues("object", key.String())
	result, err := l.syncRecovering(klog.NewContext(ctx, logger), key)
	switch {
	case err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil:
		logger.V(2).Info("Sync was canceled")
	case err != nil:
		pause := l.retry(key, err)
		logger.Info("Sync failed, will try again", "err", err, "failures", l.queue.NumRequeues(key), "in", pause)
	default:
		l.queue.Forget(key)
		if result.RequeueAfter > 0 {
			l.queue.AddAfter(key, result.RequeueAfter)
		}
	}
	return true
}

// retry puts a failed key back: after the pause that the error names, or with backoff.
func (l *Loop) retry(key cache.ObjectName, err error) time.Duration {
	var named interface{ RetryAfter() time.Duration }
	if errors.As(err, &named) && named.RetryAfter() > 0 {
		pause := spread(named.RetryAfter())
		l.queue.AddAfter(key, pause)
		return pause
	}
	// What AddRateLimited does, with jitter: keys that failed together should not come back together.
	pause := spread(l.limiter.When(key))
	l.queue.AddAfter(key, pause)
	return pause
}

func spread(pause time.Duration) time.Duration {
	return pause + time.Duration(rand.Int64N(int64(pause)/5+1))
}

// syncRecovering makes an error of a panic: one object that trips over a bug must not take the others' controller down.
func (l *Loop) syncRecovering(ctx context.Context, key cache.ObjectName) (result Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			panics.WithLabelValues(l.name).Inc()
			klog.FromContext(ctx).Error(nil, "Sync panicked", "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return l.sync(ctx, key)
}
