package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// pod is a Pod with a port on the Network, in the packet model.
type pod struct {
	name, namespace string
	labels          labels.Set
	addresses       []netip.Addr
	// ports are those with names, such as tcp/http.
	ports map[string]int32
}

// packet is what a Pod receives from an address, or sends to one.
type packet struct {
	remote   netip.Addr
	protocol string
	port     int32 // 0 for a protocol without ports
}

var (
	lab = cache.NewObjectName("team", "lab")

	namespaces = map[string]labels.Set{
		"team": {"team": "a", "env": "dev"}, "other": {"team": "b", "env": "dev"}, "third": {"team": "c"},
	}
)

// selects reports whether a peer selects a Pod, for a policy of namespace team, as MultiNetworkPolicy says.
func (p pod) selectedBy(peer Peer) bool {
	if peer.Block.IsValid() || !peer.Pods.Matches(p.labels) {
		return false
	}
	if peer.Namespaces == nil {
		return p.namespace == "team"
	}
	return peer.Namespaces.Matches(namespaces[p.namespace])
}

// world is the Pods on each Network.
type world []pod

func (w world) Addresses(_ cache.ObjectName, peer Peer) (all []netip.Prefix, ok bool) {
	for _, p := range w {
		if p.selectedBy(peer) {
			for _, a := range p.addresses {
				all = append(all, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return all, true
}

func (w world) Ports(_ cache.ObjectName, peer Peer, protocol, name string) (found []Numbered, ok bool) {
	of := map[int32][]netip.Prefix{}
	for _, p := range w {
		if number, has := p.ports[protocol+"/"+name]; has && p.selectedBy(peer) {
			of[number] = append(of[number], nil...)
			for _, a := range p.addresses {
				if !peer.own() {
					of[number] = append(of[number], netip.PrefixFrom(a, a.BitLen()))
				}
			}
		}
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		found = append(found, Numbered{number, of[number]})
	}
	return found, true
}

// blind looks for no Pods.
type blind struct{}

func (blind) Addresses(cache.ObjectName, Peer) ([]netip.Prefix, bool)         { return nil, false }
func (blind) Ports(cache.ObjectName, Peer, string, string) ([]Numbered, bool) { return nil, false }

// allowedByPolicies is the meaning of the policies: the definition that the translation has to keep.
func allowedByPolicies(policies []Policy, pods []pod, at pod, ingress bool, x packet) bool {
	isolated := false
	for _, p := range policies {
		if !slices.Contains(p.On, lab) || !p.Pods.Matches(at.labels) {
			continue
		}
		restricts, rules, to := p.Ingress, p.In, &Peer{Pods: p.Pods}
		if !ingress {
			restricts, rules, to = p.Egress, p.Out, nil
		}
		isolated = isolated || restricts
		if restricts && slices.ContainsFunc(rules, func(r Rule) bool { return r.allows(pods, to, x) }) {
			return true
		}
	}
	return !isolated
}

// allows reports whether a rule allows a packet to some Pods, or to its peers if to is nil. A name means each number that
// one of these Pods has for it. What goes to a Pod of another namespace has that Pod's own number.
func (r Rule) allows(pods world, to *Peer, x packet) bool {
	port := func(to *Peer) bool {
		return r.Ports == nil || slices.ContainsFunc(r.Ports, func(p Ports) bool {
			if p.Name != "" {
				numbers, _ := pods.Ports(lab, *to, p.Protocol, p.Name)
				return p.Protocol == x.protocol && slices.ContainsFunc(numbers, func(n Numbered) bool {
					return n.Number == x.port && (to.own() || slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return a.Contains(x.remote) }))
				})
			}
			return p.Protocol == x.protocol && (p.First == 0 || p.First <= x.port && x.port <= p.Last)
		})
	}
	return r.Peers == nil && port(to) || slices.ContainsFunc(r.Peers, func(peer Peer) bool {
		if !port(cmp.Or(to, &peer)) {
			return false
		}
		if peer.Block.IsValid() {
			except := func(e netip.Prefix) bool { return e.Contains(x.remote) }
			return peer.Block.Contains(x.remote) && !slices.ContainsFunc(peer.Except, except)
		}
		return slices.ContainsFunc(pods, func(p pod) bool {
			return p.selectedBy(peer) && slices.Contains(p.addresses, x.remote)
		})
	})
}

// allowedByGroups is what Neutron does with a port in groups: it lets pass what any rule of any of them is about.
func allowedByGroups(
	policies []Policy, groups []Group, pods []pod, in []string, ingress bool, x packet,
) bool {
	for _, g := range groups {
		if !slices.Contains(in, g.Name) {
			continue
		}
		for _, r := range g.Rules {
			family := cloudteamv1.EtherTypeIPv4
			if x.remote.Is6() {
				family = cloudteamv1.EtherTypeIPv6
			}
			if (r.Direction == cloudteamv1.RuleIngress) != ingress || r.EtherType != family ||
				r.Protocol != "" && r.Protocol != x.protocol ||
				r.PortRangeMin != nil && (x.port < *r.PortRangeMin || x.port > *r.PortRangeMax) {
				continue
			}
			switch {
			case r.RemoteCIDR != "":
				if netip.MustParsePrefix(r.RemoteCIDR).Contains(x.remote) {
					return true
				}
			case r.RemoteGroup != "":
				if slices.ContainsFunc(pods, func(p pod) bool {
					return p.namespace == "team" && slices.Contains(p.addresses, x.remote) &&
						slices.Contains(Members(policies, lab)(p.labels).Groups, r.RemoteGroup)
				}) {
					return true
				}
			default:
				return true
			}
		}
	}
	return false
}

func selecting(set labels.Set) *Selector { return SelectorOf(labels.SelectorFromSet(set)) }

func drawSelector(t *rapid.T, what string) *Selector {
	text := rapid.SampledFrom([]string{"", "app=web", "app=db", "app!=db", "app in (web,db)", "tier", "!tier"}).Draw(t, what)
	s, err := labels.Parse(text)
	expect.NoError(t, err)
	return SelectorOf(s)
}

func drawPrefix(t *rapid.T, what string) netip.Prefix {
	return netip.MustParsePrefix(rapid.SampledFrom([]string{
		"0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/24", "10.1.0.0/30", "10.1.0.2/32", "192.0.2.0/25", "::/0", "fd00::/16",
		"fd00::2/128",
	}).Draw(t, what))
}

func drawPeer(t *rapid.T) (p Peer) {
	switch rapid.IntRange(0, 2).Draw(t, "peer") {
	case 0:
		p.Block = drawPrefix(t, "block")
		p.Except = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix { return drawPrefix(t, "except") }), 0, 2).
			Draw(t, "except")
		return p
	case 1:
		p.Namespaces = selecting(rapid.SampledFrom([]labels.Set{
			{}, {"team": "a"}, {"team": "b"}, {"env": "dev"},
		}).Draw(t, "namespaces"))
	}
	p.Pods = drawSelector(t, "pods")
	return p
}

// drawRules draws rules. Those of packets that Pods send have names of ports only where Parse accepts them.
func drawRules(t *rapid.T, what string) []Rule {
	ports := rapid.Custom(func(t *rapid.T) Ports {
		first := rapid.SampledFrom([]int32{0, 80, 443, -1}).Draw(t, "first")
		if first < 0 {
			return Ports{
				Protocol: rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"),
				Name:     rapid.SampledFrom([]string{"http", "metrics"}).Draw(t, "name"),
			}
		}
		return Ports{
			Protocol: rapid.SampledFrom([]string{"tcp", "udp", "sctp"}).Draw(t, "protocol"),
			First:    first, Last: first + first*rapid.Int32Range(0, 2).Draw(t, "more"),
		}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) (r Rule) {
		if rapid.Bool().Draw(t, "has peers") {
			r.Peers = rapid.SliceOfN(rapid.Custom(drawPeer), 1, 3).Draw(t, "peers")
		}
		if rapid.Bool().Draw(t, "has ports") {
			r.Ports = rapid.SliceOfN(ports, 1, 2).Draw(t, "ports")
		}
		if what == "out" && !r.toPodsOnly() {
			r.Ports = slices.DeleteFunc(r.Ports, Ports.named)
			if len(r.Ports) == 0 {
				r.Ports = nil
			}
		}
		return r
	}), 0, 3).Draw(t, what)
}

func drawPolicies(t *rapid.T) (policies []Policy) {
	for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
		p := Policy{Name: fmt.Sprint("p", i), Pods: drawSelector(t, "about")}
		p.On = rapid.SampledFrom([][]cache.ObjectName{{lab}, {lab}, {cache.NewObjectName("team", "storage")}}).Draw(t, "on")
		p.Ingress = rapid.Bool().Draw(t, "ingress")
		p.Egress = !p.Ingress || rapid.Bool().Draw(t, "egress")
		p.In, p.Out = drawRules(t, "in"), drawRules(t, "out")
		for _, r := range slices.Concat(p.In, p.Out) {
			p = p.with(r)
		}
		policies = append(policies, p)
	}
	return policies
}

func drawPods(t *rapid.T) (pods []pod) {
	for i := range rapid.IntRange(1, 8).Draw(t, "pods") {
		p := pod{name: fmt.Sprint("pod", i), labels: labels.Set{}}
		p.namespace = rapid.SampledFrom([]string{"team", "team", "other", "third"}).Draw(t, "namespace")
		for key, values := range map[string][]string{"app": {"", "web", "db"}, "tier": {"", "one"}} {
			if value := rapid.SampledFrom(values).Draw(t, key); value != "" {
				p.labels[key] = value
			}
		}
		p.ports = rapid.MapOfN(rapid.SampledFrom([]string{"tcp/http", "udp/http", "tcp/metrics"}),
			rapid.SampledFrom([]int32{80, 100, 444}), 0, 3).Draw(t, "ports")
		p.addresses = []netip.Addr{
			netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", i)), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i)),
		}
		pods = append(pods, p)
	}
	return pods
}

// packetsBetween are packets from or to each Pod and some addresses of nobody.
func packetsBetween(pods []pod) (packets []packet) {
	remotes := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8::1")}
	for _, p := range pods {
		remotes = append(remotes, p.addresses...)
	}
	for _, remote := range remotes {
		for _, protocol := range []string{"tcp", "udp", "sctp"} {
			for _, port := range []int32{1, 80, 100, 240, 443, 444, 65535} {
				packets = append(packets, packet{remote, protocol, port})
			}
		}
		packets = append(packets, packet{remote, "icmp", 0})
	}
	return packets
}

// TestPropertyGroupsAllowWhatThePoliciesAllow is the packet model: for each Pod that a policy selects, each packet that
// the policies allow passes its groups, and no other one does. A policy that a group has no room for allows less.
func TestPropertyGroupsAllowWhatThePoliciesAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies, pods := drawPolicies(t), drawPods(t)
		groups, problems, _ := Groups(policies, world(pods))
		cutShort := slices.ContainsFunc(slices.Collect(maps.Values(problems)), func(p []string) bool { return len(p) > 0 })
		packets := packetsBetween(pods)
		for _, p := range pods {
			m := Members(policies, lab)(p.labels)
			if p.namespace != "team" || !m.Selected {
				continue
			}
			for _, x := range packets {
				for _, ingress := range []bool{true, false} {
					want := allowedByPolicies(policies, pods, p, ingress, x)
					got := allowedByGroups(policies, groups, pods, m.Groups, ingress, x)
					if got && !want || want && !got && !cutShort {
						t.Fatalf("%s (%v), ingress %t, %+v: allowed by policies %t, by groups %t", p.name, p.labels, ingress, x,
							want, got)
					}
				}
			}
		}
	})
}

// TestPropertyMembersAloneAllowNothing holds that the groups of a Pod that no policy selects let nothing in or out: it is
// in them besides others, and must not become more open by it.
func TestPropertyMembersAloneAllowNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies, pods := drawPolicies(t), drawPods(t)
		groups, _, _ := Groups(policies, world(pods))
		for _, p := range pods {
			m := Members(policies, lab)(p.labels)
			if m.Selected {
				continue
			}
			for _, x := range packetsBetween(pods) {
				for _, ingress := range []bool{true, false} {
					if allowedByGroups(policies, groups, pods, m.Groups, ingress, x) {
						t.Fatalf("%s (%v) is in %v, which let %+v pass", p.name, p.labels, m.Groups, x)
					}
				}
			}
		}
	})
}

// TestPropertyGroupsAreThereAndFit holds that each group of a port and each remote group is among the groups, that each
// fits into a SecurityGroup, and that its name and description do.
func TestPropertyGroupsAreThereAndFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies, pods := drawPolicies(t), drawPods(t)
		groups, _, _ := Groups(policies, world(pods))
		names := map[string]bool{}
		for _, g := range groups {
			if names[g.Name] {
				t.Fatalf("two groups are called %s", g.Name)
			}
			names[g.Name] = true
		}
		for _, g := range groups {
			if len(g.Rules) > MaxRules || len(g.Name) > 253 || len([]rune(g.Description)) > 173 {
				t.Fatalf("%+v does not fit into a SecurityGroup", g)
			}
			for i, r := range g.Rules {
				if r.RemoteGroup != "" && !names[r.RemoteGroup] {
					t.Fatalf("%s has a rule about %s, which is no group", g.Name, r.RemoteGroup)
				}
				if slices.ContainsFunc(g.Rules[:i], func(have cloudteamv1.SecurityGroupRule) bool { return same(have, r) }) {
					t.Fatalf("%s has a rule twice: %+v", g.Name, r)
				}
			}
			if !slices.ContainsFunc(g.Rules, func(r cloudteamv1.SecurityGroupRule) bool {
				return r.Direction == cloudteamv1.RuleEgress
			}) {
				t.Fatalf("%s has no rule for egress, so that a SecurityGroup would let everything out", g.Name)
			}
		}
		for _, p := range pods {
			for _, name := range Members(policies, lab)(p.labels).Groups {
				if !names[name] {
					t.Fatalf("%s is in %s, which is no group", p.name, name)
				}
			}
		}
	})
}

// parse reads a policy in YAML.
func parse(t *testing.T, text string) (Policy, []string, bool) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	expect.NoError(t, yaml.Unmarshal([]byte(text), &obj.Object))
	return Parse(obj)
}

const head = `
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata:
  name: db
  namespace: team
  annotations: {k8s.v1.cni.cncf.io/policy-for: "lab, other/shared, team/lab"}
`

func TestParse(t *testing.T) {
	p, problems, ok := parse(t, head+`
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - podSelector: {matchLabels: {app: web}}
    - namespaceSelector: {matchLabels: {team: b}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16]}
    ports:
    - {protocol: TCP, port: 5432}
    - {protocol: UDP, port: 1000, endPort: 2000}
    - {port: 80}
    - {}
`)
	if !ok || len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	if want := []cache.ObjectName{lab, cache.NewObjectName("other", "shared")}; !slices.Equal(p.On, want) {
		t.Errorf("it is for %v, want %v", p.On, want)
	}
	if !p.Ingress || !p.Egress || p.Pods.String() != "app=db" || len(p.In) != 1 || len(p.Out) != 0 {
		t.Errorf("it is %+v", p)
	}
	if want := []Ports{{Protocol: "tcp", First: 5432, Last: 5432}, {Protocol: "udp", First: 1000, Last: 2000}, {Protocol: "tcp", First: 80, Last: 80}, {Protocol: "tcp", First: 0, Last: 0}}; !slices.Equal(p.In[0].Ports, want) {
		t.Errorf("ports are %v, want %v", p.In[0].Ports, want)
	}
	if peers := p.In[0].Peers; len(peers) != 3 || !peers[0].own() || peers[1].own() || peers[1].Pods.String() != "" ||
		peers[2].Block.String() != "10.0.0.0/8" || len(peers[2].Except) != 1 {
		t.Errorf("peers are %+v", peers)
	}
}

func TestDirectionsWithoutPolicyTypes(t *testing.T) {
	for spec, want := range map[string][2]bool{
		`{podSelector: {}}`:                                       {true, false},
		`{podSelector: {}, egress: [{}]}`:                         {true, true},
		`{podSelector: {}, policyTypes: [Egress]}`:                {false, true},
		`{podSelector: {}, policyTypes: [Ingress], egress: [{}]}`: {true, false},
	} {
		if p, problems, ok := parse(t, head+"spec: "+spec); !ok || len(problems) > 0 || p.Ingress != want[0] || p.Egress != want[1] {
			t.Errorf("%s restricts ingress %t, egress %t, want %v (%v)", spec, p.Ingress, p.Egress, want, problems)
		}
	}
}

func TestWhatNeutronCannotDoIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		rule, says string
	}{
		"no name":                   {`{ports: [{port: Ht_tp}]}`, `spec.ingress[0]: port 0: "Ht_tp" is not the name of a container's port`},
		"a range from a name":       {`{ports: [{port: http, endPort: 90}]}`, `With endPort, write a number`},
		"another protocol":          {`{ports: [{protocol: ICMP}]}`, `protocol "ICMP" is none of TCP, UDP and SCTP`},
		"a range that ends early":   {`{ports: [{port: 80, endPort: 79}]}`, "ports 80 to 79 are no range"},
		"a last port alone":         {`{ports: [{endPort: 79}]}`, "endPort without port"},
		"an empty peer":             {`{from: [{}]}`, "peer 0: it is empty"},
		"a block and a selector":    {`{from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}`, "write two peers"},
		"a block that is none":      {`{from: [{ipBlock: {cidr: ten}}]}`, `"ten" is no range of addresses`},
		"an exception that is none": {`{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [ten]}}]}`, `"ten" is no range of addresses`},
		"a selector that is none":   {`{from: [{podSelector: {matchExpressions: [{key: a, operator: Like}]}}]}`, "podSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			p, problems, ok := parse(t, head+"spec: {podSelector: {}, ingress: ["+test.rule+"]}")
			if !ok || len(problems) != 1 || !strings.Contains(problems[0], test.says) {
				t.Errorf("it says %q, want %q", problems, test.says)
			}
			if !p.Ingress || len(p.In) > 0 {
				t.Errorf("the rule allows something: %+v", p)
			}
		})
	}
	for name, text := range map[string]string{
		"a selector that is none": head + "spec: {podSelector: {matchExpressions: [{key: a, operator: Like}]}}",
		"another type":            head + "spec: {podSelector: 7}",
		"too many Networks":       strings.Replace(head, "lab, ", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,", 1) + "spec: {podSelector: {}}",
		"a long annotation":       strings.Replace(head, "lab, ", strings.Repeat("a,", maxAnnotation), 1) + "spec: {podSelector: {}}",
	} {
		if _, problems, ok := parse(t, text); ok || len(problems) != 1 {
			t.Errorf("%s is accepted (%v)", name, problems)
		}
	}
}

// TestARuleThatDoesNotFitAllowsNothing: one address less would be another policy, and nobody would know which.
func TestARuleThatDoesNotFitAllowsNothing(t *testing.T) {
	var pods []pod
	for i := range 100 {
		pods = append(pods, pod{
			namespace: "other", labels: labels.Set{}, addresses: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", 2*i))},
		})
	}
	p, _, _ := parse(t, head+`
spec:
  podSelector: {}
  ingress:
  - from: [{namespaceSelector: {}}]
  - from: [{ipBlock: {cidr: 192.0.2.0/24}}]
`)
	p.On = p.On[:1]
	groups, problems, _ := Groups([]Policy{p}, world(pods))
	if len(problems["db"]) != 1 || !strings.Contains(problems["db"][0], "rule 0 for ingress needs 100 rules of a security group") {
		t.Errorf("it says %q", problems["db"])
	}
	at := slices.IndexFunc(groups, func(g Group) bool { return g.Name == groupName("db", lab) })
	if rules := groups[at].Rules; len(rules) != 2 || rules[0].RemoteCIDR != "192.0.2.0/24" {
		t.Errorf("the group has %+v", rules)
	}
}

// TestAFewWordsDoNotBecomeMillionsOfRules: each of these was one, or would take minutes.
func TestAFewWordsDoNotBecomeMillionsOfRules(t *testing.T) {
	var excepts, ports, selectors []string
	for i := range maxItems {
		excepts = append(excepts, fmt.Sprintf("2001:db8:%x::1/128", 1+i*7))
		ports = append(ports, fmt.Sprintf("{port: %d}", 1+2*i))
		selectors = append(selectors, fmt.Sprintf("{podSelector: {matchLabels: {a: b%d}}}", i))
	}
	allocations := testing.AllocsPerRun(1, func() {
		p, problems, ok := parse(t, head+"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: \"::/0\", except: ["+
			quoted(excepts)+"]}}], ports: ["+strings.Join(ports, ", ")+"]}, {from: ["+strings.Join(selectors, ", ")+"]}]}")
		if !ok || len(problems) != 1 || !strings.Contains(problems[0], "different podSelectors") {
			t.Fatalf("ok %t, problems %q", ok, problems)
		}
		groups, told, _ := Groups([]Policy{p}, world(nil))
		if len(told["db"]) == 0 || !strings.Contains(told["db"][0], "rules of a security group") {
			t.Errorf("it says %q", told["db"])
		}
		if len(groups) != 4 { // the policy's, and one that opens egress, on two Networks
			t.Errorf("there are %d groups", len(groups))
		}
	})
	if allocations > 100_000 { // they were 14,000 when this was written
		t.Errorf("it takes %.0f allocations", allocations)
	}
	many := strings.Repeat("{port: 1}, ", maxItems+1)
	if _, problems, _ := parse(t, head+"spec: {podSelector: {}, ingress: [{ports: ["+many+"]}]}"); len(problems) != 1 {
		t.Errorf("too many ports are accepted: %q", problems)
	}
}

func quoted(texts []string) string { return `"` + strings.Join(texts, `", "`) + `"` }

// named is a policy for db whose ports have names.
const named = head + `
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - {from: [{podSelector: {}}], ports: [{port: sql}, {port: 5432}, {port: sql, protocol: UDP}]}
  egress:
  - {to: [{podSelector: {matchLabels: {app: web}}}, {podSelector: {matchLabels: {app: log}}}], ports: [{port: http}]}
`

// A name is the number, or the numbers, of the containers that the packets go to.
func TestNamesOfPortsAreThoseOfTheDestination(t *testing.T) {
	p, problems, _ := parse(t, named)
	if len(problems) > 0 || !p.NamesPorts() || p.NamesOthers() {
		t.Fatalf("problems %q, names ports %t, others %t", problems, p.NamesPorts(), p.NamesOthers())
	}
	p.On = p.On[:1]
	is := func(app string, ports map[string]int32) pod {
		return pod{namespace: "team", labels: labels.Set{"app": app}, ports: ports}
	}
	groups, problem, told := Groups([]Policy{p}, world{
		is("db", map[string]int32{"tcp/sql": 5433, "tcp/http": 1}), is("db", map[string]int32{"tcp/sql": 5432}),
		is("web", map[string]int32{"tcp/http": 80, "tcp/sql": 2}), is("log", map[string]int32{"tcp/http": 8080}),
		{namespace: "other", labels: labels.Set{"app": "db"}, ports: map[string]int32{"tcp/sql": 3}},
	})
	if len(problem["db"]) > 0 || len(told["db"]) != 1 || !strings.Contains(told["db"][0], "rule 0 for ingress: on Network team/lab, no Pod that it is about has a port udp/sql") {
		t.Errorf("it says %q", told["db"])
	}
	at := slices.IndexFunc(groups, func(g Group) bool { return g.Policy == "db" })
	var got []string
	for _, r := range groups[at].Rules {
		if r.EtherType == cloudteamv1.EtherTypeIPv4 && r.RemoteCIDR == "" {
			got = append(got, fmt.Sprint(r.Direction, " ", r.RemoteGroup, " ", *r.PortRangeMin, "-", *r.PortRangeMax))
		}
	}
	all, web, log := membersName(lab, p.In[0].Peers[0].Pods), membersName(lab, p.Out[0].Peers[0].Pods), membersName(lab, p.Out[0].Peers[1].Pods)
	want := []string{
		"ingress " + all + " 5432-5432", "ingress " + all + " 5433-5433",
		"egress " + web + " 80-80", "egress " + log + " 8080-8080",
	}
	expect.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "rules")
}

// What goes to Pods of other namespaces has each one's own number: who names a port there opens nobody else's.
func TestAPodOfAnotherNamespaceHasItsOwnNumberOnly(t *testing.T) {
	p, _, _ := parse(t, head+"spec: {podSelector: {}, egress: [{to: [{namespaceSelector: {}}], ports: [{port: http}, {port: 443}]}]}")
	p.On = p.On[:1]
	is := func(namespace, address string, number int32) pod {
		return pod{
			namespace: namespace, labels: labels.Set{}, ports: map[string]int32{"tcp/http": number},
			addresses: []netip.Addr{netip.MustParseAddr(address)},
		}
	}
	groups, problems, _ := Groups([]Policy{p}, world{is("other", "10.1.0.1", 80), is("third", "10.1.0.4", 22), is("third", "10.1.0.8", 443)})
	at := slices.IndexFunc(groups, func(g Group) bool { return g.Policy == "db" })
	var got []string
	for _, r := range groups[at].Rules {
		if r.PortRangeMin != nil {
			got = append(got, fmt.Sprint(r.RemoteCIDR, " ", *r.PortRangeMin))
		}
	}
	want := "10.1.0.1/32 443, 10.1.0.4/32 443, 10.1.0.8/32 443, 10.1.0.4/32 22, 10.1.0.1/32 80"
	expect.Equal(t, want, strings.Join(got, ", "), "rules")
	if len(problems["db"]) > 0 {
		t.Errorf("it says %q", problems["db"])
	}
}

// A rule with more numbers than a group has room for says the same each time, and is not worked out to its end.
func TestARuleWithTooManyNumbersAllowsNothing(t *testing.T) {
	var names []string
	pods := world{}
	for i := range int32(maxNames) {
		names = append(names, fmt.Sprintf("{port: p%d}", i))
		for j := range int32(10) {
			pods = append(pods, pod{
				namespace: "team", labels: labels.Set{}, ports: map[string]int32{fmt.Sprint("tcp/p", i): 1 + 10*i + j},
				addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, byte(i), byte(j)})},
			})
		}
	}
	ports := strings.Join(names, ", ")
	for rule, rules := range map[string]int{
		"ingress: [{ports: [" + ports + "]}]":                            1,
		"egress: [{to: [{podSelector: {}}], ports: [" + ports + "]}]":    1,
		"egress: [{to: [{namespaceSelector: {}}], ports: [{port: p1}]}]": 11,
		"ingress: [{ports: [{port: p1}, {port: 15}]}]":                   21,
		"ingress: [{ports: [{port: 15}, {port: p1}]}]":                   21,
	} {
		p, problems, _ := parse(t, head+"spec: {podSelector: {}, policyTypes: [Ingress, Egress], "+rule+"}")
		p.On = p.On[:1]
		groups, told, _ := Groups([]Policy{p}, pods)
		at := slices.IndexFunc(groups, func(g Group) bool { return g.Policy == "db" })
		says := strings.Join(append(problems, told["db"]...), "; ")
		if len(groups[at].Rules) != rules || (rules == 1) != strings.Contains(says, "needs 65 rules of a security group") {
			t.Errorf("%s: it has %d rules, and says %q", rule, len(groups[at].Rules), says)
		}
	}
	_, problems, _ := parse(t, head+"spec: {podSelector: {}, ingress: [{ports: [{port: one-more}, "+ports+"]}]}")
	if len(problems) != 1 || !strings.Contains(problems[0], "it has 17 ports by name, more than 16") {
		t.Errorf("it says %q", problems)
	}
}

func TestAPeerCountsOnce(t *testing.T) {
	p, _, _ := parse(t, head+"spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}, {podSelector: {}}, {namespaceSelector: {}}, {namespaceSelector: {}}, "+
		"{ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {ipBlock: {cidr: 10.0.0.0/8}}]}]}")
	expect.Equal(t, 4, len(p.In[0].Peers), "peers")
}

// The groups' names are known without a look at Pods.
func TestNamesAreThoseOfTheGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, p := range drawPolicies(t) {
			groups, _, _ := Groups([]Policy{p}, world(nil))
			for _, on := range p.On {
				names := p.Names(on)
				slices.Sort(names)
				var want []string
				for _, g := range groups {
					want = append(want, g.Name)
				}
				if !slices.Equal(names, want) {
					t.Fatalf("names are %v, groups %v", names, want)
				}
			}
		}
	})
}

// A range of addresses has no names of ports. To look for the Pods in it would be another rule.
func TestNamesOfPortsNeedPods(t *testing.T) {
	for _, to := range []string{"", "to: [{ipBlock: {cidr: 10.0.0.0/8}}], ", "to: [{podSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}], "} {
		p, problems, ok := parse(t, head+"spec: {podSelector: {}, egress: [{"+to+"ports: [{port: http}]}]}")
		if !ok || len(p.Out) > 0 || len(problems) != 1 || !strings.Contains(problems[0], `port 0: "http" is a name, which only Pods have`) {
			t.Errorf("%s: it says %q, and allows %+v", to, problems, p.Out)
		}
	}
}

// TestSetsThatAreNotLookedForAllowNothing: what is unknown is not allowed.
func TestSetsThatAreNotLookedForAllowNothing(t *testing.T) {
	p, _, _ := parse(t, head+"spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}]}")
	p.On = p.On[:1]
	groups, problems, _ := Groups([]Policy{p}, blind{})
	if len(problems["db"]) != 1 || !strings.Contains(problems["db"][0], "more sets of Pods, of other namespaces") {
		t.Errorf("it says %q", problems["db"])
	}
	for _, g := range groups {
		if g.Policy == "db" && len(g.Rules) != 1 {
			t.Errorf("the group has %+v", g.Rules)
		}
	}
}

// TestPodsThatComeAndGoChangeNoRules: of the own namespace, they only join groups.
func TestPodsThatComeAndGoChangeNoRules(t *testing.T) {
	p, _, _ := parse(t, head+"spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}")
	before, _, _ := Groups([]Policy{p}, world(nil))
	after, _, _ := Groups([]Policy{p}, world{{
		namespace: "team", labels: labels.Set{"app": "web"}, addresses: []netip.Addr{netip.MustParseAddr("10.1.0.9")},
	}})
	expect.Equal(t, fmt.Sprint(before), fmt.Sprint(after), "groups")
	if len(before) != 6 { // two Networks, each with the policy's, its members', and one that opens egress
		t.Errorf("there are %d groups: %v", len(before), before)
	}
}
