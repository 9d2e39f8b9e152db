package neutron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// lobby is a server and what counts the room in it.
type lobby struct {
	server
	// left is what a look finds, by network; each has one subnet of the same name.
	left map[string]int64
	// looks are the networks of each look, which takes a second; fails is how it ends.
	looks [][]string
	fails error
}

func (l *lobby) count(ctx context.Context, networks []string) (map[string]spare, error) {
	l.mu.Lock()
	l.looks = append(l.looks, networks)
	l.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	counted := map[string]spare{}
	for _, n := range networks {
		if left, ok := l.left[n]; ok {
			counted[n] = spare{n: left}
		}
	}
	return counted, l.fails
}

func (l *lobby) broker(most int) *broker {
	b := newBroker(most, l.post)
	b.room.count = l.count
	return b
}

// looked is how many looks there were.
func (l *lobby) looked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.looks)
}

// portOn is the body of the create of a port on a network of one subnet.
func portOn(network, name string) map[string]any {
	return map[string]any{"name": name, "network_id": network, "fixed_ips": []wireFixedIP{{SubnetID: network}}}
}

// createPorts creates ports at once, and returns the errors by name when all have ended.
func createPorts(ctx context.Context, b *broker, bodies ...map[string]any) map[string]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := map[string]error{}
	for _, body := range bodies {
		wg.Go(func() {
			name := body["name"].(string)
			if _, err := b.Create(ctx, "create port", portAPI, name, body); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
		})
	}
	wg.Wait()
	synctest.Wait()
	return failed
}

func portsOn(network string, count int) (bodies []map[string]any) {
	for _, name := range numbered(network, count) {
		bodies = append(bodies, portOn(network, name))
	}
	return bodies
}

// largest is the size of the largest call that has a name of a prefix in it.
func (l *lobby) largest(prefix string) (size int) {
	for _, call := range l.calls {
		if ifAny(prefix, refusal(client.Invalid))(call) != nil {
			size = max(size, len(call))
		}
	}
	return size
}

func TestWhichPortsGoTogether(t *testing.T) {
	for name, test := range map[string]struct {
		ports []map[string]any
		lobby *lobby
		// largest is the largest call, and looks how many there are.
		largest, looks int
	}{
		"as many as fit in a call, where there is room":  {portsOn("a", 60), &lobby{left: spare{"a": 100}}, 25, 1},
		"as many as there is room for":                   {portsOn("a", 60), &lobby{left: spare{"a": 9}}, 9, 1},
		"none where there is no room":                    {portsOn("a", 60), &lobby{left: spare{"a": 0}}, 1, 1},
		"none where there is no room but for the margin": {portsOn("a", 60), &lobby{left: spare{"a": -5}}, 1, 1},
		"none on a network that cannot be counted":       {portsOn("a", 60), &lobby{left: spare{"b": 100}}, 1, 1},
		"none where counting fails":                      {portsOn("a", 60), &lobby{fails: errors.New("no")}, 1, 1},
		"none, and nothing is counted, where few wait":   {portsOn("a", 4), &lobby{left: spare{"a": 100}}, 1, 0},
		"those of two networks, which are counted together": {
			slices.Concat(portsOn("a", 3), portsOn("b", 3)), &lobby{left: spare{"a": 9, "b": 9}}, 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := test.lobby
				b := l.broker(1)
				if failed := createPorts(t.Context(), b, test.ports...); len(failed) > 0 {
					t.Fatal(failed)
				}
				if got := slices.Max(l.sizes()); got != test.largest {
					t.Errorf("the largest call has %d ports, want %d: %v", got, test.largest, l.sizes())
				}
				if l.looked() != test.looks {
					t.Errorf("%d looks, want %d", l.looked(), test.looks)
				}
				rested(t, b)
			})
		})
	}
}

func TestAPortThatAsksForSomethingParticularGoesAlone(t *testing.T) {
	for name, change := range map[string]func(body map[string]any){
		"an address":               func(b map[string]any) { b["fixed_ips"] = []wireFixedIP{{"a", "10.0.0.7"}} },
		"a MAC":                    func(b map[string]any) { b["mac_address"] = "fa:16:3e:00:00:01" },
		"an address of any subnet": func(b map[string]any) { delete(b, "fixed_ips") },
		"no address":               func(b map[string]any) { b["fixed_ips"] = []wireFixedIP{} },
		"an address of a subnet that nobody knows": func(b map[string]any) {
			b["fixed_ips"] = []wireFixedIP{{SubnetID: "a"}, {SubnetID: "z"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lobby{left: spare{"a": 100}}
				b := l.broker(1)
				particular := portOn("a", "particular")
				change(particular)
				createPorts(t.Context(), b, append(portsOn("a", 30), particular)...)
				if got := l.largest("particular"); got != 1 {
					t.Errorf("it went in a call of %d", got)
				}
				if got := l.largest("a"); got < 15 {
					t.Errorf("the others went in calls of at most %d", got)
				}
				rested(t, b)
			})
		})
	}
}

func TestALookHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{left: spare{"a": 100}}
		l.takes = func(int, int) time.Duration { return time.Millisecond }
		b := l.broker(1)
		go createPorts(t.Context(), b, portsOn("a", 30)...)
		elapse(10 * time.Millisecond)
		if l.looked() != 1 {
			t.Fatalf("%d looks, want 1", l.looked())
		}
		began := time.Now()
		fixed := portOn("a", "fixed")
		fixed["mac_address"] = "fa:16:3e:00:00:01"
		createPorts(t.Context(), b, portOn("b", "lone"), fixed)
		createMany(t.Context(), b, "network")
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("others waited for %s", took)
		}
		elapse(2 * time.Second)
		rested(t, b)
	})
}

func TestALookThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{}
		b := l.broker(16)
		b.room.count = func(ctx context.Context, _ []string) (map[string]spare, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		if failed := createPorts(t.Context(), b, portsOn("a", 30)...); len(failed) > 0 {
			t.Fatal(failed)
		}
		if took := time.Since(began); took > lookTimeout+30*time.Second {
			t.Errorf("it took %s", took)
		}
		rested(t, b)
	})
}

func TestWhatALookFoundIsBelievedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lobby{left: spare{"a": 1000}}
		b := l.broker(1)
		for range 3 {
			createPorts(t.Context(), b, portsOn("a", 25)...)
			elapse(time.Second)
		}
		if l.looked() != 1 {
			t.Errorf("%d looks within seconds, want 1", l.looked())
		}
		elapse(lookKept)
		createPorts(t.Context(), b, portsOn("a", 25)...)
		if l.looked() != 2 {
			t.Errorf("%d looks after a minute, want 2", l.looked())
		}
		b.unsettle("a")
		createPorts(t.Context(), b, portsOn("a", 25)...)
		if l.looked() != 3 {
			t.Errorf("%d looks after its subnets have changed, want 3", l.looked())
		}
		rested(t, b)
	})
}

func TestALookThatBeganBeforeAChangeIsNotBelieved(t *testing.T) {
	for name, network := range map[string]string{"of the network's subnets": "a", "of the credentials": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lobby{left: spare{"a": 1000}}
				b := l.broker(1)
				go createPorts(t.Context(), b, portsOn("a", 30)...)
				elapse(1500 * time.Millisecond) // the first port takes a second, and the look goes on
				b.unsettle(network)
				elapse(time.Second)
				if l.looked() != 2 {
					t.Errorf("%d looks, want 2", l.looked())
				}
				elapse(time.Minute)
				rested(t, b)
			})
		})
	}
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
				l := &lobby{left: spare{"a": 1000}}
				l.server.fails = func(names []string) *client.Error {
					if len(names) > 1 {
						return test.err
					}
					return nil
				}
				b := l.broker(1)
				bulks := func() (count int) {
					for _, size := range l.sizes() {
						if size > 1 {
							count++
						}
					}
					l.calls = nil
					return count
				}
				createPorts(t.Context(), b, portsOn("a", 30)...)
				if got := bulks(); got == 0 || got > test.first {
					t.Errorf("%d bulks, want 1 to %d", got, test.first)
				}
				elapse(2 * time.Minute)
				var later []map[string]any
				for _, name := range numbered("later", 30) {
					later = append(later, portOn("a", name))
				}
				createPorts(t.Context(), b, later...)
				if got := bulks(); (got > 0) != test.then {
					t.Errorf("%d bulks two minutes later, want some: %t", got, test.then)
				}
				rested(t, b)
			})
		})
	}
}

// filling is a lobby whose one network has so many addresses left, which nobody else takes. What it lacks it refuses:
// lacking counts the bulks among that.
type filling struct {
	lobby
	free, lacking int
}

func newFilling(free int, single, bulk time.Duration) *filling {
	f := &filling{free: free}
	f.left = spare{"a": int64(free) - minMargin}
	f.takes = func(creates, _ int) time.Duration {
		if creates > 1 {
			return bulk
		}
		return single
	}
	f.server.fails = func(names []string) *client.Error {
		if len(names) <= f.free {
			f.free -= len(names)
			f.left["a"] -= int64(len(names))
			return nil
		}
		if len(names) > 1 {
			f.lacking++
		}
		return &client.Error{Kind: client.Exhausted, Status: http.StatusConflict, Type: "IpAddressGenerationFailure"}
	}
	return f
}

func TestPortsThatGoAloneLeaveABulkWhatItCountsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The bulk is under way for longer than it keeps others from being sent.
		f := newFilling(70, time.Millisecond, patience+10*time.Second)
		b := f.broker(0)
		failed := createPorts(t.Context(), b, portsOn("a", 150)...)
		if f.lacking > 0 || len(failed) != 150-70 {
			t.Errorf("%d ports of 150 failed for 70 addresses, and %d bulks", len(failed), f.lacking)
		}
		if f.largest("a") == 1 {
			t.Error("no ports went together")
		}
		rested(t, b)
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
			f := newFilling(free, time.Duration(single)*time.Millisecond, time.Duration(bulk)*time.Millisecond)
			b := f.broker(most)
			var wg sync.WaitGroup
			for at, body := range portsOn("a", ports) {
				wg.Go(func() {
					elapse(time.Duration(pauses[at%len(pauses)]) * time.Millisecond)
					_, err := b.Create(t.Context(), "create port", portAPI, fmt.Sprint(at), body)
					if err != nil && client.KindOf(err) != client.Exhausted {
						t.Errorf("port %d: %v", at, err)
					}
				})
			}
			wg.Wait()
			rested(t, b)
			if f.lacking > 0 {
				r.Errorf("%d bulks came when too few addresses were left", f.lacking)
			}
			if want := max(0, free-ports); f.free != want {
				r.Errorf("%d addresses are left, want %d", f.free, want)
			}
		})
	})
}

func TestHowManyAddressesPoolsHave(t *testing.T) {
	for pool, want := range map[wirePool]int64{
		{"10.0.0.2", "10.0.0.2"}:                      1,
		{"10.0.0.2", "10.0.0.254"}:                    253,
		{"10.0.0.2", "10.0.255.254"}:                  65533,
		{"fd00::1", "fd00::ff"}:                       255,
		{"fd00::1", "fd00::ffff:ffff:ffff:ffff"}:      math.MaxInt32,
		{"fd00:0:0:1::1", "fd00:0:0:2::"}:             math.MaxInt32,
		{"fd00::ffff:ffff:ffff:ffff", "fd00:0:0:1::"}: 2,
		{"10.0.0.3", "10.0.0.2"}:                      0,
		{"10.0.0.3", "fd00::1"}:                       0,
		{"nonsense", "10.0.0.2"}:                      0,
	} {
		if got := sizeOf(pool); got != want {
			t.Errorf("%v has %d addresses, want %d", pool, got, want)
		}
	}
}

// cloudsOf gives a tenant and an administrator of an emulated cloud.
func cloudsOf(t *testing.T, options neutrontest.Options) (tenant, admin *client.Cloud) {
	t.Helper()
	listener, err := neutrontest.New(options).Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	for name, to := range map[string]**client.Cloud{"tenant": &tenant, "admin": &admin} {
		credentials, err := client.LoadCredentials(name)
		if err != nil {
			t.Fatal(err)
		}
		*to = client.NewCloud(credentials, client.Options{})
	}
	return tenant, admin
}

// makeFor creates a resource and returns its id.
func makeFor(t *testing.T, c *client.Cloud, of client.Collection, body map[string]any) string {
	t.Helper()
	made, err := c.CreateAll(t.Context(), "create", of, []map[string]any{body})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.DecodeOne[wireNetwork]("create", http.MethodPost, of, map[string]json.RawMessage{of.One: made[0]})
	if err != nil {
		t.Fatal(err)
	}
	return w.ID
}

func TestWhatRoomThereIsOnANetwork(t *testing.T) {
	type body = map[string]any
	const project = "11111111111111111111111111111111"
	tenant, admin := cloudsOf(t, neutrontest.Options{})
	for name, test := range map[string]struct {
		network body
		by      *client.Cloud
		subnets []body
		ports   int
		// want is what is left of each subnet; nil where ports go alone.
		want []int64
	}{
		"a quarter of a subnet is left to others": {by: tenant, subnets: []body{{"cidr": "10.0.0.0/24"}},
			ports: 3, want: []int64{253 - 63 - 3}},
		"of a small subnet more than a quarter is": {by: tenant, subnets: []body{{"cidr": "10.0.0.0/26"}},
			want: []int64{61 - 32}},
		"a subnet smaller than the margin has no room": {by: tenant, subnets: []body{{"cidr": "10.0.0.0/28"}},
			want: []int64{13 - 32}},
		"each subnet is counted by itself": {by: tenant, ports: 2, subnets: []body{
			{"cidr": "10.0.0.0/24"},
			{"cidr": "10.1.0.0/24", "allocation_pools": []body{
				{"start": "10.1.0.10", "end": "10.1.0.59"}, {"start": "10.1.0.100", "end": "10.1.0.149"}}},
		}, want: []int64{253 - 63 - 2, 100 - 32}},
		"a subnet in which addresses follow from MACs has ports go alone": {by: tenant, subnets: []body{
			{"cidr": "10.0.0.0/24"},
			{"cidr": "fd00::/64", "ip_version": 6, "ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"},
		}},
		"a subnet for devices of some kind has ports go alone": {by: tenant, subnets: []body{
			{"cidr": "10.0.0.0/24"}, {"cidr": "10.1.0.0/24", "service_types": []string{"compute:nova"}},
		}},
		"a network of another project has ports go alone": {by: admin, network: body{"shared": true},
			subnets: []body{{"cidr": "10.0.0.0/24"}}},
	} {
		t.Run(name, func(t *testing.T) {
			create := body{"name": name}
			maps.Copy(create, test.network)
			id := makeFor(t, test.by, networkAPI, create)
			var subnets []string
			for _, s := range test.subnets {
				create := body{"network_id": id, "ip_version": 4}
				maps.Copy(create, s)
				subnets = append(subnets, makeFor(t, test.by, subnetAPI, create))
			}
			for range test.ports { // whosever they are
				makeFor(t, admin, portAPI, body{"network_id": id, "project_id": project,
					"fixed_ips": []wireFixedIP{{SubnetID: subnets[0]}}})
			}
			var want spare
			if test.want != nil {
				want = spare{}
				for at, left := range test.want {
					want[subnets[at]] = left
				}
			}
			counted, err := NewInventory(tenant, cluster, InventoryOptions{}).countRoom(t.Context(), []string{id})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, counted[id]); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
}

// What is asked for at once and fits is made, to the last address of the subnet, which a refused bulk would cost.
func TestASubnetIsFilledToItsLastAddress(t *testing.T) {
	var mu sync.Mutex
	largest := 0
	tenant, _ := cloudsOf(t, neutrontest.Options{
		Delay: neutrontest.FixedDelay(5 * time.Millisecond), Workers: 1, OnCall: func(c neutrontest.Call) {
			mu.Lock()
			defer mu.Unlock()
			if c.Method == http.MethodPost {
				largest = max(largest, c.Items)
			}
		},
	})
	const room, wanted = 100, 130
	id := makeFor(t, tenant, networkAPI, map[string]any{"name": "n"})
	subnet := makeFor(t, tenant, subnetAPI, map[string]any{
		"network_id": id, "ip_version": 4, "cidr": "10.0.0.0/16",
		"allocation_pools": []wirePool{{"10.0.0.101", "10.0.0.200"}},
	})
	inventory := NewInventory(tenant, "c", InventoryOptions{Ports: true})
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
	if len(made) != room {
		t.Errorf("%d ports got an address, want %d", len(made), room)
	}
	if largest < 10 {
		t.Errorf("at most %d ports went in one call", largest)
	}
}
