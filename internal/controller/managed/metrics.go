package managed

import (
	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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
