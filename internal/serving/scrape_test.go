package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// reviewing is an API server that knows the tokens "reader" and "stranger", and lets only the first get /metrics.
func reviewing() (kube *fake.Clientset, asked *atomic.Int64, down *atomic.Bool) {
	kube, asked, down = fake.NewClientset(), &atomic.Int64{}, &atomic.Bool{}
	kube.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		if down.Load() {
			return true, nil, errors.New("down")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if token := review.Spec.Token; token == "reader" || token == "stranger" {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{Username: token, Groups: []string{"g"}}
		}
		return true, review, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asks := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "reader" && review.Spec.Groups[0] == "g" &&
			asks != nil && asks.Path == "/metrics" && asks.Verb == "get"
		return true, review, nil
	})
	return kube, asked, down
}

func TestMetricsAskWhoIsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, asked, down := reviewing()
		handler := newAuthorized(kube, 5, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "metrics")
		}))
		get := func(authorization string) (int, string) {
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			if authorization != "" {
				request.Header.Set("Authorization", authorization)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			return answer.Code, answer.Body.String()
		}
		for _, c := range []struct {
			authorization string
			want          int
			asks          int64
		}{
			{"", 401, 0}, {"Basic cmVhZGVyOg==", 401, 0}, {"Bearer ", 401, 0}, {"Bearer nobody", 401, 1},
			{"Bearer stranger", 403, 1}, {"Bearer reader", 200, 1},
			{"bearer reader", 200, 0}, {"Bearer stranger", 403, 0}, {"Bearer nobody", 401, 0},
		} {
			before := asked.Load()
			code, body := get(c.authorization)
			if code != c.want || (code == 200) != (body == "metrics") {
				t.Errorf("%q: %d %s, want %d", c.authorization, code, body, c.want)
			}
			expect.Equal(t, c.asks, asked.Load()-before, "%q: how often the API server was asked", c.authorization)
		}
		<-time.After(2 * admittedFor)
		down.Store(true)
		if code, _ := get("Bearer reader"); code != http.StatusServiceUnavailable {
			t.Errorf("while the API server is down: %d", code)
		}
		down.Store(false)
		if code, _ := get("Bearer reader"); code != http.StatusOK {
			t.Errorf("a failure is remembered: %d", code)
		}
		// Guesses ask the API server a few times a second.
		began, before := time.Now(), asked.Load()
		for n := range 50 {
			get("Bearer guess" + strings.Repeat("x", n))
		}
		if took := virtual.Since(began); took < 8*time.Second || asked.Load()-before != 50 {
			t.Errorf("%d guesses were asked about in %s", asked.Load()-before, took)
		}
	})
}

func TestMetricsAreServedOverTLS(t *testing.T) {
	kube, _, _ := reviewing()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("metrics.example", nil, nil)
	expect.NoError(t, errors.Join(err, os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, keyPEM, 0o600)))
	for name, c := range map[string]struct {
		served Metrics
		host   string
	}{
		"with a certificate of its own": {Metrics{}, "network-controller"},
		"with one in files":             {Metrics{CertFile: certFile, KeyFile: keyFile}, "metrics.example"},
	} {
		t.Run(name, func(t *testing.T) {
			probe, err := net.Listen("tcp", "127.0.0.1:0")
			expect.NoError(t, err)
			c.served.Address = probe.Addr().String()
			if _, err := c.served.Listen(kube, "network-controller", 0); err == nil || !strings.Contains(err.Error(), "--metrics-bind-address") {
				t.Errorf("an address in use: error %v", err)
			}
			probe.Close()
			serve, err := c.served.Listen(kube, "network-controller", 0)
			expect.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- serve(ctx) }()
			client := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: c.host}, //nolint:gosec // self-signed
			}}
			for token, want := range map[string]int{"reader": 200, "stranger": 403, "": 401} {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.served.Address+"/metrics", nil)
				expect.NoError(t, err)
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				answer, err := client.Do(request)
				expect.NoError(t, err)
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != want || strings.Contains(string(body), "go_goroutines") != (want == 200) {
					t.Errorf("token %q: %d %.100s, want %d", token, answer.StatusCode, body, want)
				}
				if err := answer.TLS.PeerCertificates[0].VerifyHostname(c.host); err != nil {
					t.Error(err)
				}
			}
			client.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := (&Metrics{Address: "127.0.0.1:0", CertFile: keyFile, KeyFile: keyFile}).Listen(kube, "h", 0); err == nil ||
		!strings.Contains(err.Error(), "--tls-cert-file") {
		t.Errorf("a certificate that is none: error %v", err)
	}
}

// elsewhere is a listener that says that it is not on loopback.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// TestProbesOnLoopbackAreNotLimitedPerHost holds that a program on a node cannot take the places of the kubelet's probes
// of one that listens on its loopback.
func TestProbesOnLoopbackAreNotLimitedPerHost(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	defer listener.Close()
	limited := Limit(listener).(*limitedListener)
	for range 2 * maxConnectionsPerHost {
		if !limited.admit(netip.MustParseAddr("127.0.0.1")) {
			t.Fatal("a connection is closed")
		}
	}
}

func TestOneHostHoldsAFewConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	limited := Limit(elsewhere{listener})
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, server, limited) }()
	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		expect.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	answers := func(conn net.Conn) bool {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		first := make([]byte, 1)
		_, err := conn.Read(first)
		return err == nil
	}
	var held []net.Conn
	for range maxConnectionsPerHost {
		conn := dial("127.0.0.2")
		if !answers(conn) {
			t.Fatalf("connection %d gets no answer", len(held)+1)
		}
		held = append(held, conn)
	}
	if answers(dial("127.0.0.2")) {
		t.Errorf("one host holds more than %d connections", maxConnectionsPerHost)
	}
	if !answers(dial("127.0.0.3")) {
		t.Error("another host gets no answer")
	}
	held[0].Close()
	for deadline := time.Now().Add(time.Minute); !answers(dial("127.0.0.2")); {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection frees no place")
		}
	}
	cancel()
	expect.NoError(t, <-done)
}

func TestAServerReadsHeadersOfBoundedSize(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(http.NotFoundHandler())
	server.Start()
	defer server.Close()
	for size, want := range map[int]int{1 << 10: http.StatusNotFound, 1 << 20: http.StatusRequestHeaderFieldsTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		expect.NoError(t, err)
		request.Header.Set("X-Long", strings.Repeat("x", size))
		answer, err := server.Client().Do(request)
		expect.NoError(t, err)
		answer.Body.Close()
		expect.Equal(t, want, answer.StatusCode, "the code with %d bytes", size)
	}
}
