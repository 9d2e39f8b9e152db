// SPDX-License-Identifier: Apache-2.0

//go:build unix

package assets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// testCache returns a cache that fetches nothing and writes small files where a real one would compile, the count of
// the programs that it made, and what it says. The machine has no programs.
func testCache(t *testing.T) (*Cache, *atomic.Int32, *bytes.Buffer) {
	t.Helper()
	for name, value := range map[string]string{EnvAssets: "", "XDG_DATA_HOME": t.TempDir(), EnvReleases: "off"} {
		t.Setenv(name, value)
	}
	builds, said := &atomic.Int32{}, &bytes.Buffer{}
	cache := NewCache(t.TempDir(), log.New(said, "", 0))
	cache.build = func(_ context.Context, _ recipe, components []Component, dir string) error {
		for _, c := range components {
			builds.Add(1)
			install(t, dir, c)
		}
		return nil
	}
	return cache, builds, said
}

// install puts programs under dir.
func install(t *testing.T, dir string, components ...Component) {
	t.Helper()
	expect.NoError(t, os.MkdirAll(dir, 0o755))
	for _, c := range components {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, string(c)), []byte("built"), 0o755))
	}
}

func provide(t *testing.T, cache *Cache, components ...Component) string {
	t.Helper()
	dir, err := cache.Provide(t.Context(), components)
	expect.NoError(t, err)
	if lacks := missing(dir, components); len(lacks) != 0 {
		t.Errorf("the directory lacks %s", Join(lacks))
	}
	return dir
}

func TestParseComponents(t *testing.T) {
	for list, want := range map[string][]Component{
		"all": All(), "kube-apiserver,etcd,etcd": Minimal(), "multus,kubelet": ForContainers(), "etcd,kube-proxy": nil, "": nil,
	} {
		got, err := ParseComponents(list)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: error %v (-want +got):\n%s", list, err, diff)
		}
	}
}

func TestDiscover(t *testing.T) {
	minor := regexp.MustCompile(`^v(\d+\.\d+)\.`).FindStringSubmatch(KubeAPIServer.Version())[1]
	platform := "-" + runtime.GOOS + "-" + runtime.GOARCH
	for sentence, test := range map[string]struct {
		// dirs have etcd and kube-apiserver, but half has etcd alone.
		dirs         []string
		assets, want string
	}{
		"KUBEBUILDER_ASSETS goes before setup-envtest's store": {
			dirs: []string{"mine", "k8s/" + minor + ".0" + platform}, assets: "mine", want: "mine",
		},
		"KUBEBUILDER_ASSETS that lacks a component is not used": {dirs: []string{"half"}, assets: "half"},
		"of several patches in the store the newest is used, by number": {
			dirs: []string{"k8s/" + minor + ".9" + platform, "k8s/" + minor + ".10" + platform},
			want: "k8s/" + minor + ".10" + platform,
		},
		"another minor version in the store is not used": {dirs: []string{"k8s/1.20.2" + platform}},
		"another platform in the store is not used":      {dirs: []string{"k8s/" + minor + ".0-plan9-arm"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			data := t.TempDir()
			store := filepath.Join(data, "kubebuilder-envtest")
			for _, dir := range test.dirs {
				components := Minimal()
				if dir == "half" {
					components = components[:1]
				}
				install(t, filepath.Join(store, dir), components...)
			}
			t.Setenv("XDG_DATA_HOME", data)
			t.Setenv(EnvAssets, "")
			if test.assets != "" {
				t.Setenv(EnvAssets, filepath.Join(store, test.assets))
			}
			want := ""
			if test.want != "" {
				want = filepath.Join(store, test.want)
			}
			expect.Equal(t, want, discover(Minimal()), "what is found")
		})
	}
}

func TestProvideBuildsOnceAndWhatServesTheAPIFirst(t *testing.T) {
	cache, _, _ := testCache(t)
	var order []string
	build := cache.build
	cache.build = func(ctx context.Context, r recipe, components []Component, dir string) error {
		order = append(order, Join(components))
		return build(ctx, r, components, dir)
	}
	first, complete, err := cache.ProvideFirst(t.Context(), Minimal(), All())
	if err != nil || complete {
		t.Errorf("complete is %t (error %v), with two components of %d", complete, err, len(All()))
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if dir, complete, err := cache.ProvideFirst(t.Context(), All(), All()); dir != first || !complete || err != nil {
				t.Errorf("all are in %s (complete is %t, error %v), the first in %s", dir, complete, err, first)
			}
		})
	}
	callers.Wait()
	expect.Equal(t, []string{"etcd", "kube-apiserver", "kube-controller-manager,kube-scheduler"}, order, "the order")
}

func TestProvideDoesNotMixVersions(t *testing.T) {
	cache, _, said := testCache(t)
	mine := t.TempDir()
	install(t, mine, Minimal()...)
	t.Setenv(EnvAssets, mine)
	expect.Equal(t, mine, provide(t, cache, Minimal()...), "the folder")
	if dir := provide(t, cache, All()...); dir == mine || !strings.Contains(said.String(), "has no kube-controller-manager") {
		t.Errorf("the directory is %s, which lacks a component; it says:\n%s", dir, said)
	}
}

func TestProvideNeverUsesWhatABrokenBuildLeft(t *testing.T) {
	cache, builds, _ := testCache(t)
	whole, broken := cache.build, errors.New("no space left")
	cache.build = func(_ context.Context, _ recipe, components []Component, dir string) error {
		install(t, dir, components...)
		return broken
	}
	if _, err := cache.Provide(t.Context(), Minimal()); !errors.Is(err, broken) {
		t.Fatalf("error %v, want %v", err, broken)
	}
	cache.build = whole
	provide(t, cache, Minimal()...)
	expect.Equal(t, int32(2), builds.Load(), "builds after the broken one")
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	cache, _, _ := testCache(t)
	expect.NoError(t, os.MkdirAll(cache.dir(), 0o755))
	lock, err := TryLock(filepath.Join(cache.dir(), "lock"))
	expect.NoError(t, err)
	defer lock.Close()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := cache.Provide(ctx, Minimal()); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

func TestFetch(t *testing.T) {
	digest := sha256.Sum256([]byte("released"))
	for sentence, test := range map[string]struct {
		answer http.HandlerFunc
		err    string
	}{
		"a published program":     {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("released")) }},
		"another than the pinned": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, err: "SHA-256"},
		"none":                    {answer: http.NotFound, err: "404"},
		"one that is cut off": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "8")
				_, _ = w.Write([]byte("rel"))
			},
			err: "unexpected EOF",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			site := httptest.NewServer(test.answer)
			defer site.Close()
			path := filepath.Join(t.TempDir(), "program")
			err := fetch(t.Context(), site.URL, hex.EncodeToString(digest[:]), path)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if _, err := os.Stat(path); (err == nil) != (test.err == "") {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

func TestWhatCannotBeFetchedIsBuilt(t *testing.T) {
	if path, _ := KubeAPIServer.release(); path == "" {
		t.Skip("no checksum is pinned for this platform")
	}
	cache, builds, said := testCache(t)
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	defer func(real string) { releaseSite = real }(releaseSite)
	releaseSite = site.URL + "/"
	t.Setenv(EnvReleases, "")
	provide(t, cache, All()...)
	if got := builds.Load(); got != 4 || strings.Count(said.String(), "is built from source") != 1 {
		t.Errorf("%d programs are built, want 4; it says:\n%s", got, said)
	}
}

// TestPins holds the pins against each other and the project: packages of one version are compiled once for all.
func TestPins(t *testing.T) {
	required := func(gomod []byte) map[string]string {
		versions := map[string]string{}
		for _, line := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+)(?: => \S+)? (v\S+)`).FindAllSubmatch(gomod, -1) {
			versions[string(line[1])] = string(line[2])
		}
		return versions
	}
	gomod, err := os.ReadFile("../../../../go.mod")
	expect.NoError(t, err)
	project := required(gomod)
	for _, pin := range []string{"kubernetes", "etcd"} {
		for module, version := range required(pinned(pin + ".mod")) {
			if want := project[module]; want != "" && want != version {
				t.Errorf("pins/%s.mod has %s %s, and the project %s: run pins/update.sh %s", pin, module, version, want, pin)
			}
		}
	}
	// A module that the project has moved on with follows by -mod=mod.
	dns, err := os.ReadFile("../../../../test/dns/go.mod")
	expect.NoError(t, err)
	for module, has := range required(dns) {
		if want := project[module]; want != "" && version.MustParseSemantic(want).LessThan(version.MustParseSemantic(has)) {
			t.Errorf("test/dns has %s %s, and the project %s: have it require an older CoreDNS", module, has, want)
		}
	}
	for _, c := range append(All(), ForContainers()...) {
		if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(c.Version()) {
			t.Errorf("%s has version %q", c, c.Version())
		}
	}
	if c := kubernetes(KubeAPIServer); !strings.Contains(c.ldflags(),
		"-X k8s.io/component-base/version.gitVersion="+c.version()+" ") {
		t.Errorf("ldflags %q do not say the version", c.ldflags())
	}
}
