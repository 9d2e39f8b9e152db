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
)

func TestReadinessNamesWhatWaits(t *testing.T) {
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

func TestListenServesUntilItsContextIsDone(t *testing.T) {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := probe.Addr().String()
	if _, err := listen(address, nil, &readiness{}); err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("an address in use: error %v, want one that names --bind-address", err)
	}
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}

	r := &readiness{}
	r.add("inventory", func() bool { return false })
	var hung atomic.Bool
	serve, err := listen(address, func(*http.Request) error {
		if hung.Load() {
			return errors.New("the lease is long over")
		}
		return nil
	}, r)
	if err != nil {
		t.Fatal(err)
	}
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
		{"/livez", true, http.StatusInternalServerError},
	} {
		path, want := c.path, c.want
		hung.Store(c.hung)
		answer, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", path, answer.StatusCode, want, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}
