package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// broken is how long Neutron answers 503 after SIGUSR2.
const broken = 10 * time.Second

// loser loses answers: the emulator carries a request out and cuts the connection, as a failing gateway does. Its
// methods are safe for concurrent use. The zero value loses nothing.
type loser struct {
	armed atomic.Bool
	until atomic.Pointer[time.Time]
}

// arm has the next create of a network lose its answer.
func (l *loser) arm() { l.armed.Store(true) }

// outage has each call to Neutron answered 503 for a time, as by a proxy without a server behind it.
func (l *loser) outage(lasts time.Duration) { l.until.Store(new(time.Now().Add(lasts))) }

// wrap is the handler that loses answers of another one.
func (l *loser) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := l.until.Load()
		if until != nil && time.Now().Before(*until) && strings.Contains(r.URL.Path, "/v2.0/") {
			http.Error(w, "Neutron is broken on purpose", http.StatusServiceUnavailable)
			return
		}
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v2.0/networks") ||
			!l.armed.CompareAndSwap(true, false) {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(nowhere{}, r)
		panic(http.ErrAbortHandler)
	})
}

// nowhere is an http.ResponseWriter that drops the answer.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
