package neutron

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// permitted is a transport that asks before each write whether it may be sent, and again when there is a connection to
// send it over: to connect may take long, and the process may have been stopped meanwhile. What is refused then is kept
// from being sent by closing the connection, to which nothing of the request was written yet: HTTP/1's transport traces
// a connection before it hands over the request (net/http, Transport.getConn).
type permitted struct {
	http.RoundTripper
	permit func() error
}

// RoundTrip is that of http.RoundTripper. Of a write that is refused no byte was sent.
func (p permitted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return p.RoundTripper.RoundTrip(r)
	}
	if err := p.permit(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as http.RoundTripper has it
		}
		return nil, &notPermitted{err}
	}
	var refused atomic.Pointer[notPermitted]
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		refused.Store(nil) // of a connection that was lost before it was of use, where another is tried
		if err := p.permit(); err != nil {
			refused.Store(&notPermitted{err})
			_ = got.Conn.Close() // it was given up anyway
		}
	}}
	response, err := p.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if refusal := refused.Load(); err != nil && refusal != nil {
		err = refusal
	}
	return response, err
}

// CloseIdleConnections is for http.Client, which asks its transport for it.
func (p permitted) CloseIdleConnections() { closeIdle(p.RoundTripper) }

// notPermitted is why a write was not sent.
type notPermitted struct{ reason error }

func (e *notPermitted) Error() string { return e.reason.Error() }

// Unwrap gives what Options.Permit returned.
func (e *notPermitted) Unwrap() error { return e.reason }
