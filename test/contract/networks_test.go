package contract

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// members gives the names of an object's members, sorted.
func members(o object) []string { return slices.Sorted(maps.Keys(o)) }

var networkMembers = []string{
	"admin_state_up", "availability_zone_hints", "availability_zones", "created_at", "description", "dns_domain", "id",
	"ipv4_address_scope", "ipv6_address_scope", "l2_adjacency", "mtu", "name", "port_security_enabled", "project_id",
	"qos_policy_id", "revision_number", "router:external", "shared", "status", "subnets", "tags", "tenant_id",
	"updated_at",
}

var providerMembers = []string{"provider:network_type", "provider:physical_network", "provider:segmentation_id"}

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
			"an admin's view":               {c.admin.get(t, path).part(t, "network"), union(networkMembers, providerMembers)},
		} {
			expect.Equal(t, got.want, members(got.got), "%s", what)
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
		expect.Equal(t, want, made, "a new network")
	})
}

// TestNetworksThatAreAccepted holds what becomes of what is asked for. No attribute changes what another one becomes, so
// that one network shows several.
func TestNetworksThatAreAccepted(t *testing.T) {
	label, long := strings.Repeat("a", 63)+".", strings.Repeat("a.", 125)+"bc."
	for name, test := range map[string]struct{ ask, want object }{
		"an MTU below the largest, two zones, a domain in capitals, words for booleans": {
			object{"mtu": 1400, "availability_zone_hints": []string{"west", "east"}, "dns_domain": "Example.org.",
				"admin_state_up": "no", "description": strings.Repeat("é", 255)},
			object{"mtu": 1400.0, "availability_zone_hints": []any{"east", "west"}, "dns_domain": "example.org.",
				"admin_state_up": false, "description": strings.Repeat("é", 255)},
		},
		"an MTU of zero, one zone, a domain of one label, no port security": {
			object{"mtu": 0, "availability_zone_hints": []string{"west"}, "dns_domain": "org.", "port_security_enabled": false},
			object{"mtu": 1450.0, "availability_zone_hints": []any{"west"}, "dns_domain": "org.", "port_security_enabled": false},
		},
		"a very small MTU, no zones, a domain of digits, not to share": {
			object{"mtu": 67, "availability_zone_hints": []string{}, "dns_domain": "1.", "shared": false},
			object{"mtu": 67.0, "availability_zone_hints": []any{}, "dns_domain": "1.", "shared": false},
		},
		"no name, no domain, and down": {object{"name": "", "dns_domain": "", "admin_state_up": false},
			object{"name": "", "dns_domain": "", "admin_state_up": false}},
		"a label of 63 characters":   {object{"dns_domain": label}, object{"dns_domain": label}},
		"a domain of 253 characters": {object{"dns_domain": long}, object{"dns_domain": long}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				n := c.tenant.newNetwork(t, test.ask)
				wantFields(t, n, test.want)
				if hints := test.want["availability_zone_hints"]; hints != nil {
					listed := c.tenant.get(t, "/v2.0/networks?id="+id(n)).must(t, http.StatusOK).list(t, "networks")
					// No agent serves it, in any zone.
					wantFields(t, listed[0], object{"availability_zone_hints": hints, "availability_zones": []any{}})
				}
			})
		})
	}
}

// denied is the refusal by a rule of the policy.
func denied(rule string) refusal {
	return refusal{403, "PolicyNotAuthorized", rule + " is disallowed by policy"}
}

func TestRefusedNetworks(t *testing.T) {
	long := strings.Repeat("x", 256)
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	invalid := func(message string) refusal {
		return refusal{400, "InvalidInput", "Invalid input for operation: " + message + "."}
	}
	cases := map[string]asked{
		"tags":                    {object{"tags": []string{"a"}}, bad("Attribute 'tags' not allowed in POST")},
		"a status":                {object{"status": "DOWN"}, bad("Attribute 'status' not allowed in POST")},
		"subnets":                 {object{"subnets": []string{}}, bad("Attribute 'subnets' not allowed in POST")},
		"an id":                   {object{"id": "x"}, bad("Attribute 'id' not allowed in POST")},
		"an unknown attribute":    {object{"zz": 1}, bad("Unrecognized attribute(s) 'zz'")},
		"an unloaded extension":   {object{"vlan_transparent": true}, bad("Unrecognized attribute(s) 'vlan_transparent'")},
		"a name that is null":     {object{"name": nil}, bad("Invalid input for name. Reason: 'None' is not a valid string.")},
		"a name that is a number": {object{"name": 5}, bad("Invalid input for name. Reason: '5' is not a valid string.")},
		"a name of 256 characters": {object{"name": long},
			bad("Invalid input for name. Reason: '" + long + "' exceeds maximum length of 255.")},
		"a long description": {object{"description": long},
			bad("Invalid input for description. Reason: '" + long + "' exceeds maximum length of 255.")},
		"no boolean":               {object{"admin_state_up": "maybe"}, invalid("'maybe' cannot be converted to boolean")},
		"a boolean that is null":   {object{"admin_state_up": nil}, invalid("'None' cannot be converted to boolean")},
		"an MTU that is a word":    {object{"mtu": "abc"}, invalid("'abc' is not an integer")},
		"an MTU that is null":      {object{"mtu": nil}, invalid("'None' is not an integer")},
		"a negative MTU":           {object{"mtu": -1}, bad("Invalid input for mtu. Reason: '-1' should be non-negative.")},
		"an MTU above the segment": {object{"mtu": 1451}, invalid("Requested MTU is too big, maximum is 1450")},
		"two different projects": {object{"project_id": "a", "tenant_id": "b"},
			bad("'project_id' and 'tenant_id' do not match")},
		"to share, by a tenant": {object{"shared": true}, denied("(rule:create_network and rule:create_network:shared)")},
		"to be external, by one": {object{"router:external": true},
			denied("(rule:create_network and rule:create_network:router:external)")},
		"to be default, by one": {object{"is_default": true}, denied("(rule:create_network and rule:create_network:is_default)")},
		"a segment, by one": {object{"provider:segmentation_id": 5},
			denied("(rule:create_network and rule:create_network:provider:segmentation_id)")},
		"several of these": {object{"provider:network_type": "vxlan", "shared": true},
			denied("((rule:create_network and rule:create_network:shared) and " + "rule:create_network:provider:network_type)")},
		"a policy that is no UUID": {object{"qos_policy_id": "x"},
			bad("Invalid input for qos_policy_id. Reason: 'x' is not a valid UUID.")},
		"a domain without a full stop at its end": {object{"dns_domain": "example.org"},
			bad("Invalid input for dns_domain. Reason: 'example.org' is not a FQDN.")},
		"a domain of 254 characters": {object{"dns_domain": strings.Repeat("a.", 127)},
			bad("Invalid input for dns_domain. Reason: '" + strings.Repeat("a.", 127) + "' contains 254 characters. Adding a " +
				"sub-domain will cause it to exceed the maximum length of a FQDN of '255'.")},
	}
	const malformed = "' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen"
	label := strings.Repeat("a", 64)
	for domain, reason := range map[string]string{
		strings.Repeat("a.", 128) + "b.": "'" + strings.Repeat("a.", 128) + "b' exceeds the 255 character FQDN limit",
		"-a.org.":                        "Name '-a' must not start or end with a hyphen",
		"10.20.":                         "TLD '20' must not be all numeric",
		"a..org.":                        "Encountered an empty component",
		"a_b.org.":                       "Name 'a_b" + malformed,
		label + ".":                      "Name '" + label + malformed,
	} {
		cases["the domain "+domain] = asked{object{"dns_domain": domain}, bad("Invalid input for dns_domain. Reason: '" +
			domain + "' not a valid PQDN or FQDN. Reason: " + reason + ".")}
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		c.tenant.refusesEach(t, "networks", object{"name": unique()}, cases)
		words := "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires " +
			"admin or advsvc privileges"
		if c.since(neutrontest.RefusalsSayProject) {
			words = "Specifying 'project_id' other than the authenticated project in request is not allowed for the current user."
		}
		c.tenant.create(t, "networks", object{"project_id": "a"}).refuses(t, bad(words))
	})
}

func TestRefusedNetworkUpdates(t *testing.T) {
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		for _, test := range []struct {
			ask  any
			want refusal
		}{
			{object{"mtu": 1451},
				refusal{400, "InvalidInput", "Invalid input for operation: Requested MTU is too big, maximum is 1450."}},
			{object{"tags": []string{"a"}}, bad("Cannot update read-only attribute tags")},
			{object{"id": "x"}, bad("Cannot update read-only attribute id")},
			{object{"status": "DOWN"}, bad("Cannot update read-only attribute status")},
			{object{"zz": 1}, bad("Unrecognized attribute(s) 'zz'")},
			{object{"availability_zone_hints": []string{"east"}}, bad("Cannot update read-only attribute availability_zone_hints")},
			// Even when it changes nothing.
			{object{"shared": false}, refusal{403, "PolicyNotAuthorized",
				"(rule:update_network and rule:update_network:shared) is disallowed by policy"}},
			{``, bad("Unable to find 'network' in request body")},
			{`{}`, bad("Unable to find 'network' in request body")},
			{`x`, bad("Body contains invalid data")},
			{`{"networks": [{}]}`, bad("Bulk operation not supported")},
		} {
			body := test.ask
			if change, ok := body.(object); ok {
				body = object{"network": change}
			}
			t.Run(fmt.Sprint(test.ask), func(t *testing.T) {
				c.tenant.do(t, "PUT", "/v2.0/networks/"+id(n), body).refuses(t, test.want)
			})
		}
		if got := c.tenant.revisionOf(t, "network", n); got != revision(n) {
			t.Errorf("refused changes moved the revision from %d to %d", revision(n), got)
		}
	})
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
		for verb, rule := range map[string]string{"GET": "get", "PUT": "update", "DELETE": "delete"} {
			want := refusal{404, "TagResourceNotFound", "Resource networks {network} could not be found."}
			if c.since(neutrontest.TagsOfOthersAre403) {
				want = denied("rule:" + rule + "_network:tags")
			}
			c.tenant.do(t, verb, path+"/tags", either[any](verb == "PUT", object{"tags": []string{"a"}}, nil)).
				refuses(t, want, "{network}", id(n))
		}
		c.tenant.do(t, "POST", "/v2.0/subnets", object{"subnet": object{
			"network_id": id(n), "ip_version": 4, "cidr": "10.0.0.0/24",
		}}).refuses(t, either(c.since(neutrontest.HiddenNetworksRefuseSubnets), denied("rule:create_subnet"), hidden),
			"{network}", id(n))
		c.tenant.create(t, "ports", object{"network_id": id(n)}).refuses(t, hidden, "{network}", id(n))
		if list := c.tenant.get(t, "/v2.0/networks?id="+id(n)).list(t, "networks"); len(list) != 0 {
			t.Errorf("a list shows %v", list)
		}
	})
}

func TestSharedNetworkIsReadOnlyForOthers(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"shared": true})
		path := "/v2.0/networks/" + id(n)
		c.tenant.get(t, path).must(t, http.StatusOK)
		c.tenant.do(t, "PUT", path, object{"network": object{"name": "x"}}).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:update_network is disallowed by policy"})
		c.tenant.do(t, "DELETE", path, nil).refuses(t,
			refusal{403, "PolicyNotAuthorized", "rule:delete_network is disallowed by policy"})
		for _, verb := range []string{"PUT", "DELETE"} {
			tags := c.tenant.do(t, verb, path+"/tags", either[any](verb == "PUT", object{"tags": []string{"a"}}, nil))
			if c.since(neutrontest.TagsOfOthersAre403) {
				tags.refuses(t, denied("rule:"+either(verb == "PUT", "update", "delete")+"_network:tags"))
			} else {
				tags.must(t, either(verb == "PUT", http.StatusOK, http.StatusNoContent))
			}
		}
		c.tenant.get(t, path+"/tags").must(t, http.StatusOK)
		if subnet := c.tenant.tryNewSubnet(t, n, object{"cidr": "10.0.0.0/24"}); c.since(
			neutrontest.SubnetsNeedTheirNetworksOwner) {
			subnet.refuses(t, denied("rule:create_subnet"))
		} else {
			subnet.must(t, http.StatusCreated)
		}
		c.tenant.newPort(t, n, nil)
	})
}

func TestExternalNetworkIsReadOnlyForOthers(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, object{"router:external": true})
		s := c.admin.newSubnet(t, n, nil)
		got := c.tenant.get(t, "/v2.0/networks/"+id(n)).must(t, http.StatusOK).part(t, "network")
		expect.Equal(t, []any{id(s)}, got["subnets"], "subnets")
		listed := c.tenant.idsOf(t, "/v2.0/subnets?network_id="+id(n))
		if one := c.tenant.get(t, "/v2.0/subnets/"+id(s)); c.since(neutrontest.ExternalSubnetsAreSeen) {
			wantFields(t, one.must(t, http.StatusOK).part(t, "subnet"), object{"router:external": true})
			expect.Equal(t, []string{id(s)}, listed, "subnets that are listed")
		} else {
			one.refuses(t, refusal{Status: 404, Type: "SubnetNotFound"})
			expect.Equal(t, []string{}, listed, "subnets that are listed")
		}
		for _, what := range []string{"port", "subnet"} {
			want := refusal{403, "HTTPForbidden", "Tenant " + c.tenant.project + " not allowed to create " + what +
				" on this network"}
			if c.since(neutrontest.ExternalPortsArePolicy) {
				want = denied("rule:create_" + what)
			}
			ask := object{"network_id": id(n)}
			if what == "subnet" {
				ask = with(ask, object{"ip_version": 4, "cidr": "10.9.0.0/24"})
			}
			c.tenant.create(t, what+"s", ask).refuses(t, want)
		}
	})
}

func TestDeleteNetworkDeletesSubnetsAndSharing(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s, r := c.tenant.newSubnet(t, n, nil), c.tenant.share(t, n, someProject())
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).must(t, http.StatusNoContent)
		c.tenant.get(t, "/v2.0/subnets/"+id(s)).refuses(t, refusal{Status: 404, Type: "SubnetNotFound"})
		c.tenant.get(t, rbacPath+"/"+id(r)).refuses(t, refusal{Status: 404, Type: "RbacPolicyNotFound"})
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).refuses(t,
			refusal{404, "NetworkNotFound", "Network {network} could not be found."}, "{network}", id(n))
	})
}

func TestDHCPPortsAreDeletedWithNetwork(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		p := c.tenant.newPort(t, n, object{"device_owner": "network:dhcp"})
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).must(t, http.StatusNoContent)
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).must(t, http.StatusNoContent)
		c.tenant.get(t, "/v2.0/ports/"+id(p)).refuses(t, refusal{Status: 404, Type: "PortNotFound"})
	})
}
