package contract

import (
	"net/http"
	"net/netip"
	"regexp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var portMembers = []string{
	"admin_state_up", "allowed_address_pairs", "binding:vnic_type", "created_at", "description", "device_id",
	"device_owner", "dns_assignment", "dns_domain", "dns_name", "extra_dhcp_opts", "fixed_ips", "id", "ip_allocation",
	"mac_address", "name", "network_id", "port_security_enabled", "project_id", "qos_network_policy_id", "qos_policy_id",
	"revision_number", "security_groups", "status", "tags", "tenant_id", "updated_at",
}

func TestPortAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, nil)
		expect.Equal(t, portMembers, members(p), "a tenant's port")
		admins := c.admin.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")
		more := []string{"binding:host_id", "binding:profile", "binding:vif_details", "binding:vif_type", "resource_request"}
		expect.Equal(t, union(portMembers, more), members(admins), "an admin's view")
		wantFields(t, p, object{
			"status": "DOWN", "device_owner": "", "port_security_enabled": true, "ip_allocation": "immediate",
			"binding:vnic_type": "normal", "revision_number": float64(1),
		})
		if mac := p["mac_address"].(string); !regexp.MustCompile(`^fa:16:3e(:[0-9a-f]{2}){3}$`).MatchString(mac) {
			t.Errorf("mac_address = %s", mac)
		}
		if groups := p["security_groups"].([]any); len(groups) != 1 {
			t.Errorf("security_groups = %v, want the default one", groups)
		}
		addresses := p["fixed_ips"].([]any)
		if len(addresses) != 1 {
			t.Fatalf("fixed_ips = %v", addresses)
		}
		address := addresses[0].(object)
		inside := netip.MustParsePrefix("10.0.0.0/24").Contains(netip.MustParseAddr(address["ip_address"].(string)))
		if address["subnet_id"] != id(s) || !inside {
			t.Errorf("fixed_ips = %v", addresses)
		}
	})
}

func TestPortsAndPortSecurity(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		open := c.tenant.newNetwork(t, object{"port_security_enabled": false})
		closed := c.tenant.newNetwork(t, nil)
		for what, test := range map[string]struct {
			network object
			ask     object
			secure  bool
			groups  int
		}{
			"inherits that it is on":         {closed, object{}, true, 1},
			"inherits that it is off":        {open, object{}, false, 0},
			"may turn it off":                {closed, object{"port_security_enabled": false}, false, 0},
			"may do without groups":          {closed, object{"security_groups": []string{}}, true, 0},
			"of Neutron's own has it off":    {closed, object{"device_owner": "network:dhcp"}, false, 0},
			"of a virtual machine has it on": {closed, object{"device_owner": "compute:nova"}, true, 1},
			"may say null for no groups":     {closed, object{"security_groups": nil}, true, 0},
		} {
			p := c.tenant.create(t, "ports", with(test.ask, object{"network_id": id(test.network)})).
				must(t, http.StatusCreated).part(t, "port")
			c.admin.drop(t, "/v2.0/ports/"+id(p))
			if p["port_security_enabled"] != test.secure || len(p["security_groups"].([]any)) != test.groups {
				t.Errorf("a port that %s has port security %v and groups %v", what, p["port_security_enabled"], p["security_groups"])
			}
		}
	})
}

// TestOptionsOfPorts covers what NetworkPorts declare beyond addresses: the QoS policy and address pairs. A Neutron
// without a dns_domain in its configuration, as dev/openstack has one, ignores a DNS name: it can only be emptied.
func TestOptionsOfPorts(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		gold, hidden := c.admin.newPolicy(t, object{"shared": true}), c.admin.newPolicy(t, nil)
		n := c.tenant.newNetwork(t, nil)
		p := c.tenant.newPort(t, n, object{
			"qos_policy_id": id(gold), "mac_address": "fa:16:3e:99:00:01",
			"allowed_address_pairs": []object{{"ip_address": "10.0.0.100"}},
		})
		path := "/v2.0/ports/" + id(p)
		pair := func(address, mac string) any { return object{"ip_address": address, "mac_address": mac} }
		wants := func(want object) {
			t.Helper()
			wantFields(t, c.tenant.get(t, path).part(t, "port"), want)
		}
		wants(object{
			"qos_policy_id":         id(gold),
			"allowed_address_pairs": []any{pair("10.0.0.100", "fa:16:3e:99:00:01")},
		})
		change := func(ask object) answer { return c.tenant.do(t, "PUT", path, object{"port": ask}) }
		change(object{"allowed_address_pairs": []any{
			pair("10.9.0.0/16", "FA:16:3E:99:00:02"), object{"ip_address": "fd00::9"},
		}, "name": "a"}).must(t, http.StatusOK)
		shown := c.tenant.get(t, path).part(t, "port")["allowed_address_pairs"].([]any)
		if len(shown) != 2 {
			t.Errorf("the pairs are %v", shown)
		}
		change(object{"port_security_enabled": false, "security_groups": []any{}, "name": "a"}).refuses(t, refusal{
			409, "AddressPairAndPortSecurityRequired",
			"Port Security must be enabled in order to have allowed address pairs on a port.",
		})
		change(object{
			"port_security_enabled": false, "security_groups": []any{}, "allowed_address_pairs": []any{}, "name": "a",
		}).must(t, http.StatusOK)
		change(object{"qos_policy_id": nil, "dns_name": "", "name": "a"}).must(t, http.StatusOK)
		wants(object{
			"qos_policy_id": nil, "dns_name": "", "allowed_address_pairs": []any{}, "port_security_enabled": false,
		})
		for _, policy := range []string{"11111111-1111-1111-1111-111111111111", id(hidden)} {
			change(object{"qos_policy_id": policy}).refuses(t,
				refusal{404, "QosPolicyNotFound", "QoS policy " + policy + " could not be found."})
		}
	})
}

// TestAddressesOfPorts fills a small network: 10.0.0.0/29 has the addresses .1 to .6, and .1 is the gateway.
func TestAddressesOfPorts(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		create := func(ask object) answer {
			t.Helper()
			a := c.tenant.do(t, "POST", "/v2.0/ports", object{"port": with(object{"network_id": id(n)}, ask)})
			if a.status == http.StatusCreated {
				c.tenant.drop(t, "/v2.0/ports/"+id(a.part(t, "port")))
			}
			return a
		}
		fixed := func(wanted ...object) object { return object{"fixed_ips": wanted} }
		const nobody = "11111111-1111-1111-1111-111111111111"

		p := create(nil).must(t, http.StatusCreated).part(t, "port")
		expect.Equal(t, []any{}, p["fixed_ips"], "without a subnet")
		create(fixed(object{"ip_address": "10.0.0.3"})).refuses(t,
			refusal{400, "InvalidInput", "Invalid input for operation: IP allocation requires subnets for network."})

		s := c.tenant.newSubnet(t, n, object{"cidr": "10.0.0.0/29"})
		elsewhere := c.tenant.newSubnet(t, c.tenant.newNetwork(t, nil), nil)
		p = create(fixed(object{"ip_address": "10.0.0.3"})).must(t, http.StatusCreated).part(t, "port")
		want := []any{object{"subnet_id": id(s), "ip_address": "10.0.0.3"}}
		expect.Equal(t, want, p["fixed_ips"], "fixed_ips")
		c.tenant.refusesEach(t, "ports", object{"network_id": id(n)}, map[string]asked{
			"taken": {fixed(object{"ip_address": "10.0.0.3"}), refusal{409, "IpAddressAlreadyAllocated",
				"IP address 10.0.0.3 already allocated in subnet {subnet}"}},
			"taken, with its subnet": {fixed(object{"ip_address": "10.0.0.3", "subnet_id": id(s)}),
				refusal{Status: 409, Type: "IpAddressAlreadyAllocated"}},
			"the network's own": {fixed(object{"ip_address": "10.0.0.0", "subnet_id": id(s)}), refusal{400,
				"InvalidIpForSubnet", "IP address 10.0.0.0 is not a valid IP for the specified subnet."}},
			"the broadcast": {fixed(object{"ip_address": "10.0.0.7"}), refusal{400, "InvalidIpForNetwork",
				"IP address 10.0.0.7 is not a valid IP for any of the subnets on the specified network."}},
			"from elsewhere": {fixed(object{"ip_address": "11.0.0.7"}), refusal{Status: 400, Type: "InvalidIpForNetwork"}},
			"from elsewhere, with a subnet": {fixed(object{"ip_address": "11.0.0.7", "subnet_id": id(s)}),
				refusal{Status: 400, Type: "InvalidIpForSubnet"}},
			"of a subnet that is not there": {fixed(object{"subnet_id": nobody}),
				refusal{404, "SubnetNotFound", "Subnet " + nobody + " could not be found."}},
			"of another network's subnet": {fixed(object{"subnet_id": id(elsewhere)}), refusal{400, "InvalidInput",
				"Invalid input for operation: Failed to create port on network {network}, because fixed_ips included " +
					"invalid subnet {other}."}},
			"of anything": {fixed(object{}), refusal{400, "InvalidInput",
				"Invalid input for operation: IP allocation requires subnet_id or ip_address."}},
			"that is a word": {fixed(object{"ip_address": "x"}), refusal{400, "HTTPBadRequest",
				"Invalid input for fixed_ips. Reason: 'x' is not a valid IP address."}},
			"twice": {fixed(object{"ip_address": "10.0.0.4"}, object{"ip_address": "10.0.0.4"}), refusal{400,
				"HTTPBadRequest", "Invalid input for fixed_ips. Reason: Duplicate IP address '10.0.0.4'."}},
			"null": {object{"fixed_ips": nil}, refusal{400, "HTTPBadRequest",
				"Invalid input for fixed_ips. Reason: Invalid data format for fixed IP: 'None'."}},
		}, "{subnet}", id(s), "{network}", id(n), "{other}", id(elsewhere))
		// The gateway's address is nobody's until someone takes it, and an unaddressed port needs none.
		create(fixed(object{"ip_address": "10.0.0.1"})).must(t, http.StatusCreated)
		p = create(object{"fixed_ips": []object{}}).must(t, http.StatusCreated).part(t, "port")
		if p["ip_allocation"] != "none" {
			t.Errorf("ip_allocation of an unaddressed port = %v", p["ip_allocation"])
		}
		// .2, .4, .5 and .6 are left.
		for range 3 {
			create(nil).must(t, http.StatusCreated)
		}
		create(fixed(object{"subnet_id": id(s)})).must(t, http.StatusCreated)
		exhausted := refusal{409, "IpAddressGenerationFailure", "No more IP addresses available on network {network}."}
		create(nil).refuses(t, exhausted, "{network}", id(n))
		create(fixed(object{"subnet_id": id(s)})).refuses(t, exhausted, "{network}", id(n))
	})
}

// TestMACStaysAsItIsWritten holds that Neutron keeps the form that it is given, or has one of its own.
func TestMACStaysAsItIsWritten(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for _, mac := range []string{"02-00-00-AA-BB-C1", "0200.00aa.bbc2", "020000aabbc3", "2:0:0:aa:bb:c4"} {
			want := mac
			if c.since(neutrontest.MACsHaveOneForm) {
				want = "02:00:00:aa:bb:c" + mac[len(mac)-1:]
			}
			if got := c.tenant.newPort(t, n, object{"mac_address": mac})["mac_address"]; got != want {
				t.Errorf("a MAC that was given as %s is %v, want %s", mac, got, want)
			}
		}
	})
}

func TestRefusedPorts(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		mac := c.tenant.newPort(t, n, nil)["mac_address"]
		const nobody = "11111111-1111-1111-1111-111111111111"
		c.tenant.refusesEach(t, "ports", object{"network_id": id(n)}, map[string]asked{
			"a MAC in use": {object{"mac_address": mac}, refusal{409, "MacAddressInUse",
				"Unable to complete operation for network {network}. The mac address {mac} is in use."}},
			"a MAC that is a word": {object{"mac_address": "x"}, refusal{400, "HTTPBadRequest",
				"Invalid input for mac_address. Reason: 'x' is not a valid MAC address."}},
			"a MAC of zeros": {object{"mac_address": "00:00:00:00:00:00"}, refusal{400, "HTTPBadRequest",
				"Invalid input for mac_address. Reason: '00:00:00:00:00:00' is not a valid MAC address."}},
			"a group that is not there": {object{"security_groups": []string{nobody}}, refusal{404,
				"SecurityGroupNotFound", "Security group " + nobody + " does not exist"}},
			"a host, by a tenant": {object{"binding:host_id": "h"}, refusal{403, "PolicyNotAuthorized",
				"(rule:create_port and rule:create_port:binding:host_id) is disallowed by policy"}},
			"a host and addresses": {object{"binding:host_id": "h", "fixed_ips": []object{}}, refusal{403,
				"PolicyNotAuthorized", "((rule:create_port and rule:create_port:fixed_ips) and " +
					"rule:create_port:binding:host_id) is disallowed by policy"}},
			"a status": {object{"status": "ACTIVE"}, refusal{400, "HTTPBadRequest", "Attribute 'status' not allowed in POST"}},
			"a network that is no UUID": {object{"network_id": "x"}, refusal{400, "HTTPBadRequest",
				"Invalid input for network_id. Reason: 'x' is not a valid UUID."}},
		}, "{network}", id(n), "{mac}", mac.(string))
	})
}

func TestIPv6AddressesOfPorts(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		v4 := c.tenant.newSubnet(t, n, nil)
		c.tenant.newSubnet(t, n, object{"cidr": "fd00:1::/64", "ip_version": 6})
		early := c.tenant.newPort(t, n, nil)
		self := c.tenant.newSubnet(t, n, object{"cidr": "fd00:2::/64", "ip_version": 6,
			"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"})
		subnets := func(p object) int { return len(p["fixed_ips"].([]any)) }
		if subnets(early) != 2 {
			t.Errorf("a port got %v, want one address of each version", early["fixed_ips"])
		}
		now := c.tenant.get(t, "/v2.0/ports/"+id(early)).part(t, "port")
		if subnets(now) != 3 {
			t.Errorf("a port that was there has %v, want one more", now["fixed_ips"])
		}
		p := c.tenant.newPort(t, n, object{"mac_address": "fa:16:3e:12:34:56", "fixed_ips": []object{{"subnet_id": id(v4)}}})
		want := object{"subnet_id": id(self), "ip_address": "fd00:2::f816:3eff:fe12:3456"}
		expect.Equal(t, want, p["fixed_ips"].([]any)[1], "the address made of the MAC")
		c.tenant.do(t, "POST", "/v2.0/ports", object{"port": object{"network_id": id(n),
			"fixed_ips": []object{{"subnet_id": id(self), "ip_address": "fd00:2::5"}}}}).refuses(t,
			refusal{Status: 400, Type: "AllocationOnAutoAddressSubnet"})
		// Such addresses do not keep their subnet.
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(self), nil).must(t, http.StatusNoContent)
		if now = c.tenant.get(t, "/v2.0/ports/"+id(early)).part(t, "port"); subnets(now) != 2 {
			t.Errorf("after the subnet's end a port has %v", now["fixed_ips"])
		}
	})
}

func TestPortsAreFoundByTheirAddresses(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		a := c.tenant.newPort(t, n, object{"fixed_ips": []object{{"ip_address": "10.0.0.7"}}, "device_id": unique()})
		b := c.tenant.newPort(t, n, object{"fixed_ips": []object{{"ip_address": "10.0.0.8"}}})
		for query, want := range map[string][]string{
			"":                               union([]string{id(a), id(b)}),
			"&fixed_ips=ip_address=10.0.0.7": {id(a)},
			"&fixed_ips=ip_address=10.0.0.9": {},
			"&fixed_ips=subnet_id=" + id(s):  union([]string{id(a), id(b)}),
			"&fixed_ips=ip_address=10.0.0.8&fixed_ips=subnet_id=" + id(s): {id(b)},
			"&device_id=" + a["device_id"].(string):                       {id(a)},
			"&device_owner=compute:nova":                                  {},
		} {
			expect.Equal(t, want, c.tenant.idsOf(t, "/v2.0/ports?network_id="+id(n)+query), "%s", query)
		}
	})
}

func TestImmutablePortFields(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		n := s.newNetwork(t, nil)
		v4 := s.newSubnet(t, n, nil)
		v6 := s.newSubnet(t, n, object{"cidr": "fd00::/64", "ip_version": 6})
		groups := s.newPort(t, n, object{"fixed_ips": []any{}})["security_groups"]
		ask := object{
			"name": "p", "description": "words [owner=a/b]", "admin_state_up": false,
			"device_owner": "kubernetes:networkport", "mac_address": "02:00:00:AA:BB:CC", "security_groups": groups,
			"fixed_ips": []any{
				object{"subnet_id": id(v4), "ip_address": "10.0.0.9"},
				object{"subnet_id": id(v6), "ip_address": "fd00::9"},
			},
		}
		p := s.newPort(t, n, ask)
		if s.since(neutrontest.MACsHaveOneForm) {
			ask["mac_address"] = "02:00:00:aa:bb:cc"
		}
		for how, got := range map[string]object{
			"as the answer has it": p,
			"as it is read":        s.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port"),
			"as it is listed":      s.get(t, "/v2.0/ports?id="+id(p)).must(t, http.StatusOK).list(t, "ports")[0],
		} {
			for key, want := range ask {
				expect.Equal(t, want, got[key], "%s %s", key, how)
			}
		}
		// A MAC stays as it is written. A filter does not mind how.
		for _, mac := range []string{"02:00:00:AA:BB:CC", "02:00:00:aa:bb:cc", "02-00-00-aa-bb-cc"} {
			found := s.get(t, "/v2.0/ports?network_id="+id(n)+"&mac_address="+mac).must(t, http.StatusOK).list(t, "ports")
			if len(found) != 1 || id(found[0]) != id(p) {
				t.Errorf("a search for %s found %v", mac, found)
			}
		}
	})
}

// anyOrder compares fixed_ips, whose order is the database's.
var anyOrder = cmpopts.SortSlices(func(a, b any) bool {
	return a.(object)["ip_address"].(string) < b.(object)["ip_address"].(string)
})

func TestAddressesOfAPortThatIsThere(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		s.skipShort(t)
		n := s.newNetwork(t, nil)
		// .1 is the gateway; .2 to .6 are free.
		small := s.newSubnet(t, n, object{"cidr": "10.0.0.0/29"})
		large := s.newSubnet(t, n, object{"cidr": "10.1.0.0/24"})
		at := func(subnet object, address string) object {
			return object{"subnet_id": id(subnet), "ip_address": address}
		}
		p := s.newPort(t, n, object{"fixed_ips": []any{at(small, "10.0.0.2")}})
		s.newPort(t, n, object{"fixed_ips": []any{at(small, "10.0.0.3")}})
		path := "/v2.0/ports/" + id(p)
		put := func(addresses ...any) answer {
			t.Helper()
			return s.do(t, "PUT", path, object{"port": object{"fixed_ips": addresses}})
		}
		for _, step := range []struct {
			what      string
			ask, want []any
		}{
			{"another address", []any{at(small, "10.0.0.4")}, []any{at(small, "10.0.0.4")}},
			{"any of the subnet that it has one of", []any{object{"subnet_id": id(small)}}, []any{at(small, "10.0.0.4")}},
			{"one more", []any{at(small, "10.0.0.4"), at(large, "10.1.0.9")}, []any{at(small, "10.0.0.4"), at(large, "10.1.0.9")}},
			{"two of one subnet", []any{at(large, "10.1.0.9"), at(large, "10.1.0.8")},
				[]any{at(large, "10.1.0.9"), at(large, "10.1.0.8")}},
			{"one less", []any{at(large, "10.1.0.8")}, []any{at(large, "10.1.0.8")}},
			{"none", []any{}, []any{}},
			{"one again", []any{at(small, "10.0.0.2")}, []any{at(small, "10.0.0.2")}},
		} {
			got := put(step.ask...).must(t, http.StatusOK).part(t, "port")["fixed_ips"]
			if diff := gocmp.Diff(step.want, got, anyOrder); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.what, diff)
			}
		}
		const nobody = "11111111-1111-1111-1111-111111111111"
		for what, test := range map[string]struct {
			ask  object
			want refusal
		}{
			"another's address": {at(small, "10.0.0.3"), refusal{409, "IpAddressAlreadyAllocated",
				"IP address 10.0.0.3 already allocated in subnet {small}"}},
			"an address outside its subnet": {at(small, "10.0.1.3"), refusal{400, "InvalidIpForSubnet",
				"IP address 10.0.1.3 is not a valid IP for the specified subnet."}},
			"an address of a subnet that is not there": {object{"subnet_id": nobody}, refusal{404, "SubnetNotFound",
				"Subnet " + nobody + " could not be found."}},
		} {
			t.Run(what, func(t *testing.T) { put(test.ask).refuses(t, test.want, "{small}", id(small)) })
		}
		for range 3 { // .4, .5 and .6
			s.newPort(t, n, object{"fixed_ips": []any{object{"subnet_id": id(small)}}})
		}
		exhausted := refusal{409, "IpAddressGenerationFailure", "No more IP addresses available on network " + id(n) + "."}
		put(object{"subnet_id": id(small)}, object{"subnet_id": id(small)}).refuses(t, exhausted)
		now := s.get(t, path).must(t, http.StatusOK).part(t, "port")["fixed_ips"]
		expect.Equal(t, []any{at(small, "10.0.0.2")}, now, "addresses after what was refused")
		// The other subnet has addresses left, and is not asked.
		other := s.newPort(t, n, object{"fixed_ips": []any{at(large, "10.1.0.10")}})
		s.do(t, "PUT", "/v2.0/ports/"+id(other), object{"port": object{"fixed_ips": []any{object{"subnet_id": id(small)}}}}).
			refuses(t, exhausted)
	})
}

// TestPortGetsAddressesByDefault holds that in a subnet whose addresses follow from MACs each port has one,
// and that it cannot be taken away.
func TestPortGetsAddressesByDefault(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		v4 := c.tenant.newSubnet(t, n, nil)
		self := c.tenant.newSubnet(t, n, object{"cidr": "fd00:2::/64", "ip_version": 6,
			"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"})
		p := c.tenant.newPort(t, n, object{"mac_address": "FA-16-3E-12-34-56",
			"fixed_ips": []any{object{"subnet_id": id(v4), "ip_address": "10.0.0.9"}}})
		made := object{"subnet_id": id(self), "ip_address": "fd00:2::f816:3eff:fe12:3456"}
		for _, address := range []string{"10.0.0.9", "10.0.0.10"} {
			want := object{"subnet_id": id(v4), "ip_address": address}
			a := c.tenant.do(t, "PUT", "/v2.0/ports/"+id(p), object{"port": object{"fixed_ips": []any{want}}})
			got := a.must(t, http.StatusOK).part(t, "port")["fixed_ips"]
			if diff := gocmp.Diff([]any{want, made}, got, anyOrder); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		}
	})
}

func TestMACAndBindingNeedAdministrator(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		p, other := c.tenant.newPort(t, n, nil), c.tenant.newPort(t, n, nil)
		last := revision(p)
		change := func(s *session, field string, value any) answer {
			t.Helper()
			return s.do(t, "PUT", "/v2.0/ports/"+id(p), object{"port": object{field: value}})
		}
		for _, test := range []struct {
			field string
			was   any
			is    string
			moves int
		}{
			{"mac_address", p["mac_address"], "02:00:00:00:00:01", 1},
			{"binding:host_id", "", "node1", either(c.since(neutrontest.BindingMovesPortThrice), 3, 1)},
		} {
			denied := refusal{403, "PolicyNotAuthorized",
				"(rule:update_port and rule:update_port:" + test.field + ") is disallowed by policy"}
			change(c.tenant, test.field, test.is).refuses(t, denied)
			change(c.tenant, test.field, test.was).refuses(t, denied)
			got := change(c.admin, test.field, test.is).must(t, http.StatusOK).part(t, "port")
			if got[test.field] != test.is || revision(got) != last+test.moves {
				t.Errorf("%s is %v, and the revision went from %d to %d", test.field, got[test.field], last, revision(got))
			}
			last = revision(got)
		}
		change(c.admin, "mac_address", other["mac_address"]).refuses(t, refusal{409, "MacAddressInUse",
			"Unable to complete operation for network {network}. The mac address {mac} is in use."},
			"{network}", id(n), "{mac}", other["mac_address"].(string))
	})
}

func TestPortsThatCannotBe(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		s.skipShort(t)
		const nobody = "11111111-1111-1111-1111-111111111111"
		n := s.newNetwork(t, nil)
		p := s.newPort(t, n, nil)
		path := "/v2.0/ports/" + id(p)
		post := func(network string, ask object) answer {
			t.Helper()
			return s.create(t, "ports", with(object{"network_id": network}, ask))
		}
		put := func(ask object) answer { t.Helper(); return s.do(t, "PUT", path, object{"port": ask}) }

		post(nobody, nil).refuses(t, refusal{404, "NetworkNotFound", "Network " + nobody + " could not be found."})
		put(object{"network_id": id(n)}).refuses(t, refusal{400, "HTTPBadRequest", "Cannot update read-only attribute network_id"})
		noGroup := refusal{404, "SecurityGroupNotFound", "Security group " + nobody + " does not exist"}
		post(id(n), object{"security_groups": []string{nobody}}).refuses(t, noGroup)
		put(object{"security_groups": []string{nobody}}).refuses(t, noGroup)
		post(id(n), object{"security_groups": []string{"nope"}}).refuses(t,
			refusal{400, "HTTPBadRequest", "Invalid input for security_groups. Reason: 'nope' is not a valid UUID."})
		open := s.newNetwork(t, object{"port_security_enabled": false})
		post(id(open), object{"security_groups": p["security_groups"]}).refuses(t,
			refusal{Status: 400, Type: "PortSecurityAndIPRequiredForSecurityGroups"})

		// A subnet that is for devices of another kind.
		others := s.newSubnet(t, n, object{"service_types": []string{"compute:nova"}})
		ask := object{"device_owner": "kubernetes:networkport", "fixed_ips": []object{{"subnet_id": id(others)}}}
		post(id(n), ask).refuses(t, refusal{409, "IpAddressGenerationFailureNoMatchingSubnet", "No valid service subnet " +
			"for the given device owner, network " + id(n) + ", service type kubernetes:networkport."})
		s.newSubnet(t, n, object{"cidr": "10.1.0.0/24"})
		post(id(n), ask).refuses(t, refusal{400, "InvalidInput", "Invalid input for operation: Failed to create port on " +
			"network " + id(n) + ", because fixed_ips included invalid subnet " + id(others) + "."})
	})
}

func TestPortKeepsNetworkAndSubnetsInUse(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		n := s.newNetwork(t, nil)
		subnet, spare := s.newSubnet(t, n, nil), s.newSubnet(t, n, object{"cidr": "10.1.0.0/24"})
		p := s.newPort(t, n, object{"device_owner": "kubernetes:networkport", "fixed_ips": []object{{"subnet_id": id(subnet)}}})
		// Being in use is said even to those who would be refused for their revision.
		for _, condition := range [][]string{nil, ifRevision(99)} {
			s.do(t, "DELETE", "/v2.0/networks/"+id(n), nil, condition...).refuses(t, refusal{409, "NetworkInUse",
				"Unable to complete operation on network {network}. There are one or more ports still in use on the network, " +
					"id for these ports is: {port}."}, "{network}", id(n), "{port}", id(p))
			s.do(t, "DELETE", "/v2.0/subnets/"+id(subnet), nil, condition...).refuses(t, refusal{409, "SubnetInUse",
				"Unable to complete operation on subnet {subnet}: One or more ports have an IP allocation from this subnet."},
				"{subnet}", id(subnet))
		}
		s.do(t, "DELETE", "/v2.0/subnets/"+id(spare), nil).must(t, http.StatusNoContent)
		s.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).must(t, http.StatusNoContent)
		s.do(t, "DELETE", "/v2.0/subnets/"+id(subnet), nil).must(t, http.StatusNoContent)
		s.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).must(t, http.StatusNoContent)
	})
}
