package managed

import (
	"context"
	"errors"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// look gives what Neutron has of the object's, from a list that is new enough for "nothing" to mean nothing. A list
// that falls short must not lead to a second resource, or have one left behind: what is expected and not in the list
// is read by its id, and where it may have been created under an id that nobody knows, it is found by its name.
func (r *Reconciler[T]) look(ctx context.Context, in Inventory, obj T, expected []Lookup) (plan.Observed, error) {
	if r.kind.Prepare != nil {
		r.kind.Prepare(in, obj)
	}
	owner, since := r.ownerOf(obj), r.listedSince(obj.GetUID())
	observed, err := in.Observed(ctx, owner, since)
	if err != nil {
		return plan.Observed{}, err
	}
	var found []Lookup
	for _, e := range expected {
		if has(observed, e.Kind) {
			continue
		}
		exists, err := r.lookUp(ctx, in, obj, e)
		if err != nil {
			return plan.Observed{}, err
		}
		if exists {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		if observed.Empty() && len(expected) > 0 {
			r.setBlank(obj.GetUID(), true)
		}
		return observed, nil
	}
	if observed, err = in.Observed(ctx, owner, since); err != nil {
		return plan.Observed{}, err
	}
	for _, e := range found {
		if e.ID != "" && !has(observed, e.Kind) && !r.awaitsAdoption(obj, e) {
			return plan.Observed{}, &unmarked{e, owner} // it bears another object's marker
		}
	}
	return observed, nil
}

// lookUp asks live for one resource that the list does not show, so that the Inventory holds it if it exists. The error
// is an *unmarked where it exists and bears no marker of ours any more.
func (r *Reconciler[T]) lookUp(ctx context.Context, in Inventory, obj T, e Lookup) (exists bool, err error) {
	if e.ID != "" {
		exists, err = in.Reread(ctx, e.Resource)
		switch {
		case errors.Is(err, inventory.ErrUnmarked) && r.awaitsAdoption(obj, e):
			return false, nil
		case errors.Is(err, inventory.ErrUnmarked):
			return false, &unmarked{e, r.ownerOf(obj)}
		case err != nil || exists:
			return exists, err
		}
	}
	if !r.mayHide(obj.GetUID()) {
		return false, nil
	}
	return in.Find(ctx, e.Kind, e.Name, r.ownerOf(obj))
}

// awaitsAdoption reports whether the resource is imported and need not bear the object's marker yet.
func (r *Reconciler[T]) awaitsAdoption(obj T, e Lookup) bool {
	return e.Imported && r.kind.Status(obj).AppliedGeneration == 0
}

// has reports whether something of a kind was observed.
func has(observed plan.Observed, kind plan.Kind) bool {
	return slices.ContainsFunc(observed.Resources(), func(r plan.Resource) bool { return r.Kind == kind })
}
