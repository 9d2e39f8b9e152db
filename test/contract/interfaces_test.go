package contract

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// ifRevision is the header that makes a request conditional.
func ifRevision(revision int) []string {
	return []string{"If-Match", fmt.Sprintf("revision_number=%d", revision)}
}

func TestRouterCreateSetsDescription(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		const description = "ours [owner=a/b]"
		r := c.tenant.newRouter(t, object{"name": "marked", "description": description + id(c.tenant.newNetwork(t, nil))})
		found := c.tenant.get(t, "/v2.0/routers?fields=id&description="+url.QueryEscape(r["description"].(string)))
		expect.Equal(t, []object{{"id": id(r)}}, found.list(t, "routers"), "routers of the description")
		c.tenant.do(t, "POST", "/v2.0/routers", object{"routers": []object{{"name": "a"}, {"name": "b"}}}).refuses(t,
			refusal{400, "HTTPBadRequest", "Bulk operation not supported"})
		c.tenant.do(t, "POST", "/v2.0/routers", object{"router": object{"routes": []object{}}}).refuses(t,
			refusal{400, "HTTPBadRequest", "Attribute 'routes' not allowed in POST"})

		path, moved := "/v2.0/routers/"+id(r), refusal{Status: 412, Type: "RevisionNumberConstraintFailed"}
		c.tenant.do(t, "PUT", path, object{"router": object{"name": "x"}}, ifRevision(99)...).refuses(t, moved)
		c.tenant.do(t, "PUT", path, object{"router": object{"name": "x"}}, ifRevision(1)...).must(t, http.StatusOK)
		c.tenant.do(t, "DELETE", path, nil, ifRevision(1)...).refuses(t, moved)
		c.tenant.do(t, "DELETE", path, nil, ifRevision(2)...).must(t, http.StatusNoContent)
	})
}

// TestConditionalGatewayUpdateFails shows why the way outside is changed without a condition: Neutron moves the
// revision itself before it holds the request to it, and what it did until then stays done.
func TestConditionalGatewayUpdateFails(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		outside := c.admin.newNetwork(t, object{"router:external": true})
		c.admin.newSubnet(t, outside, object{"cidr": "172.21.0.0/24"})
		info := object{"external_gateway_info": object{"network_id": id(outside)}}
		moved := refusal{Status: 412, Type: "RevisionNumberConstraintFailed"}
		for name, act := range map[string]func(path string, revision int){
			"taking it off": func(path string, revision int) {
				c.tenant.do(t, "PUT", path, object{"router": object{"external_gateway_info": object{}}},
					ifRevision(revision)...).refuses(t, moved)
			},
			"deleting the router": func(path string, revision int) {
				c.tenant.do(t, "DELETE", path, nil, ifRevision(revision)...).refuses(t, moved)
			},
		} {
			r := c.tenant.newRouter(t, info)
			if want := either(c.since(neutrontest.GatewayMovesRouterLess), 2, 3); revision(r) != want {
				t.Errorf("%s: a router that is made with a way outside has revision %d, want %d", name, revision(r), want)
			}
			act("/v2.0/routers/"+id(r), revision(r))
		}

		r := c.tenant.newRouter(t, nil)
		path := "/v2.0/routers/" + id(r)
		put := func(info object) {
			t.Helper()
			a := c.tenant.do(t, "PUT", path, object{"router": object{"external_gateway_info": info}}).must(t, http.StatusOK)
			r = a.part(t, "router")
			if got := c.tenant.revisionOf(t, "router", r); got != revision(r) {
				t.Errorf("the answer says revision %d, but then it is %d", revision(r), got)
			}
		}
		for what, step := range []struct {
			info  object
			moves int
		}{{info["external_gateway_info"].(object), 1}, {object{}, 2}} {
			last := revision(r)
			put(step.info)
			if c.since(neutrontest.GatewayMovesRouterLess) && revision(r) != last+step.moves {
				t.Errorf("step %d: the revision went from %d to %d, want %d more", what, last, revision(r), step.moves)
			}
		}
		c.tenant.do(t, "DELETE", path, nil, ifRevision(revision(r))...).must(t, http.StatusNoContent)
	})
}

func TestSNATReturnsToDefault(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		outside := c.admin.newNetwork(t, object{"router:external": true})
		c.admin.newSubnet(t, outside, object{"cidr": "172.22.0.0/24"})
		r := c.admin.newRouter(t, object{"external_gateway_info": object{"network_id": id(outside), "enable_snat": false}})
		for _, step := range []struct {
			info object
			want bool
		}{
			{object{"network_id": id(outside), "enable_snat": false}, false},
			{object{"network_id": id(outside)}, true},
		} {
			a := c.admin.do(t, "PUT", "/v2.0/routers/"+id(r), object{"router": object{"external_gateway_info": step.info}})
			got := a.must(t, http.StatusOK).part(t, "router")["external_gateway_info"].(object)["enable_snat"]
			if got != step.want {
				t.Errorf("%v gives enable_snat %v, want %v", step.info, got, step.want)
			}
		}
	})
}

func TestPortBecomesRouterInterface(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		s := c.tenant.newSubnet(t, n, nil)
		r := c.tenant.newRouter(t, nil)
		body := object{
			"name": "interface", "description": "[owner=a/b]", "device_owner": "network:router_interface",
			"fixed_ips": []object{{"subnet_id": id(s), "ip_address": "10.0.0.1"}},
		}
		p := c.tenant.newPort(t, n, body)
		act := func(action, port string) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, object{"port_id": port})
		}
		act("add_router_interface", id(p)).must(t, http.StatusOK)
		t.Cleanup(func() { act("remove_router_interface", id(p)) })
		attached := c.tenant.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")
		more := either(c.since(neutrontest.InterfaceMovesPortOnce), 1, 2)
		if got, router := revision(attached), c.tenant.revisionOf(t, "router", r); got != revision(p)+more || router != 2 {
			t.Errorf("attaching moved the port from %d to %d and the router to %d, want %d more and 2", revision(p), got, router,
				more)
		}
		want := p
		want["device_id"] = id(r)
		for _, moving := range []string{"revision_number", "updated_at"} {
			delete(want, moving)
			delete(attached, moving)
		}
		expect.Equal(t, want, attached, "the port as an interface")
		act("add_router_interface", id(p)).refuses(t, refusal{Status: 409, Type: "PortInUse"})
		again := object{"network_id": id(n), "fixed_ips": body["fixed_ips"]}
		c.tenant.do(t, "POST", "/v2.0/ports", object{"port": again}).refuses(t,
			refusal{Status: 409, Type: "IpAddressAlreadyAllocated"})
		holders := c.tenant.get(t, "/v2.0/ports?fields=id&network_id="+id(n)+"&fixed_ips="+url.QueryEscape("ip_address=10.0.0.1"))
		expect.Equal(t, []object{{"id": id(p)}}, holders.list(t, "ports"), "who has the address")
		c.tenant.do(t, "PUT", "/v2.0/ports/"+id(p), object{"port": object{"name": "renamed", "description": "no more"}}).
			must(t, http.StatusOK)

		act("remove_router_interface", id(p)).must(t, http.StatusOK)
		if got := c.tenant.revisionOf(t, "router", r); got != 3 {
			t.Errorf("detaching moved the router to %d, want 3", got)
		}
		c.tenant.get(t, "/v2.0/ports/"+id(p)).refuses(t, refusal{Status: 404, Type: "PortNotFound"})
		act("remove_router_interface", id(p)).refuses(t, refusal{Status: 404, Type: "RouterInterfaceNotFound"})
		act("add_router_interface", id(p)).refuses(t, refusal{Status: 404, Type: "PortNotFound"})
		c.tenant.do(t, "PUT", "/v2.0/routers/"+id(p)+"/add_router_interface", object{"port_id": id(p)}).refuses(t,
			refusal{Status: 404, Type: "RouterNotFound"})
	})
}

// Where ports make their own addresses, one that says from the start that it is to be a router's interface gets those
// that are asked for and no others.
func TestRouterInterfaceOnSLAACSubnet(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		four := c.tenant.newSubnet(t, n, nil)
		six := c.tenant.newSubnet(t, n, object{
			"cidr": "fd00:53::/64", "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac",
		})
		at := func(s object, address string) object { return object{"subnet_id": id(s), "ip_address": address} }
		plain := object{"network_id": id(n), "fixed_ips": []object{at(six, "fd00:53::1")}}
		c.tenant.do(t, "POST", "/v2.0/ports", object{"port": plain}).refuses(t,
			refusal{Status: 400, Type: "AllocationOnAutoAddressSubnet"})

		r := c.tenant.newRouter(t, nil)
		for _, address := range []object{at(four, "10.0.0.1"), at(six, "fd00:53::1")} {
			p := c.tenant.newPort(t, n, object{"device_owner": "network:router_interface", "fixed_ips": []object{address}})
			act := func(action string) answer {
				return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, object{"port_id": id(p)})
			}
			act("add_router_interface").must(t, http.StatusOK)
			t.Cleanup(func() { act("remove_router_interface") })
			got := c.tenant.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")["fixed_ips"]
			expect.Equal(t, []any{address}, got, "the addresses of an interface")
		}

		unattached := c.tenant.newPort(t, n, object{
			"device_owner": "network:router_interface", "fixed_ips": []object{at(four, "10.0.0.9")},
		})
		c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(unattached), nil).must(t, http.StatusNoContent)
	})
}

func TestSubnetsThatShareAnInterface(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		subnet := func(cidr string, version int) object {
			return c.tenant.newSubnet(t, n, object{"cidr": cidr, "ip_version": version})
		}
		four, other := subnet("10.50.0.0/24", 4), subnet("10.51.0.0/24", 4)
		six, more, late := subnet("fd00:50::/64", 6), subnet("fd00:51::/64", 6), subnet("fd00:52::/64", 6)
		at := func(s object, address string) object { return object{"subnet_id": id(s), "ip_address": address} }
		r := c.tenant.newRouter(t, nil)
		attach := func(addresses ...object) answer {
			t.Helper()
			p := c.tenant.newPort(t, n, object{"fixed_ips": addresses})
			t.Cleanup(func() {
				c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/remove_router_interface", object{"port_id": id(p)})
			})
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/add_router_interface", object{"port_id": id(p)})
		}
		attach(at(four, "10.50.0.1"), at(other, "10.51.0.1")).refuses(t, refusal{400, "BadRequest",
			"Bad router request: Cannot have multiple IPv4 subnets on router port."})
		first := attach(at(six, "fd00:50::1"), at(more, "fd00:51::1")).must(t, http.StatusOK).body["port_id"].(string)
		words := "Bad router request: Cannot have multiple router ports with the same network id if both contain IPv6 " +
			"subnets. Existing port {port} has IPv6 subnet(s) and network id {network}."
		if c.since(neutrontest.SecondIPv6PortHasOtherWords) {
			words = "Bad router request: Router already contains IPv6 port {port} belonging to network id {network}. Only one " +
				"IPv6 port from the same network subnet can be connected to a router.."
		}
		attach(at(late, "fd00:52::1")).refuses(t, refusal{400, "BadRequest", words}, "{port}", first, "{network}", id(n))
	})
}

// TestOneRouterAdvertisesOnASubnet holds which IPv6 modes keep a subnet off routers: an address
// mode alone, whichever it is, since somebody else's router then tells hosts what they go by.
func TestOneRouterAdvertisesOnASubnet(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		n := c.tenant.newNetwork(t, nil)
		made := 0
		newSubnet := func(modes object) (subnet string, at object) {
			t.Helper()
			made++
			prefix := fmt.Sprintf("fd00:6:%d::", made)
			s := c.tenant.newSubnet(t, n, with(modes, object{"ip_version": 6, "cidr": prefix + "/64", "gateway_ip": prefix + "1"}))
			return id(s), object{"subnet_id": id(s), "ip_address": prefix + "1"}
		}
		newPort := func(addresses ...object) object {
			t.Helper()
			return c.tenant.newPort(t, n, object{"device_owner": "network:router_interface", "fixed_ips": addresses})
		}
		r := c.tenant.newRouter(t, nil)
		act := func(action string, body object) answer {
			t.Helper()
			return c.tenant.do(t, "PUT", "/v2.0/routers/"+id(r)+"/"+action, body)
		}

		of, plain := newSubnet(nil)
		act("add_router_interface", object{"subnet_id": of}).must(t, http.StatusOK)
		act("remove_router_interface", object{"subnet_id": of}).must(t, http.StatusOK)
		served := []object{plain}
		for _, mode := range []string{"slaac", "dhcpv6-stateful", "dhcpv6-stateless"} {
			_, byRouter := newSubnet(object{"ipv6_ra_mode": mode})
			_, both := newSubnet(object{"ipv6_ra_mode": mode, "ipv6_address_mode": mode})
			served = append(served, byRouter, both)

			waiting, at := newSubnet(object{"ipv6_address_mode": mode})
			refused := refusal{400, "BadRequest", "Bad router request: IPv6 subnet " + waiting +
				" configured to receive RAs from an external router cannot be added to Neutron Router.."}
			act("add_router_interface", object{"subnet_id": waiting}).refuses(t, refused)
			p := newPort(plain, at)
			act("add_router_interface", object{"port_id": id(p)}).refuses(t, refused)
			is := c.tenant.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")
			if is["device_id"] != "" || revision(is) != revision(p) {
				t.Errorf("a port that was refused as an interface is on device %v, at revision %d; it was at %d",
					is["device_id"], revision(is), revision(p))
			}
			c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).must(t, http.StatusNoContent)
		}

		p := newPort(served...)
		act("add_router_interface", object{"port_id": id(p)}).must(t, http.StatusOK)
		t.Cleanup(func() { act("remove_router_interface", object{"port_id": id(p)}) })
		got := c.tenant.get(t, "/v2.0/ports/"+id(p)).must(t, http.StatusOK).part(t, "port")["fixed_ips"]
		want := []any{}
		for _, at := range served {
			want = append(want, at)
		}
		if diff := gocmp.Diff(want, got, anyOrder); diff != "" {
			t.Errorf("the addresses of an interface on all that a router serves (-want +got):\n%s", diff)
		}
	})
}
