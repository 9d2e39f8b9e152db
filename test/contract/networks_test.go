package contract

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// members gives the names of an object's members, sorted.
func members(o object) []string { return slices.Sorted(maps.Keys(o)) }

var networkMembers = []string{
	"admin_state_up", "availability_zone_hints", "availability_zones", "created_at", "description", "dns_domain", "id",
	"ipv4_address_scope", "ipv6_address_scope", "l2_adjacency", "mtu", "name", "port_security_enabled", "project_id",
	"qos_policy_id", "revision_number", "router:external", "shared", "status", "subnets", "tags", "tenant_id",
	"updated_at",
}

var providerMembers = []string{
	"provider:network_type", "provider:physical_network", "provider:segmentation_id",
}

// union gives what is in the lists, sorted; it is never nil.
func union(lists ...[]string) []string {
	out := append([]string{}, slices.Concat(lists...)...)
	slices.Sort(out)
	return out
}

func TestNetworkAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		a := c.tenant.do(t, "POST", "/v2.0/networks", object{"network": object{"name": unique()}})
		made := a.must(t, http.StatusCreated).part(t, "network")
		path := "/v2.0/networks/" + id(made)
		c.tenant.drop(t, path)
		for what, got := range map[string]struct {
			got  object
			want []string
		}{
			"the answer to a tenant's POST": {made, union(networkMembers, []string{"is_default"})},
			"a tenant's view":               {c.tenant.get(t, path).part(t, "network"), networkMembers},
			"an admin's view": {c.admin.get(t, path).part(t, "network"),
				union(networkMembers, providerMembers)},
		} {
			if diff := gocmp.Diff(got.want, members(got.got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		for _, varying := range []string{"id", "name", "created_at", "updated_at"} {
			delete(made, varying)
		}
		want := object{
			"admin_state_up": true, "availability_zone_hints": []any{}, "availability_zones": []any{},
			"description": "",
			"dns_domain":  "", "ipv4_address_scope": nil, "ipv6_address_scope": nil, "is_default": false,
			"l2_adjacency": true, "mtu": float64(1450), "port_security_enabled": true, "project_id": c.tenant.project,
			"qos_policy_id": nil, "revision_number": float64(1), "router:external": false, "shared": false,
			"status": "ACTIVE", "subnets": []any{}, "tags": []any{}, "tenant_id": c.tenant.project,
		}
		if diff := gocmp.Diff(want, made); diff != "" {
			t.Errorf("a new network (-want +got):\n%s", diff)
		}
	})
}

func TestNetworksThatAreAccepted(t *testing.T) {
	for name, test := range map[string]struct{ ask, want object }{
		"an MTU below the largest stays": {object{"mtu": 1400}, object{"mtu": float64(1400)}},
		"an MTU of zero is the largest":  {object{"mtu": 0}, object{"mtu": float64(1450)}},
		"a very small MTU stays":         {object{"mtu": 67}, object{"mtu": float64(67)}},
		"port security can be off": {object{"port_security_enabled": false},
			object{"port_security_enabled": false}},
		"a network can be down":      {object{"admin_state_up": false}, object{"admin_state_up": false}},
		"not to share is everyone's": {object{"shared": false}, object{"shared": false}},
		"255 characters of description": {object{"description": strings.Repeat("é", 255)},
			object{"description": strings.Repeat("é", 255)}},
		"booleans may be words": {object{"admin_state_up": "no"}, object{"admin_state_up": false}},
		"an empty name":         {object{"name": ""}, object{"name": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				n := c.tenant.newNetwork(t, test.ask)
				wantFields(t, n, test.want)
			})
		})
	}
}

func TestRefusedNetworks(t *testing.T) {
	long := strings.Repeat("x", 256)
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	invalid := func(message string) refusal {
		return refusal{400, "InvalidInput", "Invalid input for operation: " + message + "."}
	}
	denied := func(rule string) refusal {
		return refusal{403, "PolicyNotAuthorized", rule + " is disallowed by policy"}
	}
	for name, test := range map[string]struct {
		ask  object
		want refusal
	}{
		"tags":                 {object{"tags": []string{"a"}}, bad("Attribute 'tags' not allowed in POST")},
		"a status":             {object{"status": "DOWN"}, bad("Attribute 'status' not allowed in POST")},
		"subnets":              {object{"subnets": []string{}}, bad("Attribute 'subnets' not allowed in POST")},
		"an id":                {object{"id": "x"}, bad("Attribute 'id' not allowed in POST")},
		"an unknown attribute": {object{"zz": 1}, bad("Unrecognized attribute(s) 'zz'")},
		"an unloaded extension": {object{"vlan_transparent": true},
			bad("Unrecognized attribute(s) 'vlan_transparent'")},
		"a name that is null": {object{"name": nil},
			bad("Invalid input for name. Reason: 'None' is not a valid string.")},
		"a name that is a number": {object{"name": 5},
			bad("Invalid input for name. Reason: '5' is not a valid string.")},
		"a name of 256 characters": {object{"name": long},
			bad("Invalid input for name. Reason: '" + long + "' exceeds maximum length of 255.")},
		"a long description": {object{"description": long},
			bad("Invalid input for description. Reason: '" + long + "' exceeds maximum length of 255.")},
		"no boolean": {object{"admin_state_up": "maybe"},
			invalid("'maybe' cannot be converted to boolean")},
		"a boolean that is null": {object{"admin_state_up": nil}, invalid("'None' cannot be converted to boolean")},
		"an MTU that is a word":  {object{"mtu": "abc"}, invalid("'abc' is not an integer")},
		"an MTU that is null":    {object{"mtu": nil}, invalid("'None' is not an integer")},
		"a negative MTU": {object{"mtu": -1},
			bad("Invalid input for mtu. Reason: '-1' should be non-negative.")},
		"an MTU above the segment": {object{"mtu": 1451}, invalid("Requested MTU is too big, maximum is 1450")},
		"two different projects": {object{"project_id": "a", "tenant_id": "b"},
			bad("'project_id' and 'tenant_id' do not match")},
		"another's project": {object{"project_id": "a"},
			bad("Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires " +
				"admin or advsvc privileges")},
		"to share, by a tenant": {object{"shared": true},
			denied("(rule:create_network and rule:create_network:shared)")},
		"to be external, by one": {object{"router:external": true},
			denied("(rule:create_network and rule:create_network:router:external)")},
		"to be default, by one": {object{"is_default": true},
			denied("(rule:create_network and rule:create_network:is_default)")},
		"a segment, by one": {object{"provider:segmentation_id": 5},
			denied("(rule:create_network and rule:create_network:provider:segmentation_id)")},
		"several of these": {object{"provider:network_type": "vxlan", "shared": true},
			denied("((rule:create_network and rule:create_network:shared) and " +
				"rule:create_network:provider:network_type)")},
		"a policy that is no UUID": {object{"qos_policy_id": "x"},
			bad("Invalid input for qos_policy_id. Reason: 'x' is not a valid UUID.")},
		"an empty label in a domain": {object{"dns_domain": "a..b"}, refusal{Status: 400, Type: "HTTPBadRequest"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				ask := object{"network": with(object{"name": unique()}, test.ask)}
				c.tenant.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
			})
		})
	}
}

func TestRefusedNetworkUpdates(t *testing.T) {
	for name, test := range map[string]struct {
		ask  object
		want refusal
	}{
		"an MTU above the segment": {object{"mtu": 1451},
			refusal{400, "InvalidInput", "Invalid input for operation: Requested MTU is too big, maximum is 1450."}},
		"tags": {object{"tags": []string{"a"}},
			refusal{400, "HTTPBadRequest", "Cannot update read-only attribute tags"}},
		"the id": {object{"id": "x"}, refusal{400, "HTTPBadRequest", "Cannot update read-only attribute id"}},
		"a status": {object{"status": "DOWN"},
			refusal{400, "HTTPBadRequest", "Cannot update read-only attribute status"}},
		"strangers": {object{"zz": 1}, refusal{400, "HTTPBadRequest", "Unrecognized attribute(s) 'zz'"}},
		"sharing, even when it changes nothing": {object{"shared": false}, refusal{403, "PolicyNotAuthorized",
			"(rule:update_network and rule:update_network:shared) is disallowed by policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				n := c.tenant.newNetwork(t, nil)
				c.tenant.do(t, "PUT", "/v2.0/networks/"+id(n), object{"network": test.ask}).refuses(t, test.want)
				if got := c.tenant.revisionOf(t, "network", n); got != revision(n) {
					t.Errorf("a refused change moved the revision from %d to %d", revision(n), got)
				}
			})
		})
	}
	onOne := func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for body, want := range map[string]string{
			``:                   "Unable to find 'network' in request body",
			`{}`:                 "Unable to find 'network' in request body",
			`x`:                  "Body contains invalid data",
			`{"networks": [{}]}`: "Bulk operation not supported",
		} {
			c.tenant.do(t, "PUT", "/v2.0/networks/"+id(n), body).refuses(t, refusal{400, "HTTPBadRequest", want})
		}
	}
	t.Run("bodies that are no changes", func(t *testing.T) { onEveryCloud(t, onOne) })
}

func TestOtherProjectsNetworkIsHidden(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, nil)
		path := "/v2.0/networks/" + id(n)
		hidden := refusal{404, "NetworkNotFound", "Network {network} could not be found."}
		name := object{"network": object{"name": "x"}}
		c.tenant.get(t, path).refuses(t, hidden, "{network}", id(n))
		c.tenant.do(t, "PUT", path, name).refuses(t, hidden, "{network}", id(n))
		c.tenant.do(t, "DELETE", path, nil).refuses(t, hidden, "{network}", id(n))
		c.tenant.do(t, "PUT", path+"/tags", object{"tags": []string{"a"}}).refuses(t,
			refusal{404, "TagResourceNotFound", "Resource networks {network} could not be found."}, "{network}", id(n))
		c.tenant.do(t, "POST", "/v2.0/subnets", object{"subnet": object{
			"network_id": id(n), "ip_version": 4, "cidr": "10.0.0.0/24",
		}}).refuses(t, hidden, "{network}", id(n))
		c.tenant.do(t, "POST", "/v2.0/ports", object{"port": object{"network_id": id(n)}}).
			refuses(t, hidden, "{network}", id(n))
		if list := c.tenant.get(t, "/v2.0/networks?id="+id(n)).list(t, "networks"); len(list) != 0 {
			t.Errorf("a list shows %v", list)
		}
	})
}

func TestSharedNetworkIsReadOnlyForOthers(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"shared": true})
		path := "/v2.0/networks/" + id(n)
		c.tenant.get(t, path).must(t, http.StatusOK)
		c.tenant.do(t, "PUT", path, object{"network": object{"name": "x"}}).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:update_network is disallowed by policy"})
		c.tenant.do(t, "DELETE", path, nil).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:delete_network is disallowed by policy"})
		c.tenant.newSubnet(t, n, nil)
		c.tenant.newPort(t, n, nil)
	})
}

func TestExternalNetworkIsReadOnlyForOthers(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"router:external": true})
		s := c.admin.newSubnet(t, n, nil)
		got := c.tenant.get(t, "/v2.0/networks/"+id(n)).must(t, http.StatusOK).part(t, "network")
		if diff := gocmp.Diff([]any{id(s)}, got["subnets"]); diff != "" {
			t.Errorf("subnets (-want +got):\n%s", diff)
		}
		c.tenant.get(t, "/v2.0/subnets/"+id(s)).refuses(t, refusal{Status: 404, Type: "SubnetNotFound"})
		c.tenant.do(t, "POST", "/v2.0/ports", object{"port": object{"network_id": id(n)}}).refuses(t,
			refusal{403, "HTTPForbidden", "Tenant " + c.tenant.project + " not allowed to create port on this network"})
	})
}

func TestDeleteNetworkDeletesSubnets(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).must(t, http.StatusNoContent)
		c.tenant.get(t, "/v2.0/subnets/"+id(s)).refuses(t, refusal{Status: 404, Type: "SubnetNotFound"})
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).refuses(t,
			refusal{404, "NetworkNotFound", "Network {network} could not be found."}, "{network}", id(n))
	})
}

func TestNetworkWithPortCannotBeDeleted(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, nil)
		inUse := refusal{409, "NetworkInUse",
			"Unable to complete operation on network {network}. There are one or more " +
				"ports still in use on the network, id for these ports is: {port}."}
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).refuses(t, inUse, "{network}", id(n), "{port}", id(p))
		// Being in use is said even to those who would be refused for their revision.
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil, "If-Match", "revision_number=99").refuses(t, inUse,
			"{network}", id(n), "{port}", id(p))
		subnetInUse := refusal{409, "SubnetInUse",
			"Unable to complete operation on subnet {subnet}: One or more ports " +
				"have an IP allocation from this subnet."}
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).refuses(t, subnetInUse, "{subnet}", id(s))
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil, "If-Match", "revision_number=99").refuses(t, subnetInUse,
			"{subnet}", id(s))
	})
}

func TestDHCPPortsAreDeletedWithNetwork(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, object{"device_owner": "network:dhcp"})
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).must(t, http.StatusNoContent)
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).must(t, http.StatusNoContent)
		c.tenant.get(t, "/v2.0/ports/"+id(p)).refuses(t, refusal{Status: 404, Type: "PortNotFound"})
	})
}

func TestAdminChoosesSegment(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		used := c.admin.newNetwork(t, nil)["provider:segmentation_id"]
		bad := func(message string) refusal { return refusal{400, "InvalidInput", message} }
		for _, test := range []struct {
			ask  object
			want refusal
		}{
			{object{"provider:network_type": "vxlan", "provider:segmentation_id": used},
				refusal{Status: 409, Type: "TunnelIdInUse"}},
			{object{"provider:segmentation_id": 7}, bad("Invalid input for operation: network_type required.")},
			{object{"provider:network_type": "zz"},
				bad("Invalid input for operation: network_type value 'zz' not supported.")},
			{object{"provider:network_type": "vxlan", "provider:physical_network": "x"},
				bad("Invalid input for operation: provider:physical_network specified for vxlan network.")},
		} {
			ask := object{"network": with(object{"name": unique()}, test.ask)}
			c.admin.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
		}
	})
}
