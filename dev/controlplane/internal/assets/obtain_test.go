// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/fetch"
)

// mirror serves small files in the place of all releases for linux-amd64.
type mirror struct {
	*httptest.Server
	// files are what is served, by host and path.
	files map[string][]byte
	// serve serves a file.
	serve func(w http.ResponseWriter, r *http.Request, file []byte)
}

// syncBuffer is a Log's Writer that may be written and read at the same time.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// fetchingCache returns a cache that fetches from a mirror, whose checksums it knows, and builds as testCache does.
func fetchingCache(t *testing.T) (*Cache, *mirror, *syncBuffer) {
	t.Helper()
	cache, _ := testCache(t, t.TempDir())
	m := &mirror{files: map[string][]byte{}, serve: func(w http.ResponseWriter, r *http.Request, file []byte) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, ok := m.files[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		m.serve(w, r, file)
	}))
	t.Cleanup(m.Close)
	cache.Machine.GOOS, cache.Machine.GOARCH = "linux", "amd64"
	cache.checksums = map[string]string{}
	for _, c := range All() {
		r, _ := c.release("linux", "amd64")
		file := []byte("released " + string(c))
		if r.member != "" {
			file = archive(t, map[string]string{"README.md": "read me", r.member: string(file), r.member + "ctl": "other"})
		}
		m.files[strings.TrimPrefix(r.address, "https://")] = file
		digest := sha256.Sum256(file)
		cache.checksums[r.address] = hex.EncodeToString(digest[:])
		m.files[strings.TrimPrefix(r.sums, "https://")] = []byte(cache.checksums[r.address] + "  " + r.address + "\n")
	}
	out := &syncBuffer{}
	cache.Log, cache.Releases = Log{Writer: out}, m.URL
	client := &fetch.Client{HTTP: m.Client(), Limits: fetch.Limits{
		Answer: 300 * time.Millisecond, Window: 300 * time.Millisecond, Floor: 64, Attempts: 2, Size: 1 << 20,
	}}
	cache.fetch, cache.fetchUnknown = client.File, client.Unknown
	cache.stages = func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, StagesFile), []byte("stages"), 0o644)
	}
	return cache, m, out
}

func archive(t *testing.T, members map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	file := tar.NewWriter(zipped)
	for _, name := range sortedKeys(members) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(members[name])), Typeflag: tar.TypeReg}
		if err := file.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(members[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// origins returns for each component whether it was "released" or "built".
func origins(t *testing.T, dir string) map[Component]string {
	t.Helper()
	from := map[Component]string{}
	for _, c := range All() {
		content, err := os.ReadFile(filepath.Join(dir, string(c)))
		if err != nil {
			t.Error(err)
		}
		from[c], _, _ = strings.Cut(string(content), " ")
	}
	return from
}

func TestProvideFetches(t *testing.T) {
	cache, _, out := fetchingCache(t)
	dir := provide(t, cache, All()...)
	if missing := missingFiles(dir, All()); len(missing) != 0 {
		t.Errorf("the directory lacks %q", missing)
	}
	for c, from := range origins(t, dir) {
		if from != "released" {
			t.Errorf("%s is %s, want it released", c, from)
		}
		if want := string(c) + " " + c.Version() + ": fetched and verified in "; !strings.Contains(out.String(), want) {
			t.Errorf("no line has %q", want)
		}
	}
	left, err := os.ReadDir(filepath.Join(cache.Dir, "downloads"))
	if err != nil || len(left) != 0 {
		t.Errorf("downloads are left: %v (error %v)", left, err)
	}
}

func TestProvideBuildsWhatCannotBeFetched(t *testing.T) {
	scheduler, _ := KubeScheduler.release("linux", "amd64")
	path := strings.TrimPrefix(scheduler.address, "https://")
	for sentence, test := range map[string]struct {
		spoil func(t *testing.T, cache *Cache, m *mirror)
		built []Component
		line  string
	}{
		"one that the server does not have": {
			spoil: func(_ *testing.T, _ *Cache, m *mirror) { delete(m.files, path) },
			built: []Component{KubeScheduler},
			line:  "kube-scheduler: not fetched from 127.0.0.1:PORT: the server answers 404 Not Found; building from source",
		},
		"one that is another file": {
			spoil: func(_ *testing.T, _ *Cache, m *mirror) { m.files[path] = []byte("another") },
			built: []Component{KubeScheduler},
			line:  "kube-scheduler: not fetched from 127.0.0.1:PORT: wrong checksum: its SHA-256 is ",
		},
		"one whose archive lacks the program": {
			spoil: func(t *testing.T, cache *Cache, m *mirror) {
				r, _ := Etcd.release("linux", "amd64")
				file := archive(t, map[string]string{"README.md": "read me"})
				digest := sha256.Sum256(file)
				m.files[strings.TrimPrefix(r.address, "https://")] = file
				cache.checksums[r.address] = hex.EncodeToString(digest[:])
			},
			built: []Component{Etcd},
			line:  "etcd: not fetched from 127.0.0.1:PORT: ",
		},
		"one without a pinned checksum": {
			spoil: func(_ *testing.T, cache *Cache, _ *mirror) { delete(cache.checksums, scheduler.address) },
			built: []Component{KubeScheduler},
			line: "kube-scheduler " + KubeScheduler.Version() +
				": not fetched, because no checksum of a release for linux-amd64 is pinned",
		},
		"all, on a platform without releases": {
			spoil: func(_ *testing.T, cache *Cache, _ *mirror) { cache.Machine.GOARCH = "riscv64" },
			built: All(),
			line: "etcd " + Etcd.Version() +
				": not fetched, because no checksum of a release for linux-riscv64 is pinned",
		},
		"all, where fetching is forbidden": {
			spoil: func(_ *testing.T, cache *Cache, _ *mirror) { cache.Releases = "off" },
			built: All(), line: "etcd " + Etcd.Version() + ": building from source (minutes the first time)",
		},
		"all, where they are cut off": {
			spoil: func(_ *testing.T, _ *Cache, m *mirror) {
				m.serve = func(w http.ResponseWriter, _ *http.Request, file []byte) {
					w.Header().Set("Content-Length", strconv.Itoa(len(file)))
					_, _ = w.Write(file[:1])
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			},
			built: All(), line: "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok: not fetched from " +
				"127.0.0.1:PORT: cut off: unexpected EOF; building from source",
		},
		"all, where they come too slowly": {
			spoil: func(_ *testing.T, _ *Cache, m *mirror) {
				m.serve = func(w http.ResponseWriter, r *http.Request, file []byte) {
					w.Header().Set("Content-Length", strconv.Itoa(len(file)))
					_, _ = w.Write(file[:1])
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			},
			built: All(), line: "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok: not fetched from " +
				"127.0.0.1:PORT: too slow: 0 KiB in 300ms; building from source",
		},
		"all, where nobody listens": {
			spoil: func(_ *testing.T, _ *Cache, m *mirror) { m.Close() },
			built: All(), line: "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok: not fetched from " +
				"127.0.0.1:PORT: connect: connection refused; building from source",
		},
		"all, where nobody answers": {
			spoil: func(t *testing.T, cache *Cache, _ *mirror) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				cache.Releases = "http://" + l.Addr().String()
			},
			built: All(), line: "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok: not fetched from " +
				"127.0.0.1:PORT: no answer within 300ms; building from source",
		},
		"kwok, where its Stages cannot be had": {
			spoil: func(_ *testing.T, cache *Cache, _ *mirror) {
				cache.stages = func(context.Context, string) error { return os.ErrPermission }
			},
			built: []Component{Kwok},
			line:  "kwok: not fetched from 127.0.0.1:PORT: permission denied; building from source",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			cache, m, out := fetchingCache(t)
			test.spoil(t, cache, m)
			dir := provide(t, cache, All()...)
			if missing := missingFiles(dir, All()); len(missing) != 0 {
				t.Errorf("the directory lacks %q", missing)
			}
			want := map[Component]string{}
			for _, c := range All() {
				want[c] = "released"
			}
			for _, c := range test.built {
				want[c] = "built"
			}
			for c, from := range origins(t, dir) {
				if from != want[c] {
					t.Errorf("%s is %s, want it %s", c, from, want[c])
				}
			}
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(cache.Releases, "http://"))
			if line := strings.ReplaceAll(test.line, "PORT", port); !strings.Contains(out.String(), line) {
				t.Errorf("no line has %q:\n%s", line, out)
			}
			left, err := os.ReadDir(filepath.Join(cache.Dir, "downloads"))
			if len(left) != 0 {
				t.Errorf("downloads are left: %v (error %v)", left, err)
			}
		})
	}
}

func TestNothingIsDownloadedWithoutAPinnedChecksum(t *testing.T) {
	cache, m, _ := fetchingCache(t)
	cache.checksums = nil
	m.serve = func(w http.ResponseWriter, r *http.Request, _ []byte) {
		t.Errorf("%s was asked for", r.URL)
		http.NotFound(w, r)
	}
	for c, from := range origins(t, provide(t, cache, All()...)) {
		if from != "built" {
			t.Errorf("%s is %s, want it built", c, from)
		}
	}
}

func TestProvideKeepsAnInterruptedDownload(t *testing.T) {
	cache, _, _ := fetchingCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	fetched := cache.fetch
	cache.fetch = func(_ context.Context, _, _, path string, _ func(have, size int64)) error {
		cancel()
		return os.WriteFile(path+".partial", []byte("released"), 0o644)
	}
	if _, err := cache.Provide(ctx, []Component{KubeAPIServer}); err == nil {
		t.Fatal("an interrupted call succeeded")
	}
	left, _ := os.ReadDir(filepath.Join(cache.Dir, "downloads"))
	if len(left) != 1 {
		t.Fatalf("%d downloads are left, want the one that was begun", len(left))
	}
	cache.fetch = fetched
	if dir := provide(t, cache, KubeAPIServer); len(missingFiles(dir, []Component{KubeAPIServer})) != 0 {
		t.Error("the next call did not fetch it")
	}
}

func TestProvideWithAWrongMirror(t *testing.T) {
	for _, value := range []string{"no", "ftp://mirror.example", "https://"} {
		cache, _ := testCache(t, t.TempDir())
		cache.Releases = value
		if _, err := cache.Provide(t.Context(), Minimal()); err == nil || !strings.Contains(err.Error(), EnvReleases) {
			t.Errorf("%q: error %v, want one that names %s", value, err, EnvReleases)
		}
	}
}

func TestPinnedChecksums(t *testing.T) {
	sums, err := pinnedChecksums(checksums)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("each is of a release at the pinned version", func(t *testing.T) {
		addresses := map[string]bool{}
		for _, p := range releasePlatforms() {
			for _, c := range All() {
				r, _ := c.release(p.goos, p.goarch)
				addresses[r.address] = true
			}
		}
		for address := range sums {
			if !addresses[address] {
				t.Errorf("%s is not fetched: replace it by a line of `controlplane checksums`", address)
			}
		}
	})
	t.Run("a line that is none is an error", func(t *testing.T) {
		for _, line := range []string{"abc  https://example.org/a", strings.Repeat("a", 64) + " https://example.org/a",
			strings.Repeat("a", 64) + "  http://example.org/a"} {
			if _, err := pinnedChecksums([]byte("# a comment\n\n" + line + "\n")); err == nil {
				t.Errorf("%q was read", line)
			}
		}
	})
}

func TestPrintChecksums(t *testing.T) {
	cache, m, out := fetchingCache(t)
	var lines bytes.Buffer
	if err := cache.PrintChecksums(t.Context(), &lines, All()); err != nil {
		t.Fatal(err)
	}
	got, err := pinnedChecksums(lines.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cache.checksums, got); diff != "" {
		t.Errorf("checksums (-want +got):\n%s", diff)
	}
	if line := "kwok is not published for darwin-amd64"; !strings.Contains(out.String(), line) {
		t.Errorf("no line has %q:\n%s", line, out)
	}
	r, _ := KubeAPIServer.release("linux", "amd64")
	m.files[strings.TrimPrefix(r.address, "https://")] = []byte("another")
	if err := cache.PrintChecksums(t.Context(), io.Discard, Minimal()); err == nil ||
		!strings.Contains(err.Error(), "which "+r.sums+" does not have") {
		t.Errorf("error %v of a file that is not the published one", err)
	}
}
