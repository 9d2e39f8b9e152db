package inventory

import (
	"context"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Foreign is a network as it is in Neutron, of any owner.
type Foreign struct {
	plan.ObservedNetwork
	// ProjectID is the project that owns the network.
	ProjectID string
}

// wireForeign adds the project to wireNetwork, because the network need not be ours.
type wireForeign struct {
	wireNetwork
	ProjectID string `json:"project_id"`
}

// Foreign reads a network by id, whatever its project and marker. It includes all subnets that the credentials may see
// and, after CoverShares, its shares. The Inventory does not keep it. It reports false if the network does not exist or
// the credentials may not see it.
//
// From the next audit on it includes address counts: the cloud's own if the network is in this project, else those of
// this project's ports.
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
