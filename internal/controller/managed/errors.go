package managed

import (
	"errors"
	"fmt"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// What happens after an error, as the object's condition says it.
const (
	retriesWithBackoff  = "Retrying with backoff."
	retriesPeriodically = "Retrying periodically."
)

// stateful is an error that supplies the object's state.
type stateful interface {
	error
	state() controller.State
}

// stateOf gives the object's state for an error. Its text goes into conditions, so it MUST be the same for the same
// cause: a text that varies would cause a status write for each attempt.
func stateOf(err error) controller.State {
	if known, ok := errors.AsType[stateful](err); ok {
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
	return controller.Reconciling(cloudteamv1.ReasonFailed, sentences(oneLine(err), retriesWithBackoff))
}

// stateOfRefusal gives the object's state for Neutron's answer, if nothing more specific is known.
func stateOfRefusal(refusal *client.Error) controller.State {
	text := refusal.Error()
	switch refusal.Kind {
	case client.Throttled:
		return controller.Reconciling(cloudteamv1.ReasonThrottled,
			sentences(text, "Retrying when the cloud allows it (Retry-After)."))
	case client.Capacity:
		return controller.Reconciling(cloudteamv1.ReasonQuotaExceeded,
			sentences(text, retriesWithBackoff, "Raise the project's quota, or delete what is not needed."))
	case client.Invalid:
		return rejected(text)
	case client.Forbidden:
		return controller.Stalled(cloudteamv1.ReasonForbidden,
			sentences(text, retriesPeriodically, "Use credentials that are allowed to do this."))
	case client.Unauthenticated:
		return controller.Stalled(cloudteamv1.ReasonCredentialsRejected, text)
	case client.InUse:
		return controller.Reconciling(cloudteamv1.ReasonInUse,
			sentences(text, retriesWithBackoff, "Remove what uses it."))
	case client.Taken:
		return controller.Reconciling(cloudteamv1.ReasonAddressTaken,
			sentences(text, retriesWithBackoff, "Declare another address, or free this one."))
	case client.Exhausted:
		return controller.Reconciling(cloudteamv1.ReasonNoAddresses, sentences(text, retriesWithBackoff,
			"Remove ports that are not needed, or widen the Network's allocationPools."))
	case client.Conflict, client.NotFound:
		return controller.Reconciling(cloudteamv1.ReasonChanging, sentences(text, retriesWithBackoff))
	default:
		return controller.Reconciling(cloudteamv1.ReasonCloudUnavailable, sentences(text, retriesWithBackoff))
	}
}

// undeclared is the state of an object that has no declaration, or none that can be planned now.
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

// rejected is the state of an object for which the cloud permanently refuses something; text says why.
func rejected(text string) controller.State {
	return controller.Stalled(cloudteamv1.ReasonRefused,
		sentences(text, retriesPeriodically, "Change the spec, or have the cloud allow it."))
}

// sentences joins a cause, with or without a final period, and whole sentences to one message.
func sentences(cause string, more ...string) string {
	return strings.TrimRight(cause, ". ") + ". " + strings.Join(more, " ")
}

// oneLine gives an error's text with the lines of a joined error in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (w *Waiting) state() controller.State { return undeclared(w) }

func (u *Unresolved) state() controller.State { return rejected(oneLine(u)) }

func (p *Problem) state() controller.State { return p.State }

// mismatch is an error for credentials that lead to another cloud than the resource's.
type mismatch struct {
	kind          plan.Kind
	pinned, found client.Identity
}

func (e *mismatch) Error() string {
	return fmt.Sprintf("the %s is in %s, but the credentials lead to %s", e.kind, e.pinned, e.found)
}

func (e *mismatch) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonCloudMismatch,
		sentences(e.Error(), "Nothing is changed in Neutron.", fmt.Sprintf("Use credentials for the project that has the %s.",
			e.kind)))
}

// unmarked is a resource of ours that no longer bears our marker.
type unmarked struct {
	Lookup
	owner plan.Owner
}

func (e *unmarked) Error() string { return e.String() + " no longer bears its owner's marker" }

func (e *unmarked) state() controller.State {
	otherwise := "delete it to have a new one created."
	if e.Imported {
		otherwise = "delete this object to leave it as it is."
	}
	return controller.Stalled(cloudteamv1.ReasonMarkerRemoved, sentences(e.Error(), "It is not changed.",
		fmt.Sprintf("End its description with %s to keep it, or %s", e.owner, otherwise)))
}

// notApplied is a change that Neutron accepted but does not show.
type notApplied struct{ change plan.Change }

func (e *notApplied) Error() string {
	return "Neutron accepted the change but does not show it: " + Listed(e.change.Differences())
}

func (e *notApplied) state() controller.State {
	return controller.Stalled(cloudteamv1.ReasonNotApplied, sentences(e.Error(), retriesPeriodically))
}

// forbidden is a step that the cloud's policy forbids for these credentials. fields are the step's fields that need an
// administrator by default.
type forbidden struct {
	refusal error
	fields  []string
}

func (e *forbidden) Error() string {
	if len(e.fields) == 0 {
		return e.refusal.Error()
	}
	return fmt.Sprintf("%s: these credentials may not set %s", e.refusal, strings.Join(e.fields, ", "))
}

// Unwrap gives the refusal.
func (e *forbidden) Unwrap() error { return e.refusal }

func (e *forbidden) state() controller.State {
	remedy := "Use credentials that are allowed to do this."
	if len(e.fields) > 0 {
		remedy = "Leave that out of the spec, or use an administrator's credentials."
	}
	return controller.Stalled(cloudteamv1.ReasonForbidden, sentences(e.Error(), retriesPeriodically, remedy))
}

// unallocated is a subnet for which its pool has no free range.
type unallocated struct {
	refusal error
	pool    string
}

func (e *unallocated) Error() string { return e.refusal.Error() }

// Unwrap gives the refusal.
func (e *unallocated) Unwrap() error { return e.refusal }

func (e *unallocated) state() controller.State {
	return controller.Reconciling(cloudteamv1.ReasonNoAddresses, sentences(e.Error(), retriesWithBackoff, fmt.Sprintf(
		"Free a range of subnet pool %q, ask for a longer prefixLength, or have prefixes added to the pool.", e.pool)))
}

// occupied is a removal that Neutron refuses, and the ports or floating IPs that block it.
type occupied struct {
	refusal error
	step    plan.Step
	by      inventory.Blockers
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
	return controller.Reconciling(cloudteamv1.ReasonInUse,
		sentences(e.Error(), retriesWithBackoff, "Remove what uses it."))
}
