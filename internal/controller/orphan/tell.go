package orphan

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// shown is how many UIDs a log line names.
const shown = 10

// first gives the UIDs that a log line names.
func first(uids []string) []string { return uids[:min(len(uids), shown)] }

// tellCandidates logs who became a candidate with the last view, and who no longer is one.
func tellCandidates(ctx context.Context, was, is ledger, v view, grace time.Duration) {
	logger := klog.FromContext(ctx)
	var came, back []string
	for uid := range is.notes {
		if _, known := was.notes[uid]; !known {
			came = append(came, uid)
		}
	}
	for uid := range was.notes {
		if _, still := is.notes[uid]; !still && v.exists(uid) {
			back = append(back, uid)
		}
	}
	if len(came) > 0 {
		came = sorted(came)
		logger.Info("Found orphans; their resources are removed after the grace period", "objects", len(came),
			"ofOwners", len(v.owners), "uids", first(came), "grace", grace)
	}
	if len(back) > 0 {
		logger.Info("Missing objects exist again; their resources stay", "objects", len(back),
			"uids", first(sorted(back)))
	}
}

// tellExist logs objects that the caches lack.
func (c *Controller) tellExist(ctx context.Context, uids []string) {
	if len(uids) > 0 {
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

// tellWithheld logs each change of the orphans that exceed the share.
func (c *Controller) tellWithheld(ctx context.Context, uids []string, owners int) {
	uids = slices.Compact(sorted(uids))
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
			"ends", "objects", len(uids), "ofOwners", owners, "allowed", c.options.allowance(owners), "uids", first(uids))
	}
}
