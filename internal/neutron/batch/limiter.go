package batch

import (
	"errors"
	"math/bits"
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
	// quickest are the shortest durations, by class of call. They grow slowly, because a cloud may become slower for
	// good.
	quickest map[class]time.Duration
	// grown is when they last grew.
	grown time.Time
	// cut is when the limit was last cut. Calls that began before it say nothing about the new limit.
	cut time.Time
}

// class groups calls that take about the same time on an idle cloud: the same operation, and the same number of
// resources within a factor of two.
type class struct {
	op        string
	magnitude int
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
	// Every period, the quickest durations grow by growth. A cloud that becomes four times as slow for good counts as busy
	// for half an hour, with two calls at a time. On a cloud that is fully busy, the limit rises as slowly.
	period = time.Minute
	growth = 1.02
)

func newLimiter(most int, now time.Time) *limiter {
	return &limiter{
		most: most, size: min(firstLimit, float64(most)), starting: true, quickest: map[class]time.Duration{}, grown: now,
	}
}

// limit returns how many calls may run concurrently.
func (l *limiter) limit() int { return int(l.size) }

// succeeded learns from a successful call. full is true if the limit was reached while the call ran. Only then can its
// duration show that the limit is too low.
//
// At first the limit grows by one with each such call that has not waited. So it about doubles in the duration of a
// call. A bulk call takes a second or two, so slower growth would leave a fast cloud half idle for long. After the
// first call that has waited, the limit grows by one in that time.
func (l *limiter) succeeded(c class, began, now time.Time, full bool) {
	took := max(now.Sub(began), 1)
	if now.Sub(l.grown) >= period {
		l.grown = now
		for c := range l.quickest {
			l.quickest[c] = time.Duration(growth * float64(l.quickest[c]))
		}
	}
	if q := l.quickest[c]; q == 0 || took < q {
		l.quickest[c] = took
	}
	if began.Before(l.cut) {
		return
	}
	slowness := float64(took) / float64(l.quickest[c])
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
	began   time.Time
	// overdue is set by the timer when the call no longer uses the limit. The Queue's mu guards it.
	overdue bool
	timer   *time.Timer
}

// begin starts a call of a line. The caller holds mu.
func (b *Queue) begin(l *line, op string, items int) *slot {
	b.underway++
	l.underway++
	s := &slot{queue: b, seat: b.seat, line: l, limiter: b.limiter, class: classOf(op, items), began: time.Now()}
	if b.underway >= b.limiter.limit() {
		b.full = s.began
	}
	s.timer = time.AfterFunc(patience+patienceTimes*b.limiter.quickest[s.class], func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s.timer != nil {
			s.overdue = true
			s.leave()
			b.overdue++
			b.dispatch()
		}
	})
	return s
}

// end ends a call and learns from its errors, one per request that it sent. Several requests or a failure do not show
// the cloud's speed.
func (s *slot) end(errs ...error) {
	b := s.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	s.timer.Stop()
	s.timer = nil
	if s.overdue {
		b.overdue--
	} else {
		s.leave()
	}
	if s.limiter == b.limiter {
		s.learn(errs, time.Now())
	}
	b.dispatch()
}

// leave gives up the call's place. The caller holds mu.
func (s *slot) leave() {
	s.queue.underway--
	s.line.underway--
	s.seat.free()
}

// learn updates the limiter and the Queue from the result of a call. The caller holds mu.
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
