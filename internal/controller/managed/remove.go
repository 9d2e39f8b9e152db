package managed

import (
	"context"
	"errors"
	"fmt"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// Removal removes or releases everything of one owner in Neutron.
type Removal struct {
	// Look gives what bears the owner's marker, from a list that is new enough to prove that nothing does.
	Look func(ctx context.Context) (plan.Observed, error)
	// Plan gives the steps after which the observed resources no longer bear the marker.
	Plan func(observed plan.Observed) (plan.Change, error)
	// Apply takes the steps; see Inventory.Apply.
	Apply func(ctx context.Context, change plan.Change) (done plan.Change, err error)
}

// Run looks, plans and applies until nothing bears the marker. After a conflict with another writer it rereads what was
// observed, at most a few times. last is the last observation; nil if nothing is known. An error means that something
// may be left. Errors of Look, Plan and Apply are returned unchanged.
func (r Removal) Run(ctx context.Context, in Inventory) (last *plan.Observed, err error) {
	unsettled := fmt.Errorf("the removal did not converge after %d attempts", attempts)
	for attempt := 0; ; attempt++ {
		observed, err := r.Look(ctx)
		if err != nil {
			return last, err
		}
		last = &observed
		if observed.Empty() {
			return last, nil
		}
		if attempt == attempts {
			return last, unsettled
		}
		_, span := tracing.Start(ctx, "plan")
		change, err := r.Plan(observed)
		planned(ctx, span, change)
		if err != nil {
			return last, err
		}
		_, err = r.Apply(ctx, change)
		switch {
		case err == nil:
		case client.IsConflict(err), client.IsNotFound(err):
			unsettled = err
			if err := rereadAll(ctx, in, observed); err != nil {
				return last, err
			}
		default:
			return last, err
		}
	}
}

// rereadAll rereads everything after a conflict, so that the next plan starts from the current state.
func rereadAll(ctx context.Context, in Inventory, observed plan.Observed) error {
	for _, resource := range observed.Resources() {
		if _, err := in.Reread(ctx, resource); err != nil && !errors.Is(err, inventory.ErrUnmarked) {
			return err
		}
	}
	return nil
}
