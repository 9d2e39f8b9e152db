package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// MaxRules is the most rules of a SecurityGroup.
const MaxRules = 64

// nothing is a range that no packet on a network has, because it never leaves its host (RFC 1122, section 3.2.1.3). A
// rule about it closes egress: a SecurityGroup without any lets everything out.
const nothing = "127.0.0.1/32"

// Group is a SecurityGroup that policies need.
type Group struct {
	// Name is the SecurityGroup's, in the policies' namespace.
	Name string
	// Description says for people what it is for.
	Description string
	// On is the Network whose ports are in it.
	On cache.ObjectName
	// Policy is the policy whose Pods are in it; empty for a group that policies share.
	Policy string
	// Rules never lack one for egress.
	Rules []cloudteamv1.SecurityGroupRule
}

// Pods has the Pods on Networks. A peer selects some of them, in whatever namespaces. Of both methods, ok is false if
// it refuses to look for more.
type Pods interface {
	// Addresses gives their addresses, as ranges in any order. It may leave out those beyond MaxRanges+1.
	Addresses(on cache.ObjectName, peer Peer) (found []netip.Prefix, ok bool)
	// Ports gives the numbers that their containers have for the ports of a protocol and a name, in order. It may leave
	// out those beyond MaxRules+1.
	Ports(on cache.ObjectName, peer Peer, protocol, name string) (found []Numbered, ok bool)
}

// Numbered are the Pods that have a number for the name of a port.
type Numbered struct {
	Number int32
	// Addresses are theirs, as ranges in order. For a peer of the own namespace there are none. Those beyond MaxRanges+1,
	// of all numbers together, may be left out.
	Addresses []netip.Prefix
}

// MaxRanges is the most ranges of the Pods that one peer selects. A rule with more does not fit into a group, unless
// other peers have most of these addresses, too: it allows nothing, so that its cost is bounded.
const MaxRanges = 4 * MaxRules

// Groups gives the groups that the policies of one namespace need, each once, ordered by their names. problems say, by
// the policy's name, what one has beyond what a group can hold; the rule in question is left out. lacks say, likewise,
// which names of ports no Pod has now.
func Groups(policies []Policy, pods Pods) (groups []Group, problems, lacks map[string][]string) {
	problems, lacks = map[string][]string{}, map[string][]string{}
	byName := map[string]Group{}
	add := func(g Group) { byName[g.Name] = g }
	for _, p := range policies {
		for _, on := range p.On {
			g, tooMany, unknown := p.group(on, pods)
			problems[p.Name] = append(problems[p.Name], tooMany...)
			lacks[p.Name] = append(lacks[p.Name], unknown...)
			add(g)
			for _, s := range p.shared(on) {
				add(s)
			}
		}
	}
	for _, g := range byName {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return groups, problems, lacks
}

// Names gives the names of the groups that a policy needs on a Network. It looks at no Pods.
func (p Policy) Names(on cache.ObjectName) []string {
	names := []string{groupName(p.Name, on)}
	for _, s := range p.shared(on) {
		names = append(names, s.Name)
	}
	return names
}

// shared are the groups of a policy on a Network that other policies may need, too: they are the same for all.
func (p Policy) shared(on cache.ObjectName) (groups []Group) {
	for _, pods := range p.own {
		groups = append(groups, membersOf(on, pods))
	}
	if !p.Ingress {
		groups = append(groups, open(on, cloudteamv1.RuleIngress))
	}
	if !p.Egress {
		groups = append(groups, open(on, cloudteamv1.RuleEgress))
	}
	return groups
}

// Membership is what policies decide about a port.
type Membership struct {
	// Selected is true if a policy selects the port's Pod. Then the port is in Groups alone. Otherwise it is in Groups
	// besides those that it would be in without any policy.
	Selected bool
	// Groups are the names of SecurityGroups of the policies' namespace, sorted.
	Groups []string
}

// Members gives the function that gives the groups of a port on a Network whose Pod has the labels. policies are those
// of the Pod's namespace. The name of a group is made once, for the first Pod in it. The function is not safe for
// concurrent use.
func Members(policies []Policy, on cache.ObjectName) func(pod labels.Labels) Membership {
	own, members, opened := map[string]string{}, map[*Selector]string{}, map[cloudteamv1.RuleDirection]string{}
	openFor := func(direction cloudteamv1.RuleDirection) string {
		return once(opened, direction, func() string { return open(on, direction).Name })
	}
	return func(pod labels.Labels) (m Membership) {
		ingress, egress := false, false
		for _, p := range policies {
			if !slices.Contains(p.On, on) {
				continue
			}
			if p.Pods.Matches(pod) {
				m.Selected = true
				ingress, egress = ingress || p.Ingress, egress || p.Egress
				m.Groups = append(m.Groups, once(own, p.Name, func() string { return groupName(p.Name, on) }))
			}
			for _, pods := range p.own {
				if pods.Matches(pod) {
					m.Groups = append(m.Groups, once(members, pods, func() string { return membersName(on, pods) }))
				}
			}
		}
		if m.Selected && !ingress {
			m.Groups = append(m.Groups, openFor(cloudteamv1.RuleIngress))
		}
		if m.Selected && !egress {
			m.Groups = append(m.Groups, openFor(cloudteamv1.RuleEgress))
		}
		slices.Sort(m.Groups)
		m.Groups = slices.Compact(m.Groups)
		return m
	}
}

// once gives the name of a group, and makes it the first time.
func once[K comparable](names map[K]string, of K, name func() string) string {
	if names[of] == "" {
		names[of] = name()
	}
	return names[of]
}

// MaxGroups is the most groups that the policy needs on a Network.
func (p Policy) MaxGroups() int { return 1 + len(p.own) + 2 }

// NamesOthers reports whether the policy's groups have addresses of Pods, which may be of other namespaces.
func (p Policy) NamesOthers() bool {
	others := func(peer Peer) bool { return !peer.Block.IsValid() && !peer.own() }
	return slices.ContainsFunc(slices.Concat(p.In, p.Out), func(r Rule) bool {
		return slices.ContainsFunc(r.Peers, others)
	})
}

// NamesPorts reports whether the policy's groups have numbers that Pods have for the names of their ports.
func (p Policy) NamesPorts() bool {
	return slices.ContainsFunc(slices.Concat(p.In, p.Out), func(r Rule) bool {
		return slices.ContainsFunc(r.Ports, Ports.named)
	})
}

func (p Ports) named() bool { return p.Name != "" }

// group is the group of the Pods that the policy selects.
func (p Policy) group(on cache.ObjectName, pods Pods) (g Group, problems, lacks []string) {
	g = Group{
		Name: groupName(p.Name, on), On: on, Policy: p.Name,
		Description: cut(fmt.Sprintf("MultiNetworkPolicy %s, for Network %s", p.Name, on)),
	}
	room := MaxRules - 1 // one closes egress
	add := func(direction cloudteamv1.RuleDirection, rules []Rule) {
		for i, r := range rules {
			translated, needs, unknown, ok := p.translate(r, on, direction, pods)
			if !ok {
				problems = append(problems, fmt.Sprintf("rule %d for %s allows nothing: the policies of the namespace name more "+
					"sets of Pods, of other namespaces or with ports by name, than the controller looks for. Name ranges by "+
					"ipBlock, ports by number, or fewer sets", i, direction))
				continue
			}
			if len(unknown) > 0 {
				lacks = append(lacks, fmt.Sprintf("rule %d for %s: on Network %s, no Pod that it is about has a port %s: "+
					"until one has, it allows nothing for that", i, direction, on, strings.Join(unknown, ", ")))
			}
			more := slices.DeleteFunc(translated, func(r cloudteamv1.SecurityGroupRule) bool {
				return slices.ContainsFunc(g.Rules, func(have cloudteamv1.SecurityGroupRule) bool { return same(have, r) })
			})
			if needs > room || len(g.Rules)+len(more) > room {
				problems = append(problems, fmt.Sprintf("rule %d for %s needs %d rules of a security group, on Network %s, and "+
					"%d of %d are left: it allows nothing. Name fewer ranges, ports or Pods of other namespaces, or write two "+
					"policies", i, direction, needs, on, room-len(g.Rules), room))
				continue
			}
			g.Rules = append(g.Rules, more...)
		}
	}
	if p.Ingress {
		add(cloudteamv1.RuleIngress, p.In)
	}
	if p.Egress {
		add(cloudteamv1.RuleEgress, p.Out)
	}
	g.Rules = append(g.Rules, closed())
	return g, problems, lacks
}

// translate translates a rule for one Network. The result has no two equal rules. If it needs more than a group can
// have, there is no result. unknown are names of ports that no Pod has. ok is false if the Pods are not looked for.
func (p Policy) translate(
	r Rule, on cache.ObjectName, direction cloudteamv1.RuleDirection, pods Pods,
) (rules []cloudteamv1.SecurityGroupRule, needs int, unknown []string, ok bool) {
	if !slices.ContainsFunc(r.Ports, Ports.named) {
		rules, needs, ok = r.on(on, direction, pods)
		return rules, needs, nil, ok
	}
	parts, unknown, ok := p.byNumber(r, on, direction, pods)
	if !ok || len(parts) > MaxRules {
		return nil, MaxRules + 1, nil, ok
	}
	for _, part := range parts {
		translated, needs, ok := part.on(on, direction, pods)
		if !ok || needs > MaxRules {
			return nil, needs, nil, ok
		}
		for _, rule := range translated {
			if !slices.ContainsFunc(rules, func(have cloudteamv1.SecurityGroupRule) bool { return same(have, rule) }) {
				rules = append(rules, rule)
			}
		}
		if len(rules) > MaxRules {
			return nil, len(rules), nil, true
		}
	}
	return rules, len(rules), unknown, true
}

// byNumber gives rules whose ports are numbers, and that together allow what a rule with names does; if they are more
// than MaxRules, not all of them. The names are those of the destination: for ingress, of the Pods that the policy
// selects. For egress, what is sent to a Pod of another namespace has that Pod's own number.
func (p Policy) byNumber(
	r Rule, on cache.ObjectName, direction cloudteamv1.RuleDirection, pods Pods,
) (parts []Rule, unknown []string, ok bool) {
	numeric := slices.DeleteFunc(slices.Clone(r.Ports), Ports.named)
	destinations := []Peer{{Pods: p.Pods}}
	if direction == cloudteamv1.RuleEgress {
		destinations = r.Peers
	}
	peers := map[Ports][]Peer{}
	var found []Ports // in the order of peers
	for _, port := range r.Ports {
		if !port.named() {
			continue
		}
		known := false
		for _, to := range destinations {
			numbers, ok := pods.Ports(on, to, port.Protocol, port.Name)
			if !ok {
				return nil, nil, false
			}
			for _, n := range numbers {
				known = true
				is := Ports{Protocol: port.Protocol, First: n.Number, Last: n.Number}
				var more []Peer
				if to.own() {
					more = []Peer{to}
				}
				for _, address := range n.Addresses {
					more = append(more, Peer{Block: address})
				}
				if len(more) == 0 || slices.Contains(numeric, is) {
					continue // no peers would be everybody
				}
				if _, has := peers[is]; !has {
					if found = append(found, is); len(found) > MaxRules {
						return make([]Rule, MaxRules+1), nil, true
					}
				}
				peers[is] = append(peers[is], more...)
			}
		}
		if !known {
			unknown = append(unknown, fmt.Sprintf("%s/%s", port.Protocol, port.Name))
		}
	}
	if direction == cloudteamv1.RuleIngress {
		numeric, found = append(numeric, found...), nil
	}
	if len(numeric) > 0 {
		parts = append(parts, Rule{Peers: r.Peers, Ports: numeric})
	}
	for _, is := range found {
		parts = append(parts, Rule{Peers: peers[is], Ports: []Ports{is}})
	}
	return parts, unknown, true
}

// on translates a rule, whose ports are numbers, for one Network. The result has no two equal rules. If it needs more
// than a group can have, there is no result. ok is false if its addresses are unknown.
func (r Rule) on(
	on cache.ObjectName, direction cloudteamv1.RuleDirection, pods Pods,
) (rules []cloudteamv1.SecurityGroupRule, needs int, ok bool) {
	add := func(remote cloudteamv1.SecurityGroupRule) {
		remote.Direction = direction
		if r.Ports == nil {
			rules = append(rules, remote)
		}
		for _, p := range r.Ports {
			rule := remote
			rule.Protocol = p.Protocol
			if p.First > 0 {
				rule.PortRangeMin, rule.PortRangeMax = new(p.First), new(p.Last)
			}
			if !slices.ContainsFunc(rules, func(have cloudteamv1.SecurityGroupRule) bool { return same(have, rule) }) {
				rules = append(rules, rule)
			}
		}
	}
	families := []cloudteamv1.EtherType{cloudteamv1.EtherTypeIPv4, cloudteamv1.EtherTypeIPv6}
	var groups []string
	var ranges netipx.IPSetBuilder
	for _, peer := range r.Peers {
		switch {
		case peer.own():
			groups = append(groups, membersName(on, peer.Pods))
		case peer.Block.IsValid():
			ranges.AddSet(peer.ranges())
		default:
			found, ok := pods.Addresses(on, peer)
			if !ok {
				return nil, 0, false
			}
			if len(found) > MaxRanges {
				return nil, len(found), true
			}
			for _, prefix := range found {
				ranges.AddPrefix(prefix)
			}
		}
	}
	slices.Sort(groups)
	groups = slices.Compact(groups)
	prefixes := setOf(&ranges).Prefixes()
	remotes := len(groups)*len(families) + len(prefixes)
	if r.Peers == nil {
		remotes = len(families)
	}
	// Its number comes before it: a few words of a policy can mean millions of rules.
	if needs = remotes * max(1, len(r.Ports)); needs > MaxRules {
		return nil, needs, true
	}
	if r.Peers == nil {
		for _, family := range families {
			add(cloudteamv1.SecurityGroupRule{EtherType: family})
		}
	}
	for _, group := range groups {
		for _, family := range families {
			add(cloudteamv1.SecurityGroupRule{EtherType: family, RemoteGroup: group})
		}
	}
	for _, prefix := range prefixes {
		family := cloudteamv1.EtherTypeIPv4
		if prefix.Addr().Is6() {
			family = cloudteamv1.EtherTypeIPv6
		}
		add(cloudteamv1.SecurityGroupRule{EtherType: family, RemoteCIDR: prefix.String()})
	}
	return rules, needs, true
}

// ranges are the addresses of a Block, without those that it excepts.
func (p Peer) ranges() *netipx.IPSet {
	var b netipx.IPSetBuilder
	b.AddPrefix(p.Block)
	for _, except := range p.Except {
		b.RemovePrefix(except)
	}
	return setOf(&b)
}

// setOf gives the set that a builder has. Its errors are about invalid addresses only, of which it got none.
func setOf(b *netipx.IPSetBuilder) *netipx.IPSet {
	set, err := b.IPSet()
	if err != nil {
		panic(err)
	}
	return set
}

// membersOf is the group of the Pods of the own namespace that a peer selects. Policies that select the same share it.
func membersOf(on cache.ObjectName, pods *Selector) Group {
	return Group{
		Name: membersName(on, pods), On: on, Rules: []cloudteamv1.SecurityGroupRule{closed()},
		Description: cut(fmt.Sprintf("Pods that MultiNetworkPolicies name, on Network %s: %s", on,
			cmp.Or(pods.String(), "all"))),
	}
}

func membersName(on cache.ObjectName, pods *Selector) string {
	return "policy-members-" + hash(on.String(), string(pods.sum[:]))
}

// open is the group of the Pods that policies select, but not for the direction.
func open(on cache.ObjectName, direction cloudteamv1.RuleDirection) Group {
	g := Group{
		Name: fmt.Sprintf("policy-open-%s-%s", direction, hash(on.String())), On: on,
		Description: cut(fmt.Sprintf("Pods that MultiNetworkPolicies select, but not for %s, on Network %s", direction, on)),
		Rules: []cloudteamv1.SecurityGroupRule{
			{Direction: direction, EtherType: cloudteamv1.EtherTypeIPv4},
			{Direction: direction, EtherType: cloudteamv1.EtherTypeIPv6},
		},
	}
	if direction == cloudteamv1.RuleIngress {
		g.Rules = append(g.Rules, closed())
	}
	return g
}

// closed is a rule that lets nothing out.
func closed() cloudteamv1.SecurityGroupRule {
	return cloudteamv1.SecurityGroupRule{
		Direction: cloudteamv1.RuleEgress, EtherType: cloudteamv1.EtherTypeIPv4, RemoteCIDR: nothing,
	}
}

// groupName is the name of a policy's group on a Network.
func groupName(policy string, on cache.ObjectName) string {
	// A name has at most 253 characters; a longer one's is told from others by the hash.
	const most = 200
	return "policy-" + strings.TrimRight(policy[:min(most, len(policy))], ".-") + "-" + hash(policy, on.String())
}

// hash is a short text for some longer ones.
func hash(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:5])
}

// cut shortens a description to what a SecurityGroup's may have.
func cut(text string) string {
	const most = 173
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// same reports whether two rules are equal.
func same(a, b cloudteamv1.SecurityGroupRule) bool {
	equal := func(p, q *int32) bool { return p == q || p != nil && q != nil && *p == *q }
	plain := func(r cloudteamv1.SecurityGroupRule) cloudteamv1.SecurityGroupRule {
		r.PortRangeMin, r.PortRangeMax = nil, nil
		return r
	}
	return plain(a) == plain(b) && equal(a.PortRangeMin, b.PortRangeMin) && equal(a.PortRangeMax, b.PortRangeMax)
}
