package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// finalize removes or releases the object's resources, and then removes the finalizer.
func (r *Reconciler[T]) finalize(ctx context.Context, obj T) error {
	if _, remembered := r.recall(obj); !remembered && !r.claimed(obj) {
		return nil
	}
	r.remember(obj)
	if message := r.kind.InUse(obj); message != "" {
		return r.maintain(ctx, obj, message)
	}
	since := obj.GetDeletionTimestamp().Time
	if p := r.release(ctx, obj, r.retains(obj)); p.err != nil && !r.abandoned(ctx, obj, since, p.err) {
		return r.conclude(ctx, obj, p)
	}
	return r.letGo(ctx, obj)
}

// retains reports whether the object's resources stay in Neutron when it is deleted.
func (r *Reconciler[T]) retains(obj T) bool {
	return r.policies(obj).Deletion == cloudteamv1.DeletionPolicyRetain
}

// letGo removes the finalizer of an object that has nothing in Neutron any more.
func (r *Reconciler[T]) letGo(ctx context.Context, obj T) error {
	// If somebody else removed the finalizer and another one keeps the object, nothing is left to do.
	if r.claimed(obj) {
		if err := crowded(obj); err != nil {
			return r.conclude(ctx, obj, progress{observed: &plan.Observed{}}.failed(err))
		}
		at := slices.Index(obj.GetFinalizers(), r.row.Finalizer)
		finalizers := slices.Delete(slices.Clone(obj.GetFinalizers()), at, at+1)
		_, err := r.patchMetadata(ctx, obj, map[string]any{"finalizers": finalizers})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
		if len(finalizers) == 0 || err != nil {
			r.expected.LetGo(cache.MetaObjectToName(obj), obj.GetUID())
		}
	}
	r.forget(obj)
	return nil
}

// maintain keeps the resources of a deleted object as declared while they are in use. Without it, a lost address could
// be given to a second user. inUse is the message that says so.
func (r *Reconciler[T]) maintain(ctx context.Context, obj T, inUse string) error {
	within, at, obj, p := r.begin(ctx, obj)
	if p.err == nil {
		p = r.converge(within, at.in, obj, p)
	}
	// Nothing is maintained for an object that cannot be planned now. An imported network that is gone is not looked for.
	if _, gone := errors.AsType[*plan.NotMadeError](p.err); gone || p.retry() == nil {
		p.err, p.state = nil, controller.Reconciling(cloudteamv1.ReasonInUse, inUse)
	} else {
		p.state.Message = sentences(p.state.Message, "Deletion waits: "+inUse)
	}
	return r.conclude(ctx, obj, p)
}

// release removes all of the object's resources in Neutron. With retain it removes only the marker. The progress has no
// error once nothing in Neutron bears the marker.
func (r *Reconciler[T]) release(ctx context.Context, obj T, retain bool) (p progress) {
	owner := r.ownerOf(obj)
	at, err := r.reach(obj, true)
	if err != nil {
		p = p.failed(err)
		p.state.Message = sentences(p.state.Message,
			fmt.Sprintf("To leave what is in Neutron, remove the finalizer %s.", r.row.Finalizer))
		return p
	}
	r.settle(obj, at)
	ctx, p.identity, err = r.identify(ctx, at.in, obj)
	if err != nil {
		return p.failed(err)
	}
	if err := r.discard(ctx, at.in, obj); err != nil {
		return p.failed(err)
	}
	expected := r.kind.Expected(obj)
	p.observed, err = Removal{
		Look: func(ctx context.Context) (plan.Observed, error) {
			for {
				observed, err := r.look(ctx, at.in, obj, expected)
				foreign, ok := errors.AsType[*unmarkedError](err)
				if !ok {
					return observed, err
				}
				// Somebody removed the marker, so the resource is no longer ours to delete.
				r.recorder.Eventf(obj, corev1.EventTypeNormal, cloudteamv1.EventRetained,
					"Left %s in Neutron: it no longer bears its owner's marker", foreign.Resource)
				expected = slices.DeleteFunc(expected, func(e Lookup) bool { return e == foreign.Lookup })
			}
		},
		Plan: func(observed plan.Observed) (plan.Change, error) {
			if retain {
				return plan.Release(owner, observed), nil
			}
			return plan.Delete(owner, observed)
		},
		Apply: func(ctx context.Context, change plan.Change) (plan.Change, error) {
			done, err := r.apply(ctx, at.in, obj, change)
			for _, step := range done {
				if e := releaseEvent(step); e.Reason != "" {
					r.recorder.Event(obj, e.Type, e.Reason, e.Message)
				}
			}
			if err == nil {
				// Resources that we deleted or released need no further lookup.
				expected = nil
				r.setBlank(obj, true)
			}
			return done, err
		},
	}.Run(ctx, at.in)
	if err != nil {
		return p.failed(err)
	}
	return p
}

// prune removes the resources of objects of this key that had the finalizer and are gone from the cache. That happens,
// for example, if somebody force-removed the finalizer. What was paused keeps its resources, and stays
// remembered, so that the orphan cleanup does not remove them; see leave for the bound. existing is the UID of the
// object that has the key now, or empty.
func (r *Reconciler[T]) prune(ctx context.Context, key cache.ObjectName, existing types.UID) error {
	var errs []error
	for _, obj := range r.gone(key, existing) {
		if paused(obj) || r.defaults.Plan {
			r.leave(ctx, obj)
			continue
		}
		p := r.release(ctx, obj, r.retains(obj))
		if p.err == nil {
			r.forget(obj)
			continue
		}
		r.leave(ctx, obj)
		if err := p.retry(); err != nil {
			errs = append(errs, fmt.Errorf("removing what the deleted object %s left: %w", obj.GetUID(), err))
		}
	}
	return errors.Join(errs...)
}
