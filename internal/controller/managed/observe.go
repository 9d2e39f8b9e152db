package managed

import (
	"context"
	"fmt"
	"time"
)

// DefaultObserveInterval is how often an observed resource is read by default.
const DefaultObserveInterval = time.Minute

// ObserveEvery sets how often observed resources are read; the default is DefaultObserveInterval. If called, it MUST be
// called before Run.
func (r *Reconciler[T]) ObserveEvery(interval time.Duration) { r.observeEvery = interval }

// observe shows the resource of an object with Policies.Observe, and writes nothing to Neutron.
func (r *Reconciler[T]) observe(ctx context.Context, obj T) error {
	within, at, obj, p := r.begin(ctx, obj)
	if p.err == nil && p.found != "" {
		var err error
		if obj, err = r.record(ctx, obj, p); err != nil {
			return fmt.Errorf("recording the import: %w", err)
		}
	}
	if p.err == nil {
		p = observed(within, at.in, p)
	}
	return r.conclude(ctx, obj, p)
}

// observed fills in what Traits.Observe sees.
func observed(ctx context.Context, in Inventory, p progress) progress {
	resolved, unresolved := p.declared.Resolve(ctx, in)
	if resolved == nil {
		return p.failed(unresolved)
	}
	p.declared = resolved
	seen, err := resolved.Traits().Observe(ctx, in)
	p.observed, p.drift, p.state = seen.Observed, seen.Drift, seen.State
	switch {
	case err != nil:
		return p.failed(err)
	case unresolved != nil:
		return p.failed(unresolved)
	}
	return p
}
