package contract

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"net/netip"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// availabilities are Neutron's own counts for the subnets of a network, by CIDR, as "used of total".
func (s *session) availabilities(t *testing.T, n object) map[string]string {
	t.Helper()
	var counted struct {
		Network struct {
			Subnets []struct {
				CIDR  string   `json:"cidr"`
				Used  int64    `json:"used_ips"`
				Total *big.Int `json:"total_ips"`
			} `json:"subnet_ip_availability"`
		} `json:"network_ip_availability"`
	}
	a := s.get(t, "/v2.0/network-ip-availabilities/"+id(n)).must(t, http.StatusOK)
	if err := json.Unmarshal([]byte(a.raw), &counted); err != nil {
		t.Fatalf("%v: %s", err, a.raw)
	}
	all := map[string]string{}
	for _, c := range counted.Network.Subnets {
		if !c.Total.IsInt64() {
			c.Total.SetInt64(math.MaxInt64)
		}
		all[c.CIDR] = fmt.Sprintf("%d of %s", c.Used, c.Total)
	}
	return all
}

// countedByHand are the same counts as the controller makes them: of pools, by its own formula, and of the project's
// ports.
func (s *session) countedByHand(t *testing.T, n object) map[string]string {
	t.Helper()
	used := map[string]int{}
	for _, p := range s.get(t, "/v2.0/ports?project_id="+s.project).must(t, http.StatusOK).list(t, "ports") {
		for _, fixed := range p["fixed_ips"].([]any) {
			used[fixed.(object)["subnet_id"].(string)]++
		}
	}
	all := map[string]string{}
	for _, sub := range s.get(t, "/v2.0/subnets?network_id="+id(n)).must(t, http.StatusOK).list(t, "subnets") {
		counted := plan.Subnet{CIDR: netip.MustParsePrefix(sub["cidr"].(string))}
		for _, p := range sub["allocation_pools"].([]any) {
			counted.Pools = append(counted.Pools, plan.Range{
				Start: netip.MustParseAddr(p.(object)["start"].(string)), End: netip.MustParseAddr(p.(object)["end"].(string)),
			})
		}
		all[sub["cidr"].(string)] = fmt.Sprintf("%d of %d", used[id(sub)], counted.Canonical().Addresses())
	}
	return all
}

// TestPoolsAndPortsCountToWhatNeutronCounts holds that a tenant can find out for himself what Neutron tells to
// administrators: of pools and none, addresses in and outside of them, ports with one, several and none, a router's, and
// those that ports make themselves.
func TestPoolsAndPortsCountToWhatNeutronCounts(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		subnet := func(cidr string, more object) object {
			t.Helper()
			version := 4
			if netip.MustParsePrefix(cidr).Addr().Is6() {
				version = 6
			}
			return c.tenant.newSubnet(t, n, with(object{"cidr": cidr, "ip_version": version}, more))
		}
		plain := subnet("10.0.0.0/24", nil)
		tiny := subnet("10.0.1.0/29", nil)
		pools := subnet("10.0.2.0/24", object{"allocation_pools": []object{
			pool("10.0.2.10", "10.0.2.19"), pool("10.0.2.20", "10.0.2.20"), pool("10.0.2.100", "10.0.2.199"),
		}})
		without := subnet("10.0.3.0/24", nil)
		c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(without), object{"subnet": object{"allocation_pools": []object{}}}).
			must(t, http.StatusOK)
		subnet("10.0.4.0/24", object{"gateway_ip": nil})
		subnet("fd00:1::/64", nil)
		subnet("fd00:2::/120", nil)
		subnet("fd00:3::/64", object{"ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"})

		anyOf := func(s object) object { return object{"subnet_id": id(s)} }
		at := func(s object, address string) object { return with(anyOf(s), object{"ip_address": address}) }
		for _, addresses := range [][]object{
			{},
			{anyOf(plain)},
			{anyOf(plain), anyOf(plain), anyOf(tiny)},
			{at(tiny, "10.0.1.1")}, // the gateway's, so that more are in use than the pool has
			{anyOf(tiny)}, {anyOf(tiny)}, {anyOf(tiny)}, {anyOf(tiny)},
			{at(pools, "10.0.2.50")}, {at(pools, "10.0.2.20")},
			{at(without, "10.0.3.7")},
		} {
			c.tenant.newPort(t, n, object{"fixed_ips": addresses})
		}
		c.tenant.newPort(t, n, nil)
		r := c.tenant.newRouter(t, nil)
		router := "/v2.0/routers/" + id(r)
		c.tenant.do(t, "PUT", router+"/add_router_interface", anyOf(plain)).must(t, http.StatusOK)
		t.Cleanup(func() { c.tenant.do(t, "PUT", router+"/remove_router_interface", anyOf(plain)) })

		theirs := c.admin.availabilities(t, n)
		if diff := gocmp.Diff(theirs, c.tenant.countedByHand(t, n)); diff != "" {
			t.Errorf("counts (-Neutron's +by hand):\n%s", diff)
		}
		for cidr, want := range map[string]string{"10.0.1.0/29": "6 of 5", "10.0.3.0/24": "1 of 256"} {
			if theirs[cidr] != want {
				t.Errorf("Neutron counts %s in %s, want %s", theirs[cidr], cidr, want)
			}
		}
	})
}
