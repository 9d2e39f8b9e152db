package managed

import (
	"errors"
	"fmt"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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

// told is an error that knows what it means for the object.
type told interface {
	error
	state() controller.State
}

// stateOf says what an error means for the object. Texts of errors go into conditions: every error that comes here is
// one that is the same for the same cause.
func stateOf(err error) controller.State {
	if known, ok := errors.AsType[told](err); ok {
		return known.state()
	}
	if _, ok := errors.AsType[*plan.FieldError](err); ok {
		return undeclared(err)
	}
	if _, ok := errors.AsType[*plan.BlockedError](err); ok {
		return controller.Stalled(cloudteamv1.ReasonBlocked, err.Error())
	}
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		return stateOfRefusal(refusal)
	}
	return controller.Reconciling(cloudteamv1.ReasonFailed, oneLine(err)+"; it is tried again")
}

// stateOfRefusal says what Neutron's answer means for the object, where nothing more is known about it.
func stateOfRefusal(refusal *client.Error) controller.State {
	text := refusal.Error()
	switch refusal.Kind {
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

func (w *Waiting) state() controller.State { return undeclared(w) }

func (u *Unresolved) state() controller.State { return refusedState(oneLine(u)) }

func (p *Problem) state() controller.State { return p.State }

// mismatch is credentials that lead elsewhere than to where the resource is.
type mismatch struct {
	kind          plan.Kind
	pinned, found client.Identity
}

func (e *mismatch) Error() string {
	return fmt.Sprintf("the %s is in %s and the credentials lead to %s: give the credentials of the former",
		e.kind, e.pinned, e.found)
}

func (e *mismatch) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonCloudMismatch, e.Error())
}

// unmarked is a resource that was ours and bears our marker no more.
type unmarked struct {
	Lookup
	owner plan.Owner
}

func (e *unmarked) Error() string {
	otherwise := "delete it to have a new one made"
	if e.Imported {
		otherwise = "delete this object and leave it as it is"
	}
	return fmt.Sprintf("%s no longer bears its owner's marker: end its description with %s to have it kept, or %s",
		e.Resource, e.owner, otherwise)
}

func (e *unmarked) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonMarkerRemoved, e.Error())
}

// notApplied is a change that Neutron accepted and does not show.
type notApplied struct{ change plan.Change }

func (e *notApplied) Error() string {
	return "Neutron accepted the change and does not show it: " + Listed(e.change.Differences())
}

func (e *notApplied) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonNotApplied, e.Error())
}

// forbidden is a step that the cloud's policy does not let these credentials take, and the fields of it that take an
// administrator's by default.
type forbidden struct {
	refusal error
	fields  []string
}

func (e *forbidden) Error() string {
	if len(e.fields) == 0 {
		return e.refusal.Error() + ": give credentials that may do this"
	}
	return fmt.Sprintf("%s: these credentials may not set %s: leave that out of the spec, or give an administrator's "+
		"credentials", e.refusal, strings.Join(e.fields, ", "))
}

// Unwrap gives the refusal.
func (e *forbidden) Unwrap() error { return e.refusal }

func (e *forbidden) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonForbidden, e.Error()+"; it is tried again now and then")
}

// unallocated is a subnet for which its pool has no range left.
type unallocated struct {
	refusal error
	pool    string
}

func (e *unallocated) Error() string {
	return fmt.Sprintf("%s: free a range of subnet pool %q, ask for a longer prefixLength, or have prefixes added to the "+
		"pool", e.refusal, e.pool)
}

// Unwrap gives the refusal.
func (e *unallocated) Unwrap() error { return e.refusal }

func (e *unallocated) state() controller.State {
	return controller.Reconciling(cloudteamv1.ReasonNoAddresses, e.Error()+"; it is tried again")
}

// occupied is a step that takes something away and that Neutron refuses, and the ports or floating IPs for which it
// does.
type occupied struct {
	refusal error
	step    plan.Step
	by      neutron.Blockers
}

func (e *occupied) Error() string {
	what := string(e.step.Action)
	switch e.step.Action {
	case plan.DeleteSubnet:
		what += " " + e.step.Subnet.CIDR.String()
	case plan.UnshareNetwork:
		what += fmt.Sprintf(" (%s): project %q", plan.FieldSharedWith, e.step.Share.Project)
	}
	return fmt.Sprintf("%s: in use by %s", what, e.by)
}

// Unwrap gives the refusal.
func (e *occupied) Unwrap() error { return e.refusal }

func (e *occupied) state() controller.State {
	return controller.Reconciling(cloudteamv1.ReasonInUse, e.Error()+": remove what uses it; it is tried again")
}
