package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// stateOf gives the object's state for an error. Its text goes into conditions, so it MUST be the same for the same
// cause: a text that varies would cause a status write for each attempt.
func stateOf(err error) controller.State {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem.State
	}
	if errors.Is(err, inventory.ErrDisputed) {
		return controller.Stalled(cloudteamv1.ReasonIdentityDisputed, "Another controller acts, or may act, in "+
			"this project for a cluster with the same UID, such as a restored copy of this one. Nothing is changed or removed "+
			"meanwhile. Ask the operator to stop the controller of one of the two clusters. After a long outage without a "+
			"copy, this ends by itself after three audits.")
	}
	if _, ok := errors.AsType[*plan.FieldError](err); ok {
		return controller.Stalled(cloudteamv1.ReasonInvalidSpec, oneLine(err))
	}
	if _, ok := errors.AsType[*plan.BlockedError](err); ok {
		return controller.Stalled(cloudteamv1.ReasonBlocked, err.Error())
	}
	if _, ok := errors.AsType[*plan.InUseError](err); ok {
		return controller.Reconciling(cloudteamv1.ReasonInUse,
			sentences(oneLine(err), retriesWithBackoff, "Detach the port from that device."))
	}
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		if refusal.Kind == client.Invalid {
			// Several names may match nothing. The message has all of them.
			return controller.Stalled(cloudteamv1.ReasonRejected,
				sentences(oneLine(err), retriesPeriodically, "Change the spec, or have the cloud allow it."))
		}
		return stateOfRefusal(refusal)
	}
	return controller.Reconciling(cloudteamv1.ReasonReconcileFailed, sentences(oneLine(err), retriesWithBackoff))
}

// stateOfRefusal gives the object's state for Neutron's answer, if nothing more specific is known.
func stateOfRefusal(refusal *client.Error) controller.State {
	text := refusal.Error()
	if refusal.Fresh {
		return controller.Reconciling(cloudteamv1.ReasonCloudUnavailable, sentences(text, retriesWithBackoff))
	}
	switch refusal.Kind {
	case client.Throttled:
		return controller.Reconciling(cloudteamv1.ReasonRateLimited,
			sentences(text, "Retrying when the cloud allows it (Retry-After)."))
	case client.Capacity:
		return controller.Reconciling(cloudteamv1.ReasonQuotaExceeded,
			sentences(text, retriesWithBackoff, "Raise the project's quota, or delete what is not needed."))
	case client.Forbidden:
		return controller.Stalled(cloudteamv1.ReasonForbidden,
			sentences(text, retriesPeriodically, "Use credentials that are allowed to do this."))
	case client.Unauthenticated:
		return controller.Stalled(cloudteamv1.ReasonCredentialsRejected, text)
	case client.InUse:
		return controller.Reconciling(cloudteamv1.ReasonInUse,
			sentences(text, retriesWithBackoff, "Remove what uses it."))
	case client.Taken:
		return controller.Reconciling(cloudteamv1.ReasonAddressInUse,
			sentences(text, retriesWithBackoff, "Declare another address, or free this one."))
	case client.Exhausted:
		return controller.Reconciling(cloudteamv1.ReasonAddressesExhausted, sentences(text, retriesWithBackoff,
			"Remove ports that are not needed, widen the Network's allocationPools, or declare another subnet (with the same "+
				"reservedFor)."))
	case client.NotKept:
		return controller.Stalled(cloudteamv1.ReasonMarkerNotKept, sentences(text, "Without the marker it would be created "+
			"again and again, so nothing more is created. Have the cloud store descriptions of 255 characters, and its "+
			"policy show them to these credentials. The controller tries again when it starts, and at least once a day."))
	case client.Conflict, client.NotFound:
		return controller.Reconciling(cloudteamv1.ReasonConflict, sentences(text, retriesWithBackoff))
	default:
		return controller.Reconciling(cloudteamv1.ReasonCloudUnavailable, sentences(text, retriesWithBackoff))
	}
}

// sentences joins a cause, with or without a final period, and whole sentences to one message.
func sentences(cause string, more ...string) string {
	return strings.TrimRight(cause, ". ") + ". " + strings.Join(more, " ")
}

// oneLine gives an error's text with the lines of a joined error in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// mismatch is the problem of credentials that lead to another cloud than that of what is there, such as "the port".
func mismatch(what string, pinned, found client.Identity) error {
	err := fmt.Errorf("%s is in %s, but the credentials are for %s", what, pinned, found)
	remedies := []string{"Nothing is changed in Neutron.",
		fmt.Sprintf("Use credentials for the project that has %s.", what)}
	if pinned.Region == found.Region && pinned.ProjectID == found.ProjectID {
		remedies = append(remedies, fmt.Sprintf("If the endpoint was renamed, have the operator start the controller with "+
			"--same-cloud=%s=%s.", pinned.Endpoint, found.Endpoint))
	}
	return &Problem{Err: err, State: controller.Stalled(cloudteamv1.ReasonCloudMismatch,
		sentences(err.Error(), remedies...))}
}

// mismatchElsewhere is mismatch for an object whose credentials are another namespace's. It tells nothing about them.
func mismatchElsewhere(kind plan.Kind) error {
	of, remedy := "Network", "The Network's own condition says more."
	if kind != plan.KindPort {
		of, remedy = "NetworkClass", "Name a class for the project that has it, or ask the administrator of the class."
	}
	return &Problem{
		Err: fmt.Errorf("the credentials are for another cloud or project than the one of the %s", kind),
		State: controller.Stalled(cloudteamv1.ReasonCloudMismatch, fmt.Sprintf("The credentials of its %s are for another "+
			"cloud or project than the one that has the %s. Nothing is changed in Neutron. %s", of, kind, remedy)),
	}
}

// unmarkedError says that a resource of ours no longer bears our marker.
type unmarkedError struct{ Lookup }

func (e *unmarkedError) Error() string { return e.String() + " no longer bears its owner's marker" }

// unmarked is the problem of an unmarkedError.
func unmarked(resource Lookup, owner plan.Owner) error {
	err := &unmarkedError{resource}
	otherwise := "delete it to have a new one created."
	if resource.Imported {
		otherwise = "delete this object to leave it as it is."
	}
	return &Problem{Err: err, State: controller.Stalled(cloudteamv1.ReasonOwnershipLost,
		sentences(err.Error(), "It is not changed.",
			fmt.Sprintf("End its description with %s to keep it, or %s", owner, otherwise)))}
}

// notConverged is the problem of a change that Neutron accepted but does not show.
func notConverged(change plan.Change) error {
	err := errors.New("Neutron accepted the change but does not show it: " + Listed(change.Differences()))
	remedy := "Find who sets it back in Neutron."
	var fields []string
	for _, d := range change.Differences() {
		if network := d.Resource == "network" || strings.HasPrefix(d.Resource, "subnet"); !network {
			fields = nil // spec.ignoreDrift is a Network's
			break
		}
		if !slices.Contains(fields, d.Field) {
			fields = append(fields, d.Field)
		}
	}
	if len(fields) > 0 {
		remedy = fmt.Sprintf("If the cloud keeps it in a form of its choice, also without a value in the spec, leave that "+
			"to the cloud: spec.ignoreDrift: [%s]. Else find who sets it back.", strings.Join(fields, ", "))
	}
	return &Problem{
		Err:   err,
		State: controller.Stalled(cloudteamv1.ReasonNotConverged, sentences(err.Error(), retriesPeriodically, remedy)),
	}
}

// outdated is the error of a list that lacks a resource which Neutron showed a moment ago.
func outdated(e Lookup) error {
	return &client.Error{
		Kind: client.Conflict, Op: "list " + string(e.Kind) + "s",
		Reason: fmt.Sprintf("Neutron's list lacks the %s, which it showed a moment ago", e.Kind),
	}
}

// forbidden is the problem of a step that the cloud's policy forbids for these credentials. fields are the step's
// fields that need an administrator by default.
func forbidden(refusal error, fields []string) error {
	err := fmt.Errorf("%w: these credentials may not set %s", refusal, strings.Join(fields, ", "))
	remedy := "Leave that out of the spec, or use an administrator's credentials."
	if slices.Contains(fields, plan.FieldAddress) {
		remedy = "Import a floating IP of the project that has the address (import.id), leave the address to Neutron, or " +
			"use an administrator's credentials."
	}
	return &Problem{Err: err, State: controller.Stalled(cloudteamv1.ReasonForbidden,
		sentences(err.Error(), retriesPeriodically, remedy))}
}

// retried is the problem of a step that Neutron refuses now. The remedies are whole sentences.
func retried(refusal error, reason string, remedies ...string) error {
	return &Problem{Err: refusal, State: controller.Reconciling(reason,
		sentences(refusal.Error(), append([]string{retriesWithBackoff}, remedies...)...))}
}

// occupied is the problem of a removal that Neutron refuses because of ports or floating IPs.
func occupied(refusal error, step plan.Step, by inventory.Blockers) error {
	what := string(step.Action)
	switch step.Action {
	case plan.DeleteSubnet:
		what += " " + step.Subnet.CIDR.String()
	case plan.UnshareNetwork:
		what += fmt.Sprintf(" (%s): project %q", plan.FieldSharedWith, step.Share.Project)
	}
	return &Problem{Err: refusal, State: controller.Reconciling(cloudteamv1.ReasonInUse,
		sentences(fmt.Sprintf("%s: in use by %s", what, by), retriesWithBackoff, "Remove what uses it."))}
}

// ImportProblem converts those errors of package plan that only an import can cause. differs is the message for a
// resource that is not as declared.
func ImportProblem(err error, differs func([]plan.Difference) string) error {
	if missing, ok := errors.AsType[*plan.NotMadeError](err); ok {
		return &Problem{Err: err, State: controller.Reconciling(cloudteamv1.ReasonImportNotFound, missing.Error())}
	}
	if taken, ok := errors.AsType[*plan.OwnedError](err); ok {
		return &Problem{Err: err, State: controller.Stalled(cloudteamv1.ReasonAlreadyOwned, taken.Error())}
	}
	if other, ok := errors.AsType[*plan.DiffersError](err); ok {
		return &Problem{
			Err: err, State: controller.Stalled(cloudteamv1.ReasonImportMismatch, differs(other.Differences)),
			Drift: other.Differences,
		}
	}
	return err
}

// maxMatches bounds the ids in a message.
const maxMatches = 10

// notOne is the problem of an import whose filter nothing fits, or more than one resource.
func notOne(kind plan.Kind, by plan.ImportFilter, ofProject bool, ids []string) error {
	where := ""
	if ofProject {
		where = " in their project"
	}
	if len(ids) == 0 {
		return &Problem{State: controller.Reconciling(cloudteamv1.ReasonImportNotFound, fmt.Sprintf(
			"These credentials see no %s%s that has %s and no other owner's marker. The controller does not create what it "+
				"imports. %s", kind, where, by, retriesPeriodically))}
	}
	more := ""
	if len(ids) > maxMatches {
		more = fmt.Sprintf(" and %d more", len(ids)-maxMatches)
	}
	return &Problem{State: controller.Stalled(cloudteamv1.ReasonImportAmbiguous, fmt.Sprintf(
		"%d %ss%s have %s: %s%s. None is imported. %s Create another object with the right id in import.id and delete this "+
			"one, or have only one of them fit.",
		len(ids), kind, where, by, strings.Join(ids[:min(len(ids), maxMatches)], ", "), more, retriesPeriodically))}
}

// foundOnce is the problem of an import that was applied, and nobody knows any more what its filter found.
func foundOnce(kind plan.Kind, by plan.ImportFilter) error {
	return &Problem{State: controller.Reconciling(cloudteamv1.ReasonImportNotFound, fmt.Sprintf(
		"The %s that had %s was imported and is gone. The controller does not search for another one. Delete the object and "+
			"create it again to import another one, or write the id into the annotation %s.", kind, by,
		cloudteamv1.AnnotationImportID))}
}

// OfProject refuses to adopt a resource of another project than that of the credentials.
func OfProject(ctx context.Context, in Inventory, resource plan.Resource, project string) error {
	identity, err := in.Identity(ctx)
	if err != nil || project == identity.ProjectID {
		return err
	}
	err = fmt.Errorf("%s belongs to project %s, but the credentials are for %s. Name credentials for the former in "+
		"spec.cloud, or set managementPolicy to Observe to use it as it is", resource, project, identity.ProjectID)
	return &Problem{Err: err, State: controller.Stalled(cloudteamv1.ReasonProjectMismatch, err.Error())}
}

const (
	// MaxFinalizers is the most finalizers of an object that a Reconciler handles. Kubernetes sets no limit, and a tenant
	// can fill it.
	MaxFinalizers = 64
	// MaxFinalizersSize is the most bytes of all of them.
	MaxFinalizersSize = 2 << 10
	// TooManyFinalizers replaces, in caches, the other finalizers of an object with more. A write would take them off.
	TooManyFinalizers = "cloudteam.ztgame.com/too-many-finalizers"
)

// crowded is the problem of an object with TooManyFinalizers; nil if the cache has all of them.
func crowded(obj Object) error {
	if !slices.Contains(obj.GetFinalizers(), TooManyFinalizers) {
		return nil
	}
	message := fmt.Sprintf("The object has more than %d finalizers, or more than %d bytes of them. Nothing is created, "+
		"and the controller keeps its own. Remove others.", MaxFinalizers, MaxFinalizersSize)
	// No event tells of another finalizer, so it is tried again.
	return &Problem{Err: errors.New(message), State: controller.Stalled(cloudteamv1.ReasonInvalidSpec, message)}
}

// partial is the problem of an object of which the cache has only a part; nil if it has the whole.
func partial(obj Object) error {
	if !controller.TooLarge(obj) {
		return nil
	}
	return Waits(controller.Stalled(cloudteamv1.ReasonInvalidSpec, fmt.Sprintf(
		"The object takes more than %d KiB of memory. Nothing is changed in Neutron. Shorten the lists and texts of its "+
			"spec, or divide it.", controller.MaxKept>>10)))
}
