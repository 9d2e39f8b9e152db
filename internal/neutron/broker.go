package neutron

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// broker stands between many workers and one cloud, and sends what they write in few, large calls:
//
//   - Creates in one collection that wait together go as one (bulk), which is atomic in Neutron. One that is refused is
//     halved until the bad ones stand alone and the good ones are through (bulk.go). Ports go together where they lose
//     nothing by it (room.go).
//   - The number of writes under way follows what the cloud can do (limiter). What is more waits here, at the price of
//     a goroutine, and flows take turns.
//   - A call that gets no answer for long does not keep others from being sent.
//
// It sends nothing twice whose outcome it does not know: that is for a caller who has looked. Reads are not its
// business.
//
// All methods are safe for concurrent use.
type broker struct {
	// post sends the creates of one call, and returns what was made in their order.
	post func(ctx context.Context, op string, of client.Collection, bodies []map[string]any) ([]json.RawMessage, error)

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
	// suspects are in how large a company creates go that failed in a larger one, by identity.
	suspects map[string]suspect
	// rest is until when the cloud has asked not to be written to.
	rest time.Time
	// room is what the line of ports goes by.
	room *room
}

const (
	// DefaultMaxCalls bounds the writes to a cloud that are under way at a time, whatever its speed allows.
	DefaultMaxCalls = 16
	// maxBulk is how many creates go into one call. Neutron's cost is per resource by then, and a longer call holds up
	// for longer what comes after it.
	maxBulk = 25
	// linger is how long a create waits for others to come along, where others have been about for the last moment.
	linger = 5 * time.Millisecond
	moment = 10 * time.Millisecond
	// patience is how long a call counts against the limit, beside patienceTimes what such calls take at the best.
	patience      = 5 * time.Second
	patienceTimes = 10
)

// line is where the creates in one collection wait.
type line struct {
	of    client.Collection
	queue fairQueue[*pendingCreate]
	// room, where not nil, decides which of them go together, and when; aside are those that have to wait.
	room  *room
	aside []*pendingCreate
	// due is when they go, however few they are. The timer is set to it.
	due   time.Time
	timer *time.Timer
}

// place is the state of a write between its caller and the broker. The broker's mu guards it.
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

// pendingCreate is a write that the broker sends for its caller.
type pendingCreate struct {
	place
	op   string
	body map[string]any
	// identity tells it from all other creates, when it is tried again, too.
	identity string
	// company is how many may go in one call with it, itself included.
	company int
	// draw is of ports alone.
	draw   draw
	result chan created
}

// created is what became of a create: the resource as Neutron's JSON, or an *Error.
type created struct {
	made json.RawMessage
	err  error
}

// newBroker makes a broker of at most so many writes at a time; 0 means DefaultMaxCalls.
func newBroker(
	most int, post func(context.Context, string, client.Collection, []map[string]any) ([]json.RawMessage, error),
) *broker {
	if most <= 0 {
		most = DefaultMaxCalls
	}
	b := &broker{post: post, limiter: newLimiter(most, time.Now()), suspects: map[string]suspect{}, room: newRoom()}
	b.lines = []*line{{of: networkAPI}, {of: subnetAPI}, {of: portAPI, room: b.room}, {of: routerAPI}}
	return b
}

// Create has a resource created, with what others create at the time, and returns it as Neutron's JSON. identity is
// what tells this create from all others.
func (b *broker) Create(
	ctx context.Context, op string, of client.Collection, identity string, body map[string]any,
) (json.RawMessage, error) {
	c := &pendingCreate{place: place{ctx: ctx}, op: op, body: body, identity: identity, result: make(chan created, 1)}
	b.mu.Lock()
	c.company = b.companyOf(identity)
	if !of.Bulk {
		c.company = 1
	}
	for _, l := range b.lines {
		if l.of != of {
			continue
		}
		if l.room != nil {
			c.draw = drawOf(body)
		}
		b.enter(l, c)
	}
	b.dispatch() //nolint:contextcheck // a call is for all who wait for it
	b.mu.Unlock()

	select {
	case o := <-c.result:
		return o.made, o.err
	case <-ctx.Done():
		return nil, b.leave(ctx, &c.place, op)
	}
}

// Write has send called when its turn comes, unless ctx ends first, and returns its error. op is what it tries.
func (b *broker) Write(ctx context.Context, op string, send func() error) error {
	w := &pendingWrite{place: place{ctx: ctx}, op: op, turn: make(chan turn, 1)}
	b.mu.Lock()
	b.others.push(flowOf(ctx), w)
	b.dispatch() //nolint:contextcheck // a call is for all who wait for it
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
	err := errUnfinished               // of one that panics
	defer func() { t.slot.end(err) }() //nolint:contextcheck // it sends what others wait for
	err = send()
	return err
}

var errUnfinished = errors.New("the write did not come to its end")

// begins has it forget what it learned of a cloud: what is written from now on goes to another. What is still under way
// teaches it nothing any more.
func (b *broker) begins() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limiter = newLimiter(b.limiter.most, time.Now())
	b.rest = time.Time{}
	clear(b.suspects)
}

// unsettle has it forget what room for ports there is on a network, where its subnets change; on all networks where it
// is empty.
func (b *broker) unsettle(network string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if network == "" {
		b.room.forget()
	} else {
		b.room.unsettle(network)
	}
}

// leave ends the wait of a caller whose context has ended. Its error leaves open what becomes of a write that is on its
// way already.
func (b *broker) leave(ctx context.Context, p *place, op string) *client.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.left = true
	e := client.Interrupted(op, ctx.Err())
	e.MaybeDone = p.taken
	return e
}

// enter puts a create in its line. The caller holds mu.
func (b *broker) enter(l *line, c *pendingCreate) {
	now := time.Now()
	if l.queue.len() == 0 {
		l.due = now
		if now.Sub(b.busy) < moment {
			l.due = now.Add(linger)
		}
	}
	b.busy = now
	l.queue.push(flowOf(c.ctx), c)
}

// dispatch sends what may be sent. The caller holds mu.
func (b *broker) dispatch() {
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
func (b *broker) turnAway(rest time.Duration) {
	refusal := func(op string) *client.Error {
		return &client.Error{Kind: client.Throttled, Op: op, Reason: "the cloud has asked to be left alone for a while", Wait: rest}
	}
	for b.others.len() > 0 {
		w := b.others.pop()
		w.taken = true
		w.turn <- turn{err: refusal(w.op)}
	}
	for _, l := range b.lines {
		l.recall()
		for l.queue.len() > 0 {
			c := l.queue.pop()
			c.taken = true
			c.result <- created{err: refusal(c.op)}
		}
	}
}

// sendNext sends the next call, by turns; false where none waits that is due. The caller holds mu.
func (b *broker) sendNext() bool {
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
			go b.send(b.begin(batch[0].op, len(batch)), l, batch)
			return true
		}
	}
	return false
}

// isDue reports whether a line's first creates are to go, and sees to it that they do when they are. The caller holds
// mu.
func (b *broker) isDue(l *line) bool {
	if l.queue.len() == 0 {
		return false
	}
	left := time.Until(l.due)
	if left <= 0 || l.queue.len() >= maxBulk {
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
func (b *broker) next(l *line) []*pendingCreate {
	var batch []*pendingCreate
	most := maxBulk
	for len(batch) < most {
		c, ok := l.queue.peek()
		if !ok {
			break
		}
		if !c.left {
			company := c.company
			if l.room != nil {
				company = b.companyOnNetwork(l, c)
			}
			if company == 0 {
				l.aside = append(l.aside, l.queue.pop())
				continue
			}
			if most = min(most, company); len(batch) >= most || len(batch) > 0 && !together(batch[0], c) {
				break
			}
			c.taken = true
			batch = append(batch, c)
			if l.room != nil {
				l.room.send(c)
			}
		}
		l.queue.pop()
	}
	if l.room != nil {
		l.room.gather(batch)
	}
	return batch
}

// companyOnNetwork is how many may go in one call with a port; 0 where it has to wait. A look is begun where enough
// wait for one. The caller holds mu.
func (b *broker) companyOnNetwork(l *line, c *pendingCreate) int {
	if _, known := l.room.knows(c.draw.network); !known && c.company > 1 {
		if k := l.room.begin(c, l.queue.all()); k != nil {
			go b.lookAround(c.ctx, l, slices.Sorted(maps.Keys(k.networks)))
		}
	}
	return l.room.company(c)
}

// lookAround has room counted on networks, for the project that ctx is Within, and has those go on who wait for it.
func (b *broker) lookAround(ctx context.Context, l *line, networks []string) {
	// It is for all who wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	// Where it fails, ports go alone: their own calls tell what is wrong.
	counted, _ := l.room.count(ctx, networks)
	b.mu.Lock()
	defer b.mu.Unlock()
	l.room.learn(counted)
	l.recall()
	b.dispatch() //nolint:contextcheck // a call is for all who wait for it
}

// recall has those wait in the line again that were set aside. The caller holds mu.
func (l *line) recall() {
	for _, c := range l.aside {
		l.queue.push(flowOf(c.ctx), c)
	}
	l.aside = nil
}

// slot is the place of a call among those that are under way.
type slot struct {
	broker *broker
	// limiter is what learns from it.
	limiter *limiter
	class   class
	began   time.Time
	// overdue is set when it counts no more, by the timer. The broker's mu guards it.
	overdue bool
	timer   *time.Timer
}

// begin begins a call. The caller holds mu.
func (b *broker) begin(op string, items int) *slot {
	b.underway++
	s := &slot{broker: b, limiter: b.limiter, class: classOf(op, items), began: time.Now()}
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
	b := s.broker
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

// learn has the limiter and the broker heed how a call ended. The caller holds mu.
func (s *slot) learn(errs []error, now time.Time) {
	b := s.broker
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
