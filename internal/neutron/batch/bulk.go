package batch

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// send sends creates in one call, or in several if Neutron refuses some of them. It gives each caller its outcome.
func (b *Queue) send(s *slot, of client.Collection, batch []*pending) {
	ctx, done := forAll(batch)
	defer done()
	var errs []error // one per call
	for groups := [][]*pending{batch}; len(groups) > 0; {
		group := groups[0]
		groups = groups[1:]
		again := len(errs) > 0
		group = slices.DeleteFunc(slices.Clone(group), func(p *pending) bool {
			// A caller that has left will check the outcome: nothing may be created after that check.
			if again && p.ctx.Err() != nil {
				return true
			}
			err := client.AskPermit(p.ctx)
			if err != nil {
				p.outcome <- outcome{err: client.NotPermitted(p.Op, err)}
			}
			return err != nil
		})
		if len(group) == 0 {
			continue
		}
		items, bodies := make([]Item, len(group)), make([]map[string]any, len(group))
		for i, p := range group {
			items[i], bodies[i] = p.Item, p.Body
		}
		made, err := b.post(client.WithPermit(ctx, func() error { return mayAll(group) }), of, group, items[0].Op, bodies)
		if err != nil && !client.MaybeDone(err) && mayAll(group) != nil {
			groups = append([][]*pending{group}, groups...) // without those that may not any more
			continue
		}
		errs = append(errs, err)
		oneByOne := err != nil && len(group) > 1 && b.options.Refused(of, items, err)
		rest := slices.Concat(append([][]*pending{group}, groups...)...)
		switch {
		case err == nil:
			for i, p := range group {
				p.outcome <- outcome{made: made[i]}
			}
		case oneByOne && declined(err):
			groups = slices.Collect(slices.Chunk(rest, 1))
			continue
		case len(group) > 1 && declined(err):
			half := len(group) / 2
			groups = append([][]*pending{group[:half], group[half:]}, groups...)
			continue
		default:
			told := group
			if concernsAll(err) {
				told, groups = rest, nil
			}
			for _, p := range told {
				p.outcome <- outcome{err: asTold(err, len(told))}
			}
		}
		b.remember(group, err, len(errs) > 1)
	}
	s.end(errs...)
}

// post sends the creates of one call. In a trace, the call is within the span of its only caller, or within one that
// links to those of all.
func (b *Queue) post(
	ctx context.Context, of client.Collection, group []*pending, op string, bodies []map[string]any,
) ([]json.RawMessage, error) {
	if len(group) == 1 {
		span := trace.SpanFromContext(group[0].ctx) //nolint:contextcheck // the caller's
		if span != trace.SpanFromContext(ctx) {
			ctx = trace.ContextWithSpan(ctx, span)
		}
		ctx = inspect.Join(ctx, []context.Context{group[0].ctx})
		return b.options.Post(ctx, op, of, bodies)
	}
	callers := make([]context.Context, len(group))
	for i, p := range group {
		callers[i] = p.ctx
	}
	ctx, span := tracing.Join(inspect.Join(ctx, callers), "bulk", callers)
	made, err := b.options.Post(ctx, op, of, bodies)
	tracing.End(span, client.Word(err))
	return made, err
}

// mayAll returns why one of the callers may not write any more; nil if all may.
func mayAll(group []*pending) error {
	for _, p := range group {
		if err := client.AskPermit(p.ctx); err != nil {
			return err
		}
	}
	return nil
}

// declined reports whether Neutron, or a proxy, refused a create: nothing was created. If the call had several creates,
// some may succeed alone. A failed log-in is not a refusal of the create.
func declined(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && !e.MaybeDone && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin() &&
		(e.Kind != client.Transient || e.Status >= http.StatusBadRequest)
}

// concernsAll reports whether the error of one create applies to the rest of its batch. A quota without room for one
// has no room for the next, and a rate limit applies to all. A pool or a type of network that is used up is not what
// the others ask for.
func concernsAll(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Type == "OverQuota" || e.Kind == client.Throttled)
}

// asTold is the error of a call as so many callers are told it. If they are several, Neutron's sentence may be about
// one item, which is nobody else's business. A quota's sentence is about none.
func asTold(err error, callers int) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || callers < 2 || e.Status == 0 || e.Type == "OverQuota" || e.Kind == client.Throttled || e.OfLogin() ||
		e.Fresh || e.Foreign() {
		return err
	}
	told := *e
	told.Reason = client.StatusReason(e.Status)
	return &told
}

// sameProject reports whether two creates are for the same project (client.Within). Others may not share a call.
func sameProject(a, b *pending) bool {
	project, bound := client.Wanted(a.ctx)
	other, otherBound := client.Wanted(b.ctx)
	return project == other && bound == otherBound
}

// forAll returns a context that ends when all callers' contexts have ended, because the call serves all of them. done
// releases its resources.
func forAll(batch []*pending) (ctx context.Context, done func()) {
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
func (b *Queue) remember(group []*pending, err error, halved bool) {
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
