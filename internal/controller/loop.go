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

	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/metric"
)

// Sync reconciles one object. Its only input is the object's key. It MUST read the current state. It MUST NOT assume
// why it is called, nor that it is called once for every change. Syncs of one key never overlap.
//
// After an error, the Loop requeues the key with backoff. An error with a method RetryAfter() time.Duration sets its
// own delay. ErrStale and ErrTerminating are no failures: see there. Without an error, a positive Result.RequeueAfter
// requeues the key after that time.
type Sync func(ctx context.Context, key cache.ObjectName) (Result, error)

// Result is the request of a sync that succeeds.
type Result struct {
	// RequeueAfter, if positive, is the delay until the next sync without an event.
	RequeueAfter time.Duration
}

// The backoff of a failing key starts at BackoffFirst, doubles up to BackoffLast and stays there, with jitter. The Loop
// never drops a key, because a fault in the cloud may take a day to fix.
const (
	BackoffFirst = 250 * time.Millisecond
	BackoffLast  = time.Minute
)

// DefaultDrain is the time that running syncs have to finish after the stop.
const DefaultDrain = 30 * time.Second

// ErrDeposed is the cause that ends Run's context when another process may act from now on. Run then cancels running
// syncs at once.
var ErrDeposed = errors.New("another process may be the leader now")

// Loop is the engine of a controller. Events of informers put keys on a workqueue, and workers sync these. Make one
// with NewLoop, call Watch for each informer, then call Run once.
//
// Namespaces take turns, and each may hold a share of the workers: many or slow syncs in one namespace do not delay
// those in another. The same holds for backends; see ServeBackends.
type Loop struct {
	name    string
	sync    Sync
	limiter workqueue.TypedRateLimiter[cache.ObjectName]
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	shares  *shares // the queue's storage
	// processors are what the syncs of all Loops compute with; nil for no bound.
	processors *fair.Processors
	drain      time.Duration
	watches    []watch
	after      []later
	spreads    spreads

	mu sync.Mutex
	// paused has the keys whose last sync failed, and the time of their next sync.
	paused map[cache.ObjectName]time.Time
	// running has the keys that are being synced. The value is true if Enqueue added the key meanwhile.
	running map[cache.ObjectName]bool
}

// watch is a handler that Run registers with an informer.
type watch struct {
	informer cache.SharedInformer
	handler  cache.ResourceEventHandler
	// optional is true if syncs run before the informer's cache is full.
	optional bool
}

// later is what Run does once caches are full that it does not wait for.
type later struct {
	synced func() bool
	do     func()
}

// NewLoop makes a Loop. The name appears in logs and in the workqueue's metrics.
func NewLoop(name string, sync Sync) *Loop {
	metric.Register()
	serveAsZero(name)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](BackoffFirst, BackoffLast)
	shares := newShares(name)
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Name: name, Queue: shares})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(
		workqueue.TypedDelayingQueueConfig[cache.ObjectName]{Name: name, Queue: fair})
	return &Loop{
		name:    name,
		sync:    sync,
		limiter: limiter,
		shares:  shares,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name, DelayingQueue: delaying}),
		drain:   DefaultDrain,
		paused:  map[cache.ObjectName]time.Time{},
		running: map[cache.ObjectName]bool{},
	}
}

// ActIn has the Loop drop the keys of namespaces that are not ours: another process acts there. Syncs of the others get
// the context that ours returns. It MUST be called before Run. ours may ask the API server; after an error, the key is
// retried.
func (l *Loop) ActIn(ours func(ctx context.Context, namespace string) (within context.Context, yes bool, err error)) {
	sync := l.sync
	l.sync = func(ctx context.Context, key cache.ObjectName) (Result, error) {
		within, yes, err := ours(ctx, key.Namespace)
		if !yes || err != nil {
			return Result{}, err
		}
		return sync(within, key)
	}
}

// Compute has the syncs share processors with those of other Loops. A sync MUST call fair.Yield before it waits. If
// called, Compute MUST be called before Run.
func (l *Loop) Compute(with *fair.Processors) { l.processors = with }

// Watch makes Run register a handler with an informer, usually one of Handler or HandlerOf. The informer may already
// run. Watch MUST be called before Run.
func (l *Loop) Watch(informer cache.SharedInformer, handler cache.ResourceEventHandler) error {
	return l.watch(watch{informer: informer, handler: handler})
}

// WatchOptional is Watch for an informer whose objects may be unreadable without a reason to stop all syncs. Run and
// HasSynced do not wait until its cache is full: syncs have to ask. Use After for what they left undone.
func (l *Loop) WatchOptional(informer cache.SharedInformer, handler cache.ResourceEventHandler) error {
	return l.watch(watch{informer: informer, handler: handler, optional: true})
}

func (l *Loop) watch(w watch) error {
	if w.informer.IsStopped() {
		return fmt.Errorf("controller %s: watching: the informer has stopped", l.name)
	}
	if r := inspect.On(); r != nil {
		r.Follow(w.informer)
	}
	l.watches = append(l.watches, w)
	return nil
}

// After has Run call a function once synced reports that caches are full which were not when it started its workers. It
// MUST be called before Run.
func (l *Loop) After(synced func() bool, do func()) { l.after = append(l.after, later{synced, do}) }

// Follow registers the handlers with the informers, which replay all objects in their caches. The returned checkers are
// done when the handlers processed these; those of WatchOptional have none. Run calls Follow. Tests may call it alone
// to see what events enqueue.
func (l *Loop) Follow() ([]cache.DoneChecker, error) {
	var synced []cache.DoneChecker
	for _, w := range l.watches {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("controller %s: watching: %w", l.name, err)
		}
		if !w.optional {
			synced = append(synced, registration.HasSyncedChecker())
		}
	}
	return synced, nil
}

// HasSynced reports whether the caches of all watched informers are filled, but for those of WatchOptional.
func (l *Loop) HasSynced() bool {
	return !slices.ContainsFunc(l.watches, func(w watch) bool { return !w.optional && !w.informer.HasSynced() })
}

// Enqueue adds keys to the queue and ends their delays after failures. The queue holds each key at most once.
func (l *Loop) Enqueue(keys ...cache.ObjectName) {
	for _, key := range keys {
		l.mu.Lock()
		delete(l.paused, key)
		if _, running := l.running[key]; running {
			l.running[key] = true
			if r := inspect.On(); r != nil {
				r.Record(l.event(key, inspect.Queue, "added", ""))
			}
		}
		l.mu.Unlock()
		l.queue.Add(key)
	}
}

// add adds keys to the queue, and ends no delay.
func (l *Loop) add(keys ...cache.ObjectName) {
	for _, key := range keys {
		l.queue.Add(key)
	}
}

// ServeBackends sets what tells the backend that a key's sync may wait for, such as its cloud. All syncs of one backend
// hold only a share of the workers, so that a backend that hangs delays no other. backend is called for each key that
// is enqueued. It MUST be quick, safe for concurrent use and not call the Loop; no lock that it takes may be held while
// keys are enqueued. If called, ServeBackends MUST be called before Run.
func (l *Loop) ServeBackends(backend func(cache.ObjectName) string) { l.shares.backend = backend }

// Len is the number of keys in the queue.
func (l *Loop) Len() int { return l.queue.Len() }

// Handler returns the event handlers for the informer of the synced kind. They enqueue keys and do nothing else.
//
// They drop periodic resyncs, in which an object is updated to itself and nothing changes. The Inventory's audits find
// changes in the cloud, and a failed key is already on the queue.
//
// An update of only the status does not end the delay of a failed key. Neither does an update of only the finalizers,
// with or without annotations. Most such updates come from the sync itself. A failure written to the status must not
// cause an immediate retry.
func (l *Loop) Handler() cache.ResourceEventHandler {
	return l.HandlerOf(KeyOf)
}

// KeyOf returns the key of an object itself.
func KeyOf(obj metav1.Object) []cache.ObjectName {
	return []cache.ObjectName{cache.MetaObjectToName(obj)}
}

// KeysOf returns the keys of objects; nil for none.
func KeysOf[T metav1.Object](objects []T) (keys []cache.ObjectName) {
	for _, object := range objects {
		keys = append(keys, cache.MetaObjectToName(object))
	}
	return keys
}

// HandlerOf returns the event handlers for the informer of another kind, on whose objects the synced objects depend.
// keysOf returns the keys that an object affects. It MAY return a key twice. It is called from the informer's
// goroutine, and MUST NOT change the metadata. After an update, it is called with both states. If the watch missed a
// deletion and the last state is unknown, the metadata has only namespace and name.
//
// As with Handler, resyncs are dropped, and an update of only the status does not end a delay.
func (l *Loop) HandlerOf(keysOf func(metav1.Object) []cache.ObjectName) cache.ResourceEventHandler {
	look := func(what string) func(any) {
		return func(obj any) {
			l.recordHandler(what, obj, keysOf)
			l.enqueueOf(keysOf, obj)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: look("Add"),
		UpdateFunc: func(was, is any) {
			old, oldErr := objectOf(was)
			updated, err := objectOf(is)
			switch {
			case oldErr != nil || err != nil:
				look("Update")(is)
			case old.GetResourceVersion() == updated.GetResourceVersion():
				l.recordHandler("Resync", is, nil)
			case sameDeclaration(old, updated):
				l.recordHandler("Update of status", is, keysOf)
				l.add(append(keysOf(old), keysOf(updated)...)...)
			default:
				l.recordHandler("Update", is, keysOf)
				l.enqueueOf(keysOf, was, is)
			}
		},
		DeleteFunc: look("Delete"),
	}
}

// HandlerOfPart returns the event handlers for an informer of another kind, of which only a part matters. same reports
// whether that part is equal in both states of one object. Such an update is dropped, as resyncs are. same is called
// from the informer's goroutine and MUST NOT change the objects. keysOf is as with HandlerOf.
//
// Unlike with HandlerOf, an update of the status ends the delay of failed keys if it changes that part. The part may be
// what they failed for. So it MUST NOT include what the syncs of these keys write.
func HandlerOfPart[T metav1.Object](
	l *Loop, keysOf func(metav1.Object) []cache.ObjectName, same func(was, is T) bool,
) cache.ResourceEventHandler {
	all := l.HandlerOf(keysOf)
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { all.OnAdd(obj, false) },
		UpdateFunc: func(was, is any) {
			old, oldOK := was.(T)
			updated, ok := is.(T)
			if oldOK && ok && old.GetUID() == updated.GetUID() && same(old, updated) {
				return
			}
			l.enqueueOf(keysOf, was, is)
		},
		DeleteFunc: all.OnDelete,
	}
}

// enqueueOf enqueues the keys that states of an object affect, each once: a worker may take a key before it is enqueued
// again, and would then sync it twice.
func (l *Loop) enqueueOf(keysOf func(metav1.Object) []cache.ObjectName, states ...any) {
	seen := map[cache.ObjectName]bool{}
	var keys []cache.ObjectName
	for _, state := range states {
		object, err := objectOf(state)
		if err != nil {
			klog.Background().Error(err, "Event of an object without a key",
				"controller", l.name, "type", fmt.Sprintf("%T", state))
			continue
		}
		for _, key := range keysOf(object) {
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	l.Enqueue(keys...)
}

// objectOf unwraps tombstones. If the watch missed a deletion, the informer delivers a cache.DeletedFinalStateUnknown
// with the key and usually the last known state.
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

// sameDeclaration reports whether an update leaves the users' part of an object unchanged. For a kind without
// generations this is unknown, so each state counts as a change.
func sameDeclaration(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() &&
		a.GetGeneration() == b.GetGeneration() && a.GetGeneration() != 0 &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		(maps.Equal(a.GetAnnotations(), b.GetAnnotations()) || !slices.Equal(a.GetFinalizers(), b.GetFinalizers()))
}

// Run registers the handlers with the informers and starts the workers. It blocks until ctx is done and they have
// stopped. The informers MUST be running. workers is how many syncs of one namespace may run at the same time. Twice as
// many may run for one backend, and four times as many in all; when others run, a namespace or backend gets less. When
// ctx is done, no more syncs start. Running syncs have DefaultDrain to finish before they are canceled. If the cause is
// ErrDeposed, they are canceled at once.
//
// The queue is empty before Run. A standby process may run its informers for months, and the keys of all past Pods
// would accumulate. At its start, Run enqueues all existing objects anyway.
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

	// Syncs do not stop with ctx. It is better to finish a write than to cancel it with an unknown result.
	working, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logger))
	defer cancel()
	var wg sync.WaitGroup
	l.shares.limit(workers)
	maxWorkers.WithLabelValues(l.name).Set(float64(workers * flowsInBackend * backendsInAll))
	for _, a := range l.after {
		if a.synced() {
			continue // before the first sync
		}
		wg.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), a.synced) {
				a.do()
			}
		})
	}
	l.dispatch(ctx, func(key cache.ObjectName) { wg.Go(func() { l.process(working, key) }) })

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

// dispatch starts a worker for each key whose turn it is, until ctx is done. A worker serves one key, so workers that
// are not needed cost nothing. The next process lists the objects whose keys are left.
//
// Controllers often have a fixed number of goroutines instead, each of which takes keys in a loop (runWorker,
// processNextWorkItem). With those, a key is taken before it is known whether its tenant may have one more worker.
func (l *Loop) dispatch(ctx context.Context, start func(cache.ObjectName)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.shares.changed:
		}
		// The queue never blocks here, because only this goroutine takes keys.
		for ctx.Err() == nil && l.shares.runnable() {
			key, _ := l.queue.Get()
			start(key)
		}
	}
}

// process syncs a key. What logs, metrics, traces and the page of the inspection see of it is in observe.go.
func (l *Loop) process(ctx context.Context, key cache.ObjectName) {
	// Until Done, the queue gives the key to no other worker. If the key is added meanwhile, it returns after Done.
	defer l.queue.Done(key)
	defer l.shares.release(key)
	if !l.begin(key) {
		return
	}
	defer l.end(key)

	within, observed := l.observe(ctx, key)
	l.recordStart(key)
	within, leave := l.processors.Enter(within, key.Namespace)
	defer leave()
	observed.starts()
	result, err := l.syncRecovering(within, key)
	observed.returns()
	l.recordEnd(key, result, err)
	canceled := errors.Is(err, context.Canceled) && ctx.Err() != nil
	observed.ends(l.requeue(key, result, err, canceled), err)
}

// outcome is how a sync ended, and after what pause its key returns. A canceled sync has failed and has no pause.
type outcome struct {
	result string
	pause  time.Duration
}

// requeue has a key whose sync ended return, or not, and forgets its failures or counts one more.
func (l *Loop) requeue(key cache.ObjectName, result Result, err error, canceled bool) outcome {
	switch {
	case canceled:
		return outcome{result: resultError}
	case errors.Is(err, ErrTerminating):
		l.queue.Forget(key)
	case errors.Is(err, ErrStale):
		l.queue.Forget(key)
		l.queue.AddAfter(key, StalePause)
		l.recordPause(key, inspect.Later, StalePause, "stale")
		return outcome{resultRequeue, StalePause}
	case err != nil:
		return outcome{resultError, l.retry(key, err)}
	default:
		l.queue.Forget(key)
		if result.RequeueAfter > 0 {
			l.queue.AddAfter(key, result.RequeueAfter)
			l.recordPause(key, inspect.Later, result.RequeueAfter, "")
			return outcome{resultRequeueAfter, result.RequeueAfter}
		}
	}
	return outcome{result: resultSuccess}
}

// begin marks a key as running. If the key's delay has not ended, it returns false and requeues the key for that time.
// The queue keeps only one time per key, which may come from an earlier and shorter delay.
func (l *Loop) begin(key cache.ObjectName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := time.Until(l.paused[key]); left > 0 {
		l.queue.AddAfter(key, left)
		l.recordPause(key, inspect.BacksOff, left, "again")
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

// retry requeues a failed key, after the delay that the error names or with backoff.
func (l *Loop) retry(key cache.ObjectName, err error) time.Duration {
	pause := retryAfter(err)
	if pause <= 0 {
		pause = l.limiter.When(key)
	}
	// The jitter spreads keys that failed together.
	pause = spread(pause)
	l.mu.Lock()
	if !l.running[key] {
		l.paused[key] = time.Now().Add(pause)
	}
	l.mu.Unlock()
	l.queue.AddAfter(key, pause)
	l.recordPause(key, inspect.BacksOff, pause, "")
	return pause
}

// retryAfter returns the longest delay that the error or an error in its tree names, or 0.
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

// syncRecovering turns a panic into an error, so that one object's panic does not stop the whole controller.
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
