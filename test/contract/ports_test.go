package contract

import (
	"net/http"
	"net/netip"
	"regexp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var portMembers = []string{
	"admin_state_up", "allowed_address_pairs", "binding:vnic_type", "created_at", "description", "device_id",
	"device_owner", "dns_assignment", "dns_name", "extra_dhcp_opts", "fixed_ips", "id", "ip_allocation", "mac_address",
	"name", "network_id", "port_security_enabled", "project_id", "qos_network_policy_id", "qos_policy_id",
	"revision_number", "security_groups", "status", "tags", "tenant_id", "updated_at",
}

func TestWhatAPortConsistsOf(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, nil)
		if diff := gocmp.Diff(portMembers, members(p)); diff != "" {
			t.Errorf("a tenant's port (-want +got):\n%s", diff)
		}
		admins := c.admin.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")
		more := []string{"binding:host_id", "binding:profile", "binding:vif_details", "binding:vif_type",
			"resource_request"}
		if diff := gocmp.Diff(union(portMembers, more), members(admins)); diff != "" {
			t.Errorf("an admin's view (-want +got):\n%s", diff)
		}
		for key, want := range (object{
			"status": "DOWN", "device_owner": "", "port_security_enabled": true, "ip_allocation": "immediate",
			"binding:vnic_type": "normal", "revision_number": float64(1),
		}) {
			if diff := gocmp.Diff(want, p[key]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", key, diff)
			}
		}
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
	onEveryCloud(t, func(t *testing.T, c *cloud) {
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
			p := c.tenant.newPort(t, test.network, test.ask)
			if p["port_security_enabled"] != test.secure || len(p["security_groups"].([]any)) != test.groups {
				t.Errorf("a port that %s has port security %v and groups %v",
					what, p["port_security_enabled"], p["security_groups"])
			}
		}
	})
}

// TestAddressesOfPorts fills a small network: 10.0.0.0/29 has the addresses .1 to .6, and .1 is the gateway.
func TestAddressesOfPorts(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
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
		if diff := gocmp.Diff([]any{}, p["fixed_ips"]); diff != "" {
			t.Errorf("without a subnet (-want +got):\n%s", diff)
		}
		create(fixed(object{"ip_address": "10.0.0.3"})).refuses(t,
			refusal{400, "InvalidInput", "Invalid input for operation: IP allocation requires subnets for network."})

		s := c.tenant.newSubnet(t, n, object{"cidr": "10.0.0.0/29"})
		elsewhere := c.tenant.newSubnet(t, c.tenant.newNetwork(t, nil), nil)
		p = create(fixed(object{"ip_address": "10.0.0.3"})).must(t, http.StatusCreated).part(t, "port")
		want := []any{object{"subnet_id": id(s), "ip_address": "10.0.0.3"}}
		if diff := gocmp.Diff(want, p["fixed_ips"]); diff != "" {
			t.Errorf("fixed_ips (-want +got):\n%s", diff)
		}
		for name, test := range map[string]struct {
			ask  object
			want refusal
		}{
			"taken": {fixed(object{"ip_address": "10.0.0.3"}), refusal{409, "IpAddressAlreadyAllocated",
				"IP address 10.0.0.3 already allocated in subnet {subnet}"}},
			"taken, with its subnet": {fixed(object{"ip_address": "10.0.0.3", "subnet_id": id(s)}),
				refusal{Status: 409, Type: "IpAddressAlreadyAllocated"}},
			"the network's own": {fixed(object{"ip_address": "10.0.0.0", "subnet_id": id(s)}), refusal{400,
				"InvalidIpForSubnet", "IP address 10.0.0.0 is not a valid IP for the specified subnet."}},
			"the broadcast": {fixed(object{"ip_address": "10.0.0.7"}), refusal{400, "InvalidIpForNetwork",
				"IP address 10.0.0.7 is not a valid IP for any of the subnets on the specified network."}},
			"from elsewhere": {fixed(object{"ip_address": "11.0.0.7"}),
				refusal{Status: 400, Type: "InvalidIpForNetwork"}},
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
		} {
			t.Run("an address "+name, func(t *testing.T) {
				create(test.ask).refuses(t, test.want, "{subnet}", id(s), "{network}", id(n), "{other}", id(elsewhere))
			})
		}
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

func TestPortsThatAreRefused(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		mac := c.tenant.newPort(t, n, nil)["mac_address"]
		const nobody = "11111111-1111-1111-1111-111111111111"
		for name, test := range map[string]struct {
			ask  object
			want refusal
		}{
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
			"a status": {object{"status": "ACTIVE"},
				refusal{400, "HTTPBadRequest", "Attribute 'status' not allowed in POST"}},
			"a network that is no UUID": {object{"network_id": "x"}, refusal{400, "HTTPBadRequest",
				"Invalid input for network_id. Reason: 'x' is not a valid UUID."}},
		} {
			t.Run(name, func(t *testing.T) {
				ask := object{"port": with(object{"network_id": id(n)}, test.ask)}
				c.tenant.do(t, "POST", "/v2.0/ports", ask).refuses(t, test.want, "{network}", id(n), "{mac}",
					mac.(string))
			})
		}
	})
}

func TestIPv6AddressesOfPorts(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
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
		p := c.tenant.newPort(t, n,
			object{"mac_address": "fa:16:3e:12:34:56", "fixed_ips": []object{{"subnet_id": id(v4)}}})
		want := object{"subnet_id": id(self), "ip_address": "fd00:2::f816:3eff:fe12:3456"}
		if diff := gocmp.Diff(want, p["fixed_ips"].([]any)[1]); diff != "" {
			t.Errorf("the address made of the MAC (-want +got):\n%s", diff)
		}
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
	onEveryCloud(t, func(t *testing.T, c *cloud) {
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
			got := []string{}
			for _, p := range c.tenant.get(t, "/v2.0/ports?network_id="+id(n)+query).must(t, http.StatusOK).list(t,
				"ports") {
				got = append(got, id(p))
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
	})
}
