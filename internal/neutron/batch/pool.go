package batch

import (
	"maps"
	"sync"
	"weak"

	"cloudteam.ztgame.com/network-controller/internal/fair"
)

// Pools are the Pools of all clouds that a process writes to. Queues of several credentials for one Neutron share one.
// It is safe for concurrent use.
type Pools struct {
	most int

	mu sync.Mutex
	// pools do not keep alive what no Queue uses any more.
	pools map[string]weak.Pointer[pool]
}

// NewPools makes Pools that permit so many concurrent writes to each Neutron; 0 means DefaultMaxCalls.
func NewPools(most int) *Pools {
	if most <= 0 {
		most = DefaultMaxCalls
	}
	return &Pools{most: most, pools: map[string]weak.Pointer[pool]{}}
}

// of returns the pool of a Neutron.
func (p *Pools) of(neutron string) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.pools[neutron].Value(); found != nil {
		return found
	}
	maps.DeleteFunc(p.pools, func(_ string, unused weak.Pointer[pool]) bool { return unused.Value() == nil })
	made := &pool{most: p.most}
	p.pools[neutron] = weak.Make(made)
	return made
}

// pool bounds the concurrent writes of several Queues. If more are due, tenants take turns, and so do the Queues of one
// tenant. What a Queue learns from its own calls stays its own: a tenant's bad credentials slow down nobody else.
type pool struct {
	most int

	mu   sync.Mutex
	used int
	// waiting are the seats whose Queues have writes due and found no place.
	waiting fair.Queue[string, *seat]
}

// seat is a Queue's share of a pool. The pool's mu guards it.
type seat struct {
	pool   *pool
	queue  *Queue
	tenant string
	// granted counts places that the pool has handed to the Queue. waits is true while it waits for one.
	granted int
	waits   bool
}

// take takes a place for one call. If there is none, the Queue dispatches again when it gets one. A nil seat has always
// one.
func (s *seat) take() bool {
	if s == nil {
		return true
	}
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.granted > 0:
		s.granted--
	case p.used < p.most:
		p.used++
	default:
		if !s.waits {
			s.waits = true
			p.waiting.Push(s.tenant, s)
		}
		return false
	}
	return true
}

// free gives back a place. The next that waits gets it.
func (s *seat) free() {
	if s == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.pass()
}

// pass hands a place that became free to the next that waits. The caller holds mu.
func (p *pool) pass() {
	if p.waiting.Len() == 0 {
		p.used--
		return
	}
	next := p.waiting.Pop()
	next.waits = false
	next.granted++
	// The caller may hold the mu of another Queue.
	go next.dispatch()
}

// dispatch lets the Queue use what it was granted. What it has no use for goes on to others.
func (s *seat) dispatch() {
	s.queue.mu.Lock()
	s.queue.dispatch()
	s.queue.mu.Unlock()
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	for ; s.granted > 0; s.granted-- {
		s.pool.pass()
	}
}

// Join makes the Queue share the places for calls to a Neutron with all other Queues that joined it; neutron identifies
// it. It is cheap if the Queue has joined it already.
func (b *Queue) Join(pools *Pools, neutron, tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seat == nil || b.neutron != neutron {
		b.neutron, b.seat = neutron, &seat{pool: pools.of(neutron), queue: b, tenant: tenant}
	}
}
