package managed

import (
	"context"
	"slices"

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
		r.setBlank(obj.GetUID(), false)
	}
	if client.MaybeDone(err) && len(done) < len(change) && change[len(done)].Action.Creates() {
		r.setBlank(obj.GetUID(), false)
		r.doubt(obj.GetUID())
	}
	if client.KindOf(err) == client.Forbidden && len(done) < len(change) {
		err = &forbidden{err, change[len(done)].Privileged()}
	}
	if client.KindOf(err) == client.InUse && len(done) < len(change) {
		err = blame(ctx, in, change[len(done)], err)
	}
	if client.KindOf(err) == client.Exhausted && len(done) < len(change) && change[len(done)].Subnet.Pending() {
		err = &unallocated{err, change[len(done)].Subnet.From.Name}
	}
	return done, err
}

// blame finds the ports or floating IPs because of which Neutron refused a step, at the cost of one list. Neutron names
// them in any order, and not what has them. If the list fails, the refusal keeps Neutron's own words.
func blame(ctx context.Context, in Inventory, refused plan.Step, refusal error) error {
	blockers, err := in.Blockers(ctx, refused)
	if err != nil {
		klog.FromContext(ctx).Info("Listing what blocks the step failed", "step", refused.String(), "err", err)
	}
	if err != nil || blockers.Empty() {
		return refusal
	}
	return &occupied{refusal, refused, blockers}
}
