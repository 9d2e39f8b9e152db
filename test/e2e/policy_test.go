package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// putPolicy is harness.ControlPlane.PutPolicy.
func putPolicy(t *testing.T, namespace, name, network, spec string) {
	t.Helper()
	surroundings.PutPolicy(t, namespace, name, network, spec)
}

// reaches is what a port lets pass, as the rules of its groups in Neutron say it: sorted, without ids. A remote group is
// shown by its name, up to the hash in it.
func (c *cloud) reaches(networkID, port string) (rules []string, err error) {
	c.t.Helper()
	names := map[string]string{}
	groups := c.List("security-groups", "")
	for _, g := range groups {
		names[g.ID()] = harness.GroupName(g)
	}
	found := c.List("ports", "network_id="+networkID+"&name="+port)
	if len(found) != 1 {
		return nil, fmt.Errorf("there are %d ports %s", len(found), port)
	}
	for _, id := range found[0]["security_groups"].([]any) {
		at := slices.IndexFunc(groups, func(g resource) bool { return g.ID() == id })
		if at < 0 {
			return nil, fmt.Errorf("port %s has group %v, which is not listed", port, id)
		}
		rules = append(rules, harness.RulesOf(groups[at], names)...)
	}
	slices.Sort(rules)
	return slices.Compact(rules), nil
}

// eventuallyReaches waits until each named port lets pass exactly the rules.
func (c *cloud) eventuallyReaches(networkID string, ports []string, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	eventually(c.t, func() error {
		for _, port := range ports {
			got, err := c.reaches(networkID, port)
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("port %s lets pass\n%s\nwant\n%s", port, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		return nil
	})
}

// defaultGroup is the security group that Neutron gives to the ports of a cloud's project.
func defaultGroup(t *testing.T, c *cloud, name string) string {
	t.Helper()
	port := c.Create("ports", resource{"network_id": c.Create("networks", resource{"name": name}).ID()})
	return port["security_groups"].([]any)[0].(string)
}

// portNames are the names of the NetworkPorts that Pods have.
func portNames(t *testing.T, pods []corev1.Pod) (names []string) {
	t.Helper()
	for _, pod := range pods {
		for _, a := range allocationsOf(t, &pod) {
			names = append(names, a.Port)
		}
	}
	return names
}

const (
	closedEgress = "egress IPv4 127.0.0.1/32"
	out4, out6   = "egress IPv4", "egress IPv6"
)

// lifeOfPolicies has MultiNetworkPolicies decide about the ports of Pods.
func lifeOfPolicies(t *testing.T) {
	namespace, c := newNamespace(t), open(t, "tenant")
	network := unique(t, namespace)
	apply(t, namespace, network, example())
	networkID := awaitReady(t, namespace, network).Status.NetworkID
	holdApart(t, namespace)
	awaitGate(t, namespace)
	inDefault := []string{defaultGroup(t, c, "tenant")}
	inNeutron := func(ports []string) {
		t.Helper()
		eventually(t, func() error {
			for _, name := range ports {
				if got := c.One("ports", "network_id="+networkID+"&name="+name)["security_groups"]; fmt.Sprint(got) != fmt.Sprint(inDefault) {
					return fmt.Errorf("port %s has the groups %v, want %v", name, got, inDefault)
				}
			}
			return nil
		})
	}

	// The policy is there before its Pods: they start with it.
	putPolicy(t, namespace, "db", network, `
podSelector: {matchLabels: {app: db}}
ingress:
- from: [{podSelector: {matchLabels: {app: web}}}]
  ports: [{port: sql}]
`)
	withSQL := harness.DeploymentOn("db", network, 2)
	withSQL.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "sql", ContainerPort: 5432}}
	harness.Create(t, kube.AppsV1().Deployments(namespace), withSQL)
	deploymentOn(t, namespace, "web", network, 2)
	db := portNames(t, awaitPods(t, namespace, "app=db", 2))
	web := portNames(t, awaitPods(t, namespace, "app=web", 2))
	fromWeb := []string{
		"ingress IPv4 tcp 5432 5432 policy-members", "ingress IPv6 tcp 5432 5432 policy-members", closedEgress, out4, out6,
	}
	c.eventuallyReaches(networkID, db, fromWeb...)
	// The others are where they would be without the policy, and in a group that lets nothing pass.
	for _, name := range web {
		eventually(t, func() error {
			groups := c.One("ports", "network_id="+networkID+"&name="+name)["security_groups"].([]any)
			if len(groups) != 2 || !slices.Contains(groups, any(inDefault[0])) {
				return fmt.Errorf("port %s has the groups %v, want the default one and one more", name, groups)
			}
			return nil
		})
	}

	// A second policy takes egress away, and names addresses.
	putPolicy(t, namespace, "all", network, `
podSelector: {}
policyTypes: [Egress]
egress:
- to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.128.0.0/9]}}]
`)
	c.eventuallyReaches(networkID, db, "ingress IPv4 tcp 5432 5432 policy-members",
		"ingress IPv6 tcp 5432 5432 policy-members", closedEgress, "egress IPv4 10.0.0.0/9")
	c.eventuallyReaches(networkID, web, closedEgress, "egress IPv4 10.0.0.0/9", "ingress IPv4", "ingress IPv6")

	// A Pod whose labels change comes under other policies.
	pods := awaitPods(t, namespace, "app=web", 2)
	harness.Patch(t, kube.CoreV1().Pods(namespace), pods[0].Name, `{"metadata":{"labels":{"quarantine":"yes"}}}`)
	putPolicy(t, namespace, "quarantine", network, "{podSelector: {matchLabels: {quarantine: \"yes\"}}}")
	c.eventuallyReaches(networkID, portNames(t, pods[:1]), closedEgress, "egress IPv4 10.0.0.0/9")
	c.eventuallyReaches(networkID, portNames(t, pods[1:]), closedEgress, "egress IPv4 10.0.0.0/9", "ingress IPv4", "ingress IPv6")

	// What Neutron cannot do is said, and allows nothing.
	putPolicy(t, namespace, "quarantine", network, `
podSelector: {matchLabels: {quarantine: "yes"}}
ingress:
- ports: [{port: http, endPort: 90}]
- ports: [{port: 22}]
`)
	c.eventuallyReaches(networkID, portNames(t, pods[:1]), closedEgress, "egress IPv4 10.0.0.0/9", "ingress IPv4 tcp 22 22",
		"ingress IPv6 tcp 22 22")
	awaitPolicyProblem(t, namespace, "quarantine", "With endPort, write a number")

	// Without policies, everything is as it was, and none of their groups is left.
	for _, name := range []string{"db", "all", "quarantine"} {
		surroundings.RemovePolicy(t, namespace, name)
	}
	inNeutron(slices.Concat(db, web))
	eventually(t, func() error { return harness.NoneLeft(t.Context(), networks.CloudteamV1().SecurityGroups(namespace)) })
	removeDeployment(t, namespace, "db")
	removeDeployment(t, namespace, "web")
	awaitPorts(t, c, namespace, networkID, 0)
	remove(t, namespace, network)
}

// awaitPolicyProblem waits until a condition of a policy's SecurityGroup and an Event of the policy say what is wrong.
func awaitPolicyProblem(t *testing.T, namespace, policy, text string) {
	t.Helper()
	eventually(t, func() error {
		groups, err := networks.CloudteamV1().SecurityGroups(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		told := func(g cloudteamv1.SecurityGroup) bool {
			condition := meta.FindStatusCondition(g.Status.Conditions, cloudteamv1.ConditionPolicyIncomplete)
			return strings.HasPrefix(g.Name, "policy-"+policy+"-") && condition != nil && strings.Contains(condition.Message, text)
		}
		if !slices.ContainsFunc(groups.Items, told) {
			return fmt.Errorf("no SecurityGroup of policy %s says %q", policy, text)
		}
		return nil
	})
	awaitEvent(t, namespace, policy, cloudteamv1.EventPolicyIncomplete, text)
}
