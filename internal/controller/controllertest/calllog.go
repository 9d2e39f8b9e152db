// Package controllertest has fakes of what is around a controller, for unit tests in a bubble of testing/synctest: an
// API server over generated fake clientsets, the product's Inventory over the emulated cloud, and a recorder of Events.
// A CallLog has the calls to them, so that a test can check their number and order.
package controllertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Logged is the test's context with a logger whose lines belong to the test.
func Logged(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig()))
}

// Settle lets the given synthetic time pass, in which whatever is due happens.
func Settle(d time.Duration) {
	handOver()
	<-time.After(d)
	synctest.Wait()
}

// Run runs a controller's workers; stop ends them and returns what the controller's Run returned.
func Run(t *testing.T, run func(ctx context.Context, workers int) error, workers int) (stop func() error) {
	ctx, cancel := context.WithCancel(Logged(t))
	done := make(chan error, 1)
	go func() { done <- run(ctx, workers) }()
	return func() error {
		cancel()
		return <-done
	}
}

// Dismiss lets go of the queue of a loop that may never have run, which would outlive the bubble.
func Dismiss(t testing.TB, loop *controller.Loop) {
	ctx, cancel := context.WithCancel(Logged(t))
	cancel()
	if err := loop.Run(ctx, 1); err != nil {
		t.Error(err)
	}
}

// Untouched notes the objects of caches, and gives a function that fails the test where they were changed since: they
// belong to the caches.
func Untouched(t *testing.T, caches ...cache.Indexer) (check func()) {
	t.Helper()
	var cached, before []runtime.Object
	for _, c := range caches {
		for _, obj := range c.List() {
			cached = append(cached, obj.(runtime.Object))
			before = append(before, obj.(runtime.Object).DeepCopyObject())
		}
	}
	return func() {
		t.Helper()
		for i := range cached {
			expect.Equal(t, before[i], cached[i], "an object of a cache was changed")
		}
	}
}

// CallLog lists calls in order. The zero value is empty, and is safe for concurrent use.
type CallLog struct {
	mu    sync.Mutex
	lines []string
}

// Note adds a line.
func (l *CallLog) Note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// Take gives what was noted since it was last called.
func (l *CallLog) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// Want holds what was noted since the last Take or Want against the lines that it should be.
func (l *CallLog) Want(t *testing.T, want ...string) {
	t.Helper()
	expect.EqualWith(t, cmp.Options{cmpopts.EquateEmpty()}, want, l.Take(), "what was asked")
}

// Count counts the lines that begin with prefix.
func Count(lines []string, prefix string) int {
	n := 0
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// Events is a record.EventRecorder that keeps what it is given, as lines "Normal Created Created network 1".
type Events struct{ CallLog }

// Event is record.EventRecorder's.
func (e *Events) Event(obj runtime.Object, kind, reason, message string) {
	// The recorder drops what is about an object that its scheme does not know, and logs that.
	if _, err := reference.GetReference(scheme.Scheme, obj); err != nil {
		message = fmt.Sprintf("which is dropped: %v", err)
		reason = "Dropped"
	}
	e.Note("%s %s %s", kind, reason, message)
}

// Eventf is record.EventRecorder's.
func (e *Events) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	e.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf is record.EventRecorder's.
func (e *Events) AnnotatedEventf(
	obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any,
) {
	e.Eventf(obj, kind, reason, format, args...)
}

// WantReasons holds the type and reason of each Event since the last Take or WantReasons against what they should be,
// such as "Normal Created".
func (e *Events) WantReasons(t *testing.T, want ...string) {
	t.Helper()
	var reasons []string
	for _, line := range e.Take() {
		words := strings.SplitN(line, " ", 3)
		reasons = append(reasons, words[0]+" "+words[1])
	}
	expect.EqualWith(t, cmp.Options{cmpopts.EquateEmpty()}, want, reasons, "Events")
}
