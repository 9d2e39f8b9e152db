package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kubetesting "k8s.io/client-go/testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// namespaceOf is a Namespace that its label leaves to a controller; to that of the cluster for "".
func namespaceOf(name, controller string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if controller != "" {
		n.Labels = map[string]string{cloudteamv1.LabelController: controller}
	}
	return n
}

// following is newNamespaces of a process that leads, with full caches.
func following(ctx context.Context, t *testing.T, kube *kubefake.Clientset, only string) *namespaces {
	t.Helper()
	o := NewOptions()
	o.Namespace, o.ResyncPeriod = only, 0
	n, err := newNamespaces(o, kube, func() bool { return true })
	expect.NoError(t, err)
	n.factory.StartWithContext(ctx)
	n.factory.WaitForCacheSync(ctx.Done())
	synctest.Wait()
	return n
}

// inNamespaces runs a test in virtual time with the namespaces that a controller sees, of one namespace or of all.
func inNamespaces(
	t *testing.T, only string, all []*corev1.Namespace,
	test func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces),
) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(quietly(t))
		kube := kubefake.NewClientset()
		for _, namespace := range all {
			expect.NoError(t, kube.Tracker().Add(namespace))
		}
		n := following(ctx, t, kube, only)
		defer func() { cancel(); n.factory.Shutdown() }()
		test(ctx, t, kube, n)
	})
}

// relabel leaves the namespace team to another controller, or to that of the cluster for "".
func relabel(ctx context.Context, t *testing.T, kube *kubefake.Clientset, controller string) {
	t.Helper()
	_, err := kube.CoreV1().Namespaces().Update(ctx, namespaceOf("team", controller), metav1.UpdateOptions{})
	expect.NoError(t, err)
	synctest.Wait()
}

// No two controllers act in one namespace, whatever its label says.
func TestANamespaceHasOneControllerAtMost(t *testing.T) {
	all := []*corev1.Namespace{namespaceOf("n0", ""), namespaceOf("n1", "network-controller"), namespaceOf("n2", "elsewhere")}
	for only, want := range map[string][]bool{"": {true, false, false}, "n1": {false, true, false}} {
		inNamespaces(t, only, all, func(ctx context.Context, t *testing.T, _ *kubefake.Clientset, n *namespaces) {
			for i, namespace := range all {
				if ours, err := n.ours(ctx, namespace.Name); err != nil || ours != want[i] {
					t.Errorf("the controller of %q acts in %s: %t (%v), want %t", only, namespace.Name, ours, err, want[i])
				}
			}
		})
	}
}

// A namespace that comes from another controller ends the process; one that goes to another does not.
func TestANamespaceThatComesBackRestartsTheProcess(t *testing.T) {
	team := []*corev1.Namespace{namespaceOf("team", "")}
	inNamespaces(t, "", team, func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces) {
		ended := make(chan error, 1)
		go func() { ended <- n.watch(ctx) }()
		relabel(ctx, t, kube, "network-controller")
		if ours, err := n.ours(ctx, "team"); ours || err != nil || len(ended) > 0 {
			t.Errorf("after the label came: ours %t, %v, ended %d", ours, err, len(ended))
		}
		relabel(ctx, t, kube, "")
		if len(ended) != 1 {
			t.Fatal("the process goes on with what it listed before the other controller acted")
		}
		if err := <-ended; !strings.Contains(err.Error(), "team") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// sentWrites counts the writes to Kubernetes, and answers with the namespace team.
type sentWrites int

// RoundTrip implements http.RoundTripper.
func (s *sentWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		*s++
	}
	body := io.NopCloser(strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`))
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body, Request: r}, nil
}

// A sync that runs while the namespace goes to another controller writes nothing more.
func TestASyncWritesNothingInANamespaceThatIsLeft(t *testing.T) {
	team := []*corev1.Namespace{namespaceOf("team", "")}
	inNamespaces(t, "", team, func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces) {
		var sent sentWrites
		config := &rest.Config{Host: "http://api.invalid", Transport: &sent}
		alone().guard(config)
		guarded, err := kubernetes.NewForConfig(config)
		expect.NoError(t, err)
		objects := guarded.CoreV1().Namespaces()
		within, yes, err := n.within(ctx, "team")
		if !yes || err != nil {
			t.Fatalf("ours %t, %v", yes, err)
		}
		for i, label := range []string{"", "network-controller", "elsewhere"} {
			relabel(ctx, t, kube, label)
			_, err := objects.Update(within, namespaceOf("team", ""), metav1.UpdateOptions{})
			if errors.Is(err, errLeft) != (i > 0) || sent != 1 {
				t.Errorf("with the label %q, a write ended with %v; %d were sent, want one", label, err, sent)
			}
			if _, err := objects.Get(within, "team", metav1.GetOptions{}); err != nil {
				t.Errorf("a read: %v", err)
			}
		}
	})
}

// A namespace that the cache does not have yet may have the label, also if one of its name was deleted. Questions at the
// same time are one.
func TestANamespaceThatIsNotInTheCacheIsAskedAbout(t *testing.T) {
	inNamespaces(t, "", nil, func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces) {
		asked, again := 0, false
		var answer runtime.Object = namespaceOf("new", "network-controller")
		var failure error
		kube.PrependReactor("get", "namespaces", func(a kubetesting.Action) (bool, runtime.Object, error) {
			asked++
			if a.(kubetesting.GetAction).GetName() == "gone" && !again {
				<-time.After(time.Second)
				return false, nil, nil
			}
			return true, answer, failure
		})
		if ours, err := n.ours(ctx, "new"); ours || err != nil {
			t.Errorf("a new namespace with the label: ours %t, %v", ours, err)
		}
		failure = errors.New("no answer")
		if ours, err := n.ours(ctx, "new"); ours || err == nil {
			t.Errorf("without an answer: ours %t, %v", ours, err)
		}
		asked = 0
		failure = nil
		var syncs sync.WaitGroup
		for range 100 {
			syncs.Go(func() {
				if ours, err := n.ours(ctx, "gone"); !ours || err != nil {
					t.Errorf("a namespace that is gone: ours %t, %v", ours, err)
				}
			})
		}
		syncs.Wait()
		expect.Equal(t, 1, asked, "how often it asked about a namespace that is gone")
		again = true
		if ours, err := n.ours(ctx, "gone"); ours || err != nil {
			t.Errorf("one that is there again, with the label: ours %t, %v", ours, err)
		}
	})
}

// A controller of one namespace does not take part in the election before the label is there.
func TestAControllerOfOneNamespaceWaitsForItsLabel(t *testing.T) {
	elsewhere := []*corev1.Namespace{namespaceOf("team", "elsewhere")}
	inNamespaces(t, "team", elsewhere, func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces) {
		done := make(chan struct{})
		go func() { n.await(ctx); close(done) }()
		<-time.After(time.Minute)
		if isClosed(done) {
			t.Fatal("it acts in a namespace that is left to another controller")
		}
		relabel(ctx, t, kube, "network-controller")
		<-time.After(time.Minute)
		if !isClosed(done) {
			t.Fatal("it does not see the label")
		}
	})
}

// The cache says of a namespace that it has whether that is being deleted.
func TestANamespaceIsTerminatingByTheCache(t *testing.T) {
	goes := namespaceOf("goes", "")
	goes.DeletionTimestamp = new(metav1.Now())
	all := []*corev1.Namespace{namespaceOf("stays", ""), goes}
	inNamespaces(t, "", all, func(ctx context.Context, t *testing.T, kube *kubefake.Clientset, n *namespaces) {
		var failure error
		kube.PrependReactor("get", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
			return failure != nil, nil, failure
		})
		for name, want := range map[string]bool{"stays": false, "goes": true, "gone": true} {
			expect.Equal(t, want, n.terminating(ctx, name), "the namespace %q is terminating", name)
		}
		failure = errors.New("no answer")
		for name, want := range map[string]bool{"stays": false, "goes": true, "gone": false} {
			expect.Equal(t, want, n.terminating(ctx, name), "without an answer, the namespace %q is terminating", name)
		}
	})
}

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
	n, err := newNamespaces(NewOptions(), kube, nil)
	expect.NoError(t, err)
	ask := func(namespace string) chan bool {
		answer := make(chan bool, 1)
		go func() { answer <- n.terminating(t.Context(), namespace) }()
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
