package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRunStopsWithoutAnswers stops the process while a server keeps it waiting.
func TestRunStopsWithoutAnswers(t *testing.T) {
	const (
		cluster  = "/api/v1/namespaces/kube-system"
		ours     = "/apis/cloudteam.ztgame.com/v1"
		multus   = "/apis/k8s.cni.cncf.io/v1"
		networks = ours + "/networks"
	)
	for name, c := range map[string]struct {
		controllers []string
		// silent is the path whose requests are not answered.
		silent string
	}{
		"the API server, asked for the cluster's identity":       {[]string{"*"}, cluster},
		"the API server, asked for CRDs":                         {[]string{"*"}, ours},
		"the API server, asked for what only some clusters have": {[]string{"attachment"}, multus},
		"the API server, asked for Networks":                     {[]string{"*"}, networks},
		"the API server, asked for Networks by consumers alone":  {[]string{"deployment", "pod"}, networks},
		"the cloud, asked to log in":                             {[]string{"network"}, "/v3/auth/tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			asked, end := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch path := strings.TrimSuffix(r.URL.Path, "/"); path {
				case c.silent:
					once.Do(func() { close(asked) })
					<-end
				case cluster:
					fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"c1"}}`)
				case ours:
					fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cloudteam.ztgame.com/v1",`+
						`"resources":[{"name":"networks"},{"name":"networkports"}]}`)
				default:
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(end) })
			playCloud(t)
			t.Setenv("OS_AUTH_URL", server.URL+"/v3")
			o := NewOptions()
			o.LeaderElection.Enabled = false
			o.Master, o.Controllers, o.BindAddress = server.URL, c.controllers, "127.0.0.1:0"
			ctx, cancel := context.WithCancel(quietly(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- Run(ctx, o) }()
			select {
			case <-asked:
			case err := <-done:
				t.Fatalf("Run ended by itself: %v", err)
			case <-time.After(patience):
				t.Fatal("it does not ask")
			}
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Run returned %v for an order to stop", err)
				}
			case <-time.After(patience):
				t.Fatal("Run waits for the answer")
			}
		})
	}
}
