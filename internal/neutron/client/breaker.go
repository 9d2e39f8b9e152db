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
	"strings"
	"sync"
	"time"
)

// Outage is a time in which the cloud does not answer.
type Outage struct {
	// Since is when the first of the calls that caused it began.
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
	// silent is how long calls wait, while no call is answered, before a probe checks for an outage. A cloud that hangs
	// fails no call for Options.Timeout.
	silent = 10 * time.Second
	// probeTimeout bounds a probe, unless Options.Timeout is shorter. It is less than probeLast, so that a hanging probe
	// does not delay the next.
	probeTimeout = 10 * time.Second
	// The pauses between the beginnings of two probes double from probeFirst to probeLast, with 10 % jitter. That is the
	// longest delay before the controller notices that the cloud is back.
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
	// report is called with mu held, so that beginnings and ends of outages are reported in order.
	report func(Outage)
	// suspected holds a value if a probe is needed at once.
	suspected chan struct{}

	mu sync.Mutex
	// failures counts the calls that failed since the last answer; first is when the first of them began.
	failures int
	first    time.Time
	// waiting counts the calls that wait for an answer. quiet is since when some have waited without any answer, and
	// hang calls look while some do.
	waiting int
	quiet   time.Time
	hang    *time.Timer
	// outage is nil while the breaker is closed; over is closed when the outage ends.
	outage *Outage
	over   chan struct{}
	// ended is when the last outage ended; pause is the last pause between its probes.
	ended time.Time
	pause time.Duration
}

func newBreaker(report func(Outage)) *breaker {
	return &breaker{report: report, suspected: make(chan struct{}, 1)}
}

// ErrOutage is the cause of errors for calls that are not sent during an outage.
var ErrOutage = errors.New("the cloud does not answer")

// admit returns an error if a call must not be sent. The error is not MaybeDone.
func (b *breaker) admit(op string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil {
		return nil
	}
	refusal := HeldBack(GateOutage, op, fmt.Sprintf("the cloud has not answered since %s (%s)",
		b.outage.Since.UTC().Format(time.RFC3339), b.outage.Reason))
	refusal.Wait, refusal.cause = outagePause, ErrOutage
	return refusal
}

// observe records the result of a call to Neutron that began at began.
func (b *breaker) observe(began time.Time, s sign) {
	switch s {
	case answered:
		b.reset()
	case unanswered:
		b.failed(began, suspicious)
	}
}

// failed records a call that began at began and got no answer. If it is the last of so many in a row, a probe is
// needed.
func (b *breaker) failed(began time.Time, inRow int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage != nil {
		return
	}
	if b.failures == 0 || began.Before(b.first) {
		b.first = began
	}
	if b.failures++; b.failures >= inRow {
		b.suspect()
	}
}

// wait notes that a call waits for its answer, until done is called.
func (b *breaker) wait() (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting++; b.waiting == 1 {
		b.quiet, b.hang = time.Now(), time.AfterFunc(silent, b.look)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.waiting--; b.waiting == 0 {
			b.hang.Stop()
		}
	}
}

// look asks for a probe if calls have waited long and none was answered.
func (b *breaker) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == 0 {
		return
	}
	left := silent - time.Since(b.quiet)
	if left <= 0 {
		left = silent
		if b.outage == nil {
			b.suspect()
		}
	}
	b.hang.Reset(left)
}

// silentSince returns since when the cloud has answered none of the calls that failed or wait. It returns false if
// there are none. The caller holds mu.
func (b *breaker) silentSince() (time.Time, bool) {
	if b.failures > 0 && (b.waiting == 0 || b.first.Before(b.quiet)) {
		return b.first, true
	}
	return b.quiet, b.waiting > 0
}

// Silence is how long calls to the cloud have waited since it last answered one, or how long its outage has lasted; 0
// if no call waits. Beyond some twenty seconds, a probe has not been answered, either. Run counts it.
func (c *Cloud) Silence() time.Duration {
	b := c.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.outage != nil:
		return time.Since(b.outage.Since)
	case b.waiting > 0:
		return time.Since(b.quiet)
	}
	return 0
}

// suspect asks for a probe at once.
func (b *breaker) suspect() {
	select {
	case b.suspected <- struct{}{}:
	default:
	}
}

// trip opens the breaker because a probe that began at began failed, unless another call has been answered since.
func (b *breaker) trip(began time.Time, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, some := b.silentSince()
	if b.outage != nil || !some || since.After(began) {
		return
	}
	b.outage, b.over = &Outage{Since: since, Reason: reason}, make(chan struct{})
	if time.Since(b.ended) > calm {
		b.pause = 0
	}
	select {
	case <-b.suspected: // this probe was the answer to it
	default:
	}
	b.report(*b.outage)
}

// reset forgets the failures and ends the outage: the cloud has answered.
func (b *breaker) reset() { b.close(b.report) }

// abandon forgets the failures and lets calls pass, because nobody probes any more. Nobody knows if the outage is over,
// so nothing is reported.
func (b *breaker) abandon() { b.close(func(Outage) {}) }

func (b *breaker) close(report func(Outage)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.quiet = 0, time.Now()
	if b.outage == nil {
		return
	}
	ended := *b.outage
	ended.Over = time.Now()
	b.outage, b.ended = nil, ended.Over
	close(b.over)
	report(ended)
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

// next returns the pause between the present outage's last probe and the next one. It returns false if there is no
// outage.
func (b *breaker) next() (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage == nil {
		return 0, false
	}
	b.pause = min(max(2*b.pause, probeFirst), probeLast)
	return Jitter(b.pause), true
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
)

// signOf judges the result of a call. ctx is the caller's, without the call's own deadline.
func signOf(ctx context.Context, err error) sign {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return answered
	case ctx.Err() != nil, !ok, e.Unsent():
		return nothing
	case e.Fresh:
		return unanswered
	case e.Kind == Unauthenticated:
		// Neutron's refusal of a token shows nothing about Keystone, which is needed next. A refused log-in shows nothing
		// about Neutron.
		return nothing
	case e.Kind != Transient:
		return answered
	default:
		return unanswered
	}
}

const opProbe = "probe"

// Run detects outages of the cloud and their ends, until ctx is done. During an outage calls fail at once and are not
// sent, except for one probe at a time. Without Run, every call is sent. Only one Run may run at a time.
//
// An outage begins when several calls in a row, or a log-in, and then a probe get no answer; or when calls wait, none
// is answered for some seconds, and then a probe is not. The answer of a broken server or proxy counts as none. A probe
// is one read of Options.Probe. The outage ends with the first answer to a probe, or to a call still under way. It also
// ends when other credentials are for another cloud; see Replace.
func (c *Cloud) Run(ctx context.Context) {
	defer c.breaker.abandon()
	var began time.Time
	for {
		var due <-chan time.Time
		if pause, open := c.breaker.next(); open {
			due = time.After(time.Until(began.Add(pause)))
		}
		select {
		case <-ctx.Done():
			return
		case <-due:
		case <-c.breaker.suspected:
		}
		began = time.Now()
		err := c.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case signOf(ctx, err) == unanswered:
			c.breaker.trip(began, c.silenceOf(err))
		default:
			c.breaker.reset()
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
	if identity, known := c.Known(); known && !strings.Contains(text, identity.Endpoint) {
		return "Neutron at " + identity.Endpoint + ": " + text
	}
	return text
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
