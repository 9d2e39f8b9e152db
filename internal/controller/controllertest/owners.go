package controllertest

import (
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Settled is the Inventory's.
func (c *Cloud) Settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.Unsettled
}

// Owners is the Inventory's.
func (c *Cloud) Owners() (owners map[string]inventory.Holdings, audited time.Time, of client.Identity, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed.IsZero() {
		return nil, time.Time{}, client.Identity{}, false
	}
	owners = map[string]inventory.Holdings{}
	note := func(description string, of plan.Kind, id string) {
		_, owner, _ := plan.ParseDescription(description)
		if owners[owner.Object] == nil {
			owners[owner.Object] = inventory.Holdings{}
		}
		owners[owner.Object][of] = append(owners[owner.Object][of], id)
		slices.Sort(owners[owner.Object][of])
	}
	for id, held := range c.networks.held {
		note(held.Description, plan.KindNetwork, id)
	}
	for id, held := range c.ports.held {
		note(held.Description, plan.KindPort, id)
	}
	for id, held := range c.routers.held {
		note(held.Description, plan.KindRouter, id)
	}
	for id, held := range c.groups.held {
		note(held.Description, plan.KindGroup, id)
	}
	for id, held := range c.floating.held {
		note(held.Description, plan.KindFloatingIP, id)
	}
	return owners, c.listed, c.Credentials, true
}
