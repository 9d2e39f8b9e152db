package managed

import (
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// changeEvent describes the steps that were done. It is empty if there are none. main is the kind of the object's main
// resource.
func changeEvent(main plan.Kind, done plan.Change, drifted bool) controller.Event {
	if done.Empty() {
		return controller.Event{}
	}
	texts := make([]string, len(done))
	reason := cloudteamv1.EventUpdated
	for i, step := range done {
		texts[i] = step.Done()
		if step.Action.Creates() && step.Action.Of() == main {
			reason = cloudteamv1.EventCreated
		}
	}
	if drifted && !saysPolicy(done) {
		reason = cloudteamv1.EventDriftCorrected
	}
	return controller.Done(reason, "%s", strings.Join(texts, "; "))
}

// saysPolicy reports whether steps only say another deletionPolicy, which is no drift.
func saysPolicy(done plan.Change) bool {
	all := done.Differences()
	other := func(d plan.Difference) bool { return d.Field != plan.FieldDeletionPolicy }
	return len(all) > 0 && !slices.ContainsFunc(all, other)
}

// releaseEvent describes a step of a deletion. It is empty for a step that needs no Event: an Event about a network
// also covers its subnets.
func releaseEvent(step plan.Step) controller.Event {
	of := step.Action.Of()
	switch {
	case of == "":
	case step.Action.Deletes():
		return controller.Done(cloudteamv1.EventDeleted, "Deleted %s %s", of, step.ID)
	case step.Changes(plan.FieldDescription):
		return controller.Done(cloudteamv1.EventRetained, "Left %s %s in Neutron, without its owner's marker", of, step.ID)
	}
	return controller.Event{}
}

// Listed joins differences into one line of a message.
func Listed(differences []plan.Difference) string {
	texts := make([]string, len(differences))
	for i, d := range differences {
		texts[i] = d.String()
	}
	return controller.Limited(strings.Join(texts, "; "), controller.MaxMessage/2)
}
