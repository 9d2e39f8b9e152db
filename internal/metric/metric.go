// Package metric makes the metrics of this project's processes, and knows all of them: docs/metrics.md is written from
// it. All are ALPHA in the words of Kubernetes: they may change with any release, and the changelog says so.
package metric

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/features"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Definition describes a metric.
type Definition struct {
	Name string
	// Type is counter, gauge or histogram.
	Type      string
	Labels    []string
	Stability string
	Help      string
}

// Labels says how many values each label can have, whatever users and clouds do. A metric MUST have no other labels.
var Labels = map[string]string{
	"action":     "`corrected` and `left`; of the node agent: what it does to a port of Open vSwitch",
	"cidr":       "with `network`: the subnets of a Network, at most eight",
	"cloud":      "the entry in the Secret's clouds.yaml; see `secret`",
	"code":       "the error codes of CNI",
	"controller": "the controllers (`--controllers`)",
	"gate":       "the gates of a write; see [how it works](how-it-works.md#8-the-write)",
	"go_version": "one",
	"kind":       "the kinds of objects that have something in Neutron",
	"namespace":  "with `secret`: see there; with `network`: see there. Empty for what belongs to no namespace",
	"network": "the Networks with the fullest subnets: 100 subnets of a namespace, and 2000 in all; " +
		"`network_controller_subnets_unlisted` counts the others",
	"operation": "the calls that the code makes to Keystone and Neutron",
	"path":      "the paths that the node agent serves",
	"ready":     "`True`, `False` and `Unknown`",
	"reason":    "the reasons of the API; others count as `Other`",
	"resource":  "what the controller makes and Neutron has quotas for: eight",
	"result": "`ok` and the kinds of errors; of `controller_runtime_*`: `success`, `error`, `requeue` and " +
		"`requeue_after`",
	"secret": "the Secrets of `spec.cloud` in use, at most `--max-clouds`; empty for the controller's own cloud; " +
		"of `network_controller_cloud_response_seconds`, `(tenants)` for all that are not the operator's. " +
		"The metrics of a cloud go when no object uses it any more",
	"state":   "the states that the metric lists",
	"version": "one",
}

var (
	defined  []Definition
	known    []metrics.Registerable
	computed []*Computed
)

func define(name, kind, help string, labels []string) {
	defined = append(defined, Definition{name, kind, labels, string(metrics.ALPHA), help})
}

// served has Register serve a metric.
func served[T metrics.Registerable](made T) T {
	known = append(known, made)
	return made
}

// All returns the metrics that the program's packages have made, by name.
func All() []Definition {
	return slices.SortedFunc(slices.Values(defined), func(a, b Definition) int { return strings.Compare(a.Name, b.Name) })
}

// Counter makes a counter. This function and those below MUST only be called to initialize a package's variables.
func Counter(name, help string) *metrics.Counter {
	define(name, "counter", help, nil)
	return served(metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}))
}

// Counters makes a counter for each value of labels.
func Counters(name, help string, labels ...string) *metrics.CounterVec {
	define(name, "counter", help, labels)
	return served(metrics.NewCounterVec(
		&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

// Gauges makes a gauge for each value of labels.
func Gauges(name, help string, labels ...string) *metrics.GaugeVec {
	define(name, "gauge", help, labels)
	return served(metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels))
}

// Histogram makes a histogram. Scrapers that can read native histograms get these, too.
func Histogram(name, help string, buckets []float64) *metrics.Histogram {
	define(name, "histogram", help, nil)
	return served(metrics.NewHistogram(
		&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}))
}

// Histograms makes a histogram for each value of labels.
func Histograms(name, help string, buckets []float64, labels ...string) *metrics.HistogramVec {
	define(name, "histogram", help, labels)
	return served(metrics.NewHistogramVec(
		&metrics.HistogramOpts{Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA}, labels))
}

// Computed is a gauge whose values are computed when somebody reads them, and cost nothing otherwise.
type Computed struct{ desc *metrics.Desc }

// NewComputed makes a Computed.
func NewComputed(name, help string, labels ...string) *Computed {
	define(name, "gauge", help, labels)
	made := &Computed{metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")}
	computed = append(computed, made)
	return made
}

// Set gives a Computed its value for values of its labels. It MUST be called once for each.
type Set func(of *Computed, value float64, labels ...string)

var source atomic.Pointer[func(Set)]

// Compute makes compute give the values of all Computed, until stop is called or something else gives them. It MUST be
// quick and safe for concurrent use.
func Compute(compute func(Set)) (stop func()) {
	source.Store(&compute)
	return func() { source.CompareAndSwap(&compute, nil) }
}

// collector collects the Computed.
type collector struct{ metrics.BaseStableCollector }

// DescribeWithStability implements metrics.StableCollector.
func (*collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, c := range computed {
		ch <- c.desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (*collector) CollectWithStability(ch chan<- metrics.Metric) {
	compute := source.Load()
	if compute == nil {
		return
	}
	(*compute)(func(of *Computed, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(of.desc, metrics.GaugeValue, value, labels...)
	})
}

// Register has the process serve all metrics. It MUST run before the first value is set: earlier values are lost.
var Register = sync.OnceFunc(func() {
	gate := featuregate.NewFeatureGate()
	if err := features.AddFeatureGates(gate); err != nil {
		panic(err) // the gate is new
	}
	features.ApplyFeatureGates(gate) // native histograms
	legacyregistry.MustRegister(known...)
	if len(computed) > 0 {
		legacyregistry.CustomMustRegister(&collector{})
	}
})
