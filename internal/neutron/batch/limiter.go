package batch

import (
	"errors"
	"math/bits"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// limiter decides how many calls to one cloud may run concurrently. It learns only from the calls' durations. While
// calls take little longer than the quickest of their kind, a higher limit may help. When they take much longer, they
// wait in the cloud's queue. In our queue they could still be batched, take turns, or be canceled. The idea is that of
// TCP Vegas (Brakmo, O'Malley, Peterson, 1994), applied to calls.
//
// It is not safe for concurrent use.
type limiter struct {
	// most is the upper bound of the limit.
	most int
	// size is the limit, at least 1. Its fraction is progress towards the next whole call.
	size float64
	// starting is true until calls are seen to wait or fail.
	starting bool
	// quickest are the shortest durations of one resource, by class of call.
	quickest map[class]quickest
	// served is how many calls can run before they wait, as far as was seen; at least 1. Fewer than firstLimit count as
	// firstLimit: the quickest calls may have run among so many.
	served float64
	// cut is when the limit was last cut. Calls that began before it say nothing about the new limit.
	cut time.Time
}

// class groups calls that take about the same time for a resource on an idle cloud: the same operation, and the same
// number of resources within a factor of two.
type class struct {
	op        string
	magnitude int
}

// quickest is the shortest duration of one resource in the calls of a class.
type quickest struct {
	took time.Duration
	// inferred is true if took was not seen among at most firstLimit calls, but is what is left of a duration without the
	// wait for others, if the cloud serves as many as it did before.
	inferred bool
	// grown is when took last grew. It grows slowly while such calls come, because a cloud may become slower for good.
	grown time.Time
}

func classOf(op string, items int) class { return class{op, bits.Len(uint(items))} }

const (
	// firstLimit is the initial limit. Two calls keep busy a server that handles one at a time.
	firstLimit = 2
	// tolerance is how many times the quickest duration a call may take before it counts as having waited. Durations vary
	// even without waiting.
	tolerance = 2
	// unhurt is the highest multiple of the quickest duration that shows that a call did not wait for another one. Only
	// such calls let the limit grow fast at first.
	unhurt = 1.5
	// The limit grows while fewer than fewWaiting calls wait in the cloud. It shrinks while more than manyWaiting do
	// (alpha and beta in Vegas).
	fewWaiting, manyWaiting = 1, 2
	// Every period in which it is called, the quickest duration of a class grows by growth. A cloud that becomes four
	// times as slow for good counts as busy for half an hour, with two calls at a time. On a cloud that is fully busy, the
	// limit rises as slowly.
	period = time.Minute
	growth = 1.02
	// newest is the weight of a new call in served.
	newest = 0.25
)

func newLimiter(most int) *limiter {
	return &limiter{
		most: most, size: min(firstLimit, float64(most)), starting: true, quickest: map[class]quickest{},
		served: firstLimit,
	}
}

// limit returns how many calls may run concurrently.
func (l *limiter) limit() int { return int(l.size) }

// succeeded learns from a successful call for so many resources. among is how many calls ran meanwhile on average,
// itself included. How many there were when it began says less: those of a burst begin together. full is true if the
// limit was reached while the call ran. Only then can its duration show that the limit is too low.
//
// At first the limit grows by one with each such call that has not waited. So it about doubles in the duration of a
// call. A bulk call takes a second or two, so slower growth would leave a fast cloud half idle for long. After the
// first call that has waited, the limit grows by one in that time.
func (l *limiter) succeeded(c class, items int, began, now time.Time, among float64, full bool) {
	took := max(now.Sub(began)/time.Duration(items), 1)
	q, known := l.quickest[c]
	if known && now.Sub(q.grown) >= period {
		q.took, q.grown = time.Duration(growth*float64(q.took)), now
	}
	alone := time.Duration(float64(took) / max(1, among/l.served))
	switch few := among <= firstLimit; {
	case few && (!known || q.inferred || took < q.took), !q.inferred && took < q.took && took >= q.took/2:
		q = quickest{took, false, now}
	case !known, q.inferred && alone < q.took, !q.inferred && took < q.took:
		// Part of took is waiting. If it counted, the first calls of each class would raise the limit of a busy cloud. So
		// would those after one that took very long: the first call of a process that has just started.
		q = quickest{alone, true, now}
	}
	l.quickest[c] = q
	slowness := float64(took) / float64(q.took)
	switch served := max(1, max(among, firstLimit)/slowness); {
	case q.inferred: // it would only repeat itself
	case slowness <= unhurt:
		l.served = max(l.served, served) // it may serve more: this one did not wait
	case full: // else it is slow by itself
		l.served += newest * (served - l.served)
	}
	if began.Before(l.cut) {
		return
	}
	waiting := l.size * (1 - min(1, tolerance/slowness))
	switch {
	case l.starting && waiting >= fewWaiting:
		// The limit exceeds what the cloud can serve by the calls that wait now.
		l.starting = false
		l.size = max(l.size-waiting+fewWaiting, l.size/2, 1)
	case l.starting && full && slowness < unhurt:
		l.size = min(l.size+1, float64(l.most))
	case waiting < fewWaiting && full:
		l.size = min(l.size+1/l.size, float64(l.most))
	case waiting > manyWaiting:
		l.size = max(l.size-1/l.size, 1)
	}
}

// failed learns from a call that the cloud could not serve, or not in time. MUST NOT be called for refusals of a
// request.
func (l *limiter) failed(began, now time.Time) {
	if began.Before(l.cut) {
		return
	}
	l.starting = false
	l.size = max(l.size/2, 1)
	l.cut = now
}

// slot is the place of one call within the limit.
type slot struct {
	queue *Queue
	seat  *seat
	line  *line
	// limiter learns from the call.
	limiter *limiter
	class   class
	items   int
	began   time.Time
	// ran is Queue.ran when it began.
	ran time.Duration
	// late is set when the call has taken so long that it leaves its place among those of all Queues to others, and
	// overdue when it no longer uses the Queue's own limit. The Queue's mu guards both.
	late, overdue bool
	timer         *time.Timer
}

// begin starts a call of a line. The caller holds mu.
func (b *Queue) begin(l *line, op string, items int) *slot {
	now := time.Now()
	s := &slot{
		queue: b, seat: b.seat, line: l, limiter: b.limiter, class: classOf(op, items), items: items, began: now,
		ran: b.measure(now),
	}
	b.underway++
	l.underway++
	if b.underway >= b.limiter.limit() {
		b.full = s.began
	}
	s.timer = time.AfterFunc(patience+patienceTimes*time.Duration(items)*b.limiter.quickest[s.class].took, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case s.timer == nil: // it has just ended
		case s == b.doubted && b.quiet:
			// Neither what came in its place was answered, nor anything else: that may hang as well.
			b.doubted = nil
			b.doubt()
			b.dispatch()
		case s == b.doubted:
			b.quiet = true
			s.timer.Reset(silence)
		case s.overdue:
		default:
			s.late = true
			s.seat.free() // one tenant's calls that hang stop nobody else
			b.late = append(b.late, s)
			b.doubt()
			b.dispatch()
		}
	})
	return s
}

// measure returns how long the calls that use the limit have run until now, together. The caller holds mu, and then
// changes their number.
func (b *Queue) measure(now time.Time) time.Duration {
	b.ran += time.Duration(b.underway) * now.Sub(b.measured)
	b.measured = now
	return b.ran
}

// doubt gives the place of the first late call to another call, for one late call at a time. A cloud that is only slow
// answers the late call first, so more calls would wait in the cloud instead of here. When nothing is answered for
// silence, the next late one is doubted. For calls that hang, see ended. The caller holds mu.
func (b *Queue) doubt() {
	if b.doubted == nil && len(b.late) > 0 {
		b.doubted, b.late = b.late[0], b.late[1:]
		b.doubted.markOverdue()
		b.doubted.timer.Reset(silence)
		b.quiet = true
	}
}

// ended notes that a call which began at a time has ended: older late calls hang, and lose their places. The caller
// holds mu.
func (b *Queue) ended(began time.Time) {
	hangs := func(s *slot) bool { return s.began.Before(began) }
	if b.doubted != nil && hangs(b.doubted) {
		b.doubted = nil
	}
	b.late = slices.DeleteFunc(b.late, func(s *slot) bool {
		if hangs(s) {
			s.markOverdue()
		}
		return hangs(s)
	})
}

// markOverdue ends the use of the limit by a call that still runs. The caller holds mu.
func (s *slot) markOverdue() {
	s.overdue = true
	s.queue.measure(time.Now())
	s.leave()
	s.queue.overdue++
}

// end ends a call and learns from its errors, one per request that it sent. Several requests or a failure do not show
// the cloud's speed.
func (s *slot) end(errs ...error) {
	b := s.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	among := float64(b.measure(now)-s.ran) / float64(max(now.Sub(s.began), 1))
	s.timer.Stop()
	s.timer = nil
	b.late = slices.DeleteFunc(b.late, func(late *slot) bool { return late == s })
	if b.doubted == s {
		b.doubted = nil
	}
	if s.overdue {
		b.overdue--
		among = float64(b.limiter.limit()) // it was not counted to its end
	} else {
		s.leave()
	}
	if answered(errs) {
		b.quiet = false
		b.ended(s.began)
	}
	b.doubt()
	if s.limiter == b.limiter {
		s.learn(errs, now, among)
	}
	b.dispatch()
}

// answered reports whether the cloud answered each request of a call, of which these are the errors.
func answered(errs []error) bool {
	return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool {
		e, ok := errors.AsType[*client.Error](err)
		return err != nil && (!ok || e.Status == 0)
	})
}

// leave gives up the call's place. The caller holds mu, and has measured.
func (s *slot) leave() {
	s.queue.underway--
	s.line.underway--
	if !s.late {
		s.seat.free()
	}
}

// learn updates the limiter and the Queue from the result of a call. among is as in limiter.succeeded. The caller holds
// mu.
func (s *slot) learn(errs []error, now time.Time, among float64) {
	b := s.queue
	if len(errs) == 1 && errs[0] == nil {
		b.limiter.succeeded(s.class, s.items, s.began, now, among, !b.full.Before(s.began))
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
