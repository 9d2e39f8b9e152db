package orphan

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// shown is how many UIDs a line of the log names.
const shown = 10

// first are the UIDs that a line of the log names.
func first(uids []string) []string { return uids[:min(len(uids), shown)] }

// tellCandidates tells who became a candidate with the last view, and who is none any more.
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
		logger.Info("Found resources in Neutron whose objects are gone: they are removed after the grace period, unless "+
			"the objects show up", "objects", len(came), "ofOwners", len(v.owners), "uids", first(came),
			"grace", grace)
	}
	if len(back) > 0 {
		logger.Info("Objects that were missing are there: their resources stay", "objects", len(back),
			"uids", first(sorted(back)))
	}
}

// tellExist tells that the caches are wrong.
func (c *Controller) tellExist(ctx context.Context, uids []string) {
	if len(uids) > 0 {
		klog.FromContext(ctx).Info("Objects that the caches do not have exist at the API server: their resources stay",
			"objects", len(uids), "uids", first(uids))
	}
}

// tellReading tells when what exists cannot be read, and when it can again.
func (c *Controller) tellReading(ctx context.Context, err error) {
	logger := klog.FromContext(ctx)
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.unread:
	case err != nil:
		logger.Info("Objects cannot be listed at the API server: nothing of those that seem to be gone is removed",
			"err", err)
	default:
		logger.Info("Objects can be listed at the API server again")
	}
	c.unread = text
}

// tellWithheld tells when those change who are due and more than may go.
func (c *Controller) tellWithheld(ctx context.Context, uids []string, owners int) {
	uids = slices.Compact(sorted(uids))
	if slices.Equal(uids, c.withheld) {
		return
	}
	c.withheld = uids
	logger := klog.FromContext(ctx)
	switch {
	case len(uids) == 0:
		logger.Info("No more orphans are due than may be removed in one audit")
	case c.options.MaxShare <= 0:
		logger.Info("Resources in Neutron are left whose objects are gone, as --orphan-max-share=0 says",
			"objects", len(uids), "uids", first(uids))
	default:
		logger.Error(nil, "More orphans are due than may be removed in one audit: none is. Were the objects of this "+
			"cluster lost, restore them. If their networks and ports are to go, start once with --orphan-max-share=1 "+
			"and wait for the grace period", "objects", len(uids), "ofOwners", owners,
			"allowed", c.options.allowance(owners), "uids", first(uids))
	}
}
