package neutron

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// availabilityPause is how long the address counts are not asked for after the cloud refused them: a tenant does not
// become an administrator every minute.
const availabilityPause = time.Hour

// countAddresses reads the address counts, where the credentials may, and returns the objects for which they moved.
func (i *Inventory) countAddresses(ctx context.Context) ([]string, error) {
	i.mu.RLock()
	wait := len(i.networks.held) == 0 || time.Now().Before(i.availabilityAgain)
	i.mu.RUnlock()
	if wait {
		return nil, nil
	}
	availabilities, err := i.cloud.listAvailabilities(ctx)
	refusal, refused := errors.AsType[*Error](err)
	switch {
	case err == nil && len(availabilities) > 0:
	case err == nil, refused &&
		(refusal.Kind == Invalid || refusal.Kind == Forbidden || refusal.Status == http.StatusNotFound):
		// A tenant is told that there are none; a Neutron without the extension says 404, a policy 403.
		i.mu.Lock()
		i.availabilityAgain = time.Now().Add(availabilityPause)
		i.mu.Unlock()
		return nil, nil
	default:
		return nil, err
	}
	type counts struct{ total, used *int64 }
	bySubnet := map[string]counts{}
	for _, a := range availabilities {
		for _, s := range a.Subnets {
			bySubnet[s.ID] = counts{count(s.Total), count(s.Used)}
		}
	}

	i.mu.Lock()
	var moved []string
	var counted []*network.ObservedNetwork
	for _, held := range i.networks.held {
		// What Observed has handed out is not changed, so a network with new counts is a new value.
		var updated *network.ObservedNetwork
		for at, s := range held.Subnets {
			c, known := bySubnet[s.ID]
			if !known || equalCount(s.Total, c.total) && equalCount(s.Used, c.used) {
				continue
			}
			if updated == nil {
				updated = new(*held)
				updated.Subnets = slices.Clone(held.Subnets)
			}
			updated.Subnets[at].Total, updated.Subnets[at].Used = c.total, c.used
		}
		if updated != nil {
			counted = append(counted, updated)
			moved = append(moved, i.networks.object(held))
		}
	}
	for _, n := range counted {
		i.networks.hold(n)
	}
	i.mu.Unlock()
	for _, object := range moved {
		i.options.Moved(object)
	}
	return moved, nil
}

func equalCount(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// keepCounts carries the address counts over to a newer view, until they are next counted.
func keepCounts(from, to *network.ObservedNetwork) {
	for at := range to.Subnets {
		for _, s := range from.Subnets {
			if s.ID == to.Subnets[at].ID {
				to.Subnets[at].Total, to.Subnets[at].Used = s.Total, s.Used
			}
		}
	}
}
