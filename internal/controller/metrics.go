package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// client-go's own workqueue metrics have the depth, latency and retries of the queues.
var panics = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "network_controller_sync_panics_total",
	Help:           "Panics in syncs, by controller. Each is a bug; the key was tried again.",
	StabilityLevel: metrics.ALPHA,
}, []string{"controller"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(panics) })
