package inventory

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// room decides which ports may be created in bulk.
//
// Neutron refuses a bulk as a whole where one of its ports gets no address. Neutron 21 then does not give back the
// addresses that it took for the ports before that one: nobody gets them until their subnet is deleted. So ports go
// together only on networks that the Inventory holds, where the addresses that it counted leave room for many more, and
// only where Neutron chooses the addresses. TestRefusedBulkPortsLeakAddresses in test/contract holds which
// refusals cost addresses.
//
// The Inventory's mu guards it.
type room struct {
	// asked is how many addresses of each subnet were asked for that the last list may not have counted.
	asked usage
	// later is what asked becomes with the list under way: what was under way when it began, and all since. It is nil
	// while there is none.
	later usage
	// underway is how many addresses of each subnet are asked for by creates that have not ended.
	underway usage
	// bulks is how many ports of each network may go in bulk and have not ended. ended is closed, and made anew, when a
	// network has none any more.
	bulks map[string]int
	ended chan struct{}
	// barred is until when ports go alone on a network.
	barred map[string]time.Time
}

const (
	// At least minMargin addresses of a subnet, and a marginShare-th of it, are left to others, who create ports on it
	// between two audits. Of these, ownShare may go to ports of ours that go alone while others may go in bulk.
	minMargin   = 32
	marginShare = 4
	ownShare    = minMargin / 2
	// barredFor is how long ports go alone on a network after a bulk there was refused at the price of addresses. No list
	// shows those that were lost, so the next count would be as wrong. barredUnknown is for a bulk that failed without a
	// word of what became of it.
	barredFor     = 24 * time.Hour
	barredUnknown = 10 * time.Minute
)

func newRoom() room {
	return room{
		asked: usage{}, underway: usage{}, bulks: map[string]int{}, ended: make(chan struct{}),
		barred: map[string]time.Time{},
	}
}

// listBegins notes that a list begins.
func (r *room) listBegins() {
	r.later = maps.Clone(r.underway)
}

// listEnds notes that the list under way has ended, and whether it was taken in.
func (r *room) listEnds(counted bool) {
	if counted {
		r.asked = r.later
	}
	r.later = nil
}

// draw is what the create of a port asks of its network.
type draw struct {
	network string
	// subnets has one for each address.
	subnets []string
	// particular is true where not every address and MAC will do.
	particular bool
}

func drawOf(step plan.Step) draw {
	// Left out, they are of any of its subnets.
	d := draw{network: step.NetworkRef.ID, particular: step.Port.MAC != "" || len(step.Port.Addresses) == 0}
	for _, a := range step.Port.Addresses {
		d.subnets = append(d.subnets, a.SubnetID)
		d.particular = d.particular || a.Address.IsValid()
	}
	return d
}

// enterRoom has a port wait until it may be created. goesAlone tells, when its turn comes, whether it goes in a call by
// itself. left MUST be called when the create has ended.
//
// A port that has to go alone waits where it could take an address that a bulk on its network counts on.
func (i *Inventory) enterRoom(ctx context.Context, op string, d draw) (
	goesAlone func() bool, left func(), err error,
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
			left = func() {
				i.mu.Lock()
				defer i.mu.Unlock()
				leave()
			}
			return goesAlone, left, nil
		}
		ended := i.room.ended
		i.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			refusal := client.Interrupted(op, ctx.Err())
			refusal.MaybeDone = false // it was not even asked for
			return nil, nil, refusal
		}
	}
}

// enter counts a port until left is called.
func (r *room) enter(d draw, alone bool) (left func()) {
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
	return func() {
		for _, subnet := range d.subnets {
			if r.underway[subnet]--; r.underway[subnet] == 0 {
				delete(r.underway, subnet)
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

// bars reports whether ports go alone on a network because of what became of others.
func (r *room) bars(network string) bool { return time.Now().Before(r.barred[network]) }

// bar has ports go alone on networks, for some time.
func (r *room) bar(networks []string, d time.Duration) {
	until := time.Now().Add(d)
	for _, network := range networks {
		if r.barred[network].Before(until) {
			r.barred[network] = until
		}
	}
}

// spare is how many addresses of each subnet of a network are left beyond the margin; nil where nobody can tell.
type spare map[string]int64

// holds reports whether a port's addresses are left, or would be were there so many more.
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

// spareOn counts what is left on a network. Nobody can tell for a network that the Inventory does not hold, one whose
// addresses were not counted, and one with a subnet that is not for any port. The caller holds mu.
func (i *Inventory) spareOn(network string) spare {
	held, ours := i.networks.held[network]
	if !ours {
		return nil
	}
	left := spare{}
	for _, s := range held.Subnets {
		if s.Used == nil || !forAnyPort(s) {
			return nil
		}
		size := int64(0)
		for _, pool := range s.Pools {
			size = min(size+min(pool.Size(), math.MaxInt32), math.MaxInt32) // it is as good as any larger number
		}
		// The cloud's own count may be from before the last list.
		used := max(*s.Used, i.counts.seen[s.ID])
		left[s.ID] = size - max(minMargin, size/marginShare) - used - i.room.asked[s.ID]
	}
	return left
}

// forAnyPort reports whether an address of a subnet is one of its pools and for any port. Where addresses follow from
// MACs a bulk fails (measured; the contract suite holds it).
func forAnyPort(s plan.ObservedSubnet) bool {
	stateful := func(mode plan.IPv6Mode) bool { return mode == "" || mode == "dhcpv6-stateful" }
	return len(s.ServiceTypes) == 0 && stateful(s.IPv6AddressMode) && stateful(s.IPv6RAMode)
}

// refused is told of creates that failed in one call, and returns whether they go one by one from there on.
func (i *Inventory) refused(of client.Collection, networks []string, err error) (oneByOne bool) {
	if of != portAPI || !costsAddresses(err) {
		return false
	}
	d := barredFor
	if client.MaybeDone(err) {
		d = barredUnknown
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.room.bar(networks, d)
	return true
}

// sparing are the refusals that a bulk of ports meets before its ports have addresses, or after which they are given
// back (measured; the contract suite holds it).
var sparing = []string{
	"OverQuota", "PolicyNotAuthorized", "HTTPBadRequest", "NetworkNotFound", "SecurityGroupNotFound", "MacAddressInUse",
}

// costsAddresses reports whether a bulk of ports that failed so may have cost addresses.
func costsAddresses(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err != nil
	}
	reached := e.MaybeDone ||
		e.Status != 0 && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin()
	return reached && !slices.Contains(sparing, e.Type)
}
