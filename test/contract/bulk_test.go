package contract

import (
	"net/http"
	"testing"
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
		// Two subnets in one transaction are one change of their network.
		if got := c.tenant.revisionOf(t, "network", made[0]); got != 2 {
			t.Errorf("two subnets in bulk moved their network to revision %d, want 2", got)
		}
	})
}

func TestBulkCreatesAreAllOrNothing(t *testing.T) {
	const nobody = "11111111-1111-1111-1111-111111111111"
	for name, test := range map[string]struct {
		collection string
		good, bad  object
		want       refusal
	}{
		"networks, one with an unknown attribute": {"networks", object{}, object{"zz": 1},
			refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'zz'"}},
		"networks, one with an MTU too large": {"networks", object{}, object{"mtu": 9999},
			refusal{400, "InvalidInput", "Invalid input for operation: Requested MTU is too big, maximum is 1450."}},
		"networks, one that is not the tenant's to share": {"networks", object{}, object{"shared": true},
			refusal{403, "PolicyNotAuthorized",
				"(rule:create_network and rule:create_network:shared) is disallowed by policy"}},
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
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				n := c.tenant.newNetwork(t, nil)
				c.tenant.newSubnet(t, n, object{"cidr": "10.0.0.0/24"})
				base := object{"name": unique()}
				switch test.collection {
				case "subnets":
					base = with(base, object{"network_id": id(n), "ip_version": 4})
				case "ports":
					base = with(base, object{"network_id": id(n)})
				}
				before := c.tenant.revisionOf(t, "network", n)
				ask := object{test.collection: []object{with(base, test.good), with(base, test.bad)}}
				c.tenant.do(t, "POST", "/v2.0/"+test.collection, ask).refuses(t, test.want, "{network}", id(n))
				left := c.tenant.get(t, "/v2.0/"+test.collection+"?name="+base["name"].(string))
				if list := left.must(t, http.StatusOK).list(t, test.collection); len(list) != 0 {
					t.Errorf("%d of them are there", len(list))
				}
				if got := c.tenant.revisionOf(t, "network", n); got != before {
					t.Errorf("the network's revision went from %d to %d", before, got)
				}
			})
		})
	}
}

// TestABulkOfPortsThatLackAddressesLosesThem shows why the controller creates ports one by one. Should a Neutron be
// mended, this fails, and ports may go together there.
func TestABulkOfPortsThatLackAddressesLosesThem(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, n, object{
			"cidr": "10.0.0.0/24", "allocation_pools": []object{{"start": "10.0.0.10", "end": "10.0.0.11"}},
		})
		port := object{"network_id": id(n)}
		want := refusal{409, "IpAddressGenerationFailure", "No more IP addresses available on network {network}."}
		c.tenant.do(t, "POST", "/v2.0/ports", object{"ports": []object{port, port, port}}).refuses(
			t, want, "{network}", id(n))
		if c.real { // the emulator loses nothing
			c.tenant.do(t, "POST", "/v2.0/ports", object{"port": port}).refuses(t, want, "{network}", id(n))
		}
	})
}
