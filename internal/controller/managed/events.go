package managed

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/metric"
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

var (
	abandoned = metric.Counter("network_controller_abandoned_total",
		"Objects that were removed although their resources may still be in Neutron, because their credentials went "+
			"with their namespace. The log and an Event of the Namespace name the resources.")
	drift = metric.Counters("network_controller_drift_total",
		"Times that an object's resources were found changed by others, by kind and by what was done: corrected, or left "+
			"(driftPolicy Report).", "kind", "action")
	readyDuration = metric.Histograms("network_controller_ready_duration_seconds",
		"Time from an object's creation until Neutron first had all that it declares, by kind. The API server's times are "+
			"whole seconds.", []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}, "kind")
)

// The actions on drift, as in the metric's label.
const (
	driftCorrected = "corrected"
	driftLeft      = "left"
)

// countDrift counts what Events say of an object of a kind.
func countDrift(kind string, events ...controller.Event) {
	for _, e := range events {
		switch {
		case e.Reason == cloudteamv1.EventDriftCorrected:
			drift.WithLabelValues(kind, driftCorrected).Inc()
		case e.Reason == cloudteamv1.EventDriftDetected && e.Type == corev1.EventTypeWarning:
			drift.WithLabelValues(kind, driftLeft).Inc()
		}
	}
}
