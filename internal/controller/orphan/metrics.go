package orphan

import (
	"time"

	"cloudteam.ztgame.com/network-controller/internal/metric"
)

// The states of candidates, as in the metric's label.
const (
	stateWaiting  = "waiting"
	stateDue      = "due"
	stateWithheld = "withheld"
	stateBlocked  = "blocked"
)

var (
	orphans = metric.Gauges("network_controller_orphans",
		"Objects that are gone and own resources in Neutron, as of the last audit, by state: waiting (for the grace "+
			"period to end), due (to be removed with the next audit), withheld (more than may be removed without an "+
			"operator's word), blocked (in use, or with a subnet that is not ours).", "state")
	removed = metric.Counter("network_controller_orphans_removed_total",
		"Objects that were gone and whose resources were removed from Neutron.")
)

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
