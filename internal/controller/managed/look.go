package managed

import (
	"context"
	"errors"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// look gives the object's resources in Neutron, from a list that is new enough to prove that there are none. An
// incomplete list must not lead to a second resource or a forgotten one. So an expected resource that the list lacks is
// read by its id. If it may exist under an unknown id, it is searched by its name.
func (r *Reconciler[T]) look(ctx context.Context, in Inventory, obj T, expected []Lookup) (plan.Observed, error) {
	known, _ := r.recall(obj)
	since := known.doubt
	if since.IsZero() {
		since = r.acting
	}
	owner := r.ownerOf(obj)
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
			r.setBlank(obj, true)
		}
		return observed, nil
	}
	if observed, err = in.Observed(ctx, owner, since); err != nil {
		return plan.Observed{}, err
	}
	for _, e := range found {
		if e.ID != "" && !has(observed, e.Kind) && !r.awaitsAdoption(obj, e) {
			return plan.Observed{}, unmarked(e, owner) // it bears another object's marker
		}
	}
	return observed, nil
}

// lookUp asks Neutron directly for one resource that the list lacks. If the resource exists, the Inventory holds it
// afterwards. The error is an *unmarkedError if it exists but no longer bears our marker.
func (r *Reconciler[T]) lookUp(ctx context.Context, in Inventory, obj T, e Lookup) (exists bool, err error) {
	if e.ID != "" {
		exists, err = in.Reread(ctx, e.Resource)
		switch {
		case errors.Is(err, inventory.ErrUnmarked) && r.awaitsAdoption(obj, e):
			return false, nil
		case errors.Is(err, inventory.ErrUnmarked):
			return false, unmarked(e, r.ownerOf(obj))
		case err != nil || exists:
			return exists, err
		}
	}
	if known, _ := r.recall(obj); known.blank {
		return false, nil
	}
	return in.Find(ctx, e.Kind, e.Name, r.ownerOf(obj))
}

// awaitsAdoption reports whether the resource is imported and may still lack the object's marker.
func (r *Reconciler[T]) awaitsAdoption(obj T, e Lookup) bool {
	return e.Imported && r.kind.Status(obj).AppliedGeneration == 0
}

// has reports whether something of a kind was observed.
func has(observed plan.Observed, kind plan.Kind) bool {
	return slices.ContainsFunc(observed.Resources(), func(r plan.Resource) bool { return r.Kind == kind })
}
