package batch

import (
	"math/bits"
	"time"
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
	// quickest are the shortest durations, by class of call.
	quickest map[class]*quickest
	// rotated is when the period of quickest last changed.
	rotated time.Time
	// cut is when the limit was last cut. Calls that began before it say nothing about the new limit.
	cut time.Time
	// probes is how many answers to wait for after a cut that measures the cloud's speed. Then the limit returns to
	// former.
	probes int
	former float64
}

// class groups calls that take about the same time on an idle cloud: the same operation, and the same number of
// resources within a factor of two.
type class struct {
	op        string
	magnitude int
}

func classOf(op string, items int) class { return class{op, bits.Len(uint(items))} }

// quickest is the shortest duration in each of the last two periods; 0 if there was none.
type quickest struct{ before, now time.Duration }

func (q *quickest) duration() time.Duration {
	if q.before == 0 || q.now != 0 && q.now < q.before {
		return q.now
	}
	return q.before
}

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
	// period is half of how long a quickest duration is trusted, because a cloud may become slower for good. On a fully
	// busy cloud, the probe at its end costs about the time of one call.
	period = time.Minute
)

func newLimiter(most int, now time.Time) *limiter {
	return &limiter{
		most: most, size: min(firstLimit, float64(most)), starting: true, quickest: map[class]*quickest{}, rotated: now,
	}
}

// limit returns how many calls may run concurrently.
func (l *limiter) limit() int { return int(l.size) }

// usual returns the shortest known duration of the class; 0 if unknown.
func (l *limiter) usual(c class) time.Duration {
	if q := l.quickest[c]; q != nil {
		return q.duration()
	}
	return 0
}

// succeeded learns from a successful call. full is true if the limit was reached while the call ran. Only then can its
// duration show that the limit is too low.
//
// At first the limit grows by one with each such call that has not waited. So it about doubles in the duration of a
// call. A bulk call takes a second or two, so slower growth would leave a fast cloud half idle for long. After the
// first call that has waited, the limit grows by one in that time.
func (l *limiter) succeeded(c class, began, now time.Time, full bool) {
	took := max(now.Sub(began), 1)
	l.rotate(now)
	q := l.quickest[c]
	if q == nil {
		q = &quickest{}
		l.quickest[c] = q
	}
	if q.now == 0 || took < q.now {
		q.now = took
	}
	if began.Before(l.cut) {
		return
	}
	if l.probes > 0 {
		if l.probes--; l.probes == 0 {
			l.size = l.former
		}
		return
	}
	waiting := l.size * (1 - min(1, tolerance*float64(q.duration())/float64(took)))
	switch {
	case l.starting && waiting >= fewWaiting:
		// The limit exceeds what the cloud can serve by the calls that wait now.
		l.starting = false
		l.size = max(l.size-waiting+fewWaiting, l.size/2, 1)
	case l.starting && full && float64(took) < unhurt*float64(q.duration()):
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
	l.probes = 0
	l.cutTo(l.size/2, now)
}

func (l *limiter) cutTo(size float64, now time.Time) {
	l.size = max(size, 1)
	l.cut = now
}

// rotate forgets the quickest durations of two periods ago. If all calls of this period waited, none shows the cloud's
// real speed. So rotate cuts the limit to where no call should wait, for as many calls as the new limit. After their
// answers the limit returns to its former value.
func (l *limiter) rotate(now time.Time) {
	if now.Sub(l.rotated) < period {
		return
	}
	l.rotated = now
	for c, q := range l.quickest {
		if q.before, q.now = q.now, 0; q.before == 0 {
			delete(l.quickest, c)
		}
	}
	if l.probes == 0 {
		l.former = l.size
	}
	l.cutTo((l.size-manyWaiting)/tolerance, now)
	l.probes = l.limit()
}
