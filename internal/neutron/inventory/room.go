package inventory

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// room decides which ports may be created in bulk.
//
// Neutron refuses the whole bulk if one of its ports gets no address. Neutron 21 then leaks the addresses that it took
// for the ports before that one: nobody can use them until their subnet is deleted. So ports go in bulk only if the
// Inventory holds their network and Neutron chooses the addresses. The count of used addresses MUST leave room for many
// more. TestRefusedBulkPortsLeakAddresses in test/contract shows which refusals leak addresses.
//
// The Inventory's mu guards it.
type room struct {
	// asked counts the requested addresses per subnet that the last list may not include.
	asked usage
	// later becomes asked when the list under way ends: requests that were under way when it began, and all since. It is
	// nil if no list is under way.
	later usage
	// freed counts the addresses per subnet of deleted ports that the last list may include, and freedLater those since
	// the list under way began; it is nil if none is.
	freed, freedLater usage
	// underway counts the addresses per subnet of creates that have not ended.
	underway usage
	// bulks counts the ports per network that may go in bulk and have not ended. When a network's count falls to zero,
	// ended is closed and replaced.
	bulks map[string]int
	ended chan struct{}
	// barred is until when ports on a network go alone, by network id.
	barred map[string]time.Time
}

const (
	// A margin of a subnet is reserved for others who create ports between two audits. It is the larger of minMargin
	// addresses and 1/marginShare of the subnet. While some of our ports may go in bulk, ports that go alone may use
	// ownShare of this margin.
	minMargin   = 32
	marginShare = 4
	ownShare    = minMargin / 2
	// barredFor is how long ports on a network go alone after a refused bulk there leaked addresses. No list shows the
	// leaked addresses, so the next count would be wrong, too. barredUnknown is for a bulk that failed with unknown
	// outcome.
	barredFor     = 24 * time.Hour
	barredUnknown = 10 * time.Minute
)

func newRoom() room {
	return room{
		asked: usage{}, freed: usage{}, underway: usage{}, bulks: map[string]int{}, ended: make(chan struct{}),
		barred: map[string]time.Time{},
	}
}

func (r *room) listBegins() {
	r.later, r.freedLater = maps.Clone(r.underway), usage{}
}

// listEnds records that the list under way has ended, and whether its counts were used.
func (r *room) listEnds(counted bool) {
	if counted {
		r.asked, r.freed = r.later, r.freedLater
	}
	r.later, r.freedLater = nil, nil
}

// draw is what the create of a port takes from its network.
type draw struct {
	network string
	// subnets has one entry per address.
	subnets []string
	// particular is true if the port needs a certain address or MAC.
	particular bool
}

func drawOf(step plan.Step) draw {
	// If the step names no addresses, they may come from any subnet.
	d := draw{network: step.NetworkRef.ID, particular: step.Port.MAC != "" || len(step.Port.Addresses) == 0}
	for _, a := range step.Port.Addresses {
		d.subnets = append(d.subnets, a.SubnetID)
		d.particular = d.particular || a.Address.IsValid()
	}
	return d
}

// enterRoom waits until a port may be created. goesAlone tells, when the port's turn comes, whether it needs a call of
// its own. left MUST be called when the create has ended, with its error.
//
// A port that must go alone waits while it could take an address that a bulk on its network needs.
func (i *Inventory) enterRoom(ctx context.Context, op string, d draw) (
	goesAlone func() bool, left func(error), err error,
) {
	for {
		i.mu.Lock()
		spare := i.spareOn(d.network)
		alone := d.particular || !spare.holds(d, 0) || i.room.bars(d.network)
		if !alone || i.room.bulks[d.network] == 0 || spare.holds(d, ownShare) {
			leave := i.room.enter(d, alone)
			i.mu.Unlock()
			goesAlone = func() bool {
				i.mu.RLock()
				defer i.mu.RUnlock()
				return alone || i.room.bars(d.network)
			}
			left = func(failed error) {
				i.mu.Lock()
				defer i.mu.Unlock()
				leave(failed)
			}
			return goesAlone, left, nil
		}
		ended := i.room.ended
		i.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			refusal := client.Interrupted(op, ctx.Err())
			refusal.MaybeDone = false // the request was never sent
			return nil, nil, refusal
		}
	}
}

// enter counts a port until left is called.
func (r *room) enter(d draw, alone bool) (left func(failed error)) {
	for _, subnet := range d.subnets {
		r.underway[subnet]++
		r.asked[subnet]++
		if r.later != nil {
			r.later[subnet]++
		}
	}
	if !alone {
		r.bulks[d.network]++
	}
	return func(failed error) {
		for _, subnet := range d.subnets {
			r.underway.drop(subnet)
			if failed != nil && !client.MaybeDone(failed) {
				r.asked.drop(subnet)
				r.later.drop(subnet)
			}
		}
		if alone {
			return
		}
		if r.bulks[d.network]--; r.bulks[d.network] == 0 {
			delete(r.bulks, d.network)
			close(r.ended)
			r.ended = make(chan struct{})
		}
	}
}

// bars reports whether ports on a network go alone because an earlier bulk failed.
func (r *room) bars(network string) bool { return time.Now().Before(r.barred[network]) }

// bar makes ports on a network go alone for a duration.
func (r *room) bar(network string, d time.Duration) {
	if until := time.Now().Add(d); r.barred[network].Before(until) {
		r.barred[network] = until
	}
}

// spare is how many addresses per subnet of a network are free beyond the margin; nil if unknown.
type spare map[string]int64

// holds reports whether a port's addresses are available, given so many more per subnet.
func (s spare) holds(d draw, more int64) bool {
	need := spare{}
	for _, subnet := range d.subnets {
		left, ok := s[subnet]
		if need[subnet]++; !ok || need[subnet] > left+more {
			return false
		}
	}
	return true
}

// spareOn computes the spare of a network. It is unknown if the Inventory does not hold the network or its counts, or
// if a subnet does not serve any port. It is also unknown if other projects may have ports on the network and the cloud
// does not tell their number: the list of ports is our project's. The caller holds mu.
func (i *Inventory) spareOn(network string) spare {
	held, ours := i.networks.held[network]
	mayShare := ours && (isShared(held) || held.SharesUnknown && i.sharesFailed != nil)
	if !ours || i.counts.told == nil && mayShare {
		return nil
	}
	left := spare{}
	for _, s := range held.Subnets {
		if s.Used == nil || !forAnyPort(s) {
			return nil
		}
		free, size := i.freeIn(s)
		left[s.ID] = free - max(minMargin, size/marginShare)
	}
	return left
}

// drop takes one away. A nil usage has none.
func (u usage) drop(subnet string) {
	switch u[subnet] {
	case 0:
	case 1:
		delete(u, subnet)
	default:
		u[subnet]--
	}
}

// release records the addresses of a port that is gone.
func (r *room) release(p plan.PortAttributes) {
	for _, a := range p.Addresses {
		r.freed[a.SubnetID]++
		if r.freedLater != nil {
			r.freedLater[a.SubnetID]++
		}
	}
}

// freeIn counts the free addresses of a subnet whose used ones are known, and all. The caller holds mu.
func (i *Inventory) freeIn(s plan.ObservedSubnet) (free, size int64) {
	for _, pool := range s.Pools {
		size = min(size+min(pool.Size(), math.MaxInt32), math.MaxInt32) // capped: larger numbers make no difference
	}
	// The cloud's own count may be older than the last list.
	used := max(*s.Used, i.counts.seen[s.ID])
	return size - used - i.room.asked[s.ID], size
}

// isShared reports whether other projects may use a network.
func isShared(n *plan.ObservedNetwork) bool {
	return len(n.Shares) > 0 || n.Shared != nil && *n.Shared
}

// forAnyPort reports whether a subnet serves any port with addresses from its pools. If addresses derive from MACs, a
// bulk fails (measured; the contract suite checks it).
func forAnyPort(s plan.ObservedSubnet) bool {
	stateful := func(mode plan.IPv6Mode) bool { return mode == "" || mode == "dhcpv6-stateful" }
	return len(s.ServiceTypes) == 0 && stateful(s.IPv6AddressMode) && stateful(s.IPv6RAMode)
}

// refused handles creates that failed in one call. It returns whether they go one by one from then on.
func (i *Inventory) refused(of client.Collection, items []batch.Item, err error) (oneByOne bool) {
	if of != portKind.Collection || !costsAddresses(err) {
		return false
	}
	d := barredFor
	if client.MaybeDone(err) {
		d = barredUnknown
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, item := range items {
		if network, ok := item.Body["network_id"].(string); ok {
			i.room.bar(network, d)
		}
	}
	return true
}

// sparing are the refusals of a bulk of ports that leak no addresses: they come before the ports have addresses, or
// Neutron returns them (measured; the contract suite checks it).
var sparing = []string{
	"OverQuota", "PolicyNotAuthorized", "HTTPBadRequest", "NetworkNotFound", "SecurityGroupNotFound", "MacAddressInUse",
}

// costsAddresses reports whether a failed bulk of ports may have leaked addresses.
func costsAddresses(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err != nil
	}
	reached := e.MaybeDone ||
		e.Status != 0 && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin()
	return reached && !slices.Contains(sparing, e.Type)
}
