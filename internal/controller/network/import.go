package network

import (
	"context"
	"errors"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// adopt is managed.Traits.Adopt. It gives the steps that write the object's marker on the imported network, unless
// another owner is first.
func (d declaration) adopt(ctx context.Context, in managed.Inventory) (plan.Change, error) {
	found, err := d.imported(ctx, in)
	if err != nil {
		return nil, err
	}
	resource := plan.Resource{Kind: plan.KindNetwork, ID: found.ID}
	if err := managed.OfProject(ctx, in, resource, found.ProjectID); err != nil {
		return nil, err
	}
	change, err := plan.Adopt(d.Spec, found.ObservedNetwork)
	return change, importProblem(err)
}

// imported reads the network that the spec imports.
func (d declaration) imported(ctx context.Context, in managed.Inventory) (inventory.Foreign, error) {
	found, exists, err := in.Foreign(ctx, d.Import.ID)
	if err == nil && !exists {
		err = importProblem(&plan.NotMadeError{Resource: plan.Resource{Kind: plan.KindNetwork, ID: d.Import.ID}})
	}
	return found, err
}

// observing is the declaration of a Network that only shows the network that it imports.
type observing struct {
	declaration
	// ignoreDrift are the fields whose differences are not shown.
	ignoreDrift []string
}

// Resolve implements managed.Declaration.
func (d observing) Resolve(ctx context.Context, in managed.Inventory) (managed.Declaration, error) {
	resolved, err := d.declaration.Resolve(ctx, in)
	if resolved == nil {
		return nil, err
	}
	return observing{resolved.(declaration), d.ignoreDrift}, err
}

// Retained implements managed.Declaration. Nothing is written to an observed network.
func (d observing) Retained() managed.Declaration { return d }

// Traits implements managed.Declaration.
func (d observing) Traits() managed.Traits {
	traits := d.declaration.Traits()
	traits.Observe = d.observe
	return traits
}

func (d observing) observe(ctx context.Context, in managed.Inventory) (seen managed.Observation, err error) {
	found, err := d.imported(ctx, in)
	if err != nil {
		if _, gone := errors.AsType[*plan.NotMadeError](err); gone {
			seen.Observed = &plan.Observed{}
		}
		return seen, err
	}
	differences, err := plan.Compare(d.Spec, found.ObservedNetwork)
	if err != nil {
		return seen, importProblem(err)
	}
	seen.Observed = &plan.Observed{Networks: []plan.ObservedNetwork{found.ObservedNetwork}}
	asUpdate := plan.Change{{Differences: differences}}
	seen.Drift = asUpdate.Without(d.ignoreDrift...).Differences()
	switch {
	case !d.Complete(*seen.Observed):
		seen.State = controller.Stalled(cloudteamv1.ReasonImportMismatch, differs(seen.Drift))
	case len(seen.Drift) > 0:
		seen.State = controller.Ready(cloudteamv1.ReasonDriftDetected,
			"The observed network is not as declared: "+managed.Listed(seen.Drift))
	default:
		seen.State = controller.Ready(cloudteamv1.ReasonObserved,
			"The network is observed. Nothing is changed in Neutron.")
	}
	return seen, nil
}

// importProblem is managed.ImportProblem. The result says what the error means for the Network.
func importProblem(err error) error { return managed.ImportProblem(err, differs) }

// differs is the message for a network that cannot be imported or used as it is.
func differs(differences []plan.Difference) string {
	return "The network to import is not as declared: " + managed.Listed(differences) +
		". Change the spec to match the network, or set import.overwrite to true to have the network changed."
}
