package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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
	return e.Imported && r.row.Status(obj).AppliedGeneration == 0
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

// refused reports whether an error says that Neutron will not do what was asked in the current state.
func refused(err error) bool {
	switch client.KindOf(err) {
	case client.InUse, client.Capacity, client.Invalid, client.Forbidden:
		return true
	default:
		return false
	}
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
		if step.Action.Of() == plan.KindFloatingIP { // the port's address has another one, as the refusal says
			return retried(refusal, cloudteamv1.ReasonAddressInUse)
		}
	case client.Exhausted:
		if step.Subnet.Pending() {
			return retried(refusal, cloudteamv1.ReasonAddressesExhausted, fmt.Sprintf("Free a range of subnet pool %q, ask "+
				"for a longer prefixLength, or have prefixes added to the pool.", step.Subnet.From.Name))
		}
		if step.Action == plan.CreateFloatingIP {
			return retried(refusal, cloudteamv1.ReasonAddressesExhausted, fmt.Sprintf("Free a floating IP of external "+
				"network %s, or have addresses added to it.", step.FloatingIP.NetworkID))
		}
	}
	return refusal
}

// discard deletes what an earlier sync created and the cloud did not keep the marker of.
func (r *Reconciler[T]) discard(ctx context.Context, in Inventory, obj T) error {
	err := in.Discard(inventory.WithFlow(ctx, obj.GetNamespace()), r.ownerOf(obj))
	if client.MaybeDone(err) {
		r.note(obj, func(m *memory[T]) { m.blank, m.doubt = false, time.Now() })
	}
	return err
}

// confirm reads the object from the API server, before something is given up that its spec does not ask for. It returns
// controller.ErrStale if the cache has not its spec. The cache of a new leader may lag behind, and no later write would
// bring the address back.
func (r *Reconciler[T]) confirm(ctx context.Context, obj T) error {
	if r.kind.Live == nil {
		return nil
	}
	live, err := r.kind.Live(ctx, obj.GetNamespace(), obj.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return controller.ErrStale
	case err != nil:
		return &withoutReport{"reading the object", err}
	case live.GetUID() != obj.GetUID(), live.GetGeneration() != obj.GetGeneration(), paused(live):
		return controller.ErrStale
	}
	return nil
}

// adopt writes the object's marker on the resource that it imports, unless the resource bears it. The progress has an
// error if the resource cannot be adopted now.
func (r *Reconciler[T]) adopt(
	ctx context.Context, in Inventory, obj T, p progress, unresolved error,
) progress {
	expected := r.kind.Expected(obj)
	observed, err := r.look(ctx, in, obj, expected, r.needs(obj, expected)...)
	switch {
	case err != nil:
		return p.failed(err)
	case !observed.Empty():
		return p
	}
	p.observed = &observed
	if unresolved != nil && !p.declared.Traits().AdoptsFirst {
		// An unresolved field cannot be compared now. It would be set later without a comparison.
		return p.failed(unresolved)
	}
	for attempt := 0; ; attempt++ {
		change, err := p.declared.Traits().Adopt(ctx, in)
		if err != nil {
			return p.failed(err)
		}
		done, err := r.apply(ctx, in, obj, change)
		if !done.Empty() {
			p.events = append(p.events, controller.Done(cloudteamv1.EventAdopted,
				"Adopted %s: its description ends with the owner's marker now", expected[0].Resource))
		}
		if err == nil {
			break
		}
		if !client.IsConflict(err) || attempt == attempts {
			return p.failed(err)
		}
	}
	// From here on the marker identifies it. If there was nothing to do, the answer to an earlier adoption was lost.
	if _, err := in.Reread(ctx, expected[0].Resource); err != nil {
		return p.failed(err)
	}
	return p
}

// afterFailure decides how a sync goes on after a change failed with p.err. The result has a state if the sync ends.
// Otherwise the next attempt plans from reread resources. nothingDone is true if no step of the change was taken.
func (r *Reconciler[T]) afterFailure(
	ctx context.Context, in Inventory, obj T, p progress, nothingDone bool,
) progress {
	switch {
	case client.IsNotFound(p.err) && p.observed.Empty() && nothingDone:
		// Something is missing that is not the object's own, such as a port's network. An immediate retry would get the same
		// answer.
		return p.failed(p.err)
	case client.IsConflict(p.err), client.IsNotFound(p.err):
		if err := rereadAll(ctx, in, *p.observed); err != nil {
			return p.failed(err)
		}
		return p
	default:
		need := r.needs(obj, r.kind.Expected(obj))
		if observed, lookErr := in.Observed(ctx, r.ownerOf(obj), r.acting, need...); lookErr == nil {
			p.observed = &observed
		}
		return p.failed(p.err)
	}
}
