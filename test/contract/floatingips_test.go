package contract

import (
	"net/http"
	"net/url"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const floatingPath = "/v2.0/floatingips"

// outside is an external network, a router with a gateway to it, and a network behind that router.
type outside struct {
	external, router, inside, subnet object
}

func newOutside(t *testing.T, c *cloud) outside {
	t.Helper()
	o := outside{external: c.admin.newNetwork(t, object{"router:external": true})}
	// The addresses that the tests ask for are not in the pool, or the router's gateway would have drawn them at times.
	c.admin.newSubnet(t, o.external, object{
		"cidr": "203.0.113.0/24", "allocation_pools": []object{pool("203.0.113.100", "203.0.113.199")},
	})
	o.router = c.tenant.newRouter(t, object{"external_gateway_info": object{"network_id": id(o.external)}})
	o.inside = c.tenant.newNetwork(t, nil)
	// Tests ask for addresses outside of the pool, which no other port is given.
	o.subnet = c.tenant.newSubnet(t, o.inside, object{"cidr": "10.82.0.0/24", "allocation_pools": []any{
		pool("10.82.0.100", "10.82.0.199"),
	}})
	o.attach(t, c, o.subnet)
	return o
}

func (o outside) attach(t *testing.T, c *cloud, subnet object) {
	t.Helper()
	path, body := "/v2.0/routers/"+id(o.router), object{"subnet_id": id(subnet)}
	c.tenant.do(t, "PUT", path+"/add_router_interface", body).must(t, http.StatusOK)
	t.Cleanup(func() { c.tenant.do(t, "PUT", path+"/remove_router_interface", body) })
}

func (s *session) newFloatingIP(t testing.TB, external object, attributes object) object {
	t.Helper()
	return s.make(t, floatingPath, "floatingip", with(object{"floating_network_id": id(external)}, attributes))
}

// TestFloatingIPs has one way outside for all that is held of floating IPs: to make it takes a dozen requests.
func TestFloatingIPs(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		o := newOutside(t, c)
		for name, test := range map[string]func(t *testing.T, c *cloud, o outside){
			"have attributes": floatingIPHasAttributes,
			"need a way":      floatingIPNeedsAWay,
			"have an address of choice for administrators": floatingIPHasItsAddress,
			"are marked on the condition of a revision":    floatingIPIsMarkedOnCondition,
			"outlive their ports":                          floatingIPOutlivesItsPort,
			"are associated, moved and disassociated":      floatingIPIsAssociated,
			"do not keep the address of their port":        floatingIPDoesNotKeepItsAddress,
			"are deleted on the condition of a revision":   floatingIPIsDeletedOnCondition,
		} {
			t.Run(name, func(t *testing.T) { test(t, c, o) })
		}
	})
}

func floatingIPHasAttributes(t *testing.T, c *cloud, o outside) {
	t.Helper()
	p := c.tenant.newPort(t, o.inside, nil)
	r := c.tenant.newFloatingIP(t, o.external, object{"port_id": id(p), "description": "d"})
	got := c.tenant.get(t, floatingPath+"/"+id(r)).must(t, http.StatusOK).part(t, "floatingip")
	fixed := p["fixed_ips"].([]any)[0].(object)["ip_address"]
	wantFields(t, got, object{
		"id": id(r), "description": "d", "floating_network_id": id(o.external), "port_id": id(p), "fixed_ip_address": fixed,
		"router_id": id(o.router), "project_id": c.tenant.project, "floating_ip_address": r["floating_ip_address"],
	})
	c.tenant.get(t, floatingPath+"/nope").refuses(t, refusal{404, "FloatingIPNotFound", "Floating IP nope could not be found"})
	find := func(query url.Values) []string {
		query.Set("project_id", c.tenant.project)
		return c.tenant.idsOf(t, floatingPath+"?"+query.Encode())
	}
	for what, query := range map[string]url.Values{
		"description, of several": {"description": {"nobody's", "d"}}, "port": {"port_id": {id(p)}},
	} {
		expect.Equal(t, []string{id(r)}, find(query), "found by its %s", what)
	}
	if ids := find(url.Values{"description": {"nobody's"}}); len(ids) > 0 {
		t.Errorf("found by another's description: %v", ids)
	}
}

// floatingIPNeedsAWay holds what a floating IP needs: an external network, a router to it, one address of IPv4, and
// nobody else there.
func floatingIPNeedsAWay(t *testing.T, c *cloud, o outside) {
	t.Helper()
	c.tenant.skipShort(t)
	p := c.tenant.newPort(t, o.inside, nil)
	ask := func(attributes object) answer {
		t.Helper()
		return c.tenant.do(t, "POST", floatingPath, object{"floatingip": attributes})
	}
	external := object{"floating_network_id": id(o.external)}
	bad := func(message string) refusal {
		return refusal{400, "BadRequest", "Bad floatingip request: " + message + "."}
	}
	ask(object{"floating_network_id": id(o.inside)}).refuses(t, bad("Network "+id(o.inside)+" is not a valid external network"))
	n := c.tenant.newNetwork(t, nil)
	lonely := c.tenant.newSubnet(t, n, object{"cidr": "10.83.0.0/24"})
	alone := c.tenant.newPort(t, n, nil)
	ask(with(external, object{"port_id": id(alone)})).refuses(t, refusal{404, "ExternalGatewayForFloatingIPNotFound",
		"External network " + id(o.external) + " is not reachable from subnet " + id(lonely) +
			".  Therefore, cannot associate Port " + id(alone) + " with a Floating IP."})
	second := c.tenant.newSubnet(t, o.inside, object{"cidr": "10.84.0.0/24"})
	c.tenant.drop(t, "/v2.0/subnets/"+id(second))
	o.attach(t, c, second)
	both := c.tenant.newPort(t, o.inside, object{"fixed_ips": []object{
		{"subnet_id": id(o.subnet), "ip_address": "10.82.0.77"}, {"subnet_id": id(second), "ip_address": "10.84.0.77"},
	}})
	ask(with(external, object{"port_id": id(both)})).refuses(t, bad("Port "+id(both)+
		" has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP"))
	led := c.tenant.newFloatingIP(t, o.external, object{"port_id": id(both), "fixed_ip_address": "10.84.0.77"})
	wantFields(t, led, object{"fixed_ip_address": "10.84.0.77", "port_id": id(both)})
	c.tenant.newFloatingIP(t, o.external, object{"port_id": id(p)})
	ask(with(external, object{"port_id": id(p)})).refuses(t, refusal{Status: 409, Type: "FloatingIPPortAlreadyAssociated"})
	c.tenant.do(t, "POST", floatingPath, object{"floatingips": []object{external, external}}).refuses(t,
		refusal{Status: 400, Type: "HTTPBadRequest"})
}

// floatingIPOutlivesItsPort shows what is left of a floating IP when its port goes, and that it can lead to another
// one. What a floating IP leads to keeps the router.
func floatingIPOutlivesItsPort(t *testing.T, c *cloud, o outside) {
	t.Helper()
	p, other := c.tenant.newPort(t, o.inside, nil), c.tenant.newPort(t, o.inside, nil)
	r := c.tenant.newFloatingIP(t, o.external, object{"port_id": id(p)})
	router := "/v2.0/routers/" + id(o.router)
	c.tenant.do(t, "PUT", router+"/remove_router_interface", object{"subnet_id": id(o.subnet)}).refuses(t,
		refusal{Status: 409, Type: "RouterInterfaceInUseByFloatingIP"})
	c.tenant.do(t, "PUT", router, object{"router": object{"external_gateway_info": object{}}}).refuses(t,
		refusal{Status: 409, Type: "RouterExternalGatewayInUseByFloatingIp"})
	c.tenant.do(t, "DELETE", "/v2.0/ports/"+id(p), nil).must(t, http.StatusNoContent)
	get := func() object {
		return c.tenant.get(t, floatingPath+"/"+id(r)).must(t, http.StatusOK).part(t, "floatingip")
	}
	free := get()
	wantFields(t, free, object{"port_id": nil, "fixed_ip_address": nil, "router_id": nil,
		"floating_ip_address": r["floating_ip_address"]})
	c.tenant.do(t, "PUT", floatingPath+"/"+id(r), object{"floatingip": object{"port_id": id(other)}}).must(t, http.StatusOK)
	wantFields(t, get(), object{"port_id": id(other), "floating_ip_address": r["floating_ip_address"]})
	// Another description alone leaves the port.
	c.tenant.do(t, "PUT", floatingPath+"/"+id(r), object{"floatingip": object{"description": "x"}}).must(t, http.StatusOK)
	wantFields(t, get(), object{"port_id": id(other), "description": "x"})
}

// floatingIPIsAssociated holds that an address may exist before what it leads to, and stay after it, while the port
// is there, and that one update leads it elsewhere.
func floatingIPIsAssociated(t *testing.T, c *cloud, o outside) {
	t.Helper()
	c.tenant.skipShort(t)
	p, other := c.tenant.newPort(t, o.inside, nil), c.tenant.newPort(t, o.inside, nil)
	r := c.tenant.newFloatingIP(t, o.external, nil)
	leads := func(to any, body object) {
		t.Helper()
		if body != nil {
			c.tenant.do(t, "PUT", floatingPath+"/"+id(r), object{"floatingip": body}).must(t, http.StatusOK)
		}
		is := c.tenant.get(t, floatingPath+"/"+id(r)).must(t, http.StatusOK).part(t, "floatingip")
		wantFields(t, is, object{"port_id": to, "floating_ip_address": r["floating_ip_address"]})
	}
	leads(nil, nil)
	leads(id(p), object{"port_id": id(p), "fixed_ip_address": addressOf(p)})
	leads(id(other), object{"port_id": id(other), "fixed_ip_address": addressOf(other)})
	leads(nil, object{"port_id": nil})
	leads(nil, object{"description": "x"})
}

func addressOf(port object) any { return port["fixed_ips"].([]any)[0].(object)["ip_address"] }

// floatingIPDoesNotKeepItsAddress holds what becomes of a floating IP whose port is to lose the address that it leads to.
func floatingIPDoesNotKeepItsAddress(t *testing.T, c *cloud, o outside) {
	t.Helper()
	c.tenant.skipShort(t)
	at := func(address string) []object { return []object{{"subnet_id": id(o.subnet), "ip_address": address}} }
	p := c.tenant.newPort(t, o.inside, object{"fixed_ips": at("10.82.0.40")})
	r := c.tenant.newFloatingIP(t, o.external, object{"port_id": id(p)})
	moved := c.tenant.do(t, "PUT", "/v2.0/ports/"+id(p), object{"port": object{"fixed_ips": at("10.82.0.41")}})
	if c.since(neutrontest.FloatingIPsKeepTheirPort) {
		moved.refuses(t, refusal{400, "BadRequest", "Bad port request: Cannot update the fixed_ips of the port " + id(p) +
			", because its original fixed_ip has been associated to a floating ip."})
	} else {
		moved.must(t, http.StatusOK)
	}
	left := c.tenant.get(t, floatingPath+"/"+id(r)).must(t, http.StatusOK).part(t, "floatingip")
	wantFields(t, left, object{"port_id": id(p), "fixed_ip_address": "10.82.0.40"})
}

// floatingIPIsDeletedOnCondition holds that a deletion may name the revision.
func floatingIPIsDeletedOnCondition(t *testing.T, c *cloud, o outside) {
	t.Helper()
	r := c.tenant.newFloatingIP(t, o.external, object{"port_id": id(c.tenant.newPort(t, o.inside, nil))})
	now := c.tenant.revisionOf(t, "floatingip", r)
	c.tenant.do(t, "DELETE", floatingPath+"/"+id(r), nil, ifRevision(now)...).must(t, http.StatusNoContent)
	c.tenant.get(t, floatingPath+"/"+id(r)).refuses(t, refusal{Status: 404, Type: "FloatingIPNotFound"})
}

// floatingIPHasItsAddress holds who may choose an address, and which.
func floatingIPHasItsAddress(t *testing.T, c *cloud, o outside) {
	t.Helper()
	ask := func(s *session, address string) answer {
		t.Helper()
		return s.do(t, "POST", floatingPath, object{"floatingip": object{
			"floating_network_id": id(o.external), "floating_ip_address": address, "project_id": s.project,
		}})
	}
	ask(c.tenant, "203.0.113.201").refuses(t, refusal{Status: 403, Type: "PolicyNotAuthorized"})
	made := ask(c.admin, "203.0.113.201").must(t, http.StatusCreated).part(t, "floatingip")
	c.admin.drop(t, floatingPath+"/"+id(made))
	wantFields(t, made, object{"floating_ip_address": "203.0.113.201"})
	ask(c.admin, "203.0.113.201").refuses(t, refusal{Status: 409, Type: "IpAddressAlreadyAllocated"})
	ask(c.admin, "192.0.2.1").refuses(t, refusal{Status: 400, Type: "InvalidIpForNetwork"})
}

// floatingIPIsMarkedOnCondition holds that the description of one that exists changes alone, and not if somebody else
// was first.
func floatingIPIsMarkedOnCondition(t *testing.T, c *cloud, o outside) {
	t.Helper()
	r := c.tenant.newFloatingIP(t, o.external, object{"description": "theirs"})
	c.tenant.drop(t, floatingPath+"/"+id(r))
	now := c.tenant.revisionOf(t, "floatingip", r)
	describe := func(text string) answer {
		t.Helper()
		return c.tenant.do(t, "PUT", floatingPath+"/"+id(r), object{"floatingip": object{"description": text}},
			ifRevision(now)...)
	}
	marked := describe("theirs [owner=a/b]").must(t, http.StatusOK).part(t, "floatingip")
	wantFields(t, marked, object{"description": "theirs [owner=a/b]", "port_id": nil,
		"floating_ip_address": r["floating_ip_address"]})
	describe("theirs [owner=a/c]").refuses(t, refusal{Status: 412, Type: "RevisionNumberConstraintFailed"})
}
