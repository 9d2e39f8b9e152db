package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestReadinessNamesFailingChecks(t *testing.T) {
	networks, inventory := false, false
	r := &readiness{}
	ask := func() (int, string) {
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code, strings.TrimSpace(answer.Body.String())
	}
	if code, body := ask(); code != http.StatusOK {
		t.Errorf("with nothing to wait for: %d %q", code, body)
	}
	r.add("networks", func() bool { return networks })
	r.add("inventory", func() bool { return inventory })
	for _, c := range []struct {
		networks, inventory bool
		code                int
		body                string
	}{
		{false, false, http.StatusServiceUnavailable, "waiting for networks, inventory"},
		{true, false, http.StatusServiceUnavailable, "waiting for inventory"},
		{false, true, http.StatusServiceUnavailable, "waiting for networks"},
		{true, true, http.StatusOK, "ok"},
	} {
		networks, inventory = c.networks, c.inventory
		if code, body := ask(); code != c.code || body != c.body {
			t.Errorf("networks %t, inventory %t: %d %q, want %d %q", networks, inventory, code, body, c.code, c.body)
		}
	}
}

// TestReadinessSaysWhyToLoopback holds that others read no address and no name of the cloud.
func TestReadinessSaysWhyToLoopback(t *testing.T) {
	r := &readiness{}
	r.addExplained("inventory", func() (bool, error) {
		return false, &client.Error{Kind: client.Unauthenticated, Op: "log in to secret.test", Reason: "check the password"}
	})
	for caller, want := range map[string]string{
		"127.0.0.1:1": "waiting for inventory (log in to secret.test: check the password)",
		"10.0.0.7:1":  "waiting for inventory (unauthenticated; see the log)",
	} {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/readyz", nil)
		request.RemoteAddr = caller
		r.ServeHTTP(answer, request)
		expect.Equal(t, want, strings.TrimSpace(answer.Body.String()), "what %s reads", caller)
	}
}

func TestListenServesUntilItsContextIsDone(t *testing.T) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	address := probe.Addr().String()
	listen := func(live func(*http.Request) error, ready http.Handler) (func(context.Context) error, error) {
		return serving.Listen(address, healthHandler(live, ready), serving.Metrics{}, nil, program, 5)
	}
	if _, err := listen(nil, &readiness{}); err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("an address in use: error %v, want one that names --bind-address", err)
	}
	expect.NoError(t, probe.Close())

	r := &readiness{}
	r.add("inventory", func() bool { return false })
	var hung atomic.Bool
	serve, err := listen(func(*http.Request) error {
		if hung.Load() {
			return errors.New("the lease is long over")
		}
		return nil
	}, r)
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		path string
		hung bool
		want int
	}{
		{"/livez", false, http.StatusOK}, {"/readyz", false, http.StatusServiceUnavailable},
		{"/metrics", false, http.StatusOK}, {"/other", false, http.StatusNotFound},
		{"/debug/pprof/", false, http.StatusOK},
		{"/livez", true, http.StatusInternalServerError},
	} {
		path, want := c.path, c.want
		hung.Store(c.hung)
		answer, err := client.Get("http://" + address + path)
		expect.NoError(t, err)
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		expect.Equal(t, want, answer.StatusCode, "%s: %s", path, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

func TestMetricsAndProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for sentence, c := range map[string]struct {
		caller, path string
		want         int
	}{
		"a caller on the host's loopback":   {"127.0.0.1:1234", "/debug/pprof/", http.StatusOK},
		"one over IPv6":                     {"[::1]:1234", "/debug/pprof/cmdline", http.StatusOK},
		"a profile of its own":              {"127.0.0.2:1234", "/debug/pprof/goroutine?debug=2", http.StatusOK},
		"a caller from the Pod network":     {"10.0.0.7:1234", "/debug/pprof/", http.StatusForbidden},
		"IPv4 as IPv6 from the Pod network": {"[::ffff:10.0.0.7]:1234", "/debug/pprof/heap", http.StatusForbidden},
		"an address that is none":           {"@", "/debug/pprof/", http.StatusForbidden},
		"a profile that there is not":       {"127.0.0.1:1234", "/debug/pprof/nonesuch", http.StatusNotFound},
		"metrics on the host":               {"127.0.0.1:1234", "/metrics", http.StatusOK},
		"metrics from the Pod network":      {"10.0.0.7:1234", "/metrics", http.StatusForbidden},
		"health from the Pod network":       {"10.0.0.7:1234", "/livez", http.StatusOK},
	} {
		t.Run(sentence, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, c.path, nil)
			request.RemoteAddr = c.caller
			answer := httptest.NewRecorder()
			healthy := func(*http.Request) error { return nil }
			healthHandler(healthy, http.NotFoundHandler()).ServeHTTP(answer, request)
			expect.Equal(t, c.want, answer.Code, "code, of %s", answer.Body)
		})
	}
}
