package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// Event is a Kubernetes Event to send. The zero value means none.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a constant word. Message says what happened.
	Reason, Message string
}

// Done is the Normal Event for a completed action.
func Done(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// Report is the result of a sync for the object's users.
type Report struct {
	// Done are the Events of completed actions. They are sent first, because the actions stay done even if the write of
	// the status fails.
	Done []Event
	// Changed says that the status differs from the object's. Then Send calls Write.
	Changed bool
	Write   func(context.Context) error
	// Turns are the Events of a new failure or the end of one. They are sent after the status is written. If that write
	// fails, the retry sends them.
	Turns []Event
}

// Send sends the Events and writes the status. If nothing changed, it does nothing.
func (r Report) Send(ctx context.Context, recorder record.EventRecorder, obj runtime.Object) error {
	for _, e := range r.Done {
		e.send(recorder, obj)
	}
	if !r.Changed {
		return nil
	}
	if err := r.Write(ctx); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	for _, e := range r.Turns {
		e.send(recorder, obj)
	}
	return nil
}

func (e Event) send(recorder record.EventRecorder, obj runtime.Object) {
	if e.Reason != "" {
		recorder.Event(obj, e.Type, e.Reason, e.Message)
	}
}
