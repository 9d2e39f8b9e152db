// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// content is what the servers of these tests serve.
var content = bytes.Repeat([]byte("a released binary\n"), 100_000)

// half is where they cut it.
var half = len(content) / 2

func digest(b []byte) string {
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:])
}

// testClient gives up within a second.
func testClient() *Client {
	return &Client{HTTP: &http.Client{Transport: &http.Transport{}}, Limits: Limits{
		Answer: 300 * time.Millisecond, Window: 200 * time.Millisecond, Floor: 64 << 10, Attempts: 3, Size: 1 << 30,
	}}
}

// server serves with the handler; its address is that of a file.
func server(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL + "/file"
}

func serve(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(content))
}

// cut serves the first half of what is asked for, and then ends the connection.
func cut(w http.ResponseWriter, begin int) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)-begin))
	if begin > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", begin, len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(content[begin : begin+(len(content)-begin)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// checkFile fails the test unless the file is there exactly if it should be, with the content.
func checkFile(t *testing.T, path string, want bool) {
	t.Helper()
	got, err := os.ReadFile(path)
	switch {
	case want && err != nil:
		t.Error(err)
	case want && !bytes.Equal(got, content):
		t.Errorf("the file has %d bytes that are not the served %d", len(got), len(content))
	case !want && !errors.Is(err, os.ErrNotExist):
		t.Errorf("there is a file (error %v)", err)
	}
}

func ignore(int64, int64) {}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var have, size int64
	err := testClient().File(t.Context(), server(t, serve), digest(content), path, func(h, s int64) { have, size = h, s })
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, true)
	if have != int64(len(content)) || size != have {
		t.Errorf("the last progress was %d of %d, want %d", have, size, len(content))
	}
}

func TestFileIsResumedWhenItIsCutOff(t *testing.T) {
	var ranges []string
	address := server(t, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		switch len(ranges) {
		case 1:
			cut(w, 0)
		case 2:
			cut(w, half)
		default:
			serve(w, r)
		}
	})
	path := filepath.Join(t.TempDir(), "file")
	if err := testClient().File(t.Context(), address, digest(content), path, ignore); err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, true)
	want := fmt.Sprintf("[ bytes=%d- bytes=%d-]", half, half+half/2)
	if got := fmt.Sprint(ranges); got != want {
		t.Errorf("ranges %s, want %s", got, want)
	}
}

func TestFileIsResumedByALaterCall(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	var asked atomic.Value
	address := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Range"))
		if r.Header.Get("Range") != "" {
			serve(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:half])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	path := filepath.Join(t.TempDir(), "file")
	err := testClient().File(ctx, address, digest(content), path, func(have, _ int64) {
		if have == int64(half) {
			cancel(interrupted)
		}
	})
	if !errors.Is(err, interrupted) {
		t.Fatalf("error %v, want %v", err, interrupted)
	}
	checkFile(t, path, false)
	if err := testClient().File(t.Context(), address, digest(content), path, ignore); err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, true)
	if got, want := asked.Load(), fmt.Sprintf("bytes=%d-", half); got != want {
		t.Errorf("range %q, want %q", got, want)
	}
}

func TestFileBeginsAgain(t *testing.T) {
	for sentence, test := range map[string]struct {
		left    []byte
		handler http.HandlerFunc
	}{
		"where the server knows no ranges": {
			left: content[:half],
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(content)
			},
		},
		"where what was left is of another file": {left: []byte("rubbish"), handler: serve},
		"where more was left than the file has":  {left: append(bytes.Clone(content), 'x'), handler: serve},
	} {
		t.Run(sentence, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path+partialSuffix, test.left, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := testClient().File(t.Context(), server(t, test.handler), digest(content), path, ignore); err != nil {
				t.Fatal(err)
			}
			checkFile(t, path, true)
		})
	}
}

func TestFileThatIsWholeIsNotFetchedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path+partialSuffix, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testClient().File(t.Context(), server(t, serve), digest(content), path, ignore); err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, true)
}

func TestFileGivesUp(t *testing.T) {
	for sentence, test := range map[string]struct {
		address func(t *testing.T) string
		want    error
		reason  string
	}{
		"on a wrong checksum": {
			address: func(t *testing.T) string {
				return server(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another file")) })
			},
			want: ErrChecksum, reason: "wrong checksum: its SHA-256 is ",
		},
		"on 404": {
			address: func(t *testing.T) string { return server(t, http.NotFound) },
			reason:  "the server answers 404 Not Found",
		},
		"when less comes than the limit": {
			address: func(t *testing.T) string {
				return server(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					for {
						_, _ = w.Write([]byte("x"))
						_ = http.NewResponseController(w).Flush()
						select {
						case <-r.Context().Done():
							return
						case <-time.After(10 * time.Millisecond):
						}
					}
				})
			},
			want: ErrSlow, reason: "too slow: 0 KiB in 200ms",
		},
		"when nothing comes after the header": {
			address: func(t *testing.T) string {
				return server(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
			},
			want: ErrSlow, reason: "too slow: 0 KiB in 200ms",
		},
		"when it is cut off again and again": {
			address: func(t *testing.T) string {
				return server(t, func(w http.ResponseWriter, r *http.Request) {
					begin := 0
					_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &begin)
					cut(w, begin)
				})
			},
			reason: "cut off: unexpected EOF",
		},
		"when nobody listens": {
			address: func(t *testing.T) string {
				l := listen(t)
				_ = l.Close()
				return "http://" + l.Addr().String() + "/file"
			},
			reason: "connect: connection refused",
		},
		"when nobody answers": {
			address: func(t *testing.T) string { return "http://" + listen(t).Addr().String() + "/file" },
			want:    ErrNoAnswer, reason: "no answer within 300ms",
		},
		"when the name is unknown": {
			address: func(*testing.T) string { return "http://nowhere.invalid/file" },
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			started := time.Now()
			err := testClient().File(t.Context(), test.address(t), digest(content), path, ignore)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if got := Reason(err); !strings.Contains(got, test.reason) || strings.Contains(got, "http://") {
				t.Errorf("reason %q, want one with %q and no address", got, test.reason)
			}
			if took := time.Since(started); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			checkFile(t, path, false)
			if err := Discard(path); err != nil {
				t.Error(err)
			}
			checkFile(t, path+partialSuffix, false)
		})
	}
}

func TestFileOfAnotherSizeThanAllowed(t *testing.T) {
	for sentence, handler := range map[string]http.HandlerFunc{
		"that the server tells": serve,
		"that the server does not tell": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(content)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			client := testClient()
			client.Limits.Size = int64(half)
			path := filepath.Join(t.TempDir(), "file")
			err := client.File(t.Context(), server(t, handler), digest(content), path, ignore)
			if !errors.Is(err, ErrSize) {
				t.Fatalf("error %v, want %v", err, ErrSize)
			}
		})
	}
}

func TestNewClientHeedsTheProxyVariables(t *testing.T) {
	transport, _ := http.DefaultTransport.(*http.Transport)
	if client := NewClient(); client.HTTP.Transport != nil || transport.Proxy == nil {
		t.Error("the client has no transport that reads HTTP_PROXY and HTTPS_PROXY")
	}
}

// listen takes a port on which nothing answers, though the kernel accepts connections.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
