// Package fair has the queue that lets those who share a resource take turns.
package fair

import "container/list"

// Queue is first in, first out within a flow; flows take turns. The zero value is an empty queue. It is not safe for
// concurrent use.
type Queue[F, T comparable] struct {
	// turns are the *line of the flows with waiting items; the first one is next.
	turns list.List
	lines map[F]*list.Element
	// places are where the items wait in their lines. They make Remove cost the same whatever else waits: a tenant chooses
	// how much that is, and others wait for the lock meanwhile.
	places map[T]*list.Element
}

// line is the waiting items of a flow.
type line[F any] struct {
	flow  F
	items list.List
}

// Len returns how many items wait.
func (q *Queue[F, T]) Len() int { return len(q.places) }

// Push appends an item to a flow. It MUST NOT wait already.
func (q *Queue[F, T]) Push(flow F, item T) {
	if q.places == nil {
		q.lines, q.places = map[F]*list.Element{}, map[T]*list.Element{}
	}
	turn, ok := q.lines[flow]
	if !ok {
		turn = q.turns.PushBack(&line[F]{flow: flow})
		q.lines[flow] = turn
	}
	q.places[item] = lineOf[F](turn).items.PushBack(item)
}

// Peek returns the next item without removing it; ok is false if none waits.
func (q *Queue[F, T]) Peek() (item T, ok bool) {
	if q.Len() == 0 {
		return item, false
	}
	return firstOf[F, T](q.turns.Front()), true
}

// Pop removes the next item, which MUST exist, and ends its flow's turn.
func (q *Queue[F, T]) Pop() T { return q.take(q.turns.Front()) }

// PopOf removes the first item of the next flow that may have a turn, and ends that turn. ok is false if none may.
func (q *Queue[F, T]) PopOf(may func(F) bool) (item T, ok bool) {
	turn := q.next(may)
	if turn == nil {
		return item, false
	}
	return q.take(turn), true
}

// Has reports whether a flow that may have a turn has items.
func (q *Queue[F, T]) Has(may func(F) bool) bool { return q.next(may) != nil }

// Remove removes an item of a flow, and reports whether it was there.
func (q *Queue[F, T]) Remove(flow F, item T) bool {
	turn, place := q.lines[flow], q.places[item]
	if turn == nil || place == nil {
		return false
	}
	of := lineOf[F](turn)
	before := of.items.Len()
	if of.items.Remove(place); of.items.Len() == before {
		return false // it waits in another flow
	}
	delete(q.places, item)
	if of.items.Len() == 0 {
		q.turns.Remove(turn)
		delete(q.lines, flow)
	}
	return true
}

// next returns the turn of the next flow that may have one, or nil.
func (q *Queue[F, T]) next(may func(F) bool) *list.Element {
	for turn := q.turns.Front(); turn != nil; turn = turn.Next() {
		if may(lineOf[F](turn).flow) {
			return turn
		}
	}
	return nil
}

// take removes the first item of a flow, and ends the flow's turn.
func (q *Queue[F, T]) take(turn *list.Element) T {
	item := firstOf[F, T](turn)
	q.turns.MoveToBack(turn)
	q.Remove(lineOf[F](turn).flow, item)
	return item
}

func lineOf[F any](turn *list.Element) *line[F] { return turn.Value.(*line[F]) }

func firstOf[F, T any](turn *list.Element) T { return lineOf[F](turn).items.Front().Value.(T) }
