package client

import "net/http"

// Permitted is a transport that asks for a permit right before it sends a write. If Permit returns an error, the write
// is not sent. Reads need no permit. It is safe for concurrent use if its fields are.
type Permitted struct {
	http.RoundTripper
	Permit func() error
}

// RoundTrip implements http.RoundTripper. Its error wraps that of Permit.
func (p Permitted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := p.Permit(); err != nil {
			return refuseToSend(r, Transient, err)
		}
	}
	return p.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (p Permitted) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

// heldBack is the error of a request that this process did not send.
type heldBack struct {
	kind   Kind
	reason error
}

func (e *heldBack) Error() string { return e.reason.Error() }

// Unwrap returns the reason.
func (e *heldBack) Unwrap() error { return e.reason }

// refuseToSend ends a request as http.RoundTripper requires.
func refuseToSend(r *http.Request, kind Kind, reason error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, &heldBack{kind, reason}
}
