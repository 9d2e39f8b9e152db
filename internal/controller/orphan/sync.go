package orphan

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Sync processes the audits that are new since its last call, and removes what is due. It is a controller.Sync. A
// failure is retried with a later audit: an earlier retry would act twice on one list.
func (c *Controller) Sync(ctx context.Context, _ cache.ObjectName) (controller.Result, error) {
	c.openBooks()
	if news := c.read(ctx); len(news) > 0 {
		c.clean(ctx, news)
		c.count()
	}
	return controller.Result{RequeueAfter: c.options.Interval}, nil
}

// openBooks makes c.books hold one book for each existing cloud.
func (c *Controller) openBooks() {
	clouds := []Other{{Inventory: c.inventory}}
	if c.options.Others != nil {
		clouds = append(clouds, c.options.Others()...)
	}
	books := make([]*book, len(clouds))
	for i, cloud := range clouds {
		at := slices.IndexFunc(c.books, func(b *book) bool { return b.inventory == cloud.Inventory })
		if at < 0 {
			books[i] = &book{inventory: cloud.Inventory, tenant: cloud.Tenant}
		} else {
			books[i] = c.books[at]
		}
	}
	c.books = books
}

// read takes in the current state, and gives the books that have a new audit.
func (c *Controller) read(ctx context.Context) (news []*book) {
	// Read the owners first: an object is in the caches before anything is created for it.
	for _, b := range c.books {
		if owners, audited, of, ok := b.inventory.Owners(); ok && b.take(owners, audited, of) {
			news = append(news, b)
		}
	}
	if len(news) == 0 {
		return nil
	}
	known := c.known()
	for _, b := range news {
		logger := logOf(ctx, b.tenant)
		came, back := b.update(func(uid string) bool { return known[uid] }, time.Now())
		if len(came) > 0 {
			logger.Info("Found orphans; their resources are removed after the grace period", "objects", len(came),
				"ofOwners", len(b.owners), "uids", first(came), "grace", c.options.Grace)
		}
		if len(back) > 0 {
			logger.Info("Missing objects exist again; their resources stay", "objects", len(back), "uids", first(back))
		}
	}
	return news
}

// known gives the UIDs of the objects that a cache has, or whose resources this process manages.
func (c *Controller) known() map[string]bool {
	known := map[string]bool{}
	for _, objects := range c.objects {
		for _, obj := range controller.All[metav1.Object](objects) {
			known[string(obj.GetUID())] = true
		}
	}
	for _, uid := range c.options.Remembered() {
		known[string(uid)] = true
	}
	return known
}

// clean judges what is due in the books, and removes it as the verdict says.
func (c *Controller) clean(ctx context.Context, news []*book) {
	var due []candidate
	for _, b := range news {
		if b.inventory.Settled() { // else another cluster with the same UID may have the objects
			due = append(due, b.due(c.options.Rules, time.Now())...)
		}
	}
	var live map[string]bool
	if len(due) > 0 {
		var err error
		live, err = c.live(ctx)
		c.logReading(ctx, err)
		if err != nil {
			return
		}
	}
	v := judge(c.books, due, live, c.options.Rules)
	c.logExist(ctx, v.exist)
	for _, o := range v.exist {
		delete(o.in.notes, o.uid)
	}
	for _, o := range v.withheld {
		o.note().withheld = true
	}
	for _, o := range v.remove {
		o.note().withheld = false
	}
	c.logWithheld(ctx, v.owners)
	for _, o := range v.remove {
		if c.stopping.Load() {
			break
		}
		c.remove(client.Within(ctx, o.in.of), o)
	}
}

// remove removes what a deleted object owns, and records the outcome.
func (c *Controller) remove(ctx context.Context, o candidate) {
	in := o.in.inventory
	logger := klog.FromContext(ctx).WithValues("uid", o.uid)
	owner := plan.Owner{Cluster: c.options.Cluster, Object: o.uid}
	_, err := managed.Removal{
		Look: func(ctx context.Context) (plan.Observed, error) {
			return in.Observed(ctx, owner, o.in.audited)
		},
		Plan: func(observed plan.Observed) (plan.Change, error) {
			change, err := plan.Orphan(owner, observed)
			for i := range change {
				change[i].Reason = "its object is gone"
			}
			return change, err
		},
		Apply: func(ctx context.Context, change plan.Change) (plan.Change, error) {
			done, err := in.Apply(ctx, change)
			for _, step := range done {
				logger.Info("Applied step", "step", step.String())
			}
			return done, err
		},
	}.Run(ctx, in)
	if err == nil {
		delete(o.in.notes, o.uid)
		removed.Inc()
		return
	}
	if ctx.Err() != nil {
		return // the process is stopping
	}

	n := o.note()
	if n.told == err.Error() {
		logger = logger.V(2)
	}
	n.told = err.Error()
	n.tried, n.blocked = time.Now(), isBlocked(err)
	if n.blocked {
		logger.Info("Orphan cleanup blocked: the resources are in use; retrying after the grace period",
			"err", err, "resources", o.resources())
	} else {
		logger.Info("Orphan cleanup failed; retrying with the next audit", "err", err)
	}
}

// isBlocked reports whether an error says that something which is not ours blocks the removal.
func isBlocked(err error) bool {
	if _, foreign := errors.AsType[*plan.BlockedError](err); foreign {
		return true
	}
	if _, used := errors.AsType[*plan.InUseError](err); used {
		return true
	}
	return client.KindOf(err) == client.InUse
}
