package controller

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
)

// flow is whom a sync serves: what holds a share of the workers, and takes turns with others.
type flow struct {
	namespace string
	// backend is what the sync may wait for, such as a cloud.
	backend string
}

const (
	// flowsInBackend is how many times the workers of one flow all flows of a backend may have.
	flowsInBackend = 2
	// backendsInAll is how many times the workers of one backend all backends may have.
	backendsInAll = 2
)

// share returns how many of a number of workers one may hold beside others: all that parts allow when it is alone, and
// with others the square of what they leave. So the first ones get much, many leave something to the next one, and each
// may hold one.
func share(workers, parts, others int) int {
	left := max(workers-others, 0)
	return max(left*left/(parts*workers), 1)
}

// shares is the storage of a workqueue. It lets flows take turns, and tells whose turn it is while no flow and no
// backend may hold more than its share of the workers. The workqueue calls Touch, Push, Len and Pop under its own lock.
type shares struct {
	// name is the controller's.
	name string
	// backend tells the backend that a key's sync may wait for. It is called under the workqueue's lock.
	backend func(cache.ObjectName) string
	// changed holds an element after something made a key runnable.
	changed chan struct{}

	mu sync.Mutex
	// workers is how many one flow may hold when it is alone; 0, before Run, is no limit.
	workers int
	waiting fair.Queue[flow, cache.ObjectName]
	// of has the flows of all waiting keys, and held those of the keys that hold a worker.
	of, held  map[cache.ObjectName]flow
	byFlow    map[flow]int
	byBackend map[string]int
}

func newShares(name string) *shares {
	return &shares{
		name:      name,
		backend:   func(cache.ObjectName) string { return "" },
		changed:   make(chan struct{}, 1),
		of:        map[cache.ObjectName]flow{},
		held:      map[cache.ObjectName]flow{},
		byFlow:    map[flow]int{},
		byBackend: map[string]int{},
	}
}

// limit sets how many workers one flow may hold when it is alone.
func (s *shares) limit(workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = workers
	s.notify()
}

// notify makes the Loop look for a runnable key.
func (s *shares) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Push implements workqueue.Queue.
func (s *shares) Push(key cache.ObjectName) {
	f := flow{key.Namespace, s.backend(key)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = f
	s.waiting.Push(f, key)
	s.notify()
	if r := inspect.On(); r != nil {
		r.Record(inspect.Event{Stage: inspect.Queue, What: inspect.Waits,
			Objects: []inspect.Object{inspect.ObjectOf(s.name, key.Namespace, key.Name)},
			Facts:   []any{s.name, s.waiting.Len()}})
	}
}

// Touch implements workqueue.Queue. A waiting key keeps its place, unless its backend has changed.
func (s *shares) Touch(key cache.ObjectName) {
	f := flow{key.Namespace, s.backend(key)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.of[key]; was != f {
		s.waiting.Remove(was, key)
		s.of[key] = f
		s.waiting.Push(f, key)
		s.notify()
	}
}

// Len implements workqueue.Queue.
func (s *shares) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len()
}

// Pop implements workqueue.Queue. The key holds a worker until release.
func (s *shares) Pop() cache.ObjectName {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.waiting.PopOf(s.may)
	if !ok {
		key = s.waiting.Pop() // Touch moved the runnable key meanwhile, or nobody asked
	}
	f := s.of[key]
	delete(s.of, key)
	s.held[key] = f
	s.byFlow[f]++
	s.byBackend[f.backend]++
	return key
}

// runnable reports whether a key waits that may hold a worker now. Pop then returns such a key.
func (s *shares) runnable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Has(s.may)
}

// release ends a key's hold of a worker.
func (s *shares) release(key cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, holds := s.held[key]
	if !holds {
		return
	}
	delete(s.held, key)
	if s.byFlow[f]--; s.byFlow[f] == 0 {
		delete(s.byFlow, f)
	}
	if s.byBackend[f.backend]--; s.byBackend[f.backend] == 0 {
		delete(s.byBackend, f.backend)
	}
	s.notify()
}

// may reports whether a flow may hold one more worker. The caller holds mu.
func (s *shares) may(f flow) bool {
	if s.workers == 0 {
		return true
	}
	all, inBackend := backendsInAll*flowsInBackend*s.workers, s.byBackend[f.backend]
	ofBackend := share(all, backendsInAll, len(s.held)-inBackend)
	ofFlow := share(ofBackend, flowsInBackend, inBackend-s.byFlow[f])
	return len(s.held) < all && inBackend < ofBackend && s.byFlow[f] < ofFlow
}
