package managed

import (
	"context"
	"errors"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller"
)

// DefaultObserveInterval is how often an observed resource is read by default.
const DefaultObserveInterval = time.Minute

// ObserveEvery sets how often observed resources are read; the default is DefaultObserveInterval. If called, it MUST be
// called before Run.
func (r *Reconciler[T]) ObserveEvery(interval time.Duration) { r.observeEvery = interval }

// observe shows the resource of an object with Policies.Observe, and writes nothing to Neutron.
func (r *Reconciler[T]) observe(ctx context.Context, obj T) (controller.Result, error) {
	p := r.observed(ctx, obj)
	if errors.Is(p.err, ErrNotYet) {
		return controller.Result{}, nil // an event requeues the key
	}
	return controller.Result{RequeueAfter: r.observeEvery}, errors.Join(p.err, r.report(ctx, obj, p))
}

func (r *Reconciler[T]) observed(ctx context.Context, obj T) (p progress) {
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err != nil {
		return p.waiting(err)
	}
	p.declared = declared
	at, err := r.reach(obj, false)
	switch _, waits := errors.AsType[*Waiting](err); {
	case waits:
		return p.waiting(err)
	case err != nil:
		return p.failed(err)
	}
	ctx, ok := r.identify(ctx, at.in, obj, &p)
	if !ok {
		return p
	}
	resolved, unresolved, err := resolveNames(ctx, at.in, declared)
	if err != nil {
		return p.failed(err)
	}
	p.declared = resolved
	if r.kind.Prepare != nil {
		r.kind.Prepare(at.in, obj)
	}
	seen, err := resolved.(Observer).Observe(ctx, at.in)
	p.observed, p.drift, p.state = seen.Observed, seen.Drift, seen.State
	if err == nil {
		err = unresolved
	}
	if err != nil {
		return p.failed(err)
	}
	return p
}
