package batch

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Queue stands between many workers and one cloud, and sends what they write in few, large calls:
//
//   - Creates in one collection that wait together go as one (bulk), which is atomic in Neutron. One that is refused is
//     halved until the bad items stand alone and the good ones are through (bulk.go).
//   - The number of writes under way follows what the cloud can do (limiter). What is more waits here, at the price of
//     a goroutine, and flows take turns.
//   - A call that gets no answer for long does not keep others from being sent.
//
// It sends nothing twice whose outcome it does not know: that is for a caller who has looked. Reads are not its
// business.
//
// All methods are safe for concurrent use.
type Queue struct {
	options Options

	mu      sync.Mutex
	limiter *limiter
	// underway are the calls that count against the limit. overdue are those that do so no more, having been on their
	// way for longer than calls take.
	underway, overdue int
	// full is when as many were under way, last, as may be.
	full time.Time
	// lines are the creates that wait, by collection; others are the writes that wait and are no creates.
	lines  []*line
	others fairQueue[*pendingWrite]
	// turn is where the next one is looked for first: an index into lines, or len(lines) for others.
	turn int
	// busy is when a create last came in, or a call ended that created several, whose callers come back with more.
	busy time.Time
	// suspects are how many creates may go in one call with one that failed among several, by key.
	suspects map[string]suspect
	// rest is until when the cloud has asked not to be written to.
	rest time.Time
}

// Item is a create.
type Item struct {
	// Op is what is tried, such as "create network". Items of one Collection have the same.
	Op string
	// Collection is where the resource is created. Where it has no Bulk, each of its items goes alone.
	Collection client.Collection
	// Key tells this create from all others, when it is tried again, too.
	Key string
	// Flow names on whose behalf it is made, by a namespace as a rule. Where more items wait than may be under way, flows
	// take turns (as in Kubernetes' API Priority and Fairness, whose word it is): a thousand creates of one namespace do
	// not make the one of another wait for all of them. Items without a flow share one.
	Flow string
	// Alone, where set, is asked when the item's turn comes whether it goes in a call by itself. It MUST be quick and MUST
	// NOT call the Queue.
	Alone func() bool
	Body  map[string]any
}

// Options tune a Queue.
type Options struct {
	// MaxCalls bounds the writes that are under way at a time, whatever the cloud's speed allows; 0 means
	// DefaultMaxCalls.
	MaxCalls int
	// Post sends the creates of one call, all or none, and returns what was made in their order. It is required.
	Post func(ctx context.Context, op string, of client.Collection, bodies []map[string]any) ([]json.RawMessage, error)
	// Refused, where set, is told why a call with several items failed. It returns whether they go one by one from there
	// on, and not by halves. It MUST be quick and safe for concurrent use.
	Refused func(of client.Collection, items []Item, err error) (oneByOne bool)
}

const (
	// DefaultMaxCalls bounds the writes to a cloud that are under way at a time, whatever its speed allows.
	DefaultMaxCalls = 16
	// maxBatch is how many creates go into one call. Neutron's cost is per resource by then, and a longer call holds up
	// for longer what comes after it.
	maxBatch = 25
	// batchWindow is how long a create waits for others to come along, where others have been about for the last moment.
	batchWindow = 5 * time.Millisecond
	busyFor     = 10 * time.Millisecond
	// patience is how long a call counts against the limit, beside patienceTimes what such calls take at the best.
	patience      = 5 * time.Second
	patienceTimes = 10
)

// line is where the creates in one collection wait.
type line struct {
	of    client.Collection
	queue fairQueue[*pendingCreate]
	// due is when they go, however few they are. The timer is set to it.
	due   time.Time
	timer *time.Timer
}

// place is the state of a write between its caller and the Queue. The Queue's mu guards it.
type place struct {
	ctx context.Context
	// taken is true once its turn has come; left, once its caller has gone.
	taken, left bool
}

// pendingWrite is a write that its caller sends when its turn comes.
type pendingWrite struct {
	place
	op   string
	turn chan turn // takes one
}

// turn is a place among the calls under way, or why there is none.
type turn struct {
	slot *slot
	err  *client.Error
}

// pendingCreate is an Item that waits or is on its way.
type pendingCreate struct {
	Item
	place
	// most is how many may go in one call with it, itself included.
	most   int
	result chan created
}

// created is what became of a create: the resource as Neutron's JSON, or an *Error.
type created struct {
	made json.RawMessage
	err  error
}

// New makes a Queue.
func New(options Options) *Queue {
	if options.MaxCalls <= 0 {
		options.MaxCalls = DefaultMaxCalls
	}
	if options.Refused == nil {
		options.Refused = func(client.Collection, []Item, error) bool { return false }
	}
	return &Queue{options: options, limiter: newLimiter(options.MaxCalls, time.Now()), suspects: map[string]suspect{}}
}

// Create has a resource created, with what others create at the time, and returns it as Neutron's JSON. Its error is
// the item's own, an *client.Error.
func (b *Queue) Create(ctx context.Context, item Item) (json.RawMessage, error) {
	c := &pendingCreate{Item: item, place: place{ctx: ctx}, most: 1, result: make(chan created, 1)}
	op := item.Op
	b.mu.Lock()
	if item.Collection.Bulk {
		c.most = b.mostWith(item.Key)
	}
	b.enter(c)
	b.dispatch()
	b.mu.Unlock()

	select {
	case o := <-c.result:
		return o.made, o.err
	case <-ctx.Done():
		return nil, b.leave(ctx, &c.place, op)
	}
}

// Write has send called when the turn of its flow comes, unless ctx ends first, and returns its error. op is what it
// tries.
func (b *Queue) Write(ctx context.Context, op, flow string, send func() error) error {
	w := &pendingWrite{place: place{ctx: ctx}, op: op, turn: make(chan turn, 1)}
	b.mu.Lock()
	b.others.push(flow, w)
	b.dispatch()
	b.mu.Unlock()

	var t turn
	select {
	case t = <-w.turn:
	case <-ctx.Done():
		if err := b.leave(ctx, &w.place, op); !err.MaybeDone {
			return err
		}
		t = <-w.turn // it came at the same time; send ends soon
	}
	if t.err != nil {
		return t.err
	}
	err := errUnfinished // of one that panics
	defer func() { t.slot.end(err) }()
	err = send()
	return err
}

var errUnfinished = errors.New("the write did not come to its end")

// Reset has it forget what it learned of a cloud: what is written from now on goes to another. What is still under way
// teaches it nothing any more.
func (b *Queue) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limiter = newLimiter(b.limiter.most, time.Now())
	b.rest = time.Time{}
	clear(b.suspects)
}

// leave ends the wait of a caller whose context has ended. Its error leaves open what becomes of a write that is on its
// way already.
func (b *Queue) leave(ctx context.Context, p *place, op string) *client.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.left = true
	e := client.Interrupted(op, ctx.Err())
	e.MaybeDone = p.taken
	return e
}

// enter puts a create in its line. The caller holds mu.
func (b *Queue) enter(c *pendingCreate) {
	at := slices.IndexFunc(b.lines, func(l *line) bool { return l.of == c.Collection })
	if at < 0 {
		at = len(b.lines)
		b.lines = append(b.lines, &line{of: c.Collection})
	}
	l := b.lines[at]
	now := time.Now()
	if l.queue.len() == 0 {
		l.due = now
		if now.Sub(b.busy) < busyFor {
			l.due = now.Add(batchWindow)
		}
	}
	b.busy = now
	l.queue.push(c.Flow, c)
}

// dispatch sends what may be sent. The caller holds mu.
func (b *Queue) dispatch() {
	if left := time.Until(b.rest); left > 0 {
		b.turnAway(left)
		return
	}
	for b.underway < b.limiter.limit() && b.underway+b.overdue < b.limiter.most {
		if !b.sendNext() {
			return
		}
	}
}

// turnAway ends the wait of all: the cloud is to be left alone for that long, and a worker has better things to do. The
// caller holds mu.
func (b *Queue) turnAway(rest time.Duration) {
	refusal := func(op string) *client.Error {
		return &client.Error{
			Kind: client.Throttled, Op: op, Reason: "rate limited by Neutron (Retry-After)", Wait: rest,
		}
	}
	for b.others.len() > 0 {
		w := b.others.pop()
		w.taken = true
		w.turn <- turn{err: refusal(w.op)}
	}
	for _, l := range b.lines {
		for l.queue.len() > 0 {
			c := l.queue.pop()
			c.taken = true
			c.result <- created{err: refusal(c.Op)}
		}
	}
}

// sendNext sends the next call, by turns; false where none waits that is due. The caller holds mu.
func (b *Queue) sendNext() bool {
	for range len(b.lines) + 1 {
		at := b.turn
		b.turn = (b.turn + 1) % (len(b.lines) + 1)
		if at == len(b.lines) {
			for b.others.len() > 0 {
				if w := b.others.pop(); !w.left {
					w.taken = true
					w.turn <- turn{slot: b.begin(w.op, 1)}
					return true
				}
			}
			continue
		}
		l := b.lines[at]
		if !b.isDue(l) {
			continue
		}
		if batch := b.next(l); len(batch) > 0 {
			go b.send(b.begin(batch[0].Op, len(batch)), l, batch)
			return true
		}
	}
	return false
}

// isDue reports whether a line's first creates are to go, and sees to it that they do when they are. The caller holds
// mu.
func (b *Queue) isDue(l *line) bool {
	if l.queue.len() == 0 {
		return false
	}
	left := time.Until(l.due)
	if left <= 0 || l.queue.len() >= maxBatch {
		return true
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(left, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.dispatch()
		})
	} else {
		l.timer.Reset(left)
	}
	return false
}

// next takes those from the line that go in one call: as many as each of them bears, all of them for one project. The
// caller holds mu.
func (b *Queue) next(l *line) []*pendingCreate {
	var batch []*pendingCreate
	most := maxBatch
	for len(batch) < most {
		c, ok := l.queue.peek()
		if !ok {
			break
		}
		if !c.left {
			if most = min(most, c.mostNow()); len(batch) >= most || len(batch) > 0 && !together(batch[0], c) {
				break
			}
			c.taken = true
			batch = append(batch, c)
		}
		l.queue.pop()
	}
	return batch
}

// mostNow is how many may go in one call with a create whose turn has come.
func (c *pendingCreate) mostNow() int {
	if c.Alone != nil && c.Alone() {
		return 1
	}
	return c.most
}

// slot is the place of a call among those that are under way.
type slot struct {
	queue *Queue
	// limiter is what learns from it.
	limiter *limiter
	class   class
	began   time.Time
	// overdue is set when it counts no more, by the timer. The Queue's mu guards it.
	overdue bool
	timer   *time.Timer
}

// begin begins a call. The caller holds mu.
func (b *Queue) begin(op string, items int) *slot {
	b.underway++
	s := &slot{queue: b, limiter: b.limiter, class: classOf(op, items), began: time.Now()}
	if b.underway >= b.limiter.limit() {
		b.full = s.began
	}
	s.timer = time.AfterFunc(patience+patienceTimes*b.limiter.usual(s.class), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s.timer != nil {
			s.overdue = true
			b.underway--
			b.overdue++
			b.dispatch()
		}
	})
	return s
}

// end ends a call, and learns from how it ended: with one error, or with those of the calls that it took. What took
// several, or failed, does not tell how quick the cloud is.
func (s *slot) end(errs ...error) {
	b := s.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	s.timer.Stop()
	s.timer = nil
	if s.overdue {
		b.overdue--
	} else {
		b.underway--
	}
	if s.limiter == b.limiter {
		s.learn(errs, time.Now())
	}
	b.dispatch()
}

// learn has the limiter and the Queue heed how a call ended. The caller holds mu.
func (s *slot) learn(errs []error, now time.Time) {
	b := s.queue
	if len(errs) == 1 && errs[0] == nil {
		b.limiter.succeeded(s.class, s.began, now, !b.full.Before(s.began))
		return
	}
	for _, err := range errs {
		if e, ok := errors.AsType[*client.Error](err); ok && e.Overloaded() {
			b.limiter.failed(s.began, now)
			if rest := now.Add(e.Wait); rest.After(b.rest) {
				b.rest = rest
			}
		}
	}
}
