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

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
	// cidr is that of the last Network that was declared, the zero Prefix where Neutron chose it; any before the first.
	cidr netip.Prefix
	// declared is whether there was a Network.
	declared bool
	// on is where the last NetworkPort that was declared is.
	on specs.Place
	// groups are what securityGroups of a NetworkPort were at any time, by declaration or by others' hands.
	groups [][]string
	// byOthers and bySpecs are what the fields that a Network's spec may leave open were at any time, by whom: Neutron's
	// attributes, as specs.Open has them. What the cloud chose is by others.
	byOthers, bySpecs map[string][]any
	// imported is the network that people made last for a Network to import.
	imported specs.Import
	// meddled is whether others changed what is in Neutron.
	meddled bool
}

// declares notes what a spec says of the fields that it may leave open.
func (h *history) declares(spec cloudteamv1.NetworkSpec) {
	for _, field := range specs.OpenFields() {
		if value, declared := field.Declared(spec); declared {
			h.bySpecs[field.Attribute] = append(h.bySpecs[field.Attribute], value)
		}
	}
}

// setByOthers notes attributes that others set.
func (h *history) setByOthers(body resource) {
	for _, field := range specs.OpenFields() {
		value, sets := body[field.Attribute]
		if number, isInt := value.(int); isInt {
			value = float64(number) // as Neutron answers
		}
		if sets {
			h.byOthers[field.Attribute] = append(h.byOthers[field.Attribute], value)
		}
	}
}

// everHad are all values that an attribute had.
func (h *history) everHad(attribute string) []any {
	return slices.Concat(h.byOthers[attribute], h.bySpecs[attribute])
}

// mayHave are those that it may have where a spec leaves its field open. A network that is imported may come from another
// object, whose spec set it.
func (h *history) mayHave(field specs.Open, imported bool) []any {
	if field.TakenBack && !imported {
		return h.byOthers[field.Attribute]
	}
	return h.everHad(field.Attribute)
}

// sequence is a world in the making of its reached realm. Its methods with a *rapid.T alone are steps.
type sequence struct {
	*world
	past map[string]*history
}

func newSequence(w *world) *sequence {
	s := &sequence{world: w, past: map[string]*history{}}
	for _, n := range networkSlots {
		past := &history{
			cidr: netip.MustParsePrefix("10.0.0.0/24"), bySpecs: map[string][]any{},
			byOthers: map[string][]any{"mtu": {float64(largestMTU), float64(largestMTUOfVLAN)}},
		}
		for _, field := range specs.OpenFields() {
			past.byOthers[field.Attribute] = append(past.byOthers[field.Attribute], field.Initially...)
		}
		s.past["Network "+n.String()] = past
	}
	for _, p := range portSlots {
		past := &history{groups: [][]string{{}}}
		for _, group := range w.around.limits.SecurityGroups { // each is some project's own
			past.groups = append(past.groups, []string{group})
		}
		s.past["NetworkPort "+p.String()] = past
	}
	return s
}

// The MTUs that the cloud chooses.
const largestMTU, largestMTUOfVLAN = neutrontest.DefaultMaxMTU, neutrontest.DefaultMaxMTU + 50

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
		"others change a router":   s.meddleWithRouter,
		"pause something":          s.pause,
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
	expect.NoError(t, err)
	return patch
}

func (w *world) getNetwork(t *rapid.T, r realm, s slot) (*cloudteamv1.Network, bool) {
	t.Helper()
	n, err := w.client.CloudteamV1().Networks(r.namespaces[s.home]).Get(w.ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	expect.NoError(t, err)
	return n, true
}

func (w *world) getPort(t *rapid.T, r realm, s slot) (*cloudteamv1.NetworkPort, bool) {
	t.Helper()
	p, err := w.client.CloudteamV1().NetworkPorts(r.namespaces[s.home]).Get(w.ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	expect.NoError(t, err)
	return p, true
}

// createNetwork creates a Network of which there is none.
func (w *world) createNetwork(t *rapid.T, r realm, s slot, spec cloudteamv1.NetworkSpec) {
	t.Helper()
	object := &cloudteamv1.Network{ObjectMeta: w.meta(r, s), Spec: spec}
	_, err := w.client.CloudteamV1().Networks(object.Namespace).Create(w.ctx, object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("Network %s as %s: the API server says %v", s, asJSON(spec), err)
	}
}

// editNetwork edits a Network. It reports whether the API server took the spec, and holds that it refuses just what it
// should. One that has just gone is not made anew: what there is to ask for was another's.
func (w *world) editNetwork(t *rapid.T, r realm, s slot, spec cloudteamv1.NetworkSpec) bool {
	t.Helper()
	was, exists := w.getNetwork(t, r, s)
	if !exists {
		return false
	}
	is, err := w.client.CloudteamV1().Networks(was.Namespace).Patch(
		w.ctx, s.name, types.JSONPatchType, replaceSpec(t, spec), metav1.PatchOptions{})
	may := specs.NetworkMayBecome(was.Spec, spec)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err) && !may:
		return false
	case err != nil || !may:
		t.Fatalf("Network %s from %s to %s: the API server says %v", s, asJSON(was.Spec), asJSON(spec), err)
	case is.DeletionTimestamp != nil:
		w.goes(is)
	}
	return true
}

// putPort creates or edits a NetworkPort. It reports whether the API server took the spec, and holds that it refuses
// just what it should.
func (w *world) putPort(t *rapid.T, r realm, s slot, spec cloudteamv1.NetworkPortSpec) bool {
	t.Helper()
	client := w.client.CloudteamV1().NetworkPorts(r.namespaces[s.home])
	for {
		was, exists := w.getPort(t, r, s)
		if !exists {
			_, err := client.Create(w.ctx,
				&cloudteamv1.NetworkPort{ObjectMeta: w.meta(r, s), Spec: spec}, metav1.CreateOptions{})
			expect.NoError(t, err)
			return true
		}
		_, err := client.Patch(w.ctx, s.name, types.JSONPatchType, replaceSpec(t, spec), metav1.PatchOptions{})
		may := specs.NetworkPortMayBecome(was.Spec, spec)
		switch {
		case apierrors.IsNotFound(err): // it has just gone
		case apierrors.IsInvalid(err) && !may:
			return false
		case err != nil || !may:
			t.Fatalf("NetworkPort %s from %+v to %+v: the API server says %v", s, was.Spec, spec, err)
		default:
			return true
		}
	}
}

// goes notes the policy under which a Network is being deleted.
func (w *world) goes(n *cloudteamv1.Network) {
	policy := n.Spec.DeletionPolicy
	if policy == "" && n.Spec.Import != nil {
		policy = cloudteamv1.DeletionPolicyRetain
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[n.UID] = append(w.ended[n.UID], policy)
}

// tooLarge is an MTU that the API server takes and the cloud refuses.
const tooLarge = 9000

func (s *sequence) declareNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	limits, past := s.limits(at), s.networkPast(at)
	was, exists := s.getNetwork(t, s.reached, at)
	var spec cloudteamv1.NetworkSpec
	if exists {
		_, limits.WrongClouds = s.references(s.homes[at])
		spec = limits.NetworkEdit(s.drawnNetworkSpec(s.reached, at, was.Spec)).Draw(t, "spec")
		if rapid.IntRange(0, 7).Draw(t, "with a port's address for the gateway") == 7 {
			s.giveGateway(t, at, &spec)
		}
	} else {
		s.renew(s.reached, at)
		limits.Imports = s.offerImport(t, at, limits)
		spec = limits.Network().Draw(t, "spec")
	}
	if (!exists || was.Status.Cloud == nil) && s.leadsTo(spec.Cloud) != s.homes[at] {
		// What is not anywhere yet would be made in the wrong project.
		spec.Cloud = limits.Clouds[0].DeepCopy()
	}
	if rapid.IntRange(0, 9).Draw(t, "an mtu that the cloud refuses") == 9 {
		spec.MTU = new(int32(tooLarge))
	}
	t.Logf("declare Network %s: %s", at, asJSON(spec))
	if actual := s.networkSpec(t, s.reached, at, spec); !exists {
		s.createNetwork(t, s.reached, at, actual)
	} else if !s.editNetwork(t, s.reached, at, actual) {
		return
	}
	past.cidr, past.declared = specs.CIDR(spec.SubnetSpec), true
	past.declares(spec)
}

// giveGateway makes the address of a port on the Network its gateway, where there is one, and the Network may have one.
func (s *sequence) giveGateway(t *rapid.T, at slot, spec *cloudteamv1.NetworkSpec) {
	t.Helper()
	if spec.Router != nil && spec.IPv6AddressMode != "" && spec.IPv6RAMode == "" {
		return
	}
	for _, p := range s.ports(t, s.reached) {
		for _, a := range p.Status.Addresses {
			address := netip.MustParsePrefix(a.Address).Addr()
			if p.Network() == s.reached.key(at) && specs.CIDR(spec.SubnetSpec).Contains(address) {
				spec.Gateway, spec.AllocationPools = address.String(), nil
			}
		}
	}
}

func (s *sequence) declarePort(t *rapid.T) {
	number := rapid.IntRange(0, len(portSlots)-1).Draw(t, "port")
	at := portSlots[number]
	limits, past := s.around.limits, s.portPast(at)
	// As a rule one that was declared, and in the port's own namespace.
	anywhere := rapid.IntRange(0, 3).Draw(t, "anywhere")
	known := slices.DeleteFunc(slices.Clone(networkSlots), func(n slot) bool {
		return !s.networkPast(n).declared || anywhere < 2 && n.home != at.home
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
	// A port that is retained would keep its Network from going.
	spec.DeletionPolicy = ""
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
	s.goes(n)
	err := s.client.CloudteamV1().Networks(n.Namespace).Delete(s.ctx, n.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	used := slices.ContainsFunc(s.ports(t, s.reached), func(p cloudteamv1.NetworkPort) bool {
		return p.Network() == s.reached.key(at)
	})
	// With policy Delete, an import waits for subnets of others to go.
	stays := isPaused(n) || n.Spec.Import != nil || s.leadsTo(n.Spec.Cloud) != s.homes[at]
	if wait && !used && !stays {
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
	if wait && !isPaused(p) && s.reachesCloudOf(t, p) {
		s.await(t, func() error {
			if is, exists := s.getPort(t, s.reached, at); exists && is.UID == p.UID {
				return fmt.Errorf("NetworkPort %s is still there: %+v", at, is.Status.Conditions)
			}
			return nil
		})
	}
}

// reachesCloudOf reports whether the Network that a NetworkPort is on names the cloud that it is in.
func (w *world) reachesCloudOf(t *rapid.T, p *cloudteamv1.NetworkPort) bool {
	t.Helper()
	on := p.Network()
	at := slot{slices.Index(w.reached.namespaces[:], on.Namespace), on.Name}
	n, exists := w.getNetwork(t, w.reached, at)
	return exists && w.leadsTo(n.Spec.Cloud) == w.homes[at]
}

func (w *world) endPort(t *rapid.T, p *cloudteamv1.NetworkPort) {
	t.Helper()
	err := w.client.CloudteamV1().NetworkPorts(p.Namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// of finds what bears an object's marker in a collection of Neutron's, one of it: which one says the number.
func (w *world) of(t *rapid.T, collection string, uid types.UID, which int) (resource, bool) {
	t.Helper()
	all, err := w.around.people.List(w.ctx, collection, "")
	expect.NoError(t, err)
	all = slices.DeleteFunc(all, func(r resource) bool { return ownerOf(r, w.cluster) != string(uid) })
	if len(all) == 0 {
		return nil, false
	}
	slices.SortStableFunc(all, func(a, b resource) int { return cmp.Compare(a.Text("cidr"), b.Text("cidr")) })
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
		{"dns_domain": "others.example."}, {"tags": []string{"others'"}}, {sharedWith: []string{strings.Repeat("e", 32), specs.Projects[1]}},
		{"qos_policy_id": s.around.limits.QoSPolicies[0]}, {"shared": true}, {"router:external": true},
		{"provider:segmentation_id": firstVLAN + serial.Add(1)%vlans},
	}).Draw(t, "body")
	past := s.networkPast(at)
	if tags, tagged := body["tags"].([]string); tagged {
		s.meddle(t, at, "networks", "tag the network", func(r resource) error {
			past.setByOthers(body)
			return s.around.people.tag(s.ctx, r.ID(), tags)
		})
		return
	}
	if projects, shared := body[sharedWith].([]string); shared {
		s.meddle(t, at, "networks", "share the network", func(r resource) error {
			past.setByOthers(body)
			return s.projectOf(at).share(s.ctx, r.ID(), projects)
		})
		return
	}
	s.meddle(t, at, "networks", "set "+asJSON(body), func(r resource) error {
		past.setByOthers(body)
		return s.around.people.Update(s.ctx, "networks", r.ID(), s.marked(t, at, body))
	})
}

// isInterface reports whether a port is one by which a router serves a subnet.
func isInterface(port resource) bool {
	return slices.Contains([]string{
		"network:router_interface", "network:ha_router_replicated_interface", "network:router_interface_distributed",
	}, port.Text("device_owner"))
}

// meddleWithRouter has others change a Network's own router, or take off an interface of whichever router serves it.
func (s *sequence) meddleWithRouter(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	body := rapid.SampledFrom([]resource{
		nil, {"name": "renamed"}, {"admin_state_up": false}, {"description": ""}, {"routes": []resource{}},
		{"external_gateway_info": nil},
		{"external_gateway_info": resource{"network_id": s.around.limits.ExternalNetworks[0].Names[0]}},
		{kindHA: true},
	}).Draw(t, "body")
	if body == nil {
		s.meddle(t, at, "ports", "detach an interface", func(r resource) error {
			return s.around.people.detach(s.ctx, r.Text("device_id"), r.ID())
		})
		return
	}
	if _, sets := body[kindHA]; sets {
		s.meddleWithKind(t, at)
		return
	}
	s.meddle(t, at, "routers", "set the router's "+asJSON(body), func(r resource) error {
		return s.around.people.Update(s.ctx, "routers", r.ID(), s.marked(t, at, body))
	})
}

// The fields by which a router is of a kind. Neutron changes them only of one that is switched off.
const kindHA, kindDistributed = "ha", "distributed"

// meddleWithKind has others make a Network's own router another kind than it declares. Where it declares none, it would
// stay so, and a project without an administrator's credentials could never have had it so.
func (s *sequence) meddleWithKind(t *rapid.T, at slot) {
	n, exists := s.getNetwork(t, s.reached, at)
	if !exists || n.Spec.Router == nil || n.Spec.Router.HA == nil || s.homes[at] != adminProject {
		return
	}
	other := !*n.Spec.Router.HA
	s.meddle(t, at, "routers", fmt.Sprintf("switch off, and set ha %t,", other), func(r resource) error {
		s.networkPast(at).setByOthers(resource{kindHA: other})
		return s.around.people.makeKind(s.ctx, r.ID(), resource{kindHA: other})
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

func (w *world) owner(uid types.UID) plan.Owner {
	return plan.Owner{Cluster: w.cluster, Object: string(uid)}
}

func (s *sequence) meddleWithSubnet(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	what := rapid.IntRange(0, 7).Draw(t, "what")
	s.meddle(t, at, "subnets", fmt.Sprintf("set (%d) a subnet's settings", what), func(r resource) error {
		cidr := netip.MustParsePrefix(r.Text("cidr"))
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
			{"service_types": []string{"network:dhcp"}},
		}[what]
		_, keeps := body["service_types"]
		if keeps && (r["ipv6_address_mode"] != nil || r["ipv6_ra_mode"] != nil) {
			return nil // A port that is made meanwhile would never come to the address that it makes itself.
		}
		return s.around.people.Update(s.ctx, "subnets", r.ID(), s.marked(t, at, body))
	})
}

func (s *sequence) removeNetwork(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	s.meddle(t, at, "networks", "delete the network", func(r resource) error {
		people := s.around.people
		ports, err := people.List(s.ctx, "ports", "network_id="+r.ID())
		expect.NoError(t, err)
		for _, p := range ports { // what stays keeps the network
			if isInterface(p) {
				_ = people.detach(s.ctx, p.Text("device_id"), p.ID())
			} else {
				_ = people.Remove(s.ctx, "ports", p.ID())
			}
		}
		return people.Remove(s.ctx, "networks", r.ID())
	})
}

func (s *sequence) removeSubnet(t *rapid.T) {
	at := rapid.SampledFrom(networkSlots).Draw(t, "network")
	s.meddle(t, at, "subnets", "delete the subnet", func(r resource) error {
		return s.around.people.Remove(s.ctx, "subnets", r.ID())
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
	t.Logf("others %s of NetworkPort %s: %v", what, at, do(r.ID()))
}

func (s *sequence) meddleWithPort(t *rapid.T) {
	number := rapid.IntRange(0, len(portSlots)-1).Draw(t, "port")
	at := portSlots[number]
	past := s.portPast(at)
	groups := rapid.SliceOfNDistinct(rapid.SampledFrom(s.around.limits.SecurityGroups), 0, 3, rapid.ID).Draw(t, "groups")
	bodies := []resource{
		{"name": "renamed"}, {"admin_state_up": false}, {"security_groups": groups},
		{"mac_address": fmt.Sprintf("fa:16:3e:00:00:%02x", number)}, {"fixed_ips": []resource{}},
	}
	if past.on.CIDR.IsValid() {
		place := past.on
		place.Number = number
		bodies = append(bodies, resource{"fixed_ips": []resource{
			{"ip_address": s.around.limits.Named(place, 3).String()},
		}})
	}
	what := rapid.IntRange(0, 5).Draw(t, "what")
	body := bodies[min(what, len(bodies)-1)]
	s.meddleWithOnePort(t, at, "set "+asJSON(body), func(id string) error {
		if _, sets := body["security_groups"]; sets {
			past.groups = append(past.groups, slices.Sorted(slices.Values(groups)))
		}
		return s.around.people.Update(s.ctx, "ports", id, body)
	})
}

func (s *sequence) removePort(t *rapid.T) {
	at := rapid.SampledFrom(portSlots).Draw(t, "port")
	s.meddleWithOnePort(t, at, "delete the port", func(id string) error {
		return s.around.people.Remove(s.ctx, "ports", id)
	})
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
