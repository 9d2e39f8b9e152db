package inventory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// The pause between failed audits doubles from auditBackoffFirst to auditBackoffLast.
const (
	auditBackoffFirst = time.Second
	auditBackoffLast  = 30 * time.Second
)

// Run audits until ctx is done: at once and after each interval. After a failure it retries with backoff, or after the
// cloud's Retry-After if that is longer.
func (i *Inventory) Run(ctx context.Context) {
	for {
		i.Fill(ctx)
		if ctx.Err() != nil || i.options.Interval <= 0 {
			return
		}
		client.Pause(ctx, client.Jitter(i.options.Interval), nil)
	}
}

// Fill audits until one audit succeeds or ctx is done. It uses the same backoff as Run and retries at once when an
// outage ends (see client.Cloud.Run).
func (i *Inventory) Fill(ctx context.Context) {
	for backoff := auditBackoffFirst; ctx.Err() == nil; backoff = min(2*backoff, auditBackoffLast) {
		err := i.Audit(ctx)
		if err == nil {
			return
		}
		pause := client.Jitter(backoff)
		over := i.cloud.OutageEnd()
		// If the outage has ended already, no signal follows: do not wait for it.
		if asked, ok := errors.AsType[*client.Error](err); ok && (over != nil || !errors.Is(err, client.ErrOutage)) {
			pause = max(pause, asked.Wait)
		}
		client.Pause(ctx, pause, over)
	}
}

// Audit lists everything now and updates the Inventory, address counts included.
func (i *Inventory) Audit(ctx context.Context) error {
	began := time.Now()
	moved, err := i.listSince(ctx, began)
	if err == nil {
		err = i.countAddresses(ctx)
	}
	audit := Audit{Duration: time.Since(began), Moved: len(moved), Err: err}
	i.mu.RLock()
	audit.Networks, audit.Ports = len(i.networks.held), len(i.ports.held)
	i.mu.RUnlock()
	i.options.Audited(audit)
	return err
}

// Synced reports whether a list has ever completed. If not, it returns why the last one failed (nil while the first one
// is under way).
func (i *Inventory) Synced() (bool, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return !i.began.IsZero(), i.failed
}

// flight is a list under way, shared by all who wait for it.
type flight struct {
	began time.Time
	of    client.Identity
	done  chan struct{}
	moved []string
	err   error
}

// listSince waits for a complete list that began at since or later, and starts one if necessary. It returns the objects
// that changed in a list for which it waited.
func (i *Inventory) listSince(ctx context.Context, since time.Time) ([]string, error) {
	// No list begins in the future: waiting for one would list forever.
	if now := time.Now(); since.After(now) {
		since = now
	}
	project, bound := client.Wanted(ctx)
	for {
		i.mu.Lock()
		if !i.began.IsZero() && !i.began.Before(since) && (!bound || project == i.of) {
			i.mu.Unlock()
			return nil, nil
		}
		f := i.flight
		if f == nil {
			f = &flight{began: time.Now(), done: make(chan struct{})}
			i.flight = f
			i.room.listBegins()
			for _, s := range i.stocks {
				s.listBegins()
			}
			// Several callers may wait for the list. It must not end when the first one leaves.
			go i.list(context.WithoutCancel(ctx), f)
		}
		i.mu.Unlock()

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if errors.Is(f.err, client.ErrOutage) && i.cloud.OutageEnd() == nil {
			continue // the outage that stopped it is over: retry
		}
		if !f.began.Before(since) && (f.err != nil || !bound || project == f.of) {
			return f.moved, f.err
		}
	}
}

// listTimeout bounds one complete list of any number of pages.
const listTimeout = 10 * time.Minute

// list reads everything that we own and updates the Inventory.
func (i *Inventory) list(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	used := usage{}
	keeps, of, err := i.readProject(ctx, used)

	i.mu.Lock()
	f.of = of
	moved := map[string]bool{}
	if err == nil {
		if i.of != of && !i.began.IsZero() {
			// The Inventory holds another project's resources. Even recent writes to them are not newer than the list.
			for _, s := range i.stocks {
				s.clear(moved)
			}
			i.counts = counts{foreign: i.counts.foreign}
		}
		i.of = of
		for _, keep := range keeps {
			keep(moved)
		}
		f.moved = slices.Sorted(maps.Keys(moved))
		i.counts.seen = used
		i.recount(moved)
		i.began = f.began
	}
	i.room.listEnds(err == nil)
	i.failed = err
	i.flight = nil
	i.mu.Unlock()

	// Callers that wait for the list rely on all handlers having been told.
	i.tell(moved)
	f.err = err
	close(f.done)
}

// tell calls Options.Moved for the owners of resources that moved.
func (i *Inventory) tell(moved map[string]bool) {
	for _, object := range slices.Sorted(maps.Keys(moved)) {
		i.options.Moved(object)
	}
}

// opObserve is the operation's name in errors of Observed.
const opObserve = "observe"

// readProject reads what we own in the project of the credentials, or in the one that ctx is Within. It counts the
// addresses of all the project's ports. It fails if the credentials change meanwhile.
func (i *Inventory) readProject(
	ctx context.Context, used usage,
) (keeps []func(moved map[string]bool), of client.Identity, err error) {
	of, bound := client.Wanted(ctx)
	if !bound {
		if of, err = i.cloud.Identity(ctx); err != nil {
			return nil, of, err
		}
	}
	for _, s := range i.stocks {
		keep, err := s.list(client.Within(ctx, of), used)
		if err != nil {
			return nil, of, err
		}
		keeps = append(keeps, keep)
	}
	return keeps, of, nil
}
