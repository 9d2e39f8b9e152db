package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Outage is a time in which the cloud does not answer.
type Outage struct {
	// Since is when the first of the calls began to fail that led to it.
	Since time.Time
	// Reason is what became of the call that confirmed it; it is the same for as long as the outage lasts.
	Reason string
	// Over is when the cloud answered again; zero while it does not.
	Over time.Time
}

const (
	// suspicious is how many calls have to fail in a row, with no answer to any other between them, before a probe
	// decides whether that is an outage. A call that fails for reasons of its own, such as one network on which Neutron
	// trips, is one in many that are answered; where nobody else calls, the probe is the other.
	suspicious = 5
	// probeTimeout bounds a probe, unless Options.Timeout is shorter. It is less than probeLast, so that a probe that
	// hangs does not delay the next.
	probeTimeout = 10 * time.Second
	// Probes come probeFirst after an outage began, then after pauses that double up to probeLast, give or take a tenth:
	// that is how late the cloud's return is noticed at most.
	probeFirst = time.Second
	probeLast  = 15 * time.Second
	// calm is how long the cloud has to answer before the pauses between probes begin anew. Without it, a cloud that
	// is there for a moment now and then would be tried by everybody each time.
	calm = time.Minute
	// outagePause is the pause that a call which was not sent asks for. Who waits is woken when the outage is over
	// (Options.Outage); this is for those who are not.
	outagePause = 5 * time.Minute
)

// breaker is a circuit breaker for one cloud (M. Nygard, Release It!): while the cloud does not answer, calls are not
// sent but fail at once, and one probe at a time finds out when it is back. What a dead cloud costs is then the same
// for ten objects and for ten thousand.
//
// It is closed, and lets everything pass, until Cloud.Run attends to it. All methods are safe for concurrent use.
type breaker struct {
	// suspected has a value in it when somebody should probe.
	suspected chan struct{}

	mu       sync.Mutex
	attended bool
	// failures counts the calls that failed since the last answer; first is when the first of them began.
	failures int
	first    time.Time
	// outage is nil while the breaker is closed; over is closed when the outage is.
	outage *Outage
	over   chan struct{}
	// ended is when the last outage ended, and pause the last one between its probes.
	ended time.Time
	pause time.Duration
}

func newBreaker() *breaker { return &breaker{suspected: make(chan struct{}, 1)} }

// ErrOutage is the cause of errors that admit gives.
var ErrOutage = errors.New("the cloud does not answer")

// admit gives an error for a call that is not to be sent. It is no *Error of one that is MaybeDone.
func (b *breaker) admit(op string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil {
		return nil
	}
	return &Error{
		Kind: Transient, Op: op, Wait: outagePause, Unsent: true, cause: ErrOutage,
		Reason: fmt.Sprintf("not sent: the cloud has not answered since %s (%s)",
			b.outage.Since.UTC().Format(time.RFC3339), b.outage.Reason),
	}
}

// observe takes note of how a call ended that began at a time. It returns the outage that an answer ended, or nil.
func (b *breaker) observe(began time.Time, s sign) *Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch s {
	case silence, unanswered:
		if b.outage != nil || !b.attended {
			break
		}
		if b.failures == 0 || began.Before(b.first) {
			b.first = began
		}
		if b.failures++; b.failures >= suspicious || s == silence {
			select {
			case b.suspected <- struct{}{}:
			default:
			}
		}
	case answered:
		b.failures = 0
		if b.outage != nil {
			return b.close()
		}
	}
	return nil
}

// trip opens the breaker because a probe that began at a time failed, unless a call has been answered since.
func (b *breaker) trip(began time.Time, reason string) *Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage != nil || b.failures == 0 || b.first.After(began) {
		return nil
	}
	b.outage, b.over = &Outage{Since: b.first, Reason: reason}, make(chan struct{})
	if time.Since(b.ended) > calm {
		b.pause = 0
	}
	return new(*b.outage)
}

// close ends the outage. The caller holds mu.
func (b *breaker) close() *Outage {
	ended := *b.outage
	ended.Over = time.Now()
	b.outage, b.failures, b.ended = nil, 0, ended.Over
	close(b.over)
	select {
	case <-b.suspected: // of before
	default:
	}
	return &ended
}

// ending is closed when the present outage is over; nil where there is none.
func (b *breaker) ending() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil {
		return nil
	}
	return b.over
}

// OutageEnd is closed when the cloud's present outage is over; nil where there is none.
func (c *Cloud) OutageEnd() <-chan struct{} { return c.breaker.ending() }

// next is the pause before the next probe.
func (b *breaker) next() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause = min(max(2*b.pause, probeFirst), probeLast)
	return Jitter(b.pause)
}

// attend says whether somebody probes. When nobody does any more, everything passes.
func (b *breaker) attend(attended bool) *Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attended = attended
	if b.outage != nil {
		return b.close()
	}
	return nil
}

// sign is what the end of a call says of the cloud as a whole.
type sign int

const (
	// nothing: the caller went away, or the call was not sent.
	nothing sign = iota
	// answered: somebody who understood the call answered it, be it with a refusal.
	answered
	// unanswered: nobody answered, or somebody who did not understand the call. It may be the call's own fault.
	unanswered
	// silence: nobody can do anything, for as long as it lasts.
	silence
)

// signOf judges a call to Neutron by how it ended. ctx is the caller's, without the call's own deadline.
func signOf(ctx context.Context, err error) sign {
	var refusal *notPermitted
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return answered
	case ctx.Err() != nil, errors.As(err, &refusal), !ok, e.Unsent:
		return nothing
	case e.Kind != Transient && e.Kind != Unauthenticated:
		return answered
	case e.Status == http.StatusUnauthorized:
		// Neutron's word on a token tells nothing of Keystone, which is needed next.
		return nothing
	default:
		return unanswered
	}
}

// signOfLogin judges a log-in. One that gets no answer concerns everybody: it is tried where there is no good token.
func signOfLogin(ctx context.Context, err error) sign {
	s := signOf(ctx, err)
	switch {
	case s == unanswered:
		return silence
	case KindOf(err) == Unauthenticated:
		return answered
	case s == answered && err == nil:
		// Keystone has answered. Whether Neutron does is not known yet.
		return nothing
	}
	return s
}

const opProbe = "probe"

// Run notices when the cloud does not answer, and when it does again, until ctx is done. Meanwhile calls fail at once
// and are not sent, except for one probe at a time. Without Run, every call is sent. At most one Run may run.
//
// An outage begins when several calls in a row, or a log-in, got no answer, or none but what a broken server, or a
// proxy in front of it, gives; and a probe (one read of Options.Probe) gets none either. It ends with the first
// answer to a probe, or to a call that was still under way.
func (c *Cloud) Run(ctx context.Context) {
	c.breaker.attend(true)
	defer func() { c.tell(c.breaker.attend(false)) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.breaker.suspected:
		}
		began := time.Now()
		err := c.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if signOf(ctx, err) != unanswered {
			c.tell(c.breaker.observe(began, answered))
			continue
		}
		if outage := c.breaker.trip(began, c.silenceOf(err)); outage != nil {
			c.tell(outage)
			c.sitOut(ctx)
		}
	}
}

// sitOut probes until the outage is over, or ctx is done.
func (c *Cloud) sitOut(ctx context.Context) {
	probed := time.Now()
	for over := c.breaker.ending(); over != nil && c.breaker.ending() == over; {
		Pause(ctx, time.Until(probed.Add(c.breaker.next())), over)
		if ctx.Err() != nil || c.breaker.ending() != over {
			return
		}
		probed = time.Now()
		if err := c.probe(ctx); ctx.Err() == nil && signOf(ctx, err) != unanswered {
			c.tell(c.breaker.observe(probed, answered))
		}
	}
}

// probe logs in, where there is no good token, and reads one resource of Options.Probe.
func (c *Cloud) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, c.options.Timeout))
	defer cancel()
	var page map[string]json.RawMessage // a portal in front of the cloud may answer with a page of its own
	return c.exchange(ctx, Request{
		Op: opProbe, Method: http.MethodGet, Path: c.options.Probe.Many,
		query: url.Values{"limit": {"1"}, "fields": {"id"}}, Answer: &page,
	})
}

// silenceOf says, for a user, who did not answer a probe and how.
func (c *Cloud) silenceOf(err error) string {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return connectionReason(err)
	case e.OfLogin():
		return e.Error()
	}
	text := e.Reason
	if e.Status != 0 {
		text += ", HTTP " + strconv.Itoa(e.Status)
	}
	if identity, known := c.known(); known {
		return "Neutron at " + identity.Endpoint + ": " + text
	}
	return text
}

// tell tells Options.Outage, where outage is not nil. Beginnings and ends are found out by different goroutines: a
// beginning whose end was found out before it could be told is not told any more, so that an end is always the last.
func (c *Cloud) tell(outage *Outage) {
	if outage == nil {
		return
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	if outage.Over.IsZero() && c.breaker.ending() == nil {
		return
	}
	c.options.Outage(*outage)
}

// Pause returns after a pause, when ctx is done, or when wake is closed; a nil wake never is.
func Pause(ctx context.Context, pause time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Jitter spreads a pause by a tenth to both sides, so that many controllers do not list in step.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
