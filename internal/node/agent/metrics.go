package agent

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "network_agent"

var (
	requests = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "requests_total", StabilityLevel: metrics.ALPHA,
		Help: "Requests of the CNI plugin, by path and CNI error code (0: success; 11: try again later)",
	}, []string{"path", "code"})
	durations = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "request_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "How long requests of the CNI plugin took, by path",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40},
	}, []string{"path"})
	repairs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "repairs_total", StabilityLevel: metrics.ALPHA,
		Help: "Ports of Open vSwitch that the agent plugged again, or removed without a DEL",
	}, []string{"action"})
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(requests, durations, repairs) })
