package managed

import (
	"context"
	"errors"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// progress collects what a sync of an object has learned and done so far, for report to show.
type progress struct {
	// state is what the conditions say; empty until the sync ends.
	state controller.State
	// declared is what the object asks for; nil if it is being deleted.
	declared Declaration
	// identity is the cloud that the credentials are for; nil if unknown.
	identity *client.Identity
	// found is the id of what the import's filter means, if it was searched now. It has to be written.
	found string
	// observed is what exists in Neutron; nil if unknown.
	observed *plan.Observed
	// applied is true if Neutron agrees with the spec.
	applied bool
	// drift is what others changed and the sync left so.
	drift []plan.Difference
	// events describe what was done.
	events []controller.Event
	// err is why the sync did not succeed.
	err error
}

// failed ends the sync with an error.
func (p progress) failed(err error) progress {
	if problem, ok := errors.AsType[*Problem](err); ok && problem.Drift != nil {
		p.drift = problem.Drift
	}
	p.err = err
	p.state = stateOf(err)
	return p
}

// retry is the error that makes the Loop retry the key. It is nil if an event requeues the key.
func (p progress) retry() error {
	problem, ok := errors.AsType[*Problem](p.err)
	if ok && problem.Waits || errors.Is(p.err, ErrNotYet) || errors.Is(p.err, inventory.ErrDisputed) {
		return nil
	}
	return p.err
}

// succeeded ends the sync of an object whose resources are as declared, except for drift that is left.
func (p progress) succeeded(kind plan.Kind) progress {
	p.err = nil
	p.applied = true
	if len(p.drift) == 0 {
		p.state = controller.Ready(cloudteamv1.ReasonAvailable, "The "+string(kind)+" is as declared")
		return p
	}
	message := "Drift detected and left as it is (driftPolicy Report): " + Listed(p.drift)
	p.state = controller.Ready(cloudteamv1.ReasonDriftDetected, message)
	if !p.declared.Complete(*p.observed) {
		// Nothing corrects it, and the resource cannot be used as it is.
		p.state = controller.Stalled(cloudteamv1.ReasonDriftDetected, message)
	}
	return p
}

// conclude ends a sync: it reports the progress, and gives the error that makes the Loop retry the key. It reports
// nothing while the state of the cloud is unknown, if the API server refused a request about the object itself, or if
// the cache is behind it.
func (r *Reconciler[T]) conclude(ctx context.Context, obj T, p progress) error {
	_, refused := errors.AsType[*withoutReport](p.err)
	if refused || errors.Is(p.err, ErrNotYet) || errors.Is(p.err, controller.ErrStale) {
		return p.retry()
	}
	return errors.Join(p.retry(), r.report(ctx, obj, p))
}

// patience is how long a sync of a new object may wait before the condition says so.
const patience = time.Second

// tellWaiting writes a condition if the object has none, and the sync has not ended after patience. The caller MUST
// call ended before it reports.
func (r *Reconciler[T]) tellWaiting(ctx context.Context, obj T) (ended func()) {
	if meta.FindStatusCondition(r.row.Status(obj).Conditions, cloudteamv1.ConditionReady) != nil {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(done)
		// What fails here is in the report that follows.
		_ = r.report(ctx, obj, progress{state: controller.Reconciling(cloudteamv1.ReasonPending,
			"Its requests to Neutron wait for their turn, or for an answer. The controller continues by itself.")})
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// report sends Events for what was done and writes the status if the change is worth a write. A new failure, new drift
// and a new warning get their own Events.
func (r *Reconciler[T]) report(ctx context.Context, obj T, p progress) error {
	p.state = p.state.Mention(p.err, r.row.Status(obj).Conditions)
	p.state.Message = controller.Limited(p.state.Message, controller.MaxMessage)
	updated := r.updated(obj, p)
	told := meta.FindStatusCondition(r.row.Status(obj).Conditions, cloudteamv1.ConditionReady)
	var turn controller.Event
	if told == nil || told.Reason != p.state.Reason || told.Message != p.state.Message {
		switch {
		case p.state.Reason == cloudteamv1.ReasonDriftDetected:
			turn = controller.Event{
				Type: corev1.EventTypeWarning, Reason: cloudteamv1.EventDriftDetected, Message: p.state.Message,
			}
		case p.retry() != nil, p.state.Abnormal == cloudteamv1.ConditionStalled:
			turn = controller.Event{Type: corev1.EventTypeWarning, Reason: p.state.Reason, Message: p.state.Message}
		}
	}
	status, changed := r.kind.ToWrite(obj, updated)
	if !changed {
		inspect.On().RecordOf(ctx, inspect.Status, "same")
	}
	kind := r.row.Name
	countDrift(kind, p.events...)
	err := controller.Report{
		Done:    p.events,
		Changed: changed,
		Write: func(ctx context.Context) error {
			return controller.WriteStatus(
				ctx, r.kind.Patch(obj.GetNamespace()), r.row.GroupVersionKind(), obj, status, &r.expected)
		},
		Turns: append([]controller.Event{turn}, r.newWarnings(obj, updated)...),
	}.Send(ctx, r.recorder, obj)
	if err != nil {
		return err
	}
	countDrift(kind, turn)
	if p.applied && r.row.Status(obj).AppliedGeneration == 0 {
		readyDuration.WithLabelValues(kind).Observe(time.Since(obj.GetCreationTimestamp().Time).Seconds())
	}
	return nil
}

// newWarnings gives Events for the conditions among Kind.Warnings that have become True.
func (r *Reconciler[T]) newWarnings(was, is T) (events []controller.Event) {
	for _, warning := range r.kind.Warnings {
		c := meta.FindStatusCondition(r.row.Status(is).Conditions, warning)
		if c == nil || c.Status != metav1.ConditionTrue ||
			meta.IsStatusConditionTrue(r.row.Status(was).Conditions, warning) {
			continue
		}
		events = append(events, controller.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message})
	}
	return events
}

// Differs compares two states of the part of a status that a controller writes, for Kind.ToWrite.
func Differs(was, is any) bool {
	// The semantic comparison treats an empty list as none, but costs several times as much.
	return !reflect.DeepEqual(was, is) && !equality.Semantic.DeepEqual(was, is)
}

// applied reports whether the object's spec was applied as a whole. Then a difference was made by somebody else.
func (r *Reconciler[T]) applied(obj T) bool {
	return r.row.Status(obj).AppliedGeneration == controller.SpecGeneration(obj)
}

// updated is a copy of the object with its status after a sync. What the sync did not learn stays as it was, except
// drift from another spec, which no longer applies.
func (r *Reconciler[T]) updated(obj T, p progress) T {
	updated := obj.DeepCopyObject().(T)
	status := r.row.Status(updated)
	defer controller.LimitStatus(status)
	if status.ObservedGeneration != obj.GetGeneration() {
		status.Drift = nil
	}
	status.ObservedGeneration = obj.GetGeneration()
	status.Conditions = controller.SetState(status.Conditions, obj.GetGeneration(), p.state)
	if p.applied {
		status.AppliedGeneration = controller.SpecGeneration(obj)
	}
	if p.observed == nil {
		return updated
	}
	status.Drift = nil
	for _, d := range p.drift {
		status.Drift = append(status.Drift, cloudteamv1.Drift(d))
	}
	if p.identity != nil {
		// Also of an object that has nothing yet: a create whose answer was lost may have made something.
		status.Credentials = credentialsOf(r.cloudOf(obj))
	}
	if p.identity != nil && !p.observed.Empty() {
		// It differs from the earlier one only if the cloud was renamed; see identify.
		status.Cloud = new(cloudteamv1.CloudStatus(*p.identity))
	}
	r.kind.Show(updated, p.declared, r.ownerOf(obj), *p.observed)
	return updated
}
