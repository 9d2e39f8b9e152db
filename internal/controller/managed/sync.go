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

// Sync makes Neutron agree with one object. It acts on the current state of the caches, whatever put the key on the
// queue. It is a controller.Sync.
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
		// The cache is older than our own last write. The event that updates it requeues the key.
		return controller.Result{}, nil
	}
	// Leftovers of earlier objects of the name do not delay this one: its resources are its own.
	pruned := r.prune(ctx, key, obj.GetUID())
	var result controller.Result
	switch {
	case r.policies(obj).Observe && !r.claimed(obj): // a claimed object may own something, whatever its spec says
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

// reconcile makes the resources as the spec declares, and reports the outcome in the status.
func (r *Reconciler[T]) reconcile(ctx context.Context, key cache.ObjectName, obj T) error {
	at, unreachable := r.reach(obj, false)
	if errors.Is(unreachable, ErrNotYet) {
		return nil
	}
	claimed := r.claimed(obj)
	if claimed {
		// An earlier process may have created something, so remember it whatever this sync does.
		r.remember(key, obj)
	}
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err = errors.Join(err, unreachable); err != nil {
		// Only another spec helps, or what it waits for. Either sends an event.
		return r.report(ctx, obj, progress{state: undeclared(err)})
	}
	r.settle(key, obj.GetUID(), at)
	p := progress{declared: r.takingBack(obj, declared)}
	if within, ok := r.identify(ctx, at.in, obj, &p); ok {
		// The finalizer comes before the first resource, so that no deleted object can leave one behind.
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

// attempts limits how often one sync writes while others change the same resources. The result of the last attempt is
// still read.
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
		case next.adopts && next.Empty() && attempt < attempts:
			// It has the marker already: the answer to an earlier adoption was lost. From here on the marker identifies it.
			if _, err := in.Reread(ctx, r.kind.Expected(obj)[0].Resource); err != nil {
				return p.failed(err)
			}
			continue
		case next.Empty() && unresolved != nil:
			return p.failed(unresolved)
		case next.Empty() && !next.adopts:
			if err := r.rememberOnlySet(ctx, obj, p.declared); err != nil {
				return p.failed(err)
			}
			return p.succeeded(r.kind.Resource)
		case len(last) > 0 && slices.EqualFunc(last, next.Change, sameDifferences):
			// Neutron does not show the change, so it was not done. Each attempt would repeat the Event.
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
				// From here on the marker identifies it.
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

// nextChange is the next change for the object, and why it is made.
type nextChange struct {
	plan.Change
	// adopts is true if the change writes the object's marker on a resource that existed before the object. drifted is
	// true if it reverts what others changed.
	adopts, drifted bool
}

// next plans the change for what was observed. It fills in the drift that is left.
func (r *Reconciler[T]) next(
	ctx context.Context, in Inventory, obj T, p *progress, unresolved error,
) (nextChange, error) {
	if adopter, ok := p.declared.(Adopter); ok && p.observed.Empty() && r.kind.Expected(obj)[0].Imported {
		if unresolved != nil {
			// An unresolved field cannot be compared now. It would be set later without a comparison.
			return nextChange{}, unresolved
		}
		change, err := adopter.Adopt(ctx, in)
		return nextChange{Change: change, adopts: true}, err
	}
	change, err := p.declared.Plan(*p.observed)
	// A spec is applied as a whole once. A later difference was made by somebody else.
	drifted := r.kind.Status(obj).AppliedGeneration == specGeneration(obj)
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

// afterFailure decides how a sync goes on after a failed change. The result has a state if the sync ends, and none if
// the next attempt plans from reread resources. nothingDone is true if no step of the change was taken.
func (r *Reconciler[T]) afterFailure(
	ctx context.Context, in Inventory, obj T, p progress, err error, nothingDone bool,
) progress {
	switch {
	case client.IsNotFound(err) && p.observed.Empty() && nothingDone:
		// Something is missing that is not the object's own, such as a port's network. An immediate retry would get the same
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

// resolveNames calls Declaration.Resolve. unresolved is its error if the rest of the declaration can be planned, and
// err if nothing can.
func resolveNames(
	ctx context.Context, in Inventory, declared Declaration,
) (resolved Declaration, unresolved, err error) {
	resolved, err = declared.Resolve(ctx, in)
	if _, partly := errors.AsType[*Unresolved](err); partly {
		return resolved, err, nil
	}
	return resolved, nil, err
}

// leaveDrift splits a change for driftPolicy Report. rest is done anyway: the removal of duplicates. The differences in
// drift are reported and left.
func leaveDrift(change plan.Change) (rest plan.Change, drift []plan.Difference) {
	going := map[string]bool{}
	for _, step := range change {
		switch step.Action {
		case plan.DeleteNetwork, plan.DeletePort, plan.DeleteRouter:
			going[step.ID] = true
		}
	}
	for _, step := range change {
		// Whatever must first be detached from a duplicate is removed with it.
		if going[step.ID] || step.Action == plan.DetachInterface && going[step.RouterRef.ID] {
			rest = append(rest, step)
			continue
		}
		for _, d := range step.Differences {
			// A field that cannot be updated gives two steps for one difference.
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
