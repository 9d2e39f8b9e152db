package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestBulkCreatesGiveAllInTheirOrder(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		names := []string{unique(), unique(), unique()}
		a := c.tenant.do(t, "POST", "/v2.0/networks", object{"networks": []object{
			{"name": names[0]}, {"name": names[1], "mtu": 1400}, {"network": object{"name": names[2]}},
		}})
		made := a.must(t, http.StatusCreated).list(t, "networks")
		for i, n := range made {
			c.tenant.drop(t, "/v2.0/networks/"+id(n))
			if n["name"] != names[i] || revision(n) != 1 {
				t.Errorf("network %d is %v with revision %d, want %s with 1", i, n["name"], revision(n), names[i])
			}
		}
		if len(made) != len(names) {
			t.Fatalf("%d networks, want %d", len(made), len(names))
		}
		a = c.tenant.do(t, "POST", "/v2.0/subnets", object{"subnets": []object{
			{"network_id": id(made[0]), "ip_version": 4, "cidr": "10.0.0.0/24"},
			{"network_id": id(made[0]), "ip_version": 4, "cidr": "10.0.1.0/24"},
			{"network_id": id(made[1]), "ip_version": 6, "cidr": "fd00::/64"},
		}})
		subnets := a.must(t, http.StatusCreated).list(t, "subnets")
		for i, want := range []string{"10.0.0.0/24", "10.0.1.0/24", "fd00::/64"} {
			if subnets[i]["cidr"] != want {
				t.Errorf("subnet %d is %v, want %s", i, subnets[i]["cidr"], want)
			}
		}
		var ports []object
		for _, name := range names {
			ports = append(ports, object{"network_id": id(made[0]), "name": name, "description": name})
		}
		// Of several networks, and out of the order of their addresses.
		ports[1]["network_id"] = id(made[1])
		ports[0]["fixed_ips"] = []object{{"ip_address": "10.0.1.9"}}
		a = c.tenant.do(t, "POST", "/v2.0/ports", object{"ports": ports})
		for i, port := range a.must(t, http.StatusCreated).list(t, "ports") {
			if port["name"] != names[i] || port["network_id"] != ports[i]["network_id"] {
				t.Errorf("port %d is %v of network %v, want %s", i, port["name"], port["network_id"], names[i])
			}
			c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(port), nil).must(t, http.StatusNoContent)
		}
		// Two subnets in one transaction are one change of their network. A Neutron that is busy may write them apart.
		if got := c.tenant.revisionOf(t, "network", made[0]); got != 2 && (!c.real || got != 3) {
			t.Errorf("two subnets in bulk moved their network to revision %d, want 2", got)
		}
	})
}

func TestBulkCreatesAreAllOrNothing(t *testing.T) {
	const nobody = "11111111-1111-1111-1111-111111111111"
	cases := map[string]struct {
		collection string
		good, bad  object
		want       refusal
	}{
		"networks, one with an unknown attribute": {"networks", object{}, object{"zz": 1},
			refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'zz'"}},
		"networks, one with an MTU too large": {"networks", object{}, object{"mtu": 9999},
			refusal{400, "InvalidInput", "Invalid input for operation: Requested MTU is too big, maximum is 1450."}},
		"networks, one that is not the tenant's to share": {"networks", object{}, object{"shared": true},
			refusal{403, "PolicyNotAuthorized", "(rule:create_network and rule:create_network:shared) is disallowed by policy"}},
		"subnets that overlap each other": {"subnets",
			object{"cidr": "10.2.0.0/24"}, object{"cidr": "10.2.0.0/25"},
			refusal{400, "InvalidInput", "Invalid input for operation: Requested subnet with cidr: 10.2.0.0/25 for " +
				"network: {network} overlaps with another subnet."}},
		"subnets, one with a gateway that cannot be": {"subnets",
			object{"cidr": "10.2.0.0/24"}, object{"cidr": "10.3.0.0/24", "gateway_ip": "10.3.0.0"},
			refusal{400, "InvalidInput", "Invalid input for operation: Gateway is not valid on subnet."}},
		"subnets, one of a network that does not exist": {"subnets",
			object{"cidr": "10.2.0.0/24"}, object{"cidr": "10.3.0.0/24", "network_id": nobody},
			refusal{404, "NetworkNotFound", "Network " + nobody + " could not be found."}},
		"ports, one with an address from elsewhere": {"ports",
			object{}, object{"fixed_ips": []object{{"ip_address": "11.0.0.1"}}},
			refusal{400, "InvalidIpForNetwork",
				"IP address 11.0.0.1 is not a valid IP for any of the subnets on the specified network."}},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, n, object{"cidr": "10.0.0.0/24"})
		before := c.tenant.revisionOf(t, "network", n)
		name := unique()
		for what, test := range cases {
			t.Run(what, func(t *testing.T) {
				base := object{"name": name}
				if test.collection != "networks" {
					base["network_id"] = id(n)
				}
				if test.collection == "subnets" {
					base["ip_version"] = 4
				}
				ask := object{test.collection: []object{with(base, test.good), with(base, test.bad)}}
				c.tenant.do(t, "POST", "/v2.0/"+test.collection, ask).refuses(t, test.want, "{network}", id(n))
			})
		}
		for _, collection := range []string{"networks", "subnets", "ports"} {
			left := c.tenant.get(t, "/v2.0/"+collection+"?name="+name).must(t, http.StatusOK).list(t, collection)
			if len(left) != 0 {
				t.Errorf("refused creates left the %s %v", collection, left)
			}
		}
		if got := c.tenant.revisionOf(t, "network", n); got != before {
			t.Errorf("the network's revision went from %d to %d", before, got)
		}
	})
}

// TestRefusedBulkPortsLeakAddresses shows which refusals cost addresses in some releases: those for want of one, or for
// the sake of a certain one. The addresses that the ports before the bad one had got by then are nobody's, until the
// subnet goes. The controller sends ports in bulk only where no such refusal is to be expected.
func TestRefusedBulkPortsLeakAddresses(t *testing.T) {
	const nobody = "11111111-1111-1111-1111-111111111111"
	elsewhere := func(address string) object { return object{"fixed_ips": []object{{"ip_address": address}}} }
	lacking := refusal{409, "IpAddressGenerationFailure", "No more IP addresses available on network {network}."}
	cases := map[string]struct {
		bad   object
		want  refusal
		leaks bool
	}{
		"one whose network has no address left for it": {object{}, lacking, true},
		"one with an address from elsewhere": {elsewhere("11.0.0.1"),
			refusal{Status: 400, Type: "InvalidIpForNetwork"}, true},
		"one with an address that another port has": {elsewhere("10.0.0.9"),
			refusal{Status: 409, Type: "IpAddressAlreadyAllocated"}, true},
		"one with a subnet that does not exist": {object{"fixed_ips": []object{{"subnet_id": nobody}}},
			refusal{Status: 404, Type: "SubnetNotFound"}, true},
		"one without addresses, and with a MAC that another port has": {
			object{"fixed_ips": []object{}, "mac_address": "fa:16:3e:00:00:01"},
			refusal{Status: 409, Type: "MacAddressInUse"}, false},
		"one without addresses, and with a security group that does not exist": {
			object{"fixed_ips": []object{}, "security_groups": []string{nobody}},
			refusal{Status: 404, Type: "SecurityGroupNotFound"}, false},
		"one of a network that does not exist": {object{"network_id": nobody},
			refusal{404, "NetworkNotFound", "Network " + nobody + " could not be found."}, false},
		"one with an attribute that does not exist": {object{"zz": 1}, refusal{Status: 400, Type: "HTTPBadRequest"}, false},
		"one with what is not the tenant's to set": {object{"binding:host_id": "h"},
			refusal{Status: 403, Type: "PolicyNotAuthorized"}, false},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		// Each subnet has room for two ports.
		number := 0
		small := func() object {
			s := c.tenant.newSubnet(t, n, object{"cidr": fmt.Sprintf("10.0.%d.0/24", number), "allocation_pools": []object{
				pool(fmt.Sprintf("10.0.%d.10", number), fmt.Sprintf("10.0.%d.11", number)),
			}})
			number++
			return s
		}
		port := func(s object) object {
			return object{"network_id": id(n), "fixed_ips": []object{{"subnet_id": id(s)}}}
		}
		kept := small()
		c.tenant.newPort(t, n, with(elsewhere("10.0.0.9"), object{"mac_address": "fa:16:3e:00:00:01"}))
		full := func(s object) {
			t.Helper()
			c.tenant.create(t, "ports", port(s)).refuses(t, lacking, "{network}", id(n))
		}
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				s := kept
				if test.leaks {
					s = small()
				}
				ports := object{"ports": []object{port(s), port(s), with(port(s), test.bad)}}
				c.tenant.do(t, "POST", "/v2.0/ports", ports).refuses(t, test.want, "{network}", id(n))
				if !test.leaks {
					return
				}
				if c.since(neutrontest.RefusedBulksLeakNothing) {
					for range 2 {
						c.tenant.newPort(t, n, port(s))
					}
				}
				full(s)
			})
		}
		for range 2 {
			c.tenant.newPort(t, n, port(kept))
		}
		full(kept)
	})
}

func TestQuotaRefusesBulkPortsBeforeAllocation(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		project := someProject()
		path := "/v2.0/quotas/" + project
		c.admin.do(t, "PUT", path, object{"quota": object{"port": 2}}).must(t, http.StatusOK)
		t.Cleanup(func() { c.admin.do(t, "DELETE", path, nil) })
		n := c.admin.newNetwork(t, object{"project_id": project})
		c.admin.newSubnet(t, n, object{"project_id": project,
			"cidr": "10.0.0.0/24", "allocation_pools": []object{{"start": "10.0.0.10", "end": "10.0.0.11"}},
		})
		port := object{"network_id": id(n), "project_id": project}
		c.admin.do(t, "POST", "/v2.0/ports", object{"ports": []object{port, port, port}}).refuses(t,
			refusal{409, "OverQuota", "Quota exceeded for resources: ['port']."})
		for range 2 {
			c.admin.newPort(t, n, object{"project_id": project})
		}
	})
}

// In some releases, a port's address in a subnet where it follows from the MAC is made, in a bulk, before the MAC is.
func TestBulkPortsOnSLAACSubnets(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, n, nil)
		c.tenant.newSubnet(t, n, object{
			"ip_version": 6, "cidr": "fd00::/64", "ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac",
		})
		port := object{"network_id": id(n)}
		made := c.tenant.do(t, "POST", "/v2.0/ports", object{"ports": []object{port, port}})
		if !c.since(neutrontest.SLAACPortsGoInBulk) {
			made.refuses(t, refusal{Status: 500, Type: "HTTPInternalServerError"})
			return
		}
		for _, p := range made.must(t, http.StatusCreated).list(t, "ports") {
			c.tenant.drop(t, "/v2.0/ports/"+id(p))
			if addresses := p["fixed_ips"].([]any); len(addresses) != 2 {
				t.Errorf("a port of a bulk has the addresses %v, want one of each subnet", addresses)
			}
		}
	})
}

// TestNetworkOwnerDeletesPortsOfOthers holds that a network's owner can be rid of what others left on it, in some
// releases but for what virtual machines have, be it one's own.
func TestNetworkOwnerDeletesPortsOfOthers(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for _, project := range []string{someProject(), c.tenant.project} {
			for _, owner := range []string{"", "kubernetes:networkport", "network:dhcp", "compute:nova", "baremetal:a", "manila:a"} {
				p := c.admin.newPort(t, n, object{"project_id": project, "device_owner": owner})
				gone := c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(p), nil)
				kind, _, _ := strings.Cut(owner, ":")
				if slices.Contains([]string{"compute", "baremetal", "manila"}, kind) && c.since(neutrontest.MachinesPortsStay) {
					gone.refuses(t, denied("rule:delete_port"))
				} else {
					gone.must(t, http.StatusNoContent)
				}
			}
		}
	})
}

// TestNetworkOwnerSeesAllPorts holds what room in a network is counted by: a list that a tenant gets shows the
// ports on its networks whosever they are, and its networks name all of their subnets.
func TestNetworkOwnerSeesAllPorts(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		other := someProject()
		n, foreign := c.tenant.newNetwork(t, nil), c.admin.newNetwork(t, object{"shared": true})
		s := c.tenant.newSubnet(t, n, nil)
		theirs := c.admin.newSubnet(t, n, object{"cidr": "10.1.0.0/24", "project_id": other})
		// The tenant cannot delete its network while another project's subnet is on it.
		c.admin.drop(t, "/v2.0/subnets/"+id(theirs))
		c.admin.newSubnet(t, foreign, nil)
		p := c.admin.newPort(t, n, object{"project_id": other, "fixed_ips": []object{{"subnet_id": id(s)}}})
		c.admin.newPort(t, foreign, nil)

		both := "&network_id=" + id(n) + "&network_id=" + id(foreign)
		list := c.tenant.get(t, "/v2.0/ports?fields=id&fields=fixed_ips"+both)
		want := []object{{"id": id(p), "fixed_ips": p["fixed_ips"]}}
		expect.Equal(t, want, list.must(t, http.StatusOK).list(t, "ports"), "ports on a network of one's own, and on one of another project")

		list = c.tenant.get(t, "/v2.0/networks?fields=id&fields=subnets&project_id="+c.tenant.project+
			"&id="+id(n)+"&id="+id(foreign))
		networks := list.must(t, http.StatusOK).list(t, "networks")
		if len(networks) != 1 || id(networks[0]) != id(n) {
			t.Fatalf("networks of one's own: %v, want %s alone", networks, id(n))
		}
		named := networks[0]["subnets"].([]any)
		if len(named) != 2 || !slices.Contains(named, any(id(s))) || !slices.Contains(named, any(id(theirs))) {
			t.Errorf("it names the subnets %v, want %s and %s", named, id(s), id(theirs))
		}

		list = c.tenant.get(t, "/v2.0/subnets?fields=id&fields=network_id&fields=allocation_pools&fields=service_types"+
			"&fields=ipv6_address_mode&fields=segment_id&network_id="+id(n))
		for _, subnet := range list.must(t, http.StatusOK).list(t, "subnets") {
			if id(subnet) == id(s) {
				want := object{"id": id(s), "network_id": id(n), "allocation_pools": s["allocation_pools"],
					"service_types": []any{}, "ipv6_address_mode": nil}
				expect.Equal(t, want, subnet, "what a tenant sees of a subnet")
			}
		}
	})
}
