package controllertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// What a test does in the cloud, as an administrator and without the Inventory's knowledge. Each function panics if
// Neutron refuses it.

// do sends a request.
func (c *Neutron) do(method, path string, body map[string]any) (answer map[string]any) {
	return c.doIn(context.Background(), method, path, body)
}

func (c *Neutron) doIn(ctx context.Context, method, path string, body map[string]any) (answer map[string]any) {
	r := client.Request{Op: "by hand", Method: method, Path: path}
	if body != nil {
		r.Body = body
	}
	if method != http.MethodDelete {
		r.Answer = &answer
	}
	if err := c.admin.Do(ctx, r); err != nil {
		panic(err)
	}
	return answer
}

// field is what a resource has in a field; nil if it does not exist.
func (c *Neutron) field(q request, field string) any {
	var answer map[string]map[string]any
	r := client.Request{Op: "by hand", Method: http.MethodGet, Path: q.collection + "/" + q.id, Answer: &answer}
	if err := c.admin.Do(context.Background(), r); err != nil {
		return nil
	}
	return answer[one(q.collection)][field]
}

// one is the name of a single resource of a collection.
func one(collection string) string {
	switch collection {
	case "qos/policies":
		return "policy"
	case "rbac-policies":
		return "rbac_policy"
	}
	return strings.ReplaceAll(strings.TrimSuffix(collection, "s"), "-", "_")
}

// put makes a resource with an id, in the test's project unless the body says otherwise.
func (c *Neutron) put(collection, id string, at time.Time, body map[string]any) {
	if len(id) > longestID && !plan.IsID(id) {
		panic("too long for an id: " + id)
	}
	if _, elsewhere := body["project_id"]; !elsewhere && collection != "security-group-rules" {
		body["project_id"] = c.project
	}
	c.doIn(as(context.Background(), id, at), http.MethodPost, collection, map[string]any{one(collection): body})
}

// edit sends what differs between two bodies of a resource.
func (c *Neutron) edit(collection, id string, was, is map[string]any) {
	changed := map[string]any{}
	for field, value := range is {
		if !reflect.DeepEqual(was[field], value) {
			changed[field] = value
		}
	}
	if len(changed) > 0 {
		c.do(http.MethodPut, collection+"/"+id, map[string]any{one(collection): changed})
	}
}

// asIfAnew has an edit send what is there already. With a description beside another attribute, that moves the revision
// in each release.
func asIfAnew(was map[string]any) {
	delete(was, "name")
	delete(was, "description")
}

// textOrNone is the JSON of a text that may be missing.
func textOrNone(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func addressOrNone(a netip.Addr) any {
	if !a.IsValid() {
		return nil
	}
	return a.String()
}

// setIf sets a field that is not nil.
func setIf[T any](body map[string]any, field string, value *T) {
	if value != nil {
		body[field] = *value
	}
}

func networkBody(n plan.ObservedNetwork) map[string]any {
	body := map[string]any{"name": n.Name, "description": n.Description, "admin_state_up": n.AdminStateUp}
	if n.MTU != 0 {
		body["mtu"] = n.MTU
	}
	if n.QoSPolicy != nil {
		body["qos_policy_id"] = textOrNone(*n.QoSPolicy)
	}
	setIf(body, "port_security_enabled", n.PortSecurity)
	setIf(body, "dns_domain", n.DNSDomain)
	setIf(body, "shared", n.Shared)
	setIf(body, "router:external", n.External)
	if n.Provider.NetworkType != "" {
		body["provider:network_type"] = n.Provider.NetworkType
	}
	if n.Provider.PhysicalNetwork != "" {
		body["provider:physical_network"] = n.Provider.PhysicalNetwork
	}
	if n.Provider.SegmentationID != 0 {
		body["provider:segmentation_id"] = n.Provider.SegmentationID
	}
	return body
}

func subnetBody(s plan.ObservedSubnet) map[string]any {
	body := map[string]any{
		"name": s.Name, "description": s.Description, "gateway_ip": addressOrNone(s.Gateway), "enable_dhcp": s.DHCP,
	}
	pools := []any{}
	for _, p := range s.Pools {
		pools = append(pools, map[string]any{"start": p.Start.String(), "end": p.End.String()})
	}
	if len(pools) > 0 {
		body["allocation_pools"] = pools
	}
	servers := []any{}
	for _, a := range s.DNSServers {
		servers = append(servers, a.String())
	}
	body["dns_nameservers"], body["host_routes"] = servers, routesBody(s.HostRoutes)
	return body
}

func routesBody(routes []plan.Route) []any {
	bodies := []any{}
	for _, r := range routes {
		bodies = append(bodies, map[string]any{"destination": r.Destination.String(), "nexthop": r.NextHop.String()})
	}
	return bodies
}

func portBody(p plan.ObservedPort) map[string]any {
	body := map[string]any{"name": p.Name, "description": p.Description, "admin_state_up": p.AdminStateUp}
	addresses := []any{}
	for _, a := range p.Addresses {
		addresses = append(addresses, map[string]any{"subnet_id": a.SubnetID, "ip_address": a.Address.String()})
	}
	if len(addresses) > 0 {
		body["fixed_ips"] = addresses
	}
	if p.MAC != "" {
		body["mac_address"] = p.MAC
	}
	if p.SecurityGroups != nil {
		body["security_groups"] = p.SecurityGroups
	}
	setIf(body, "port_security_enabled", p.PortSecurity)
	if p.QoSPolicy != nil {
		body["qos_policy_id"] = textOrNone(*p.QoSPolicy)
	}
	setIf(body, "dns_name", p.DNSName)
	if p.Router == "" {
		owner, device, _ := strings.Cut(p.Device, ", device ")
		body["device_owner"], body["device_id"] = owner, device
	}
	return body
}

func routerBody(r plan.ObservedRouter) map[string]any {
	body := map[string]any{"name": r.Name, "description": r.Description, "admin_state_up": r.AdminStateUp}
	gateway := map[string]any{}
	if r.Gateway.NetworkID != "" {
		gateway["network_id"] = r.Gateway.NetworkID
	}
	body["external_gateway_info"] = gateway
	return body
}

func ruleBody(group string, r plan.Rule) map[string]any {
	body := map[string]any{"security_group_id": group, "direction": r.Direction, "ethertype": r.EtherType}
	if r.Protocol != "" {
		body["protocol"] = r.Protocol
	}
	if r.PortMin != plan.NoPort {
		body["port_range_min"], body["port_range_max"] = r.PortMin, r.PortMax
	}
	if r.Remote.IsValid() {
		body["remote_ip_prefix"] = r.Remote.String()
	}
	if r.RemoteGroup != "" {
		body["remote_group_id"] = r.RemoteGroup
	}
	return body
}

func floatingBody(f plan.ObservedFloatingIP) map[string]any {
	body := map[string]any{"description": f.Description, "port_id": textOrNone(f.PortID)}
	if f.PortID != "" && f.Fixed.IsValid() {
		body["fixed_ip_address"] = f.Fixed.String()
	}
	return body
}

// Put adds a network with its subnets.
func (c *Neutron) Put(n plan.ObservedNetwork) { c.PutIn(c.project, n) }

// PutIn is Put for a network of any project.
func (c *Neutron) PutIn(project string, n plan.ObservedNetwork) {
	body := networkBody(n)
	body["project_id"] = project
	c.put("networks", n.ID, n.Created, body)
	for _, s := range n.Subnets {
		c.putSubnet(project, n.ID, s)
	}
	c.share(n.ID, n.Shares)
	c.tag(n.ID, n.Tags)
}

func (c *Neutron) putSubnet(project, network string, s plan.ObservedSubnet) {
	body := subnetBody(s)
	body["project_id"], body["network_id"], body["cidr"], body["ip_version"] = project, network, s.CIDR.String(), 4
	if s.CIDR.Addr().Is6() {
		body["ip_version"] = 6
	}
	if s.PoolID != "" {
		body["subnetpool_id"] = s.PoolID
	}
	c.put("subnets", s.ID, s.Created, body)
}

func (c *Neutron) share(network string, with []plan.Share) {
	for _, s := range with {
		c.put("rbac-policies", s.ID, time.Time{}, map[string]any{
			"object_type": "network", "object_id": network, "action": "access_as_shared", "target_tenant": s.Project,
		})
	}
}

func (c *Neutron) tag(network string, tags []string) {
	if len(tags) > 0 {
		c.do(http.MethodPut, "networks/"+network+"/tags", map[string]any{"tags": tags})
	}
}

// Edit changes a network.
func (c *Neutron) Edit(t *testing.T, id string, change func(*plan.ObservedNetwork)) {
	t.Helper()
	c.Rival(id, change)
}

// Rival is Edit for the functions Before and After. A change of nothing moves the revision.
func (c *Neutron) Rival(id string, change func(*plan.ObservedNetwork)) {
	all := c.Has()
	is := all[slices.IndexFunc(all, func(n plan.ObservedNetwork) bool { return n.ID == id })]
	was := is
	was.Subnets = slices.Clone(is.Subnets)
	change(&is)
	find := func(in []plan.ObservedSubnet, id string) int {
		return slices.IndexFunc(in, func(s plan.ObservedSubnet) bool { return s.ID == id })
	}
	for _, s := range was.Subnets {
		if find(is.Subnets, s.ID) < 0 {
			c.Remove(s.ID)
		}
	}
	for _, s := range is.Subnets {
		if at := find(was.Subnets, s.ID); at < 0 {
			c.putSubnet(c.project, id, s)
		} else {
			c.edit("subnets", s.ID, subnetBody(was.Subnets[at]), subnetBody(s))
		}
	}
	for _, s := range was.Shares {
		if !slices.Contains(is.Shares, s) {
			c.Remove(s.ID)
		}
	}
	had := func(s plan.Share) bool { return slices.Contains(was.Shares, s) }
	c.share(id, slices.DeleteFunc(slices.Clone(is.Shares), had))
	if !slices.Equal(was.Tags, is.Tags) {
		c.do(http.MethodPut, "networks/"+id+"/tags", map[string]any{"tags": append([]string{}, is.Tags...)})
	}
	before, after := networkBody(was), networkBody(is)
	if reflect.DeepEqual(was, is) {
		before = maps.Clone(before)
		asIfAnew(before)
	}
	c.edit("networks", id, before, after)
}

// PutPort adds a port. One with a Router becomes its interface.
func (c *Neutron) PutPort(p plan.ObservedPort) { c.PutPortIn(c.project, p) }

// PutPortIn is PutPort for a port of any project.
func (c *Neutron) PutPortIn(project string, p plan.ObservedPort) {
	body := portBody(p)
	body["network_id"], body["project_id"] = p.NetworkID, project
	c.put("ports", p.ID, p.Created, body)
	if p.Router != "" {
		c.do(http.MethodPut, "routers/"+p.Router+"/add_router_interface", map[string]any{"port_id": p.ID})
	}
}

// EditPort changes a port.
func (c *Neutron) EditPort(t *testing.T, id string, change func(*plan.ObservedPort)) {
	t.Helper()
	c.RivalPort(id, change)
}

// RivalPort is EditPort for the functions Before and After.
func (c *Neutron) RivalPort(id string, change func(*plan.ObservedPort)) {
	all := c.Ports()
	is := all[slices.IndexFunc(all, func(p plan.ObservedPort) bool { return p.ID == id })]
	was, router := portBody(is), is.Router
	change(&is)
	after := portBody(is)
	if reflect.DeepEqual(was, after) {
		asIfAnew(was)
	}
	c.edit("ports", id, was, after)
	if is.Router != router {
		c.do(http.MethodPut, "routers/"+is.Router+"/add_router_interface", map[string]any{"port_id": id})
	}
}

// PutRouter adds a router.
func (c *Neutron) PutRouter(r plan.ObservedRouter) { c.put("routers", r.ID, r.Created, routerBody(r)) }

// PutGroup adds a security group. Its rules are those of Neutron where it has none.
func (c *Neutron) PutGroup(g plan.ObservedGroup) {
	body := map[string]any{"name": g.Name, "description": g.Description}
	setIf(body, "stateful", g.Stateful)
	c.put("security-groups", g.ID, g.Created, body)
	if g.Rules != nil {
		c.editGroup(g.ID, func(is *plan.ObservedGroup) { is.Rules = g.Rules })
	}
}

// EditGroup changes a security group.
func (c *Neutron) EditGroup(t *testing.T, id string, change func(*plan.ObservedGroup)) {
	t.Helper()
	c.editGroup(id, change)
}

func (c *Neutron) editGroup(id string, change func(*plan.ObservedGroup)) {
	all := c.Groups()
	is := all[slices.IndexFunc(all, func(g plan.ObservedGroup) bool { return g.ID == id })]
	was := is
	was.Rules = slices.Clone(is.Rules)
	change(&is)
	for _, r := range was.Rules {
		if !slices.Contains(is.Rules, r) {
			c.Remove(r.ID)
		}
	}
	for _, r := range is.Rules {
		if !slices.Contains(was.Rules, r) {
			c.put("security-group-rules", r.ID, time.Time{}, ruleBody(id, r.Rule))
		}
	}
	c.edit("security-groups", id, map[string]any{"name": was.Name, "description": was.Description},
		map[string]any{"name": is.Name, "description": is.Description})
}

// PutFloatingIP adds a floating IP.
func (c *Neutron) PutFloatingIP(f plan.ObservedFloatingIP) { c.PutFloatingIPIn(c.project, f) }

// PutFloatingIPIn is PutFloatingIP for one of any project.
func (c *Neutron) PutFloatingIPIn(project string, f plan.ObservedFloatingIP) {
	body := floatingBody(f)
	body["floating_network_id"], body["project_id"] = f.NetworkID, project
	if f.Address.IsValid() {
		body["floating_ip_address"] = f.Address.String()
	}
	c.put("floatingips", f.ID, f.Created, body)
}

// TagFloatingIP sets the tags of a floating IP.
func (c *Neutron) TagFloatingIP(id string, tags ...string) {
	c.do(http.MethodPut, "floatingips/"+id+"/tags", map[string]any{"tags": append([]string{}, tags...)})
}

// EditFloatingIP changes a floating IP.
func (c *Neutron) EditFloatingIP(t *testing.T, id string, change func(*plan.ObservedFloatingIP)) {
	t.Helper()
	all := c.FloatingIPs()
	is := all[slices.IndexFunc(all, func(f plan.ObservedFloatingIP) bool { return f.ID == id })]
	was := floatingBody(is)
	change(&is)
	c.edit("floatingips", id, was, floatingBody(is))
}

// Outside makes what Everything does not show: an external network of that id and name with addresses, and a router
// that connects subnets to it.
func (c *Neutron) Outside(id string, addresses netip.Prefix, from ...string) {
	c.PutIn("p9", plan.ObservedNetwork{
		ID: id, Attributes: plan.Attributes{Name: id, AdminStateUp: true, External: new(true)},
		Subnets: []plan.ObservedSubnet{{
			ID: "sub-" + id, Subnet: plan.Subnet{CIDR: addresses, Gateway: addresses.Addr().Next()},
		}},
	})
	c.hide(id)
	if len(from) == 0 {
		return
	}
	gate := "gate-" + id
	c.PutRouter(plan.ObservedRouter{ID: gate, RouterAttributes: plan.RouterAttributes{
		AdminStateUp: true, Gateway: plan.ExternalGateway{NetworkID: id},
	}})
	for i, subnet := range from {
		of := c.do(http.MethodGet, "subnets/"+subnet, nil)["subnet"].(map[string]any)
		cidr := netip.MustParsePrefix(of["cidr"].(string))
		// An address that no test comes to. Each router has another.
		at := cidr.Addr().As4()
		at[3] = 250 - byte(len(c.wire.hidden)%50)
		face := plan.ObservedPort{ID: fmt.Sprintf("%s-%d", gate, i), NetworkID: of["network_id"].(string), Router: gate}
		face.Addresses = []plan.PortAddress{{SubnetID: subnet, Address: netip.AddrFrom4(at)}}
		c.PutPort(face)
	}
	c.hide(gate)
}

// PutPolicy adds a QoS policy whose name is its id.
func (c *Neutron) PutPolicy(id string) {
	c.put("qos/policies", id, time.Time{}, map[string]any{"name": id})
}

// PutPool adds a subnet pool whose name is its id, with prefixes of a length by default.
func (c *Neutron) PutPool(id string, of netip.Prefix, length int) {
	c.put("subnetpools", id, time.Time{}, map[string]any{
		"name": id, "prefixes": []string{of.String()}, "default_prefixlen": length,
	})
}

// Claim writes the word of a leader of another cluster with the same UID into the record of terms.
func (c *Neutron) Claim(cluster, lease string) {
	c.put("subnetpools", "term", time.Time{}, map[string]any{
		"name": "network-controller " + cluster + " " + lease, "description": "[term=9/another]",
		"prefixes": []string{"192.0.2.0/32"}, "min_prefixlen": 32, "default_prefixlen": 32,
	})
}

// hide has Everything show nothing of an id, nor of the ports that exist now and have a router.
func (c *Neutron) hide(id string) {
	c.wire.hide(id)
	for _, p := range c.Ports() {
		if p.Router != "" {
			c.wire.hide(p.ID)
		}
	}
}

// Detach takes a router's interface off, which deletes the port.
func (c *Neutron) Detach(port string) {
	all := c.Ports()
	p := all[slices.IndexFunc(all, func(p plan.ObservedPort) bool { return p.ID == port })]
	c.do(http.MethodPut, "routers/"+p.Router+"/remove_router_interface", map[string]any{"port_id": port})
}

// Remove deletes the resource with an id, and the ports and floating IPs that are in its way.
func (c *Neutron) Remove(id string) {
	for _, of := range []string{
		"ports", "security-groups", "security-group-rules", "floatingips", "subnets", "rbac-policies", "networks", "routers",
	} {
		err := c.admin.Do(context.Background(), client.Request{Op: "by hand", Method: http.MethodDelete, Path: of + "/" + id})
		refusal, refused := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			return
		case refused && refusal.Status == http.StatusNotFound:
		case refused && (of == "networks" || of == "subnets"):
			within := func(a plan.PortAddress) bool { return a.SubnetID == id }
			for _, p := range c.Ports() {
				if p.NetworkID == id || slices.ContainsFunc(p.Addresses, within) {
					c.Remove(p.ID)
				}
			}
			c.Remove(id)
			return
		default:
			panic(err)
		}
	}
}
