package controllertest

import (
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// Owners is the Inventory's.
func (c *Cloud) Owners() (owners map[string]neutron.Holdings, audited time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed.IsZero() {
		return nil, time.Time{}, false
	}
	owners = map[string]neutron.Holdings{}
	for id, held := range c.index {
		_, owner, _ := network.ParseDescription(held.Description)
		holdings := owners[owner.Object]
		holdings.Networks = append(holdings.Networks, id)
		slices.Sort(holdings.Networks)
		owners[owner.Object] = holdings
	}
	return owners, c.listed, true
}
