package app

import (
	"fmt"
	"net/http"
	_ "net/http/pprof" // served on loopback
	"net/netip"
	"strings"
	"sync"

	"k8s.io/component-base/metrics/legacyregistry"

	// Workqueues and the clients for Kubernetes report to the registry that is served here.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// readiness collects the checks behind /readyz.
type readiness struct {
	mu     sync.Mutex
	checks []check
}

type check struct {
	name string
	// done reports whether the check succeeds. If it does not, the error may say why.
	done func() (bool, error)
}

func (r *readiness) add(name string, done func() bool) {
	r.addExplained(name, func() (bool, error) { return done(), nil })
}

func (r *readiness) addExplained(name string, done func() (bool, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, check{name, done})
}

// ServeHTTP answers 200, or 503 with the names of the checks that fail. Callers on loopback also read why; others read
// the kind of the cloud's error, because everybody can ask.
func (r *readiness) ServeHTTP(w http.ResponseWriter, asked *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var waiting []string
	for _, c := range r.checks {
		done, why := c.done()
		switch {
		case done:
		case why == nil:
			waiting = append(waiting, c.name)
		case isLoopback(asked):
			waiting = append(waiting, fmt.Sprintf("%s (%v)", c.name, why))
		default:
			waiting = append(waiting, fmt.Sprintf("%s (%s; see the log)", c.name, client.Word(why)))
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

// onLoopback serves callers on loopback only. The health checks need no authorization, and show little. Metrics name
// every tenant's Secrets, and a profile costs CPU for as long as the caller wants. kubectl port-forward connects from
// the Pod's own loopback, and Kubernetes authorizes it.
func onLoopback(next http.Handler, elsewhere string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r) {
			http.Error(w, r.URL.Path+" is served here on loopback only; use "+elsewhere, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(r *http.Request) bool {
	caller, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && caller.Addr().Unmap().IsLoopback()
}

// healthHandler answers at --bind-address. All can reach that, so it tells others than loopback only about health. live
// is the check behind /livez.
func healthHandler(live func(*http.Request) error, ready http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		if err := live(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", onLoopback(legacyregistry.Handler(), "--metrics-bind-address"))
	// net/http/pprof registers itself with http.DefaultServeMux.
	mux.Handle(profilingPath, onLoopback(http.DefaultServeMux, "kubectl port-forward"))
	return mux
}
