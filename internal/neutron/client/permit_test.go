package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

var errFenced = errors.New("the lease is another's")

// gate is an Options.Permit that lets the first few questions pass.
type gate struct{ asked, passes atomic.Int32 }

func (g *gate) permit() error {
	if g.asked.Add(1) > g.passes.Load() {
		return errFenced
	}
	return nil
}

// received is a request of which a Neutron saw at least the beginning.
type received struct {
	method, body string
	broken       error
}

func TestAWriteWithoutAPermitIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		body   any
		passes int32
		sent   bool
	}{
		"a read is not asked about":    {http.MethodGet, nil, 0, true},
		"a create that is permitted":   {http.MethodPost, map[string]string{"a": "b"}, 1, true},
		"an update that is permitted":  {http.MethodPut, map[string]string{"a": "b"}, 1, true},
		"a deletion that is permitted": {http.MethodDelete, nil, 1, true},
		"a create that is not":         {http.MethodPost, map[string]string{"a": "b"}, 0, false},
		"an update that is not":        {http.MethodPut, map[string]string{"a": "b"}, 0, false},
		"a deletion that is not":       {http.MethodDelete, nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []received
			f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				seen = append(seen, received{r.Method, string(body), err})
				w.WriteHeader(okCodes[r.Method][0])
			})
			g := &gate{}
			g.passes.Store(c.passes)
			var calls []error
			cloud := NewCloud(passwordCredentials(f.URL+"/v3", canaryPassword), Options{
				Permit: g.permit, Called: func(call Call) { calls = append(calls, call.Err) },
			})
			if _, err := cloud.Identity(t.Context()); err != nil {
				t.Fatalf("a log-in is not asked about: %v", err)
			}
			err := cloud.Do(t.Context(), Request{Op: "try", Method: c.method, Path: "networks", Body: c.body})
			f.Close() // the requests have been answered
			if c.sent {
				if err != nil || len(seen) != 1 {
					t.Errorf("error %v, %d requests; want one that succeeds", err, len(seen))
				}
				for _, r := range seen {
					if r.broken != nil || (r.body == "") != (c.body == nil) {
						t.Errorf("it was sent as %+v", r)
					}
				}
				return
			}
			expect.Empty(t, seen, "it was sent")
			var e *Error
			if !errors.As(err, &e) || e.Kind != Transient || e.MaybeDone || !errors.Is(err, errFenced) ||
				!strings.Contains(err.Error(), errFenced.Error()) {
				t.Errorf("error %#v, want a transient one, surely not done, that says why", err)
			}
			if n := len(calls); n != 2 || calls[n-1] == nil {
				t.Errorf("the calls that were reported ended with %v, want the log-in and a refusal", calls)
			}
		})
	}
}

// A permit of a context is asked for what is written with that context, besides the cloud's own.
func TestAWriteWithoutAPermitOfItsContextIsNotSent(t *testing.T) {
	sent := 0
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		sent++
		w.WriteHeader(okCodes[r.Method][0])
	})
	cloud := NewCloud(passwordCredentials(f.URL+"/v3", canaryPassword), Options{})
	no := WithPermit(t.Context(), func() error { return errFenced })
	for name, c := range map[string]struct {
		ctx    context.Context
		method string
		sent   bool
	}{
		"a read":                            {no, http.MethodGet, true},
		"a write":                           {no, http.MethodPut, false},
		"a write of a context derived":      {context.WithoutCancel(no), http.MethodPut, false},
		"a write that has a permit":         {WithPermit(no, func() error { return nil }), http.MethodPut, true},
		"a write that is freed of one":      {WithPermit(no, nil), http.MethodPut, true},
		"a write whose context has no such": {t.Context(), http.MethodPut, true},
	} {
		sent = 0
		err := cloud.Do(c.ctx, Request{Op: "try", Method: c.method, Path: "networks"})
		if (sent == 1) != c.sent || errors.Is(err, errFenced) == c.sent || MaybeDone(err) {
			t.Errorf("%s: sent %d, error %v; want it sent: %t", name, sent, err, c.sent)
		}
	}
	f.Close()
}
