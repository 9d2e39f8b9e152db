package batch

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// send sends creates in one call, or in several if Neutron refuses some of them. It gives each caller its result.
func (b *Queue) send(under *slot, l *line, batch []*pendingCreate) {
	ctx, done := forAll(batch)
	defer done()
	op := batch[0].Op
	var errs []error
	halved := false
	for groups := [][]*pendingCreate{batch}; len(groups) > 0; {
		group := groups[0]
		groups = groups[1:]
		if halved {
			// A caller that has left will check the outcome: nothing may be created after that check.
			group = slices.DeleteFunc(slices.Clone(group), func(c *pendingCreate) bool { return c.ctx.Err() != nil })
			if len(group) == 0 {
				continue
			}
		}
		var bodies []map[string]any
		for _, c := range group {
			bodies = append(bodies, c.Body)
		}
		made, err := b.options.Post(ctx, op, l.of, bodies)
		errs = append(errs, err)
		oneByOne := false
		if err != nil && len(group) > 1 {
			oneByOne = b.options.Refused(l.of, itemsOf(group), err)
		}
		switch {
		case err == nil:
			for i, c := range group {
				c.result <- created{made: made[i]}
			}
		case oneByOne && declined(err):
			halved = true
			groups = each(slices.Concat(append([][]*pendingCreate{group}, groups...)...))
			continue
		case len(group) > 1 && declined(err):
			halved = true
			half := len(group) / 2
			groups = append([][]*pendingCreate{group[:half], group[half:]}, groups...)
			continue
		default:
			told := group
			if concernsAll(err) {
				told, groups = slices.Concat(append([][]*pendingCreate{group}, groups...)...), nil
			}
			for _, c := range told {
				c.result <- created{err: err}
			}
		}
		b.remember(group, err, halved)
	}
	b.mu.Lock()
	if len(batch) > 1 {
		b.busy = time.Now()
	}
	b.mu.Unlock()
	under.end(errs...)
}

func itemsOf(group []*pendingCreate) []Item {
	items := make([]Item, len(group))
	for at, c := range group {
		items[at] = c.Item
	}
	return items
}

// each splits creates into groups of one.
func each(creates []*pendingCreate) (groups [][]*pendingCreate) {
	for c := range slices.Chunk(creates, 1) {
		groups = append(groups, c)
	}
	return groups
}

// declined reports whether Neutron, or a proxy, refused a create: nothing was created. If the call had several creates,
// some may succeed alone. A failed log-in is not a refusal of the create.
func declined(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && !e.MaybeDone && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin() &&
		(e.Kind != client.Transient || e.Status >= http.StatusBadRequest)
}

// concernsAll reports whether the error of one create applies to the rest of its batch. A quota without room for one
// has no room for the next, and a rate limit applies to all.
func concernsAll(err error) bool {
	kind := client.KindOf(err)
	return kind == client.Capacity || kind == client.Throttled
}

// together reports whether two creates may share a call: both need the same project (client.Within).
func together(a, b *pendingCreate) bool {
	project, bound := client.Wanted(a.ctx)
	other, otherBound := client.Wanted(b.ctx)
	return project == other && bound == otherBound
}

// forAll returns a context that ends when all callers' contexts have ended, because the call serves all of them. done
// releases its resources.
func forAll(batch []*pendingCreate) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var left atomic.Int64
	left.Store(int64(len(batch)))
	var stops []func() bool
	for _, c := range batch {
		stops = append(stops, context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// suspect is a create that failed, in a batch or alone.
type suspect struct {
	// most is how many creates may go in one call with it at a retry, itself included.
	most  int
	until time.Time
}

// suspicion is how long a create stays a suspect. It is longer than any usual backoff.
const suspicion = 10 * time.Minute

// remember records how many creates may go together at a retry. If a call fails with unknown cause (one create provokes
// a 500 each time), each retry halves the group. A create that was refused alone, after its batch was split, goes
// alone.
func (b *Queue) remember(group []*pendingCreate, err error, halved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := 0
	switch {
	case client.MaybeDone(err) && (len(group) > 1 || group[0].most < maxBatch):
		most = max(1, len(group)/2)
	case err != nil && len(group) == 1 && halved && declined(err):
		most = 1
	}
	now := time.Now()
	if most > 0 {
		maps.DeleteFunc(b.suspects, func(_ string, s suspect) bool { return now.After(s.until) })
	}
	for _, c := range group {
		if most > 0 {
			b.suspects[c.Key] = suspect{most, now.Add(suspicion)}
		} else {
			delete(b.suspects, c.Key)
		}
	}
}

// mostWith returns how many creates may go in one call with the create of a key. The caller holds mu.
func (b *Queue) mostWith(key string) int {
	if s, ok := b.suspects[key]; ok && time.Now().Before(s.until) {
		return s.most
	}
	return maxBatch
}
