package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestSecurityGroups lives the life of SecurityGroups undisturbed, and then many in which the process dies.
func TestSecurityGroups(t *testing.T) {
	t.Parallel()
	testCrashes(t, securityGroups(), securityGroups().undisturbed(t))
}

// securityGroups is the course of two SecurityGroups with rules about each other, and a port in one of them: they come,
// rules are edited, and changed by hand, the port changes its group, one of them is deleted while the port is in it,
// and all go. Beside them are groups of others, with one of the names and with rules.
func securityGroups() course {
	return course{
		heading: headingGroups, name: "SecurityGroups: ",
		prepare: func(w *world) {
			w.arguments = append(w.arguments, "--controllers=securitygroup")
			w.addForeignGroups()
		},
		stride:   map[string]int{"Neutron": 3, "Kubernetes": 6},
		varies:   10,
		sparsely: 4,
		live: func(w *world, _ reference) state {
			foreign := w.foreignGroups()
			w.createGroup("web", `[{"direction":"ingress","protocol":"tcp","portRangeMin":443},
				{"direction":"ingress","remoteGroup":"db"}]`)
			w.createGroup("db", `[{"direction":"ingress","protocol":"tcp","portRangeMin":5432,"remoteGroup":"web"}]`)
			w.createNetwork(w.namespace, "a", cidrA, gatewayA)
			w.createPort("p", "a", addressP, macP, func(spec *cloudteamv1.NetworkPortSpec) {
				spec.SecurityGroupRefs = []string{"web"}
			})
			web, db := w.awaitGroup("web"), w.awaitGroup("db")
			w.awaitPort("p")
			w.awaitMember("p", web)
			const out4, out6 = "egress IPv4", "egress IPv6"
			w.awaitRules(web, out4, out6, "ingress IPv4 "+db, "ingress IPv4 tcp 443 443")

			harness.Patch(w.t, w.groupClient(), "web", `{"spec":{"description":"edited","rules":[
				{"direction":"ingress","protocol":"udp","portRangeMin":53},{"direction":"egress","protocol":"tcp"}]}}`)
			w.awaitRules(web, "egress IPv4 tcp", "ingress IPv4 udp 53 53")
			w.cloud.Create("security-group-rules", harness.Resource{"security_group_id": web, "direction": "ingress"})
			w.awaitRules(web, "egress IPv4 tcp", "ingress IPv4 udp 53 53")

			w.deleteGroup("web")
			w.patchPort("p", `{"spec":{"securityGroupRefs":["db"]}}`)
			w.awaitGroupGone("web")
			w.awaitMember("p", db)
			w.awaitRules(db, out4, out6)
			w.deletePort("p")
			w.deleteNetwork(w.namespace, "a")
			w.deleteGroup("db")
			w.awaitGroupGone("db")
			w.awaitNetworkGone(w.namespace, "a")
			w.hold(state{})
			expect.Empty(w.t, w.groups(w.ourMark()), "groups are left")
			expect.Equal(w.t, foreign, w.foreignGroups(), "foreign groups or their rules were touched")
			return state{}
		},
	}
}

func (w *world) ourMark() string { return "[owner=" + w.cluster + "/" }

// groups are the groups of the project whose description contains a text.
func (w *world) groups(described string) []harness.Resource {
	w.t.Helper()
	return slices.DeleteFunc(w.cloud.List("security-groups", "project_id="+w.cloud.Project), func(r harness.Resource) bool {
		return !strings.Contains(r["description"].(string), described)
	})
}

// addForeignGroups adds a group of the name of one of ours, and one with the mark of another cluster, with rules.
func (w *world) addForeignGroups() {
	w.t.Helper()
	for _, mark := range []string{"", " [owner=11111111-2222-3333-4444-555555555555/" + w.cluster + "]"} {
		g := w.cloud.Create("security-groups", harness.Resource{"name": "web", "description": w.foreignMark() + mark})
		w.cloud.Create("security-group-rules", harness.Resource{
			"security_group_id": g.ID(), "direction": "ingress", "protocol": "tcp", "remote_group_id": g.ID(),
		})
	}
}

func (w *world) foreignMark() string { return "not of " + w.namespace }

func (w *world) foreignGroups() []harness.Resource { w.t.Helper(); return w.groups(w.foreignMark()) }

func (w *world) createGroup(name, rules string) {
	w.t.Helper()
	g := &cloudteamv1.SecurityGroup{ObjectMeta: w.meta(w.namespace, name)}
	expect.NoError(w.t, json.Unmarshal([]byte(rules), &g.Spec.Rules))
	harness.Create(w.t, w.groupClient(), g)
}

func (w *world) deleteGroup(name string) { w.t.Helper(); harness.Delete(w.t, w.groupClient(), name) }

// awaitGroup waits until a SecurityGroup is Ready, and gives the id of its group.
func (w *world) awaitGroup(name string) (id string) {
	w.t.Helper()
	return harness.Await(w.t, w, w.groupClient(), name, harness.Ready).Status.SecurityGroupID
}

func (w *world) awaitGroupGone(name string) {
	w.t.Helper()
	harness.AwaitGone(w.t, w, w.groupClient(), name)
}

// awaitRules waits until a group has exactly some rules, in the order of the alphabet, and is the only one of ours with
// its name.
func (w *world) awaitRules(id string, want ...string) {
	w.t.Helper()
	w.await(func() error {
		ours := w.groups(w.ourMark())
		at := slices.IndexFunc(ours, func(r harness.Resource) bool { return r.ID() == id })
		if at < 0 {
			return fmt.Errorf("group %s is gone: %v", id, ours)
		}
		names := map[string]string{}
		for _, group := range ours {
			names[group.ID()] = group.ID()
		}
		rules := harness.RulesOf(ours[at], names)
		if !slices.Equal(rules, want) {
			return fmt.Errorf("group %s has the rules %q, want %q", id, rules, want)
		}
		for _, other := range ours {
			if other.ID() != id && other["name"] == ours[at]["name"] {
				return fmt.Errorf("there are two groups of a name: %v", ours)
			}
		}
		return nil
	})
}

// awaitMember waits until the port is in one group, and in no other.
func (w *world) awaitMember(name, group string) {
	w.t.Helper()
	w.await(func() error {
		for _, port := range w.ours()["ports"] {
			if groups := fmt.Sprint(port["security_groups"]); port["name"] == name && groups != "["+group+"]" {
				return fmt.Errorf("port %s is in %s, want %s", name, groups, group)
			}
		}
		return nil
	})
}
