package neutron

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// room decides which ports may be created in bulk, and with how many others.
//
// A bulk in which a port gets no address is refused as a whole, and Neutron 21 does not give back the addresses that it
// had taken for the ports before that one: nobody gets them until their subnet is deleted. So ports go together only on
// networks whose subnets are known to have room for many more, and only where they leave it to Neutron which addresses
// they get. TestRefusedBulkPortsLeakAddresses in test/contract holds which refusals cost addresses, and which
// do not.
//
// What is left in a subnet is counted once for many ports (a look), and remembered for a while, less what is sent
// meanwhile. The mu of its broker guards it; a look takes place outside.
type room struct {
	// count gives what is left beyond the margin in each subnet of those of the networks on which ports may go together
	// at all; nil where nobody can tell.
	count func(ctx context.Context, networks []string) (map[string]spare, error)
	// known are the networks of which something is known, by id.
	known map[string]knowledge
	// look is the one that is under way, if any.
	look *look
	// underway is how many addresses of each subnet are asked for by calls under way.
	underway spare
	// bulks is how many ports are in bulks under way on each network.
	bulks map[string]int
}

// spare is a number of addresses by subnet.
type spare map[string]int64

// knowledge is how many addresses of each of a network's subnets are left to bulks, until a time. Where there is no
// subnet in it, ports go alone.
type knowledge struct {
	left  spare
	until time.Time
}

// look is a count under way.
type look struct {
	began time.Time
	// networks are those that are counted, and that nothing has unsettled since it began.
	networks map[string]bool
	// sent is how many addresses of each subnet calls have asked for of which it may know nothing yet: those that were
	// under way when it began, and all since.
	sent spare
}

const (
	// worthwhile is how many ports have to wait for a look: it and a bulk are four calls.
	worthwhile = 5
	// lookTimeout bounds a look: those who wait for it go alone then.
	lookTimeout = 15 * time.Second
	// What a look found is believed for a minute, or for lookShare times what the look took: counting many thousand ports
	// takes Neutron seconds.
	lookKept  = time.Minute
	lookShare = 20
	// At least minMargin addresses of a subnet, and a marginShare-th of it, are left to others, who create ports on it
	// while the count is believed. Of these, ownShare may go to ports of ours that go alone while a bulk is under way.
	minMargin   = 32
	marginShare = 4
	ownShare    = minMargin / 2
	// barred is how long ports go alone on a network after a bulk there was refused at the price of addresses. No list
	// shows those that were lost, so the next count would be as wrong.
	barred = 24 * time.Hour
)

func newRoom() *room {
	return &room{known: map[string]knowledge{}, underway: spare{}, bulks: map[string]int{}}
}

// draw is what the create of a port asks of its network.
type draw struct {
	network string
	// subnets has one for each address.
	subnets []string
	// particular is true where not every address and MAC will do.
	particular bool
}

// drawOf reads the body of a create as portBody makes it.
func drawOf(body map[string]any) draw {
	var d draw
	d.network, _ = body["network_id"].(string)
	_, d.particular = body["mac_address"]
	addresses, _ := body["fixed_ips"].([]wireFixedIP)
	for _, a := range addresses {
		d.subnets = append(d.subnets, a.SubnetID)
		d.particular = d.particular || a.Address != ""
	}
	// Left out, they are of any of its subnets.
	d.particular = d.particular || len(addresses) == 0
	return d
}

// company is how many may go in one call with a port: 1 for alone, and 0 where it has to wait. It waits for the look
// that is to find out, and where it could take an address that a bulk under way counts on.
func (r *room) company(c *pendingCreate) int {
	k, known := r.knows(c.draw.network)
	sociable := c.company > 1 && !c.draw.particular
	switch {
	case sociable && k.holds(c.draw, 0):
		return c.company
	case sociable && !known && r.look != nil && r.look.networks[c.draw.network]:
		return 0
	case r.bulks[c.draw.network] > 0 && !k.holds(c.draw, ownShare):
		return 0
	default:
		return 1
	}
}

func (r *room) knows(network string) (knowledge, bool) {
	if k, ok := r.known[network]; ok && time.Now().Before(k.until) {
		return k, true
	}
	return knowledge{}, false
}

// holds reports whether a port's addresses are left, or would be were there so many more.
func (k knowledge) holds(d draw, more int64) bool {
	need := spare{}
	for _, subnet := range d.subnets {
		left, ok := k.left[subnet]
		if need[subnet]++; !ok || need[subnet] > left+more {
			return false
		}
	}
	return true
}

// begin begins a look for a port and those that wait with it, unless one is under way or they are too few. It returns
// nil where there is none to be taken.
func (r *room) begin(first *pendingCreate, waiting iter.Seq[*pendingCreate]) *look {
	if r.count == nil || r.look != nil {
		return nil
	}
	networks, ports := map[string]bool{}, 0
	for c := range waiting {
		if _, known := r.knows(c.draw.network); known || c.left || c.company == 1 || c.draw.particular ||
			!together(first, c) || len(networks) == maxBulk && !networks[c.draw.network] {
			continue
		}
		networks[c.draw.network] = true
		ports++
	}
	if ports < worthwhile || !networks[first.draw.network] {
		return nil
	}
	r.look = &look{began: time.Now(), networks: networks, sent: maps.Clone(r.underway)}
	return r.look
}

// learn ends a look. counted is nil where it failed.
func (r *room) learn(counted map[string]spare) {
	now := time.Now()
	maps.DeleteFunc(r.known, func(_ string, k knowledge) bool { return !now.Before(k.until) })
	l := r.look
	r.look = nil
	until := now.Add(max(lookKept, lookShare*now.Sub(l.began)))
	for network := range l.networks {
		if _, known := r.known[network]; known {
			continue // it was barred meanwhile
		}
		left := maps.Clone(counted[network])
		for subnet := range left {
			left[subnet] -= l.sent[subnet]
		}
		r.known[network] = knowledge{left, until}
	}
}

// send notes that a port is on its way.
func (r *room) send(c *pendingCreate) {
	k := r.known[c.draw.network]
	for _, subnet := range c.draw.subnets {
		r.underway[subnet]++
		if r.look != nil {
			r.look.sent[subnet]++
		}
		if _, ok := k.left[subnet]; ok {
			k.left[subnet]--
		}
	}
}

// gather notes that ports are on their way in one call.
func (r *room) gather(batch []*pendingCreate) {
	for _, c := range batch {
		if len(batch) > 1 {
			r.bulks[c.draw.network]++
		}
	}
}

// end notes that the calls have ended which ports were on their way with. What was not created stays counted until the
// next look.
func (r *room) end(batch []*pendingCreate) {
	for _, c := range batch {
		if len(batch) > 1 {
			if r.bulks[c.draw.network]--; r.bulks[c.draw.network] == 0 {
				delete(r.bulks, c.draw.network)
			}
		}
		for _, subnet := range c.draw.subnets {
			if r.underway[subnet]--; r.underway[subnet] == 0 {
				delete(r.underway, subnet)
			}
		}
	}
}

// bar has ports go alone on the networks of a bulk that failed at the price of addresses, or without a word on it.
func (r *room) bar(group []*pendingCreate, err error) {
	until := time.Now().Add(barred)
	if client.MaybeDone(err) {
		until = time.Now().Add(suspicion)
	}
	for _, c := range group {
		if k, known := r.knows(c.draw.network); !known || k.until.Before(until) {
			r.known[c.draw.network] = knowledge{until: until}
		}
	}
}

// unsettle forgets what is left on a network, where its subnets change.
func (r *room) unsettle(network string) {
	if k := r.known[network]; k.left != nil {
		delete(r.known, network)
	}
	if r.look != nil {
		delete(r.look.networks, network)
	}
}

// forget forgets all networks: others are meant from now on.
func (r *room) forget() {
	clear(r.known)
	if r.look != nil {
		clear(r.look.networks)
	}
}

// sparing are the refusals that a bulk of ports meets before its ports have addresses, or after which they are given
// back (measured; the contract suite holds it).
var sparing = map[string]bool{
	"OverQuota":             true,
	"PolicyNotAuthorized":   true,
	"HTTPBadRequest":        true,
	"NetworkNotFound":       true,
	"SecurityGroupNotFound": true,
	"MacAddressInUse":       true,
}

// costsAddresses reports whether a bulk of ports that failed so may have cost addresses.
func costsAddresses(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err != nil
	}
	reached := e.MaybeDone || e.Status != 0 && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin()
	return reached && !sparing[e.Type]
}

// wireRoom is a subnet by what decides whether, and how many, ports may be created on it in bulk.
type wireRoom struct {
	wireSubnet
	// Segment is told to administrators alone. Tenants' networks have none.
	Segment string `json:"segment_id"`
}

// roomFields are the fields= of a list: what wireRoom is read for.
var roomFields = []string{
	"id", "network_id", "allocation_pools", "service_types", "ipv6_address_mode", "ipv6_ra_mode", "segment_id",
}

// plain reports whether an address of the subnet is one of its pools and for any port. Where addresses follow from MACs
// a bulk fails (measured; the contract suite holds it).
func (w wireRoom) plain() bool {
	stateful := func(mode string) bool { return mode == "" || mode == "dhcpv6-stateful" }
	return len(w.ServiceTypes) == 0 && w.Segment == "" && stateful(w.AddressMode) && stateful(w.RAMode)
}

// size is how many addresses the pools of the subnet have; none where they cannot be read.
func (w wireRoom) size() int64 {
	var sum int64
	for _, pool := range w.Pools {
		sum = min(sum+sizeOf(pool), math.MaxInt32) // it is as good as any larger number
	}
	return sum
}

func sizeOf(pool wirePool) int64 {
	start, errStart := netip.ParseAddr(pool.Start)
	end, errEnd := netip.ParseAddr(pool.End)
	if errStart != nil || errEnd != nil {
		return 0
	}
	return min(plan.Range{Start: start, End: end}.Size(), math.MaxInt32)
}

// countRoom counts what is left in the subnets of networks, beyond the margin. It leaves out the networks on which
// ports have to go alone: those of other projects, whose ports a list does not show, those of which a list does not
// show all subnets, and those with subnets that are not plain. TestNetworkOwnerSeesAllPorts in test/contract
// holds what a list shows.
func (i *Inventory) countRoom(ctx context.Context, networks []string) (map[string]spare, error) {
	of, bound := client.Wanted(ctx)
	if !bound {
		var err error
		if of, err = i.cloud.Identity(ctx); err != nil {
			return nil, err
		}
		ctx = client.Within(ctx, of)
	}
	own, err := client.List[wireNetwork](ctx, i.cloud, opListNetworks, networkAPI,
		url.Values{"project_id": {of.ProjectID}, "id": networks, "fields": {"id", "subnets"}})
	if err != nil || len(own) == 0 {
		return nil, err
	}
	var ids []string
	for _, n := range own {
		ids = append(ids, n.ID)
	}
	subnets, err := client.List[wireRoom](ctx, i.cloud, opListSubnets, subnetAPI, url.Values{"network_id": ids, "fields": roomFields})
	if err != nil {
		return nil, err
	}
	ports, err := client.List[wirePort](ctx, i.cloud, opListPorts, portAPI,
		url.Values{"network_id": ids, "fields": {"id", "fixed_ips"}})
	if err != nil {
		return nil, err
	}

	left := spare{}
	for _, s := range subnets {
		if size := s.size(); s.plain() {
			left[s.ID] = size - max(minMargin, size/marginShare)
		}
	}
	for _, p := range ports {
		for _, fixed := range p.FixedIPs {
			// Be it in a pool or not.
			left[fixed.SubnetID]--
		}
	}
	counted := map[string]spare{}
	for _, n := range own {
		plain := spare{}
		for _, s := range subnets {
			if s.plain() && slices.Contains(n.Subnets, s.ID) {
				plain[s.ID] = left[s.ID]
			}
		}
		if len(plain) == len(n.Subnets) {
			counted[n.ID] = plain
		}
	}
	return counted, nil
}
