package app

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// writesAtATime is how many writes to the API server are under way at a time. kube-apiserver serves 100 requests at a
// time on one connection (where --http2-max-streams-per-connection is not set, secure_serving.go in
// k8s.io/apiserver/pkg/server), and for each one more than that, net/http dials a connection of its own, of which all
// but a few are dropped as soon as they stand: the first writes of 500 workers were 400 to 700 TLS handshakes. This
// many leaves room on the connection for the watches; with writes that take 20 ms, it is 3,200 a second.
const writesAtATime = 64

// boundWrites has the clients of a configuration, all together, send no more writes at a time than fit on one
// connection. Reads do not wait, and no client of a configuration that was copied before.
func boundWrites(config *rest.Config) {
	slots := make(chan struct{}, writesAtATime)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next, slots} })
}

// bounded is a transport with as many writes at a time as slots has room for. Those that wait go in the order in which
// they came.
type bounded struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip is that of http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return b.next.RoundTrip(r)
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		return b.next.RoundTrip(r)
	case <-r.Context().Done():
		if r.Body != nil {
			_ = r.Body.Close() // as http.RoundTripper has it
		}
		return nil, r.Context().Err()
	}
}

// WrappedRoundTripper lets client-go find the transport within.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }
