package controller

import (
	"k8s.io/component-base/metrics"

	"cloudteam.ztgame.com/network-controller/internal/metric"
)

// The reconciles have controller-runtime's names, so that dashboards for controllers of that library show these, too.
// client-go's own workqueue metrics have the depth, latency and retries of the queues.
var (
	panics = metric.Counters("network_controller_sync_panics_total",
		"Panics in syncs, by controller. Each is a bug; the key was tried again.", "controller")
	reconciles = metric.Counters("controller_runtime_reconcile_total",
		"Syncs of objects, by controller and result.", "controller", "result")
	reconcileErrors = metric.Counters("controller_runtime_reconcile_errors_total",
		"Syncs of objects that failed, by controller.", "controller")
	reconcileTime = metric.Histograms("controller_runtime_reconcile_time_seconds",
		"Duration of syncs, by controller.", metrics.ExponentialBuckets(0.001, 4, 9), "controller")
	activeWorkers = metric.Gauges("controller_runtime_active_workers",
		"Syncs that run now, by controller.", "controller")
	maxWorkers = metric.Gauges("controller_runtime_max_concurrent_reconciles",
		"How many syncs may run at the same time, by controller.", "controller")
)

// The results of syncs.
const (
	resultSuccess      = "success"
	resultError        = "error"
	resultRequeue      = "requeue"
	resultRequeueAfter = "requeue_after"
)

// serveAsZero has the metrics of a controller be served from the start.
func serveAsZero(controller string) {
	reconcileErrors.WithLabelValues(controller)
	reconcileTime.WithLabelValues(controller)
	activeWorkers.WithLabelValues(controller)
	for _, result := range []string{resultSuccess, resultError, resultRequeue, resultRequeueAfter} {
		reconciles.WithLabelValues(controller, result)
	}
}
