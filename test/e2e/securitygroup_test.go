package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// applyGroup creates a SecurityGroup.
func applyGroup(t *testing.T, namespace, name string, rules ...cloudteamv1.SecurityGroupRule) {
	t.Helper()
	harness.Create(t, networks.CloudteamV1().SecurityGroups(namespace), &cloudteamv1.SecurityGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       cloudteamv1.SecurityGroupSpec{Rules: rules},
	})
}

// awaitGroup waits until a SecurityGroup's condition Ready has a reason, and gives it.
func awaitGroup(t *testing.T, namespace, name, reason string) *cloudteamv1.SecurityGroup {
	t.Helper()
	return harness.Await(t, surroundings, networks.CloudteamV1().SecurityGroups(namespace), name,
		func(g *cloudteamv1.SecurityGroup) error {
			if g.Status.ObservedGeneration != g.Generation {
				return fmt.Errorf("want the status of generation %d, have %s", g.Generation, asJSON(g.Status))
			}
			return harness.Says(g, cloudteamv1.ConditionReady, reason, "")
		})
}

// rulesOf are the rules of the only group of ours with a name, in the order of the alphabet.
func (c *cloud) rulesOf(name, uid string) (rules []string, err error) {
	c.t.Helper()
	names, ours := map[string]string{}, []resource(nil)
	for _, g := range c.List("security-groups", "") {
		names[g.ID()] = g.ID()
		if g["name"] == name && strings.Contains(g.Text("description"), uid) {
			ours = append(ours, g)
		}
	}
	if len(ours) != 1 {
		return nil, fmt.Errorf("there are %d groups called %s, want 1: %v", len(ours), name, ours)
	}
	return harness.RulesOf(ours[0], names), nil
}

func (c *cloud) eventuallyHasRules(name, uid string, want ...string) {
	c.t.Helper()
	eventually(c.t, func() error {
		rules, err := c.rulesOf(name, uid)
		if err == nil && !slices.Equal(rules, want) {
			err = fmt.Errorf("the group has the rules %q, want %q", rules, want)
		}
		return err
	})
}

// lifeOfASecurityGroup takes a group through its life.
func lifeOfASecurityGroup(t *testing.T) {
	tcp := func(port int32) cloudteamv1.SecurityGroupRule {
		return cloudteamv1.SecurityGroupRule{Direction: "ingress", Protocol: "tcp", PortRangeMin: &port}
	}
	namespace, c := newNamespace(t), open(t, "tenant")
	name := unique(t, namespace)
	api := networks.CloudteamV1().SecurityGroups(namespace)

	applyGroup(t, namespace, name, tcp(443), cloudteamv1.SecurityGroupRule{Direction: "ingress", RemoteGroup: "db"})
	group := awaitGroup(t, namespace, name, cloudteamv1.ReasonSecurityGroupNotReady)
	uid := string(group.UID)
	c.eventuallyHasRules(name, uid, out4, out6, "ingress IPv4 tcp 443 443")

	applyGroup(t, namespace, "db")
	db := awaitGroup(t, namespace, "db", cloudteamv1.ReasonAvailable)
	group = awaitGroup(t, namespace, name, cloudteamv1.ReasonAvailable)
	about := "ingress IPv4 " + db.Status.SecurityGroupID
	c.eventuallyHasRules(name, uid, out4, out6, about, "ingress IPv4 tcp 443 443")
	if group.Status.RuleCount != 4 {
		t.Errorf("the status counts %d rules, want 4", group.Status.RuleCount)
	}

	// By hand: a rule that lets everybody in.
	c.Create("security-group-rules", resource{
		"security_group_id": group.Status.SecurityGroupID, "direction": "ingress",
	})
	c.eventuallyHasRules(name, uid, out4, out6, about, "ingress IPv4 tcp 443 443")

	edit := `{"spec":{"rules":[{"direction":"egress","etherType":"IPv6","protocol":"icmpv6"}]}}`
	harness.Patch(t, api, name, edit)
	c.eventuallyHasRules(name, uid, "egress IPv6 ipv6-icmp")
	awaitGroup(t, namespace, name, cloudteamv1.ReasonAvailable)

	// A port in the group holds up its deletion. The id puts it there, and the name does not.
	network := c.Create("networks", resource{"name": name})
	port := c.Create("ports", resource{
		"network_id": network.ID(), "security_groups": []string{group.Status.SecurityGroupID},
	})
	harness.Delete(t, api, name)
	harness.Await(t, surroundings, api, name, func(g *cloudteamv1.SecurityGroup) error {
		return harness.Says(g, cloudteamv1.ConditionReady, cloudteamv1.ReasonInUse, port.ID())
	})
	c.Update("ports", port.ID(), resource{"security_groups": []string{}})
	harness.Delete(t, api, "db")
	harness.AwaitGone(t, surroundings, api, name)
	harness.AwaitGone(t, surroundings, api, "db")
	for _, id := range []string{group.Status.SecurityGroupID, db.Status.SecurityGroupID} {
		expect.Empty(t, c.List("security-groups", "id="+id), "left in Neutron")
	}
}
