package contract

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// outcome is all that matters of the answer to a create of a subnet.
type outcome struct {
	Status  int
	Type    string
	Message string
	Subnet  object
}

// tryCreate creates a subnet, removes it again if it came to be, and says what happened.
func tryCreate(t testing.TB, s *session, network object, ask object) outcome {
	t.Helper()
	a := s.do(t, "POST", "/v2.0/subnets", object{"subnet": with(ask, object{"network_id": id(network)})})
	out := outcome{Status: a.status}
	if e, refused := a.body["NeutronError"].(object); refused {
		out.Type, _ = e["type"].(string)
		message, _ := e["message"].(string)
		out.Message = strings.ReplaceAll(message, id(network), "{network}")
		if out.Type == "InvalidAllocationPool" {
			out.Message = "" // it repeats the pool with its members in the order of the request
		}
		return out
	}
	made := a.must(t, http.StatusCreated).part(t, "subnet")
	s.do(t, "DELETE", "/v2.0/subnets/"+id(made), nil).must(t, http.StatusNoContent)
	out.Subnet = object{}
	for _, key := range []string{"cidr", "gateway_ip", "allocation_pools", "ip_version", "enable_dhcp"} {
		out.Subnet[key] = made[key]
	}
	return out
}

// randomSubnet makes a request that is often wrong, but seldom so much that all of it is.
func randomSubnet(r *rand.Rand) object {
	version := 4
	base := netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(256))})
	bits := 20 + r.IntN(13)
	if r.IntN(4) == 0 {
		version = 6
		base = netip.AddrFrom16([16]byte{0xfd, 15: byte(r.IntN(256))})
		bits = 116 + r.IntN(13)
	}
	prefix := netip.PrefixFrom(base, bits)
	around := func() string {
		if r.IntN(12) == 0 {
			return []string{"bad", "", "192.168.0.1", "fd01::1", "10.0.0.01"}[r.IntN(5)]
		}
		a := prefix.Masked().Addr()
		for range r.IntN(12) {
			a = a.Next()
		}
		if r.IntN(3) == 0 {
			b := a.AsSlice()
			b[len(b)-1] = byte(r.IntN(256))
			a, _ = netip.AddrFromSlice(b)
		}
		return a.String()
	}
	ask := object{"ip_version": version, "cidr": prefix.String()}
	if r.IntN(3) == 0 {
		ask["cidr"] = prefix.Masked().String()
	}
	switch r.IntN(4) {
	case 0:
		ask["gateway_ip"] = nil
	case 1, 2:
		ask["gateway_ip"] = around()
	}
	if r.IntN(2) == 0 {
		pools := []object{}
		for range r.IntN(4) {
			pools = append(pools, pool(around(), around()))
		}
		ask["allocation_pools"] = pools
	}
	if r.IntN(2) == 0 {
		ask["enable_dhcp"] = r.IntN(2) == 0
	}
	if r.IntN(20) == 0 {
		ask["ip_version"] = 10 - version
	}
	return ask
}

// TestEmulatorAgreesOnRandomSubnets sends the same requests to the emulator and to a real cloud. CONTRACT_SEED
// repeats a run, CONTRACT_SUBNETS says how many subnets it has (200 if it does not; with -short, the same 6 each time).
func TestEmulatorAgreesOnRandomSubnets(t *testing.T) {
	t.Parallel()
	stack := openstack(t)
	if stack == nil {
		t.Skip("needs a real cloud: set CONTRACT_OPENSTACK=1 and OS_CLIENT_CONFIG_FILE")
	}
	seed, many := rand.Uint64(), uint64(200)
	if testing.Short() {
		// Each takes the real Neutron nearly a second. They are the same each time: new ones are drawn by night.
		seed, many = 1, 6
	}
	seed, count := environment(t, "CONTRACT_SEED", seed), environment(t, "CONTRACT_SUBNETS", many)
	t.Logf("CONTRACT_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ours := emulator(t, stack.release)
	ourNetwork, theirNetwork := ours.tenant.newNetwork(t, nil), stack.tenant.newNetwork(t, nil)
	accepted := 0
	for range count {
		ask := randomSubnet(r)
		got, want := tryCreate(t, ours.tenant, ourNetwork, ask), tryCreate(t, stack.tenant, theirNetwork, ask)
		if want.Status == http.StatusCreated {
			accepted++
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-openstack +emulator):\n%s", ask, diff)
		}
	}
	t.Logf("%d of %d subnets were accepted", accepted, count)
}

func environment(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s must be a number that is not negative: %v", name, err)
	}
	return n
}

// FuzzSubnet holds what is true of every subnet that the emulator accepts, and that it refuses the others in Neutron's
// form.
func FuzzSubnet(f *testing.F) {
	for seed := range uint64(50) {
		ask := randomSubnet(rand.New(rand.NewPCG(seed, 1)))
		gateway, _ := ask["gateway_ip"].(string)
		f.Add(ask["cidr"].(string), gateway, "", "")
	}
	f.Add("10.0.0.0/24", "10.0.0.1", "10.0.0.10", "10.0.0.20")
	c := emulator(f, neutrontest.Neutron29)
	network := c.tenant.newNetwork(f, nil)
	f.Fuzz(func(t *testing.T, cidr, gateway, start, end string) {
		ask := object{"cidr": cidr, "ip_version": 4}
		if strings.Contains(cidr, ":") {
			ask["ip_version"] = 6
		}
		if gateway != "" {
			ask["gateway_ip"] = gateway
		}
		if start != "" || end != "" {
			ask["allocation_pools"] = []object{pool(start, end)}
		}
		got := tryCreate(t, c.tenant, network, ask)
		if got.Status != http.StatusCreated {
			if got.Status != http.StatusBadRequest && got.Status != http.StatusConflict || got.Type == "" {
				t.Errorf("%v: %+v", ask, got)
			}
			return
		}
		prefix := netip.MustParsePrefix(got.Subnet["cidr"].(string))
		if prefix != prefix.Masked() {
			t.Errorf("%s has host bits", prefix)
		}
		var last netip.Addr
		for _, p := range got.Subnet["allocation_pools"].([]any) {
			start := netip.MustParseAddr(p.(object)["start"].(string))
			end := netip.MustParseAddr(p.(object)["end"].(string))
			inside := prefix.Contains(start) && prefix.Contains(end)
			if !inside || end.Less(start) || last.IsValid() && !last.Less(start) {
				t.Errorf("%v: the pools are %v", ask, got.Subnet["allocation_pools"])
			}
			last = end
			gateway, hasGateway := got.Subnet["gateway_ip"].(string)
			single := prefix.IsSingleIP() // its one address is its pool, whatever the gateway
			if g := fmt.Sprint(gateway); hasGateway && !single && !netip.MustParseAddr(g).Less(start) &&
				!end.Less(netip.MustParseAddr(g)) {
				t.Errorf("%v: the gateway %s is in the pool %v", ask, g, p)
			}
		}
	})
}
