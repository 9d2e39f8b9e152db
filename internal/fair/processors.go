package fair

import (
	"context"
	"sync"
	"time"
)

// Processors are what those share that compute, or that have a server compute for them. Of the flows, such as the
// tenants' namespaces, one has at most half of them. A sync that waits for an answer holds none of this process's: a
// share of those that wait is no share of what they cost.
//
// A holder gives its processor back at its first wait, see Yield, and gets none again: so none waits for a processor
// while it holds something that others need. A nil *Processors lets all run. It is safe for concurrent use.
type Processors struct {
	all, each int

	mu      sync.Mutex
	held    int
	byFlow  map[string]int
	waiting Queue[string, *turn]
}

// turn is one that waits for a processor, or holds one.
type turn struct {
	flow  string
	comes chan struct{}
	end   func()
}

// longest is how long one may hold a processor, in case that it waits without Yield.
const longest = time.Second

// NewProcessors shares a number of processors, such as runtime.GOMAXPROCS.
func NewProcessors(all int) *Processors {
	return &Processors{all: all, each: max(all/2, 1), byFlow: map[string]int{}}
}

type turnKey struct{}

// Enter waits for a processor for a flow. The holder passes the returned context to what it calls, and MUST call leave.
// If ctx ends before, it holds none.
func (p *Processors) Enter(ctx context.Context, flow string) (within context.Context, leave func()) {
	if p == nil {
		return ctx, func() {}
	}
	t := &turn{flow: flow, comes: make(chan struct{})}
	p.mu.Lock()
	p.waiting.Push(flow, t)
	p.next()
	p.mu.Unlock()
	select {
	case <-t.comes:
	case <-ctx.Done():
		p.mu.Lock()
		left := p.waiting.Remove(flow, t)
		p.mu.Unlock()
		if left {
			return ctx, func() {}
		}
	}
	t.end = sync.OnceFunc(func() { p.leave(flow) })
	watch := time.AfterFunc(longest, t.end)
	return context.WithValue(ctx, turnKey{}, t), func() { watch.Stop(); t.end() }
}

// Yield gives back the processor that the holder of a context has, because it waits now. Without one it does nothing.
func Yield(ctx context.Context) {
	if t, ok := ctx.Value(turnKey{}).(*turn); ok {
		t.end()
	}
}

func (p *Processors) leave(flow string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.byFlow[flow]--; p.byFlow[flow] == 0 {
		delete(p.byFlow, flow)
	}
	p.next()
}

// next gives processors to those whose turn it is. The caller holds mu.
func (p *Processors) next() {
	may := func(flow string) bool { return p.byFlow[flow] < p.each }
	for p.held < p.all {
		t, ok := p.waiting.PopOf(may)
		if !ok {
			return
		}
		p.held++
		p.byFlow[t.flow]++
		close(t.comes)
	}
}
