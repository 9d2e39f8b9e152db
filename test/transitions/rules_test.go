package transitions

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// What an object has been through shows in its state by the rules of this file alone. Each is documented, in
// docs/network.md or docs/networkport.md, and each says how the direct way differs from declaring the same specs.

// madeNetwork and madePort are an object of a realm, and what is in Neutron for it.
type madeNetwork struct {
	slot
	object   cloudteamv1.Network
	resource resource // nil if there is none
}

type madePort struct {
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
		networks = append(networks, &madeNetwork{at, n, first("networks", string(n.UID))})
	}
	for _, p := range s.ports(t, r) {
		at := slot{slices.Index(r.namespaces[:], p.Namespace), p.Name}
		made := &madePort{at, p, first("ports", string(p.UID)), nil}
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
//   - its address, be it that of a later gateway: the NetworkPort's spec is invalid then, and nothing is done any more.
func beginning(n *madeNetwork, ports []*madePort) cloudteamv1.NetworkSpec {
	spec := *n.object.Spec.DeepCopy()
	for _, p := range ports {
		if p.on != n || p.resource == nil {
			continue
		}
		allowed := p.home == n.home || slices.Contains(spec.AllowedNamespaces, "*") ||
			slices.Contains(spec.AllowedNamespaces, p.object.Namespace)
		if !allowed {
			met.count("a port of a namespace that is no longer allowed")
			spec.AllowedNamespaces = []string{"*"}
		}
		// One that has none, and of which security groups are declared later, could not be made so.
		hadSecurity := p.resource["port_security_enabled"] == true || p.object.Spec.SecurityGroups != nil
		if hadSecurity && spec.PortSecurity != nil {
			spec.PortSecurity = new(true)
		}
		if p.invalid() {
			met.count("a port of a NetworkPort that became invalid")
			spec.Gateway = cloudteamv1.GatewayNone
		}
	}
	return spec
}

// invalid reports whether nothing is done about a NetworkPort.
func (p *madePort) invalid() bool { return p.is(cloudteamv1.ReasonInvalidSpec) }

// is reports whether Ready has the reason.
func (p *madePort) is(reason string) bool {
	ready := meta.FindStatusCondition(p.object.Status.Conditions, cloudteamv1.ConditionReady)
	return ready != nil && ready.Reason == reason
}

// keepNetwork makes a Network of the direct way what it may be where its spec leaves it open: mtu, portSecurity,
// dnsDomain and tags are not compared then, and are as they were last declared or set. It reports whether there was
// anything to do.
func (s *sequence) keepNetwork(t *rapid.T, reached, direct *madeNetwork) bool {
	t.Helper()
	if reached.resource == nil || direct.resource == nil {
		return false
	}
	past, body := s.networkPast(reached.slot), resource{}
	if is := reached.resource["mtu"]; reached.object.Spec.MTU == nil && is != direct.resource["mtu"] {
		if !slices.ContainsFunc(past.mtus, func(mtu int) bool { return is == float64(mtu) }) {
			t.Fatalf("Network %s has the mtu %v, which nobody asked for: %v", reached.slot, is, past.mtus)
		}
		body["mtu"] = is
		met.count("an mtu that was kept")
	}
	const field = "port_security_enabled"
	if is := reached.resource[field]; reached.object.Spec.PortSecurity == nil && is != direct.resource[field] {
		if !slices.ContainsFunc(past.security, func(on bool) bool { return is == on }) {
			t.Fatalf("Network %s has the port security %v, which nobody asked for", reached.slot, is)
		}
		body[field] = is
		met.count("a port security that was kept")
	}
	if is := reached.resource["dns_domain"]; reached.object.Spec.DNSDomain == "" && is != direct.resource["dns_domain"] {
		if !slices.ContainsFunc(past.domains, func(domain string) bool { return is == domain }) {
			t.Fatalf("Network %s has the DNS domain %v, which nobody asked for", reached.slot, is)
		}
		body["dns_domain"] = is
		met.count("a DNS domain that was kept")
	}
	kept := len(body) > 0
	if kept {
		must(t, surroundings.tenant.update(s.ctx, "networks", direct.resource.text("id"), body))
	}
	is, would := asSet(reached.resource["tags"]), asSet(direct.resource["tags"])
	if reached.object.Spec.Tags == nil && !slices.Equal(is, would) {
		if !slices.ContainsFunc(past.tags, func(tags []string) bool { return slices.Equal(is, tags) }) {
			t.Fatalf("Network %s has the tags %v, which nobody asked for", reached.slot, is)
		}
		must(t, surroundings.tenant.tag(s.ctx, direct.resource.text("id"), is))
		met.count("tags that were kept")
		kept = true
	}
	return kept
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
		if reached.on == nil || !slices.Contains(s.networkPast(reached.on.slot).security, on) {
			t.Fatalf("NetworkPort %s has the port security %t, which its Network never had", reached.slot, on)
		}
		body[security] = on
		met.count("a port with another port security than a new one")
		body[groups] = reached.resource[groups]
	}
	is, would := asSet(reached.resource[groups]), asSet(direct.resource[groups])
	if reached.object.Spec.SecurityGroups == nil && !slices.Equal(is, would) {
		if !slices.ContainsFunc(s.portPast(reached.slot).groups, func(g []string) bool { return slices.Equal(is, g) }) {
			t.Fatalf("NetworkPort %s is in the groups %v, which nobody asked for", reached.slot, is)
		}
		body[groups] = reached.resource[groups]
		met.count("security groups that were kept")
	}
	if len(body) == 0 {
		return false
	}
	must(t, surroundings.tenant.update(s.ctx, "ports", direct.resource.text("id"), body))
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
		if exists && p.object.Status.PortID != "" && (p.invalid() || p.is(cloudteamv1.ReasonRefused)) {
			status, _ := object["status"].(map[string]any)
			states["NetworkPort "+p.String()] = map[string]any{"spec": object["spec"], "conditions": status["conditions"]}
		}
	}
}
