package managed

import (
	"fmt"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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
	return controller.Done(reason, "%s", strings.Join(texts, "; "))
}

// describe gives a step in the past tense, for an Event.
func describe(step plan.Step) string {
	_, resource, _ := strings.Cut(string(step.Action), " ")
	switch step.Action {
	case plan.CreateNetwork, plan.CreatePort, plan.CreateRouter:
		return "Created " + resource + " " + step.ID
	case plan.CreateSubnet:
		return "Created subnet " + step.Subnet.Origin()
	case plan.CreateInterface:
		return "Created port " + step.ID + " for the router"
	case plan.DeleteNetwork, plan.DeletePort, plan.DeleteRouter:
		return "Deleted " + resource + " " + step.ID + ": " + step.Reason
	case plan.DeleteSubnet:
		return "Deleted subnet " + step.Subnet.CIDR.String() + ": " + step.Reason
	case plan.DeleteInterface:
		return "Deleted port " + step.ID + ": " + step.Reason
	case plan.AttachInterface:
		return "Attached port " + step.ID + " to router " + step.RouterRef.ID
	case plan.DetachInterface:
		return "Detached port " + step.ID + " from router " + step.RouterRef.ID + ": " + step.Reason
	case plan.ShareNetwork:
		return fmt.Sprintf("Shared network with project %q", step.Share.Project)
	case plan.UnshareNetwork:
		return fmt.Sprintf("Stopped sharing network with project %q: %s", step.Share.Project, step.Reason)
	}
	if len(step.Differences) == 0 {
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
	_, resource, _ := strings.Cut(string(step.Action), " ")
	switch step.Action {
	case plan.DeleteNetwork:
		return controller.Done(cloudteamv1.EventDeleted, "Deleted network %s with its subnets", step.ID)
	case plan.DeletePort, plan.DeleteRouter:
		return controller.Done(cloudteamv1.EventDeleted, "Deleted %s %s", resource, step.ID)
	case plan.UpdateNetwork, plan.UpdatePort, plan.UpdateRouter:
		if step.Changes(plan.FieldDescription) {
			return controller.Done(cloudteamv1.EventRetained, "Left %s %s in Neutron, without its owner's marker",
				resource, step.ID)
		}
	}
	return controller.Event{}
}

// Listed joins differences into one line of a message.
func Listed(differences []plan.Difference) string {
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return strings.Join(texts, "; ")
}
