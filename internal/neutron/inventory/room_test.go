package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/batch/batchtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// lobby is an Inventory that holds one network of one subnet, and a Neutron that takes nothing but ports on it.
type lobby struct {
	*Inventory
	batchtest.Server
}

// newLobby makes a lobby whose subnet has a pool of so many addresses beyond those that are used.
func newLobby(t *testing.T, most, free int) *lobby {
	l := &lobby{}
	l.Answer = func(body map[string]any) json.RawMessage {
		made, _ := json.Marshal(map[string]any{
			"id": body["name"], "network_id": body["network_id"], "created_at": "2026-01-01T00:00:00Z",
		})
		return made
	}
	_, c := inBubble(t, newFakeNeutron().ServeHTTP, client.Options{})
	l.Inventory = New(c, cluster, Options{Ports: true})
	l.queue = batch.New(batch.Options{MaxCalls: most, Post: l.Post, Refused: l.refused})
	// Three quarters of a pool this large are more than the margin, so that the margin is the share.
	l.holdNetwork("a", free)
	return l
}

// holdNetwork has a network held whose subnet has so many addresses left, of 200 or as many as are left if these are
// more.
func (l *lobby) holdNetwork(id string, free int) {
	start := netip.MustParseAddr("10.0.0.1")
	size := max(free, 100)
	end := start
	for range size - 1 {
		end = end.Next()
	}
	l.networks.change(id, func(*plan.ObservedNetwork) *plan.ObservedNetwork {
		return &plan.ObservedNetwork{
			ID: id, Attributes: plan.Attributes{Description: ownerOf(id).Marker()},
			Subnets: []plan.ObservedSubnet{{ID: "sub-" + id, Used: new(int64(size - free)), Subnet: plan.Subnet{
				CIDR: netip.MustParsePrefix("10.0.0.0/16"), Pools: []plan.Range{{Start: start, End: end}},
			}}},
		}
	})
}

// portOn is the create of a port on the network of an id.
func portOn(network, name string) plan.Step {
	return plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: network}, Port: plan.PortAttributes{
		Name: name, Description: name, Addresses: []plan.PortAddress{{SubnetID: "sub-" + network}},
	}}
}

func (l *lobby) createOne(ctx context.Context, name string) error {
	step := portOn("a", name)
	_, err := l.createPort(ctx, &step)
	return err
}

// create creates ports at once, and returns the errors by name when all have ended.
func (l *lobby) create(ctx context.Context, names []string) map[string]error {
	return batchtest.AtOnce(names, func(name string) error { return l.createOne(ctx, name) })
}

// TestWhichPortsGoTogether holds by which subnets and addresses ports go in bulk.
func TestWhichPortsGoTogether(t *testing.T) {
	subnet := func(change func(*plan.ObservedSubnet)) func(*plan.ObservedNetwork) {
		return func(n *plan.ObservedNetwork) { change(&n.Subnets[0]) }
	}
	for sentence, test := range map[string]struct {
		free int
		// network and port change what is usual.
		network func(*plan.ObservedNetwork)
		port    func(*plan.Step)
		// unshown is why the list of shares failed.
		unshown error
		// together is how many of a hundred may go in bulk.
		together int
	}{
		"where there is room for all":               {free: 1000, together: 100},
		"up to the share that is left to others":    {free: 120, together: 120 - 32},
		"not where no more than the margin is left": {free: 32},
		"not where nobody counts": {
			free: 1000, network: subnet(func(s *plan.ObservedSubnet) { s.Used = nil }),
		},
		"not where the list of shares failed, so that others may have ports": {
			free: 1000, network: func(n *plan.ObservedNetwork) { n.SharesUnknown = true }, unshown: errors.New("x"),
		},
		"where the cloud's policy hides the shares": {
			free: 1000, network: func(n *plan.ObservedNetwork) { n.SharesUnknown = true }, together: 100,
		},
		"not where one subnet is for devices of some kind": {
			free: 1000, network: func(n *plan.ObservedNetwork) {
				n.Subnets = append(n.Subnets, plan.ObservedSubnet{
					ID: "other", Used: new(int64), Subnet: plan.Subnet{ServiceTypes: []string{"compute:nova"}},
				})
			},
		},
		"not where addresses follow from MACs": {
			free: 1000, network: subnet(func(s *plan.ObservedSubnet) { s.IPv6AddressMode = "slaac" }),
		},
		"not on a network that is not held": {
			free: 1000, port: func(s *plan.Step) { s.NetworkRef.ID = "elsewhere" },
		},
		"not with a certain MAC": {free: 1000, port: func(s *plan.Step) { s.Port.MAC = "02:00:00:00:00:01" }},
		"not with a certain address": {
			free: 1000, port: func(s *plan.Step) { s.Port.Addresses[0].Address = netip.MustParseAddr("10.0.0.7") },
		},
		"not with addresses of any subnet": {free: 1000, port: func(s *plan.Step) { s.Port.Addresses = nil }},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := newLobby(t, 1, test.free)
			l.sharesFailed = test.unshown
			if test.network != nil {
				l.networks.change("a", func(n *plan.ObservedNetwork) *plan.ObservedNetwork {
					changed := *n
					changed.Subnets = slices.Clone(n.Subnets)
					test.network(&changed)
					return &changed
				})
			}
			together := 0
			for range 100 {
				step := portOn("a", "p")
				if test.port != nil {
					test.port(&step)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				goesAlone, _, err := l.enterRoom(ctx, "create port", drawOf(step))
				cancel()
				if err == nil && !goesAlone() {
					together++
				}
			}
			expect.Equal(t, test.together, together, "how many of 100 may go in bulk")
		})
	}
}

// What was asked for since a list began is not in it: the list does not make room for as many more.
func TestAListThatBeganBeforeAPortDoesNotCountIt(t *testing.T) {
	l := newLobby(t, 1, 1000)
	left := func() int64 { l.mu.RLock(); defer l.mu.RUnlock(); return l.spareOn("a")["sub-a"] }
	before := left()
	enter := func() func() {
		_, left, err := l.enterRoom(t.Context(), "create port", drawOf(portOn("a", "p")))
		expect.NoError(t, err)
		return func() { left(nil) }
	}
	enter()() // before the list
	underway := enter()
	l.room.listBegins()
	underway()
	enter()() // since it began
	expect.Equal(t, before-3, left(), "left of %d after three were asked for", before)
	l.room.listEnds(true)
	expect.Equal(t, before-2, left(), "left of %d: the list may not have counted what was under way", before)
	l.room.listBegins()
	l.room.listEnds(true)
	expect.Equal(t, before, left(), "how many are left after a list that counted all")
}

// A refusal in spite of the count goes no further than its bulk: the others do not go in bulk after it.
func TestABulkThatIsRefusedAtThePriceOfAddressesIsTheLastOnItsNetwork(t *testing.T) {
	exhausted := &client.Error{Kind: client.Exhausted, Status: http.StatusConflict, Type: "IpAddressGenerationFailure"}
	missing := &client.Error{Kind: client.Invalid, Status: http.StatusNotFound, Type: "SecurityGroupNotFound"}
	lost := &client.Error{Kind: client.Transient, Status: http.StatusInternalServerError, MaybeDone: true}
	for name, test := range map[string]struct {
		err *client.Error
		// first is how many calls of several there are at most when 30 come together, and then whether there are any of 30
		// that come later.
		first int
		then  bool
	}{
		"for want of an address":               {exhausted, 1, false},
		"without a word of the reason":         {lost, 1, false},
		"for a reason that costs no addresses": {missing, 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(t, 1, 1000)
				l.Fails = func(names []string) *client.Error {
					if len(names) > 1 {
						return test.err
					}
					return nil
				}
				bulks := func() (count int) {
					for _, size := range l.Sizes() {
						if size > 1 {
							count++
						}
					}
					l.Calls = nil
					return count
				}
				l.create(t.Context(), batchtest.Numbered("a", 30))
				if got := bulks(); got == 0 || got > test.first {
					t.Errorf("%d bulks, want 1 to %d", got, test.first)
				}
				elapse(2 * time.Minute)
				l.create(t.Context(), batchtest.Numbered("later", 30))
				if got := bulks(); (got > 0) != test.then {
					t.Errorf("%d bulks two minutes later, want some: %t", got, test.then)
				}
			})
		})
	}
}

// filling is a lobby whose one network has so many addresses left, which nobody else takes. What it lacks it refuses:
// lacking counts the bulks among that.
type filling struct {
	*lobby
	free, lacking int
}

func newFilling(t *testing.T, most, free int, single, bulk time.Duration) *filling {
	f := &filling{free: free}
	f.lobby = newLobby(t, most, free)
	f.Takes = func(creates, _ int) time.Duration {
		if creates > 1 {
			return bulk
		}
		return single
	}
	f.Fails = func(names []string) *client.Error {
		if len(names) <= f.free {
			f.free -= len(names)
			return nil
		}
		if len(names) > 1 {
			f.lacking++
		}
		return &client.Error{Kind: client.Exhausted, Status: http.StatusConflict, Type: "IpAddressGenerationFailure"}
	}
	return f
}

// Of a network that other projects use, the list of our ports does not tell how many addresses are left.
func TestTheRoomOnASharedNetworkIsTheCloudsToTell(t *testing.T) {
	for name, c := range map[string]struct {
		shares []plan.Share
		shared *bool
		told   bool
		known  bool
	}{
		"a network of our own":                      {known: true},
		"shared with a project":                     {shares: []plan.Share{{ID: "rbac-1", Project: "a"}}},
		"shared with all":                           {shared: new(true)},
		"shared with nobody":                        {shared: new(false), known: true},
		"shared, and the cloud tells what is used":  {shared: new(true), told: true, known: true},
		"of our own, and the cloud tells that, too": {told: true, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(t, 1, 1000)
				l.networks.change("a", func(held *plan.ObservedNetwork) *plan.ObservedNetwork {
					n := *held
					n.Shares, n.Shared = c.shares, c.shared
					return &n
				})
				if c.told {
					l.counts.told = usage{}
				}
				l.mu.RLock()
				defer l.mu.RUnlock()
				if got := l.spareOn("a"); (got != nil) != c.known {
					t.Errorf("spare %v, want it known: %t", got, c.known)
				}
			})
		})
	}
}

func TestPortsThatGoAloneLeaveABulkWhatItCountsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The bulk is under way for longer than it keeps others from being sent.
		f := newFilling(t, 16, 70, time.Millisecond, time.Minute)
		failed := f.create(t.Context(), batchtest.Numbered("a", 150))
		if f.lacking > 0 || len(failed) != 150-70 {
			t.Errorf("%d ports of 150 failed for 70 addresses, and %d bulks", len(failed), f.lacking)
		}
		if slices.Max(f.Sizes()) == 1 {
			t.Error("no ports went together")
		}
	})
}

// No bulk is refused for want of addresses, whatever is under way beside it, and every address is given, as long as
// nobody else takes them.
func TestNoBulkLacksAddresses(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		free := rapid.IntRange(0, 100).Draw(r, "addresses left")
		single := rapid.IntRange(1, 1000).Draw(r, "milliseconds that one takes alone")
		bulk := rapid.IntRange(1, 20_000).Draw(r, "milliseconds that a bulk takes")
		most := rapid.IntRange(1, 16).Draw(r, "calls at a time")
		ports := rapid.IntRange(1, 200).Draw(r, "ports")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 100_000), 2, 2).Draw(r, "milliseconds until waves of them come")
		synctest.Test(t, func(t *testing.T) {
			f := newFilling(t, most, free, time.Duration(single)*time.Millisecond, time.Duration(bulk)*time.Millisecond)
			var wg sync.WaitGroup
			for at := range ports {
				wg.Go(func() {
					elapse(time.Duration(pauses[at%len(pauses)]) * time.Millisecond)
					err := f.createOne(t.Context(), fmt.Sprint("a", at))
					if err != nil && client.KindOf(err) != client.Exhausted {
						t.Errorf("port %d: %v", at, err)
					}
				})
			}
			wg.Wait()
			if f.lacking > 0 {
				r.Errorf("%d bulks came when too few addresses were left", f.lacking)
			}
			if want := max(0, free-ports); f.free != want {
				r.Errorf("%d addresses are left, want %d", f.free, want)
			}
		})
	})
}

// What is asked for at once and fits is made, to the last address of the subnet, which a refused bulk would cost.
func TestASubnetIsFilledToItsLastAddress(t *testing.T) {
	var mu sync.Mutex
	largest := 0
	tenant, _ := cloudtest.Emulated(t, neutrontest.Options{
		Delay: neutrontest.FixedDelay(5 * time.Millisecond), Workers: 1, OnCall: func(c neutrontest.Call) {
			mu.Lock()
			defer mu.Unlock()
			if c.Method == http.MethodPost {
				largest = max(largest, c.Items)
			}
		},
	}, nil)
	const room, wanted = 100, 130
	inventory := New(tenant, "c", Options{Ports: true})
	expect.NoError(t, inventory.Audit(t.Context()))
	marker := plan.Owner{Cluster: "c", Object: "n"}.Marker()
	done, err := inventory.Apply(t.Context(), plan.Change{
		{Action: plan.CreateNetwork, Attributes: plan.Attributes{Name: "n", Description: marker}},
		{Action: plan.CreateSubnet, NetworkRef: plan.Ref{Creator: 1}, SubnetDescription: marker, Subnet: plan.Subnet{
			CIDR:  netip.MustParsePrefix("10.0.0.0/16"),
			Pools: []plan.Range{{Start: netip.MustParseAddr("10.0.0.101"), End: netip.MustParseAddr("10.0.0.200")}},
		}},
	})
	expect.NoError(t, err)
	id, subnet := done[0].ID, done[1].ID
	var wg sync.WaitGroup
	made := map[netip.Addr]bool{}
	for at := range wanted {
		wg.Go(func() {
			owner := plan.Owner{Cluster: "c", Object: fmt.Sprint(at)}
			spec := plan.PortSpec{
				Owner: owner, Name: fmt.Sprint(at), NetworkID: id, Addresses: []plan.PortAddress{{SubnetID: subnet}},
			}
			change, err := plan.Port(spec, plan.Observed{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := inventory.Apply(t.Context(), change); err != nil && client.KindOf(err) != client.Exhausted {
				t.Error(err)
			}
			o, err := inventory.Observed(t.Context(), owner, time.Time{})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range o.Ports {
				made[p.Addresses[0].Address] = true
			}
		})
	}
	wg.Wait()
	expect.Len(t, room, made, "ports got an address")
	if largest < 10 {
		t.Errorf("at most %d ports went in one call", largest)
	}
}
