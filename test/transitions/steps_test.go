package transitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// slot is a name under which objects come and go.
type slot struct {
	// home is the number of the namespace in its realm.
	home int
	name string
}

func (s slot) String() string { return homes[s.home] + "/" + s.name }

// Few enough that they meet.
var (
	networkSlots = []slot{{0, "a"}, {0, "b"}, {1, "a"}}
	portSlots    = []slot{{0, "p"}, {0, "q"}, {1, "p"}}
)

// history is what became of the objects of a slot in the reached realm.
type history struct {
	// cidr is that of the last Network that was declared; the zero Prefix before the first.
	cidr netip.Prefix
	// on is where the last NetworkPort that was declared is.
	on specs.Place
	// mtus, security, domains, tags and groups are what mtu, portSecurity, dnsDomain, tags and securityGroups were at any
	// time, by declaration or by others' hands.
	mtus     []int
	security []bool
	domains  []string
	tags     [][]string
	groups   [][]string
	// meddled is whether others changed what is in Neutron.
	meddled bool
}

// sequence is a world in the making of its reached realm. Its methods with a *rapid.T alone are steps.
type sequence struct {
	*world
	past map[string]*history
}

func newSequence(w *world) *sequence {
	s := &sequence{world: w, past: map[string]*history{}}
	for _, n := range networkSlots {
		s.past["Network "+n.String()] = &history{
			mtus: []int{int(surroundings.limits.MaxMTU)}, security: []bool{true}, domains: []string{""}, tags: [][]string{{}},
		}
	}
	for _, p := range portSlots {
		s.past["NetworkPort "+p.String()] = &history{groups: [][]string{{}, surroundings.limits.SecurityGroups[:1]}}
	}
	return s
}

func (s *sequence) networkPast(n slot) *history { return s.past["Network "+n.String()] }
func (s *sequence) portPast(p slot) *history    { return s.past["NetworkPort "+p.String()] }

// steps are all that may happen, each drawn as often as another. Most are nothing where there is nothing, so that there
// are more of those that make something.
func (s *sequence) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"declare a network":        s.declareNetwork,
		"declare a network, again": s.declareNetwork,
		"declare a network, anew":  s.declareNetwork,
		"declare a port":           s.declarePort,
		"declare a port, again":    s.declarePort,
		"declare a port, anew":     s.declarePort,
		"delete a network":         s.deleteNetwork,
		"delete a port":            s.deletePort,
		"others change a network":  s.meddleWithNetwork,
		"others change a subnet":   s.meddleWithSubnet,
		"others change a port":     s.meddleWithPort,
		"others delete something": func(t *rapid.T) {
			[]func(*rapid.T){s.removePort, s.removeSubnet, s.removeNetwork}[rapid.IntRange(0, 2).Draw(t, "what")](t)
		},
		"wait": s.settle,
	}
}

// resolve writes a realm's namespaces in the place of the names for which a spec was drawn.
func (r realm) resolve(name string) string {
	if at := slices.Index(homes[:], name); at >= 0 {
		return r.namespaces[at]
	}
	return name
}

func (r realm) networkSpec(spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
	spec = *spec.DeepCopy()
	for i, name := range spec.AllowedNamespaces {
		spec.AllowedNamespaces[i] = r.resolve(name)
	}
	return spec
}

func (r realm) portSpec(spec cloudteamv1.NetworkPortSpec) cloudteamv1.NetworkPortSpec {
	spec = *spec.DeepCopy()
	spec.NetworkNamespace = r.resolve(spec.NetworkNamespace)
	return spec
}

// drawn writes back the names for which a spec of the realm was drawn.
func (r realm) drawn(namespace string) string {
	if at := slices.Index(r.namespaces[:], namespace); at >= 0 {
		return homes[at]
	}
	return namespace
}

func (r realm) drawnNetworkSpec(spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
	spec = *spec.DeepCopy()
	for i, name := range spec.AllowedNamespaces {
		spec.AllowedNamespaces[i] = r.drawn(name)
	}
	return spec
}

func (r realm) drawnPortSpec(spec cloudteamv1.NetworkPortSpec) cloudteamv1.NetworkPortSpec {
	spec = *spec.DeepCopy()
	spec.NetworkNamespace = r.drawn(spec.NetworkNamespace)
	return spec
}

func (w *world) meta(r realm, s slot) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: r.namespaces[s.home], Name: s.name, Labels: map[string]string{worldLabel: w.label},
	}
}

// replaceSpec is a JSON patch that puts a spec into the place of whatever is there.
func replaceSpec(t *rapid.T, spec any) []byte {
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": spec}})
	must(t, err)
	return patch
}

func (w *world) getNetwork(t *rapid.T, r realm, s slot) (*cloudteamv1.Network, bool) {
	t.Helper()
	n, err := w.client.CloudteamV1().Networks(r.namespaces[s.home]).Get(w.ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	must(t, err)
	return n, true
}

func (w *world) getPort(t *rapid.T, r realm, s slot) (*cloudteamv1.NetworkPort, bool) {
	t.Helper()
	p, err := w.client.CloudteamV1().NetworkPorts(r.namespaces[s.home]).Get(w.ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	must(t, err)
	return p, true
}

// putNetwork creates or edits a Network. It reports whether the API server took the spec, and holds that it refuses
// just what it should.
func (w *world) putNetwork(t *rapid.T, r realm, s slot, spec cloudteamv1.NetworkSpec) bool {
	t.Helper()
	client := w.client.CloudteamV1().Networks(r.namespaces[s.home])
	for {
		was, exists := w.getNetwork(t, r, s)
		if !exists {
			_, err := client.Create(w.ctx, &cloudteamv1.Network{ObjectMeta: w.meta(r, s), Spec: spec}, metav1.CreateOptions{})
			must(t, err)
			return true
		}
		is, err := client.Patch(w.ctx, s.name, types.JSONPatchType, replaceSpec(t, spec), metav1.PatchOptions{})
		fixed := netip.MustParsePrefix(was.Spec.CIDR) == netip.MustParsePrefix(spec.CIDR) &&
			was.Spec.IPv6AddressMode == spec.IPv6AddressMode && was.Spec.IPv6RAMode == spec.IPv6RAMode
		switch {
		case apierrors.IsNotFound(err): // it has just gone
		case apierrors.IsInvalid(err) && !fixed:
			return false
		case err != nil || !fixed:
			t.Fatalf("Network %s from %+v to %+v: the API server says %v", s, was.Spec, spec, err)
		default:
			if is.DeletionTimestamp != nil {
				w.goes(is.UID, is.Spec.DeletionPolicy)
			}
			return true
		}
	}
}

// putPort creates or edits a NetworkPort, as putNetwork does.
func (w *world) putPort(t *rapid.T, r realm, s slot, spec cloudteamv1.NetworkPortSpec) bool {
	t.Helper()
	client := w.client.CloudteamV1().NetworkPorts(r.namespaces[s.home])
	for {
		was, exists := w.getPort(t, r, s)
		if !exists {
			_, err := client.Create(w.ctx,
				&cloudteamv1.NetworkPort{ObjectMeta: w.meta(r, s), Spec: spec}, metav1.CreateOptions{})
			must(t, err)
			return true
		}
		_, err := client.Patch(w.ctx, s.name, types.JSONPatchType, replaceSpec(t, spec), metav1.PatchOptions{})
		fixed := sameFixed(was.Spec, spec)
		switch {
		case apierrors.IsNotFound(err): // it has just gone
		case apierrors.IsInvalid(err) && !fixed:
			return false
		case err != nil || !fixed:
			t.Fatalf("NetworkPort %s from %+v to %+v: the API server says %v", s, was.Spec, spec, err)
		default:
			return true
		}
	}
}

// sameFixed reports whether what cannot change of a NetworkPort is the same, however it is spelled.
func sameFixed(a, b cloudteamv1.NetworkPortSpec) bool {
	addresses := func(s cloudteamv1.NetworkPortSpec) (all []netip.Addr) {
		for _, text := range s.Addresses {
			all = append(all, netip.MustParseAddr(text))
		}
		slices.SortFunc(all, netip.Addr.Compare)
		return all
	}
	return a.NetworkName == b.NetworkName && a.NetworkNamespace == b.NetworkNamespace &&
		strings.EqualFold(a.MAC, b.MAC) && slices.Equal(addresses(a), addresses(b))
}

// goes notes a policy under which an object of a UID is being deleted.
func (w *world) goes(uid types.UID, policy cloudteamv1.DeletionPolicy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[uid] = append(w.ended[uid], policy)
}

// tooLarge is an MTU that the API server takes and the cloud refuses.
const tooLarge = 9000

func (s *sequence) declareNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	limits, past := surroundings.limits, s.networkPast(at)
	was, exists := s.getNetwork(t, s.reached, at)
	var spec cloudteamv1.NetworkSpec
	if exists {
		spec = limits.NetworkEdit(s.reached.drawnNetworkSpec(was.Spec)).Draw(t, "spec")
		if rapid.IntRange(0, 7).Draw(t, "with a port's address for the gateway") == 7 {
			s.giveGateway(t, at, &spec)
		}
	} else {
		spec = limits.Network().Draw(t, "spec")
	}
	if rapid.IntRange(0, 9).Draw(t, "an mtu that the cloud refuses") == 9 {
		spec.MTU = new(int32(tooLarge))
	}
	spec.IgnoreDrift = nil // what is ignored would not come to what the spec says
	t.Logf("declare Network %s: %s", at, asJSON(spec))
	if !s.putNetwork(t, s.reached, at, s.reached.networkSpec(spec)) {
		return
	}
	past.cidr = netip.MustParsePrefix(spec.CIDR)
	if spec.MTU != nil {
		past.mtus = append(past.mtus, int(*spec.MTU))
	}
	if spec.PortSecurity != nil {
		past.security = append(past.security, *spec.PortSecurity)
	}
	switch spec.DNSDomain {
	case "":
	case cloudteamv1.DNSDomainNone:
		past.domains = append(past.domains, "")
	default:
		past.domains = append(past.domains, strings.ToLower(spec.DNSDomain))
	}
	if spec.Tags != nil {
		past.tags = append(past.tags, slices.Sorted(slices.Values(spec.Tags)))
	}
}

// giveGateway makes the address of a port on the Network its gateway, where there is one.
func (s *sequence) giveGateway(t *rapid.T, at slot, spec *cloudteamv1.NetworkSpec) {
	t.Helper()
	for _, p := range s.ports(t, s.reached) {
		for _, a := range p.Status.Addresses {
			address := netip.MustParsePrefix(a.Address).Addr()
			if p.Network() == s.reached.key(at) && netip.MustParsePrefix(spec.CIDR).Contains(address) {
				spec.Gateway, spec.AllocationPools = address.String(), nil
			}
		}
	}
}

func (s *sequence) declarePort(t *rapid.T) {
	number := rapid.IntRange(0, len(portSlots)-1).Draw(t, "port")
	at := portSlots[number]
	limits, past := surroundings.limits, s.portPast(at)
	// As a rule one that was declared, and in the port's own namespace.
	anywhere := rapid.IntRange(0, 3).Draw(t, "anywhere")
	known := slices.DeleteFunc(slices.Clone(networkSlots), func(n slot) bool {
		return !s.networkPast(n).cidr.IsValid() || anywhere < 2 && n.home != at.home
	})
	if len(known) == 0 || anywhere == 3 {
		known = networkSlots
	}
	on := rapid.SampledFrom(known).Draw(t, "on")
	was, exists := s.getPort(t, s.reached, at)
	var spec cloudteamv1.NetworkPortSpec
	place := specs.Place{
		Namespace: homes[at.home], NetworkNamespace: homes[on.home], NetworkName: on.name,
		CIDR: s.networkPast(on).cidr, Number: number,
	}
	if exists {
		spec = limits.NetworkPortEdit(place, s.reached.drawnPortSpec(was.Spec)).Draw(t, "spec")
	} else {
		spec = limits.NetworkPort(place).Draw(t, "spec")
	}
	// A port that is retained would keep its Network from going, and one that may differ from its spec
	// would not come to what it says.
	spec.DeletionPolicy, spec.DriftPolicy, spec.IgnoreDrift = "", "", nil
	t.Logf("declare NetworkPort %s: %s", at, asJSON(spec))
	if !s.putPort(t, s.reached, at, s.reached.portSpec(spec)) {
		return
	}
	past.on = place
	if spec.SecurityGroups != nil {
		past.groups = append(past.groups, slices.Sorted(slices.Values(spec.SecurityGroups)))
	}
}

func (s *sequence) deleteNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	wait := rapid.Bool().Draw(t, "wait")
	n, exists := s.getNetwork(t, s.reached, at)
	if !exists {
		return
	}
	t.Logf("delete Network %s", at)
	s.goes(n.UID, n.Spec.DeletionPolicy)
	err := s.client.CloudteamV1().Networks(n.Namespace).Delete(s.ctx, n.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	used := slices.ContainsFunc(s.ports(t, s.reached), func(p cloudteamv1.NetworkPort) bool {
		return p.Network() == s.reached.key(at)
	})
	if wait && !used {
		s.await(t, func() error {
			if is, exists := s.getNetwork(t, s.reached, at); exists && is.UID == n.UID {
				return fmt.Errorf("Network %s is still there: %+v", at, is.Status.Conditions)
			}
			return nil
		})
	}
}

func (s *sequence) deletePort(t *rapid.T) {
	at := rapid.SampledFrom(portSlots).Draw(t, "port")
	wait := rapid.Bool().Draw(t, "wait")
	p, exists := s.getPort(t, s.reached, at)
	if !exists {
		return
	}
	t.Logf("delete NetworkPort %s", at)
	s.endPort(t, p)
	if wait {
		s.await(t, func() error {
			if is, exists := s.getPort(t, s.reached, at); exists && is.UID == p.UID {
				return fmt.Errorf("NetworkPort %s is still there: %+v", at, is.Status.Conditions)
			}
			return nil
		})
	}
}

func (w *world) endPort(t *rapid.T, p *cloudteamv1.NetworkPort) {
	t.Helper()
	w.goes(p.UID, cloudteamv1.DeletionPolicyDelete)
	err := w.client.CloudteamV1().NetworkPorts(p.Namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// of finds what bears an object's marker in a collection of Neutron's, one of it: which one says the number.
func (w *world) of(t *rapid.T, collection string, uid types.UID, which int) (resource, bool) {
	t.Helper()
	all, err := surroundings.tenant.list(w.ctx, collection, "")
	must(t, err)
	all = slices.DeleteFunc(all, func(r resource) bool { return r.owner(w.cluster) != string(uid) })
	if len(all) == 0 {
		return nil, false
	}
	slices.SortStableFunc(all, func(a, b resource) int { return cmp.Compare(a.text("cidr"), b.text("cidr")) })
	return all[which%len(all)], true
}

// meddle has others do something to what a Network has in a collection, unless there is nothing yet or any more, or
// Neutron refuses.
func (s *sequence) meddle(t *rapid.T, at slot, collection string, what string, do func(r resource) error) {
	which := rapid.IntRange(0, 3).Draw(t, "which of the "+collection)
	n, exists := s.getNetwork(t, s.reached, at)
	if !exists {
		return
	}
	r, exists := s.of(t, collection, n.UID, which)
	if !exists {
		return
	}
	s.networkPast(at).meddled = true
	t.Logf("others %s of Network %s: %v", what, at, do(r))
}

func (s *sequence) meddleWithNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	mtu := rapid.SampledFrom([]int{1450, 1449, 1300, 1280}).Draw(t, "mtu")
	security := rapid.Bool().Draw(t, "port security")
	body := rapid.SampledFrom([]resource{
		{"name": "renamed"}, {"admin_state_up": false}, {"mtu": mtu}, {"port_security_enabled": security},
		{"name": "renamed", "mtu": mtu, "port_security_enabled": security}, {"description": ""},
		{"dns_domain": "others.example."}, {"tags": []string{"others'"}},
	}).Draw(t, "body")
	past := s.networkPast(at)
	if tags, tagged := body["tags"].([]string); tagged {
		s.meddle(t, at, "networks", "tag the network", func(r resource) error {
			past.tags = append(past.tags, tags)
			return surroundings.tenant.tag(s.ctx, r.text("id"), tags)
		})
		return
	}
	s.meddle(t, at, "networks", "set "+asJSON(body), func(r resource) error {
		if _, sets := body["mtu"]; sets {
			past.mtus = append(past.mtus, mtu)
		}
		if _, sets := body["port_security_enabled"]; sets {
			past.security = append(past.security, security)
		}
		if domain, sets := body["dns_domain"].(string); sets {
			past.domains = append(past.domains, domain)
		}
		return surroundings.tenant.update(s.ctx, "networks", r.text("id"), s.marked(t, at, body))
	})
}

// marked leaves the marker in a description that others write.
func (s *sequence) marked(t *rapid.T, at slot, body resource) resource {
	if _, describes := body["description"]; !describes {
		return body
	}
	n, exists := s.getNetwork(t, s.reached, at)
	if !exists {
		return resource{"name": "renamed"}
	}
	return resource{"description": s.owner(n.UID).Describe("others' text")}
}

func (w *world) owner(uid types.UID) network.Owner {
	return network.Owner{Cluster: w.cluster, Object: string(uid)}
}

func (s *sequence) meddleWithSubnet(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	what := rapid.IntRange(0, 6).Draw(t, "what")
	s.meddle(t, at, "subnets", fmt.Sprintf("set (%d) a subnet's settings", what), func(r resource) error {
		cidr := netip.MustParsePrefix(r.text("cidr"))
		server, hop, to := "9.9.9.9", "192.0.2.9", "198.51.100.0/24"
		if cidr.Addr().Is6() {
			server, hop, to = "fd00::9", "fd00::9", "2001:db8:9::/48"
		}
		body := []resource{
			{"name": "renamed"}, {"description": ""}, {"gateway_ip": nil}, {"enable_dhcp": false},
			{"dns_nameservers": []string{server}}, {"host_routes": []resource{{"destination": to, "nexthop": hop}}},
			{"gateway_ip": nil, "allocation_pools": []resource{{
				"start": specs.Address(cidr, 2).String(), "end": specs.Address(cidr, 12).String(),
			}}},
		}[what]
		return surroundings.tenant.update(s.ctx, "subnets", r.text("id"), s.marked(t, at, body))
	})
}

func (s *sequence) removeNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	s.meddle(t, at, "networks", "delete the network", func(r resource) error {
		ports, err := surroundings.tenant.list(s.ctx, "ports", "network_id="+r.text("id"))
		must(t, err)
		for _, p := range ports {
			_ = surroundings.tenant.remove(s.ctx, "ports", p.text("id")) // the next one tells
		}
		return surroundings.tenant.remove(s.ctx, "networks", r.text("id"))
	})
}

func (s *sequence) removeSubnet(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	s.meddle(t, at, "subnets", "delete the subnet", func(r resource) error {
		return surroundings.tenant.remove(s.ctx, "subnets", r.text("id"))
	})
}

// meddleWithOnePort is meddle for what a NetworkPort has.
func (s *sequence) meddleWithOnePort(t *rapid.T, at slot, what string, do func(id string) error) {
	p, exists := s.getPort(t, s.reached, at)
	if !exists {
		return
	}
	r, exists := s.of(t, "ports", p.UID, 0)
	if !exists {
		return
	}
	s.portPast(at).meddled = true
	t.Logf("others %s of NetworkPort %s: %v", what, at, do(r.text("id")))
}

func (s *sequence) meddleWithPort(t *rapid.T) {
	number := rapid.IntRange(0, len(portSlots)-1).Draw(t, "port")
	at := portSlots[number]
	past := s.portPast(at)
	groups := rapid.SliceOfNDistinct(rapid.SampledFrom(surroundings.limits.SecurityGroups), 0, 3, rapid.ID).Draw(t, "groups")
	bodies := []resource{
		{"name": "renamed"}, {"admin_state_up": false}, {"security_groups": groups},
		{"mac_address": fmt.Sprintf("fa:16:3e:00:00:%02x", number)}, {"fixed_ips": []resource{}},
	}
	if past.on.CIDR.IsValid() {
		place := past.on
		place.Number = number
		bodies = append(bodies, resource{"fixed_ips": []resource{
			{"ip_address": surroundings.limits.Named(place, 3).String()},
		}})
	}
	what := rapid.IntRange(0, 5).Draw(t, "what")
	body := bodies[min(what, len(bodies)-1)]
	s.meddleWithOnePort(t, at, "set "+asJSON(body), func(id string) error {
		if _, sets := body["security_groups"]; sets {
			past.groups = append(past.groups, slices.Sorted(slices.Values(groups)))
		}
		return surroundings.admin.update(s.ctx, "ports", id, body)
	})
}

func (s *sequence) removePort(t *rapid.T) {
	at := rapid.SampledFrom(portSlots).Draw(t, "port")
	s.meddleWithOnePort(t, at, "delete the port", func(id string) error {
		return surroundings.tenant.remove(s.ctx, "ports", id)
	})
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
