package orphan

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// book is what is known of the orphans of one cloud.
type book struct {
	inventory Inventory
	ledger    ledger
	// of is the project of the ledger.
	of client.Identity
	// view is the last one, and due are those that were due in it. withheld are those that the last verdict withheld.
	view          view
	due, withheld []string
}

// Sync processes the audits that are new since its last call, and removes what is due. It is a controller.Sync. A
// failure is retried with a later audit: an earlier retry would act twice on one list.
func (c *Controller) Sync(ctx context.Context, _ cache.ObjectName) (controller.Result, error) {
	c.openBooks()
	if news := c.read(ctx); len(news) > 0 {
		c.look(ctx, news)
	}
	return controller.Result{RequeueAfter: c.options.Interval}, nil
}

// openBooks makes c.books hold one book for each existing cloud.
func (c *Controller) openBooks() {
	inventories := []Inventory{c.inventory}
	if c.options.Others != nil {
		inventories = append(inventories, c.options.Others()...)
	}
	books := make([]*book, len(inventories))
	for i, inventory := range inventories {
		at := slices.IndexFunc(c.books, func(b *book) bool { return b.inventory == inventory })
		if at < 0 {
			books[i] = &book{inventory: inventory}
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
		owners, audited, of, ok := b.inventory.Owners()
		if ok && audited.After(b.ledger.audited) {
			b.view = view{owners: owners, audited: audited, of: of}
			news = append(news, b)
		}
	}
	if len(news) == 0 {
		return nil
	}
	known := c.known()
	for _, b := range news {
		if b.view.of != b.of {
			// The records of another project say nothing about this one.
			b.ledger, b.of = ledger{}, b.view.of
		}
		b.view.now = time.Now()
		b.view.exists = func(uid string) bool { return known[uid] }
		was := b.ledger
		b.ledger, b.due = was.next(b.view, c.options.Rules)
		tellCandidates(ctx, was, b.ledger, b.view, c.options.Grace)
	}
	return news
}

// known gives the UIDs of the objects that a cache has, or whose resources this process manages.
func (c *Controller) known() map[string]bool {
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
	return known
}

// look judges what is due in the books, and removes it as the verdict says.
func (c *Controller) look(ctx context.Context, news []*book) {
	var live map[string]bool
	if slices.ContainsFunc(news, func(b *book) bool { return len(b.due) > 0 }) {
		var err error
		live, err = c.live(ctx)
		c.tellReading(ctx, err)
		if err != nil {
			c.count(news)
			return
		}
	}
	all := c.tally(news, live)
	judged := make([]verdict, len(news))
	for i, b := range news {
		b.view.all = all
		judged[i] = b.ledger.judge(b.due, live, b.view, c.options.Rules)
	}
	for i, b := range news {
		b.withheld = judged[i].withheld
		c.tellExist(ctx, judged[i].exist)
		for _, uid := range judged[i].exist {
			delete(b.ledger.notes, uid)
		}
	}
	var withheld []string
	for _, b := range c.books {
		withheld = append(withheld, b.withheld...)
	}
	c.tellWithheld(ctx, withheld, all.owners)
	for i, b := range news {
		for _, uid := range judged[i].remove {
			if c.stopping.Load() {
				break
			}
			c.remove(client.Within(ctx, b.of), b, uid)
		}
	}
	c.count(news)
}

// tally counts over all books: what is new in those in news, and what was withheld in the others. Two clouds may lead
// to one project, so an owner in both counts once.
func (c *Controller) tally(news []*book, live map[string]bool) tally {
	owners, due := map[string]bool{}, map[string]bool{}
	for _, b := range c.books {
		for uid := range b.view.owners {
			owners[uid] = true
		}
		fresh := b.withheld
		if slices.Contains(news, b) {
			_, fresh, _ = b.ledger.sort(b.due, live)
		}
		for _, uid := range fresh {
			due[uid] = true
		}
	}
	return tally{owners: len(owners), due: len(due)}
}

// remove removes what a deleted object owns, and records the outcome.
func (c *Controller) remove(ctx context.Context, b *book, uid string) {
	logger := klog.FromContext(ctx).WithValues("uid", uid)
	owner := plan.Owner{Cluster: c.options.Cluster, Object: uid}
	_, err := managed.Removal{
		Look: func(ctx context.Context) (plan.Observed, error) {
			return b.inventory.Observed(ctx, owner, b.view.audited)
		},
		Plan: func(observed plan.Observed) (plan.Change, error) {
			change, err := plan.Orphan(owner, observed)
			for i := range change {
				change[i].Reason = "its object is gone"
			}
			return change, err
		},
		Apply: func(ctx context.Context, change plan.Change) (plan.Change, error) {
			done, err := b.inventory.Apply(ctx, change)
			for _, step := range done {
				logger.Info("Applied step", "step", step.String())
			}
			return done, err
		},
	}.Run(ctx, b.inventory)
	if err == nil {
		delete(b.ledger.notes, uid)
		removed.Inc()
		return
	}
	if ctx.Err() != nil {
		return // the process is stopping
	}

	n := b.ledger.notes[uid]
	verbosity := 0
	if n.told == err.Error() {
		verbosity = 2
	}
	n.told = err.Error()
	if isBlocked(err) {
		n.blocked = time.Now()
		logger.V(verbosity).Info("Orphan cleanup blocked: the resources are in use; retrying after the grace period",
			"err", err, "resources", b.view.owners[uid])
	} else {
		logger.V(verbosity).Info("Orphan cleanup failed; retrying with the next audit", "err", err)
	}
	b.ledger.notes[uid] = n
}

// isBlocked reports whether an error says that something which is not ours blocks the removal.
func isBlocked(err error) bool {
	if _, foreign := errors.AsType[*plan.BlockedError](err); foreign {
		return true
	}
	return client.KindOf(err) == client.InUse
}
