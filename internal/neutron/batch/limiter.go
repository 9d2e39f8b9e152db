package batch

import (
	"math/bits"
	"time"
)

// limiter decides how many calls to one cloud may be under way at a time. It knows nothing of the cloud and learns from
// what calls take: while they are hardly slower than the quickest of their kind, more at a time may gain something;
// once they are much slower, they only wait in the cloud's queue instead of ours, where they could still be put
// together, take turns, or be called off. The idea is that of TCP Vegas (Brakmo, O'Malley, Peterson, 1994), applied to
// calls.
//
// It is not safe for concurrent use.
type limiter struct {
	// most is the highest limit.
	most int
	// size is the limit, at least 1. Its fraction is what has been learned towards the next whole call.
	size float64
	// starting is true until calls are seen to wait, or to fail.
	starting bool
	// quickest are the shortest durations seen, by class of call.
	quickest map[class]*quickest
	// rotated is when the quickest of before the last rotation were thrown away.
	rotated time.Time
	// cut is when the limit was last cut. Calls from before it tell of the limit before it.
	cut time.Time
	// probes is how many calls are still to be answered until the limit, which was cut for them, is what it was again:
	// former.
	probes int
	former float64
}

// class is calls that take the same time where nothing else is going on: of one operation, and of so many resources,
// give or take a factor of two.
type class struct {
	op        string
	magnitude int
}

func classOf(op string, items int) class { return class{op, bits.Len(uint(items))} }

// quickest is the shortest duration in each of the last two periods; 0 where there was none.
type quickest struct{ before, now time.Duration }

func (q *quickest) duration() time.Duration {
	if q.before == 0 || q.now != 0 && q.now < q.before {
		return q.now
	}
	return q.before
}

const (
	// firstLimit is the limit of the first calls. Two keep a server at work that serves one at a time.
	firstLimit = 2
	// tolerance is how many times longer than the quickest a call takes before it counts as having waited: the time of
	// calls that do not wait differs, too.
	tolerance = 2
	// unhurt is how many times longer than the quickest a call takes at most that has not waited for a second one of its
	// kind: only then the limit makes leaps at first.
	unhurt = 1.5
	// fewWaiting and manyWaiting are of how many calls waiting in the cloud the limit grows up to, and shrinks beyond
	// (alpha and beta in Vegas).
	fewWaiting, manyWaiting = 1, 2
	// period is how long the quickest is believed in, twice: a cloud may become slower for good. A probe at its end costs
	// a cloud that is busy up to the limit about as much as one call takes.
	period = time.Minute
)

func newLimiter(most int, now time.Time) *limiter {
	return &limiter{
		most: most, size: min(firstLimit, float64(most)), starting: true, quickest: map[class]*quickest{}, rotated: now,
	}
}

// limit is how many calls may be under way at a time.
func (l *limiter) limit() int { return int(l.size) }

// usual is what a call of the class takes at the best; 0 where that is not known.
func (l *limiter) usual(c class) time.Duration {
	if q := l.quickest[c]; q != nil {
		return q.duration()
	}
	return 0
}

// succeeded learns from a call that was answered. Only where as many were under way as might be, at some time that it
// was (full), does its duration say that the limit is too low.
//
// At first the limit grows by one with each such call that has not waited at all, which about doubles it in the time
// that a call takes: in bulk that is a second or two, and a cloud that serves many at a time would be half idle for a
// good while otherwise. From the first that has waited on, it grows by one in that time.
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
		// It has gone past what the cloud serves, by those that wait now.
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

// failed learns from a call that the cloud could not serve, or not in time. It is not for refusals of what was asked.
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

// rotate forgets the quickest of two periods ago. Should the calls of the present one all have waited, so that none
// shows how quick the cloud is, those that come now will show it: the limit is cut for as many calls as it then is, to
// where none should wait, and is what it was once they are answered.
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
