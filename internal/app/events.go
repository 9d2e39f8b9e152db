package app

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/fair"
)

const (
	// eventsOfANamespace is how many Events of a namespace wait to be written, and eventsInAll how many of all. Those
	// that come later are dropped: a condition says the same.
	eventsOfANamespace, eventsInAll = 200, 10_000
	// eventTries and eventRest are those of client-go, for an API server that does not answer.
	eventTries, eventRest = 12, 10 * time.Second
)

// eventWriters is how many Events are written at once, each of another namespace. One whose Events are answered late,
// not at all, or wait behind its other requests (takeTurns), holds up no others.
const eventWriters = 4

// eventLines has the Events of each namespace wait in a line of its own, and writes them in turns. client-go's recorder
// alone writes the Events of all in one line of 1,000, so that others' are dropped while one namespace fills it.
//
// It is a [record.EventSink] that answers at once, and the recorder counts Events up by what it sent. It never learns
// their resourceVersion, which it would only send back.
type eventLines struct {
	sink record.EventSink
	some chan struct{}

	mu      sync.Mutex
	waiting fair.Queue[string, *eventWrite]
	each    map[string]int
	// writing has the namespaces of which one is being written.
	writing sets.Set[string]
}

// eventWrite is an Event to create or, with a patch, to count up.
type eventWrite struct {
	event *corev1.Event
	patch []byte
}

func newEventLines(sink record.EventSink) *eventLines {
	return &eventLines{
		sink: sink, some: make(chan struct{}, eventWriters), each: map[string]int{}, writing: sets.New[string](),
	}
}

// Create implements [record.EventSink]. It takes the Event, which MUST NOT change after it.
func (l *eventLines) Create(event *corev1.Event) (*corev1.Event, error) { return l.push(event, nil) }

// Update implements [record.EventSink], whose caller has no use for it.
func (l *eventLines) Update(event *corev1.Event) (*corev1.Event, error) { return l.push(event, nil) }

// Patch implements [record.EventSink]. It takes the Event, which MUST NOT change after it.
func (l *eventLines) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return l.push(event, patch)
}

func (l *eventLines) push(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.each[event.Namespace]
	if waits == eventsOfANamespace || waits > 0 && l.waiting.Len() >= eventsInAll {
		klog.Background().V(4).Info("Dropped an Event, as too many wait",
			"namespace", event.Namespace, "reason", event.Reason)
		return event, nil
	}
	l.each[event.Namespace]++
	l.waiting.Push(event.Namespace, &eventWrite{event: event, patch: patch})
	select {
	case l.some <- struct{}{}:
	default:
	}
	return event, nil
}

// run writes what waits, until its context ends.
func (l *eventLines) run(ctx context.Context) {
	var writers sync.WaitGroup
	defer writers.Wait()
	for range eventWriters {
		writers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-l.some:
				}
				for w := l.next(""); w != nil && ctx.Err() == nil; w = l.next(w.event.Namespace) {
					l.write(ctx, w)
				}
			}
		})
	}
}

// next gives the next Event to write, of a namespace of which none is being written; nil if there is none. The caller
// has written one of the namespace after, if that is not empty.
func (l *eventLines) next(after string) *eventWrite {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing.Delete(after)
	w, ok := l.waiting.PopOf(func(namespace string) bool { return !l.writing.Has(namespace) })
	if !ok {
		return nil
	}
	l.writing.Insert(w.event.Namespace)
	if l.each[w.event.Namespace]--; l.each[w.event.Namespace] == 0 {
		delete(l.each, w.event.Namespace)
	}
	return w
}

// write tries until the API server has answered. An answer that refuses the Event is final, as is a request that cannot
// be made.
func (l *eventLines) write(ctx context.Context, w *eventWrite) {
	log := klog.FromContext(ctx).WithValues("namespace", w.event.Namespace, "reason", w.event.Reason)
	for range eventTries {
		err := l.send(w)
		if err == nil || apierrors.IsAlreadyExists(err) ||
			apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return
		}
		var answer apierrors.APIStatus
		if _, impossible := errors.AsType[*rest.RequestConstructionError](err); impossible || errors.As(err, &answer) {
			log.Error(err, "The API server refuses an Event")
			return
		}
		log.Error(err, "Cannot write an Event; retrying", "after", eventRest)
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventRest):
		}
	}
}

// send counts an Event up, or creates it, which is also for one that has expired or was dropped.
func (l *eventLines) send(w *eventWrite) (err error) {
	if w.patch != nil {
		if _, err = l.sink.Patch(w.event, w.patch); !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err = l.sink.Create(w.event)
	return err
}
