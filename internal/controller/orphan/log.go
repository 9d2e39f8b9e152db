package orphan

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/metric"
)

// shown is how many UIDs a log line names.
const shown = 10

// first gives the UIDs that a log line names, of sorted ones.
func first(uids []string) []string { return uids[:min(len(uids), shown)] }

// logExist logs objects that the caches lack.
func (c *Controller) logExist(ctx context.Context, exist []candidate) {
	var uids []string
	for _, o := range exist {
		uids = append(uids, o.uid)
	}
	if slices.Sort(uids); len(uids) > 0 {
		klog.FromContext(ctx).Info("Objects exist at the API server but in no cache; their resources stay",
			"objects", len(uids), "uids", first(uids))
	}
}

// logReading logs when the live list begins to fail, and when it succeeds again.
func (c *Controller) logReading(ctx context.Context, err error) {
	logger := klog.FromContext(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.unread:
	case err != nil:
		logger.Info("Listing objects failed; no orphans are removed until the next success", "err", err)
	default:
		logger.Info("Listing objects succeeded again")
	}
	c.unread = text
}

// logWithheld logs each change of the orphans that are withheld, of each tenant apart. owners is how many there are of
// each.
func (c *Controller) logWithheld(ctx context.Context, owners map[string]int) {
	withheld := map[string][]string{}
	for _, b := range c.books {
		for uid, n := range b.notes {
			if n.withheld {
				withheld[b.tenant] = append(withheld[b.tenant], uid)
			}
		}
	}
	for tenant, uids := range withheld {
		slices.Sort(uids)
		withheld[tenant] = slices.Compact(uids)
	}
	was := c.withheld
	c.withheld = withheld
	for _, tenant := range slices.Sorted(maps.Keys(withheld)) {
		if uids := withheld[tenant]; !slices.Equal(uids, was[tenant]) {
			c.logHalt(logOf(ctx, tenant), tenant, uids, owners[tenant])
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(was)) {
		if len(withheld[tenant]) == 0 {
			logOf(ctx, tenant).Info("Orphan cleanup resumed")
		}
	}
}

// logHalt logs why a tenant's orphans, or the operator's, are withheld.
func (c *Controller) logHalt(logger klog.Logger, tenant string, uids []string, owners int) {
	allowed := c.options.Allowance(owners)
	switch {
	case c.options.MaxShare <= 0:
		logger.Info("Orphans are left in Neutron (--orphan-max-share=0)", "objects", len(uids), "uids", first(uids))
	case tenant != "" && len(uids) <= allowed:
		logger.Info("Orphan cleanup halted in the clouds of a namespace: too many of the operator's objects are missing. "+
			"Cleanup resumes when these objects exist again, or when the operator runs it",
			"objects", len(uids), "uids", first(uids))
	default:
		logger.Error(nil, "Orphan cleanup halted: more orphans than --orphan-max-share allows. If this cluster lost its "+
			"objects, restore them. To remove what they left, run once with --orphan-max-share=1 until the grace period "+
			"ends", "objects", len(uids), "ofOwners", owners, "allowed", allowed, "uids", first(uids))
	}
}

// logOf gives the log of a tenant's clouds, or of the operator's.
func logOf(ctx context.Context, tenant string) klog.Logger {
	if tenant == "" {
		return klog.FromContext(ctx)
	}
	return klog.FromContext(ctx).WithValues("namespace", tenant)
}

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
