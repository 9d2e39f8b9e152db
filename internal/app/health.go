package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	// Workqueues and the clients for Kubernetes report to the registry that is served here.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/klog/v2"
)

// readiness is the caches that have to be filled before the process is of use.
type readiness struct {
	mu     sync.Mutex
	checks []check
}

type check struct {
	name string
	done func() bool
}

func (r *readiness) add(name string, done func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, check{name, done})
}

// ServeHTTP answers 200, or 503 with the names of what is not ready.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var waiting []string
	for _, c := range r.checks {
		if !c.done() {
			waiting = append(waiting, c.name)
		}
	}
	if len(waiting) > 0 {
		http.Error(w, "waiting for "+strings.Join(waiting, ", "), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// listen opens the address and gives the function that serves it until its context is done. live says what keeps the
// process from being alive.
func listen(address string, live func(*http.Request) error, ready http.Handler) (func(context.Context) error, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--bind-address: %w: give another address, or an empty one for none", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		if err := live(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", legacyregistry.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	return func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Serving /livez, /readyz and /metrics", "address", listener.Addr().String())
		done := make(chan error, 1)
		go func() { done <- server.Serve(listener) }()
		select {
		case err := <-done:
			return fmt.Errorf("serving health: %w", err)
		case <-ctx.Done():
		}
		if err := server.Close(); err != nil {
			return fmt.Errorf("closing the health server: %w", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}
