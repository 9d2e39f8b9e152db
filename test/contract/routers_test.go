package contract

import (
	"net/http"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestRouterAttributes(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		r := c.tenant.newRouter(t, object{"name": "contract"})
		admins := c.admin.get(t, "/v2.0/routers/"+id(r)).must(t, http.StatusOK).part(t, "router")
		expect.Equal(t, union(members(r), []string{"distributed", "ha"}), members(admins), "what an admin sees beyond a tenant")
		for _, varying := range []string{"id", "created_at", "updated_at"} {
			delete(r, varying)
		}
		want := object{
			"admin_state_up": true, "availability_zone_hints": []any{}, "availability_zones": []any{},
			"description":           "",
			"external_gateway_info": nil, "flavor_id": nil, "name": "contract", "project_id": c.tenant.project,
			"revision_number": float64(1), "routes": []any{}, "status": "ACTIVE", "tags": []any{},
			"tenant_id": c.tenant.project,
		}
		expect.Equal(t, want, r, "a new router")
	})
}

func TestAddRouterInterface(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		without := c.tenant.newSubnet(t, n, object{"cidr": "10.9.0.0/24", "gateway_ip": nil})
		overlapping := c.tenant.newSubnet(t, c.tenant.newNetwork(t, nil), object{"cidr": "10.0.0.0/16"})
		bare := c.tenant.newPort(t, c.tenant.newNetwork(t, nil), nil)
		r := c.tenant.newRouter(t, nil)
		act := func(action string, body object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, body)
		}
		const nobody = "11111111-1111-1111-1111-111111111111"
		bad := func(message string) refusal {
			return refusal{400, "BadRequest", "Bad router request: " + message + "."}
		}
		act("nope", object{}).refuses(t, refusal{Status: 404, Type: "HTTPNotFound"})
		act("add_router_interface", object{}).refuses(t, bad("Either subnet_id or port_id must be specified"))
		act("add_router_interface", object{"subnet_id": "x"}).refuses(t, bad("'x' is not a valid UUID"))
		act("add_router_interface", object{"subnet_id": id(s), "port_id": id(s)}).refuses(t,
			bad("Cannot specify both subnet-id and port-id"))
		act("add_router_interface", object{"subnet_id": nobody}).refuses(t, refusal{Status: 404, Type: "SubnetNotFound"})
		act("add_router_interface", object{"subnet_id": id(without)}).refuses(t,
			bad("Subnet for router interface must have a gateway IP"))
		act("add_router_interface", object{"port_id": id(bare)}).refuses(t, bad("Router port must have at least one fixed IP"))

		added := act("add_router_interface", object{"subnet_id": id(s)}).must(t, http.StatusOK).body
		t.Cleanup(func() { act("remove_router_interface", object{"subnet_id": id(s)}) })
		p := c.tenant.get(t, "/v2.0/ports/"+added["port_id"].(string)).must(t, http.StatusOK).part(t, "port")
		want := object{"id": id(r), "port_id": id(p), "network_id": id(n), "subnet_id": id(s), "subnet_ids": []any{id(s)}}
		want[either(c.since(neutrontest.InterfacesTellProject), "project_id", "tenant_id")] = c.tenant.project
		expect.Equal(t, want, added, "what was added")
		wantFields(t, p, object{
			"device_id": id(r), "device_owner": "network:router_interface", "port_security_enabled": false,
			"fixed_ips": []any{object{"subnet_id": id(s), "ip_address": "10.0.0.1"}}, "security_groups": []any{},
		})
		want = object{"revision_number": either(c.since(neutrontest.InterfaceMovesPortOnce), 1.0, 2.0)}
		wantFields(t, p, want)
		if got := c.tenant.revisionOf(t, "router", r); got != 2 {
			t.Errorf("an interface moved the router to revision %d, want 2", got)
		}

		act("add_router_interface", object{"subnet_id": id(s)}).refuses(t,
			bad("Router already has a port on subnet {subnet}"), "{subnet}", id(s))
		act("add_router_interface", object{"subnet_id": id(overlapping)}).refuses(t,
			bad("Cidr 10.0.0.0/16 of subnet {other} overlaps with cidr 10.0.0.0/24 of subnet {subnet}"),
			"{other}", id(overlapping), "{subnet}", id(s))
		c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).refuses(t, refusal{409, "ServicePortInUse",
			"Port {port} cannot be deleted directly via the port API: has device owner network:router_interface."},
			"{port}", id(p))
		c.tenant.do(t, "DELETE", "/v2.0/routers/"+id(r), nil).refuses(t, refusal{409, "RouterInUse",
			"Router {router} has ports still attached: {port}"}, "{router}", id(r), "{port}", id(p))
		c.tenant.do(t, "DELETE", "/v2.0/networks/"+id(n), nil).refuses(t, refusal{Status: 409, Type: "NetworkInUse"})
		c.tenant.do(t, "DELETE", "/v2.0/subnets/"+id(s), nil).refuses(t, refusal{Status: 409, Type: "SubnetInUse"})
		c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": object{"gateway_ip": "10.0.0.255"}}).refuses(t,
			refusal{Status: 400, Type: "InvalidInput"})

		route := object{"destination": "20.0.0.0/8", "nexthop": "10.0.0.9"}
		put := func(routes ...object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r), object{"router": object{"routes": routes}})
		}
		put(object{"destination": "20.0.0.0/8", "nexthop": "10.5.0.9"}).refuses(t, refusal{Status: 400, Type: "InvalidRoutes"})
		put(route).must(t, http.StatusOK)
		act("remove_router_interface", object{"subnet_id": id(s)}).refuses(t,
			refusal{409, "RouterInterfaceInUseByRoute",
				"Router interface for subnet {subnet} on router {router} cannot be deleted, as it is required by one " + "or " +
					"more " +
					"routes."}, "{router}", id(r), "{subnet}", id(s))
		put([]object{}...).must(t, http.StatusOK)
	})
}

func TestRemoveRouterInterface(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		r := c.tenant.newRouter(t, nil)
		act := func(action string, body object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, body)
		}
		added := act("add_router_interface", object{"subnet_id": id(s)}).must(t, http.StatusOK).body
		removed := act("remove_router_interface", object{"subnet_id": id(s)}).must(t, http.StatusOK).body
		if diff := gocmp.Diff(added, removed); diff != "" {
			t.Errorf("what was removed (-added +removed):\n%s", diff)
		}
		c.tenant.get(t, "/v2.0/ports/"+added["port_id"].(string)).refuses(t, refusal{Status: 404, Type: "PortNotFound"})
		act("remove_router_interface", object{"subnet_id": id(s)}).refuses(t, refusal{404,
			"RouterInterfaceNotFoundForSubnet", "Router {router} has no interface on subnet {subnet}"},
			"{router}", id(r), "{subnet}", id(s))
		act("remove_router_interface", object{"port_id": id(s)}).refuses(t, refusal{404, "RouterInterfaceNotFound",
			"Router {router} does not have an interface with id {subnet}"}, "{router}", id(r), "{subnet}", id(s))
	})
}

func TestRouterGateway(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		outside := c.admin.newNetwork(t, object{"router:external": true})
		s := c.admin.newSubnet(t, outside, object{"cidr": "172.20.0.0/24"})
		inside := c.tenant.newNetwork(t, nil)
		r := c.tenant.newRouter(t, nil)
		put := func(info any) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r), object{"router": object{"external_gateway_info": info}})
		}
		put(object{"network_id": id(inside)}).refuses(t, refusal{400, "BadRequest",
			"Bad router request: Network {network} is not an external network."}, "{network}", id(inside))
		put(object{"network_id": "11111111-1111-1111-1111-111111111111"}).refuses(t, refusal{Status: 404, Type: "NetworkNotFound"})
		put(object{"network_id": id(outside), "enable_snat": false}).refuses(t, refusal{403, "PolicyNotAuthorized",
			"(rule:update_router and (rule:update_router:external_gateway_info and " +
				"(rule:update_router:external_gateway_info:network_id and " +
				"rule:update_router:external_gateway_info:enable_snat))) is disallowed by policy"})
		put(object{"network_id": id(outside)}).must(t, http.StatusOK)
		got := c.tenant.get(t, "/v2.0/routers/"+id(r)).part(t, "router")["external_gateway_info"].(object)
		addresses, _ := got["external_fixed_ips"].([]any)
		if got["network_id"] != id(outside) || got["enable_snat"] != true || len(addresses) != 1 ||
			addresses[0].(object)["subnet_id"] != id(s) {
			t.Errorf("external_gateway_info = %v", got)
		}
		// The port on the outside is nobody's, and keeps the network.
		query := "/v2.0/ports?device_id=" + id(r)
		if list := c.tenant.get(t, query).list(t, "ports"); len(list) != 0 {
			t.Errorf("a tenant sees %v", list)
		}
		ports := c.admin.get(t, query).list(t, "ports")
		if len(ports) != 1 || ports[0]["device_owner"] != "network:router_gateway" || ports[0]["tenant_id"] != "" {
			t.Errorf("an admin sees %v", ports)
		}
		c.admin.do(t, "DELETE", "/v2.0/networks/"+id(outside), nil).refuses(t, refusal{Status: 409, Type: "NetworkInUse"})
		if info := put(object{}).must(t, http.StatusOK).part(t, "router")["external_gateway_info"]; info != nil {
			t.Errorf("without a gateway: %v", info)
		}
	})
}

func TestGatewayGetsItsAddressWithTheFirstSubnet(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		outside := c.admin.newNetwork(t, object{"router:external": true})
		r := c.tenant.newRouter(t, object{"external_gateway_info": object{"network_id": id(outside)}})
		read := func() (addresses []any, revision any) {
			t.Helper()
			got := c.tenant.get(t, "/v2.0/routers/"+id(r)).part(t, "router")
			addresses, _ = got["external_gateway_info"].(object)["external_fixed_ips"].([]any)
			return addresses, got["revision_number"]
		}
		none, before := read()
		first := c.admin.newSubnet(t, outside, object{"cidr": "172.20.1.0/24"})
		one, between := read()
		c.admin.newSubnet(t, outside, object{"cidr": "172.20.2.0/24"})
		still, after := read()
		if c.since(neutrontest.GatewayMissesFirstSubnet) {
			if len(one) != 0 || before != after {
				t.Errorf("its addresses are %v, and its revisions %v and %v, with a subnet", one, before, after)
			}
			return
		}
		if len(none) != 0 || len(one) != 1 || one[0].(object)["subnet_id"] != id(first) || len(still) != 1 {
			t.Errorf("its addresses are %v, with the first subnet %v, with a second one %v", none, one, still)
		}
		if before == between || between != after {
			t.Errorf("its revision is %v, with the first subnet %v, with a second one %v", before, between, after)
		}
	})
}

func TestGatewayInUseCannotChange(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, object{"allocation_pools": []object{pool("10.0.0.100", "10.0.0.200")}})
		r := c.tenant.newRouter(t, nil)
		path := "/v2.0/routers/" + id(r)
		body := object{"subnet_id": id(s)}
		added := c.tenant.do(t, "PUT", path+"/add_router_interface", body).must(t, http.StatusOK).body
		t.Cleanup(func() { c.tenant.do(t, "PUT", path+"/remove_router_interface", body) })
		c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": object{"gateway_ip": "10.0.0.2"}}).refuses(t,
			refusal{409, "GatewayIpInUse", "Current gateway ip 10.0.0.1 already in use by port {port}. Unable to " + "update."},
			"{port}", added["port_id"].(string))
	})
}
