package client

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// patient is a Cloud in virtual time whose Run runs. Its callers retry like controllers.
type patient struct {
	*Cloud
	f *fakeCloud
	t *testing.T
	// stop ends Run.
	stop func()

	// failing, if set, answers requests instead of the fake cloud.
	failing atomic.Pointer[http.RoundTripper]
	// sent counts requests, log-ins included.
	sent atomic.Int64

	mu      sync.Mutex
	outages []Outage
	texts   map[string]bool
}

// inOutages runs a test with a patient cloud.
func inOutages(t *testing.T, timeout time.Duration, test func(t *testing.T, p *patient)) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{t: t, texts: map[string]bool{}}
		p.f, p.Cloud = inBubble(t, noNetworks, Options{Timeout: timeout, Transport: transport(p.RoundTrip), Outage: func(o Outage) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.outages = append(p.outages, o)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		p.stop = cancel
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		if _, err := p.Identity(ctx); err != nil {
			t.Fatal(err)
		}
		test(t, p)
		p.stop()
		<-done
	})
}

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	p.sent.Add(1)
	if fail := p.failing.Load(); fail != nil {
		return (*fail).RoundTrip(r)
	}
	return direct{Handler: p.f}.RoundTrip(r)
}

// fail makes requests fail until it is called with nil.
func (p *patient) fail(how http.RoundTripper) {
	if how == nil {
		p.failing.Store(nil)
		return
	}
	p.failing.Store(&how)
}

// told returns the calls of Options.Outage, each as "began" or "over".
func (p *patient) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, o := range p.outages {
		if o.Over.IsZero() {
			all = append(all, "began")
		} else {
			all = append(all, "over")
		}
	}
	return strings.Join(all, " ")
}

// reasons returns the texts of errors of calls that were not sent.
func (p *patient) reasons() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.texts))
}

// callers write until they succeed or ctx is done. They retry with backoff up to a minute, and at once when an outage is
// over. The texts of errors of calls that were not sent are recorded.
func (p *patient) callers(ctx context.Context, count int) *sync.WaitGroup {
	var all sync.WaitGroup
	for range count {
		all.Go(func() {
			for backoff := 250 * time.Millisecond; ctx.Err() == nil; backoff = min(2*backoff, time.Minute) {
				err := p.Do(ctx, Request{Op: "create network", Method: http.MethodPost, Path: "networks",
					Body: map[string]any{"network": map[string]any{"name": "n"}}, Answer: new(map[string]any)})
				if err == nil {
					return
				}
				if strings.Contains(err.Error(), "not sent") {
					p.mu.Lock()
					p.texts[err.Error()] = true
					p.mu.Unlock()
					if MaybeDone(err) {
						p.t.Errorf("a call that was not sent may be done: %v", err)
					}
				}
				Pause(ctx, Jitter(backoff), p.breaker.ending())
			}
		})
	}
	return &all
}

func refused(r *http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9696},
		Err: fmt.Errorf("connect: %w", syscall.ECONNREFUSED)}
}

func hanging(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// transport is a function as a transport.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// status is a transport that answers every request with this status and no JSON.
type status int

func (s status) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(s), Request: r, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("<html>"))}, nil
}

func TestAnOutageCostsTheSameForAnyNumberOfCallers(t *testing.T) {
	for how, fail := range map[string]http.RoundTripper{
		"connections are refused":        transport(refused),
		"nothing answers":                transport(hanging),
		"a proxy answers with 503":       status(http.StatusServiceUnavailable),
		"its database is gone: all 500s": status(http.StatusInternalServerError),
		"a portal answers with a page":   status(http.StatusOK),
	} {
		for _, count := range []int{10, 300} {
			t.Run(fmt.Sprintf("%s, %d callers", how, count), func(t *testing.T) {
				inOutages(t, time.Minute, func(t *testing.T, p *patient) {
					p.fail(fail)
					went := time.Now()
					ctx, cancel := context.WithCancel(t.Context())
					all := p.callers(ctx, count)
					elapse(5 * time.Minute)
					// Those that were under way at first were sent; from then on it is the probes alone.
					before := p.sent.Load()
					const long = 20 * time.Minute
					elapse(long)
					probes := p.sent.Load() - before
					if least, most := int64(long/(probeLast*12/10)), int64(long/(probeLast*8/10)); probes < least || probes > most {
						t.Errorf("%d requests in 20 minutes of outage, want between %d and %d", probes, least, most)
					}
					expect.Len(t, 1, p.reasons(), "reasons during one outage")

					p.fail(nil)
					back := time.Now()
					all.Wait()
					if late := virtual.Since(back); late > probeLast*11/10 {
						t.Errorf("the cloud's return was noticed after %v, want at most %v", late, probeLast*11/10)
					}
					cancel()
					expect.Equal(t, "began over", p.told(), "what was told")
					p.mu.Lock()
					defer p.mu.Unlock()
					if since := p.outages[0].Since; !since.Equal(went) {
						t.Errorf("the outage is told to be since %v, and it began at %v", since, went)
					}
				})
			})
		}
	}
}

func TestErrorsThatBeginNoOutage(t *testing.T) {
	for name, fail := range map[string]func(*patient) http.RoundTripper{
		"one resource on which Neutron trips, though nobody calls about another": func(p *patient) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					return status(http.StatusInternalServerError).RoundTrip(r)
				}
				return direct{Handler: p.f}.RoundTrip(r)
			})
		},
		"a cloud that asks to wait": func(*patient) http.RoundTripper {
			return status(http.StatusTooManyRequests)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inOutages(t, time.Minute, func(t *testing.T, p *patient) {
				p.fail(fail(p))
				ctx, cancel := context.WithCancel(t.Context())
				all := p.callers(ctx, 5)
				elapse(time.Hour)
				cancel()
				all.Wait()
				expect.Equal(t, "", p.told(), "what was told of a cloud that answers")
			})
		})
	}
}

func TestDuringAnOutageCallsAreNotSent(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.fail(status(http.StatusServiceUnavailable))
		var open, shut int
		for range 3 * suspicious {
			err := call(t.Context(), p.Cloud, http.MethodPost)
			switch sent := !strings.Contains(err.Error(), "not sent"); {
			case sent != MaybeDone(err):
				t.Errorf("sent %t, may be done %t: %v", sent, MaybeDone(err), err)
			case sent:
				open++
			default:
				shut++
			}
			elapse(2 * probeTimeout)
		}
		if open != suspicious || shut != 2*suspicious {
			t.Errorf("%d calls were sent and %d not, want %d and %d", open, shut, suspicious, 2*suspicious)
		}
		p.fail(nil)
		elapse(2 * probeLast)
	})
}

// TestACloudThatHangsIsSeenBeforeItsCallsFail holds what the alert NetworkCloudOutage counts on.
func TestACloudThatHangsIsSeenBeforeItsCallsFail(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.fail(transport(hanging))
		went := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- call(t.Context(), p.Cloud, http.MethodPost) }()
		elapse(silent + probeTimeout - time.Second)
		expect.Equal(t, "", p.told(), "what was told before the probe has failed")
		expect.Equal(t, virtual.Since(went), p.Silence(), "how long it is silent")
		elapse(2 * time.Second)
		expect.Equal(t, "began", p.told(), "what was told after the probe has failed")
		if err := p.breaker.admit("x"); err == nil {
			t.Error("more calls are sent to it")
		}
		elapse(time.Minute)
		expect.Equal(t, virtual.Since(went), p.Silence(), "how long it is silent after the call has failed")
		if err := <-ended; !MaybeDone(err) {
			t.Errorf("the call that hung ended with %v", err)
		}
		p.fail(nil)
		elapse(2 * probeLast)
		expect.Equal(t, "began over", p.told(), "what was told when it answers again")
		expect.Equal(t, time.Duration(0), p.Silence(), "how long it is silent when nothing waits")
	})
}

// TestACallThatTakesLongIsNoOutageWhileProbesAreAnswered has Neutron take a minute for one write, and answer reads.
func TestACallThatTakesLongIsNoOutageWhileProbesAreAnswered(t *testing.T) {
	inOutages(t, time.Hour, func(t *testing.T, p *patient) {
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				return hanging(r)
			}
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = call(ctx, p.Cloud, http.MethodPost) }()
		for range 60 {
			elapse(time.Second)
			if quiet := p.Silence(); quiet > silent+time.Second {
				t.Fatalf("it is said to be silent for %v, and answers probes", quiet)
			}
		}
		expect.Equal(t, "", p.told(), "what was told of a cloud that answers")
		cancel()
		<-ended
		expect.Equal(t, time.Duration(0), p.Silence(), "how long it is silent when nothing waits")
	})
}

// TestACloudWhoseCallsTakeSecondsIsNoOutage is the emulator's habit slow, with many callers.
func TestACloudWhoseCallsTakeSecondsIsNoOutage(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		const each = 3 * time.Second
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			elapse(each)
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		p.callers(t.Context(), 50).Wait()
		for range 50 {
			_ = call(t.Context(), p.Cloud, http.MethodGet)
			if quiet := p.Silence(); quiet > each {
				t.Errorf("it is said to be silent for %v", quiet)
			}
		}
		expect.Equal(t, "", p.told(), "what was told of a cloud that answers")
	})
}

func TestOneUnansweredLogInBeginsAnOutage(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.f.Revoke()
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/v3/") {
				return refused(r)
			}
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		all := p.callers(ctx, 100)
		elapse(time.Minute)
		if got := p.told(); got != "began" {
			t.Fatalf("told %q", got)
		}
		for _, text := range p.reasons() {
			expect.Contains(t, text, `log in to cloud "test"`, "the reason, which says what is away")
		}
		if _, err := p.Identity(ctx); err != nil {
			t.Errorf("where the credentials led is forgotten: %v", err)
		}
		before := p.sent.Load()
		elapse(20 * time.Minute)
		if sent := p.sent.Load() - before; sent > int64(20*time.Minute/(probeLast*8/10)) {
			t.Errorf("%d requests in 20 minutes", sent)
		}
		p.fail(nil)
		back := time.Now()
		all.Wait()
		if late := virtual.Since(back); late > probeLast*11/10 {
			t.Errorf("noticed after %v", late)
		}
		cancel()
	})
}

func TestALateAnswerEndsTheOutage(t *testing.T) {
	inOutages(t, time.Hour, func(t *testing.T, p *patient) {
		slow := make(chan error, 1)
		release := make(chan struct{})
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			<-release
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		go func() { slow <- call(t.Context(), p.Cloud, http.MethodDelete) }()
		synctest.Wait()
		p.fail(transport(refused))
		for range suspicious {
			_ = call(t.Context(), p.Cloud, http.MethodGet)
		}
		elapse(20 * time.Minute)
		if got := p.told(); got != "began" {
			t.Fatalf("told %q", got)
		}
		close(release)
		synctest.Wait()
		if err := <-slow; KindOf(err) != NotFound {
			t.Errorf("the slow call ended with %v", err)
		}
		expect.Equal(t, "began over", p.told(), "what was told")
	})
}

// TestPausesBetweenProbesContinueAfterAShortRecovery holds that the pauses between probes go on where they were.
func TestPausesBetweenProbesContinueAfterAShortRecovery(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		probes := func(r *http.Request) bool { return r.URL.Query().Get("limit") == "1" }
		var answering atomic.Bool
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			// It answers a probe, and is gone before anybody else calls.
			if probes(r) && answering.CompareAndSwap(true, false) {
				return direct{Handler: p.f}.RoundTrip(r)
			}
			return refused(r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		all := p.callers(ctx, 100)
		elapse(5 * time.Minute)
		began := time.Now()
		for range 10 {
			for !strings.HasSuffix(p.told(), "began") {
				elapse(100 * time.Millisecond)
			}
			answering.Store(true)
			for answering.Load() {
				elapse(100 * time.Millisecond)
			}
		}
		if took := virtual.Since(began); took < 9*probeLast*9/10 {
			t.Errorf("ten probes were answered within %v", took)
		}
		cancel()
		all.Wait()
	})
}

func TestWithoutRunEveryCallIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := 0
		_, c := inBubble(t, func(w http.ResponseWriter, _ *http.Request) {
			served++
			answer(w, http.StatusServiceUnavailable, "")
		}, Options{})
		for range 10 * suspicious {
			if err := call(t.Context(), c, http.MethodPost); !MaybeDone(err) {
				t.Fatalf("got %v", err)
			}
		}
		expect.Equal(t, 10*suspicious, served, "calls were sent")
	})
}

func TestWhenRunEndsEveryCallIsSent(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.fail(transport(refused))
		for range suspicious {
			_ = call(t.Context(), p.Cloud, http.MethodGet)
		}
		elapse(time.Second)
		if p.breaker.admit("x") == nil {
			t.Fatal("the outage was not noticed")
		}
		p.stop()
		synctest.Wait()
		before := p.sent.Load()
		_ = call(t.Context(), p.Cloud, http.MethodGet)
		if p.sent.Load() == before {
			t.Error("nobody probes, and nothing is sent")
		}
		expect.Equal(t, "began", p.told(), "what is told: nobody knows whether the cloud answers again")
	})
}

func TestASlowCallIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		var takes time.Duration
		wait := func(w http.ResponseWriter, r *http.Request) { elapse(takes); noNetworks(w, r) }
		_, c := inBubble(t, wait, Options{Slow: func() { told++ }})
		for _, takes = range []time.Duration{0, slowAfter - time.Second, slowAfter + time.Second} {
			_ = call(t.Context(), c, http.MethodGet)
		}
		synctest.Wait()
		expect.Equal(t, 1, told, "slow calls")
	})
}

// A call that was under way may be answered before the probe that finds the outage has failed.
func TestAProbeOlderThanAnAnswerBeginsNoOutage(t *testing.T) {
	var told []Outage
	b := newBreaker(func(o Outage) { told = append(told, o) })
	began := time.Now()
	b.failed(began, 1)
	b.reset()
	b.trip(began, "broken by a test")
	if len(told) > 0 || b.ending() != nil {
		t.Errorf("told %v", told)
	}
}

func TestSignOf(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want sign
	}{
		"a success":                          {t.Context(), nil, answered},
		"the caller left":                    {left, &Error{Kind: Transient}, nothing},
		"a write that was not permitted":     {t.Context(), &Error{Gate: GatePermit}, nothing},
		"the network is not there":           {t.Context(), &Error{Kind: NotFound, Status: 404, Type: "NetworkNotFound"}, answered},
		"segments are exhausted, with 503":   {t.Context(), &Error{Kind: Capacity, Status: 503}, answered},
		"a token that ran out":               {t.Context(), &Error{Kind: Unauthenticated, Status: 401}, nothing},
		"Keystone forbids the log-in":        {t.Context(), &Error{Kind: Unauthenticated, Status: 403}, nothing},
		"no answer":                          {t.Context(), &Error{Kind: Transient}, unanswered},
		"an answer that is not the API's":    {t.Context(), BadAnswer("x", "GET", "x"), unanswered},
		"a gateway that has lost its server": {t.Context(), &Error{Kind: Transient, Status: 502}, unanswered},
		"a redirect":                         {t.Context(), &Error{Kind: Transient, Status: 302}, unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, c.want, signOf(c.ctx, c.err), "the sign")
		})
	}
}

func TestReplacedCredentialsDoNotEndAnOutageOfNeutron(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/v2.0/") {
				return refused(r)
			}
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		all := p.callers(ctx, 100)
		elapse(5 * time.Minute)
		expect.NoError(t, p.Replace(ctx, p.f.credentials()))
		elapse(5 * time.Minute)
		expect.Equal(t, "began", p.told(), "what was told after a log-in that ends no outage of Neutron")
		expect.Len(t, 1, p.reasons(), "reasons during one outage")

		p.fail(nil)
		expect.NoError(t, p.Replace(ctx, p.f.credentials()))
		synctest.Wait()
		expect.Equal(t, "began over", p.told(), "what was told after the probe that follows the log-in at once")
		all.Wait()
		cancel()
	})
}

func TestReplacedCredentialsForAnotherCloudEndTheOutage(t *testing.T) {
	inOutages(t, time.Minute, func(t *testing.T, p *patient) {
		p.fail(transport(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/former/") {
				return refused(r)
			}
			return direct{Handler: p.f}.RoundTrip(r)
		}))
		p.f.Set(func() {
			p.f.Endpoints = []endpoint{{Interface: "public", Region: "one", RegionID: "one", URL: p.f.URL + "/former/"}}
		})
		expect.NoError(t, p.Replace(t.Context(), p.f.credentials()))
		for range suspicious {
			_ = call(t.Context(), p.Cloud, http.MethodGet)
		}
		elapse(time.Second)
		if got := p.told(); got != "began" {
			t.Fatalf("told %q", got)
		}
		p.f.Set(func() { p.f.Endpoints = nil })
		expect.NoError(t, p.Replace(t.Context(), p.f.credentials()))
		if err := p.breaker.admit("create network"); err != nil {
			t.Errorf("the outage of the former cloud holds up calls to the next one: %v", err)
		}
		expect.Equal(t, "began over", p.told(), "what was told")
	})
}
