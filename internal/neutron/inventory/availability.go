package inventory

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// availabilityPause is how long the cloud's count of addresses is not asked for after the cloud refused it: a tenant
// does not become an administrator every minute.
const availabilityPause = time.Hour

// usage is how many addresses ports have, by the id of their subnet.
type usage map[string]int64

// counts is what is known of the addresses in use. The Inventory's mu guards it.
type counts struct {
	// told is the cloud's own count as of the last audit: of all ports, whoever's. It is nil where the cloud does not
	// tell: it does to administrators.
	told usage
	// seen is that of the project's ports as of the last list; nil where lists are not for the project's ports. A subnet
	// that is not in it has none. On a shared network it is at least so many: others' ports are not shown.
	seen usage
	// again is when the cloud's own count is asked for again after it was refused.
	again time.Time
	// foreign is true once a network was shown that the Inventory does not hold, for which the cloud is asked, too.
	foreign bool
}

// of is how many addresses of a subnet are in use; known is false where nobody can tell. The cloud's own count may be
// older than the subnet.
func (c *counts) of(subnet string) (used int64, known bool) {
	if used, known = c.told[subnet]; known {
		return used, true
	}
	return c.seen[subnet], c.seen != nil
}

// any reports whether addresses are counted at all.
func (c *counts) any() bool { return c.told != nil || c.seen != nil }

// countAddresses has the cloud tell how many addresses are in use, where it does, and tells whose networks that moved.
// It leaves that to the next audit, if there is one, where the last list was a patrol of routers. An error leaves all
// counts as they are.
func (i *Inventory) countAddresses(ctx context.Context) error {
	i.mu.RLock()
	idle := len(i.networks.held) == 0 && !i.counts.foreign
	left := i.coverage.shown.patrol && i.options.Interval > 0
	wait := idle || left || time.Now().Before(i.counts.again)
	i.mu.RUnlock()
	if wait {
		return nil
	}
	var told usage
	availabilities, err := i.listAvailabilities(ctx)
	refusal, refused := errors.AsType[*client.Error](err)
	switch {
	case err == nil && len(availabilities) > 0:
		told = usage{}
		for _, a := range availabilities {
			for _, s := range a.Subnets {
				if used := count(s.Used); used != nil {
					told[s.ID] = *used
				}
			}
		}
	case err == nil, refused &&
		(refusal.Kind == client.Invalid || refusal.Kind == client.Forbidden || refusal.Status == http.StatusNotFound):
		// A tenant is told that there are none; a Neutron without the extension says 404, a policy 403.
	default:
		return err
	}

	i.mu.Lock()
	i.counts.told = told
	if told == nil {
		i.counts.again = time.Now().Add(availabilityPause)
	}
	moved := map[string]bool{}
	i.recount(moved)
	i.mu.Unlock()
	for _, object := range slices.Sorted(maps.Keys(moved)) {
		i.options.Moved(object)
	}
	return nil
}

// recount brings what is held up to the counts, and adds the objects for whose networks they moved to moved. The caller
// holds mu.
func (i *Inventory) recount(moved map[string]bool) {
	var recounted []*plan.ObservedNetwork
	for _, held := range i.networks.held {
		// What Observed has handed out is not changed, so a network with new counts is a new value.
		var updated *plan.ObservedNetwork
		for at, s := range held.Subnets {
			used, known := i.counts.of(s.ID)
			switch {
			case !known && (s.Used == nil || i.counts.any()):
				continue // what was made since the cloud told has what it was made with
			case known && s.Used != nil && *s.Used == used:
				continue
			}
			if updated == nil {
				updated = new(*held)
				updated.Subnets = slices.Clone(held.Subnets)
			}
			updated.Subnets[at].Used = nil
			if known {
				updated.Subnets[at].Used = new(used)
			}
		}
		if updated != nil {
			recounted = append(recounted, updated)
			moved[i.networks.object(held)] = true
		}
	}
	for _, n := range recounted {
		i.networks.hold(n)
	}
}

// putCounts puts the counts into a network that was read by itself.
func (i *Inventory) putCounts(n *plan.ObservedNetwork) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for at, s := range n.Subnets {
		if used, known := i.counts.of(s.ID); known {
			n.Subnets[at].Used = new(used)
		}
	}
}

// keepCounts carries the counts over to a newer view; see keepUnread.
func keepCounts(from, to *plan.ObservedNetwork) {
	for at := range to.Subnets {
		for _, s := range from.Subnets {
			if s.ID == to.Subnets[at].ID {
				to.Subnets[at].Used = s.Used
			}
		}
	}
}
