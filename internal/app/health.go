package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof" // served by profiles
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	// Workqueues and the clients for Kubernetes report to the registry that is served here.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/klog/v2"
)

// readiness collects the checks behind /readyz.
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

// ServeHTTP answers 200, or 503 with the names of the checks that fail.
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

// profilingPath is the path that Kubernetes components use for profiles.
const profilingPath = "/debug/pprof/"

// profiles serves net/http/pprof, which registers itself with http.DefaultServeMux, on loopback only. /metrics and the
// health checks need no authorization, but a profile costs CPU for as long as the caller wants, and shows the command
// line. kubectl port-forward connects from the Pod's own loopback, and Kubernetes authorizes it.
func profiles(w http.ResponseWriter, r *http.Request) {
	caller, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !caller.Addr().Unmap().IsLoopback() {
		http.Error(w, "profiles are served on loopback only; use kubectl port-forward", http.StatusForbidden)
		return
	}
	http.DefaultServeMux.ServeHTTP(w, r)
}

// listen opens --bind-address and returns the function that serves it until its context is done. live is the check
// behind /livez.
func listen(o Options, live func(*http.Request) error, ready http.Handler) (func(context.Context) error, error) {
	address := o.BindAddress
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--bind-address: %w: use another address, or an empty one to serve nothing", err)
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
	if o.Profiling {
		mux.HandleFunc(profilingPath, profiles)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	return func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Serving /livez, /readyz and /metrics", "address", listener.Addr().String(),
			"profiling", o.Profiling)
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
