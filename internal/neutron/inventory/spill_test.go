package inventory

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/batch/batchtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// spilling is a network with three subnets of five addresses each, and two Inventories that know of it.
type spilling struct {
	t           *testing.T
	ours, other *Inventory
	network     string
	subnets     []string
	// creates counts the calls that create something.
	creates atomic.Int64
}

func newSpilling(t *testing.T) *spilling {
	s := &spilling{t: t}
	tenant, _ := cloudtest.Emulated(t, neutrontest.Options{OnCall: func(c neutrontest.Call) {
		if c.Method == http.MethodPost {
			s.creates.Add(1)
		}
	}}, nil)
	s.ours, s.other = New(tenant, "c", Options{Ports: true}), New(tenant, "other", Options{Ports: true})
	s.audit()
	marker := plan.Owner{Cluster: "c", Object: "n"}.Marker()
	change := plan.Change{{Action: plan.CreateNetwork, Attributes: plan.Attributes{Name: "n", Description: marker}}}
	for n := range 3 {
		start := netip.AddrFrom4([4]byte{10, 0, byte(n), 11})
		change = append(change, plan.Step{
			Action: plan.CreateSubnet, NetworkRef: plan.Ref{Creator: 1}, SubnetDescription: marker, Subnet: plan.Subnet{
				CIDR:  netip.PrefixFrom(start, 24).Masked(),
				Pools: []plan.Range{{Start: start, End: netip.AddrFrom4([4]byte{10, 0, byte(n), 15})}},
			},
		})
	}
	done, err := s.ours.Apply(t.Context(), change)
	expect.NoError(t, err)
	s.network = done[0].ID
	for _, step := range done[1:] {
		s.subnets = append(s.subnets, step.ID)
	}
	s.audit()
	return s
}

func (s *spilling) audit() {
	s.t.Helper()
	for _, i := range []*Inventory{s.ours, s.other} {
		expect.NoError(s.t, i.Audit(s.t.Context()))
	}
}

// create creates ports, which may be in any of the subnets, at once. It returns how many of them are in each, and the
// last error.
func (s *spilling) create(in *Inventory, names ...string) (made map[string]int, last error) {
	s.t.Helper()
	made = map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			owner := plan.Owner{Cluster: in.cluster, Object: name}
			change, err := plan.Port(plan.PortSpec{
				Owner: owner, Name: name, NetworkID: s.network, Addresses: []plan.PortAddress{{SubnetID: s.subnets[0]}},
				Overflow: map[string][]string{s.subnets[0]: s.subnets[1:]},
			}, plan.Observed{})
			if err == nil {
				_, err = in.Apply(s.t.Context(), change)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				last = err
				return
			}
			o, err := in.Observed(s.t.Context(), owner, time.Time{})
			if err != nil || len(o.Ports) != 1 {
				s.t.Errorf("port %s: %+v, %v", name, o.Ports, err)
				return
			}
			made[o.Ports[0].Addresses[0].SubnetID]++
		})
	}
	wg.Wait()
	return made, last
}

func (s *spilling) require(made map[string]int, err error, want ...int) {
	s.t.Helper()
	wanted := map[string]int{}
	for n, count := range want {
		if count > 0 {
			wanted[s.subnets[n]] = count
		}
	}
	if err != nil || !maps.Equal(made, wanted) {
		s.t.Errorf("the subnets %v got %v, want %v; %v", s.subnets, made, want, err)
	}
}

// TestPortsSpillIntoTheNextSubnet fills a subnet, so that ports go on in the next one.
func TestPortsSpillIntoTheNextSubnet(t *testing.T) {
	s := newSpilling(t)
	made, err := s.create(s.ours, batchtest.Numbered("first", 8)...)
	s.require(made, err, 5, 3)

	// Somebody takes the last two addresses of the second subnet. Our count is old, and one refusal tells.
	s.audit()
	made, err = s.create(s.other, "guest0", "guest1")
	s.require(made, err, 0, 2)
	before := s.creates.Load()
	made, err = s.create(s.ours, "second")
	s.require(made, err, 0, 0, 1)
	expect.Equal(t, int64(2), s.creates.Load()-before, "calls for a port beside an old count")
	// What is known to be full costs nothing.
	before = s.creates.Load()
	made, err = s.create(s.ours, "third")
	s.require(made, err, 0, 0, 1)
	expect.Equal(t, int64(1), s.creates.Load()-before, "calls for a port beside a subnet that is known to be full")

	// When all are full, a port waits as it does with one subnet.
	s.audit()
	made, err = s.create(s.ours, batchtest.Numbered("last", 3)...)
	s.require(made, err, 0, 0, 3)
	if _, err := s.create(s.ours, "more"); !client.IsKind(err, client.Exhausted) {
		t.Errorf("a port that no subnet has an address for: %v", err)
	}
}

// TestFreedAddressesAreTaken has ports go and come between two lists: those that come are in the first subnet again.
func TestFreedAddressesAreTaken(t *testing.T) {
	s := newSpilling(t)
	names := batchtest.Numbered("first", 5)
	made, err := s.create(s.ours, names...)
	s.require(made, err, 5)
	for _, name := range names {
		o, err := s.ours.Observed(t.Context(), plan.Owner{Cluster: "c", Object: name}, time.Time{})
		expect.NoError(t, err)
		change, err := plan.Delete(plan.Owner{Cluster: "c", Object: name}, o)
		if err == nil {
			_, err = s.ours.Apply(t.Context(), change)
		}
		expect.NoError(t, err)
	}
	made, err = s.create(s.ours, "next")
	s.require(made, err, 1)
}

// TestFailedCreatesTakeNoAddresses has creates fail for another reason than addresses.
func TestFailedCreatesTakeNoAddresses(t *testing.T) {
	s := newSpilling(t)
	for i := range 9 {
		_, err := s.ours.Apply(t.Context(), plan.Change{{
			Action: plan.CreatePort, NetworkRef: plan.Ref{ID: s.network}, Port: plan.PortAttributes{
				Name: "x", Description: plan.Owner{Cluster: "c", Object: fmt.Sprint("x", i)}.Marker(),
				Addresses: []plan.PortAddress{{SubnetID: s.subnets[0]}}, SecurityGroups: []string{"4d7e4f0c-0000-4000-8000-000000000000"},
			},
		}})
		if err == nil {
			t.Fatal("a port with an unknown security group was created")
		}
	}
	made, err := s.create(s.ours, "next")
	s.require(made, err, 1)
}
