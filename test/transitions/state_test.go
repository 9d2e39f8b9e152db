package transitions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// state is what there is of a realm, in Kubernetes and in Neutron, by object and then by what it is, without what
// differs from time to time and from realm to realm.
type state map[string]map[string]any

// volatile are the fields that say nothing but when or which, or repeat another, and the count of addresses in use, which
// is written when it has moved by some. ip_allocation is whether a port had an address when it was made, be it that its
// network had none for it then.
var volatile = []string{
	"created_at", "updated_at", "revision_number", "provider:segmentation_id", "standard_attr_id", "dns_assignment",
	"ip_allocation",
	"lastTransitionTime", "observedGeneration", "appliedGeneration",
	"usedAddresses",
}

var collections = []string{"networks", "subnets", "ports", "routers"}

// sharedWith is where a network here tells with which projects it is shared. In Neutron that is in a collection of its
// own, whose resources bear no marker.
const sharedWith = "shared_with"

// everything is what is in Neutron, by collection.
type everything map[string][]resource

func (w *world) everything(t *rapid.T) everything {
	t.Helper()
	all := everything{}
	for _, collection := range collections {
		found, err := w.around.people.List(w.ctx, collection, "")
		expect.NoError(t, err)
		// A Network has several subnets, and several interfaces, which are numbered in this order.
		slices.SortStableFunc(found, func(a, b resource) int {
			return cmp.Or(cmp.Compare(a.Text("cidr"), b.Text("cidr")), cmp.Compare(addressesOf(a), addressesOf(b)))
		})
		all[collection] = found
	}
	shares, err := w.around.people.shares(w.ctx)
	expect.NoError(t, err)
	for _, n := range all["networks"] {
		n[sharedWith] = shares[n.ID()]
	}
	return all
}

// addressesOf are those of a port, in an order of their own.
func addressesOf(r resource) string {
	fixed, _ := r["fixed_ips"].([]any)
	var addresses []string
	for _, a := range fixed {
		addresses = append(addresses, fmt.Sprint(a.(map[string]any)["ip_address"]))
	}
	slices.Sort(addresses)
	return strings.Join(addresses, " ")
}

// of are the resources that bear the marker of the object of a UID.
func (e everything) of(w *world, uid string) map[string][]resource {
	ours := map[string][]resource{}
	for collection, all := range e {
		for _, r := range all {
			if ownerOf(r, w.cluster) == uid {
				ours[collection] = append(ours[collection], r)
			}
		}
	}
	return ours
}

// look reads the state of a realm.
func (w *world) look(t *rapid.T, r realm) state {
	t.Helper()
	all := w.everything(t)
	names := []string{w.cluster, "<cluster>"}
	for i, namespace := range r.namespaces {
		names = append(names, namespace, homes[i])
	}
	found := map[string]map[string]any{}
	add := func(object, uid string, spec, status any) {
		names = append(names, uid, "<uid of "+object+">")
		found[object] = map[string]any{"spec": spec, "status": status}
		for collection, resources := range all.of(w, uid) {
			for i, resource := range resources {
				name := fmt.Sprintf("<%s %d of %s>", harness.Singular(collection), i, object)
				names = append(names, resource.ID(), name)
			}
			found[object][collection] = resources
		}
	}
	for _, n := range w.networks(t, r) {
		at := slot{slices.Index(r.namespaces[:], n.Namespace), n.Name}
		names = append(names, w.supplied(r, at)...)
		ours := all.of(w, string(n.UID))
		for _, subnet := range all["subnets"] {
			// Others' on a network that is imported.
			if ownerOf(subnet, w.cluster) == "" && n.Spec.Import != nil && n.Spec.Import.ID == subnet["network_id"] {
				names = append(names, subnet.ID(), fmt.Sprintf("<subnet %s of %s>", subnet["cidr"], at))
			}
		}
		hideChosenOfRouter(&n, ours)
		add("Network "+at.String(), string(n.UID), w.drawnNetworkSpec(r, at, n.Spec), n.Status)
	}
	for _, p := range w.ports(t, r) {
		ports := all.of(w, string(p.UID))["ports"]
		hideChosen(&p, ports)
		if len(ports) == 0 {
			p.Status.Cloud = nil // the one in which it once had a port, if it had
		}
		add(fmt.Sprintf("NetworkPort %s/%s", r.drawn(p.Namespace), p.Name), string(p.UID), p.Spec, p.Status)
	}
	replace, ranges := strings.NewReplacer(names...), w.around.allotted(all["subnets"])
	plain := state{}
	for object, parts := range found {
		plain[object] = map[string]any{}
		for part, value := range parts {
			plain[object][part] = canonical(t, value, replace, ranges)
		}
	}
	return plain
}

// supplied are the words that differ from realm to realm for what a Network of a slot may ask for, each with its name.
func (w *world) supplied(r realm, at slot) (names []string) {
	s := w.supplyOf(r, at)
	names = append(names, s.imported, fmt.Sprintf("<imported of %s>", at))
	for i, router := range s.routers {
		if router.id != "" {
			name := fmt.Sprintf("<existing %d of %s>", i, at)
			names = append(names, router.id, name)
			if router.name != "" {
				names = append(names, router.name, name)
			}
		}
	}
	return names
}

// hideChosenOfRouter takes from a Network's router and its interfaces the addresses and MACs that were left to Neutron,
// and those that are another in each realm.
func hideChosenOfRouter(n *cloudteamv1.Network, ours map[string][]resource) {
	hide := func(address string) string {
		if n.Spec.Router != nil && n.Spec.Router.ExternalIP == address {
			return "<declared>"
		}
		return "<chosen>"
	}
	for _, p := range ours["ports"] {
		p["mac_address"] = "<chosen>"
	}
	for _, r := range ours["routers"] {
		gateway, _ := r["external_gateway_info"].(map[string]any)
		fixed, _ := gateway["external_fixed_ips"].([]any)
		for _, a := range fixed {
			is := a.(map[string]any)
			is["ip_address"] = hide(fmt.Sprint(is["ip_address"]))
		}
	}
	if n.Status.Router != nil {
		for i, address := range n.Status.Router.ExternalIPs {
			n.Status.Router.ExternalIPs[i] = hide(address)
		}
	}
}

// hideChosen takes from a NetworkPort and its port the address and the MAC that were left to Neutron. The subnet is that
// which had an address at the time.
func hideChosen(p *cloudteamv1.NetworkPort, ports []resource) {
	const chosen = "<chosen>"
	if p.Spec.MAC == "" {
		if p.Status.MAC != "" {
			p.Status.MAC = chosen
		}
		for _, r := range ports {
			r["mac_address"] = chosen
		}
	}
	for i, a := range p.Status.Addresses {
		if len(p.Spec.Addresses) == 0 || madeOfMAC(a.Address) {
			// Were it outside the subnet, Neutron would not have it.
			if madeOfMAC(a.Address) {
				_, length, _ := strings.Cut(a.Address, "/")
				p.Status.Addresses[i].Address = chosen + "/" + length
			} else {
				p.Status.Addresses[i] = cloudteamv1.PortAddress{Address: chosen + familyOf(a.Address), SubnetID: chosen}
			}
		}
	}
	for _, r := range ports {
		addresses, _ := r["fixed_ips"].([]any)
		for _, a := range addresses {
			is := a.(map[string]any)
			switch address := fmt.Sprint(is["ip_address"]); {
			case madeOfMAC(address):
				is["ip_address"] = chosen
			case len(p.Spec.Addresses) == 0:
				is["ip_address"], is["subnet_id"] = chosen+familyOf(address), chosen
			}
		}
	}
}

// familyOf names the IP family of an address.
func familyOf(address string) string {
	if strings.Contains(address, ":") {
		return " 6"
	}
	return " 4"
}

// madeOfMAC reports whether an address is one that a port has made of its MAC, maybe of an earlier one. No other has
// these bytes in its middle.
func madeOfMAC(address string) bool {
	text, _, _ := strings.Cut(address, "/")
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6() && a.As16()[11] == 0xff && a.As16()[12] == 0xfe
}

// canonical is a value as its JSON has it, with names for ids, as if each subnet from a pool had the pool's first
// range, and without what is volatile.
func canonical(t *rapid.T, value any, names *strings.Replacer, ranges allotments) any {
	t.Helper()
	text, err := json.Marshal(value)
	expect.NoError(t, err)
	var plain any
	expect.NoError(t, json.Unmarshal([]byte(ranges.moveFirst(names.Replace(string(text)))), &plain))
	return tidy(plain)
}

// tidy removes what is volatile, and sorts what has no order in Neutron.
func tidy(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range volatile {
			delete(value, field)
		}
		if message, ok := value["message"].(string); ok {
			value["message"] = controller.WithoutRequest(message)
		}
		for field := range value {
			value[field] = tidy(value[field])
			if list, ok := value[field].([]any); ok && slices.Contains(unordered, field) {
				slices.SortFunc(list, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for i := range value {
			value[i] = tidy(value[i])
		}
	}
	return value
}

// unordered are the lists of Neutron's that have no order. Names of domain name servers have one.
var unordered = []string{
	"host_routes", "fixed_ips", "security_groups", "allocation_pools", "tags", "service_types",
	"availability_zone_hints", "routes", "networks", "subnets", "ports", "routers",
}

// holdNothingOfTheDead holds that whatever bears the cluster's marker belongs to an object that lives, and that what was
// made for objects that do not live is gone, unless deletionPolicy Retain was declared when they went.
func (w *world) holdNothingOfTheDead(t *rapid.T) {
	t.Helper()
	alive := map[string]bool{}
	for _, r := range []realm{w.reached, w.direct} {
		for _, n := range w.networks(t, r) {
			alive[string(n.UID)] = true
		}
		for _, p := range w.ports(t, r) {
			alive[string(p.UID)] = true
		}
	}
	all := w.everything(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	retained := map[string]bool{}
	for uid, policies := range w.ended {
		if slices.Contains(policies, cloudteamv1.DeletionPolicyRetain) {
			for _, r := range w.made[string(uid)] {
				retained[r.ID] = true
			}
		}
	}
	gone := map[string]string{}
	for uid, made := range w.made {
		for _, r := range made {
			if !alive[uid] && !retained[r.ID] {
				gone[r.ID] = uid
			}
		}
	}
	for collection, resources := range all {
		for _, r := range resources {
			if uid := ownerOf(r, w.cluster); uid != "" && !alive[uid] {
				t.Errorf("there is still something of %s, which is gone: %s %v", uid, collection, r)
			}
			if uid, is := gone[r.ID()]; is {
				t.Errorf("there is still something that was made for %s, which is gone: %s %v", uid, collection, r)
			}
		}
	}
	for _, double := range w.doubles {
		t.Errorf("there were two of one: %s", double)
	}
}

// met is what the sequences of all lanes came across.
var met lanes.Tally

// countState counts how an object ended.
func countState(kind string, status cloudteamv1.ResourceStatus, in resource) {
	reason := ""
	if ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		reason = ready.Reason
	}
	if in == nil {
		reason += ", not in Neutron"
	}
	met.Count(kind + " " + reason)
}
