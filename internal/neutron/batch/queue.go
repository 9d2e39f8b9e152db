package batch

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// Queue reduces the load of many workers' writes on one cloud. It sends them in few, large calls:
//
//   - Waiting creates in one collection go in one call (bulk), which is atomic in Neutron. A refused call is halved
//     until the bad items stand alone and the good ones succeed (bulk.go).
//   - The number of concurrent writes follows the cloud's speed (limiter). Other writes wait here, each in a goroutine,
//     and flows take turns. So do deletions and all else: what begins does not wait for what ends.
//   - A call that gets no answer for long does not block others.
//
// It never resends a write whose outcome is unknown: the caller MUST check first. It does not handle reads.
//
// All methods are safe for concurrent use.
type Queue struct {
	options Options

	mu      sync.Mutex
	limiter *limiter
	// underway counts the calls that use the limit. overdue counts those that ran too long and no longer use it.
	underway, overdue int
	// ran is how long the calls under way have run until measured, together.
	ran      time.Duration
	measured time.Time
	// late are calls that have used the limit for too long, the first one first. doubted was one, and has lost its place;
	// nothing that began after it has been answered yet. quiet is true if nothing at all was for some time.
	late    []*slot
	doubted *slot
	quiet   bool
	// full is when the limit was last reached.
	full time.Time
	// lines are the waiting writes: creates by collection, deletions, and all others. The last two have no collection.
	lines []*line
	// turn is the index of the line where the search for the next call starts.
	turn int
	// suspects limit how many creates may go in one call with one that failed, by key.
	suspects map[string]suspect
	// seat is the Queue's share of the calls to its Neutron, which neutron identifies; nil before Join.
	seat    *seat
	neutron string
	// rest is until when the cloud's rate limit forbids writes.
	rest time.Time
}

// Item is a create.
type Item struct {
	// Op names the operation, such as "create network". All Items of a Collection have the same.
	Op string
	// Collection is where the resource is created. If it has no Bulk, each item goes alone.
	Collection client.Collection
	// Key identifies this create among all others. A retry has the same key.
	Key string
	// Flow is on whose behalf the create runs, normally a namespace. If more items wait than may run, flows take turns
	// (the term is from Kubernetes' API Priority and Fairness). So one namespace's create does not wait for a thousand of
	// another. Items without a flow share one.
	Flow string
	// Alone, if set, is called when the item's turn comes. It returns whether the item needs its own call. It MUST be
	// quick and MUST NOT call the Queue.
	Alone func() bool
	// Held, if set, is called when the item's turn comes, before Alone and possibly more than once. If it returns an
	// error, the item is not sent, and that is its outcome. It MUST be quick and MUST NOT call the Queue.
	Held func() error
	Body map[string]any
}

// Options configure a Queue.
type Options struct {
	// MaxCalls bounds the concurrent writes, however fast the cloud is; 0 means DefaultMaxCalls.
	MaxCalls int
	// Post sends the creates of one call, all or none. It returns the new resources in the same order. It is required.
	Post func(ctx context.Context, op string, of client.Collection, bodies []map[string]any) ([]json.RawMessage, error)
	// Refused, if set, is called with the error of a call with several items. If it returns true, they go one by one from
	// then on, and are not halved. It MUST be quick and safe for concurrent use.
	Refused func(of client.Collection, items []Item, err error) (oneByOne bool)
	// Waited, if set, is called when a write is about to be sent, with how long it waited. It MUST be quick and MUST NOT
	// call the Queue.
	Waited func(op string, wait time.Duration)
}

const (
	// DefaultMaxCalls bounds the concurrent writes to a cloud, however fast it is.
	DefaultMaxCalls = 16
	// maxBatch is how many creates go in one call. Beyond it Neutron's cost per resource is constant, and a longer call
	// delays the next ones.
	maxBatch = 25
	// batchWindow is how long a create waits for others, if fewer than maxBatch wait. While a call in its collection is
	// under way, it waits until that call ends, but not longer than a call of one create takes, nor than crowdedWindow.
	// Others probably follow, and each call has a cost of its own.
	batchWindow   = 5 * time.Millisecond
	crowdedWindow = 100 * time.Millisecond
	// A call uses the limit for patience plus patienceTimes the shortest duration of such calls.
	patience      = 5 * time.Second
	patienceTimes = 10
	// silence is how long nothing may be answered until another late call loses its place. It is longer than a bulk takes
	// on a slow cloud.
	silence = 3 * patience
)

// line is the queue of creates in one collection, of deletions, or of all other writes.
type line struct {
	of      client.Collection
	deletes bool
	// op is that of creates in the collection.
	op    string
	queue fair.Queue[string, *pending]
	// since is when the first of the waiting creates came. The timer is set to when they are sent, however few they are.
	since time.Time
	timer *time.Timer
	// underway counts the calls of creates in this collection, without those that ran too long.
	underway int
}

// pending is a write that waits or is being sent. Of a write that is no create, the Item has only Op and Flow.
type pending struct {
	Item
	deletes bool
	ctx     context.Context
	since   time.Time
	// most is how many creates may go in one call with it, itself included.
	most int
	// taken is true once its turn has come; left is true once its caller has gone. The Queue's mu guards both.
	taken, left bool
	outcome     chan outcome // capacity 1
}

// outcome is what a caller waits for: the end of its create, or the turn of its other write.
type outcome struct {
	// made is the new resource as Neutron's JSON.
	made json.RawMessage
	// slot is the place of a write that its caller sends now.
	slot *slot
	err  error
}

// New creates a Queue.
func New(options Options) *Queue {
	if options.MaxCalls <= 0 {
		options.MaxCalls = DefaultMaxCalls
	}
	if options.Refused == nil {
		options.Refused = func(client.Collection, []Item, error) bool { return false }
	}
	if options.Waited == nil {
		options.Waited = func(string, time.Duration) {}
	}
	return &Queue{options: options, limiter: newLimiter(options.MaxCalls), suspects: map[string]suspect{}}
}

// Create creates a resource, in one call with other creates if possible, and returns it as Neutron's JSON. Its error is
// the item's own, a *client.Error.
func (b *Queue) Create(ctx context.Context, item Item) (json.RawMessage, error) {
	o := b.await(ctx, item, false)
	return o.made, o.err
}

// Write calls send when the turn of its flow comes, unless ctx ends first, and returns its error. op names the
// operation.
func (b *Queue) Write(ctx context.Context, op, flow string, send func() error) error {
	return b.write(ctx, Item{Op: op, Flow: flow}, false, send)
}

// Delete is Write for a deletion. A Pod that starts needs a create and an update; it would wait for each port of a
// Deployment that was just scaled down.
func (b *Queue) Delete(ctx context.Context, op, flow string, send func() error) error {
	return b.write(ctx, Item{Op: op, Flow: flow}, true, send)
}

func (b *Queue) write(ctx context.Context, item Item, deletes bool, send func() error) error {
	o := b.await(ctx, item, deletes)
	if o.err != nil {
		return o.err
	}
	err := errUnfinished // if send panics
	defer func() { o.slot.end(err) }()
	err = send()
	return err
}

// await queues a write and waits for its outcome, or until ctx ends. Then the error is MaybeDone if the write was
// already sent.
func (b *Queue) await(ctx context.Context, item Item, deletes bool) outcome {
	p := &pending{Item: item, deletes: deletes, ctx: ctx, since: time.Now(), most: 1, outcome: make(chan outcome, 1)}
	b.mu.Lock()
	if item.Collection.Bulk {
		p.most = b.mostWith(item.Key)
	}
	l := b.enter(p)
	if r := inspect.On(); r != nil {
		r.RecordOf(ctx, inspect.Batch, inspect.Waits, item.Op, b.window(l).String())
	}
	b.dispatch() //nolint:contextcheck // what it sends serves others, too
	b.mu.Unlock()

	select {
	case o := <-p.outcome:
		return o
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case o := <-p.outcome: // it came at the same time
		return o
	default:
	}
	p.left = true
	err := client.Interrupted(item.Op, ctx.Err())
	err.MaybeDone = p.taken
	return outcome{err: err}
}

var errUnfinished = errors.New("the write did not come to its end")

// Reset forgets what the Queue learned of a cloud, because later writes go to another one. Calls under way teach it
// nothing more.
func (b *Queue) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limiter = newLimiter(b.limiter.most)
	b.rest = time.Time{}
	clear(b.suspects)
	for _, s := range b.late { // at the other cloud
		s.markOverdue()
	}
	b.late, b.doubted = nil, nil
	b.dispatch()
}

// Load is what a Queue does at a moment.
type Load struct {
	// Limit is how many calls the limiter permits, and Calls how many run, those included that run too long to count.
	Limit, Calls int
	// Waiting is how many writes wait.
	Waiting int
}

// Load returns what the Queue does now.
func (b *Queue) Load() Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := Load{Limit: b.limiter.limit(), Calls: b.underway + b.overdue}
	for _, l := range b.lines {
		now.Waiting += l.queue.Len()
	}
	return now
}

// enter adds a write to its line, which it returns. The caller holds mu.
func (b *Queue) enter(p *pending) *line {
	at := slices.IndexFunc(b.lines, func(l *line) bool { return l.of == p.Collection && l.deletes == p.deletes })
	if at < 0 {
		at = len(b.lines)
		b.lines = append(b.lines, &line{of: p.Collection, deletes: p.deletes, op: p.Op})
	}
	l := b.lines[at]
	if l.of.Bulk && l.queue.Len() == 0 {
		l.since = time.Now()
	}
	l.queue.Push(p.Flow, p)
	return l
}

// dispatch sends as many calls as the limit permits. The caller holds mu.
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

// turnAway fails all waiting writes during a rate limit, so that workers can do other work. The caller holds mu.
func (b *Queue) turnAway(rest time.Duration) {
	for _, l := range b.lines {
		for l.queue.Len() > 0 {
			p := l.queue.Pop()
			p.taken = true
			p.outcome <- outcome{err: &client.Error{
				Kind: client.Throttled, Op: p.Op, Reason: "rate limited by Neutron (Retry-After)", Wait: rest,
				Gate: client.GateRate,
			}}
		}
	}
}

// sendNext sends the next call, in turn; false if no write is due. The caller holds mu.
func (b *Queue) sendNext() bool {
	for range b.lines {
		l := b.lines[b.turn]
		due := b.isDue(l)
		if due && !b.seat.take() {
			return false // this line's turn comes again
		}
		b.turn = (b.turn + 1) % len(b.lines)
		if !due {
			continue
		}
		batch := b.next(l)
		if len(batch) == 0 {
			b.seat.free()
			continue
		}
		s := b.begin(l, batch[0].Op, len(batch))
		for _, p := range batch {
			b.options.Waited(p.Op, s.began.Sub(p.since))
			if r := inspect.On(); r != nil {
				r.RecordOf(p.ctx, inspect.Batch, "sent", p.Op, inspect.Milliseconds(s.began.Sub(p.since)), len(batch), b.underway,
					b.limiter.limit())
			}
		}
		if l.of == (client.Collection{}) {
			batch[0].outcome <- outcome{slot: s}
		} else {
			go b.send(s, l.of, batch)
		}
		return true
	}
	return false
}

// isDue reports whether a line's writes are due. If not, it sets the timer to dispatch them. The caller holds mu.
func (b *Queue) isDue(l *line) bool {
	if l.queue.Len() == 0 {
		return false
	}
	left := time.Until(l.since.Add(b.window(l)))
	if left <= 0 || l.queue.Len() >= maxBatch {
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

// window returns how long a line's creates wait for others now. The caller holds mu.
func (b *Queue) window(l *line) time.Duration {
	switch {
	case !l.of.Bulk:
		return 0
	case l.underway == 0:
		return batchWindow
	}
	alone, known := b.limiter.quickest[classOf(l.op, 1)]
	if !known {
		return crowdedWindow
	}
	return min(max(alone.took, batchWindow), crowdedWindow)
}

// next removes from the line the writes of the next call. It respects the most of each of them and takes one project
// only. The caller holds mu.
func (b *Queue) next(l *line) []*pending {
	var batch []*pending
	most := maxBatch
	for len(batch) < most {
		p, ok := l.queue.Peek()
		if !ok {
			break
		}
		if !p.left && p.Held != nil {
			if err := p.Held(); err != nil {
				p.taken = true
				p.outcome <- outcome{err: err}
				l.queue.Pop()
				continue
			}
		}
		if !p.left {
			together := p.most
			if p.Alone != nil && p.Alone() {
				together = 1
			}
			if most = min(most, together); len(batch) >= most || len(batch) > 0 && !sameProject(batch[0], p) {
				break
			}
			p.taken = true
			batch = append(batch, p)
		}
		l.queue.Pop()
	}
	return batch
}

// send sends creates in one call, or in several if Neutron refuses some of them. It gives each caller its outcome.
func (b *Queue) send(s *slot, of client.Collection, batch []*pending) {
	ctx, done := forAll(batch)
	defer done()
	var errs []error // one per call
	for groups := [][]*pending{batch}; len(groups) > 0; {
		group := groups[0]
		groups = groups[1:]
		again := len(errs) > 0
		group = slices.DeleteFunc(slices.Clone(group), func(p *pending) bool {
			// A caller that has left will check the outcome: nothing may be created after that check.
			if again && p.ctx.Err() != nil {
				return true
			}
			err := client.AskPermit(p.ctx)
			if err != nil {
				p.outcome <- outcome{err: client.NotPermitted(p.Op, err)}
			}
			return err != nil
		})
		if len(group) == 0 {
			continue
		}
		items, bodies := make([]Item, len(group)), make([]map[string]any, len(group))
		for i, p := range group {
			items[i], bodies[i] = p.Item, p.Body
		}
		made, err := b.post(client.WithPermit(ctx, func() error { return mayAll(group) }), of, group, items[0].Op, bodies)
		if err != nil && !client.MaybeDone(err) && mayAll(group) != nil {
			groups = append([][]*pending{group}, groups...) // without those that may not any more
			continue
		}
		errs = append(errs, err)
		oneByOne := err != nil && len(group) > 1 && b.options.Refused(of, items, err)
		rest := slices.Concat(append([][]*pending{group}, groups...)...)
		switch {
		case err == nil:
			for i, p := range group {
				p.outcome <- outcome{made: made[i]}
			}
		case oneByOne && declined(err):
			groups = slices.Collect(slices.Chunk(rest, 1))
			continue
		case len(group) > 1 && declined(err):
			half := len(group) / 2
			groups = append([][]*pending{group[:half], group[half:]}, groups...)
			continue
		default:
			told := group
			if concernsAll(err) {
				told, groups = rest, nil
			}
			for _, p := range told {
				p.outcome <- outcome{err: asTold(err, len(told))}
			}
		}
		b.remember(group, err, len(errs) > 1)
	}
	s.end(errs...)
}

// post sends the creates of one call. In a trace, the call is within the span of its only caller, or within one that
// links to those of all.
func (b *Queue) post(
	ctx context.Context, of client.Collection, group []*pending, op string, bodies []map[string]any,
) ([]json.RawMessage, error) {
	if len(group) == 1 {
		span := trace.SpanFromContext(group[0].ctx) //nolint:contextcheck // the caller's
		if span != trace.SpanFromContext(ctx) {
			ctx = trace.ContextWithSpan(ctx, span)
		}
		ctx = inspect.Join(ctx, []context.Context{group[0].ctx})
		return b.options.Post(ctx, op, of, bodies)
	}
	callers := make([]context.Context, len(group))
	for i, p := range group {
		callers[i] = p.ctx
	}
	ctx, span := tracing.Join(inspect.Join(ctx, callers), "bulk", callers)
	made, err := b.options.Post(ctx, op, of, bodies)
	tracing.End(span, client.Word(err))
	return made, err
}

// mayAll returns why one of the callers may not write any more; nil if all may.
func mayAll(group []*pending) error {
	for _, p := range group {
		if err := client.AskPermit(p.ctx); err != nil {
			return err
		}
	}
	return nil
}

// forAll returns a context that ends when all callers' contexts have ended, because the call serves all of them. done
// releases its resources.
func forAll(batch []*pending) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var left atomic.Int64
	left.Store(int64(len(batch)))
	var stops []func() bool
	for _, c := range batch {
		stops = append(stops, context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// sameProject reports whether two creates are for the same project (client.Within). Others may not share a call.
func sameProject(a, b *pending) bool {
	project, bound := client.Wanted(a.ctx)
	other, otherBound := client.Wanted(b.ctx)
	return project == other && bound == otherBound
}
