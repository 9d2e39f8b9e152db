package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// Event is a Kubernetes Event to be sent. The zero value is none.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is a fixed word; Message says what happened.
	Reason, Message string
}

// Done is the Normal Event of something that was done.
func Done(reason, format string, args ...any) Event {
	return Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

// Report is how a sync of one object went, for its users.
type Report struct {
	// Done are what was done. They are sent first: what was done stays done, whatever becomes of the status.
	Done []Event
	// Changed is whether the status differs from what the object has. Write writes it then.
	Changed bool
	Write   func(context.Context) error
	// Turns tell that things took another turn: a new failure, or the end of one. They are sent once the status says so
	// too: a status that could not be written is tried again, and its Events come then.
	Turns []Event
}

// Send sends the Events and writes the status. At rest it does nothing.
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
