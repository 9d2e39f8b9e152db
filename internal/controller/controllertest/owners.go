package controllertest

import (
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// Owners is the Inventory's.
func (c *Cloud) Owners() (owners map[string]inventory.Holdings, audited time.Time, of client.Identity, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed.IsZero() {
		return nil, time.Time{}, client.Identity{}, false
	}
	owners = map[string]inventory.Holdings{}
	note := func(description string, add func(*inventory.Holdings)) {
		_, owner, _ := plan.ParseDescription(description)
		holdings := owners[owner.Object]
		add(&holdings)
		slices.Sort(holdings.Networks)
		slices.Sort(holdings.Ports)
		owners[owner.Object] = holdings
	}
	for id, held := range c.networks.held {
		note(held.Description, func(h *inventory.Holdings) { h.Networks = append(h.Networks, id) })
	}
	for id, held := range c.ports.held {
		note(held.Description, func(h *inventory.Holdings) { h.Ports = append(h.Ports, id) })
	}
	return owners, c.listed, c.Credentials, true
}
