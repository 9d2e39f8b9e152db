package client

import (
	"fmt"
	"net/http"
	"sync"
)

// itemCost is, in bytes, what an item of a list counts at least: about what it takes when it is decoded. Neutron's own
// networks and ports have more bytes of JSON.
const itemCost = 512

// valueCost is, in bytes, what each value of an answer counts. Neutron's values have about as many bytes. A hostile
// cloud may send millions of one byte, and each takes more when it is decoded.
const valueCost = 32

// Memory limits what the lists of several clouds take together, so that no cloud, and no tenant with several, uses up
// this process's memory. Each tenant has a share. It is safe for concurrent use. A nil Memory has no limit.
type Memory struct {
	total, share int64
	// reserve is what each tenant may have although the others have taken all.
	reserve int64

	mu   sync.Mutex
	used int64
	of   map[string]int64
}

// NewMemory returns a Memory of so many bytes, of which one tenant may have a share. Some tenants together may have
// all, but for a small reserve of each.
func NewMemory(total, share int64) *Memory {
	return &Memory{total: total, share: share, reserve: share / 32, of: map[string]int64{}}
}

// take takes bytes for a tenant. It returns why it does not.
func (m *Memory) take(tenant string, bytes int64) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.of[tenant]+bytes > m.share:
		return fmt.Errorf("the lists of this namespace's clouds together are %w. Use fewer clouds, or smaller projects, or "+
			"ask the operator to raise --max-clouds", &tooLarge{m.share})
	case m.used+bytes > m.total && m.of[tenant]+bytes > m.reserve:
		return fmt.Errorf("the lists of all namespaces' clouds together are %w. Retries when there is room. Ask the "+
			"operator to raise --max-clouds", &tooLarge{m.total})
	}
	m.used += bytes
	m.of[tenant] += bytes
	return nil
}

func (m *Memory) give(tenant string, bytes int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	if m.of[tenant] -= bytes; m.of[tenant] == 0 {
		delete(m.of, tenant)
	}
}

// lists is what the lists of one Cloud take of a Memory.
type lists struct {
	memory *Memory
	tenant string

	mu sync.Mutex
	// kept is what each complete list took last, by its operation: its items are used until the next one.
	kept  map[string]int64
	ended bool
}

// reading is a list that is being read.
type reading struct {
	of    *lists
	bytes int64
}

// add takes memory for a page.
func (r *reading) add(op string, cost int64) error {
	if err := r.of.memory.take(r.of.tenant, cost); err != nil {
		return BadAnswer(op, http.MethodGet, "%v", err)
	}
	r.bytes += cost
	return nil
}

// drop gives the memory back.
func (r *reading) drop() {
	r.of.memory.give(r.of.tenant, r.bytes)
	r.bytes = 0
}

// keep holds the memory until the next list of the operation is kept.
func (r *reading) keep(op string) {
	l := r.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.memory == nil {
		r.drop()
		return
	}
	l.memory.give(l.tenant, l.kept[op])
	l.kept[op], r.bytes = r.bytes, 0
}

// end gives back all that is kept, now and later.
func (l *lists) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for op, bytes := range l.kept {
		l.memory.give(l.tenant, bytes)
		delete(l.kept, op)
	}
	l.ended = true
}
