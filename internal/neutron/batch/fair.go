package batch

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
