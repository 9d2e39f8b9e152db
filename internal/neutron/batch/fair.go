package batch

// fairQueue is first in, first out within a flow; flows take turns. The zero value is an empty queue.
type fairQueue[T any] struct {
	waiting map[string][]T
	// turns are the flows with waiting items; the first one is next.
	turns []string
	size  int
}

// len returns how many items wait.
func (q *fairQueue[T]) len() int { return q.size }

// push appends an item to a flow.
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

// peek returns the next item without removing it; ok is false if none waits.
func (q *fairQueue[T]) peek() (item T, ok bool) {
	if q.size == 0 {
		return item, false
	}
	return q.waiting[q.turns[0]][0], true
}

// pop removes the next item, which MUST exist, and ends its flow's turn.
func (q *fairQueue[T]) pop() T {
	flow := q.turns[0]
	q.turns = q.turns[1:]
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
