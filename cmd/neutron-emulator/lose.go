package main

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// loser loses answers: the emulator carries a request out and cuts the connection, as a failing gateway does. Its
// methods are safe for concurrent use. The zero value loses nothing.
type loser struct{ armed atomic.Bool }

// arm has the next create of a network lose its answer.
func (l *loser) arm() { l.armed.Store(true) }

// wrap is the handler that loses answers of another one.
func (l *loser) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
