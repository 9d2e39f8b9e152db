package neutron

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
	// quickest are the shortest durations seen, by class of call.
	quickest map[class]*quickest
	// rotated is when the quickest of before the last rotation were thrown away.
	rotated time.Time
	// cut is when the limit was last cut. Calls from before it tell of the limit before it.
	cut time.Time
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
	// fewWaiting and manyWaiting are of how many calls waiting in the cloud the limit grows up to, and shrinks beyond
	// (alpha and beta in Vegas).
	fewWaiting, manyWaiting = 1, 2
	// period is how long the quickest is believed in, twice: a cloud may become slower for good.
	period = 30 * time.Second
)

func newLimiter(most int, now time.Time) *limiter {
	return &limiter{most: most, size: min(firstLimit, float64(most)), quickest: map[class]*quickest{}, rotated: now}
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

// succeeded learns from a call that was answered. Only where as many were under way as might be does its duration say
// that the limit is too low.
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
	waiting := l.size * (1 - min(1, tolerance*float64(q.duration())/float64(took)))
	switch {
	case waiting < fewWaiting && full:
		l.size = min(l.size+1/l.size, float64(l.most))
	case waiting > manyWaiting:
		l.size = max(l.size-1/l.size, 1)
	}
}

// failed learns from a call that the cloud could not serve, or not in time. It is not for refusals of what was asked.
func (l *limiter) failed(began, now time.Time) {
	if !began.Before(l.cut) {
		l.halve(now)
	}
}

func (l *limiter) halve(now time.Time) {
	l.size = max(l.size/2, 1)
	l.cut = now
}

// rotate forgets the quickest of two periods ago. Should the calls of the present one all have waited, so that none
// shows how quick the cloud is, those that come now will show it: the limit is halved for them.
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
	l.halve(now)
}
