package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// TestPolicies lives the life of MultiNetworkPolicies undisturbed, then many in which the process dies, and some with
// another fault.
func TestPolicies(t *testing.T) {
	t.Parallel()
	want := policies().undisturbed(t)
	testCrashes(t, policies(), want)
	policies().testScenarios(t, policyFaults(), func(w *world, s scenario) {
		s.live(w)
		w.restOfPolicies()
		w.endOfPolicies()
	})
}

// policies is the course of MultiNetworkPolicies, with one port p that they select and one port q that they name as a
// peer: the policy comes, is edited to name Pods of other namespaces, a second one comes, and all go. The port q is in a
// group that its spec names, where it is again after them. Beside them are groups of others, with rules.
func policies() course {
	return course{
		heading: headingPolicies, name: "MultiNetworkPolicies: ",
		prepare: func(w *world) {
			w.arguments = append(w.arguments, "--controllers=securitygroup,policy,pod")
			w.addForeignGroups()
		},
		stride:   map[string]int{"Neutron": 4, "Kubernetes": 8},
		varies:   20,
		sparsely: 4,
		live: func(w *world, _ reference) state {
			w.beginOfPolicies()
			w.restOfPolicies()
			w.endOfPolicies()
			return state{}
		},
	}
}

// What passes the groups of policies: Neutron's rules, without ids.
const (
	closed   = "egress IPv4 127.0.0.1/32"
	openOut  = "egress IPv4; egress IPv6"
	openIn   = closed + "; ingress IPv4; ingress IPv6"
	own      = openOut + "; ingress IPv4 tcp 443 443"
	fromWeb  = closed + "; ingress IPv4 tcp 5432 5432 policy-members; ingress IPv6 tcp 5432 5432 policy-members"
	addressW = "10.1.0.20"
	macW     = "fa:16:3e:0a:01:14"
)

// beginOfPolicies makes the policy and both ports.
func (w *world) beginOfPolicies() {
	w.t.Helper()
	w.createGroup("own", `[{"direction":"ingress","etherType":"IPv4","protocol":"tcp","portRangeMin":443}]`)
	w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	w.putPolicy("db", `
podSelector: {matchLabels: {app: db}}
ingress:
- from: [{podSelector: {matchLabels: {app: web}}}]
  ports: [{port: 5432}]
`)
	w.createPort("p", "a", addressP, macP)
	w.createPort("q", "a", addressW, macW, func(spec *cloudteamv1.NetworkPortSpec) {
		spec.SecurityGroupRefs = []string{"own"}
	})
	w.labelPort("p", "db")
	w.labelPort("q", "web")
	w.awaitUnderPolicy()
}

// awaitUnderPolicy waits for the state in which beginOfPolicies ends.
func (w *world) awaitUnderPolicy() {
	w.t.Helper()
	w.awaitPolicies(map[string]string{
		"own": own, "policy-db": fromWeb, "policy-members": closed, "policy-open-egress": openOut,
	}, map[string]string{"p": "policy-db policy-open-egress", "q": "own policy-members"})
}

// restOfPolicies edits the policy, and adds another one.
func (w *world) restOfPolicies() {
	w.t.Helper()
	w.putPolicy("db", `
podSelector: {matchLabels: {app: db}}
ingress:
- from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}]
  ports: [{port: 5432}]
`)
	w.awaitPolicies(map[string]string{
		"own": own, "policy-db": closed + "; ingress IPv4 tcp 5432 5432 " + addressW + "/32", "policy-open-egress": openOut,
	}, map[string]string{"p": "policy-db policy-open-egress", "q": "own"})

	w.putPolicy("all", "{podSelector: {}, policyTypes: [Egress]}")
	w.labelPort("q", "other")
	w.awaitPolicies(map[string]string{
		"own": own, "policy-db": closed, "policy-open-egress": openOut, "policy-all": closed, "policy-open-ingress": openIn,
	}, map[string]string{"p": "policy-all policy-db", "q": "policy-all policy-open-ingress"})
}

// endOfPolicies removes the policies, holds that the ports are as if there had been none, and removes all.
func (w *world) endOfPolicies() {
	w.t.Helper()
	foreign := w.foreignGroups()
	w.deletePolicy("db")
	w.deletePolicy("all")
	w.awaitPolicies(map[string]string{"own": own}, map[string]string{"p": "default", "q": "own"})
	w.await(func() error {
		left, err := w.groupClient().List(w.t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) != 1 {
			err = fmt.Errorf("want the SecurityGroup of the user alone, have %d: %+v", len(left.Items), left.Items)
		}
		return err
	})
	for _, port := range []string{"p", "q"} {
		w.removePort(port)
	}
	w.deleteGroup("own")
	w.awaitGroupGone("own")
	w.removeNetwork("a")
	w.hold(state{})
	expect.Empty(w.t, w.groups(w.ourMark()), "groups are left")
	if diff := cmp.Diff(foreign, w.foreignGroups()); diff != "" || len(foreign) != 2 {
		w.t.Errorf("foreign groups or their rules were touched (-was +is):\n%s", diff)
	}
}

// policyFaults are lives up to a fault, and until it is stood.
func policyFaults() map[string]scenario {
	return map[string]scenario{
		"the answer to each create of a SecurityGroup is lost": {live: func(w *world) {
			w.kube.Break(is(http.MethodPost, kubeGroups), 4, proxy.After(proxy.Reset))
			w.beginOfPolicies()
		}},
		"the answer to each write of a SecurityGroup is lost": {live: func(w *world) {
			seen := map[string]bool{}
			w.kube.Break(func(c proxy.Call) bool {
				id := c.Method + string(c.Body) + c.Request.URL.Path
				if c.Write == 0 || !strings.HasPrefix(c.Shape, kubeGroups) || seen[id] {
					return false
				}
				seen[id] = true
				return true
			}, 0, proxy.After(proxy.Reset))
			w.beginOfPolicies()
		}},
		"somebody deletes its SecurityGroups while ports are in them": {live: func(w *world) {
			w.beginOfPolicies()
			for _, name := range []string{"policy-db", "policy-members", "policy-open-egress"} {
				was := w.idOf(name)
				w.deleteGroup(w.nameOf(name))
				w.await(func() error {
					if all := w.named(name); len(all) != 1 || all[0].ID() == was {
						return fmt.Errorf("want another group %s than %s, have %v", name, was, all)
					}
					return nil
				})
				w.awaitUnderPolicy()
			}
		}},
		"a policy is deleted and created again at once": {live: func(w *world) {
			w.beginOfPolicies()
			// The ports cannot leave the group before the policy is there again.
			held := w.neutron.Break(is(http.MethodPut, "/v2.0/ports/{id}"), 0, refuse(http.StatusServiceUnavailable))
			group := w.nameOf("policy-db")
			w.deletePolicy("db")
			harness.Await(w.t, w, w.groupClient(), group, func(g *cloudteamv1.SecurityGroup) error {
				if g.DeletionTimestamp == nil {
					return fmt.Errorf("SecurityGroup %s is not deleted", group)
				}
				return nil
			})
			w.putPolicy("db", `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: 80}]}]}`)
			held.Mend()
			w.awaitPolicies(map[string]string{
				"own": own, "policy-db": closed + "; ingress IPv4 tcp 80 80; ingress IPv6 tcp 80 80", "policy-open-egress": openOut,
			}, map[string]string{"p": "policy-db policy-open-egress", "q": "own"})
		}},
		"somebody edits their groups in Neutron, takes ports out of them, and deletes one": {live: func(w *world) {
			w.beginOfPolicies()
			was := w.idOf("policy-db")
			w.cloud.Create("security-group-rules", harness.Resource{
				"security_group_id": was, "direction": "ingress", "protocol": "udp",
			})
			w.awaitUnderPolicy()
			// A port may be in the group again before it is deleted.
			w.await(func() error {
				for _, port := range w.ours()["ports"] {
					w.cloud.Update("ports", port.ID(), harness.Resource{"security_groups": []string{}})
				}
				_, err := w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("security-groups", was), nil)
				return err
			})
			w.awaitUnderPolicy()
		}},
		"policies cannot be listed or watched for a while": {live: func(w *world) {
			w.beginOfPolicies()
			w.holdUnlisted(func() { w.kube.Cut(func(c proxy.Call) bool { return c.Shape == kubePolicies }) })
		}},
		"policies cannot be listed or watched for a while, when the process begins": {live: func(w *world) {
			w.beginOfPolicies()
			w.awaitSilence()
			w.holdUnlisted(func() { w.stop(); w.start() })
		}},
	}
}

// holdUnlisted holds that ports keep their groups while policies cannot be listed, and that all that is no policy's
// concern works on. begin begins that time.
func (w *world) holdUnlisted(begin func()) {
	w.t.Helper()
	broken := w.kube.Break(func(c proxy.Call) bool { return c.Shape == kubePolicies }, 0,
		refuseKubernetes(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	begin()
	w.awaitHits(broken, 2)
	w.awaitSilence()
	writes := len(w.neutron.Writes())
	w.awaitUnderPolicy()
	// Ports that are there are kept as declared.
	w.patchPort("p", `{"spec":{"allowedAddressPairs":[{"address":"10.1.0.99"}]}}`)
	w.await(func() error {
		ports := w.cloud.List("ports", "id="+w.awaitPort("p").Status.PortID)
		if len(ports) != 1 || !strings.Contains(fmt.Sprint(ports[0]["allowed_address_pairs"]), "10.1.0.99") {
			return fmt.Errorf("port p is not edited: %v", ports)
		}
		return nil
	})
	w.awaitUnderPolicy()
	if made := w.neutron.Writes()[writes:]; len(made) != 1 {
		w.t.Errorf("while policies cannot be listed, it writes %v, want the edit of port p alone", made)
	}
	broken.Mend()
	w.awaitUnderPolicy()
}

// putPolicy creates or replaces a MultiNetworkPolicy for Network a; spec is in YAML.
func (w *world) putPolicy(name, spec string) {
	w.t.Helper()
	w.around.PutPolicy(w.t, w.namespace, name, w.name("a"), spec)
}

func (w *world) deletePolicy(name string) {
	w.t.Helper()
	w.around.RemovePolicy(w.t, w.namespace, name)
}

func (w *world) labelPort(name, app string) {
	w.t.Helper()
	w.patchPort(name, `{"metadata":{"labels":{"app":"`+app+`"}}}`)
}

// named are our groups in Neutron of a name without hash.
func (w *world) named(name string) []harness.Resource {
	w.t.Helper()
	return slices.DeleteFunc(w.groups(w.ourMark()), func(g harness.Resource) bool {
		return harness.GroupName(g) != name
	})
}

func (w *world) group(name string) harness.Resource {
	w.t.Helper()
	all := w.named(name)
	if len(all) != 1 {
		w.t.Fatalf("want one group %s, have %v", name, all)
	}
	return all[0]
}

func (w *world) idOf(name string) string { w.t.Helper(); return w.group(name).ID() }

// nameOf is the whole name of a SecurityGroup.
func (w *world) nameOf(name string) string { w.t.Helper(); return w.group(name)["name"].(string) }

// awaitPolicies waits until our groups are exactly some, each once, with exactly some rules, and our ports are in exactly
// some of them.
func (w *world) awaitPolicies(wantGroups, wantPorts map[string]string) {
	w.t.Helper()
	w.await(func() error {
		names := map[string]string{}
		for _, g := range w.cloud.List("security-groups", "project_id="+w.cloud.Project) {
			names[g.ID()] = harness.GroupName(g)
		}
		groups, ports := map[string]string{}, map[string]string{}
		for _, g := range w.groups(w.ourMark()) {
			name := names[g.ID()]
			if _, twice := groups[name]; twice {
				return fmt.Errorf("there are two groups %s", name)
			}
			groups[name] = strings.Join(harness.RulesOf(g, names), "; ")
		}
		for _, port := range w.ours()["ports"] {
			var in []string
			for _, id := range port["security_groups"].([]any) {
				in = append(in, names[id.(string)])
			}
			slices.Sort(in)
			ports[port["name"].(string)] = strings.Join(in, " ")
		}
		if diff := cmp.Diff(wantGroups, groups) + cmp.Diff(wantPorts, ports); diff != "" {
			return fmt.Errorf("not the groups that the policies want (-want +got):\n%s", diff)
		}
		return nil
	})
}
