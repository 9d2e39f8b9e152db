package managed

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// look gives the object's resources in Neutron, from a list that is new enough to prove that there are none. An
// incomplete list must not lead to a second resource or a forgotten one. So an expected resource that the list lacks is
// read by its id. If it may exist under an unknown id, it is searched by its name. The ids of resources that are gone
// are removed from expected. need are the kinds that the caller relies on; none means all.
func (r *Reconciler[T]) look(
	ctx context.Context, in Inventory, obj T, expected []Lookup, need ...plan.Kind,
) (plan.Observed, error) {
	fair.Yield(ctx) // the cloud answers late
	known, _ := r.recall(obj)
	since := known.doubt
	if since.IsZero() {
		since = r.acting
	}
	owner := r.ownerOf(obj)
	observed, err := in.Observed(ctx, owner, since, need...)
	if err != nil {
		return plan.Observed{}, err
	}
	var there, found []Lookup
	for i, e := range expected {
		if has(observed, e.Resource) {
			there = append(there, e)
			continue
		}
		exists := false
		if other := has(observed, plan.Resource{Kind: e.Kind}); other {
			// The list may be so old that it shows one that is gone, and lacks the one that took its place.
			if exists, err = in.Reread(ctx, e.Resource); errors.Is(err, inventory.ErrUnmarked) {
				exists, err = false, nil
			}
		} else {
			exists, err = r.lookUp(ctx, in, obj, e)
		}
		if err != nil {
			return plan.Observed{}, err
		}
		switch {
		case exists:
			found = append(found, e)
		case !e.Imported:
			expected[i].ID = "" // it is gone: do not ask again
		}
	}
	if len(found) == 0 {
		if observed.Empty() && len(expected) > 0 {
			r.setBlank(obj, true)
		}
		return observed, nil
	}
	if observed, err = in.Observed(ctx, owner, since, need...); err != nil {
		return plan.Observed{}, err
	}
	for _, e := range found {
		if e.ID != "" && !has(observed, plan.Resource{Kind: e.Kind}) && !r.awaitsAdoption(obj, e) {
			return plan.Observed{}, unmarked(e, owner) // it bears another object's marker
		}
	}
	for _, e := range slices.Concat(there, found) {
		if !has(observed, plan.Resource{Kind: e.Kind}) && !r.awaitsAdoption(obj, e) {
			// A list that is older than the reads ended after them. By that list, it would be created again.
			return plan.Observed{}, outdated(e)
		}
	}
	return observed, nil
}

// needs gives the kinds that a sync relies on.
func (r *Reconciler[T]) needs(obj T, expected []Lookup) (need []plan.Kind) {
	if r.kind.Needs != nil {
		need = r.kind.Needs(obj)
	}
	for _, e := range expected {
		need = append(need, e.Kind)
	}
	return need
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

// withoutDeleted returns what is still expected after steps were taken: what they deleted is not looked for.
func withoutDeleted(expected []Lookup, done plan.Change) []Lookup {
	for i, e := range expected {
		if slices.ContainsFunc(done, func(s plan.Step) bool { return s.ID == e.ID && s.Action.Deletes() }) {
			expected[i].ID = ""
		}
	}
	return expected
}

// has reports whether a resource was observed; without an id, whether any of the kind was.
func has(observed plan.Observed, one plan.Resource) bool {
	return slices.ContainsFunc(observed.Resources(), func(r plan.Resource) bool {
		return r.Kind == one.Kind && (one.ID == "" || r.ID == one.ID)
	})
}

// apply takes the steps. If Neutron refuses a step that can wait (see plan.Step.Postponable), the steps that do not
// need it are still taken. Examples are the removal of something in use, or a step for which a quota is full. It
// returns the steps taken and the last error. An in-use error is returned only if there is no other, because it ends
// when others act.
func (r *Reconciler[T]) apply(
	ctx context.Context, in Inventory, obj T, change plan.Change,
) (done plan.Change, err error) {
	for {
		taken, failed := r.take(ctx, in, obj, change)
		done = append(done, taken...)
		if err == nil || failed != nil && client.KindOf(failed) != client.InUse {
			err = failed
		}
		if !refused(failed) || !change[len(taken)].Postponable() {
			return done, err
		}
		change = change.Despite(taken)
	}
}

// refused reports whether an error says that Neutron will not do what was asked in the current state.
func refused(err error) bool {
	switch client.KindOf(err) {
	case client.InUse, client.Capacity, client.Invalid, client.Forbidden:
		return true
	default:
		return false
	}
}

// take takes the steps until one fails, and records a create with an unknown outcome. Before the next create, a list
// has to show that nothing exists.
func (r *Reconciler[T]) take(
	ctx context.Context, in Inventory, obj T, change plan.Change,
) (plan.Change, error) {
	logger := klog.FromContext(ctx)
	// The flow keeps a busy namespace from delaying the others.
	done, err := in.Apply(inventory.WithFlow(ctx, obj.GetNamespace()), change)
	for _, step := range done {
		logger.Info("Applied step", "step", step.String())
	}
	if slices.ContainsFunc(done, func(s plan.Step) bool { return s.Action.Creates() }) {
		r.setBlank(obj, false)
	}
	if err == nil || len(done) == len(change) {
		return done, err
	}
	failed := change[len(done)]
	if client.MaybeDone(err) && failed.Action.Creates() {
		r.note(obj, func(m *memory[T]) { m.blank, m.doubt = false, time.Now() })
	}
	return done, explain(ctx, in, failed, err)
}

// explain adds to Neutron's refusal of a step what the user can do about it, if that depends on the step.
func explain(ctx context.Context, in Inventory, step plan.Step, refusal error) error {
	switch client.KindOf(refusal) {
	case client.Forbidden:
		if fields := step.Privileged(); len(fields) > 0 {
			return forbidden(refusal, fields)
		}
	case client.InUse:
		// Neutron names the ports in any order, and not what has them. One list tells. If it fails, Neutron's own words
		// remain.
		blockers, err := in.Blockers(ctx, step)
		if err != nil {
			klog.FromContext(ctx).Info("Listing what blocks the step failed", "step", step.String(), "err", err)
		}
		if err == nil && !blockers.Empty() {
			return occupied(refusal, step, blockers)
		}
	case client.Taken:
		if step.Action.Of() == plan.KindFloatingIP {
			return outsideTaken(refusal)
		}
	case client.Exhausted:
		if step.Subnet.Pending() {
			return unallocated(refusal, step.Subnet.From.Name)
		}
		if step.Action == plan.CreateFloatingIP {
			return outsideFull(refusal, step.FloatingIP.NetworkID)
		}
	}
	return refusal
}
