// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// clusterOptions are for the components with binaries from the machine, or built into the user's cache.
func clusterOptions(t *testing.T, dir string, components []assets.Component, crds ...CRD) Options {
	t.Helper()
	cacheDir, err := assets.DefaultCacheDir()
	expect.NoError(t, err)
	log := log.New(os.Stderr, "", 0)
	binaries, err := assets.NewCache(cacheDir, log).Provide(t.Context(), components)
	expect.NoError(t, err)
	return Options{
		Dir: dir, Assets: binaries, Components: components, CRDs: crds,
		StartTimeout: 2 * time.Minute, StopTimeout: 20 * time.Second, Log: log,
	}
}

// startCluster starts the components, and stops them when the test ends.
func startCluster(t *testing.T, dir string, components []assets.Component, crds ...CRD) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), clusterOptions(t, dir, components, crds...))
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		for _, p := range c.running {
			if err := syscall.Kill(-p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("something of %s is left running: %v", p.Name, err)
			}
		}
	})
	return c
}

// eventually calls condition until it returns nil, and fails the test after a deadline.
func eventually(t *testing.T, deadline time.Duration, condition func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	end := time.After(deadline)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %s: %v", deadline, err)
		}
	}
}

func TestAPIServer(t *testing.T) {
	t.Parallel()
	c := startCluster(t, t.TempDir(), assets.Minimal())
	request := func(t *testing.T, api *apiClient, path string, header http.Header) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+path, nil)
		expect.NoError(t, err)
		if header != nil {
			r.Header = header
		}
		response, err := api.http.Do(r)
		expect.NoError(t, err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	stranger, err := newAPIClient(c.authority.pem, keyPair{})
	expect.NoError(t, err)
	defer stranger.close()
	for sentence, test := range map[string]struct {
		api    *apiClient
		path   string
		header http.Header
		want   int
	}{
		"it is ready":                        {api: c.api, path: "/readyz", want: http.StatusOK},
		"the administrator may read Secrets": {api: c.api, path: "/api/v1/secrets", want: http.StatusOK},
		"a user without a binding may not": {
			api: c.api, path: "/api/v1/secrets", header: http.Header{"Impersonate-User": {"alice"}},
			want: http.StatusForbidden,
		},
		"who shows no certificate may not": {api: stranger, path: "/api/v1/secrets", want: http.StatusForbidden},
		"who shows a token that nobody signed is unknown": {
			api: stranger, path: "/api/v1/secrets", header: http.Header{"Authorization": {"Bearer rubbish"}},
			want: http.StatusUnauthorized,
		},
		"MutatingAdmissionPolicies are served": {
			api: c.api, path: "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", want: http.StatusOK,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, test.want, request(t, test.api, test.path, test.header), "GET %s", test.path)
		})
	}
	t.Run("etcd refuses who shows no certificate", func(t *testing.T) {
		if err := stranger.healthy(t.Context(), c.etcdURL+"/health"); err == nil {
			t.Error("it answered")
		}
	})
	t.Run("a Pod can be created although nobody makes service accounts", func(t *testing.T) {
		err := c.api.create(t.Context(), c.URL()+"/api/v1/namespaces/default/pods", json.RawMessage(`{
			"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
			"spec": {"containers": [{"name": "a", "image": "a"}]}}`))
		expect.NoError(t, err)
	})
	t.Run("its directory is refused to another", func(t *testing.T) {
		_, err := Start(t.Context(), c.options)
		expect.ErrorSays(t, err, "used by another")
	})
}

// TestAllComponents holds what no suite on this control plane needs: that each Pod has an address of its own, and that
// what a Deployment owns is deleted with it, of CRDs' kinds too. TestLives of package e2e has Deployments become
// available and replace their Pods.
func TestAllComponents(t *testing.T) {
	t.Parallel()
	c := startCluster(t, t.TempDir(), assets.All(), gadgets("v1"))
	deployments := c.URL() + "/apis/apps/v1/namespaces/default/deployments"
	pods := c.URL() + "/api/v1/namespaces/default/pods?labelSelector=app=web"
	owned := c.URL() + "/apis/example.com/v1/namespaces/default/gadgets"
	list := func(url string) ([]pod, error) {
		var answer struct{ Items []pod }
		err := c.api.get(t.Context(), url, &answer)
		return answer.Items, err
	}
	var made struct{ Metadata struct{ UID string } }
	err := c.api.create(t.Context(), deployments, json.RawMessage(`{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
		"spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": {
			"metadata": {"labels": {"app": "web"}},
			"spec": {"containers": [{"name": "web", "image": "web"}]}}}}`))
	expect.NoError(t, err)
	eventually(t, time.Minute, func() error {
		all, err := list(pods)
		addresses := map[string]bool{}
		for _, pod := range all {
			if pod.Status.Phase == "Running" {
				addresses[pod.Status.PodIP] = true
			}
		}
		if err == nil && len(addresses) != 5 {
			err = fmt.Errorf("of %d Pods, those that run have the addresses %v", len(all), addresses)
		}
		return err
	})
	expect.NoError(t, c.api.get(t.Context(), deployments+"/web", &made))
	err = c.api.create(t.Context(), owned, map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "web-0", "ownerReferences": []any{map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": made.Metadata.UID,
		}}},
	})
	expect.NoError(t, err)
	err = c.api.do(t.Context(), http.MethodDelete, deployments+"/web?propagationPolicy=Background", nil, nil, nil)
	expect.NoError(t, err)
	for _, url := range []string{pods, owned} {
		eventually(t, time.Minute, func() error {
			left, err := list(url)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("%s: %d are left", url, len(left))
			}
			return err
		})
	}
}

func TestStartTellsWhatWentWrong(t *testing.T) {
	good := `#!/bin/sh
exec sleep 60`
	for sentence, test := range map[string]struct {
		components []assets.Component
		etcd       string
		timeout    time.Duration
		want       []string
	}{
		"a program that ends is named, with its log": {
			components: assets.Minimal(), timeout: time.Minute,
			etcd: "#!/bin/sh\necho cannot read the moon >&2; exit 7",
			want: []string{"etcd ended (exit status 7)", "logs/etcd.log", "cannot read the moon"},
		},
		"a program that does not serve in time is named": {
			components: assets.Minimal(), etcd: good, timeout: 200 * time.Millisecond,
			want: []string{"etcd was not ready within 200ms", "logs/etcd.log"},
		},
		"components that cannot do without others are refused": {
			components: []assets.Component{assets.Etcd, assets.KubeScheduler}, etcd: good, timeout: time.Minute,
			want: []string{"a control plane needs kube-apiserver: add it to --components=etcd,kube-scheduler"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			binaries := t.TempDir()
			expect.NoError(t, os.WriteFile(filepath.Join(binaries, "etcd"), []byte(test.etcd), 0o755))
			_, err := Start(t.Context(), Options{
				Dir: t.TempDir(), Assets: binaries, Components: test.components,
				StartTimeout: test.timeout, StopTimeout: time.Second, Log: log.New(io.Discard, "", 0),
			})
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range test.want {
				expect.ErrorSays(t, err, want)
			}
		})
	}
}

func TestStartLeavesNothingOfThoseThatStartTogether(t *testing.T) {
	t.Parallel()
	options := clusterOptions(t, t.TempDir(), []assets.Component{
		assets.Etcd, assets.KubeAPIServer, assets.KubeControllerManager, assets.KubeScheduler,
	})
	binaries := t.TempDir()
	for _, component := range assets.Minimal() {
		real := filepath.Join(options.Assets, string(component))
		expect.NoError(t, os.Symlink(real, filepath.Join(binaries, string(component))))
	}
	for component, script := range map[assets.Component]string{
		assets.KubeControllerManager: "echo $$ > started.partial && mv started.partial started && exec sleep 60",
		assets.KubeScheduler:         "until [ -e started ]; do sleep 0.05; done; echo cannot read the stars >&2; exit 7",
	} {
		content := []byte("#!/bin/sh\n" + script + "\n")
		expect.NoError(t, os.WriteFile(filepath.Join(binaries, string(component)), content, 0o755))
	}
	options.Assets = binaries
	_, err := Start(t.Context(), options)
	if err == nil || !strings.Contains(err.Error(), "kube-scheduler ended (exit status 7)") ||
		!strings.Contains(err.Error(), "cannot read the stars") {
		t.Errorf("error %v, want that of kube-scheduler with its log", err)
	}
	content, err := os.ReadFile(filepath.Join(options.Dir, "started"))
	expect.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	expect.NoError(t, err)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the program that was about to start is left running: %v", err)
	}
}
