package transitions

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// Two Networks cannot have the same VLAN, address outside or imported network, and not the same router with the same
// subnets. So specs are drawn with names in the place of these, and each slot of each realm has others for the same name.
// An object that is created anew gets new ones: what an earlier one left in Neutron may still have the former.

// supply is what a Network of a slot may ask for, and no other.
type supply struct {
	// vlans, vnis and hosts are segmentation ids and numbers of addresses outside; hosts are the same in each external
	// network.
	vlans, vnis, hosts [2]int64
	// routers are those that exist; the zero value before they are made.
	routers [2]madeRouter
	// imported is the id of the network to import, which need not be there.
	imported string
}

// The names that are drawn.
const drawnImport = "00000000-0000-4000-8000-000000000001"

var (
	drawnVLANs   = []int64{1, 2}
	drawnVNIs    = []int64{10001, 10002}
	drawnHosts   = []int64{2, 3}
	drawnRouters = []string{"existing-1", "existing-2"}
)

// madeRouter is a router that people made. Specs name it by its name where it has been there from the beginning, else
// by its id: of names that are not there the controller remembers that for a while (internal/neutron, directory.go).
type madeRouter struct{ id, name string }

// word is what a spec says of it.
func (r madeRouter) word() string { return cmp.Or(r.name, r.id) }

// serial numbers what is supplied.
var serial atomic.Int64

// Of each kind there are far more than worlds that run at a time have, and those of a world that ended are free.
const (
	firstVLAN, vlans = 200, 3800 // below are those that the emulator gives
	firstVNI, vnis   = 1 << 20, 1 << 20
	firstHost, hosts = 16, 1000 // behind these are those that the emulator gives
)

func newSupply() *supply {
	s := &supply{imported: string(uuid.NewUUID())}
	for i := range 2 {
		number := serial.Add(1)
		s.vlans[i], s.vnis[i], s.hosts[i] = firstVLAN+number%vlans, firstVNI+number%vnis, firstHost+number%hosts
	}
	return s
}

// supplyOf is what a Network of a slot is supplied with at the time.
func (w *world) supplyOf(r realm, at slot) *supply {
	if r.supplies[at] == nil {
		r.supplies[at] = newSupply()
		r.supplies[at].routers[1] = r.named[at]
	}
	return r.supplies[at]
}

// nameRouters makes a router for each slot of a realm's, to be named by its name.
func (w *world) nameRouters(t *rapid.T, r realm) {
	t.Helper()
	for _, at := range networkSlots {
		name := fmt.Sprintf("%s-%s-%s", w.label, r.name, at)
		made := w.makeByHand(t, at, "routers", resource{"name": name})
		r.named[at] = madeRouter{made.ID(), name}
	}
}

// renew supplies a slot anew.
func (w *world) renew(r realm, at slot) {
	first := r.supplies[at] == nil
	delete(r.supplies, at)
	if s := w.supplyOf(r, at); !first {
		s.routers = [2]madeRouter{}
	}
}

// limits are those of the specs of a slot, with the names that are drawn.
func (w *world) limits(at slot) specs.Limits {
	l := w.around.limits
	project := w.homes[at]
	l.Administrator = project == adminProject
	l.VLANs, l.VNIs, l.Routers = drawnVLANs, drawnVNIs, drawnRouters
	l.ExternalNetworks = slices.Clone(l.ExternalNetworks)
	for i, e := range l.ExternalNetworks {
		for _, host := range drawnHosts {
			e.Addresses = append(e.Addresses, specs.Address(e.CIDR, int(host)))
		}
		l.ExternalNetworks[i] = e
	}
	l.Clouds, _ = w.references(project)
	return l
}

// words are what stands for each of the drawn names in a realm's slot.
func (s *supply) words(c *scenery) map[string]string {
	words := map[string]string{drawnImport: s.imported}
	for i, drawn := range drawnRouters {
		words[drawn] = s.routers[i].word()
	}
	for _, e := range c.limits.ExternalNetworks {
		for i, drawn := range drawnHosts {
			words[specs.Address(e.CIDR, int(drawn)).String()] = specs.Address(e.CIDR, int(s.hosts[i])).String()
		}
	}
	return words
}

// numbers are what stands for each of the drawn segmentation ids.
func (s *supply) numbers() map[int64]int64 {
	numbers := map[int64]int64{}
	for i := range 2 {
		numbers[drawnVLANs[i]], numbers[drawnVNIs[i]] = s.vlans[i], s.vnis[i]
	}
	return numbers
}

// replaced is a spec with other words and numbers in the place of some.
func replaced(
	spec cloudteamv1.NetworkSpec, words map[string]string, numbers map[int64]int64,
) cloudteamv1.NetworkSpec {
	spec = *spec.DeepCopy()
	replace := func(text *string) {
		if other, known := words[*text]; known {
			*text = other
		}
	}
	for i := range spec.AllowedNamespaces {
		replace(&spec.AllowedNamespaces[i])
	}
	if spec.Router != nil {
		replace(&spec.Router.Existing)
		replace(&spec.Router.ExternalIP)
	}
	if spec.Import != nil {
		replace(&spec.Import.ID)
	}
	if spec.Provider != nil && spec.Provider.SegmentationID != nil {
		if other, known := numbers[*spec.Provider.SegmentationID]; known {
			spec.Provider.SegmentationID = new(other)
		}
	}
	return spec
}

// networkSpec is a drawn spec for a realm's slot. A router that it asks for is there then.
func (w *world) networkSpec(t *rapid.T, r realm, at slot, spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
	t.Helper()
	s := w.supplyOf(r, at)
	if spec.Router != nil {
		if i := slices.Index(drawnRouters, spec.Router.Existing); i >= 0 && s.routers[i].id == "" {
			s.routers[i].id = w.makeByHand(t, at, "routers", resource{"name": "by hand"}).ID()
		}
	}
	words := s.words(w.around)
	for i, home := range homes {
		words[home] = r.namespaces[i]
	}
	return replaced(spec, words, s.numbers())
}

// drawnNetworkSpec is the spec of a realm's slot as it was drawn.
func (w *world) drawnNetworkSpec(r realm, at slot, spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
	s := w.supplyOf(r, at)
	words, numbers := map[string]string{}, map[int64]int64{}
	for drawn, is := range s.words(w.around) {
		words[is] = drawn
	}
	for drawn, is := range s.numbers() {
		numbers[is] = drawn
	}
	for i, namespace := range r.namespaces {
		words[namespace] = homes[i]
	}
	delete(words, "") // a router that was not made
	return replaced(spec, words, numbers)
}

// projectOf is the client of a member of the project of a slot.
func (w *world) projectOf(at slot) *cloud { return w.around.projects[w.homes[at]].cloud }

// makeByHand makes a resource in the project of a slot, as people do.
func (w *world) makeByHand(t *rapid.T, at slot, collection string, body resource) resource {
	t.Helper()
	made, err := w.projectOf(at).Create(w.ctx, collection, body)
	expect.NoError(t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byHand = append(w.byHand, plan.Resource{Kind: plan.Kind(harness.Singular(collection)), ID: made.ID()})
	return made
}

// offerImport draws whether a new Network of a slot may import something, and what: a network that people make now, the
// one that the slot's last Network imported, or none.
func (s *sequence) offerImport(t *rapid.T, at slot, limits specs.Limits) []specs.Import {
	t.Helper()
	past, supply := s.networkPast(at), s.supplyOf(s.reached, at)
	byHand := limits.Network().Draw(t, "by hand")
	more := rapid.Bool().Draw(t, "with another subnet")
	switch rapid.IntRange(0, 7).Draw(t, "what there is to import") {
	default:
		return nil
	case 5:
		past.imported.Subnet = byHand.SubnetSpec
		supply.imported = s.makeNetwork(t, at, resource{"name": "by hand"}, byHand.SubnetSpec, more)
		past.imported.ID = supply.imported
	case 6:
		if past.imported.ID == "" {
			return nil
		}
		supply.imported = past.imported.ID
	case 7:
		past.imported.Subnet = byHand.SubnetSpec
	}
	return []specs.Import{{ID: drawnImport, Subnet: past.imported.Subnet}}
}

// everyHost is the allocation pool with all addresses of a range that hosts can have.
func everyHost(cidr netip.Prefix) []resource {
	last := -1
	if cidr.Addr().Is4() {
		last = -2
	}
	return []resource{{"start": specs.Address(cidr, 1).String(), "end": specs.Address(cidr, last).String()}}
}

// strange is the range of a subnet that people make on a network, and that no spec declares.
var strange = netip.MustParsePrefix("198.51.100.0/25")

// makeNetwork has people make a network with a subnet, and gives its id.
func (s *sequence) makeNetwork(
	t *rapid.T, at slot, body resource, subnet cloudteamv1.SubnetSpec, more bool,
) string {
	t.Helper()
	id := s.makeByHand(t, at, "networks", body).ID()
	of := s.around.subnetBody(subnet)
	of["network_id"], of["name"] = id, "by hand, too"
	made := s.makeSubnet(t, at, of)
	if subnet.SubnetPool != "" && subnet.Gateway == cloudteamv1.GatewayNone {
		expect.NoError(t, s.around.people.Update(s.ctx, "subnets", made.ID(), resource{
			"gateway_ip": nil, "allocation_pools": everyHost(netip.MustParsePrefix(made.Text("cidr"))),
		}))
	}
	// Beside a subnet from a pool Neutron has no other of its version.
	fits := subnet.SubnetPool == "" || s.around.limits.IsIPv6(subnet)
	if more && fits && !specs.CIDR(subnet).Overlaps(strange) {
		s.makeSubnet(t, at, resource{"network_id": id, "name": "more", "ip_version": 4, "cidr": strange.String()})
	}
	return id
}

// makeSubnet has people make a subnet, which goes with its network.
func (w *world) makeSubnet(t *rapid.T, at slot, body resource) resource {
	t.Helper()
	made, err := w.projectOf(at).Create(w.ctx, "subnets", body)
	expect.NoError(t, err)
	return made
}

// subnetBody is a subnet as people would ask Neutron for it. Of one from a pool, Neutron chooses the gateway.
func (c *scenery) subnetBody(spec cloudteamv1.SubnetSpec) resource {
	body := resource{"ip_version": 4, "enable_dhcp": spec.DHCP == nil || *spec.DHCP}
	if c.limits.IsIPv6(spec) {
		body["ip_version"] = 6
	}
	if pool, from := c.limits.SubnetPool(spec.SubnetPool); from {
		body[fromPool] = pool.Names[0]
	} else {
		body["cidr"] = specs.CIDR(spec).String()
	}
	if spec.PrefixLength != nil {
		body["prefixlen"] = *spec.PrefixLength
	}
	switch {
	case spec.Gateway == "" || spec.SubnetPool != "":
	case spec.Gateway == cloudteamv1.GatewayNone:
		body["gateway_ip"] = nil
	default:
		body["gateway_ip"] = spec.Gateway
	}
	pools, routes := []resource{}, []resource{}
	for _, p := range spec.AllocationPools {
		pools = append(pools, resource{"start": p.Start, "end": p.End})
	}
	for _, r := range spec.HostRoutes {
		routes = append(routes, resource{"destination": r.Destination, "nexthop": r.NextHop})
	}
	if len(pools) > 0 {
		body["allocation_pools"] = pools
	}
	body["host_routes"], body["dns_nameservers"] = routes, append([]string{}, spec.DNSServers...)
	if spec.IPv6AddressMode != "" {
		body["ipv6_address_mode"] = spec.IPv6AddressMode
	}
	if spec.IPv6RAMode != "" {
		body["ipv6_ra_mode"] = spec.IPv6RAMode
	}
	return body
}

// likeness is some attributes of a resource.
func likeness(of resource, attributes ...string) resource {
	alike := resource{}
	for _, name := range attributes {
		alike[name] = of[name]
	}
	return alike
}

// textOf is what a description says to people, without what stands there of ownership.
func textOf(description string) string {
	text, _, _ := plan.ParseDescription(description)
	return strings.TrimSuffix(strings.TrimSuffix(text, "[imported]"), " ")
}

// copyImported makes the network that a Network of the direct way imports: as the one is that the same Network of the
// realm reached has imported, without the marks, but for what spec, with which the direct way begins, has otherwise: its
// port security, no gateway, and a first subnet for all. Where that one is gone, there is none.
func (s *sequence) copyImported(t *rapid.T, n *madeNetwork, spec cloudteamv1.NetworkSpec) {
	t.Helper()
	if spec.Import == nil || n.resource == nil {
		return
	}
	body := likeness(n.resource, "name", "admin_state_up", "mtu", "dns_domain", "port_security_enabled")
	body["description"] = textOf(n.resource.Text("description"))
	if !n.object.Observes() {
		body["port_security_enabled"] = spec.PortSecurity == nil || *spec.PortSecurity
	}
	id := s.makeByHand(t, n.slot, "networks", body).ID()
	s.supplyOf(s.direct, n.slot).imported = id
	people := s.around.people
	expect.NoError(t, people.Update(s.ctx, "networks", id, likeness(n.resource, "shared", "router:external", "qos_policy_id")))
	expect.NoError(t, s.projectOf(n.slot).share(s.ctx, id, n.resource[sharedWith].([]string)))
	expect.NoError(t, people.tag(s.ctx, id, asSet(n.resource["tags"])))
	for _, is := range n.subnets {
		like := likeness(is, "cidr", "ip_version", "gateway_ip", "enable_dhcp", "allocation_pools", "dns_nameservers",
			"host_routes", "ipv6_address_mode", "ipv6_ra_mode", "service_types", "dns_publish_fixed_ip")
		maps.DeleteFunc(like, func(name string, value any) bool { return value == nil && name != "gateway_ip" })
		if isFirst := s.around.isOf(is, spec.SubnetSpec); isFirst && !n.object.Observes() {
			if len(spec.ServiceTypes) == 0 {
				delete(like, "service_types")
			}
			if spec.Gateway == cloudteamv1.GatewayNone {
				like["gateway_ip"] = nil
				if len(spec.AllocationPools) == 0 {
					delete(like, "allocation_pools") // Neutron's own are those of the spec.
				}
			}
		}
		like["network_id"], like["name"], like["description"] = id, is["name"], textOf(is.Text("description"))
		if pool := is.Text(fromPool); pool != "" {
			s.makePooled(t, n.slot, pool, like)
		} else {
			s.makeSubnet(t, n.slot, like)
		}
	}
}

// makePooled has people make a subnet that is like another but has a range of its own from the same pool, of which
// Neutron chooses gateway and allocation pools first.
func (s *sequence) makePooled(t *rapid.T, at slot, pool string, like resource) {
	t.Helper()
	was := netip.MustParsePrefix(like.Text("cidr"))
	body := maps.Clone(like)
	for _, chosen := range []string{"cidr", "gateway_ip", "allocation_pools"} {
		delete(body, chosen)
	}
	body[fromPool], body["prefixlen"] = pool, was.Bits()
	made := s.makeSubnet(t, at, body)
	is := netip.MustParsePrefix(made.Text("cidr"))
	move := func(address any) any {
		a, err := netip.ParseAddr(fmt.Sprint(address))
		if err != nil {
			return nil // no gateway
		}
		return moved(a, is).String()
	}
	ranges := everyHost(is)
	if pools, given := like["allocation_pools"].([]any); given {
		ranges = []resource{}
		for _, p := range pools {
			of := p.(map[string]any)
			ranges = append(ranges, resource{"start": move(of["start"]), "end": move(of["end"])})
		}
	}
	expect.NoError(t, s.around.people.Update(s.ctx, "subnets", made.ID(), resource{
		"gateway_ip": move(like["gateway_ip"]), "allocation_pools": ranges,
	}))
}
