package orphan

import (
	"context"
	"slices"

	"k8s.io/klog/v2"
)

// shown is how many UIDs a log line names.
const shown = 10

// first gives the UIDs that a log line names, of sorted ones.
func first(uids []string) []string { return uids[:min(len(uids), shown)] }

// tellExist logs objects that the caches lack.
func (c *Controller) tellExist(ctx context.Context, exist []candidate) {
	var uids []string
	for _, o := range exist {
		uids = append(uids, o.uid)
	}
	if slices.Sort(uids); len(uids) > 0 {
		klog.FromContext(ctx).Info("Objects exist at the API server but in no cache; their resources stay",
			"objects", len(uids), "uids", first(uids))
	}
}

// tellReading logs when the live list begins to fail, and when it succeeds again.
func (c *Controller) tellReading(ctx context.Context, err error) {
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

// tellWithheld logs each change of the orphans that exceed the share of the owners.
func (c *Controller) tellWithheld(ctx context.Context, owners int) {
	var uids []string
	for _, b := range c.books {
		for uid, n := range b.notes {
			if n.withheld {
				uids = append(uids, uid)
			}
		}
	}
	slices.Sort(uids)
	uids = slices.Compact(uids)
	if slices.Equal(uids, c.withheld) {
		return
	}
	c.withheld = uids
	logger := klog.FromContext(ctx)
	switch {
	case len(uids) == 0:
		logger.Info("Orphan cleanup resumed")
	case c.options.MaxShare <= 0:
		logger.Info("Orphans are left in Neutron (--orphan-max-share=0)", "objects", len(uids), "uids", first(uids))
	default:
		logger.Error(nil, "Orphan cleanup halted: more orphans than --orphan-max-share allows. If this cluster lost its "+
			"objects, restore them. To remove what they left, run once with --orphan-max-share=1 until the grace period "+
			"ends", "objects", len(uids), "ofOwners", owners, "allowed", c.options.Allowance(owners), "uids", first(uids))
	}
}
