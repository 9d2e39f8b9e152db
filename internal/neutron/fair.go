package neutron

import (
	"context"
	"iter"
)

// flowKey is the key under which WithFlow keeps a flow.
type flowKey struct{}

// WithFlow names on whose behalf calls to a cloud are made, by a namespace as a rule. Where more calls wait than may be
// under way, flows take turns (as in Kubernetes' API Priority and Fairness, whose word it is): a thousand creates of
// one namespace do not make the one of another wait for all of them. Calls without a flow share one.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

func flowOf(ctx context.Context) string {
	flow, _ := ctx.Value(flowKey{}).(string)
	return flow
}

// fairQueue is first in, first out within a flow, and flows take turns. The zero value is empty.
type fairQueue[T any] struct {
	waiting map[string][]T
	// turns are the flows in which something waits; the first one is the next.
	turns []string
	size  int
}

// len is how many wait.
func (q *fairQueue[T]) len() int { return q.size }

// push adds to the end of a flow.
func (q *fairQueue[T]) push(flow string, item T) {
	if q.waiting == nil {
		q.waiting = map[string][]T{}
	}
	if len(q.waiting[flow]) == 0 {
		q.turns = append(q.turns, flow)
	}
	q.waiting[flow] = append(q.waiting[flow], item)
	q.size++
}

// all are those that wait, in no order.
func (q *fairQueue[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, items := range q.waiting {
			for _, item := range items {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// peek gives the next one and leaves it; ok is false where none waits.
func (q *fairQueue[T]) peek() (item T, ok bool) {
	if q.size == 0 {
		return item, false
	}
	return q.waiting[q.turns[0]][0], true
}

// pop takes the next one, which MUST be there, and ends its flow's turn.
func (q *fairQueue[T]) pop() T {
	flow := q.turns[0]
	q.turns = q.turns[1:]
	items := q.waiting[flow]
	item := items[0]
	if len(items) == 1 {
		delete(q.waiting, flow)
	} else {
		var none T
		items[0] = none // what was taken is not kept alive by what waits
		q.waiting[flow] = items[1:]
		q.turns = append(q.turns, flow)
	}
	q.size--
	return item
}
