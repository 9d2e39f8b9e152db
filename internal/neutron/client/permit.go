package client

import "net/http"

// permitted is a transport that asks for a permit right before it sends a write. Without a permit it does not send it.
type permitted struct {
	http.RoundTripper
	permit func() error
}

// RoundTrip implements http.RoundTripper.
func (p permitted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := p.permit(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // required by http.RoundTripper
			}
			return nil, &notPermitted{err}
		}
	}
	return p.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections implements what http.Client expects of its transport.
func (p permitted) CloseIdleConnections() { closeIdle(p.RoundTripper) }

// notPermitted is the error of a write without a permit.
type notPermitted struct{ reason error }

func (e *notPermitted) Error() string { return e.reason.Error() }

// Unwrap returns the error of Options.Permit.
func (e *notPermitted) Unwrap() error { return e.reason }
