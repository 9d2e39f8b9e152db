package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// availabilityPause is how long audits skip the cloud's count of addresses after the cloud refused it. A tenant rarely
// becomes an administrator.
const availabilityPause = time.Hour

// usage is how many addresses ports use, by subnet id.
type usage map[string]int64

// counts are the addresses in use, from two sources. The Inventory's mu guards it.
type counts struct {
	// told is the cloud's own count from the last audit. It covers all ports of all projects. It is nil if the cloud does
	// not answer: only administrators get it.
	told usage
	// seen counts the project's ports in the last list; nil if lists do not show them. A subnet that is not in it has
	// none. On a shared network it is a lower bound, because other projects' ports are not shown.
	seen usage
	// project is the one to which they belong.
	project client.Identity
	// again is when to retry the cloud's own count after a refusal.
	again time.Time
	// began is when the last count began that the cloud answered. failed is why the last one failed; nil if it did not.
	began  time.Time
	failed error
	// foreign is true once Foreign has read a network. Then the cloud's count is needed even if the Inventory holds none.
	foreign bool
}

// of returns how many addresses of a subnet are in use; known is false if neither source tells. The cloud's own count
// may be older than the subnet.
func (c *counts) of(subnet string) (used int64, known bool) {
	if used, known = c.told[subnet]; known {
		return used, true
	}
	return c.seen[subnet], c.seen != nil
}

// any reports whether any source counts addresses.
func (c *counts) any() bool { return c.told != nil || c.seen != nil }

// counting is a count under way, shared by all who wait for it.
type counting struct {
	done chan struct{}
	err  error
}

// countAddresses asks the cloud how many addresses are in use, unless that is under way or a count began at since or
// later. A count that takes longer than listPatience goes on without the caller. With leave, that is no error if one
// has succeeded, and the last one did not fail.
func (i *Inventory) countAddresses(ctx context.Context, since time.Time, leave bool) error {
	i.mu.Lock()
	if ctx.Err() != nil || !i.counts.began.Before(since) {
		i.mu.Unlock()
		return ctx.Err()
	}
	c := i.counting
	if c == nil {
		c = &counting{done: make(chan struct{})}
		i.counting = c
		go func() {
			c.err = i.readCounts(context.WithoutCancel(ctx))
			i.mu.Lock()
			i.counts.failed = c.err
			i.counting = nil
			i.mu.Unlock()
			close(c.done)
		}()
	}
	i.mu.Unlock()
	switch ended, err := within(ctx, listPatience, c.done); {
	case ended:
		return c.err
	case err != nil:
		return err
	}
	i.mu.RLock()
	defer i.mu.RUnlock()
	if leave && !i.counts.began.IsZero() && i.counts.failed == nil {
		return nil
	}
	return noAnswer("list "+availabilityAPI.Many, "")
}

// readCounts asks the cloud how many addresses are in use and tells Moved whose networks changed. On error all counts
// stay as they are.
func (i *Inventory) readCounts(ctx context.Context) error {
	i.mu.RLock()
	idle := len(i.networks.held) == 0 && !i.counts.foreign
	wait := idle || time.Now().Before(i.counts.again)
	i.mu.RUnlock()
	if wait {
		return nil
	}
	var told usage
	began := time.Now()
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
		// A tenant gets an empty list. A Neutron without the extension answers 404, a policy 403.
	default:
		return err
	}

	i.mu.Lock()
	i.counts.told, i.counts.began = told, began
	if told == nil {
		i.counts.again = time.Now().Add(availabilityPause)
	}
	moved := map[string]bool{}
	i.recount(moved)
	i.mu.Unlock()
	i.notify(moved)
	return nil
}

// recount updates the networks in the Inventory to the counts. It adds the owners of changed networks to moved. The
// caller holds mu.
func (i *Inventory) recount(moved map[string]bool) {
	var recounted []*plan.ObservedNetwork
	for _, held := range i.networks.held {
		// Observed has returned the old value to callers, so a network with new counts is a new value.
		var updated *plan.ObservedNetwork
		for at, s := range held.Subnets {
			used, known := i.counts.of(s.ID)
			if !known || s.Used != nil && *s.Used == used {
				continue
			}
			if updated == nil {
				updated = new(*held)
				updated.Subnets = slices.Clone(held.Subnets)
			}
			updated.Subnets[at].Used = new(used)
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

// putCounts sets the counts of a network that was read alone.
func (i *Inventory) putCounts(n *plan.ObservedNetwork) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for at, s := range n.Subnets {
		if used, known := i.counts.of(s.ID); known {
			n.Subnets[at].Used = new(used)
		}
	}
}

// keepCounts copies the counts to a newer view; see keepUnread.
func keepCounts(from, to *plan.ObservedNetwork) {
	for at := range to.Subnets {
		for _, s := range from.Subnets {
			if s.ID == to.Subnets[at].ID {
				to.Subnets[at].Used = s.Used
			}
		}
	}
}

// wireAvailability is an item of /network-ip-availabilities. The total number of addresses follows from the subnet
// (plan.Subnet.Addresses). Used is a JSON number of any size.
type wireAvailability struct {
	Subnets []struct {
		ID   string      `json:"subnet_id"`
		Used json.Number `json:"used_ips"`
	} `json:"subnet_ip_availability"`
}

// count converts a number of any size to int64. Larger numbers become math.MaxInt64, invalid and negative ones nil.
func count(n json.Number) *int64 {
	value, err := n.Int64() // of a number that is too large it is the largest
	if err != nil && !errors.Is(err, strconv.ErrRange) || value < 0 {
		return nil
	}
	return &value
}

// listAvailabilities lists the address counts of the project's networks. Neutron shows them to administrators only.
// They have no ids and come in one page.
func (i *Inventory) listAvailabilities(ctx context.Context) ([]wireAvailability, error) {
	identity, err := i.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"project_id": {identity.ProjectID}}
	all, _, err := client.Page[wireAvailability](ctx, i.cloud, "list "+availabilityAPI.Many, availabilityAPI, query)
	return all, err
}

var availabilityAPI = client.Collection{One: "network_ip_availability", Many: "network-ip-availabilities"}
