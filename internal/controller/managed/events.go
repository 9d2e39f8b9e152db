package managed

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// event describes what was done of the change. It is empty if nothing was done.
func (n nextChange) event(done plan.Change) controller.Event {
	if n.adopts {
		return adoptionEvent(done)
	}
	return changeEvent(done, n.drifted)
}

// adoptionEvent describes an adoption. It is empty if nothing was adopted.
func adoptionEvent(done plan.Change) controller.Event {
	if done.Empty() {
		return controller.Event{}
	}
	return controller.Event{
		Type: corev1.EventTypeNormal, Reason: cloudteamv1.EventImported,
		Message: "Adopted network " + done[0].ID + ": it bears its owner's marker now",
	}
}

// changeEvent describes the steps that were done. It is empty if there are none.
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

// describe gives a step in the past tense, for an Event.
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
		return fmt.Sprintf("Stopped sharing network with project %q: %s", step.Share.Project, step.Reason)
	}
	if len(step.Differences) == 0 {
		_, resource, _ := strings.Cut(string(step.Action), " ")
		return "Updated " + resource + " " + step.ID
	}
	changes := make([]string, len(step.Differences))
	for i, d := range step.Differences {
		changes[i] = fmt.Sprintf("%s %s → %s", d.Field, d.Actual, d.Declared)
	}
	return "Updated " + step.Differences[0].Resource + ": " + strings.Join(changes, ", ")
}

// releaseEvent describes a step of a deletion. It is empty for a step that needs no Event: an Event about a network
// also covers its subnets.
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

// Listed joins differences into one line of a message.
func Listed(differences []plan.Difference) string {
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}
