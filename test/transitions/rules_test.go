package transitions

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// What an object has been through shows in its state by the rules of this file alone. Each is documented, in
// docs/network.md or docs/networkport.md, and each says how the direct way differs from declaring the same specs.

// madeNetwork and madePort are an object of a realm, and what is in Neutron for it.
type madeNetwork struct {
	slot
	object   cloudteamv1.Network
	resource resource   // nil if there is none
	subnets  []resource // all that are on it
	router   resource   // its own; nil if there is none
}

type madePort struct {
	around *scenery
	slot
	object   cloudteamv1.NetworkPort
	resource resource // nil if there is none
	on       *madeNetwork
}

// inventory gives the objects of a realm with what is in Neutron for them.
func (s *sequence) inventory(t *rapid.T, r realm) (networks []*madeNetwork, ports []*madePort) {
	t.Helper()
	all := s.everything(t)
	first := func(collection, uid string) resource {
		if ours := all.of(s.world, uid)[collection]; len(ours) > 0 {
			return ours[0]
		}
		return nil
	}
	for _, n := range s.networks(t, r) {
		at := slot{slices.Index(r.namespaces[:], n.Namespace), n.Name}
		made := &madeNetwork{
			slot: at, object: n, resource: first("networks", string(n.UID)), router: first("routers", string(n.UID)),
		}
		if n.Observes() {
			for _, observed := range all["networks"] {
				if observed.ID() == n.Spec.Import.ID {
					made.resource = observed
				}
			}
		}
		for _, subnet := range all["subnets"] {
			if made.resource != nil && subnet["network_id"] == made.resource["id"] {
				made.subnets = append(made.subnets, subnet)
			}
		}
		networks = append(networks, made)
	}
	for _, p := range s.ports(t, r) {
		at := slot{slices.Index(r.namespaces[:], p.Namespace), p.Name}
		made := &madePort{s.around, at, p, first("ports", string(p.UID)), nil}
		if i := slices.IndexFunc(networks, func(n *madeNetwork) bool { return r.key(n.slot) == p.Network() }); i >= 0 {
			made.on = networks[i]
		}
		ports = append(ports, made)
	}
	return networks, ports
}

// beginning is the spec with which the direct way to a Network begins, of the realm reached. A port keeps what its
// Network gave it when it was made:
//
//   - its place, where its namespace was allowed then;
//   - its port security, for which the Network's is no more than a default;
//   - its address, be it that of a later gateway: the NetworkPort's spec is invalid then, and nothing is done any more;
//   - its address, be it in a first subnet that is kept for others by now. (Another is so from the beginning.)
//
// A network keeps how it was made: what was taken out of provider and availabilityZoneHints. One that is imported comes
// to its router after that.
func beginning(n *madeNetwork, ports []*madePort) cloudteamv1.NetworkSpec {
	spec := *n.object.Spec.DeepCopy()
	if spec.Import != nil && !spec.Import.Overwrite {
		spec.Router = nil // It would be something in which the network to import differs.
	}
	if spec.Import == nil && n.resource != nil {
		made := n.resource.Text("provider:network_type")
		if spec.Provider == nil && made != defaultNetworkType {
			met.Count("a provider that was kept")
			spec.Provider = &cloudteamv1.ProviderSpec{NetworkType: cloudteamv1.ProviderNetworkType(made)}
		}
		hints := asSet(n.resource["availability_zone_hints"])
		if len(spec.AvailabilityZoneHints) == 0 && len(hints) > 0 {
			met.Count("zones that were kept")
			spec.AvailabilityZoneHints = hints
		}
	}
	for _, p := range ports {
		if p.on != n || p.resource == nil {
			continue
		}
		allowed := p.home == n.home || slices.Contains(spec.AllowedNamespaces, "*") ||
			slices.Contains(spec.AllowedNamespaces, p.object.Namespace)
		if !allowed {
			met.Count("a port of a namespace that is no longer allowed")
			spec.AllowedNamespaces = []string{"*"}
		}
		if n.object.Observes() {
			continue // What it declares decides nothing.
		}
		// One that has none, and of which security groups are declared later, could not be made so.
		hadSecurity := p.resource["port_security_enabled"] == true || p.object.Spec.SecurityGroups != nil
		if hadSecurity && spec.PortSecurity != nil {
			spec.PortSecurity = new(true)
		}
		if p.invalid() {
			met.Count("a port of a NetworkPort that became invalid")
			spec.Gateway = cloudteamv1.GatewayNone
			if spec.Router != nil {
				spec.Router.Routes = nil // A router without the gateway's address may reach no next hop.
			}
		}
		if len(spec.ServiceTypes) > 0 && p.inFirst() {
			met.Count("a port in a subnet that is kept for others")
			spec.ServiceTypes, spec.ReservedFor = nil, nil
		}
	}
	return spec
}

// inFirst reports whether a port has an address in the first subnet of its Network.
func (p *madePort) inFirst() bool {
	fixed, _ := p.resource["fixed_ips"].([]any)
	return slices.ContainsFunc(p.on.subnets, func(subnet resource) bool {
		return p.around.isOf(subnet, p.on.object.Spec.SubnetSpec) && slices.ContainsFunc(fixed, func(a any) bool {
			return a.(map[string]any)["subnet_id"] == subnet["id"]
		})
	})
}

// excluded reports whether a port came to its Network when the first subnet was for others already, beside others,
// maybe, that have addresses in it from before.
func (p *madePort) excluded() bool {
	return p.on != nil && p.resource != nil && !p.on.object.Observes() && len(p.on.object.Spec.ServiceTypes) > 0 &&
		!p.inFirst()
}

// isOfAnotherKind reports whether the Network's own router is not of the kind that is declared.
func (n *madeNetwork) isOfAnotherKind() bool {
	declared := n.object.Spec.Router
	if declared == nil || n.router == nil {
		return false
	}
	differs := func(declared *bool, is any) bool { return declared != nil && is != *declared }
	return differs(declared.HA, n.router[kindHA]) || differs(declared.Distributed, n.router[kindDistributed])
}

// defaultNetworkType is what a network is made as where its spec does not say.
const defaultNetworkType = "vxlan"

// invalid reports whether nothing is done about a NetworkPort.
func (p *madePort) invalid() bool { return p.is(cloudteamv1.ReasonInvalidSpec) }

// is reports whether Ready has the reason.
func (p *madePort) is(reason string) bool {
	ready := meta.FindStatusCondition(p.object.Status.Conditions, cloudteamv1.ConditionReady)
	return ready != nil && ready.Reason == reason
}

// keepNetwork makes a Network of the direct way what it may be where its spec leaves it open, as specs.Open says: some
// fields are as they were last declared or set, and others as others set them. keepNetwork reports whether there was
// anything to do.
func (s *sequence) keepNetwork(t *rapid.T, reached, direct *madeNetwork) bool {
	t.Helper()
	if reached.resource == nil || direct.resource == nil {
		return false
	}
	id, body := direct.resource.ID(), resource{}
	for _, field := range specs.OpenFields() {
		if !field.OfRouter {
			s.keep(t, field, reached, textsOf(reached.resource, field), textsOf(direct.resource, field), body)
		}
	}
	attributes := maps.Clone(body)
	delete(attributes, "tags")
	delete(attributes, sharedWith)
	if len(attributes) > 0 {
		expect.NoError(t, s.around.people.Update(s.ctx, "networks", id, attributes))
	}
	kept := s.keepRouter(t, reached, direct)
	if tags, differ := body["tags"].([]string); differ {
		expect.NoError(t, s.around.people.tag(s.ctx, id, tags))
	}
	if projects, differ := body[sharedWith].([]string); differ {
		expect.NoError(t, s.projectOf(reached.slot).share(s.ctx, id, projects))
	}
	return kept || len(body) > 0
}

// textsOf is an attribute, with a list of texts sorted.
func textsOf(of resource, field specs.Open) any {
	if list, isList := of[field.Attribute].([]any); isList {
		return asSet(list)
	}
	return of[field.Attribute]
}

// keep notes in body what the direct way's attribute of a field is to become, where the spec leaves it open. It holds that
// somebody asked for that.
func (s *sequence) keep(t *rapid.T, field specs.Open, reached *madeNetwork, is, would any, body resource) {
	t.Helper()
	spec := reached.object.Spec
	if _, declared := field.Declared(spec); declared || equal(is, would) {
		return
	}
	asked := s.networkPast(reached.slot).mayHave(field, spec.Import != nil)
	ask := func(value any) bool {
		return slices.ContainsFunc(asked, func(one any) bool { return equal(value, one) })
	}
	if field.Attribute == sharedWith {
		ask = func(value any) bool { return sharedOnce(value.([]string), asked) }
	}
	if !ask(is) {
		t.Fatalf("Network %s has the %s %v, which nobody asked for", reached.slot, field.Attribute, is)
	}
	body[field.Attribute] = is
	met.Count("what was kept of " + field.Attribute)
}

// equal compares what Neutron has of a field, with lists of texts by their elements.
func equal(a, b any) bool {
	list, isList := a.([]string)
	other, isOther := b.([]string)
	if isList || isOther {
		return isList && isOther && slices.Equal(list, other)
	}
	return a == b
}

// sharedOnce reports whether each project was in one of some lists. Each is a request of its own, so that a list may have
// been left half done.
func sharedOnce(projects []string, lists []any) bool {
	return !slices.ContainsFunc(projects, func(project string) bool {
		return !slices.ContainsFunc(lists, func(list any) bool { return slices.Contains(list.([]string), project) })
	})
}

// keepRouter is keepNetwork for the network's own router.
func (s *sequence) keepRouter(t *rapid.T, reached, direct *madeNetwork) bool {
	t.Helper()
	if reached.object.Spec.Router == nil || reached.router == nil || direct.router == nil {
		return false
	}
	const outside, snat = "external_gateway_info", "enable_snat"
	isOut, _ := reached.router[outside].(map[string]any)
	wouldOut, _ := direct.router[outside].(map[string]any)
	kind, way := resource{}, resource{}
	for _, field := range specs.OpenFields() {
		switch {
		case !field.OfRouter:
		case field.Attribute != snat:
			s.keep(t, field, reached, reached.router[field.Attribute], direct.router[field.Attribute], kind)
		case isOut != nil && wouldOut != nil:
			s.keep(t, field, reached, isOut[snat], wouldOut[snat], way)
		}
	}
	id, people := direct.router.ID(), s.around.people
	if len(kind) > 0 {
		// Its controller may switch it on before it is made so.
		s.await(t, func() error { return people.makeKind(s.ctx, id, kind) })
		expect.NoError(t, people.Update(s.ctx, "routers", id, resource{"admin_state_up": true}))
	}
	if len(way) > 0 {
		// The router's address outside is not compared then, either, and hidden from the states.
		way["network_id"] = wouldOut["network_id"]
		expect.NoError(t, people.Update(s.ctx, "routers", id, resource{outside: way}))
	}
	return len(kind)+len(way) > 0
}

// keepPort is keepNetwork for a port: securityGroups are not compared where the spec leaves them open, and port security
// never is. Without port security, Neutron refuses security groups.
func (s *sequence) keepPort(t *rapid.T, reached, direct *madePort) bool {
	t.Helper()
	if reached.resource == nil || direct.resource == nil || reached.invalid() {
		return false
	}
	const security, groups = "port_security_enabled", "security_groups"
	on := reached.resource[security] == true
	body := resource{}
	if on != (direct.resource[security] == true) {
		if reached.on == nil || !slices.Contains(s.networkPast(reached.on.slot).everHad(security), any(on)) {
			t.Fatalf("NetworkPort %s has the port security %t, which its Network never had", reached.slot, on)
		}
		body[security] = on
		met.Count("a port with another port security than a new one")
		body[groups] = reached.resource[groups]
	}
	is, would := asSet(reached.resource[groups]), asSet(direct.resource[groups])
	if reached.object.Spec.SecurityGroups == nil && !slices.Equal(is, would) {
		if !slices.ContainsFunc(s.portPast(reached.slot).groups, func(g []string) bool { return slices.Equal(is, g) }) {
			t.Fatalf("NetworkPort %s is in the groups %v, which nobody asked for", reached.slot, is)
		}
		body[groups] = reached.resource[groups]
		met.Count("security groups that were kept")
	}
	if len(body) == 0 {
		return false
	}
	expect.NoError(t, s.around.people.Update(s.ctx, "ports", direct.resource.ID(), body))
	return true
}

func asSet(list any) []string {
	items, _ := list.([]any)
	set := []string{}
	for _, item := range items {
		set = append(set, fmt.Sprint(item))
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// ignoreLeft leaves, of NetworkPorts that had a port when they became invalid, the spec and the conditions: nothing is
// done about them, so that whatever was last done, by whomever, stays, and the status tells what was last seen. So it is
// with those that Neutron refuses to change: it refuses a change whole, be most of it good.
func ignoreLeft(states state, ports []*madePort) {
	for _, p := range ports {
		object, exists := states["NetworkPort "+p.String()]
		if exists && p.object.Status.PortID != "" && (p.invalid() || p.is(cloudteamv1.ReasonRejected)) {
			status, _ := object["status"].(map[string]any)
			left := map[string]any{"spec": object["spec"], "conditions": status["conditions"]}
			leavesGroups := slices.Contains(p.object.Spec.IgnoreDrift, "securityGroups") ||
				p.object.Spec.DriftPolicy == cloudteamv1.DriftPolicyReport
			if p.is(cloudteamv1.ReasonRejected) && leavesGroups {
				delete(left, "conditions") // What keepPort has made of the other is left so, and not tried.
			}
			states["NetworkPort "+p.String()] = left
		}
	}
}
