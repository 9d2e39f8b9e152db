package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// ErrDeposed tells, as the cause with which Run's context ends, that another process may act from now on. Running syncs
// are canceled at once then.
var ErrDeposed = errors.New("another process may be the leader now")

// Loop is a controller's engine: a workqueue of keys, the informers whose events put keys on it, and the workers that
// sync them. Make one with NewLoop, have it Watch informers, then Run it once.
type Loop struct {
	name    string
	sync    Sync
	limiter workqueue.TypedRateLimiter[cache.ObjectName]
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	drain   time.Duration
	watches []watch

	mu sync.Mutex
	// paused are the keys whose last sync failed, and when the next is due.
	paused map[cache.ObjectName]time.Time
	// running are the keys that are being synced; true where a reason came up meanwhile to look again at once.
	running map[cache.ObjectName]bool
}

// watch is handlers that Run registers with an informer.
type watch struct {
	informer cache.SharedInformer
	handler  cache.ResourceEventHandler
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
		drain:   DefaultDrain,
		paused:  map[cache.ObjectName]time.Time{},
		running: map[cache.ObjectName]bool{},
	}
}

// Watch has Run register handlers, those of Handler or HandlerOf as a rule, with an informer, which may run already. It
// MUST be called before Run.
func (l *Loop) Watch(informer cache.SharedInformer, handler cache.ResourceEventHandler) error {
	if informer.IsStopped() {
		return fmt.Errorf("controller %s: watching: the informer has stopped", l.name)
	}
	l.watches = append(l.watches, watch{informer, handler})
	return nil
}

// Follow registers the handlers with the informers, which hand out all that they hold, and returns what is done when
// that was handled. Run does it; by itself it serves to see what events put on the queue.
func (l *Loop) Follow() ([]cache.DoneChecker, error) {
	var synced []cache.DoneChecker
	for _, w := range l.watches {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("controller %s: watching: %w", l.name, err)
		}
		synced = append(synced, registration.HasSyncedChecker())
	}
	return synced, nil
}

// HasSynced reports whether the caches of all informers that are watched are filled.
func (l *Loop) HasSynced() bool {
	return !slices.ContainsFunc(l.watches, func(w watch) bool { return !w.informer.HasSynced() })
}

// Enqueue puts a key on the queue, and ends the pause after a failure. A key that waits there already is not put twice.
func (l *Loop) Enqueue(key cache.ObjectName) {
	l.mu.Lock()
	delete(l.paused, key)
	if _, running := l.running[key]; running {
		l.running[key] = true
	}
	l.mu.Unlock()
	l.queue.Add(key)
}

// Len is how many keys wait.
func (l *Loop) Len() int { return l.queue.Len() }

// Handler gives the event handlers to register with the informer of the kind that is synced. They put keys on the queue
// and do nothing else.
//
// A periodic resync hands out every object as an update from itself to itself. Nothing has changed then, so it is
// dropped: what changes in the cloud is found by the Inventory's audits, and a failed key is on the queue already.
//
// An update of no more than the status, or the finalizers with what annotations come along, does not end the pause of a
// key that failed. Most such updates are the sync's own, and a failure that is written down must not be the reason to
// try again at once.
func (l *Loop) Handler() cache.ResourceEventHandler {
	return l.HandlerOf(func(obj metav1.Object) []cache.ObjectName {
		return []cache.ObjectName{cache.MetaObjectToName(obj)}
	})
}

// HandlerOf gives the event handlers to register with the informer of another kind, on whose objects the synced ones
// depend. keysOf names the keys that an object concerns; it is called from the informer's goroutine with metadata that
// it MUST NOT change, after an update with those of both states. Of an object whose deletion was missed and whose last
// state is unknown it gets namespace and name alone.
//
// As with Handler, resyncs are dropped, and an update of no more than the status does not end a pause.
func (l *Loop) HandlerOf(keysOf func(metav1.Object) []cache.ObjectName) cache.ResourceEventHandler {
	look := func(obj any) {
		object, err := objectOf(obj)
		if err != nil {
			klog.Background().Error(err, "Event of an object without a key",
				"controller", l.name, "type", fmt.Sprintf("%T", obj))
			return
		}
		for _, key := range keysOf(object) {
			l.Enqueue(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: look,
		UpdateFunc: func(was, is any) {
			old, oldErr := objectOf(was)
			updated, err := objectOf(is)
			switch {
			case oldErr != nil || err != nil:
				look(is)
			case old.GetResourceVersion() == updated.GetResourceVersion():
			case sameDeclaration(old, updated):
				for _, key := range append(keysOf(old), keysOf(updated)...) {
					l.queue.Add(key)
				}
			default:
				look(was)
				look(is)
			}
		},
		DeleteFunc: look,
	}
}

// objectOf understands tombstones: where the watch missed a deletion, the informer hands out a
// cache.DeletedFinalStateUnknown with the key and, as a rule, the last state it knew.
func objectOf(obj any) (metav1.Object, error) {
	tombstone, ok := obj.(cache.DeletedFinalStateUnknown)
	if !ok {
		return meta.Accessor(obj)
	}
	if last, err := meta.Accessor(tombstone.Obj); err == nil {
		return last, nil
	}
	key, err := cache.ParseObjectName(tombstone.Key)
	return &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, err
}

// sameDeclaration reports whether what users say with an object is the same in both of its states. Objects of a kind
// without generations do not tell, so that each state is taken for a new one.
func sameDeclaration(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() &&
		a.GetGeneration() == b.GetGeneration() && a.GetGeneration() != 0 &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		(maps.Equal(a.GetAnnotations(), b.GetAnnotations()) || !slices.Equal(a.GetFinalizers(), b.GetFinalizers()))
}

// Run registers the handlers with the informers, which have to be running and hand out all that they hold, starts the
// workers, and blocks until ctx is done and they have stopped: the queue hands out no more keys, running syncs go on
// for up to DefaultDrain and are then canceled; at once, where the cause of ctx's end is ErrDeposed.
//
// Of what happened before Run nothing is on the queue. A process may stand by for months with its informers running:
// the keys of all Pods that ever were would pile up there, and at last all objects are looked at anyway.
func (l *Loop) Run(ctx context.Context, workers int) error {
	if workers < 1 {
		return fmt.Errorf("%s: %d workers: there must be at least one", l.name, workers)
	}
	logger := klog.FromContext(ctx).WithValues("controller", l.name)
	if ctx.Err() != nil {
		l.queue.ShutDown()
		return nil // the informers may have stopped, too
	}
	synced, err := l.Follow()
	if err != nil {
		l.queue.ShutDown()
		return err
	}
	if !cache.WaitFor(ctx, "", synced...) {
		l.queue.ShutDown()
		return nil // ctx is done
	}
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
	if errors.Is(context.Cause(ctx), ErrDeposed) {
		cancel()
	}
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
	if !l.begin(key) {
		return true
	}
	defer l.end(key)

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

// begin marks a key as running. It returns false where the key is not due yet, and sees to it that it comes back when
// it is: the queue keeps one time for a key, and that may have been the end of an earlier pause.
func (l *Loop) begin(key cache.ObjectName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.paused[key]); left > 0 {
		l.queue.AddAfter(key, left)
		return false
	}
	delete(l.paused, key)
	l.running[key] = false
	return true
}

func (l *Loop) end(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, key)
}

// retry puts a failed key back: after the pause that the error names, or with backoff.
func (l *Loop) retry(key cache.ObjectName, err error) time.Duration {
	pause := retryAfter(err)
	if pause <= 0 {
		pause = l.limiter.When(key)
	}
	// Keys that failed together should not come back together.
	pause = spread(pause)
	l.mu.Lock()
	if !l.running[key] {
		l.paused[key] = time.Now().Add(pause)
	}
	l.mu.Unlock()
	l.queue.AddAfter(key, pause)
	return pause
}

// retryAfter gives the longest pause that an error, or one of those that it wraps, names; 0 where none does.
func retryAfter(err error) time.Duration {
	var longest time.Duration
	if named, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		longest = max(longest, named.RetryAfter())
	}
	switch wrapper := err.(type) { //nolint:errorlint // all of the tree is walked
	case interface{ Unwrap() error }:
		if wrapped := wrapper.Unwrap(); wrapped != nil {
			longest = max(longest, retryAfter(wrapped))
		}
	case interface{ Unwrap() []error }:
		for _, wrapped := range wrapper.Unwrap() {
			longest = max(longest, retryAfter(wrapped))
		}
	}
	return longest
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
