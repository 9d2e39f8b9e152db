package client

import (
	"context"
	"net/http"
)

// Permitted is a transport that asks for permits right before it sends a write: Permit, if set, and that of the
// request's context (see WithPermit). If one returns an error, the write is not sent. Reads need no permit. It is safe
// for concurrent use if its fields are.
type Permitted struct {
	http.RoundTripper
	Permit func() error
}

// RoundTrip implements http.RoundTripper. Its error wraps that of the permit.
func (p Permitted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		err := AskPermit(r.Context())
		if err == nil && p.Permit != nil {
			err = p.Permit()
		}
		if err != nil {
			return refuseToSend(r, Transient, GatePermit, err)
		}
	}
	return p.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (p Permitted) WrappedRoundTripper() http.RoundTripper { return p.RoundTripper }

type permitKey struct{}

// WithPermit binds a context to a permit, instead of one that it may have. Permitted asks it before each write with the
// context. It MUST be quick and safe for concurrent use. With nil, writes need no permit of the context's.
func WithPermit(ctx context.Context, permit func() error) context.Context {
	return context.WithValue(ctx, permitKey{}, permit)
}

// AskPermit returns why nothing may be written with a context; nil if it may.
func AskPermit(ctx context.Context) error {
	if permit, _ := ctx.Value(permitKey{}).(func() error); permit != nil {
		return permit()
	}
	return nil
}

// heldBack is the error of a request that this process did not send.
type heldBack struct {
	kind   Kind
	gate   Gate
	reason error
}

func (e *heldBack) Error() string { return e.reason.Error() }

// Unwrap returns the reason.
func (e *heldBack) Unwrap() error { return e.reason }

// refuseToSend ends a request as http.RoundTripper requires.
func refuseToSend(r *http.Request, kind Kind, gate Gate, reason error) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, &heldBack{kind, gate, reason}
}
