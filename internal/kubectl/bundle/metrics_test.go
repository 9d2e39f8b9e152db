package bundle

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// forward plays an API server that forwards a port of a Pod to a handler. Without one, nobody listens at the port.
func forward(t *testing.T, to http.Handler) (*rest.Config, kubernetes.Interface) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/network-agent/pods/a/portforward" {
			http.NotFound(w, r)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		failure, data := <-streams, <-streams
		defer connection.Close()
		if got := data.Headers().Get(corev1.PortHeader); got != "9479" {
			t.Errorf("the port is %s", got)
		}
		request, err := http.ReadRequest(bufio.NewReader(data))
		if err != nil || to == nil {
			_, _ = io.WriteString(failure, "nobody listens there")
			_ = failure.Close()
			_ = data.Close()
			<-connection.CloseChan()
			return
		}
		answer := httptest.NewRecorder()
		to.ServeHTTP(answer, request)
		_ = answer.Result().Write(data)
		_ = data.Close()
		<-connection.CloseChan()
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	return config, kube
}

func TestMetricsAreReadThroughTheAPIServer(t *testing.T) {
	config, kube := forward(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "of "+r.URL.Path)
	}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "a"}}
	got, err := Metrics(t.Context(), config, kube, pod, 9479)
	expect.NoError(t, err)
	expect.Equal(t, "of /metrics", got, "the metrics")
}

func TestMetricsThatCannotBeReadSayWhy(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "a"}}
	gone := pod.DeepCopy()
	gone.Name = "gone"
	config, kube := forward(t, nil)
	refuses, _ := forward(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "on loopback only", http.StatusForbidden)
	}))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ask := range map[string]func() (string, error){
		"nobody listens there": func() (string, error) { return Metrics(t.Context(), config, kube, pod, 9479) },
		"404":                  func() (string, error) { return Metrics(t.Context(), config, kube, gone, 9479) },
		"canceled":             func() (string, error) { return Metrics(over, config, kube, pod, 9479) },
		"403 Forbidden: on loopback only": func() (string, error) {
			kube, err := kubernetes.NewForConfig(refuses)
			expect.NoError(t, err)
			return Metrics(t.Context(), refuses, kube, pod, 9479)
		},
	} {
		if got, err := ask(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q %v, want %s", got, err, want)
		}
	}
}

// TestMetricsEndWithTheContext has an API server that accepts a connection and says nothing.
func TestMetricsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-t.Context().Done()
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	_, err = Metrics(ctx, config, kube, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-agent", Name: "a"}}, 9479)
	expect.Equal(t, context.Canceled, err, "the error")
}

// TestAnArchiveIsBounded has more than its share.
func TestAnArchiveIsBounded(t *testing.T) {
	var a Archive
	a.Add("large.txt", strings.Repeat("a", maxSize-1))
	a.Add("too-large.txt", "password: a")
	expect.Equal(t, 0, len(a.texts.Removed()), "what is too large is not cleaned")
	a.Add("small.txt", "a")
	index := a.Index()
	for want, is := range map[string]bool{"65536 KiB  large.txt": true, "too-large.txt: the bundle would be larger than 64 MiB": true,
		"1 KiB  small.txt": true, "KiB  too-large.txt": false} {
		expect.Equal(t, is, strings.Contains(index, want), "%q in the index:\n%s", want, index)
	}
}
