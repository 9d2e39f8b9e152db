package managed

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// failed fills in the state that an error leads to. The error has the key tried again.
func (o outcome) failed(err error) outcome {
	o.err = err
	o.state = stateOf(err)
	return o
}

// undeclared is the state of an object of which Kind.Declare gives no declaration.
func undeclared(err error) controller.State {
	waiting, ok := errors.AsType[*Waiting](err)
	switch {
	case !ok:
		return controller.Stalled(cloudteamv1.ReasonInvalidSpec, oneLine(err))
	case waiting.Stalled:
		return controller.Stalled(waiting.Reason, waiting.Message)
	default:
		return controller.Reconciling(waiting.Reason, waiting.Message)
	}
}

// oneLine is an error's text, the lines of a joined one in a row.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// stateOf says what an error means for the object. Texts of errors go into conditions: every error that comes here is
// one that is the same for the same cause.
func stateOf(err error) controller.State {
	var blocked *plan.BlockedError
	var field *plan.FieldError
	var elsewhere *mismatch
	var bare *unmarked
	var ignored *notApplied
	var inUse *occupied
	var waiting *Waiting
	var denied *forbidden
	var exhausted *unallocated
	var unresolved *Unresolved
	if s, ok := stateOfImport(err); ok {
		return s
	}
	switch {
	case errors.As(err, &field), errors.As(err, &waiting):
		return undeclared(err)
	case errors.As(err, &blocked):
		return controller.Stalled(cloudteamv1.ReasonBlocked, err.Error())
	case errors.As(err, &elsewhere):
		return controller.Stalled(cloudteamv1.ReasonCloudMismatch, err.Error())
	case errors.As(err, &bare):
		return controller.Stalled(cloudteamv1.ReasonMarkerRemoved, err.Error())
	case errors.As(err, &ignored):
		return controller.Stalled(cloudteamv1.ReasonNotApplied, err.Error())
	case errors.As(err, &denied):
		return controller.Stalled(cloudteamv1.ReasonForbidden, err.Error()+"; it is tried again now and then")
	case errors.As(err, &exhausted):
		return controller.Reconciling(cloudteamv1.ReasonNoAddresses, err.Error()+"; it is tried again")
	case errors.As(err, &inUse):
		return controller.Reconciling(cloudteamv1.ReasonInUse, inUse.Error()+": remove what uses it; it is tried again")
	case errors.As(err, &unresolved):
		return refusedState(oneLine(unresolved))
	}
	var cloud *client.Error
	if !errors.As(err, &cloud) {
		return controller.Reconciling(cloudteamv1.ReasonFailed, oneLine(err)+"; it is tried again")
	}
	text := cloud.Error()
	switch cloud.Kind {
	case client.Throttled:
		return controller.Reconciling(cloudteamv1.ReasonThrottled, text+"; it is tried again when the cloud allows")
	case client.Capacity:
		return controller.Reconciling(cloudteamv1.ReasonQuotaExceeded,
			text+": raise the project's quota or delete what is not needed; it is tried again")
	case client.Invalid:
		return refusedState(text)
	case client.Forbidden:
		return controller.Stalled(cloudteamv1.ReasonForbidden,
			text+": give credentials that may do this; it is tried again now and then")
	case client.Unauthenticated:
		return controller.Stalled(cloudteamv1.ReasonCredentialsRejected, text)
	case client.InUse:
		return controller.Reconciling(cloudteamv1.ReasonInUse, text+": remove what uses it; it is tried again")
	case client.Taken:
		return controller.Reconciling(cloudteamv1.ReasonAddressTaken,
			text+": ask for another one, or free it where it is; it is tried again")
	case client.Exhausted:
		return controller.Reconciling(cloudteamv1.ReasonNoAddresses,
			text+": remove ports that are not needed, or widen the Network's allocationPools; it is tried again")
	case client.Conflict, client.NotFound:
		return controller.Reconciling(cloudteamv1.ReasonChanging, text+"; it is tried again")
	default:
		return controller.Reconciling(cloudteamv1.ReasonCloudUnavailable, text+"; it is tried again")
	}
}

// refusedState is that of an object of which the cloud refuses something for good, and says why in the text.
func refusedState(text string) controller.State {
	return controller.Stalled(cloudteamv1.ReasonRefused,
		text+": change the spec, or have the cloud allow it; it is tried again now and then")
}

// succeeded fills in the state of an object whose resources are as the spec says, but for drift that is left.
func (o outcome) succeeded(kind plan.Kind) outcome {
	o.err = nil
	o.applied = true
	if len(o.drift) == 0 {
		o.state = controller.Ready(cloudteamv1.ReasonAvailable, "The "+string(kind)+" is as declared")
		return o
	}
	message := "Changed in Neutron and left so (driftPolicy Report): " + listed(o.drift)
	o.state = controller.Ready(cloudteamv1.ReasonDriftReported, message)
	if !o.declared.Complete(*o.observed) {
		// Nothing is being done about it, and nobody can use what is there.
		o.state = controller.Stalled(cloudteamv1.ReasonDriftReported, message)
	}
	return o
}

// listed is differences as one line of a message.
func listed(differences []plan.Difference) string {
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}

// changeEvent tells what was done. It is empty where nothing was.
func changeEvent(done plan.Change, drifted bool) controller.Event {
	if done.Empty() {
		return controller.Event{}
	}
	texts := make([]string, len(done))
	reason := cloudteamv1.EventUpdated
	for i, step := range done {
		texts[i] = describe(step)
		if step.Action == plan.CreateNetwork || step.Action == plan.CreatePort {
			reason = cloudteamv1.EventCreated
		}
	}
	if drifted {
		reason = cloudteamv1.EventDriftCorrected
	}
	return controller.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: strings.Join(texts, "; ")}
}

// describe is a step in the past tense, for an Event.
func describe(step plan.Step) string {
	switch step.Action {
	case plan.CreateNetwork:
		return "Created network " + step.ID
	case plan.CreatePort:
		return "Created port " + step.ID
	case plan.CreateSubnet:
		return "Created subnet " + step.Subnet.Origin()
	case plan.DeleteNetwork:
		return "Deleted network " + step.ID + ": " + step.Reason
	case plan.DeletePort:
		return "Deleted port " + step.ID + ": " + step.Reason
	case plan.DeleteSubnet:
		return "Deleted subnet " + step.Subnet.CIDR.String() + ": " + step.Reason
	case plan.CreateRouter:
		return "Created router " + step.ID
	case plan.DeleteRouter:
		return "Deleted router " + step.ID + ": " + step.Reason
	case plan.CreateInterface:
		return "Created port " + step.ID + " for the router"
	case plan.AttachInterface:
		return "Attached port " + step.ID + " to router " + step.RouterRef.ID
	case plan.DetachInterface:
		return "Detached port " + step.ID + " from router " + step.RouterRef.ID + ": " + step.Reason
	case plan.DeleteInterface:
		return "Deleted port " + step.ID + ": " + step.Reason
	case plan.ShareNetwork:
		return fmt.Sprintf("Shared network with project %q", step.Share.Project)
	case plan.UnshareNetwork:
		return fmt.Sprintf("Took network back from project %q: %s", step.Share.Project, step.Reason)
	}
	changes := make([]string, len(step.Differences))
	for i, d := range step.Differences {
		changes[i] = fmt.Sprintf("%s %s → %s", d.Field, d.Actual, d.Declared)
	}
	return "Updated " + step.Differences[0].Resource + ": " + strings.Join(changes, ", ")
}

// releaseEvent tells of a step that a deletion took. It is empty where there is nothing to tell: what becomes of a
// network becomes of its subnets.
func releaseEvent(step plan.Step) controller.Event {
	e := controller.Event{Type: corev1.EventTypeNormal}
	switch step.Action {
	case plan.DeleteNetwork:
		e.Reason, e.Message = cloudteamv1.EventDeleted, fmt.Sprintf("Deleted network %s with its subnets", step.ID)
	case plan.DeletePort:
		e.Reason, e.Message = cloudteamv1.EventDeleted, fmt.Sprintf("Deleted port %s", step.ID)
	case plan.DeleteRouter:
		e.Reason, e.Message = cloudteamv1.EventDeleted, fmt.Sprintf("Deleted router %s", step.ID)
	case plan.UpdateRouter:
		if step.Changes(plan.FieldDescription) {
			e.Reason = cloudteamv1.EventRetained
			e.Message = fmt.Sprintf("Left router %s in Neutron, without its owner's marker", step.ID)
		}
	case plan.UpdateNetwork:
		e.Reason = cloudteamv1.EventRetained
		e.Message = fmt.Sprintf("Left network %s in Neutron, without its owner's marker", step.ID)
	case plan.UpdatePort:
		e.Reason = cloudteamv1.EventRetained
		e.Message = fmt.Sprintf("Left port %s in Neutron, without its owner's marker", step.ID)
	}
	return e
}

// report sends the Events of what was done, writes the status where it changed by what is worth it, and tells a new
// failure, new drift and a new warning in Events of their own.
func (r *Reconciler[T]) report(ctx context.Context, obj T, o outcome) error {
	updated := r.updated(obj, o)
	told := meta.FindStatusCondition(r.kind.Status(obj).Conditions, cloudteamv1.ConditionReady)
	var turn controller.Event
	if told == nil || told.Reason != o.state.Reason || told.Message != o.state.Message {
		switch {
		case len(o.drift) > 0 && o.err == nil:
			turn = controller.Event{
				Type: corev1.EventTypeWarning, Reason: cloudteamv1.EventDriftDetected, Message: o.state.Message,
			}
		case o.err != nil, o.state.Abnormal == cloudteamv1.ConditionStalled:
			turn = controller.Event{Type: corev1.EventTypeWarning, Reason: o.state.Reason, Message: o.state.Message}
		}
	}
	status := r.kind.StatusToWrite(updated)
	was := r.kind.StatusToWrite(obj)
	// The semantic comparison, which takes an empty list for none, costs several times the other.
	changed := !reflect.DeepEqual(was, status) && !equality.Semantic.DeepEqual(was, status) &&
		(r.kind.Negligible == nil || !r.kind.Negligible(obj, updated))
	return controller.Report{
		Done:    o.events,
		Changed: changed,
		Write: func(ctx context.Context) error {
			return controller.WriteStatus(
				ctx, r.kind.Patch(obj.GetNamespace()), r.kind.GroupVersionKind, obj, status, &r.expected)
		},
		Turns: append([]controller.Event{turn}, r.newWarnings(obj, updated)...),
	}.Send(ctx, r.recorder, obj)
}

// newWarnings tell of the conditions among Kind.Warnings that have become True.
func (r *Reconciler[T]) newWarnings(was, is T) (events []controller.Event) {
	for _, warning := range r.kind.Warnings {
		c := meta.FindStatusCondition(r.kind.Status(is).Conditions, warning)
		if c == nil || c.Status != metav1.ConditionTrue ||
			meta.IsStatusConditionTrue(r.kind.Status(was).Conditions, warning) {
			continue
		}
		events = append(events, controller.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message})
	}
	return events
}

// updated is a copy of the object with its status after a sync. What the sync did not learn stays as it was, but for
// drift from another spec, which says nothing of this one.
func (r *Reconciler[T]) updated(obj T, o outcome) T {
	updated := obj.DeepCopyObject().(T)
	status := r.kind.Status(updated)
	if status.ObservedGeneration != obj.GetGeneration() {
		status.Drift = nil
	}
	status.ObservedGeneration = obj.GetGeneration()
	status.Conditions = controller.SetState(status.Conditions, obj.GetGeneration(), o.state)
	if o.applied {
		status.AppliedGeneration = obj.GetGeneration()
	}
	if o.observed == nil {
		return updated
	}
	status.Drift = nil
	for _, d := range o.drift {
		status.Drift = append(status.Drift, cloudteamv1.Drift(d))
	}
	if status.Cloud == nil && o.identity != nil && !o.observed.Empty() {
		status.Cloud = new(cloudteamv1.CloudStatus(*o.identity))
	}
	r.kind.Show(updated, o.declared, r.ownerOf(obj), *o.observed)
	return updated
}
