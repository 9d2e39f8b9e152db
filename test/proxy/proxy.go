// Package proxy is a proxy of an HTTP API that counts and logs the calls, and breaks chosen ones: before
// they arrive, or after they were carried out and before the answer is heard.
//
// What it breaks is chosen by a function of the Call, and how is a Fault. Streams (watches) can be frozen and cut.
package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Call is one request.
type Call struct {
	// Write is the place of the call among the writes, from 1 on; 0 of a read.
	Write int
	// Caller is who sent it; see Options.
	Caller string
	// Method is the HTTP method, and Shape the path without what differs from resource to resource:
	// "/v2.0/networks/{id}".
	Method, Shape string
	// Request is the request as it arrived, and Body what it brought.
	Request *http.Request
	Body    []byte
}

// Query gives a parameter of the call's URL.
func (c Call) Query(name string) string { return c.Request.URL.Query().Get(name) }

// Entry is a write in the log.
type Entry struct {
	// At is when the write arrived.
	At time.Time
	// Method, Shape and Path say what it was.
	Method, Shape, Path string
	// Caller is who sent it; see Options.
	Caller string
	// Broken is true where a rule was applied.
	Broken bool
}

// String is one line.
func (e Entry) String() string {
	text := fmt.Sprintf("%s %s %s", e.At.Format("15:04:05.000"), e.Method, e.Path)
	if e.Caller != "" {
		text += " by the " + e.Caller
	}
	if e.Broken {
		text += " (broken)"
	}
	return text
}

// Options say what a Proxy is for.
type Options struct {
	// Target is where requests go: scheme and host. The path of a request stays as it is.
	Target *url.URL
	// Transport carries them; http.DefaultTransport if nil.
	Transport http.RoundTripper
	// Listener is where it listens, unless nil, in the place of loopback.
	Listener net.Listener
	// TLS has the proxy serve TLS, with a certificate that Certificate gives.
	TLS bool
	// Shape makes the shape of a path.
	Shape func(path string) string
	// Reads reports whether a call whose method is not that of a read nevertheless changes nothing. Nil means none.
	Reads func(Call) bool
	// Caller, unless nil, tells whose a call is.
	Caller func(Call) string
	// Ask, unless nil, changes requests on their way to the target.
	Ask func(*http.Request)
	// Arrived, unless nil, is called for each call when it has arrived. It may be called from many goroutines at once.
	Arrived func(Call)
	// Answered, unless nil, changes what the target answered to calls that are not streams, before any fault does.
	Answered func(Call, *Answer)
}

// Proxy is a proxy that listens on loopback. All methods are safe for concurrent use.
type Proxy struct {
	options  Options
	server   *httptest.Server
	upstream *http.Client
	streamer *httputil.ReverseProxy
	// certificate is nil where the proxy serves no TLS.
	certificate atomic.Pointer[tls.Certificate]

	mu      sync.Mutex
	counts  map[string]int
	log     []Entry
	rules   []*Rule
	streams map[*stream]bool
}

// Start starts a proxy. Close MUST be called.
func Start(o Options) *Proxy {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if o.Reads == nil {
		o.Reads = func(Call) bool { return false }
	}
	if o.Caller == nil {
		o.Caller = func(Call) string { return "" }
	}
	if o.Ask == nil {
		o.Ask = func(*http.Request) {}
	}
	p := &Proxy{options: o, counts: map[string]int{}, streams: map[*stream]bool{}}
	p.upstream = &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	p.streamer = &httputil.ReverseProxy{
		Transport: o.Transport, FlushInterval: -1, ErrorLog: silent,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: o.Target.Scheme, Host: o.Target.Host})
			o.Ask(r.Out)
		},
	}
	// Without HTTP/2, a broken call breaks its own connection and no other's.
	if o.Listener != nil {
		p.server = &httptest.Server{Listener: o.Listener, Config: &http.Server{Handler: http.HandlerFunc(p.serve)}}
	} else {
		p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	}
	p.server.Config.ErrorLog = silent
	if o.TLS {
		p.certificate.Store(newCertificate())
		p.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*p.certificate.Load()}}, nil
		}}
		p.server.StartTLS()
	} else {
		p.server.Start()
	}
	return p
}

// URL is the proxy's address: scheme and host.
func (p *Proxy) URL() *url.URL {
	address, err := url.Parse(p.server.URL)
	if err != nil {
		panic(err) // httptest made it
	}
	return address
}

// Certificate is what clients have to trust where the proxy serves TLS, in DER.
func (p *Proxy) Certificate() []byte { return p.certificate.Load().Certificate[0] }

// Close cuts all connections and ends the proxy.
func (p *Proxy) Close() {
	p.server.CloseClientConnections()
	p.Cut(func(Call) bool { return true })
	p.server.Close()
	// Its target counts those that are open, too.
	p.upstream.CloseIdleConnections()
}

// Rule is what Break made: a fault and when it happens.
type Rule struct {
	when  func(Call) bool
	limit int
	do    Fault

	p    *Proxy
	hits int
	hit  chan struct{}
}

// Break breaks the calls for which when is true, the first limit of them, or all where limit is 0. A call is broken by
// the oldest rule that wants it. when is called with a lock held: it MUST NOT call the proxy.
func (p *Proxy) Break(when func(Call) bool, limit int, do Fault) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &Rule{when: when, limit: limit, do: do, p: p, hit: make(chan struct{})}
	p.rules = append(p.rules, r)
	return r
}

// Hits is how many calls the rule has broken.
func (r *Rule) Hits() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.hits
}

// Hit is closed when the rule breaks its first call.
func (r *Rule) Hit() <-chan struct{} { return r.hit }

// Mend ends the rule. What it is breaking at the moment stays broken.
func (r *Rule) Mend() {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.rules = slices.DeleteFunc(r.p.rules, func(other *Rule) bool { return other == r })
}

// Count is how many calls of a method and a shape there were.
func (p *Proxy) Count(method, shape string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[method+" "+shape]
}

// Counts are the numbers of calls by "METHOD shape".
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Writes is the log of the writes so far, in the order of their arrival: that of number n is at n-1.
func (p *Proxy) Writes() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// String is the log of the writes, one per line.
func (p *Proxy) String() string {
	var b strings.Builder
	for _, e := range p.Writes() {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	// A server learns that its caller has left only once the body is read.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	call := Call{Method: r.Method, Shape: p.options.Shape(r.URL.Path), Request: r, Body: body}
	call.Caller = p.options.Caller(call)
	rule := p.admit(&call)
	if p.options.Arrived != nil {
		p.options.Arrived(call)
	}
	if rule == nil && isStream(r) {
		p.serveStream(w, call)
		return
	}
	x := &Exchange{Call: call, p: p, w: w}
	if rule == nil {
		answer, err := x.Forward() //nolint:contextcheck // it goes on when the caller goes away
		if err != nil {
			x.Reset()
		}
		x.Answer(answer)
		return
	}
	rule.do(x)
}

// admit counts a call, numbers it if it is a write, and finds the rule that breaks it.
func (p *Proxy) admit(call *Call) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[call.Method+" "+call.Shape]++
	write := call.Method != http.MethodGet && call.Method != http.MethodHead && !p.options.Reads(*call)
	if write {
		call.Write = len(p.log) + 1
	}
	at := slices.IndexFunc(p.rules, func(r *Rule) bool { return (r.limit == 0 || r.hits < r.limit) && r.when(*call) })
	if write {
		p.log = append(p.log, Entry{
			At: time.Now(), Method: call.Method, Shape: call.Shape, Path: call.Request.URL.Path, Caller: call.Caller,
			Broken: at >= 0,
		})
	}
	if at < 0 {
		return nil
	}
	r := p.rules[at]
	if r.hits++; r.hits == 1 {
		close(r.hit)
	}
	return r
}

// Exchange is a call that is being broken. A Fault MUST end it with Answer, Reset or Truncate.
type Exchange struct {
	Call

	p *Proxy
	w http.ResponseWriter
}

// Answer is what the target answered, or what a fault answers in its place.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Forward sends the call to the target and gives its answer. It goes on when the caller goes away.
func (x *Exchange) Forward() (*Answer, error) {
	in := x.Request
	out, err := http.NewRequestWithContext(detached(in), in.Method, in.URL.String(), bytes.NewReader(x.Body))
	if err != nil {
		return nil, err
	}
	out.Header = in.Header.Clone()
	out.Header.Del("Connection")
	// A transport decodes what it has asked for by itself.
	out.Header.Del("Accept-Encoding")
	out.URL.Scheme, out.URL.Host = x.p.options.Target.Scheme, x.p.options.Target.Host
	x.p.options.Ask(out)
	response, err := x.p.upstream.Do(out)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	answer := &Answer{Status: response.StatusCode, Header: response.Header, Body: content}
	if x.p.options.Answered != nil {
		x.p.options.Answered(x.Call, answer)
	}
	return answer, nil
}

// Answer answers the caller.
func (x *Exchange) Answer(a *Answer) {
	x.head(a, len(a.Body))
	// A caller that went away is no concern of the proxy's.
	_, _ = x.w.Write(a.Body)
}

func (x *Exchange) head(a *Answer, length int) {
	header := x.w.Header()
	maps.Copy(header, a.Header)
	for _, hop := range []string{"Content-Length", "Transfer-Encoding", "Connection", "Date"} {
		header.Del(hop)
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		header.Set("Content-Length", fmt.Sprint(length))
	}
	x.w.WriteHeader(a.Status)
}

// Reset cuts the connection without an answer.
func (x *Exchange) Reset() { panic(http.ErrAbortHandler) }

// Truncate answers with half of a body that is announced whole, and cuts the connection.
func (x *Exchange) Truncate(a *Answer) {
	x.head(a, max(len(a.Body), 2))
	_, _ = x.w.Write(a.Body[:len(a.Body)/2])
	_ = http.NewResponseController(x.w).Flush()
	x.Reset()
}
