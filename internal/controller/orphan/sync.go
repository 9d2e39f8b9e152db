package orphan

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// Sync looks at what the last audit showed, where that was not looked at yet, and removes what is due. It is a
// controller.Sync. What fails is tried again with a later audit; to try sooner would be to act twice on one list.
func (c *Controller) Sync(ctx context.Context, _ cache.ObjectName) (controller.Result, error) {
	if v, ok := c.view(); ok {
		if v.of != c.of {
			// What was seen of another project tells nothing of this one.
			c.ledger, c.of = ledger{}, v.of
		}
		c.look(neutron.Within(ctx, v.of), v)
	}
	return controller.Result{RequeueAfter: c.options.Interval}, nil
}

// view is what is known now. It reports false where nothing is, or where nothing is new.
func (c *Controller) view() (view, bool) {
	// The owners first: an object is in the caches before anything is made for it.
	owners, audited, of, ok := c.inventory.Owners()
	if !ok || !audited.After(c.ledger.audited) {
		return view{}, false
	}
	known := map[string]bool{}
	for _, objects := range c.objects {
		for _, obj := range objects.List() {
			if object, err := meta.Accessor(obj); err == nil {
				known[string(object.GetUID())] = true
			}
		}
	}
	for _, uid := range c.options.Remembered() {
		known[string(uid)] = true
	}
	exists := func(uid string) bool { return known[uid] }
	return view{now: time.Now(), owners: owners, audited: audited, of: of, exists: exists}, true
}

// look takes in a view and removes what is due.
func (c *Controller) look(ctx context.Context, v view) {
	was := c.ledger
	var due []string
	c.ledger, due = was.next(v, c.options.Rules)
	c.tellCandidates(ctx, was, v)

	var judged verdict
	if len(due) > 0 {
		live, err := c.live(ctx)
		c.tellReading(ctx, err)
		if err == nil {
			judged = c.ledger.judge(due, live, v, c.options.Rules)
			c.tellExist(ctx, judged.exist)
			for _, uid := range judged.exist {
				delete(c.ledger.notes, uid)
			}
			c.tellWithheld(ctx, judged.withheld, len(v.owners))
		}
	} else {
		c.tellWithheld(ctx, nil, len(v.owners))
	}
	for _, uid := range judged.remove {
		if c.stopping.Load() {
			break
		}
		c.remove(ctx, uid, v)
	}
	count(c.ledger, due, judged.withheld)
}

// remove removes what an object that is gone owns, and notes how that went.
func (c *Controller) remove(ctx context.Context, uid string, v view) {
	logger := klog.FromContext(ctx).WithValues("uid", uid)
	owner := network.Owner{Cluster: c.options.Cluster, Object: uid}
	_, err := owned.Removal{
		Look: func(ctx context.Context) (network.Observed, error) {
			return c.inventory.Observed(ctx, owner, v.audited)
		},
		Plan: func(observed network.Observed) (network.Change, error) {
			change, err := network.PlanOrphan(owner, observed)
			for i := range change {
				change[i].Reason = "its object is gone"
			}
			return change, err
		},
		Apply: func(ctx context.Context, change network.Change) (network.Change, error) {
			done, err := c.inventory.Apply(ctx, change)
			for _, step := range done {
				logger.Info("Applied", "step", step.String())
			}
			return done, err
		},
	}.Run(ctx, c.inventory)
	if err == nil {
		delete(c.ledger.notes, uid)
		removed.Inc()
		return
	}
	if ctx.Err() != nil {
		return // told to stop
	}

	n := c.ledger.notes[uid]
	verbosity := 0
	if n.told == err.Error() {
		verbosity = 2
	}
	n.told = err.Error()
	if isBlocked(err) {
		n.blocked = time.Now()
		logger.V(verbosity).Info("Left what is in Neutron of an object that is gone: something else needs it, and it "+
			"is tried again later", "err", err, "networks", v.owners[uid].Networks, "ports", v.owners[uid].Ports)
	} else {
		logger.V(verbosity).Info("Removing what is in Neutron of an object that is gone failed, will try again with "+
			"the next audit", "err", err)
	}
	c.ledger.notes[uid] = n
}

// isBlocked reports whether an error says that something which is not ours stands in the way.
func isBlocked(err error) bool {
	if _, foreign := errors.AsType[*network.BlockedError](err); foreign {
		return true
	}
	return neutron.KindOf(err) == neutron.InUse
}
