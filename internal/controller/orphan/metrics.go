package orphan

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The states of candidates, as in the metric's label.
const (
	stateWaiting  = "waiting"
	stateDue      = "due"
	stateWithheld = "withheld"
	stateBlocked  = "blocked"
)

var (
	orphans = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "network_controller_orphans",
		Help: "Objects that are gone and own resources in Neutron, as of the last audit, by state: waiting (for the grace " +
			"period to end), due (to be removed with the next audit), withheld (more than may be removed without an " +
			"operator's word), blocked (in use, or with a subnet that is not ours).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"state"})
	removed = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "network_controller_orphans_removed_total",
		Help:           "Objects that were gone and whose resources were removed from Neutron.",
		StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics MUST run before the first value is set: earlier values are lost.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(orphans, removed) })

// count sets the gauge from all books.
func (c *Controller) count() {
	all := map[string]int{stateWaiting: 0, stateDue: 0, stateWithheld: 0, stateBlocked: 0}
	for _, b := range c.books {
		for _, n := range b.notes {
			switch {
			case n.withheld:
				all[stateWithheld]++
			case n.blocked:
				all[stateBlocked]++
			case n.due(c.options.Rules, time.Now()):
				all[stateDue]++
			default:
				all[stateWaiting]++
			}
		}
	}
	for state, n := range all {
		orphans.WithLabelValues(state).Set(float64(n))
	}
}
