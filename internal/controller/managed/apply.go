package managed

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

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
