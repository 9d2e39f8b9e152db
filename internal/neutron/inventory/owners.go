package inventory

import (
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Holdings are the ids of the resources that one object owns.
type Holdings struct {
	Networks, Ports, Routers []string
}

// Owners returns the UIDs of the objects that own resources here, with their resources. It combines the last complete
// list with what Apply has done since. audited is when that list began, of is its project. ok is false until there is a
// list: then nothing is known, which is not the same as no owners. The Inventory does not know whether the objects
// still exist.
//
// The caller owns the answer.
func (i *Inventory) Owners() (owners map[string]Holdings, audited time.Time, of client.Identity, ok bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.began.IsZero() {
		return nil, time.Time{}, client.Identity{}, false
	}
	owners = make(map[string]Holdings, len(i.networks.owned)+len(i.ports.owned))
	for object, networks := range i.networks.owned {
		owners[object] = Holdings{Networks: i.networks.ids(networks)}
	}
	for object, ports := range i.ports.owned {
		held := owners[object]
		held.Ports = i.ports.ids(ports)
		owners[object] = held
	}
	for object, routers := range i.routers.owned {
		held := owners[object]
		held.Routers = i.routers.ids(routers)
		owners[object] = held
	}
	return owners, i.began, i.of, true
}

// ids returns the ids of resources, sorted.
func (s *shelf[T]) ids(resources []T) []string {
	ids := make([]string, len(resources))
	for at := range resources {
		ids[at], _ = s.name(&resources[at])
	}
	slices.Sort(ids)
	return ids
}
