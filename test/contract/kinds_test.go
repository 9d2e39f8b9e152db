package contract

import (
	"net/http"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// kinds are those that routers are of, and the device owners of their interfaces.
var kinds = map[string]struct {
	kind  object
	owner string
}{
	"on one agent":                 {object{"ha": false, "distributed": false}, "network:router_interface"},
	"on several agents":            {object{"ha": true, "distributed": false}, "network:ha_router_replicated_interface"},
	"on all hosts":                 {object{"ha": false, "distributed": true}, "network:router_interface_distributed"},
	"on all hosts, and on several": {object{"ha": true, "distributed": true}, "network:router_interface_distributed"},
}

// kindOf is what an administrator sees of a router's kind.
func (c *cloud) kindOf(t *testing.T, r object) object {
	t.Helper()
	is := c.admin.get(t, "/v2.0/routers/"+id(r)).must(t, http.StatusOK).part(t, "router")
	return object{"ha": is["ha"], "distributed": is["distributed"]}
}

func TestKindsOfRouters(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, nil)
		s := c.admin.newSubnet(t, n, nil)
		for name, test := range kinds {
			t.Run(name, func(t *testing.T) {
				r := c.admin.newRouter(t, test.kind)
				expect.Equal(t, test.kind, c.kindOf(t, r), "the kind")
				if revision(r) != 1 {
					t.Errorf("a new router has revision %d, want 1", revision(r))
				}
				// A port that was made to be an interface of any router becomes one of this.
				p := c.admin.newPort(t, n, object{
					"device_owner": "network:router_interface",
					"fixed_ips":    []object{{"subnet_id": id(s), "ip_address": "10.0.0.1"}},
				})
				act := func(action string) answer {
					t.Helper()
					return c.admin.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, object{"port_id": id(p)})
				}
				act("add_router_interface").must(t, http.StatusOK)
				defer act("remove_router_interface") // which deletes the port
				attached := c.admin.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")
				want := revision(p) + either(c.since(neutrontest.InterfaceMovesPortOnce), 1, 2)
				if attached["device_owner"] != test.owner || revision(attached) != want {
					t.Errorf("the interface is of %v at revision %d, want %s at %d", attached["device_owner"],
						revision(attached), test.owner, want)
				}
				c.admin.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).refuses(t, refusal{Status: 409, Type: "ServicePortInUse"})
				c.admin.do(t, "DELETE", "/v2.0/routers/"+id(r), nil).refuses(t, refusal{Status: 409, Type: "RouterInUse"})
			})
		}
	})
}

func TestRouterKindChangesOnlyWhileDown(t *testing.T) {
	bad := func(what string) refusal {
		return refusal{400, "BadRequest", "Bad router request: Cannot change " + what + " of active routers. Please set " +
			"router admin_state_up to False prior to upgrade."}
	}
	ha, distributed := bad("HA attribute"), bad("the 'distributed' attribute")
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.admin.newNetwork(t, nil)
		s := c.admin.newSubnet(t, n, nil)
		r := c.admin.newRouter(t, nil)
		path := "/v2.0/routers/" + id(r)
		put := func(ask object) answer {
			t.Helper()
			return c.admin.do(t, "PUT", path, object{"router": ask})
		}
		added := c.admin.do(t, "PUT", path+"/add_router_interface", object{"subnet_id": id(s)}).must(t, http.StatusOK).body
		t.Cleanup(func() { c.admin.do(t, "PUT", path+"/remove_router_interface", object{"subnet_id": id(s)}) })
		owner := func() any {
			t.Helper()
			p := c.admin.get(t, "/v2.0/ports/"+added["port_id"].(string)).must(t, http.StatusOK).part(t, "port")
			return p["device_owner"]
		}

		put(object{"ha": true}).refuses(t, ha)
		put(object{"distributed": true}).refuses(t, distributed)
		put(object{"ha": false, "distributed": false}).must(t, http.StatusOK) // as it is
		put(object{"distributed": true, "admin_state_up": false}).refuses(t, distributed)
		put(object{"admin_state_up": false}).must(t, http.StatusOK)
		put(object{"distributed": true, "admin_state_up": true}).refuses(t, distributed)
		put(object{"ha": true, "admin_state_up": true}).refuses(t, ha)
		put(object{"distributed": true}).must(t, http.StatusOK)
		if got := owner(); got != "network:router_interface_distributed" {
			t.Errorf("the interface of a distributed router is of %v", got)
		}
		put(object{"distributed": false}).must(t, http.StatusOK)
		put(object{"ha": true}).must(t, http.StatusOK)
		if got := owner(); got != "network:ha_router_replicated_interface" {
			t.Errorf("the interface of a highly available router is of %v", got)
		}
		// Back to one agent the real one stumbles where no agent has ever had the router.
		put(object{"admin_state_up": true}).must(t, http.StatusOK)
	})
}

func TestRouterKindNeedsAdministrator(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		r := c.tenant.newRouter(t, nil)
		for _, field := range []string{"ha", "distributed"} {
			for _, value := range []bool{true, false} {
				c.tenant.create(t, "routers", object{field: value}).refuses(t,
					refusal{403, "PolicyNotAuthorized", "(rule:create_router and rule:create_router:" + field +
						") is disallowed by policy"})
			}
			c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r), object{"router": object{field: true}}).refuses(t,
				refusal{403, "PolicyNotAuthorized", "(rule:update_router and rule:update_router:" + field + ") is disallowed by policy"})
		}
	})
}

// A subnet that is kept for ports of others gives no address to a router's interface, not even the gateway's.
func TestServiceTypesReserveSubnet(t *testing.T) {
	const iface = "network:router_interface"
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, object{"service_types": []string{"compute:nova"}})
		other := c.tenant.newSubnet(t, n, object{"cidr": "10.1.0.0/24"})
		ask := func(owner string, fixed object) answer {
			t.Helper()
			return c.tenant.do(t, "POST", "/v2.0/ports", object{"port": object{
				"network_id": id(n), "device_owner": owner, "fixed_ips": []object{fixed},
			}})
		}
		serve := func(owners ...string) {
			t.Helper()
			c.tenant.do(t, "PUT", "/v2.0/subnets/"+id(s), object{"subnet": object{"service_types": owners}}).must(t, http.StatusOK)
		}
		gateway := object{"subnet_id": id(s), "ip_address": "10.0.0.1"}
		for _, owner := range []string{iface, "kubernetes:networkport", "compute:other"} {
			ask(owner, object{"subnet_id": id(s)}).refuses(t, refusal{Status: 400, Type: "InvalidInput"})
		}
		ask(iface, gateway).refuses(t, refusal{Status: 400, Type: "InvalidInput"})
		create := func(owner string, fixed object) object {
			t.Helper()
			p := ask(owner, fixed).must(t, http.StatusCreated).part(t, "port")
			c.admin.drop(t, "/v2.0/ports/"+id(p))
			return p
		}
		create("compute:nova", object{"subnet_id": id(s)})
		create("kubernetes:networkport", object{"subnet_id": id(other)})

		serve("compute:nova", iface)
		p := create(iface, gateway)
		// What a port has it keeps.
		serve("compute:nova")
		kept := c.tenant.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")["fixed_ips"]
		expect.Equal(t, []any{gateway}, kept, "the addresses of a port that is there")
	})
}

// The revision that the answer to the creation of a subnet shows is passed by at once, where DNS is to have its
// addresses.
func TestDNSPublicationMovesNewSubnetRevision(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		s := c.tenant.newSubnet(t, c.tenant.newNetwork(t, nil), object{"dns_publish_fixed_ip": true})
		if is := c.tenant.revisionOf(t, "subnet", s); s["dns_publish_fixed_ip"] != true || revision(s) != 0 || is != 1 {
			t.Errorf("published %v, answered with revision %d, and there with %d; want true, 0 and 1",
				s["dns_publish_fixed_ip"], revision(s), is)
		}
	})
}
