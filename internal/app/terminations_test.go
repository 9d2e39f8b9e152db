package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestASlowAnswerAboutANamespaceDelaysNoOther(t *testing.T) {
	var asked atomic.Int64
	began, released := make(chan struct{}, 2), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			asked.Add(1)
			began <- struct{}{}
			<-released
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"metadata":{"name":"ending","deletionTimestamp":"2026-01-01T00:00:00Z"}}`)
	}))
	defer server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	expect.NoError(t, err)
	var ends terminations
	ask := func(namespace string) chan bool {
		answer := make(chan bool, 1)
		go func() { answer <- ends.of(t.Context(), kube, namespace) }()
		return answer
	}
	want := func(what string, answer chan bool) {
		t.Helper()
		select {
		case is := <-answer:
			if !is {
				t.Errorf("%s is not told to be deleted", what)
			}
		case <-time.After(patience):
			t.Errorf("there is no answer about %s", what)
		}
	}
	first := ask("slow")
	<-began
	second := ask("slow")
	want("another namespace", ask("other"))
	close(released)
	want("the slow namespace", first)
	want("the slow namespace", second)
	expect.Equal(t, int64(1), asked.Load(), "how often two callers asked")
}
