package managed

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var abandoned = metrics.NewCounter(&metrics.CounterOpts{
	Name: "network_controller_abandoned_total",
	Help: "Objects that were removed although their resources may still be in Neutron, because their credentials went " +
		"with their namespace. The log and an Event of the Namespace name the resources.",
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics MUST run before the first value is set: earlier values are lost.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(abandoned) })
