package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEachControllerAsksForWhatItNeeds runs the process against an API server that serves only some of the CRDs, and
// holds what it asks for. Nothing that is listed is ever answered.
func TestEachControllerAsksForWhatItNeeds(t *testing.T) {
	const (
		networks     = "/apis/cloudteam.ztgame.com/v1/networks"
		ports        = "/apis/cloudteam.ztgame.com/v1/networkports"
		foos         = "/apis/samplecontroller.k8s.io/v1alpha1/foos"
		attachments  = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
		deployments  = "/apis/apps/v1/deployments"
		replicaSets  = "/apis/apps/v1/replicasets"
		statefulSets = "/apis/apps/v1/statefulsets"
		pods         = "/api/v1/pods"
		machines     = "/apis/kubevirt.io/v1/virtualmachines"
		instances    = "/apis/kubevirt.io/v1/virtualmachineinstances"
	)
	ours := []string{networks, ports, foos}
	for name, c := range map[string]struct {
		controllers []string
		credentials bool
		crds        []string
		want, never []string
	}{
		"foos alone need no credentials": {
			[]string{"foo"}, false, ours, []string{foos, deployments}, []string{networks, ports, pods},
		},
		"networks alone watch nothing else": {
			[]string{"network"}, true, ours, []string{networks}, []string{foos, deployments, ports, pods},
		},
		"networkports need a cloud, and watch networks": {
			[]string{"networkport"}, true, ours, []string{networks, ports}, []string{foos, deployments, pods},
		},
		"deployments and pods need no credentials": {
			[]string{"deployment", "pod"}, false, ours, []string{networks, ports, deployments, replicaSets, pods},
			[]string{foos},
		},
		"deployments alone": {
			[]string{"deployment"}, false, ours, []string{networks, ports, deployments, replicaSets, pods},
			[]string{foos, statefulSets},
		},
		"pods alone": {
			[]string{"pod"}, false, ours, []string{networks, ports, replicaSets, statefulSets, pods},
			[]string{foos, attachments, machines, instances},
		},
		"pods where KubeVirt is installed": {
			[]string{"pod"}, false, append([]string{machines, instances}, ours...),
			[]string{networks, ports, pods, machines, instances}, []string{foos, attachments},
		},
		"pods where KubeVirt is half installed": {
			[]string{"pod"}, false, append([]string{machines}, ours...), []string{networks, ports, pods},
			[]string{machines, instances},
		},
		"attachments alone": {
			[]string{"attachment"}, false, append([]string{attachments}, ours...), []string{networks, attachments},
			[]string{ports, foos, deployments, replicaSets, pods},
		},
		"networks and attachments": {
			[]string{"network", "attachment"}, true, append([]string{attachments}, ours...),
			[]string{networks, attachments}, []string{ports, foos, deployments, replicaSets, pods},
		},
		"all but the controller of NetworkPorts": {
			[]string{"*", "-networkport"}, true, ours, []string{networks, ports, foos, deployments, replicaSets, pods}, nil,
		},
		"pods without the CRD of NetworkPort wait": {
			[]string{"pod"}, false, []string{networks}, []string{"/apis/cloudteam.ztgame.com/v1"},
			[]string{networks, ports, pods},
		},
		"all controllers watch all": {
			[]string{"*"}, true, append([]string{attachments}, ours...),
			[]string{networks, ports, foos, deployments, replicaSets, pods, attachments}, nil,
		},
		"without Multus there are no attachments": {
			[]string{"*"}, true, ours, []string{networks, ports, foos, "/apis/k8s.cni.cncf.io/v1"},
			[]string{attachments},
		},
		"without the CRD of Foo, networks are served": {
			[]string{"*"}, true, []string{networks}, []string{networks, "/apis/samplecontroller.k8s.io/v1alpha1"},
			[]string{foos, deployments},
		},
		"without the CRD of NetworkPort, networks are served": {
			[]string{"*"}, true, []string{networks, foos}, []string{networks, foos}, []string{ports, pods},
		},
		"without the CRD of Network, foos are served": {
			[]string{"*"}, true, []string{ports, foos}, []string{foos, deployments, "/apis/cloudteam.ztgame.com/v1"},
			[]string{networks, ports, pods},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.credentials {
				playCloud(t)
			} else {
				for _, variable := range os.Environ() {
					if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OS_") {
						t.Setenv(name, "")
					}
				}
				t.Setenv("HOME", t.TempDir())
			}
			var mu sync.Mutex
			asked := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked[r.URL.Path] = true
				mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				group := strings.TrimPrefix(r.URL.Path, "/apis/")
				var served []string
				for _, crd := range c.crds {
					if resource, ok := strings.CutPrefix(crd, r.URL.Path+"/"); ok {
						served = append(served, fmt.Sprintf(`{"name":%q}`, resource))
					}
				}
				switch {
				case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") && strings.Count(r.URL.Path, "/") == 4:
					fmt.Fprint(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"uid":"c1"}}`)
				case len(served) > 0:
					fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`,
						group, strings.Join(served, ","))
				default:
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
				}
			}))
			t.Cleanup(server.Close)
			o := NewOptions()
			o.Master, o.Controllers, o.BindAddress = server.URL, c.controllers, "127.0.0.1:0"
			ctx, cancel := context.WithCancel(quietly(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- Run(ctx, o) }()

			missing := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.DeleteFunc(slices.Clone(c.want), func(path string) bool { return asked[path] })
			}
			deadline := time.After(patience)
			poll := time.NewTicker(5 * time.Millisecond)
			defer poll.Stop()
			for len(missing()) > 0 {
				select {
				case <-poll.C:
				case err := <-done:
					t.Fatalf("Run ended by itself: %v", err)
				case <-deadline:
					t.Fatalf("it does not ask for %v", missing())
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run returned %v for an order to stop", err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, path := range c.never {
				if asked[path] {
					t.Errorf("it asks for %s", path)
				}
			}
		})
	}
}
