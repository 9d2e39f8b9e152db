package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// playedSink keeps what it was told to write, and answers with the errors that were put into it, in turn.
type playedSink struct {
	mu      sync.Mutex
	written []string
	answers []error
	// silent is the namespace whose Events get no answer.
	silent string
}

func (s *playedSink) note(verb string, event *corev1.Event) (*corev1.Event, error) {
	<-time.After(time.Millisecond) // in virtual time, so that the writers take turns
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, fmt.Sprintf("%s %s/%s %d", verb, event.Namespace, event.Reason, event.Count))
	if event.Namespace == s.silent {
		return nil, errors.New("no answer")
	}
	if len(s.answers) == 0 {
		return event, nil
	}
	err := s.answers[0]
	s.answers = s.answers[1:]
	return event, err
}

func (s *playedSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.note("create", event)
}
func (s *playedSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.note("update", event)
}
func (s *playedSink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.note("patch", event)
}

func TestTheEventsOfANamespaceWaitInALineOfTheirOwn(t *testing.T) {
	push := func(l *eventLines, namespace string, n int) {
		for i := range n {
			event := &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}, Reason: "R",
			}
			_, err := l.Create(event)
			expect.NoError(t, err)
		}
	}
	t.Run("a bystander's are written in turns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := &playedSink{}
			lines := newEventLines(sink)
			push(lines, "loud", 5000)
			push(lines, "quiet", 60)
			go lines.run(t.Context())
			<-time.After(time.Minute)
			synctest.Wait()
			of := func(from []string, namespace string) (n int) {
				for _, w := range from {
					if strings.Contains(w, namespace) {
						n++
					}
				}
				return n
			}
			expect.Equal(t, 60, of(sink.written[:130], "quiet"), "Events of the bystander among the first 130")
			expect.Equal(t, eventsOfANamespace, of(sink.written, "loud"), "Events of the loud namespace were written")
			push(lines, "loud", 1)
			<-time.After(time.Second)
			synctest.Wait()
			if n := of(sink.written, "loud"); n != eventsOfANamespace+1 {
				t.Errorf("an Event that came when the line was empty was not written")
			}
		})
	})
	t.Run("one whose Events get no answer holds up no others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			sink := &playedSink{silent: "loud"}
			lines := newEventLines(sink)
			push(lines, "loud", 100)
			push(lines, "quiet", 60)
			ctx, stop := context.WithCancel(t.Context())
			go lines.run(ctx)
			<-time.After(time.Second)
			synctest.Wait()
			expect.Len(t, 61, sink.written, "Events were tried")
			stop()
		})
	})
	t.Run("what waits has a bound", func(t *testing.T) {
		lines := newEventLines(&playedSink{})
		for i := range 1000 {
			push(lines, fmt.Sprint(i), 20)
		}
		expect.Equal(t, eventsInAll+500, lines.waiting.Len(), "Events that wait")
	})
}

func TestAnEventIsCountedUpAndWrittenAgain(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("events"), "e")
	refused := apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("no right"))
	for _, c := range []struct {
		name    string
		answers []error
		want    []string
	}{
		{"it is created once, and then counted", nil, []string{"create a/R 1", "patch a/R 2"}},
		{
			"one that has expired is created again", []error{nil, gone},
			[]string{"create a/R 1", "patch a/R 2", "create a/R 2"},
		},
		{"a refusal is final", []error{refused, refused}, []string{"create a/R 1", "patch a/R 2"}},
		{"a refusal without a reason is final", []error{&apierrors.StatusError{}}, []string{"create a/R 1", "patch a/R 2"}},
		{
			"an API server that is away is asked again", []error{errors.New("connection refused")},
			[]string{"create a/R 1", "create a/R 1", "patch a/R 2"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				sink := &playedSink{answers: c.answers}
				lines := newEventLines(sink)
				go lines.run(ctx)
				broadcaster := record.NewBroadcaster(record.WithContext(ctx))
				broadcaster.StartRecordingToSink(lines)
				recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "c"})
				about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
				for range 2 {
					recorder.Event(about, corev1.EventTypeNormal, "R", "message")
					<-time.After(time.Second)
				}
				<-time.After(eventTries * eventRest)
				stop()
				synctest.Wait()
				if !slices.Equal(sink.written, c.want) {
					t.Errorf("written: %q, not %q", sink.written, c.want)
				}
			})
		})
	}
}
