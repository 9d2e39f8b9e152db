package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

func policiesGroup() group {
	replicas := func(o options) int { return o.replicas }
	return group{
		id: "policies", table: "policies", clouds: []string{emulator, openStack}, components: harness.AllComponents(),
		policies: true,
		size:     func(o options) int { return o.policyPods },
		benchmarks: []benchmark{
			{
				id: "policy-start", size: replicas, limit: 1,
				name: "a Deployment of %d under three MultiNetworkPolicies, apply to all Pods running ÷ bare calls",
				how: "The policies are applied before the Deployment, which has a pool. One denies all ingress, one allows a " +
					"port from Pods with a label, and one allows another port from an ipBlock with an exception. The bare loop " +
					"creates the same security groups and rules: for each group one POST, one POST of all its rules, and two " +
					"DELETEs of the rules that Neutron gives it. Then it creates one port in these groups for one Pod after " +
					"another and opens the Pod's gate, as `pool` does without a pool. It creates the Deployment first, so that " +
					"the Pods appear meanwhile. The target is no more time than without the controller.",
			},
			{
				id: "policy-start-calls", size: replicas, limit: 0.8, name: "calls to Neutron per Pod of it",
				how: "All that Neutron's proxy sees in that time, lists included. The target is 0.35 for the ports, as for " +
					"`pool-calls`, and what the five groups need: 17 writes, and a read of each of four groups before rules are " +
					"removed from it.",
			},
			{
				id: "policy-start-bare", size: replicas, limit: noLimit, name: "calls to Neutron per Pod of it, bare",
				how: "As above, of the bare loop.",
			},
			{
				id: "policy-rules", limit: noLimit,
				name: "%d Pods, a port of a policy's rule changes, until Neutron has it ÷ bare calls",
				how: "From the apply of the changed policy to Neutron's answer to the last write. The rules name a group, so no " +
					"port changes. The bare loop sends the writes that are needed: one POST of the two new rules (IPv4 and IPv6), " +
					"and a DELETE of each old one. The controller also reads the group, to confirm that it is still its own.",
			},
			{
				id: "policy-rules-calls", limit: 4, name: "calls to Neutron of it",
				how: "All that Neutron's proxy sees in that time, lists included.",
			},
			{
				id: "policy-rules-bare", limit: noLimit, name: "calls to Neutron of it, bare", how: "As above, of the bare loop.",
			},
			{
				id: "policy-ports", limit: 1.2,
				name: "a new policy that selects all of %d Pods, until all ports are in its group ÷ bare calls",
				how: "From the apply of the policy, which restricts egress, to Neutron's answer to the last write. The bare loop " +
					"creates the policy's group and then sends one PUT for each port, which has no other form in Neutron, as " +
					"many at a time as was fastest before for creates of networks. The target is that of `create`.",
			},
			{
				id: "policy-ports-calls", limit: 1.1, name: "calls to Neutron per Pod of it",
				how: "All that Neutron's proxy sees in that time, lists included. The target is a PUT for each port, and a tenth " +
					"for the group and the lists.",
			},
			{
				id: "policy-ports-bare", limit: noLimit, name: "calls to Neutron per Pod of it, bare",
				how: "As above, of the bare loop.",
			},
		},
		measure: measurePolicies,
	}
}

// policies is the group policies while it is measured.
type policies struct {
	*workload
	// atATime is how many writes the bare loop has under way, except creates of ports.
	atATime int
}

// The ports in the policies, in Pods: the one that peers may use at first, and the one that they may use then.
const (
	firstPort = 8080
	nextPort  = 9090
)

// initial are policies that restrict ingress, of which one has a port in its rule.
func (m *policies) initial(port int) ([]*unstructured.Unstructured, error) {
	return m.parse(map[string]string{
		"deny": `{podSelector: {}, policyTypes: [Ingress]}`,
		"clients": fmt.Sprintf(`
podSelector: {matchLabels: {app: web}}
ingress:
- from: [{podSelector: {matchLabels: {role: client}}}]
  ports: [{protocol: TCP, port: %d}]
`, port),
		"office": `
podSelector: {matchLabels: {app: web}}
ingress:
- from: [{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.64.0/24]}}]
  ports: [{protocol: TCP, port: 443}]
`,
	})
}

// leaving is the name of the policy that comes later, and restricts egress.
const leaving = "leaving"

// later are the initial policies and the one that restricts egress.
func (m *policies) later(port int) ([]*unstructured.Unstructured, error) {
	all, err := m.initial(port)
	if err != nil {
		return nil, err
	}
	more, err := m.parse(map[string]string{leaving: `
podSelector: {}
policyTypes: [Egress]
egress:
- to: [{ipBlock: {cidr: 10.0.0.0/8}}]
`})
	return append(all, more...), err
}

func (m *policies) parse(specs map[string]string) (all []*unstructured.Unstructured, err error) {
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		p, err := harness.Policy(m.namespace, name, m.network.Name, specs[name])
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func measurePolicies(ctx context.Context, b *bench) error {
	w, err := b.newWorkload(ctx)
	if err != nil {
		return err
	}
	m := &policies{workload: w}
	if m.atATime, err = w.bare.best(ctx, b, m.namespace, 2*bulkSize, 1, 4); err != nil {
		return err
	}
	if b.wants("policy-start", "policy-start-calls", "policy-start-bare") {
		for range b.rounds {
			if err := m.starts(ctx); err != nil {
				return fmt.Errorf("the start: %w", err)
			}
		}
	}
	if b.wants("policy-rules", "policy-rules-calls", "policy-rules-bare", "policy-ports", "policy-ports-calls",
		"policy-ports-bare") {
		return m.changes(ctx)
	}
	return nil
}

// work is how long something took, and the calls to Neutron meanwhile.
type work struct {
	took  time.Duration
	calls []call
}

func (w work) String() string { return fmt.Sprintf("%s with %d calls", short(w.took), len(w.calls)) }

// compare reports a figure by the controller and bare. calls is what the number of calls is divided by.
func (m *policies) compare(id string, by, bare work, calls int) {
	m.report.add(id, by.took.Seconds()/bare.took.Seconds())
	m.report.add(id+"-calls", float64(len(by.calls))/float64(calls))
	m.report.add(id+"-bare", float64(len(bare.calls))/float64(calls))
	m.say("%s: %s, bare %s", id, by, bare)
}

// starts measures one start of the Deployment, bare and by the controller.
func (m *policies) starts(ctx context.Context) error {
	bare, err := m.bareStart(ctx)
	if err != nil {
		return fmt.Errorf("bare: %w", err)
	}
	all, err := m.initial(firstPort)
	if err != nil {
		return err
	}
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return err
	}
	if err := m.awaitQuiet(ctx); err != nil {
		return err
	}
	profiled := m.profile(ctx, c, "policies")
	began, mark := time.Now(), m.site.mark()
	err = m.applyPolicies(ctx, all)
	if err == nil {
		err = m.deploy(ctx, m.replicas, false)
	}
	if err == nil {
		err = m.awaitAvailable(ctx)
	}
	if err != nil {
		return c.explain(err)
	}
	by := work{time.Since(began), m.site.since(mark)}
	if err := profiled(); err != nil {
		return err
	}
	m.compare("policy-start", by, bare, m.replicas)
	if err := m.removeAll(ctx, all); err != nil {
		return c.explain(err)
	}
	return c.stop(ctx)
}

func (m *policies) bareStart(ctx context.Context) (w work, err error) {
	all, err := m.initial(firstPort)
	if err != nil {
		return w, err
	}
	began, mark := time.Now(), m.site.mark()
	if err := m.deploy(ctx, m.replicas, true); err != nil {
		return w, err
	}
	groups := bareGroups{}
	if err := m.bareApply(ctx, groups, m.groupsOf(all)); err != nil {
		return w, err
	}
	err = m.withBareLoop(ctx, groups.ids(m.memberOf(all)), func(ctx context.Context) error {
		if err := m.awaitAvailable(ctx); err != nil {
			return err
		}
		w = work{time.Since(began), m.site.since(mark)}
		return m.undeploy(ctx)
	})
	if err != nil {
		return w, err
	}
	return w, m.bareRemove(ctx, groups)
}

// changes measures changes of policies while Pods run.
func (m *policies) changes(ctx context.Context) error {
	all, err := m.initial(firstPort)
	if err != nil {
		return err
	}
	groups := bareGroups{}
	if err := m.bareApply(ctx, groups, m.groupsOf(all)); err != nil {
		return err
	}
	ports := make([]string, m.size)
	for chunk := range slices.Chunk(ports, bulkSize) {
		bodies := make([]map[string]any, len(chunk))
		for i := range bodies {
			bodies[i] = m.bareBody(m.namespace, groups.ids(m.memberOf(all)))
		}
		made, err := m.bare.post(ctx, "ports", bodies)
		if err != nil {
			return err
		}
		copy(chunk, made)
	}
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return err
	}
	err = m.applyPolicies(ctx, all)
	if err == nil {
		err = m.deploy(ctx, m.size, false)
	}
	if err == nil {
		err = m.awaitAvailable(ctx)
	}
	if err == nil {
		err = m.awaitSettled(ctx, all)
	}
	if err != nil {
		return c.explain(err)
	}
	was, next := firstPort, nextPort
	for range m.rounds {
		if err := c.stop(ctx); err != nil {
			return err
		}
		rules, err := m.bareChange(ctx, groups, nil, next, (*policies).initial)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		members, err := m.bareChange(ctx, groups, ports, next, (*policies).later)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		if _, err := m.bareChange(ctx, groups, ports, next, (*policies).initial); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		if c, err = m.start(ctx, m.site, m.Kubeconfig, alone...); err != nil {
			return err
		}
		if err := m.awaitQuiet(ctx); err != nil {
			return err
		}
		byRules, err := m.change(ctx, next, (*policies).initial)
		if err != nil {
			return c.explain(err)
		}
		m.compare("policy-rules", byRules, rules, 1)
		profiled := m.profile(ctx, c, "policy-change")
		byMembers, err := m.change(ctx, next, (*policies).later)
		if err != nil {
			return c.explain(err)
		}
		if err := profiled(); err != nil {
			return err
		}
		m.compare("policy-ports", byMembers, members, m.size)
		if err := m.DeletePolicy(ctx, m.namespace, leaving); err != nil {
			return err
		}
		if all, err = m.initial(next); err == nil {
			err = m.awaitSettled(ctx, all)
		}
		if err != nil {
			return c.explain(err)
		}
		was, next = next, was
	}
	if err := m.removeAll(ctx, all); err != nil {
		return c.explain(err)
	}
	if err := c.stop(ctx); err != nil {
		return err
	}
	err = inParallel(ctx, m.atATime, len(ports), func(ctx context.Context, i int) error {
		_, err := m.bare.send(ctx, http.MethodDelete, "ports/"+ports[i], nil)
		return err
	})
	if err != nil {
		return err
	}
	return m.bareRemove(ctx, groups)
}

// policiesWith gives policies by the port in a rule of theirs.
type policiesWith func(m *policies, port int) ([]*unstructured.Unstructured, error)

// change applies policies and measures the time until Neutron has all of it.
func (m *policies) change(ctx context.Context, port int, to policiesWith) (w work, err error) {
	all, err := to(m, port)
	if err != nil {
		return w, err
	}
	began, mark := time.Now(), m.site.mark()
	if err := m.applyPolicies(ctx, all); err != nil {
		return w, err
	}
	if err := m.awaitSettled(ctx, all); err != nil {
		return w, err
	}
	ended := m.site.lastWrite()
	w.took, w.calls = ended.Sub(began), m.site.since(mark)
	w.calls = slices.DeleteFunc(w.calls, func(c call) bool { return c.at.After(ended) })
	return w, nil
}

// bareChange does the same, for ports in groups of the bare loop's own. It then removes the groups that are not needed.
func (m *policies) bareChange(
	ctx context.Context, groups bareGroups, ports []string, port int, to policiesWith,
) (w work, err error) {
	all, err := to(m, port)
	if err != nil {
		return w, err
	}
	began, mark := time.Now(), m.site.mark()
	if err := m.bareApply(ctx, groups, m.groupsOf(all)); err != nil {
		return w, err
	}
	body, err := json.Marshal(map[string]any{"port": map[string]any{"security_groups": groups.ids(m.memberOf(all))}})
	if err != nil {
		return w, err
	}
	err = inParallel(ctx, m.atATime, len(ports), func(ctx context.Context, i int) error {
		_, err := m.bare.send(ctx, http.MethodPut, "ports/"+ports[i], body)
		return err
	})
	w = work{time.Since(began), m.site.since(mark)}
	if err != nil {
		return w, err
	}
	surplus := maps.Clone(groups)
	for _, g := range m.groupsOf(all) {
		delete(surplus, g.Name)
	}
	for name := range surplus {
		delete(groups, name)
	}
	return w, m.bareRemove(ctx, surplus)
}

// quiet is how long no call comes to Neutron from a controller that has done what was to do.
const quiet = time.Second

// awaitQuiet waits until a controller that has just started has looked at everything.
func (m *policies) awaitQuiet(ctx context.Context) error {
	return await(ctx, harness.Patience, func() error {
		if since := time.Since(m.site.lastCall()); since < quiet {
			return fmt.Errorf("a call came %s ago", since)
		}
		return nil
	})
}

func (m *policies) applyPolicies(ctx context.Context, all []*unstructured.Unstructured) error {
	for _, p := range all {
		if err := m.ApplyPolicy(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// removeAll has the controller remove the Deployment, its ports, the policies and their groups.
func (m *policies) removeAll(ctx context.Context, all []*unstructured.Unstructured) error {
	if err := m.undeploy(ctx); err != nil {
		return err
	}
	if err := m.awaitPorts(ctx, 0); err != nil {
		return err
	}
	for _, p := range all {
		if err := m.DeletePolicy(ctx, m.namespace, p.GetName()); err != nil {
			return err
		}
	}
	return m.awaitSettled(ctx, nil)
}

// parsed are policies in the controller's form.
func parsed(all []*unstructured.Unstructured) (read []policy.Policy) {
	for _, p := range all {
		one, _, _ := policy.Parse(p)
		read = append(read, one)
	}
	return read
}

// groupsOf are the groups that policies need, none of which names Pods of other namespaces.
func (m *policies) groupsOf(all []*unstructured.Unstructured) []policy.Group {
	groups, _ := policy.Groups(parsed(all), nil)
	return groups
}

// memberOf are the names of the groups that a Pod of the Deployment is in.
func (m *policies) memberOf(all []*unstructured.Unstructured) []string {
	on := cache.NewObjectName(m.namespace, m.network.Name)
	return policy.Member(parsed(all), on, labels.Set(podLabels)).Groups
}

// awaitSettled waits until the controller has told that Neutron has what policies say, and then asks Neutron itself.
// It looks seldom, since a list of many ports takes kube-apiserver some time.
func (m *policies) awaitSettled(ctx context.Context, all []*unstructured.Unstructured) error {
	ids := bareGroups{}
	err := harness.Poll(ctx.Done(), rolloutPatience, 250*time.Millisecond, func() error {
		return m.settled(ctx, all, ids)
	})
	if err != nil {
		return err
	}
	return m.holds(ctx, all, ids)
}

// settled reads from Kubernetes what the controller has done. It puts the groups' ids into ids.
func (m *policies) settled(ctx context.Context, all []*unstructured.Unstructured, ids bareGroups) error {
	found, err := m.Networks.CloudteamV1().SecurityGroups(m.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := m.groupsOf(all)
	if len(found.Items) != len(want) {
		return fmt.Errorf("there are %d SecurityGroups, want %d", len(found.Items), len(want))
	}
	for _, g := range want {
		at := slices.IndexFunc(found.Items, func(s cloudteamv1.SecurityGroup) bool { return s.Name == g.Name })
		if at < 0 {
			return fmt.Errorf("there is no SecurityGroup %s", g.Name)
		}
		is := found.Items[at]
		if !equality.Semantic.DeepEqual(is.Spec.Rules, g.Rules) || is.Status.AppliedGeneration != is.Generation ||
			!meta.IsStatusConditionTrue(is.Status.Conditions, cloudteamv1.ConditionReady) {
			return fmt.Errorf("the rules of SecurityGroup %s are not applied", g.Name)
		}
		ids[g.Name] = &bareGroup{id: is.Status.SecurityGroupID}
	}
	ports, err := m.Networks.CloudteamV1().NetworkPorts(m.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	in := ids.ids(m.memberOf(all))
	for _, p := range ports.Items {
		if !slices.Equal(slices.Sorted(slices.Values(p.Status.SecurityGroupIDs)), in) {
			return fmt.Errorf("NetworkPort %s is in the groups %v, want %v", p.Name, p.Status.SecurityGroupIDs, in)
		}
	}
	return nil
}

// holds reads from Neutron whether the ports of the Deployment are in the groups, and these have their rules.
func (m *policies) holds(ctx context.Context, all []*unstructured.Unstructured, ids bareGroups) error {
	for _, g := range m.groupsOf(all) {
		content, err := m.bare.send(ctx, http.MethodGet, "security-groups/"+ids[g.Name].id, nil)
		if err != nil {
			return err
		}
		has, err := readGroup(content)
		if err != nil {
			return err
		}
		for _, r := range g.Rules {
			if text := ruleText(ruleBody(r, ids)); has.rules[text] == "" || len(has.rules) != len(g.Rules) {
				return fmt.Errorf("in Neutron, group %s has the rules %v, want %d with %s", g.Name, has.rules, len(g.Rules), text)
			}
		}
	}
	ports, err := m.bare.list(ctx, "ports")
	if err != nil {
		return err
	}
	in := ids.ids(m.memberOf(all))
	for _, p := range ports {
		// The bare loop's ports have the namespace's name.
		if p.Network == m.network.Status.NetworkID && strings.HasPrefix(p.Name, deploymentName+"-") &&
			!slices.Equal(slices.Sorted(slices.Values(p.Groups)), in) {
			return fmt.Errorf("in Neutron, port %s is in the groups %v, want %v", p.Name, p.Groups, in)
		}
	}
	return nil
}

// bareGroups are security groups in Neutron, by the names of the SecurityGroups that they are for.
type bareGroups map[string]*bareGroup

type bareGroup struct {
	id string
	// rules are the ids of its rules, by their ruleText.
	rules map[string]string
}

// ids are those of the groups of names, sorted.
func (g bareGroups) ids(names []string) []string {
	ids := []string{}
	for _, name := range names {
		ids = append(ids, g[name].id)
	}
	slices.Sort(ids)
	return ids
}

// bareApply sends the writes that turn groups into what is wanted. It leaves those that are not wanted any more, which
// may have members.
func (m *policies) bareApply(ctx context.Context, groups bareGroups, want []policy.Group) error {
	var missing []policy.Group
	for _, g := range want {
		if groups[g.Name] == nil {
			missing = append(missing, g)
		}
	}
	made := make([]*bareGroup, len(missing))
	err := inParallel(ctx, m.atATime, len(missing), func(ctx context.Context, i int) error {
		body, err := json.Marshal(map[string]any{"security_group": map[string]any{
			"name": m.namespace + "-" + missing[i].Name, "description": m.bare.marker(),
		}})
		if err != nil {
			return err
		}
		content, err := m.bare.send(ctx, http.MethodPost, "security-groups", body)
		if err != nil {
			return err
		}
		made[i], err = readGroup(content)
		return err
	})
	if err != nil {
		return err
	}
	for i, g := range missing {
		groups[g.Name] = made[i]
	}
	return inParallel(ctx, m.atATime, len(want), func(ctx context.Context, i int) error {
		return m.bareRules(ctx, groups, want[i])
	})
}

// bareRules gives a group its rules, and takes others.
func (m *policies) bareRules(ctx context.Context, groups bareGroups, want policy.Group) error {
	has := groups[want.Name]
	texts := map[string]bool{}
	var bodies []map[string]any
	for _, r := range want.Rules {
		body := ruleBody(r, groups)
		texts[ruleText(body)] = true
		if has.rules[ruleText(body)] == "" {
			body["security_group_id"] = has.id
			bodies = append(bodies, body)
		}
	}
	if len(bodies) > 0 {
		body, err := json.Marshal(map[string]any{"security_group_rules": bodies})
		if err != nil {
			return err
		}
		content, err := m.bare.send(ctx, http.MethodPost, "security-group-rules", body)
		if err != nil {
			return err
		}
		var answer struct {
			Rules []map[string]any `json:"security_group_rules"`
		}
		if err := json.Unmarshal(content, &answer); err != nil {
			return err
		}
		has.take(answer.Rules)
	}
	for text, id := range has.rules {
		if texts[text] {
			continue
		}
		if _, err := m.bare.send(ctx, http.MethodDelete, "security-group-rules/"+id, nil); err != nil {
			return err
		}
		delete(has.rules, text)
	}
	return nil
}

// bareRemove deletes groups. Rules about their members go with them.
func (m *policies) bareRemove(ctx context.Context, groups bareGroups) error {
	for _, g := range groups {
		if _, err := m.bare.send(ctx, http.MethodDelete, "security-groups/"+g.id, nil); err != nil {
			return err
		}
	}
	return nil
}

// readGroup reads a group from Neutron's answer.
func readGroup(content []byte) (*bareGroup, error) {
	var answer struct {
		Group struct {
			ID    string
			Rules []map[string]any `json:"security_group_rules"`
		} `json:"security_group"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return nil, err
	}
	g := &bareGroup{id: answer.Group.ID, rules: map[string]string{}}
	g.take(answer.Group.Rules)
	return g, nil
}

// take adds rules as Neutron tells them.
func (g *bareGroup) take(rules []map[string]any) {
	for _, r := range rules {
		g.rules[ruleText(r)] = fmt.Sprint(r["id"])
	}
}

// ruleBody is a rule of a group as Neutron's API has it. A group that it names MUST be there.
func ruleBody(r cloudteamv1.SecurityGroupRule, groups bareGroups) map[string]any {
	body := map[string]any{
		"direction": string(r.Direction), "ethertype": cmp.Or(string(r.EtherType), string(cloudteamv1.EtherTypeIPv4)),
	}
	if r.Protocol != "" {
		body["protocol"] = r.Protocol
	}
	if r.PortRangeMin != nil {
		body["port_range_min"], body["port_range_max"] = *r.PortRangeMin, *r.PortRangeMax
	}
	if r.RemoteCIDR != "" {
		body["remote_ip_prefix"] = r.RemoteCIDR
	}
	if r.RemoteGroup != "" {
		body["remote_group_id"] = groups[r.RemoteGroup].id
	}
	return body
}

// ruleText tells rules of one group apart, in a request and in an answer.
func ruleText(body map[string]any) string {
	var text []string
	for _, key := range []string{
		"direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id",
	} {
		if value := body[key]; value != nil {
			text = append(text, fmt.Sprintf("%s=%v", key, value))
		}
	}
	return strings.Join(text, " ")
}
