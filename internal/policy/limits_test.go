package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// items joins n texts.
func items(n int, text func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return strings.Join(all, ", ")
}

// ruleIn is a policy with one rule for ingress.
func ruleIn(rule string) string { return head + "spec: {podSelector: {}, ingress: [" + rule + "]}" }

// forNetworks is a policy for other Networks than that of head.
func forNetworks(text string) string {
	return strings.Replace(head, "lab, other/shared, team/lab", text, 1) + "spec: {podSelector: {}}"
}

// Whoever is at a limit is not refused, and one more is.
func TestLimitsOfAPolicyAreExact(t *testing.T) {
	for name, test := range map[string]struct {
		most int
		text func(n int) string
	}{
		"bytes of the annotation": {maxAnnotation, func(n int) string { return forNetworks(strings.Repeat(",", n-1) + "a") }},
		"Networks":                {maxNetworks, func(n int) string { return forNetworks(items(n, func(i int) string { return fmt.Sprint("n", i) })) }},
		"peers": {maxItems, func(n int) string {
			return ruleIn("{from: [" + items(n, func(i int) string { return "{ipBlock: {cidr: 10.0.0.0/8}}" }) + "]}")
		}},
		"ports": {maxItems, func(n int) string {
			return ruleIn("{ports: [" + items(n, func(i int) string { return fmt.Sprintf("{port: %d}", i+1) }) + "]}")
		}},
		"exceptions": {maxItems, func(n int) string {
			return ruleIn("{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [" +
				items(n, func(i int) string { return fmt.Sprintf("10.0.0.%d/32", i) }) + "]}}]}")
		}},
		"peers of the own namespace": {maxOwn, func(n int) string {
			return ruleIn("{from: [" + items(n, func(i int) string { return fmt.Sprintf("{podSelector: {matchLabels: {a: b%d}}}", i) }) + "]}")
		}},
		"labels of a selector": {maxRequirements, func(n int) string {
			return ruleIn("{from: [{podSelector: {matchLabels: {" + items(n, func(i int) string { return fmt.Sprintf("a%d: b", i) }) + "}}}]}")
		}},
		"expressions of a selector": {maxRequirements, func(n int) string {
			return ruleIn("{from: [{namespaceSelector: {matchLabels: {a: b}, matchExpressions: [" +
				items(n-1, func(i int) string { return fmt.Sprintf("{key: a%d, operator: Exists}", i) }) + "]}}]}")
		}},
		"the last port": {65535, func(n int) string { return ruleIn(fmt.Sprintf("{ports: [{port: 1, endPort: %d}]}", n)) }},
		"one port":      {65535, func(n int) string { return ruleIn(fmt.Sprintf("{ports: [{port: %d}]}", n)) }},
	} {
		t.Run(name, func(t *testing.T) {
			at, problems, ok := parse(t, test.text(test.most))
			if !ok || len(problems) > 0 || len(at.On) == 0 {
				t.Errorf("with %d it is for %v: %q", test.most, at.On, problems)
			}
			beyond, problems, _ := parse(t, test.text(test.most+1))
			if len(problems) != 1 || len(beyond.In) > 0 {
				t.Errorf("with %d it has the rules %v and the problems %q", test.most+1, beyond.In, problems)
			}
		})
	}
}

func TestPortsThatExistAreAllowed(t *testing.T) {
	for text, want := range map[string]Ports{
		"{port: 1}":               {Protocol: "tcp", First: 1, Last: 1},
		"{port: 80, endPort: 80}": {Protocol: "tcp", First: 80, Last: 80},
		"{port: 1, endPort: 65535, protocol: SCTP}": {Protocol: "sctp", First: 1, Last: 65535},
		"{port: 0}":                                  {},
		"{port: -1, endPort: 80}":                    {},
		"{port: 80, endPort: 0}":                     {},
		"{protocol: UDP}":                            {Protocol: "udp"},
		"{protocol: udp, port: 53}":                  {}, // Kubernetes knows it in capitals
		"{port: 65535, endPort: 65536}":              {},
		"{port: 65535, endPort: 65535, protocol: ~}": {Protocol: "tcp", First: 65535, Last: 65535},
	} {
		p, problems, _ := parse(t, ruleIn("{ports: ["+text+"]}"))
		switch {
		case want == Ports{} && (len(problems) != 1 || len(p.In) > 0):
			t.Errorf("%s is accepted: %+v, %q", text, p.In, problems)
		case want != Ports{} && (len(problems) > 0 || len(p.In) != 1 || len(p.In[0].Ports) != 1 || p.In[0].Ports[0] != want):
			t.Errorf("%s allows %+v, want %+v (%q)", text, p.In, want, problems)
		}
	}
}

func TestPeersThatNoRuleCanHaveAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"{ipBlock: {cidr: 10.0.0.0/8}, namespaceSelector: {}}":                        "write two peers",
		"{ipBlock: {cidr: \"::ffff:10.0.0.0/104\"}}":                                  "is no range of addresses",
		"{namespaceSelector: {matchExpressions: [{key: a, operator: Like}]}}":         "peer 0: namespaceSelector: ",
		"{ipBlock: {cidr: 10.0.0.0/8, except: [\"::ffff:10.0.0.0/104\"]}}":            "is no range of addresses",
		"{podSelector: {matchLabels: {app: \"no label\"}}, namespaceSelector: {}}":    "peer 0: podSelector: ",
		"{podSelector: {}, namespaceSelector: {matchLabels: {team: \"no label\"}}}":   "peer 0: namespaceSelector: ",
		"{podSelector: {}}, {namespaceSelector: {}}, {ipBlock: {cidr: \"10.0.0.0\"}}": "peer 2: ",
	} {
		if p, problems, _ := parse(t, ruleIn("{from: ["+text+"]}")); len(problems) != 1 || !strings.Contains(problems[0], says) ||
			len(p.In) > 0 {
			t.Errorf("%s is %+v and says %q, want %q", text, p.In, problems, says)
		}
	}
}

// A range is what its prefix says, whatever the bits behind that are.
func TestARangeHasNoBitsBehindItsPrefix(t *testing.T) {
	p, problems, _ := parse(t, ruleIn("{from: [{ipBlock: {cidr: 10.1.2.3/8, except: [10.1.2.3/16]}}]}"))
	if len(problems) > 0 || p.In[0].Peers[0].Block.String() != "10.0.0.0/8" || p.In[0].Peers[0].Except[0].String() != "10.1.0.0/16" {
		t.Errorf("it is %+v (%q)", p.In, problems)
	}
}

// The other Networks of the annotation count, and a policy for none that can be told is for none.
func TestNetworksThatAreNoneAreLeftOut(t *testing.T) {
	for text, test := range map[string]struct {
		on, problems int
		ok           bool
	}{
		"lab":               {1, 0, true},
		"":                  {0, 0, true},
		" , lab,":           {1, 0, true},
		"lab, /lab":         {1, 1, true},
		"lab, other/":       {1, 1, true},
		"lab, other/lab/no": {1, 1, true},
		"/lab":              {0, 1, false},
		"other/, /":         {0, 2, false},
	} {
		p, problems, ok := parse(t, forNetworks(text))
		if len(p.On) != test.on || len(problems) != test.problems || ok != test.ok {
			t.Errorf("%q is for %v, ok %t, with %q; want %+v", text, p.On, ok, problems, test)
		}
	}
}

func TestOnlyRulesOfRestrictedDirectionsAreRead(t *testing.T) {
	const rules = `ingress: [{from: [{podSelector: {}}]}], egress: [{to: [{podSelector: {}}]}, {}]`
	for types, want := range map[string][2]int{"[Ingress]": {1, 0}, "[Egress]": {0, 2}, "[Ingress, Egress]": {1, 2}} {
		p, problems, ok := parse(t, head+"spec: {podSelector: {}, policyTypes: "+types+", "+rules+"}")
		if !ok || len(problems) > 0 || len(p.In) != want[0] || len(p.Out) != want[1] {
			t.Errorf("of %s it has %d and %d rules, want %v (%q)", types, len(p.In), len(p.Out), want, problems)
		}
	}
}

// A user can have the controller write no more than that.
func TestProblemsAreFewAndShort(t *testing.T) {
	problemsOf := func(n int) []string {
		_, problems, _ := parse(t, ruleIn(items(n, func(int) string { return "{from: [{}]}" })))
		return problems
	}
	if got := problemsOf(maxProblems); len(got) != maxProblems || !strings.Contains(got[maxProblems-1], "it is empty") {
		t.Errorf("of %d problems it has %q", maxProblems, got)
	}
	if got := problemsOf(maxProblems + 4); len(got) != maxProblems+1 || got[maxProblems] != "and 4 more" {
		t.Errorf("of %d problems it has %q", maxProblems+4, got)
	}
	text := func(n int) string {
		_, problems, _ := parse(t, ruleIn("{ports: [{protocol: "+strings.Repeat("x", n)+"}]}"))
		return problems[0]
	}
	room := maxText - len(text(1))
	if got := text(1 + room); len(got) != maxText || strings.HasSuffix(got, "…") {
		t.Errorf("a problem of %d bytes became %q", maxText, got)
	}
	if got := text(2 + room); len(got) != maxText+len("…") || !strings.HasSuffix(got, "…") {
		t.Errorf("a problem of %d bytes became %q", maxText+1, got)
	}
}

// others is a rule about n Pods of other namespaces, each with an address that no other has a range with.
func others(n int) (r Rule, pods world) {
	for i := range n {
		pods = append(pods, pod{namespace: "other", addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(2 * i >> 8), byte(2 * i)})}})
	}
	return Rule{Peers: []Peer{{Namespaces: selecting(nil), Pods: selecting(nil)}}}, pods
}

// blocks is a rule about the n ranges from the given one on.
func blocks(from, n int) (r Rule) {
	for i := range n {
		r.Peers = append(r.Peers, Peer{Block: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(2 * (from + i))}), 32)})
	}
	return r
}

// anyPort is a rule about n ports, for everybody.
func anyPort(n int) (r Rule) {
	for i := range n {
		r.Ports = append(r.Ports, Ports{Protocol: "tcp", First: int32(i + 1), Last: int32(i + 1)})
	}
	return r
}

// members is a rule about n sets of Pods of the own namespace, and two ports.
func members(n int) (r Rule) {
	for i := range n {
		r.Peers = append(r.Peers, Peer{Pods: selecting(labels.Set{"app": fmt.Sprint(i)})})
	}
	r.Ports = []Ports{{Protocol: "tcp", First: 80, Last: 80}, {Protocol: "udp", First: 80, Last: 80}}
	return r
}

func TestAGroupIsFilledToItsLastRule(t *testing.T) {
	for name, test := range map[string]struct {
		in, out []Rule
		rules   int // with the one that closes egress
		says    string
	}{
		"ranges that fit":              {in: []Rule{blocks(0, 63)}, rules: 64},
		"one range too many":           {in: []Rule{blocks(0, 64)}, rules: 1, says: "rule 0 for ingress needs 64 rules of a security group, on Network team/lab, and 63 of 63 are left"},
		"two rules that fit":           {in: []Rule{blocks(0, 40), blocks(40, 23)}, rules: 64},
		"a second rule too many":       {in: []Rule{blocks(0, 40), blocks(40, 24)}, rules: 41, says: "rule 1 for ingress needs 24 rules of a security group, on Network team/lab, and 23 of 63 are left"},
		"a rule for egress too many":   {in: []Rule{blocks(0, 40)}, out: []Rule{blocks(40, 24)}, rules: 41, says: "rule 0 for egress needs 24 rules"},
		"equal rules that fit once":    {in: []Rule{blocks(0, 40), blocks(10, 40)}, rules: 51},
		"everybody's ports that fit":   {in: []Rule{anyPort(31)}, rules: 63},
		"one port too many":            {in: []Rule{anyPort(32)}, rules: 1, says: "needs 64 rules"},
		"own Pods that fit":            {in: []Rule{members(15)}, rules: 61},
		"own Pods too many":            {in: []Rule{members(20)}, rules: 1, says: "needs 80 rules"},
		"own Pods and ranges too many": {in: []Rule{{Peers: append(members(20).Peers, blocks(0, 24).Peers...)}}, rules: 1, says: "needs 64 rules"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Policy{
				Name: "p", On: []cache.ObjectName{lab}, Pods: selecting(nil), Ingress: true, Egress: true, In: test.in, Out: test.out,
			}
			groups, problems, _ := Groups([]Policy{p}, nil)
			if told := strings.Join(problems["p"], "; "); told != "" && test.says == "" || !strings.Contains(told, test.says) {
				t.Errorf("it says %q, want %q", told, test.says)
			}
			if len(groups) != 1 || len(groups[0].Rules) != test.rules {
				t.Errorf("there are %d groups, the first one with %d rules, want one with %d", len(groups), len(groups[0].Rules), test.rules)
			}
		})
	}
	for n, rules := range map[int]int{63: 64, 64: 1} {
		r, addresses := others(n)
		p := Policy{Name: "p", On: []cache.ObjectName{lab}, Pods: selecting(nil), Ingress: true, Egress: true, In: []Rule{r}}
		if groups, _, _ := Groups([]Policy{p}, addresses); len(groups[0].Rules) != rules {
			t.Errorf("with %d Pods of other namespaces it has %d rules, want %d", n, len(groups[0].Rules), rules)
		}
	}
}

// The controller counts on it before it makes any group.
func TestMaxGroupsIsWhatThePolicyNeedsAtMost(t *testing.T) {
	for own := range 3 {
		p := Policy{Name: "p", On: []cache.ObjectName{lab}, Pods: selecting(nil)}.with(members(own)) // it restricts nothing
		if groups, _, _ := Groups([]Policy{p}, nil); len(groups) != p.MaxGroups() {
			t.Errorf("with %d sets of own Pods it needs %d groups, and MaxGroups is %d", own, len(groups), p.MaxGroups())
		}
	}
}

// Pods of other namespaces come and go, and only policies that name some have to be looked at then.
func TestNamesOthers(t *testing.T) {
	block := Peer{Block: netip.MustParsePrefix("10.0.0.0/8")}
	own := Peer{Pods: selecting(nil)}
	other := Peer{Pods: selecting(nil), Namespaces: selecting(nil)}
	for name, test := range map[string]struct {
		in, out []Rule
		want    bool
	}{
		"nothing":               {},
		"everybody":             {in: []Rule{{}}},
		"ranges and own Pods":   {in: []Rule{{Peers: []Peer{block, own}}}, out: []Rule{{Peers: []Peer{own, block}}}},
		"others, for ingress":   {in: []Rule{{Peers: []Peer{block}}, {Peers: []Peer{own, other}}}, want: true},
		"others, for egress":    {in: []Rule{{Peers: []Peer{block}}}, out: []Rule{{Peers: []Peer{other}}}, want: true},
		"a range and no others": {out: []Rule{{Peers: []Peer{block}}}},
	} {
		expect.Equal(t, test.want, (Policy{In: test.in, Out: test.out}).NamesOthers(), "%s: NamesOthers", name)
	}
}

func TestRulesAreTheSameIfTheyAllowTheSame(t *testing.T) {
	rule := func(protocol string, ports ...int32) (r cloudteamv1.SecurityGroupRule) {
		r.Protocol = protocol
		if len(ports) > 0 {
			r.PortRangeMin = &ports[0]
		}
		if len(ports) > 1 {
			r.PortRangeMax = &ports[1]
		}
		return r
	}
	all := []func() cloudteamv1.SecurityGroupRule{
		func() cloudteamv1.SecurityGroupRule { return rule("tcp") },
		func() cloudteamv1.SecurityGroupRule { return rule("udp") },
		func() cloudteamv1.SecurityGroupRule { return rule("tcp", 80) },
		func() cloudteamv1.SecurityGroupRule { return rule("tcp", 80, 80) },
		func() cloudteamv1.SecurityGroupRule { return rule("tcp", 80, 81) },
		func() cloudteamv1.SecurityGroupRule { return rule("tcp", 79, 80) },
	}
	for i, a := range all {
		for j, b := range all {
			expect.Equal(t, (i == j), same(a(), b()), "%+v and %+v are the same", a(), b())
		}
	}
}

func TestADescriptionIsCutOnlyIfItIsTooLong(t *testing.T) {
	const most = 173
	if text := strings.Repeat("ü", most); cut(text) != text {
		t.Errorf("it became %q", cut(text))
	}
	expect.Equal(t, strings.Repeat("ü", most-1)+"…", cut(strings.Repeat("ü", most+1)), "what became of it")
}
