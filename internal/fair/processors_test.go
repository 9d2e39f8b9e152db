package fair

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// runs starts holders of a flow, and counts those that have a processor. end has one of them end.
type runs struct {
	*Processors
	mu  sync.Mutex
	now map[string]int
	end map[string]chan func(context.Context)
}

func (r *runs) start(ctx context.Context, flow string, n int) {
	if r.end[flow] == nil {
		r.end[flow] = make(chan func(context.Context))
	}
	for range n {
		go func() {
			within, leave := r.Enter(ctx, flow)
			if within == ctx {
				return
			}
			r.count(flow, 1)
			(<-r.end[flow])(within)
			r.count(flow, -1)
			leave()
		}()
		synctest.Wait()
	}
}

func (r *runs) count(flow string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now[flow] += n
}

func (r *runs) wants(t *testing.T, when string, want map[string]int) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.now, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(r.now, want) {
		t.Errorf("%s, %v run, want %v", when, r.now, want)
	}
}

func TestAFlowHasHalfOfTheProcessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &runs{Processors: NewProcessors(4), now: map[string]int{}, end: map[string]chan func(context.Context){}}
		r.start(ctx, "noisy", 10)
		r.wants(t, "alone", map[string]int{"noisy": 2})
		r.start(ctx, "quiet", 1)
		r.wants(t, "beside it", map[string]int{"noisy": 2, "quiet": 1})
		r.start(ctx, "third", 2)
		r.wants(t, "with all taken", map[string]int{"noisy": 2, "quiet": 1, "third": 1})
		r.end["noisy"] <- func(context.Context) {}
		r.wants(t, "after one", map[string]int{"noisy": 2, "quiet": 1, "third": 1})
		// Those that wait for an answer hold none, and go on without.
		answer := make(chan struct{})
		for range 2 {
			r.end["third"] <- func(within context.Context) { Yield(within); Yield(within); <-answer }
		}
		r.wants(t, "while two wait", map[string]int{"noisy": 2, "quiet": 1, "third": 2})
		close(answer)
		r.wants(t, "after their answers", map[string]int{"noisy": 2, "quiet": 1})
		// One that waits without Yield is taken for one that waits.
		<-time.After(longest)
		r.wants(t, "after long", map[string]int{"noisy": 4, "quiet": 1})
		cancel()
		synctest.Wait() // those that wait for a processor have left
		for range 4 {
			r.end["noisy"] <- func(context.Context) {}
		}
		r.end["quiet"] <- func(context.Context) {}
		r.wants(t, "at the end", map[string]int{})
		if r.held != 0 || len(r.byFlow) != 0 || r.waiting.Len() != 0 {
			t.Errorf("%d are held, by %v, and %d wait", r.held, r.byFlow, r.waiting.Len())
		}
		if within, leave := (*Processors)(nil).Enter(ctx, "any"); within != ctx {
			t.Error("without processors one gets a turn")
		} else {
			leave()
		}
		Yield(ctx)
	})
}

func TestOneProcessorIsEnough(t *testing.T) {
	for all, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 9: 4} {
		if got := NewProcessors(all).each; got != want {
			t.Error(fmt.Sprint("of ", all, " processors, one flow has ", got, ", want ", want))
		}
	}
}
