package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// patience is for machines that do much else at the same time.
const patience = time.Minute

// await gives the events of a stage once there are as many.
func await(t *testing.T, r *Recorder, stage Stage, count int) (found []Event) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		events, changed := r.Since(0)
		found = slices.DeleteFunc(events, func(e Event) bool { return e.Stage != stage })
		if len(found) >= count {
			return found
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("%s has %d events, want %d: %v", stage, len(found), count, found)
		}
	}
}

// TestTheWayThroughAnInformer checks the events against client-go's own code: another release may rename its functions.
func TestTheWayThroughAnInformer(t *testing.T) {
	r, stop := Start()
	defer stop()
	source := fcache.NewFakeControllerSource()
	pod := func(label string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Labels: map[string]string{"is": label}}}
	}
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
	expect.NoError(t, informer.SetTransform(r.Transform(func(obj any) (any, error) { return obj, nil })))
	r.Follow(informer)
	r.Follow(informer)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the cache is not synced")
	}
	source.Add(pod("new"))
	await(t, r, Indexer, 1)
	source.Modify(pod("changed"))
	await(t, r, Indexer, 2)
	source.Delete(pod("changed"))
	await(t, r, Indexer, 3)

	for stage, wants := range map[Stage]struct {
		whats string
		file  string
	}{
		Reflector: {"ADDED MODIFIED DELETED", "k8s.io/client-go/tools/cache/reflector.go"},
		DeltaFIFO: {"ADDED MODIFIED DELETED", "k8s.io/client-go/tools/cache/the_real_fifo.go"},
		Indexer:   {"stored stored removed", "k8s.io/client-go/tools/cache/controller.go"},
	} {
		events := await(t, r, stage, 3)
		var whats []string
		for _, e := range events {
			whats = append(whats, e.What)
			if e.Code.File != wants.file || e.Code.Line == 0 || e.Code.Func == "" {
				t.Errorf("%s %s happened at %+v, want %s", stage, e.What, e.Code, wants.file)
			}
			if want := []Object{"pod/shop/web"}; !slices.Equal(e.Objects, want) {
				t.Errorf("%s %s is about %v, want %v", stage, e.What, e.Objects, want)
			}
		}
		expect.Equal(t, wants.whats, strings.Join(whats, " "), "what %s has", stage)
	}
	if versions := await(t, r, Indexer, 3); versions[0].Version == versions[1].Version {
		t.Errorf("the Indexer's versions are %s and %s", versions[0].Version, versions[1].Version)
	}
}

// TestAMissedDeletion cuts the watch and deletes an object: the list after it lacks the object.
func TestAMissedDeletion(t *testing.T) {
	r, stop := Start()
	defer stop()
	source := fcache.NewFakeControllerSource()
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	informer := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
	r.Follow(informer)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			r.Missed(tombstone.Obj)
		}
	}})
	expect.NoError(t, err)
	source.Add(pod("stays"))
	source.Add(pod("goes"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	await(t, r, Indexer, 2)
	source.Modify(pod("stays")) // a watch that brings nothing at all is not resumed
	await(t, r, Indexer, 3)
	source.DeleteDropWatch(pod("goes"))
	source.ResetWatch()
	await(t, r, Indexer, 4)
	r.Missed(pod("goes")) // by the handler of another controller

	for stage, want := range map[Stage]struct {
		what, file string
		objects    []Object
	}{
		Reflector: {"expired", "k8s.io/client-go/tools/cache/reflector.go", []Object{"pod/shop/goes", "pod/shop/stays"}},
		DeltaFIFO: {"tombstone", "k8s.io/client-go/tools/cache/controller.go", []Object{"pod/shop/goes"}},
		Indexer:   {"removed", "k8s.io/client-go/tools/cache/controller.go", []Object{"pod/shop/goes"}},
	} {
		events := await(t, r, stage, 1)
		last := events[len(events)-1]
		if last.What != want.what || last.Code.File != want.file || !slices.Equal(last.Objects, want.objects) {
			t.Errorf("the last event of %s is %+v, want %+v", stage, last, want)
		}
	}
	expect.Len(t, 4, await(t, r, Indexer, 4), "events that the Indexer has")
}

func TestTheCodeIsThatOfTheRunningBinary(t *testing.T) {
	r, stop := Start()
	defer stop()
	r.Record(Event{Stage: Plan}) // this line
	events, _ := r.Since(0)
	code := events[0].Code
	content, err := os.ReadFile(filepath.Join("../..", code.File))
	expect.NoError(t, err)
	if line := strings.Split(string(content), "\n")[code.Line-1]; !strings.HasSuffix(line, "// this line") {
		t.Errorf("%s:%d is %q", code.File, code.Line, line)
	}
	expect.Equal(t, t.Name(), code.Func, "the function")
}

func TestOldEventsGo(t *testing.T) {
	r, stop := Start()
	defer stop()
	for range size + 10 {
		r.Record(Event{Stage: Plan})
	}
	all, _ := r.Since(0)
	if len(all) != size || all[0].Seq != 11 || all[size-1].Seq != size+10 {
		t.Errorf("%d events from %d to %d", len(all), all[0].Seq, all[len(all)-1].Seq)
	}
	if last, _ := r.Since(size + 9); len(last) != 1 || last[0].Seq != size+10 {
		t.Errorf("after the last but one: %v", last)
	}
	if none, _ := r.Since(size + 10); len(none) != 0 {
		t.Errorf("after the last one: %v", none)
	}
}

func TestTheStream(t *testing.T) {
	r, stop := Start()
	defer stop()
	server := httptest.NewServer(r.Serve("token"))
	defer server.Close()
	r.Record(Event{Stage: Queue, What: Waits, Objects: []Object{ObjectOf("Network", "shop", "web")}, Why: "one"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	expect.NoError(t, err)
	request.Header.Set("Authorization", "Bearer token")
	answer, err := http.DefaultClient.Do(request)
	expect.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() (event string, content Event) {
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "event: "); is {
				event = text
			} else if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				expect.NoError(t, json.Unmarshal([]byte(text), &content))
				return event, content
			}
		}
		t.Fatal("the stream has ended")
		return
	}
	if event, _ := next(); event != "hello" {
		t.Errorf("the first message is %s", event)
	}
	if _, e := next(); e.Why != "one" || e.Objects[0] != "network/shop/web" {
		t.Errorf("the first event is %+v", e)
	}
	r.Record(Event{Stage: Queue, Why: "two"})
	if _, e := next(); e.Why != "two" || e.Seq != 2 {
		t.Errorf("the second event is %+v", e)
	}
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:8090": true, "[::1]:0": true, "127.9.9.9:1": true,
		":8090": false, "0.0.0.0:8090": false, "[::]:8090": false, "10.0.0.1:8090": false, "localhost:8090": false,
		"127.0.0.1": false, "evil.example:8090": false, "": false,
	} {
		if err := CheckAddress(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	r, stop := Start()
	defer stop()
	for name, c := range map[string]struct {
		url, token, sent string
		want             int
	}{
		"another name for the address": {"http://evil.example:8090/", "token", "Bearer token", http.StatusMisdirectedRequest},
		"no token":                     {"http://127.0.0.1:8090/", "token", "", http.StatusUnauthorized},
		"another token":                {"http://127.0.0.1:8090/", "token", "Bearer other", http.StatusUnauthorized},
		"a server without a token":     {"http://127.0.0.1:8090/", "", "Bearer ", http.StatusUnauthorized},
	} {
		request := httptest.NewRequest(http.MethodGet, c.url, nil)
		request.Header.Set("Authorization", c.sent)
		answer := httptest.NewRecorder()
		r.Serve(c.token).ServeHTTP(answer, request)
		expect.Equal(t, c.want, answer.Code, "the answer to %s", name)
	}
}

// hook is as the hooks are.
func hook(ctx context.Context, name string) {
	if r := On(); r != nil {
		r.Record(Event{Stage: Plan, Objects: Of(ctx), Facts: []any{"The name is " + name}})
	}
}

func TestOffCostsNothing(t *testing.T) {
	expect.Equal(t, 0.0, testing.AllocsPerRun(1000, func() { hook(t.Context(), "web") }), "allocations of a hook")
}
