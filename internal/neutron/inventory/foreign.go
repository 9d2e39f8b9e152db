package inventory

import (
	"context"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Foreign is a network as it is in Neutron, whoever's it is.
type Foreign struct {
	plan.ObservedNetwork
	// ProjectID is the project that it belongs to.
	ProjectID string
}

// wireForeign is a network with what is read of one that need not be ours.
type wireForeign struct {
	wireNetwork
	ProjectID string `json:"project_id"`
}

// Foreign reads a network by its id, with all of its subnets that the credentials may see and, after CoverShares, with
// whom it is shared, whatever project has it and whatever it is marked with. Which addresses are in use is counted for
// it from the next audit on, in its own project or by the ports of ours. The Inventory does not keep it. It reports
// false where there is none, or none that the credentials may see.
func (i *Inventory) Foreign(ctx context.Context, id string) (n Foreign, found bool, err error) {
	i.mu.Lock()
	i.counts.foreign = true
	i.mu.Unlock()
	fields := append([]string{"project_id"}, networkFields...)
	w, err := client.Get[wireForeign](ctx, i.cloud, opGetNetwork, networkAPI, fields, id)
	if client.IsNotFound(err) {
		return Foreign{}, false, nil
	}
	if err != nil {
		return Foreign{}, false, err
	}
	if w.ProjectID == "" {
		return Foreign{}, false, client.BadAnswer(opGetNetwork, "GET", "network %s has no project_id", id)
	}
	observed, err := i.whole(ctx, w.wireNetwork)
	if err != nil {
		return Foreign{}, false, err
	}
	return Foreign{*observed, w.ProjectID}, true, nil
}
