package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	"cloudteam.ztgame.com/network-controller/internal/redact"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// testPatience is for machines that do much else at the same time.
const testPatience = time.Minute

func network(name string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	n.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Available"}}
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "v4-" + name, CIDR: "10.0.0.0/24"}}
	return n
}

func port(namespace, name, network string) *cloudteamv1.NetworkPort {
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.NetworkName, p.Spec.NetworkNamespace = network, "shop"
	p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AddressInUse"}}
	p.Status.Addresses = []cloudteamv1.PortAddress{{Address: "10.0.0.7/24", SubnetID: "v4-" + network}}
	p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "u"}
	p.Status.Drift = []cloudteamv1.Drift{{Field: "tags"}}
	return p
}

// floatingIP names the port web-0 of shop.
func floatingIP(reason string) *cloudteamv1.FloatingIP {
	f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "public"}}
	f.Spec.ExternalNetwork, f.Spec.PortName = "public", "web-0"
	f.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: reason}}
	return f
}

func pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x", UID: "u",
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"value":"hunter2"}`}}}
	pod.Spec.NodeName, pod.Status.Phase = "node1", corev1.PodRunning
	pod.Spec.Containers = []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}}}
	return pod
}

// world is a cluster and the page's view of it.
type world struct {
	*World
	*ask.Cluster
	t       *testing.T
	version int64
	has     map[string]*tree.Node
	notes   []string
}

func newWorld(t *testing.T, namespace string, forbid func(clienttesting.Action) bool) *world {
	t.Helper()
	kube := kubefake.NewClientset(pod())
	networks := fake.NewSimpleClientset(network("frontend"), network("backend"), port("shop", "web-0", "frontend"))
	refuse := func(a clienttesting.Action) (bool, error) {
		if forbid == nil || !forbid(a) {
			return false, nil
		}
		return true, apierrors.NewForbidden(schema.GroupResource{Resource: a.GetResource().Resource}, "", nil)
	}
	networks.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		refused, err := refuse(a)
		return refused, nil, err
	})
	c := &ask.Cluster{Kubernetes: kube, Networks: networks}
	w := &world{World: NewWorld(c, nil, namespace), Cluster: c, t: t, has: map[string]*tree.Node{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// await applies changes as the page does until it fits.
func (w *world) await(what string, fits func() bool) {
	w.t.Helper()
	deadline := time.NewTimer(testPatience)
	defer deadline.Stop()
	for {
		view, version, changed := w.Since(w.version)
		w.version, w.notes = version, view.Notes
		for _, e := range view.Entries {
			if w.has[e.Key] = e.Tree; e.Tree == nil {
				delete(w.has, e.Key)
			}
		}
		if view.Synced && fits() {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			text, _ := json.MarshalIndent(w.has, "", " ")
			w.t.Fatalf("it does not come to pass: %s. The page has %s and the notes %q", what, text, w.notes)
		}
	}
}

func TestThePageFollowsTheClusterAndAgreesWithTheTree(t *testing.T) {
	w := newWorld(t, "", nil)
	agrees := func() bool {
		trees, err := tree.Of(t.Context(), w.Cluster, nil, "", "")
		expect.NoError(t, err)
		want := map[string]*tree.Node{}
		for _, root := range trees {
			want[root.Name] = root
		}
		return cmp.Equal(w.has, want)
	}
	w.await("the page has what the tree has, with the Pod's phase", agrees)
	if pods := w.has["shop/frontend"].Children[0].Children[0].Children; len(pods) != 1 || pods[0].Info != "Running on node1" {
		t.Errorf("the Pod is %v", pods)
	}
	api := w.Networks.CloudteamV1()
	for sentence, change := range map[string]func() error{
		"a Network is created": func() error {
			_, err := api.Networks("shop").Create(t.Context(), network("third"), metav1.CreateOptions{})
			return err
		},
		"a Network goes": func() error { return api.Networks("shop").Delete(t.Context(), "backend", metav1.DeleteOptions{}) },
		"a port of another namespace comes": func() error {
			_, err := api.NetworkPorts("team").Create(t.Context(), port("team", "db-0", "frontend"), metav1.CreateOptions{})
			return err
		},
		"a FloatingIP comes": func() error {
			_, err := api.FloatingIPs("shop").Create(t.Context(), floatingIP("PortNotReady"), metav1.CreateOptions{})
			return err
		},
		"a Pod ends": func() error {
			ended := pod()
			ended.Status.Phase = corev1.PodSucceeded
			_, err := w.Kubernetes.CoreV1().Pods("shop").UpdateStatus(t.Context(), ended, metav1.UpdateOptions{})
			return err
		},
	} {
		expect.NoError(t, change())
		w.await(sentence, agrees)
	}
	if on := w.has["shop/frontend"].Children[0].Children[0].Children; len(on) != 2 || on[1].Name != "shop/public" {
		t.Errorf("beside the Pod is %v", on)
	}
}

func TestWhoMayReadOneNamespaceSeesThat(t *testing.T) {
	w := newWorld(t, "shop", func(a clienttesting.Action) bool { return a.GetNamespace() == "" })
	w.await("the ports of the namespace are there", func() bool {
		n := w.has["shop/frontend"]
		return n != nil && len(n.Children[0].Children) == 1
	})
	if len(w.notes) != 1 || !strings.Contains(w.notes[0], "You may not read NetworkPorts of all namespaces") {
		t.Errorf("the notes are %q", w.notes)
	}
}

func TestWhatMayNotBeReadIsANote(t *testing.T) {
	w := newWorld(t, "shop", func(a clienttesting.Action) bool { return a.GetResource().Resource == "networkports" })
	w.await("the Networks are there without ports", func() bool { return len(w.has) == 2 })
	expect.Contains(t, strings.Join(w.notes, "\n"), "You may not list and watch NetworkPorts.", "the notes")
}

// serve serves the page of a cluster.
func serve(t *testing.T) (*Server, *world) {
	t.Helper()
	w := newWorld(t, "", nil)
	s := &Server{Kubernetes: w.Kubernetes, Networks: w.Networks, World: w.World, Context: "home", Now: time.Now}
	expect.NoError(t, s.Listen(0))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, w
}

// request asks for a path, and gives the status and the body.
func request(t *testing.T, client *http.Client, method, url string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	expect.NoError(t, err)
	if change != nil {
		change(r)
	}
	answer, err := client.Do(r)
	expect.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	expect.NoError(t, err)
	return answer.StatusCode, string(body), answer.Header
}

// visitor is a browser that has opened an address.
func visitor(t *testing.T, url string) (*http.Client, int) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	expect.NoError(t, err)
	client := &http.Client{Jar: jar}
	code, _, _ := request(t, client, http.MethodGet, url, nil)
	return client, code
}

func TestOnlyWhoHasTheTokenSeesAnything(t *testing.T) {
	s, _ := serve(t)
	base := "http://" + s.listener.Addr().String()
	if !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Errorf("it listens on %s", base)
	}
	stranger := &http.Client{}
	friend, code := visitor(t, s.URL())
	if code != http.StatusOK {
		t.Fatalf("the printed address gives %d", code)
	}
	const object = "/api/object?kind=Network&namespace=shop&name=frontend"
	for sentence, c := range map[string]struct {
		client       *http.Client
		method, path string
		change       func(*http.Request)
		want         int
	}{
		"with the cookie":                  {friend, http.MethodGet, object, nil, http.StatusOK},
		"its own script":                   {friend, http.MethodGet, "/app.js", nil, http.StatusOK},
		"by localhost, without the cookie": {stranger, http.MethodGet, "/", func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() }, http.StatusForbidden},
		"without a token":                  {stranger, http.MethodGet, "/", nil, http.StatusForbidden},
		"with a wrong token":               {stranger, http.MethodGet, "/?token=x", nil, http.StatusForbidden},
		"with an empty token":              {stranger, http.MethodGet, "/?token=", nil, http.StatusForbidden},
		"an object without a token":        {stranger, http.MethodGet, object, nil, http.StatusForbidden},
		"the stream without a token":       {stranger, http.MethodGet, "/api/stream", nil, http.StatusForbidden},
		"a file without a token":           {stranger, http.MethodGet, "/app.js", nil, http.StatusForbidden},
		"by another name (DNS rebinding)":  {friend, http.MethodGet, object, func(r *http.Request) { r.Host = "evil.example:" + r.URL.Port() }, http.StatusMisdirectedRequest},
		"by another port":                  {friend, http.MethodGet, object, func(r *http.Request) { r.Host = "127.0.0.1:1" }, http.StatusMisdirectedRequest},
		"from another site": {friend, http.MethodGet, object,
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"from another port of this host": {friend, http.MethodGet, object,
			func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"a POST":               {friend, http.MethodPost, object, nil, http.StatusMethodNotAllowed},
		"a DELETE":             {friend, http.MethodDelete, object, nil, http.StatusMethodNotAllowed},
		"a Secret":             {friend, http.MethodGet, "/api/object?kind=Secret&namespace=shop&name=clouds", nil, http.StatusBadRequest},
		"what is not there":    {friend, http.MethodGet, "/api/object?kind=Network&namespace=shop&name=no", nil, http.StatusNotFound},
		"a file outside":       {friend, http.MethodGet, "/../server.go", nil, http.StatusNotFound},
		"a file outside, in %": {friend, http.MethodGet, "/%2e%2e/server.go", nil, http.StatusNotFound},
	} {
		code, body, header := request(t, c.client, c.method, base+c.path, c.change)
		expect.Equal(t, c.want, code, "%s: %s", sentence, body)
		if code != http.StatusOK && strings.Contains(body, "10.0.0.0/24") {
			t.Errorf("%s: it tells of the cluster: %s", sentence, body)
		}
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'; script-src 'self';") {
			t.Errorf("%s: the policy is %q", sentence, policy)
		}
	}
}

func TestTheAddressForABrowsersCommandLineWorksOnce(t *testing.T) {
	s := &Server{World: newWorld(t, "", nil).World, Now: time.Now}
	expect.NoError(t, s.Listen(0))
	ended := make(chan error)
	go func() { ended <- s.Serve(t.Context()) }()
	once := s.OnceURL()
	if strings.Contains(once, s.token) {
		t.Errorf("%s has the token that lasts", once)
	}
	browser, code := visitor(t, once)
	expect.Equal(t, http.StatusOK, code, "the code of the first visit")
	if again, err := browser.Get(once); err != nil || again.StatusCode != http.StatusOK {
		t.Errorf("to load the page again gives %v, %v", again, err)
	} else {
		again.Body.Close()
	}
	if answer, err := http.Get(once); err == nil { // the server may end before it answers
		answer.Body.Close()
		expect.Equal(t, http.StatusForbidden, answer.StatusCode, "the code of another's visit")
	}
	if err := <-ended; !errors.Is(err, errReused) {
		t.Errorf("after that the page ends with %v", err)
	}
}

func TestDetailsHaveTheRemedyAndNoSecret(t *testing.T) {
	s, w := serve(t)
	events := w.Kubernetes.CoreV1().Events("shop")
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Type: "Warning", Reason: "AddressInUse",
		InvolvedObject: corev1.ObjectReference{Kind: "NetworkPort", Namespace: "shop", Name: "web-0"}}
	if _, err := events.Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, _ := visitor(t, s.URL())
	d, text := detailsOf(t, s, client, "NetworkPort", "web-0")
	if len(d.Answer.Commands) == 0 || len(d.Conditions) != 1 || !d.Conditions[0].Bad {
		t.Errorf("no remedy: %s", text)
	}
	if len(d.Events) != 1 || d.Events[0].Reason != "AddressInUse" || len(d.Drift) != 1 {
		t.Errorf("the Events are %v, and the drift is %v", d.Events, d.Drift)
	}
	if !strings.Contains(d.YAML, "kind: NetworkPort\n") || strings.Contains(d.YAML, "managedFields") {
		t.Errorf("the YAML is\n%s", d.YAML)
	}
	_, text = detailsOf(t, s, client, "Pod", "web-x")
	if strings.Contains(text, "hunter2") || !strings.Contains(text, redact.Placeholder) {
		t.Errorf("the Pod's variables are shown: %s", text)
	}
}

// detailsOf is what the page shows of an object of the namespace shop, and the text in which it came.
func detailsOf(t *testing.T, s *Server, client *http.Client, kind, name string) (d Details, text string) {
	t.Helper()
	code, text, _ := request(t, client, http.MethodGet, "http://"+s.listener.Addr().String()+"/api/object?"+
		url.Values{"kind": {kind}, "namespace": {"shop"}, "name": {name}}.Encode(), nil)
	if err := json.Unmarshal([]byte(text), &d); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, text)
	}
	return d, text
}

// TestDetailsOfAFloatingIPLeadToItsPort follows the chain of a FloatingIP that waits for its port, as the page does.
func TestDetailsOfAFloatingIPLeadToItsPort(t *testing.T) {
	s, w := serve(t)
	_, err := w.Networks.CloudteamV1().FloatingIPs("shop").Create(
		t.Context(), floatingIP("PortNotReady"), metav1.CreateOptions{})
	expect.NoError(t, err)
	client, _ := visitor(t, s.URL())
	d, text := detailsOf(t, s, client, "FloatingIP", "public")
	expect.Equal(t, "NetworkPort shop/web-0", d.Answer.Cause().Object.String(), "the cause: %s", text)
	if len(d.Conditions) != 1 || !strings.Contains(d.YAML, "kind: FloatingIP\n") {
		t.Errorf("the FloatingIP has the conditions %+v and the YAML\n%s", d.Conditions, d.YAML)
	}
}

func TestADeploymentHasItsConditionsAndNoSecret(t *testing.T) {
	s, w := serve(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d"}}
	d.Spec.Selector = &metav1.LabelSelector{}
	d.Spec.Template.Spec = pod().Spec
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "False", Reason: "Few"},
		{Type: appsv1.DeploymentReplicaFailure, Status: "False"}}
	if _, err := w.Kubernetes.AppsV1().Deployments("shop").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := port("shop", "web-1", "frontend")
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "d", Controller: new(true)}}
	if _, err := w.Networks.CloudteamV1().NetworkPorts("shop").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, _ := visitor(t, s.URL())
	if port, text := detailsOf(t, s, client, "NetworkPort", "web-1"); port.Owner == nil || port.Owner.String() != "Deployment shop/web" {
		t.Errorf("the port's owner is not shown: %s", text)
	}
	got, text := detailsOf(t, s, client, "Deployment", "web")
	if len(got.Conditions) != 2 || !got.Conditions[0].Bad || got.Conditions[1].Bad {
		t.Errorf("the conditions are %+v", got.Conditions)
	}
	if !strings.Contains(got.YAML, "kind: Deployment\n") || strings.Contains(text, "hunter2") {
		t.Errorf("the YAML is\n%s", got.YAML)
	}
}

// stream opens a stream of the page, and gives its lines.
func stream(t *testing.T, s *Server, client *http.Client, path string) *bufio.Scanner {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.listener.Addr().String()+path, nil)
	expect.NoError(t, err)
	answer, err := client.Do(r)
	expect.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

func TestThePageIsToldOfEvents(t *testing.T) {
	s, w := serve(t)
	client, _ := visitor(t, s.URL())
	lines := stream(t, s, client, "/api/events?kind=NetworkPort&namespace=shop&name=web-0")
	if !lines.Scan() || lines.Text() != ": watching" {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, Reason: "AddressInUse",
		InvolvedObject: corev1.ObjectReference{Kind: "NetworkPort", Namespace: "shop", Name: "web-0"}}
	if _, err := w.Kubernetes.CoreV1().Events("shop").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if lines.Text() == "data: changed" {
			return
		}
	}
	t.Error("the stream ends without the Event")
}

func TestTheStreamSendsAllAndThenChanges(t *testing.T) {
	s, w := serve(t)
	w.await("the cluster is read", func() bool { return len(w.has) == 2 })
	client, _ := visitor(t, s.URL())
	lines := stream(t, s, client, "/api/stream")
	next := func() (v View) {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: {"); ok && !strings.Contains(data, `"context"`) {
				expect.NoError(t, json.Unmarshal([]byte("{"+data), &v))
				return v
			}
		}
		t.Fatal("the stream has ended")
		return v
	}
	if first := next(); !first.All || len(first.Entries) != 2 {
		t.Errorf("the first view is %+v", first)
	}
	err := w.Networks.CloudteamV1().Networks("shop").Delete(t.Context(), "backend", metav1.DeleteOptions{})
	expect.NoError(t, err)
	for {
		v := next()
		if len(v.Entries) == 0 {
			continue // a Pod was read, and changed nothing
		}
		if v.All || v.Entries[0].Key != "shop/backend" && v.Entries[0].Key != "shop/frontend" {
			t.Errorf("the second view is %+v", v)
		}
		if v.Entries[0].Key == "shop/backend" {
			if v.Entries[0].Tree != nil {
				t.Errorf("the Network that is gone is %v", v.Entries[0].Tree)
			}
			return
		}
	}
}
