package orphan

import (
	"slices"
	"sync"

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

// count sets the gauge from all books after a sync that processed the books in news.
func (c *Controller) count(news []*book) {
	all := map[string]int{stateWaiting: 0, stateDue: 0, stateWithheld: 0, stateBlocked: 0}
	for _, b := range c.books {
		due := b.due
		if !slices.Contains(news, b) {
			due = nil // it was processed earlier
		}
		for state, n := range b.ledger.count(due, b.withheld) {
			all[state] += n
		}
	}
	for state, n := range all {
		orphans.WithLabelValues(state).Set(float64(n))
	}
}

// count counts the candidates by state, after a sync with the given due and withheld ones.
func (l ledger) count(due, withheld []string) map[string]int {
	states := map[string]int{stateWithheld: len(withheld)}
	counted := map[string]bool{}
	for _, uid := range withheld {
		counted[uid] = true
	}
	for _, uid := range due {
		if n, still := l.notes[uid]; still && !counted[uid] && n.blocked.IsZero() {
			counted[uid] = true
			states[stateDue]++
		}
	}
	for uid, n := range l.notes {
		switch {
		case counted[uid]:
		case n.blocked.IsZero():
			states[stateWaiting]++
		default:
			states[stateBlocked]++
		}
	}
	return states
}
