package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// playAPIServer answers what Run asks first, and has no Networks to list. It counts the lists.
func playAPIServer(t *testing.T) (address string, lists *atomic.Int64) {
	t.Helper()
	lists = &atomic.Int64{}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
	mux.HandleFunc("/api/v1/namespaces/kube-system", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"c1"}}`)
	})
	mux.HandleFunc("/apis/cloudteam.ztgame.com/v1", func(w http.ResponseWriter, _ *http.Request) {
		answer(w,
			`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cloudteam.ztgame.com/v1",`+
				`"resources":[{"name":"networks"}]}`)
	})
	mux.HandleFunc("/apis/cloudteam.ztgame.com/v1/networks", func(w http.ResponseWriter, _ *http.Request) {
		lists.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, lists
}

// playCloud is a cloud that refuses to log in, and counts who tried.
func playCloud(t *testing.T) *atomic.Int64 {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"OS_AUTH_URL": server.URL + "/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "p",
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_CLOUD": "",
		"OS_CLIENT_CONFIG_FILE": "",
	} {
		t.Setenv(name, value)
	}
	return &asked
}

// quietly is a context whose log belongs to the test.
func quietly(t *testing.T) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true))))
}

func TestRunFailsBeforeItStartsAnything(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	asked := playCloud(t)
	o := NewOptions()
	o.LeaderElection.Enabled = false
	o.Master, _ = playAPIServer(t)
	o.BindAddress = busy.Addr().String()
	ctx, cancel := context.WithCancel(quietly(t))
	defer cancel()
	if err := Run(ctx, o); err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("error %v, want one that names --bind-address", err)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the cloud was asked %d times by a process that could not start", n)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("internal/app.Run.func")) {
		t.Errorf("Run left something running:\n%s", stacks)
	}
}

// patience ends a test that hangs.
const patience = time.Minute

func TestRunStopsWithItsContext(t *testing.T) {
	for name, when := range map[string]func(lists, asked *atomic.Int64) bool{
		"before it begins": func(_, _ *atomic.Int64) bool { return true },
		"while it waits for its caches and for the cloud": func(lists, asked *atomic.Int64) bool {
			return lists.Load() > 0 && asked.Load() > 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := playCloud(t)
			o := NewOptions()
			o.LeaderElection.Enabled = false
			var lists *atomic.Int64
			o.Master, lists = playAPIServer(t)
			o.BindAddress = "127.0.0.1:0"
			ctx, cancel := context.WithCancel(quietly(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- Run(ctx, o) }()
			deadline := time.After(patience)
			poll := time.NewTicker(5 * time.Millisecond)
			defer poll.Stop()
			for !when(lists, asked) {
				select {
				case <-poll.C:
				case err := <-done:
					t.Fatalf("Run ended by itself: %v", err)
				case <-deadline:
					t.Fatal("Run did not begin")
				}
			}
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Run returned %v for an order to stop", err)
				}
			case <-deadline:
				t.Fatal("Run did not stop")
			}
		})
	}
}
