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
func (r *Reconciler[T]) finalize(ctx context.Context, key cache.ObjectName, obj T) error {
	at := slices.Index(obj.GetFinalizers(), r.kind.Finalizer)
	if at < 0 && !r.remembers(key, obj.GetUID()) {
		return nil
	}
	r.remember(key, obj)
	if message := r.kind.InUse(obj); message != "" {
		p := r.maintain(ctx, key, obj)
		if _, gone := errors.AsType[*plan.NotMadeError](p.err); gone {
			p.err = nil // nothing is left to maintain, and an object in deletion needs no search
		}
		if p.err == nil {
			p.state = controller.Reconciling(cloudteamv1.ReasonInUse, message)
		} else {
			p.state.Message = sentences(p.state.Message, "Deletion waits: "+message)
		}
		return errors.Join(p.err, r.report(ctx, obj, p))
	}
	p := r.release(ctx, key, obj)
	switch _, waits := errors.AsType[*Waiting](p.err); {
	case errors.Is(p.err, ErrNotYet):
		return nil
	case waits: // an event requeues the key
		return r.report(ctx, obj, p)
	case p.err != nil:
		return errors.Join(p.err, r.report(ctx, obj, p))
	}
	// If somebody else removed the finalizer and another one keeps the object, nothing is left to do.
	if at >= 0 {
		finalizers := slices.Delete(slices.Clone(obj.GetFinalizers()), at, at+1)
		_, err := r.patchMetadata(ctx, key, obj, map[string]any{"finalizers": finalizers})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
		if len(finalizers) == 0 || err != nil {
			r.expected.LetGo(key, obj.GetUID())
		}
	}
	r.forget(key, obj.GetUID())
	return nil
}

// maintain keeps the resources of a deleted object as declared while they are in use. Without it, a lost address could
// be given to a second user.
func (r *Reconciler[T]) maintain(ctx context.Context, key cache.ObjectName, obj T) (p progress) {
	declared, err := r.kind.Declare(obj, r.ownerOf(obj))
	if err != nil {
		return p // it cannot be created again; existing resources stay
	}
	at, err := r.reach(obj, false)
	if err != nil {
		return p // the same without its cloud
	}
	r.settle(key, obj.GetUID(), at)
	p.declared = r.takingBack(obj, declared)
	if ctx, ok := r.identify(ctx, at.in, obj, &p); ok {
		p = r.converge(ctx, at.in, obj, p)
	}
	return p
}

// release removes all of the object's resources in Neutron. With deletionPolicy Retain it removes only the marker. The
// progress has no error once nothing in Neutron bears the marker.
func (r *Reconciler[T]) release(ctx context.Context, key cache.ObjectName, obj T) (p progress) {
	owner := r.ownerOf(obj)
	at, err := r.reach(obj, true)
	if err != nil {
		return r.unremovable(err)
	}
	r.settle(key, obj.GetUID(), at)
	ctx, ok := r.identify(ctx, at.in, obj, &p)
	if !ok {
		return p
	}
	retain := r.policies(obj).Deletion == cloudteamv1.DeletionPolicyRetain
	expected := r.kind.Expected(obj)
	p.observed, err = Removal{
		Look: func(ctx context.Context) (plan.Observed, error) {
			for {
				observed, err := r.look(ctx, at.in, obj, expected)
				foreign, ok := errors.AsType[*unmarked](err)
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
				r.setBlank(obj.GetUID(), true)
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
// for example, if somebody force-removed the finalizer. Resources of a paused object stay, and stay remembered, so that
// the orphan cleanup does not remove them. existing is the UID of the object that has the key now, or empty.
func (r *Reconciler[T]) prune(ctx context.Context, key cache.ObjectName, existing types.UID) error {
	var errs []error
	for uid, obj := range r.gone(key, existing) {
		if paused(obj) {
			continue
		}
		switch p := r.release(ctx, key, obj); {
		case errors.Is(p.err, ErrNotYet):
			continue // an event requeues the key
		case p.err != nil:
			errs = append(errs, fmt.Errorf("removing what the deleted object %s left: %w", uid, p.err))
			continue
		}
		r.forget(key, uid)
	}
	return errors.Join(errs...)
}
