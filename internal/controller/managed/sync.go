package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Sync makes Neutron agree with one object. It acts on what the caches hold now, whatever put the key on the queue. It
// is a controller.Sync.
func (r *Reconciler[T]) Sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	obj, exists, err := r.get(key)
	if err != nil {
		return controller.Result{}, err
	}
	if !exists {
		r.expected.Forget(key)
		return controller.Result{}, r.prune(ctx, key, "")
	}
	if !r.expected.Met(key, obj.GetUID(), obj.GetResourceVersion()) {
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nil
	}
	// What earlier objects of the name left does not hold this one up: its resources are its own.
	pruned := r.prune(ctx, key, obj.GetUID())
	var result controller.Result
	switch {
	case r.policies(obj).Observe && !r.claimed(obj): // what is claimed may own something, whatever its spec says
		result, err = r.observe(ctx, obj)
	case paused(obj):
		err = r.hold(ctx, key, obj)
	case obj.GetDeletionTimestamp() != nil:
		err = r.finalize(ctx, key, obj)
	default:
		err = r.reconcile(ctx, key, obj)
	}
	return result, errors.Join(err, pruned)
}

// reconcile makes the resources as the spec declares, and reports in the status how that went.
func (r *Reconciler[T]) reconcile(ctx context.Context, key cache.ObjectName, obj T) error {
	at, unreachable := r.reach(obj, false)
	if errors.Is(unreachable, ErrNotYet) {
		return nil
	}
	claimed := r.claimed(obj)
	if claimed {
		// Whatever comes of this sync: an earlier process may have created something.
		r.remember(key, obj)
	}
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err = errors.Join(err, unreachable); err != nil {
		// Only another spec helps, or what is waited for. Either brings an event.
		return r.report(ctx, obj, progress{state: undeclared(err)})
	}
	r.settle(key, obj.GetUID(), at)
	p := progress{declared: r.takingBack(obj, declared)}
	if within, ok := r.identify(ctx, at.in, obj, &p); ok {
		// The finalizer comes before the first resource, so that no object can go and leave one behind.
		if !claimed {
			if obj, err = r.claim(ctx, key, obj, *p.identity, declared); err != nil {
				return fmt.Errorf("adding the finalizer: %w", err)
			}
			r.remember(key, obj)
			r.settle(key, obj.GetUID(), at)
			// Nobody creates anything for an object without the finalizer.
			r.setBlank(obj.GetUID(), true)
		}
		p = r.converge(within, at.in, obj, p)
		if _, unwritten := errors.AsType[*notRemembered](p.err); unwritten {
			return p.err
		}
	}
	return errors.Join(p.err, r.report(ctx, obj, p))
}

// attempts bounds how often one sync writes, where somebody else changes what it was about to change. What the last
// attempt left is still looked at.
const attempts = 3

// converge plans and applies what is declared until the plan is empty.
func (r *Reconciler[T]) converge(ctx context.Context, in Inventory, obj T, p progress) progress {
	declared, unresolved, err := resolveNames(ctx, in, p.declared)
	if err != nil {
		return p.failed(err)
	}
	p.declared = declared
	var last plan.Change
	for attempt := 0; ; attempt++ {
		observed, err := r.look(ctx, in, obj, r.kind.Expected(obj))
		if err != nil {
			return p.failed(err)
		}
		p.observed = &observed
		next, err := r.next(ctx, in, obj, &p, unresolved)
		switch _, waits := errors.AsType[*Waiting](err); {
		case waits:
			return p.waiting(err)
		case err != nil:
			return p.failed(err)
		case next.Empty() && unresolved != nil:
			return p.failed(unresolved)
		case next.Empty():
			if err := r.rememberOnlySet(ctx, obj, p.declared); err != nil {
				return p.failed(err)
			}
			return p.succeeded(r.kind.Resource)
		case len(last) > 0 && slices.EqualFunc(last, next.Change, sameDifferences):
			// What Neutron does not show was not done, and each attempt would tell of it again.
			p.events = p.events[:len(p.events)-1]
			return p.failed(&notApplied{next.Change})
		case attempt == attempts:
			return p.failed(p.notConverged(r.kind.Resource))
		}

		if !next.adopts {
			if obj, err = r.rememberSet(ctx, obj, p.declared); err != nil {
				return p.failed(err)
			}
		}
		done, err := r.apply(ctx, in, obj, next.Change)
		p.events = append(p.events, next.event(done))
		last = nil
		if err == nil {
			p.err, last = nil, next.Change
			if next.adopts {
				// It is known by its marker from here on.
				last = nil
				_, p.err = in.Reread(ctx, r.kind.Expected(obj)[0].Resource)
			}
			continue
		}
		if p = r.afterFailure(ctx, in, obj, p, err, done.Empty()); p.state.Reason != "" {
			return p
		}
	}
}

// nextChange is what is to be done for the object, and why.
type nextChange struct {
	plan.Change
	// adopts is true where the change has the object's marker written on what was there before it. drifted is true where
	// it takes back what others changed.
	adopts, drifted bool
}

// next plans what is to be done about what was observed. It fills in the drift that is left.
func (r *Reconciler[T]) next(
	ctx context.Context, in Inventory, obj T, p *progress, unresolved error,
) (nextChange, error) {
	if adopter, ok := p.declared.(Adopter); ok && p.observed.Empty() && r.kind.Expected(obj)[0].Imported {
		if unresolved != nil {
			// What is not known cannot be compared, and would be set later without having been.
			return nextChange{}, unresolved
		}
		change, err := adopter.Adopt(ctx, in)
		return nextChange{Change: change, adopts: true}, err
	}
	change, err := p.declared.Plan(*p.observed)
	// A spec is applied as a whole once. What differs from then on was changed by somebody else.
	drifted := r.kind.Status(obj).AppliedGeneration == obj.GetGeneration()
	if err != nil || !drifted {
		return nextChange{Change: change}, err
	}
	policies := r.policies(obj)
	change = change.Without(policies.IgnoreDrift...)
	if policies.Drift == cloudteamv1.DriftPolicyReport {
		change, p.drift = leaveDrift(change)
	}
	return nextChange{Change: change, drifted: true}, nil
}

// afterFailure says what becomes of the sync after a change that failed: it has a state where the sync ends, and none
// where the next attempt plans from what was read anew. nothingDone is whether no step of the change was taken.
func (r *Reconciler[T]) afterFailure(
	ctx context.Context, in Inventory, obj T, p progress, err error, nothingDone bool,
) progress {
	switch {
	case client.IsNotFound(err) && p.observed.Empty() && nothingDone:
		// It is missing what is not the object's own, such as a port its network: to ask again at once is to get the same
		// answer.
		return p.failed(err)
	case client.IsConflict(err), client.IsNotFound(err):
		if err := rereadAll(ctx, in, *p.observed); err != nil {
			return p.failed(err)
		}
		p.err = err
		return p
	default:
		if observed, lookErr := in.Observed(ctx, r.ownerOf(obj), r.acting); lookErr == nil {
			p.observed = &observed
		}
		return p.failed(err)
	}
}

// resolveNames is Declaration.Resolve. unresolved is its error where the rest of the declaration can be planned, and
// err where nothing can.
func resolveNames(
	ctx context.Context, in Inventory, declared Declaration,
) (resolved Declaration, unresolved, err error) {
	resolved, err = declared.Resolve(ctx, in)
	if _, partly := errors.AsType[*Unresolved](err); partly {
		return resolved, err, nil
	}
	return resolved, nil, err
}

// leaveDrift splits a change into what is done under driftPolicy Report all the same, the removal of duplicates, and
// the differences that are reported and left.
func leaveDrift(change plan.Change) (rest plan.Change, drift []plan.Difference) {
	going := map[string]bool{}
	for _, step := range change {
		switch step.Action {
		case plan.DeleteNetwork, plan.DeletePort, plan.DeleteRouter:
			going[step.ID] = true
		}
	}
	for _, step := range change {
		// What has to come off a duplicate first goes with it.
		if going[step.ID] || step.Action == plan.DetachInterface && going[step.RouterRef.ID] {
			rest = append(rest, step)
			continue
		}
		for _, d := range step.Differences {
			// What cannot change is two steps for one difference.
			if !slices.Contains(drift, d) {
				drift = append(drift, d)
			}
		}
	}
	return rest, drift
}

func sameDifferences(a, b plan.Step) bool {
	return a.Action == b.Action && slices.Equal(a.Differences, b.Differences)
}
