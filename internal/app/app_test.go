package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// playedAPI is an API server that has no objects: it answers what Run asks first, says that it serves some resources, and
// refuses everything else with 503.
type playedAPI struct {
	*httptest.Server
	// serves are the paths of the resources that it says it has.
	serves []string
	// silent is the path whose requests are not answered before the test ends.
	silent string
	// missing has it answer 404 where it serves nothing, as an API server does that works.
	missing bool

	mu    sync.Mutex
	asked map[string]bool
}

func (p *playedAPI) start(t *testing.T) *playedAPI {
	t.Helper()
	p.asked = map[string]bool{}
	end := make(chan struct{})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		p.mu.Lock()
		p.asked[path] = true
		p.mu.Unlock()
		var served []string
		for _, resource := range p.serves {
			if name, ok := strings.CutPrefix(resource, path+"/"); ok {
				served = append(served, fmt.Sprintf(`{"name":%q}`, name))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case path == p.silent:
			<-end
		case strings.HasPrefix(path, "/api/v1/namespaces/") && strings.Count(path, "/") == 4:
			fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"uid":"c1"}}`)
		case len(served) > 0:
			fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`,
				strings.TrimPrefix(path, "/apis/"), strings.Join(served, ","))
		case p.missing:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(p.Close)
	t.Cleanup(func() { close(end) })
	return p
}

// unasked are those of some paths that nobody has asked for yet.
func (p *playedAPI) unasked(paths ...string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return p.asked[path] })
}

// runUntil runs the process until something holds, and holds that it stops then at an order, without an error.
func runUntil(t *testing.T, o Options, holds func() error) {
	t.Helper()
	o.BindAddress = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(quietly(t))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	eventually(t, func() error {
		select {
		case err := <-done:
			t.Fatalf("Run ended by itself: %v", err)
		default:
		}
		return holds()
	})
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run returned %v for an order to stop", err)
		}
	case <-time.After(patience):
		t.Fatal("Run did not stop")
	}
}

// patience ends a test that hangs.
const patience = time.Minute

// eventually polls until check gives nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
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
	expect.NoError(t, err)
	defer busy.Close()
	asked := playCloud(t)
	o := NewOptions()
	o.LeaderElection.Enabled = false
	o.Master = (&playedAPI{}).start(t).URL
	o.BindAddress = busy.Addr().String()
	ctx, cancel := context.WithCancel(quietly(t))
	defer cancel()
	expect.ErrorSays(t, Run(ctx, o), "--bind-address")
	expect.Equal(t, int64(0), asked.Load(), "how often the cloud was asked by a process that could not start")
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("internal/app.Run.func")) {
		t.Errorf("Run left something running:\n%s", stacks)
	}
}

// TestRunStops stops the process while it waits for a server, which keeps it waiting or has no answer but 503.
func TestRunStops(t *testing.T) {
	const (
		cluster  = "/api/v1/namespaces/kube-system"
		ours     = "/apis/cloudteam.ztgame.com/v1"
		multus   = "/apis/k8s.cni.cncf.io/v1"
		networks = ours + "/networks"
		login    = "/v3/auth/tokens"
	)
	for name, c := range map[string]struct {
		controllers []string
		// silent is the path whose requests are not answered. When all of asked are asked for, it stops.
		silent string
		asked  []string
	}{
		"before it begins": {[]string{"*"}, "", nil},
		"while it waits for its caches and for the cloud":        {[]string{"*"}, "", []string{networks, login}},
		"the API server, asked for the cluster's identity":       {[]string{"*"}, cluster, []string{cluster}},
		"the API server, asked for CRDs":                         {[]string{"*"}, ours, []string{ours}},
		"the API server, asked for what only some clusters have": {[]string{"attachment"}, multus, []string{multus}},
		"the API server, asked for Networks":                     {[]string{"*"}, networks, []string{networks}},
		"the API server, asked for Networks by consumers alone":  {[]string{"deployment", "pod"}, networks, []string{networks}},
		"the cloud, asked to log in":                             {[]string{"network"}, login, []string{login}},
	} {
		t.Run(name, func(t *testing.T) {
			api := (&playedAPI{serves: []string{networks, ours + "/networkports"}, silent: c.silent}).start(t)
			playCloud(t)
			t.Setenv("OS_AUTH_URL", api.URL+"/v3")
			o := NewOptions()
			o.LeaderElection.Enabled = false
			o.Master, o.Controllers = api.URL, c.controllers
			runUntil(t, o, func() error {
				if missing := api.unasked(c.asked...); len(missing) > 0 {
					return fmt.Errorf("it does not ask for %v", missing)
				}
				return nil
			})
		})
	}
}
