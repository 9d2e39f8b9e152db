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
	// Since is when the first of the failed calls that led to it began.
	Since time.Time
	// Reason is the result of the probe that confirmed the outage. It stays the same during the outage.
	Reason string
	// Over is when the cloud answered again; zero until then.
	Over time.Time
}

const (
	// suspicious is how many calls must fail in a row before a probe checks for an outage. Any answer resets it. A call
	// may fail for its own reasons, such as one network that makes Neutron fail. Then other calls are answered, or the
	// probe is.
	suspicious = 5
	// probeTimeout bounds a probe, unless Options.Timeout is shorter. It is less than probeLast, so that a hanging probe
	// does not delay the next.
	probeTimeout = 10 * time.Second
	// The first probe comes probeFirst after an outage began. The pauses double up to probeLast, with 10 % jitter. That is
	// the longest delay before the controller notices that the cloud is back.
	probeFirst = time.Second
	probeLast  = 15 * time.Second
	// calm is how long the cloud must answer before the pauses between probes start again at probeFirst. Otherwise
	// everybody would try a cloud that answers only briefly, each time.
	calm = time.Minute
	// outagePause is the Wait of a call that was not sent. Callers that wait are woken when the outage is over
	// (Options.Outage). The pause is for the others.
	outagePause = 5 * time.Minute
)

// breaker is a circuit breaker for one cloud (M. Nygard, Release It!). While the cloud does not answer, calls fail at
// once and are not sent. One probe at a time checks whether it is back. So an outage costs the same for ten objects and
// for ten thousand.
//
// It is closed, and lets all calls pass, unless Cloud.Run runs. All methods are safe for concurrent use.
type breaker struct {
	// suspected holds a value if a probe is needed.
	suspected chan struct{}

	mu       sync.Mutex
	attended bool
	// failures counts the calls that failed since the last answer; first is when the first of them began.
	failures int
	first    time.Time
	// outage is nil while the breaker is closed; over is closed when the outage ends.
	outage *Outage
	over   chan struct{}
	// ended is when the last outage ended; pause is the last pause between its probes.
	ended time.Time
	pause time.Duration
}

func newBreaker() *breaker { return &breaker{suspected: make(chan struct{}, 1)} }

// ErrOutage is the cause of errors for calls that are not sent during an outage.
var ErrOutage = errors.New("the cloud does not answer")

// admit returns an error if a call must not be sent. The error is not MaybeDone.
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

// observe records the result of a call that began at began. It returns the outage that an answer ended, or nil.
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

// trip opens the breaker because a probe that began at began failed, unless another call has been answered since.
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
	case <-b.suspected: // from the past outage
	default:
	}
	return &ended
}

// ending returns a channel that is closed when the present outage ends; nil if there is none.
func (b *breaker) ending() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil {
		return nil
	}
	return b.over
}

// OutageEnd returns a channel that is closed when the cloud's present outage ends; nil if there is none.
func (c *Cloud) OutageEnd() <-chan struct{} { return c.breaker.ending() }

// next returns the pause before the next probe.
func (b *breaker) next() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause = min(max(2*b.pause, probeFirst), probeLast)
	return Jitter(b.pause)
}

// attend records whether Run probes. If it stops, the breaker closes and all calls pass.
func (b *breaker) attend(attended bool) *Outage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attended = attended
	if b.outage != nil {
		return b.close()
	}
	return nil
}

// sign is what the result of a call shows about the cloud as a whole.
type sign int

const (
	// nothing: the caller left, or the call was not sent.
	nothing sign = iota
	// answered: a server that understood the call answered it, even with a refusal.
	answered
	// unanswered: no answer, or one from a server that did not understand the call. The call itself may be the cause.
	unanswered
	// silence: no call can succeed until it ends.
	silence
)

// signOf judges the result of a call to Neutron. ctx is the caller's, without the call's own deadline.
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
		// Neutron's refusal of a token shows nothing about Keystone, which is needed next.
		return nothing
	default:
		return unanswered
	}
}

// signOfLogin judges a log-in. A log-in without an answer affects all calls, because it is tried only without a valid
// token.
func signOfLogin(ctx context.Context, err error) sign {
	s := signOf(ctx, err)
	switch {
	case s == unanswered:
		return silence
	case KindOf(err) == Unauthenticated:
		return answered
	case s == answered && err == nil:
		// Keystone has answered. Whether Neutron does is still unknown.
		return nothing
	}
	return s
}

const opProbe = "probe"

// Run detects outages of the cloud and their ends, until ctx is done. During an outage calls fail at once and are not
// sent, except for one probe at a time. Without Run, every call is sent. Only one Run may run at a time.
//
// An outage begins when several calls in a row, or a log-in, and then a probe get no answer. The answer of a broken
// server or proxy counts as none. A probe is one read of Options.Probe. The outage ends with the first answer to a
// probe, or to a call still under way.
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

// sitOut probes until the outage is over or ctx is done.
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

// probe logs in if there is no valid token, and reads one resource of Options.Probe.
func (c *Cloud) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, c.options.Timeout))
	defer cancel()
	var page map[string]json.RawMessage // a portal in front of the cloud may answer with its own page
	return c.exchange(ctx, Request{
		Op: opProbe, Method: http.MethodGet, Path: c.options.Probe.Many,
		query: url.Values{"limit": {"1"}, "fields": {"id"}}, Answer: &page,
	})
}

// silenceOf says for users which server did not answer a probe, and how it failed.
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

// tell calls Options.Outage if outage is not nil. Different goroutines detect beginnings and ends. A beginning whose
// end is already known is skipped, so that an end always comes last.
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

// Pause returns after a pause, when ctx is done, or when wake is closed; a nil wake never wakes it.
func Pause(ctx context.Context, pause time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Jitter changes a pause by up to a tenth, so that many controllers do not list at the same moment.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}
