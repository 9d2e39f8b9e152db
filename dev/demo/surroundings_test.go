//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// early gives surroundings whose control plane is a script: its API server serves, and then it runs what is given.
func early(t *testing.T, script string) (s *surroundings, ctx context.Context, printed *process.Buffer) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default"}}`)
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for path, content := range map[string]string{
		kubeconfig: fmt.Sprintf(`{"clusters": [{"name": "x", "cluster": {"server": %q}}],
			"contexts": [{"name": "x", "context": {"cluster": "x", "user": ""}}], "current-context": "x"}`, api.URL),
		filepath.Join(dir, "controlplane"): "#!/bin/sh\necho kubeconfig: " + kubeconfig + "\n" + script,
	} {
		expect.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	ctx, fail := context.WithCancelCause(t.Context())
	printed = new(process.Buffer)
	s = &surroundings{
		n: newNarrator(printed), bin: dir, root: dir, dir: dir, fail: fail, complete: make(chan struct{}),
	}
	t.Cleanup(func() {
		if err := s.stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	return s, ctx, printed
}

func TestAFailedBuildInTheBackgroundEndsTheStory(t *testing.T) {
	s, ctx, _ := early(t, "while [ ! -e \"$0.begun\" ]; do sleep 0.1; done\n"+
		"echo controlplane: build etcd: no room >&2; exit 1\n")
	if err := s.startControlPlane(ctx); err != nil {
		t.Fatalf("the story does not begin: %v", err)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(s.dir, "controlplane.begun"), nil, 0o600))
	expect.ErrorSays(t, s.awaitComplete(ctx), "build etcd: no room")
}

func TestTheStoryBeginsBeforeTheControlPlaneIsComplete(t *testing.T) {
	s, ctx, printed := early(t, "echo etcd: compiled 3 packages\nexec sleep 60\n")
	expect.NoError(t, s.startControlPlane(ctx))
	s.cloud = &cloud{}
	s.introduce()
	expect.Contains(t, printed.String(), "is fetched or built meanwhile", "what it says of missing parts")
}

func TestWhatNeedsPodsWaitsForTheWholeControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed process.Buffer
		s := &surroundings{n: newNarrator(&printed), complete: make(chan struct{})}
		waited := make(chan error, 1)
		go func() { waited <- s.awaitComplete(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("it does not wait (error %v)", err)
		default:
		}
		expect.Contains(t, printed.String(), "still being fetched or built", "what it says it waits for")
		close(s.complete)
		expect.NoError(t, <-waited)
	})
}
