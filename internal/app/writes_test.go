package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/rest"
)

// slowServer is a transport whose answers come when they are let go.
type slowServer struct {
	letGo chan struct{}

	mu      sync.Mutex
	waiting int
}

func (s *slowServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.waiting++
	s.mu.Unlock()
	<-s.letGo
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (s *slowServer) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// closed is a body that knows whether it was closed.
type closed struct {
	io.Reader
	done bool
}

func (c *closed) Close() error { c.done = true; return nil }

func TestWritesOfAllClientsFitOnOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowServer{letGo: make(chan struct{})}
		config := &rest.Config{}
		boundWrites(config)
		clients := []http.RoundTripper{config.WrapTransport(server), config.WrapTransport(server)}
		var all sync.WaitGroup
		send := func(ctx context.Context, client http.RoundTripper, method string, body io.ReadCloser) error {
			request, err := http.NewRequestWithContext(ctx, method, "https://kubernetes.example", body)
			if err != nil {
				return err
			}
			answer, err := client.RoundTrip(request)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}
		for i := range 3 * writesAtATime {
			all.Go(func() {
				if err := send(t.Context(), clients[i%2], http.MethodPatch, nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := server.arrived(); got != writesAtATime {
			t.Errorf("%d writes are under way, want %d", got, writesAtATime)
		}

		all.Go(func() {
			if err := send(t.Context(), clients[0], http.MethodGet, nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if got := server.arrived(); got != writesAtATime+1 {
			t.Errorf("beside %d writes a read waits", writesAtATime)
		}

		ended, end := context.WithCancel(t.Context())
		body := &closed{Reader: strings.NewReader("{}")}
		all.Go(func() {
			if err := send(ended, clients[0], http.MethodPatch, body); !errors.Is(err, context.Canceled) || !body.done {
				t.Errorf("a write whose caller gave up: %v, its body is closed: %t", err, body.done)
			}
		})
		synctest.Wait()
		end()
		synctest.Wait()

		close(server.letGo)
		all.Wait()
		if got, want := server.arrived(), 3*writesAtATime+1; got != want {
			t.Errorf("%d requests arrived, want %d", got, want)
		}
	})
}
