// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testCache returns a cache that fetches nothing and writes small files where a real one would compile, and the count of
// the components that it built.
func testCache(t *testing.T, dir string) (*Cache, *atomic.Int32) {
	t.Helper()
	builds := &atomic.Int32{}
	cache := NewCache(dir, fakeMachine(t.TempDir(), nil), Log{})
	cache.Releases = releasesOff
	cache.build = func(_ context.Context, components []Component, dir string, _ *progress) error {
		for _, c := range components {
			builds.Add(1)
			for _, name := range c.files() {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("built "+name), 0o755); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return cache, builds
}

func provide(t *testing.T, cache *Cache, components ...Component) string {
	t.Helper()
	dir, err := cache.Provide(t.Context(), components)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestProvideBuildsOnce(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	first := provide(t, cache, Etcd, Kwok)
	if missing := missingFiles(first, []Component{Etcd, Kwok}); len(missing) != 0 {
		t.Errorf("the directory lacks %q", missing)
	}
	second := provide(t, cache, Etcd, KubeAPIServer)
	if first != second {
		t.Errorf("two sets of one release are in two directories: %s, %s", first, second)
	}
	if got := builds.Load(); got != 3 {
		t.Errorf("%d builds, want 3: one per component", got)
	}
}

func TestWhatServesTheAPIIsBuiltFirst(t *testing.T) {
	cache, _ := testCache(t, t.TempDir())
	var order []string
	build := cache.build
	cache.build = func(ctx context.Context, components []Component, dir string, p *progress) error {
		order = append(order, Join(components))
		return build(ctx, components, dir, p)
	}
	provide(t, cache, All()...)
	want := []string{"etcd", "kube-apiserver", "kube-controller-manager,kube-scheduler", "kwok"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProvideFirst(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	for _, want := range []struct {
		complete bool
		builds   int32
	}{{complete: false, builds: 2}, {complete: true, builds: 5}} {
		dir, complete, err := cache.ProvideFirst(t.Context(), Minimal(), All())
		if err != nil || complete != want.complete {
			t.Errorf("complete is %t, want %t (error %v)", complete, want.complete, err)
		}
		if missing := missingFiles(dir, Minimal()); len(missing) != 0 {
			t.Errorf("the directory lacks %q", missing)
		}
		if got := builds.Load(); got != want.builds {
			t.Errorf("%d builds, want %d", got, want.builds)
		}
		if all := provide(t, cache, All()...); all != dir {
			t.Errorf("all are in %s, the first in %s", all, dir)
		}
	}
}

func TestProvideFirstDoesNotMixVersions(t *testing.T) {
	cache, _ := testCache(t, t.TempDir())
	some := t.TempDir()
	install(t, some, "etcd", "kube-apiserver")
	cache.Machine = fakeMachine(t.TempDir(), map[string]string{EnvAssets: some})
	dir, _, err := cache.ProvideFirst(t.Context(), Minimal(), All())
	if err != nil || dir == some {
		t.Errorf("the directory is %s (error %v), which lacks most components", dir, err)
	}
}

func TestProvideTogetherBuildsOnce(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			dir, err := cache.Provide(t.Context(), All())
			if err != nil {
				t.Error(err)
			}
			if missing := missingFiles(dir, All()); len(missing) != 0 {
				t.Errorf("the directory lacks %q", missing)
			}
		})
	}
	callers.Wait()
	if got := int(builds.Load()); got != len(All()) {
		t.Errorf("%d builds, want %d: one per component", got, len(All()))
	}
}

func TestProvideNeverUsesAHalfBuiltEntry(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	whole := cache.build
	broken := errors.New("no space left")
	cache.build = func(_ context.Context, components []Component, dir string, _ *progress) error {
		install(t, dir, string(components[0]))
		return broken
	}
	if _, err := cache.Provide(t.Context(), []Component{Etcd}); !errors.Is(err, broken) {
		t.Fatalf("error %v, want %v", err, broken)
	}
	// What a process leaves that was killed in the middle, which runs no clean-up.
	install(t, cache.entryDir(cache.Dir, Etcd)+".partial", "etcd", "rubbish")

	cache.build = whole
	dir := provide(t, cache, Etcd)
	if builds.Load() != 1 {
		t.Errorf("%d builds after the failed one, want 1", builds.Load())
	}
	target, err := filepath.EvalSymlinks(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(target), "rubbish")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the entry holds what the killed build left: %v", err)
	}
}

func TestProvideBuildsAgainWhatWasDeleted(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	provide(t, cache, Etcd)
	if err := os.Remove(filepath.Join(cache.entryDir(cache.Dir, Etcd), "etcd")); err != nil {
		t.Fatal(err)
	}
	dir := provide(t, cache, Etcd)
	if missing := missingFiles(dir, []Component{Etcd}); len(missing) != 0 || builds.Load() != 2 {
		t.Errorf("the directory lacks %q after %d builds", missing, builds.Load())
	}
}

func TestProvideUsesWhatTheMachineHas(t *testing.T) {
	cache, builds := testCache(t, t.TempDir())
	mine := t.TempDir()
	install(t, mine, "etcd", "kube-apiserver")
	cache.Machine = fakeMachine(t.TempDir(), map[string]string{EnvAssets: mine})
	if dir := provide(t, cache, Minimal()...); dir != mine || builds.Load() != 0 {
		t.Errorf("got %s after %d builds, want %s after none", dir, builds.Load(), mine)
	}
}

func TestBuildWithoutGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cache := NewCache(t.TempDir(), fakeMachine(t.TempDir(), nil), Log{})
	cache.Releases = releasesOff
	if _, err := cache.Provide(t.Context(), []Component{Etcd}); err == nil {
		t.Error("a build without a go command succeeded")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "lock")
	held, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a lock that is held: error %v, want %v", err, ErrLocked)
	}

	busy := make(chan struct{})
	taken := make(chan error, 1)
	go func() {
		lock, err := Lock(t.Context(), path, func() { close(busy) })
		if err == nil {
			err = lock.Unlock()
		}
		taken <- err
	}()
	select {
	case <-busy:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told to wait")
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Errorf("a lock that was released: %v", err)
	}
}

func TestLockEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Unlock() }()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := Lock(ctx, path, func() { cancel(cause) }); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}
