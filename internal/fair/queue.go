// Package fair has the queue that lets those who share a resource take turns.
package fair

import "slices"

// Queue is first in, first out within a flow; flows take turns. The zero value is an empty queue. It is not safe for
// concurrent use.
type Queue[F, T comparable] struct {
	waiting map[F][]T
	// turns are the flows with waiting items; the first one is next.
	turns []F
	size  int
}

// Len returns how many items wait.
func (q *Queue[F, T]) Len() int { return q.size }

// Push appends an item to a flow.
func (q *Queue[F, T]) Push(flow F, item T) {
	if q.waiting == nil {
		q.waiting = map[F][]T{}
	}
	if len(q.waiting[flow]) == 0 {
		q.turns = append(q.turns, flow)
	}
	q.waiting[flow] = append(q.waiting[flow], item)
	q.size++
}

// Peek returns the next item without removing it; ok is false if none waits.
func (q *Queue[F, T]) Peek() (item T, ok bool) {
	if q.size == 0 {
		return item, false
	}
	return q.waiting[q.turns[0]][0], true
}

// Pop removes the next item, which MUST exist, and ends its flow's turn.
func (q *Queue[F, T]) Pop() T { return q.take(0) }

// PopOf removes the first item of the next flow that may have a turn, and ends that turn. ok is false if none may.
func (q *Queue[F, T]) PopOf(may func(F) bool) (item T, ok bool) {
	at := slices.IndexFunc(q.turns, may)
	if at < 0 {
		return item, false
	}
	return q.take(at), true
}

// Has reports whether a flow that may have a turn has items.
func (q *Queue[F, T]) Has(may func(F) bool) bool { return slices.ContainsFunc(q.turns, may) }

// Remove removes an item of a flow, and reports whether it was there. It takes time in proportion to the flow's items.
func (q *Queue[F, T]) Remove(flow F, item T) bool {
	at := slices.Index(q.waiting[flow], item)
	if at < 0 {
		return false
	}
	q.size--
	q.waiting[flow] = slices.Delete(q.waiting[flow], at, at+1)
	if len(q.waiting[flow]) == 0 {
		delete(q.waiting, flow)
		turn := slices.Index(q.turns, flow)
		q.turns = slices.Delete(q.turns, turn, turn+1)
	}
	return true
}

// take removes the first item of the flow at a place in turns.
func (q *Queue[F, T]) take(at int) T {
	flow := q.turns[at]
	if at == 0 {
		q.turns = q.turns[1:]
	} else {
		q.turns = slices.Delete(q.turns, at, at+1)
	}
	items := q.waiting[flow]
	item := items[0]
	if len(items) == 1 {
		delete(q.waiting, flow)
	} else {
		var none T
		items[0] = none // lets the garbage collector free it
		q.waiting[flow] = items[1:]
		q.turns = append(q.turns, flow)
	}
	q.size--
	return item
}
