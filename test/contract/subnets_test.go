package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func pool(start, end string) object { return object{"start": start, "end": end} }

func TestSubnetAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, object{"name": "a", "cidr": "10.0.0.0/24"})
		admins := c.admin.get(t, "/v2.0/subnets/"+id(s)).must(t, http.StatusOK).part(t, "subnet")
		expect.Equal(t, union(members(s), []string{"segment_id"}), members(admins), "what an admin sees beyond a tenant")
		for _, varying := range []string{"id", "created_at", "updated_at"} {
			delete(s, varying)
		}
		want := object{
			"allocation_pools": []any{pool("10.0.0.2", "10.0.0.254")}, "cidr": "10.0.0.0/24", "description": "",
			"dns_nameservers": []any{}, "dns_publish_fixed_ip": false,
			"enable_dhcp": true, "gateway_ip": "10.0.0.1", "host_routes": []any{},
			"ip_version": float64(4), "ipv6_address_mode": nil, "ipv6_ra_mode": nil, "name": "a", "network_id": id(n),
			"project_id": c.tenant.project, "revision_number": float64(0), "service_types": []any{},
			"subnetpool_id": nil, "tags": []any{}, "tenant_id": c.tenant.project,
		}
		if c.since(neutrontest.ExternalSubnetsAreSeen) {
			want["router:external"] = false
		}
		expect.Equal(t, want, s, "a new subnet")
		got := c.tenant.get(t, "/v2.0/networks/"+id(n)).part(t, "network")["subnets"]
		expect.Equal(t, []any{admins["id"]}, got, "the network's subnets")
	})
}

// inBlock puts addresses of 10.0.0.0/24 and fd00::/64 into a block that has the number, so that one network has room for
// all subnets of a test.
func inBlock(t *testing.T, o object, block int) (moved object) {
	t.Helper()
	text, err := json.Marshal(o)
	move := strings.NewReplacer("10.0.0.", fmt.Sprintf("10.0.%d.", block), "fd00:", fmt.Sprintf("fd00:%x:", block),
		"FD00:", fmt.Sprintf("FD00:%X:", block))
	expect.NoError(t, errors.Join(err, json.Unmarshal([]byte(move.Replace(string(text))), &moved)))
	return moved
}

// validSubnet is what is asked for, and a part of what comes of it.
type validSubnet struct{ ask, want object }

// TestValidSubnets holds what becomes of what is asked for. The IP version is 4 where it is not given.
func TestValidSubnets(t *testing.T) {
	pools := func(bounds ...string) []any {
		out := []any{}
		for i := 0; i < len(bounds); i += 2 {
			out = append(out, pool(bounds[i], bounds[i+1]))
		}
		return out
	}
	noDHCP := object{"enable_dhcp": false}
	cases := map[string]validSubnet{
		"host bits are cut off":     {object{"cidr": "10.0.0.5/24"}, object{"cidr": "10.0.0.0/24"}},
		"a netmask will do":         {object{"cidr": "10.0.0.0/255.255.255.0"}, object{"cidr": "10.0.0.0/24"}},
		"the version may be a word": {object{"cidr": "10.0.0.0/24", "ip_version": "4"}, object{"ip_version": float64(4)}},
		"a gateway in the middle parts the pool": {object{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.100"},
			object{"allocation_pools": pools("10.0.0.1", "10.0.0.99", "10.0.0.101", "10.0.0.254")}},
		"the last address can be the gateway": {object{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.254"},
			object{"allocation_pools": pools("10.0.0.1", "10.0.0.253")}},
		"a gateway may be elsewhere": {object{"cidr": "10.0.0.0/24", "gateway_ip": "10.9.9.9"},
			object{"gateway_ip": "10.9.9.9", "allocation_pools": pools("10.0.0.1", "10.0.0.254")}},
		"there need be no gateway": {object{"cidr": "10.0.0.0/24", "gateway_ip": nil},
			object{"gateway_ip": nil, "allocation_pools": pools("10.0.0.1", "10.0.0.254")}},
		"no pools are the default ones": {object{"cidr": "10.0.0.0/24", "allocation_pools": []object{}},
			object{"allocation_pools": pools("10.0.0.2", "10.0.0.254")}},
		"pools are put in order": {object{"cidr": "10.0.0.0/24", "allocation_pools": []object{
			pool("10.0.0.30", "10.0.0.40"), pool("10.0.0.10", "10.0.0.20")}},
			object{"allocation_pools": pools("10.0.0.10", "10.0.0.20", "10.0.0.30", "10.0.0.40")}},
		"pools that touch stay apart": {object{"cidr": "10.0.0.0/24", "allocation_pools": []object{
			pool("10.0.0.10", "10.0.0.20"), pool("10.0.0.21", "10.0.0.30")}},
			object{"allocation_pools": pools("10.0.0.10", "10.0.0.20", "10.0.0.21", "10.0.0.30")}},
		"a pool of one address": {object{"cidr": "10.0.0.0/30"},
			object{"gateway_ip": "10.0.0.1", "allocation_pools": pools("10.0.0.2", "10.0.0.2")}},
		"a /30 without a gateway": {object{"cidr": "10.0.0.0/30", "gateway_ip": nil},
			object{"allocation_pools": pools("10.0.0.1", "10.0.0.2")}},
		"a /31 without DHCP and gateway": {with(noDHCP, object{"cidr": "10.0.0.0/31", "gateway_ip": nil}),
			object{"allocation_pools": pools("10.0.0.0", "10.0.0.1")}},
		"a /32 without DHCP": {with(noDHCP, object{"cidr": "10.0.0.0/32"}),
			object{"gateway_ip": "10.0.0.1", "allocation_pools": pools("10.0.0.0", "10.0.0.0")}},
		"multicast without DHCP": {with(noDHCP, object{"cidr": "224.0.0.0/24"}), object{"gateway_ip": "224.0.0.1"}},
		"loopback without DHCP":  {with(noDHCP, object{"cidr": "127.0.0.0/24"}), object{"gateway_ip": "127.0.0.1"}},
		"zeros without DHCP":     {with(noDHCP, object{"cidr": "0.0.0.0/8"}), object{"gateway_ip": "0.0.0.1"}},
		"DNS servers keep their order": {object{"cidr": "10.0.0.0/24", "dns_nameservers": []string{"2.2.2.2", "1.1.1.1"}},
			object{"dns_nameservers": []any{"2.2.2.2", "1.1.1.1"}}},
		"lists may be null": {object{"cidr": "10.0.0.0/24", "dns_nameservers": nil, "host_routes": nil},
			object{"dns_nameservers": []any{}, "host_routes": []any{}}},
		"the gateway of IPv6 is the network's own address": {object{"cidr": "fd00::/64", "ip_version": 6},
			object{"gateway_ip": "fd00::", "allocation_pools": pools("fd00::1", "fd00::ffff:ffff:ffff:ffff")}},
		"IPv6 is written short and small": {
			object{"cidr": "FD00:0::5/64", "ip_version": 6, "gateway_ip": "FD00::0:1"},
			object{"cidr": "fd00::/64", "gateway_ip": "fd00::1", "allocation_pools": pools("fd00::2", "fd00::ffff:ffff:ffff:ffff")}},
		"pools of IPv6 are written short": {object{"cidr": "fd00::/64", "ip_version": 6,
			"allocation_pools": []object{pool("FD00::2", "FD00::0005")}},
			object{"allocation_pools": pools("fd00::2", "fd00::5")}},
		"a /126 has three addresses": {object{"cidr": "fd00::/126", "ip_version": 6},
			object{"allocation_pools": pools("fd00::1", "fd00::3")}},
		"a /127 without DHCP": {with(noDHCP, object{"cidr": "fd00::/127", "ip_version": 6}),
			object{"gateway_ip": "fd00::", "allocation_pools": pools("fd00::1", "fd00::1")}},
		"a /128 without DHCP": {with(noDHCP, object{"cidr": "fd00::/128", "ip_version": 6}),
			object{"gateway_ip": "fd00::", "allocation_pools": pools("fd00::", "fd00::")}},
		"IPv4 inside IPv6 is IPv6": {object{"cidr": "::ffff:10.0.0.0/120", "ip_version": 6},
			object{"cidr": "::ffff:10.0.0.0/120", "gateway_ip": "::ffff:10.0.0.0"}},
		"SLAAC": {object{"cidr": "fd00::/64", "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"},
			object{"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}},
		"one mode alone": {object{"cidr": "fd00::/64", "ip_version": 6, "ipv6_ra_mode": "slaac"},
			object{"ipv6_ra_mode": "slaac", "ipv6_address_mode": nil}},
		"stateful DHCP takes any length": {object{"cidr": "fd00::/80", "ip_version": 6,
			"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}, object{"cidr": "fd00::/80"}},
		"service types": {object{"cidr": "10.0.0.0/24", "service_types": []string{"compute:a"}},
			object{"service_types": []any{"compute:a"}, "revision_number": float64(1)}},
		"service types and a publication": {object{"cidr": "10.0.0.0/24", "service_types": []string{"network:a"},
			"dns_publish_fixed_ip": true}, object{"revision_number": float64(1)}},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		route := func(first string) any { return object{"destination": first + ".0.0.0/8", "nexthop": "10.0.0.9"} }
		cases := maps.Clone(cases)
		cases["host routes"] = validSubnet{
			object{"cidr": "10.0.0.0/24", "host_routes": []any{route("20"), route("3"), route("1")}},
			object{"host_routes": either(c.since(neutrontest.HostRoutesAreSorted),
				[]any{route("1"), route("20"), route("3")}, []any{route("20"), route("3"), route("1")})},
		}
		if !c.since(neutrontest.ShortCIDRsAreRefused) {
			cases["bytes may be missing"] = validSubnet{object{"cidr": "20/8"},
				object{"cidr": "20.0.0.0/8", "gateway_ip": "20.0.0.1"}}
		}
		if c.since(neutrontest.PoolsAreConverted) {
			cases["null pools are the default ones"] = validSubnet{object{"cidr": "10.0.0.0/24", "allocation_pools": nil},
				object{"allocation_pools": pools("10.0.0.2", "10.0.0.254")}}
		}
		if c.since(neutrontest.NullModesAreNone) {
			cases["modes may be null"] = validSubnet{object{"cidr": "fd00::/64", "ip_version": 6, "ipv6_ra_mode": nil,
				"ipv6_address_mode": nil}, object{"ipv6_ra_mode": nil, "ipv6_address_mode": nil}}
		}
		n := c.tenant.newNetwork(t, nil)
		made, block := map[any]object{}, 0
		for name, test := range cases {
			block++
			s := c.tenant.newSubnet(t, n, inBlock(t, test.ask, block))
			made[id(s)] = s
			t.Run(name, func(t *testing.T) { wantFields(t, s, inBlock(t, test.want, block)) })
		}
		stored := map[any]object{}
		for _, s := range c.tenant.get(t, "/v2.0/subnets?network_id="+id(n)).must(t, http.StatusOK).list(t, "subnets") {
			stored[id(s)] = s
		}
		if diff := gocmp.Diff(made, stored); diff != "" {
			t.Errorf("what was answered and what is there (-answered +there):\n%s", diff)
		}
	})
}

func TestRefusedSubnets(t *testing.T) {
	bad := func(message string) refusal { return refusal{400, "HTTPBadRequest", message} }
	wrong := func(attribute, reason string) refusal {
		return bad("Invalid input for " + attribute + ". Reason: " + reason + ".")
	}
	invalid := func(message string) refusal {
		return refusal{400, "InvalidInput", "Invalid input for operation: " + message + "."}
	}
	v4 := func(more object) object { return with(object{"cidr": "10.0.0.0/24"}, more) }
	v6 := func(more object) object { return with(object{"cidr": "fd00::/64", "ip_version": 6}, more) }
	list := func(n int, item func(int) any) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = item(i)
		}
		return out
	}
	route := func(destination, nexthop string) []object {
		return []object{{"destination": destination, "nexthop": nexthop}}
	}
	const nobody = "11111111-1111-1111-1111-111111111111"
	const dhcpLength = "Subnet has a prefix length that is incompatible with DHCP service enabled"
	cases := map[string]asked{
		"no CIDR": {object{"cidr": "DROP"}, refusal{400, "BadRequest",
			"Bad subnets request: a subnetpool must be specified in the absence of a cidr."}},
		"no IP version": {v4(object{"ip_version": "DROP"}),
			bad("Failed to parse request. Required attribute 'ip_version' not specified")},
		"no network": {v4(object{"network_id": "DROP"}),
			bad("Failed to parse request. Required attribute 'network_id' not specified")},
		"a network that is no UUID": {v4(object{"network_id": "x"}), wrong("network_id", "'x' is not a valid UUID")},
		"a network that is not there": {v4(object{"network_id": nobody}),
			refusal{404, "NetworkNotFound", "Network " + nobody + " could not be found."}},
		"a CIDR that is null": {object{"cidr": nil}, refusal{500, "HTTPInternalServerError",
			"Request Failed: internal server error while processing your request."}},
		"a CIDR that is a word":      {object{"cidr": "bad"}, invalid("bad is not in a CIDR format")},
		"a CIDR that is empty":       {object{"cidr": ""}, invalid(" is not in a CIDR format")},
		"a prefix of 33":             {object{"cidr": "10.0.0.0/33"}, invalid("10.0.0.0/33 is not in a CIDR format")},
		"a single address with DHCP": {object{"cidr": "10.0.0.0"}, invalid(dhcpLength)},
		"a /31 with DHCP":            {object{"cidr": "10.0.0.0/31"}, invalid(dhcpLength)},
		"a /127 with DHCP":           {object{"cidr": "fd00::/127", "ip_version": 6}, invalid(dhcpLength)},
		"a /0":                       {object{"cidr": "0.0.0.0/0", "enable_dhcp": false}, invalid("0 is not allowed as CIDR prefix length")},
		"zeros with DHCP": {object{"cidr": "0.0.0.0/8"},
			invalid("First IP '0.0.0.0' of network is not supported if enable_dhcp is True.")},
		"multicast with DHCP": {object{"cidr": "224.0.0.0/24"},
			invalid("Multicast IP subnet is not supported if enable_dhcp is True")},
		"loopback with DHCP": {object{"cidr": "127.0.0.0/24"},
			invalid("Loopback IP subnet is not supported if enable_dhcp is True")},
		"IPv4 for version 6": {v4(object{"ip_version": 6}),
			invalid("cidr '10.0.0.0/24' does not match the ip_version '6'")},
		"version 5":                        {v4(object{"ip_version": 5}), wrong("ip_version", "5 is not in valid_values")},
		"a version that is a word":         {v4(object{"ip_version": "x"}), invalid("'x' is not an integer")},
		"the network's address as gateway": {v4(object{"gateway_ip": "10.0.0.0"}), invalid("Gateway is not valid on subnet")},
		"the broadcast as gateway":         {v4(object{"gateway_ip": "10.0.0.255"}), invalid("Gateway is not valid on subnet")},
		"an IPv6 gateway": {v4(object{"gateway_ip": "fd00::1"}),
			invalid("gateway_ip 'fd00::1' does not match the ip_version '4'")},
		"a gateway that is a word":   {v4(object{"gateway_ip": "bad"}), wrong("gateway_ip", "'bad' is not a valid IP address")},
		"a gateway that is empty":    {v4(object{"gateway_ip": ""}), wrong("gateway_ip", "'' is not a valid IP address")},
		"a gateway that is a number": {v4(object{"gateway_ip": 5}), wrong("gateway_ip", "'5' is not a valid IP address")},
		"a gateway cut short":        {v4(object{"gateway_ip": "10.1"}), wrong("gateway_ip", "'10.1' is not a valid IP address")},
		"a gateway with a leading zero": {v4(object{"gateway_ip": "10.0.0.01"}),
			wrong("gateway_ip", "'10.0.0.01' is not an accepted IP address, '10.0.0.1' is recommended")},
		"a pool without an end": {v4(object{"allocation_pools": []object{{"start": "10.0.0.5"}}}),
			refusal{Status: 400, Type: "HTTPBadRequest"}},
		"a pool with more": {v4(object{"allocation_pools": []object{{"start": "10.0.0.5",
			"end": "10.0.0.6", "x": 1}}}), refusal{Status: 400, Type: "HTTPBadRequest"}},
		"a pool of words": {v4(object{"allocation_pools": []object{pool("10.0.0.5", "x")}}),
			wrong("allocation_pools", "'x' is not a valid IP address")},
		// The message of these two repeats the pool with its members in the order of the request.
		"a reversed pool": {v4(object{"allocation_pools": []object{pool("10.0.0.10", "10.0.0.5")}}),
			refusal{Status: 400, Type: "InvalidAllocationPool"}},
		"a pool of two versions": {v4(object{"allocation_pools": []object{pool("10.0.0.2", "fd00::2")}}),
			refusal{Status: 400, Type: "InvalidAllocationPool"}},
		"a pool of the other version": {v4(object{"allocation_pools": []object{pool("fd00::1", "fd00::2")}}),
			refusal{400, "InvalidAllocationPool", "The allocation pool fd00::1-fd00::2 is not valid."}},
		"a pool with the gateway": {v4(object{"allocation_pools": []object{pool("10.0.0.1", "10.0.0.5")}}),
			refusal{409, "GatewayConflictWithAllocationPools",
				"Gateway ip 10.0.0.1 conflicts with allocation pool 10.0.0.1-10.0.0.5."}},
		"a pool with the broadcast": {v4(object{"allocation_pools": []object{pool("10.0.0.250",
			"10.0.0.255")}}), refusal{400, "OutOfBoundsAllocationPool", "The allocation pool 10.0.0.250-10.0.0.255 " +
			"spans beyond the subnet cidr 10.0.0.0/24."}},
		"a pool outside": {v4(object{"allocation_pools": []object{pool("10.0.1.1", "10.0.1.5")}}),
			refusal{400, "OutOfBoundsAllocationPool",
				"The allocation pool 10.0.1.1-10.0.1.5 spans beyond the subnet cidr 10.0.0.0/24."}},
		"a pool with IPv6's own address": {v6(object{"gateway_ip": nil,
			"allocation_pools": []object{pool("fd00::",
				"fd00::5")}}), refusal{400, "OutOfBoundsAllocationPool", "The allocation pool fd00::-fd00::5 spans " +
			"beyond the subnet cidr fd00::/64."}},
		"pools that overlap": {v4(object{"allocation_pools": []object{pool("10.0.0.2", "10.0.0.20"),
			pool("10.0.0.20", "10.0.0.30")}}), refusal{409, "OverlappingAllocationPools", "Found overlapping " +
			"allocation pools: 10.0.0.2-10.0.0.20 10.0.0.20-10.0.0.30 for subnet 10.0.0.0/24."}},
		"six DNS servers": {v4(object{"dns_nameservers": list(6,
			func(i int) any {
				return fmt.Sprintf("1.1.1.%d", i)
			})}), refusal{400, "DNSNameServersExhausted", "Unable to complete operation for new subnet. The " +
			"number of DNS nameservers exceeds the limit 5."}},
		"a DNS server twice": {v4(object{"dns_nameservers": []string{"1.1.1.1", "1.1.1.1"}}),
			wrong("dns_nameservers", "Duplicate nameserver '1.1.1.1'")},
		"a DNS server by name": {v4(object{"dns_nameservers": []string{"x"}}),
			wrong("dns_nameservers", "'x' is not a valid nameserver. 'x' is not a valid IP address")},
		"a DNS server of IPv6": {v4(object{"dns_nameservers": []string{"fd00::1"}}),
			invalid("dns_nameserver 'fd00::1' does not match the ip_version '4'")},
		"21 host routes": {v4(object{"host_routes": list(21,
			func(i int) any {
				return route(fmt.Sprintf("1.0.%d.0/24", i), "10.0.0.2")[0]
			})}), refusal{400, "HostRoutesExhausted", "Unable to complete operation for new " +
			"subnet. The number of host routes exceeds the limit 20."}},
		"a route to a word": {v4(object{"host_routes": route("x", "10.0.0.2")}), wrong("host_routes", "'x' is not a valid CIDR")},
		"a route to loopback": {v4(object{"host_routes": route("127.0.0.0/8", "10.0.0.2")}),
			wrong("host_routes", "'127.0.0.0/8' is not a routable CIDR")},
		"a route by IPv6": {v4(object{"host_routes": route("1.0.0.0/24", "fd00::1")}),
			invalid("nexthop 'fd00::1' does not match the ip_version '4'")},
		"a route to IPv6": {v4(object{"host_routes": route("fd00::/64", "10.0.0.2")}),
			invalid("destination 'fd00::/64' does not match the ip_version '4'")},
		"a route twice": {v4(object{"host_routes": append(route("1.0.0.0/8", "10.0.0.9"),
			route("1.0.0.0/8", "10.0.0.9")...)}), refusal{Status: 400, Type: "HTTPBadRequest"}},
		"an IPv6 mode in IPv4": {v4(object{"ipv6_ra_mode": "slaac"}),
			invalid("ipv6_ra_mode is not valid when ip_version is 4")},
		"a mode that does not exist": {v6(object{"ipv6_ra_mode": "x"}), wrong("ipv6_ra_mode", "x is not in valid_values")},
		"two different modes": {v6(object{"ipv6_ra_mode": "slaac",
			"ipv6_address_mode": "dhcpv6-stateful"}), invalid("ipv6_ra_mode set to 'slaac' with ipv6_address_mode " +
			"set to 'dhcpv6-stateful' is not valid. If both attributes are set, they must be the same value")},
		"SLAAC in a /80": {v6(object{"cidr": "fd00::/80", "ipv6_address_mode": "slaac"}),
			invalid("Invalid CIDR fd00::/80 for IPv6 address mode. OpenStack uses the EUI-64 address format, which " +
				"requires the prefix to be /64")},
		"modes without DHCP": {v6(object{"ipv6_ra_mode": "slaac", "enable_dhcp": false}),
			invalid("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")},
		"tags":                 {v4(object{"tags": []string{}}), bad("Attribute 'tags' not allowed in POST")},
		"a revision":           {v4(object{"revision_number": 1}), bad("Attribute 'revision_number' not allowed in POST")},
		"an unknown attribute": {v4(object{"zz": 1}), bad("Unrecognized attribute(s) 'zz'")},
		"a long description": {v4(object{"description": strings.Repeat("x", 256)}),
			wrong("description", "'"+strings.Repeat("x", 256)+"' exceeds maximum length of 255")},
		"a service type of no owner": {v4(object{"service_types": []string{"x"}}),
			refusal{400, "InvalidSubnetServiceType", "Subnet service type x does not correspond to a valid device owner."}},
		"a segment that is not there": {v4(object{"segment_id": nobody}),
			refusal{404, "SegmentNotFound", "Segment " + nobody + " could not be found."}},
		"a pool that is not there": {v4(object{"subnetpool_id": nobody}),
			refusal{404, "SubnetPoolNotFound", "Subnet pool " + nobody + " could not be found."}},
		"a CIDR and a length": {v4(object{"prefixlen": 24}),
			refusal{400, "BadRequest", "Bad subnets request: cidr and prefixlen must not be supplied together."}},
		"the default pool": {v4(object{"use_default_subnetpool": true}),
			refusal{400, "BadRequest", "Bad subnets request: No default subnetpool found for IPv4."}},
		"what is there already": {object{"cidr": "192.168.0.0/16"},
			invalid("Requested subnet with cidr: 192.168.0.0/16 for network: {network} overlaps with another subnet")},
		"a part of what is there": {object{"cidr": "192.168.5.0/24"},
			invalid("Requested subnet with cidr: 192.168.5.0/24 for network: {network} overlaps with another subnet")},
		"more than what is there": {object{"cidr": "192.0.0.0/8"},
			invalid("Requested subnet with cidr: 192.0.0.0/8 for network: {network} overlaps with another subnet")},
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		cases := maps.Clone(cases)
		maps.Copy(cases, map[string]asked{
			"a /31 with the default gateway": {object{"cidr": "10.0.0.0/31", "enable_dhcp": false},
				refusal{409, "IpamValueInvalid", "Gateway IP 10.0.0.1 cannot be " + either(
					c.since(neutrontest.GatewaysHaveOtherWords), "the network or broadcast IP address", "allocated in CIDR") +
					" 10.0.0.0/31"}},
			"a /0 of IPv6": {object{"cidr": "::/0", "ip_version": 6, "enable_dhcp": false}, invalid(either(
				c.since(neutrontest.EmptyIPv6IsRefused), "IPv6 subnet '::' is not supported",
				"0 is not allowed as CIDR prefix length"))},
			"a route with host bits": {v4(object{"host_routes": route("1.0.0.5/24", "10.0.0.2")}),
				wrong("host_routes", either(c.since(neutrontest.RoutesHaveOtherWords), "'1.0.0.5/24' is not a valid CIDR",
					"'1.0.0.5/24' is not a recognized CIDR, '1.0.0.0/24' is recommended"))},
			"a route to an address": {v4(object{"host_routes": route("1.1.1.1", "10.0.0.2")}),
				wrong("host_routes", either(c.since(neutrontest.RoutesHaveOtherWords), "'1.1.1.1' is not a valid CIDR",
					"'1.1.1.1' is not a recognized CIDR, '1.1.1.1/32' is recommended"))},
			"pools that are a word": {v4(object{"allocation_pools": "x"}), either(
				c.since(neutrontest.PoolsAreConverted), invalid("Invalid data format for allocation pools"),
				wrong("allocation_pools", "Invalid data format for IP pool: 'x'"))},
			"pools that are words": {v4(object{"allocation_pools": []string{"x"}}), either(
				c.since(neutrontest.PoolsAreConverted), invalid("Invalid data format for allocation pools"),
				wrong("allocation_pools", "Invalid input. 'x' must be a dictionary with keys: ['start', 'end']"))},
		})
		if c.since(neutrontest.ShortCIDRsAreRefused) {
			cases["a CIDR cut short"] = asked{object{"cidr": "20/8"}, invalid("20/8 is not in a CIDR format")}
		}
		if c.since(neutrontest.EmptyIPv6IsRefused) {
			cases["an empty network of IPv6"] = asked{object{"cidr": "::/64", "ip_version": 6},
				invalid("IPv6 subnet '::' is not supported")}
		}
		if !c.since(neutrontest.PoolsAreConverted) {
			cases["pools that are null"] = asked{v4(object{"allocation_pools": nil}),
				wrong("allocation_pools", "Invalid data format for IP pool: 'None'")}
		}
		if !c.since(neutrontest.NullModesAreNone) {
			cases["a mode that is null"] = asked{v6(object{"ipv6_ra_mode": nil}),
				wrong("ipv6_ra_mode", "None is not in valid_values")}
		}
		n := c.tenant.newNetwork(t, nil)
		c.tenant.newSubnet(t, n, object{"cidr": "192.168.0.0/16"})
		c.tenant.refusesEach(t, "subnets", object{"network_id": id(n), "ip_version": 4}, cases, "{network}", id(n))
	})
}

func TestSubnetUpdates(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		put := func(ask object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": ask})
		}
		put(object{"cidr": "10.1.0.0/24"}).refuses(t, refusal{400, "HTTPBadRequest", "Cannot update read-only attribute cidr"})
		put(object{"gateway_ip": "10.0.0.9"}).refuses(t, refusal{409, "GatewayConflictWithAllocationPools",
			"Gateway ip 10.0.0.9 conflicts with allocation pool 10.0.0.2-10.0.0.254."})
		put(object{"allocation_pools": []object{pool("10.3.0.30", "10.3.0.40")}}).refuses(t, refusal{400,
			"OutOfBoundsAllocationPool",
			"The allocation pool 10.3.0.30-10.3.0.40 spans beyond the subnet cidr 10.0.0.0/24."})
		servers := []string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6"}
		put(object{"dns_nameservers": servers}).refuses(t, refusal{400, "DNSNameServersExhausted",
			"Unable to complete operation for {subnet}. The number of DNS nameservers exceeds the limit 5."},
			"{subnet}", id(s))

		// An update keeps pools in the order given, and takes "none" for an answer; a create does neither.
		pools := []any{pool("10.0.0.30", "10.0.0.40"), pool("10.0.0.10", "10.0.0.20")}
		got := put(object{"allocation_pools": pools, "gateway_ip": "10.0.0.25"}).must(t, http.StatusOK).part(t, "subnet")
		expect.Equal(t, pools, got["allocation_pools"], "pools")
		got = put(object{"allocation_pools": []any{}}).must(t, http.StatusOK).part(t, "subnet")
		expect.Equal(t, []any{}, got["allocation_pools"], "no pools")

		// New routes come in any order, but those that stay keep theirs.
		destinations := func(ask ...string) []string {
			t.Helper()
			routes := []object{}
			for _, d := range ask {
				routes = append(routes, object{"destination": d, "nexthop": "10.0.0.9"})
			}
			out := []string{}
			for _, r := range put(object{"host_routes": routes}).must(t, http.StatusOK).part(t, "subnet")["host_routes"].([]any) {
				out = append(out, r.(object)["destination"].(string))
			}
			return out
		}
		first := destinations("2.0.0.0/8", "1.0.0.0/8", "3.0.0.0/8")
		sorted := []string{"1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8"}
		expect.Equal(t, sorted, either(c.since(neutrontest.HostRoutesAreSorted), first, union(first)), "routes")
		expect.Equal(t, append(first, "4.0.0.0/8"), destinations(append([]string{"4.0.0.0/8"}, first...)...), "one more route")
		if c.since(neutrontest.HostRoutesAreSorted) {
			expect.Equal(t, []string{"0.1.0.0/16", "10.0.0.0/8", "2.0.0.0/8"}, destinations("2.0.0.0/8", "10.0.0.0/8",
				"0.1.0.0/16"), "routes in the order of texts")
		}
	})
}

func TestIPv6ModesAreImmutable(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, object{"cidr": "fd00::/64", "ip_version": 6,
			"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"})
		put := func(ask object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": ask})
		}
		put(object{"enable_dhcp": false}).refuses(t, refusal{400, "InvalidInput", "Invalid input for operation: Cannot " +
			"disable enable_dhcp with ipv6 attributes set."})
		for _, field := range []string{"ipv6_ra_mode", "ipv6_address_mode"} {
			put(object{field: "dhcpv6-stateless"}).refuses(t,
				refusal{400, "HTTPBadRequest", "Cannot update read-only attribute " + field})
		}
	})
}

// TestSLAACInEitherIPv6Mode also holds that a port needs no other address, and can be asked for by its
// subnets alone or by none.
func TestSLAACInEitherIPv6Mode(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		var own []object
		for i, modes := range []object{
			{"ipv6_address_mode": "slaac"}, {"ipv6_ra_mode": "slaac"}, {"ipv6_address_mode": "dhcpv6-stateless"},
			{"ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"},
			{"ipv6_ra_mode": "dhcpv6-stateful"}, {"ipv6_address_mode": "dhcpv6-stateful"},
		} {
			s := c.tenant.newSubnet(t, n, with(modes, object{"cidr": fmt.Sprintf("fd00:%d::/64", i+1), "ip_version": 6}))
			if i < 4 {
				own = append(own, s)
			}
		}
		want := []any{}
		for i, s := range own {
			want = append(want, object{"subnet_id": id(s), "ip_address": fmt.Sprintf("fd00:%d::f816:3eff:fe12:3456", i+1)})
		}
		for what, ask := range map[string][]any{"no subnets": {}, "a subnet": {object{"subnet_id": id(own[1])}}} {
			p := c.tenant.newPort(t, n, object{"mac_address": "fa:16:3e:12:34:56", "fixed_ips": ask})
			if diff := gocmp.Diff(want, p["fixed_ips"], anyOrder); diff != "" {
				t.Errorf("addresses of a port that asks for %s (-want +got):\n%s", what, diff)
			}
			path := "/v2.0/ports/" + id(p)
			again := c.tenant.do(t, "PUT", path, object{"port": object{"fixed_ips": []any{}}}).must(t, http.StatusOK)
			if diff := gocmp.Diff(want, again.part(t, "port")["fixed_ips"], anyOrder); diff != "" {
				t.Errorf("addresses of a port that asks for none any more (-want +got):\n%s", diff)
			}
			c.tenant.do(t, "DELETE", path, nil).must(t, http.StatusNoContent)
		}
	})
}
