// Package cyclonus has NetworkPolicies in all forms that the API has, combined as the suite cyclonus combines them, and
// what they mean between its Pods.
//
// Only tests import it.
package cyclonus

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// What the suite has Pods in, and what they serve.
var (
	Namespaces = []string{"team", "other", "third"}
	Protocols  = []string{"tcp", "udp", "sctp"}
	Numbers    = []int32{80, 81}
)

// LabelsOf are the labels of one of the Namespaces.
func LabelsOf(namespace string) labels.Set { return labels.Set{"ns": namespace} }

// PortName is the name that all Pods have for a port.
func PortName(protocol string, number int32) string {
	return fmt.Sprintf("serve-%d-%s", number, protocol)
}

// Pod is one of the suite's: a, b and c in each namespace.
type Pod struct {
	Name, Namespace string
	// Addresses are one of IPv4 and one of IPv6.
	Addresses []netip.Addr
}

// Labels are those of the Pod.
func (p Pod) Labels() labels.Set { return labels.Set{"pod": p.Name} }

// The ranges that have the Pods' addresses.
var (
	IPv4 = netip.MustParsePrefix("10.0.0.0/24")
	IPv6 = netip.MustParsePrefix("fd00:10::/64")
)

// Pods are those of the suite.
func Pods() (pods []Pod) {
	v4, v6 := IPv4.Addr(), IPv6.Addr()
	for _, namespace := range Namespaces {
		for _, name := range []string{"a", "b", "c"} {
			v4, v6 = v4.Next(), v6.Next()
			pods = append(pods, Pod{Name: name, Namespace: namespace, Addresses: []netip.Addr{v4, v6}})
		}
	}
	return pods
}

// nobody has a policy without any rule, in the place of peers.
const nobody = "nobody"

// The peers, ports and selectors of policies, each in all forms.
var (
	allPeers = []string{
		nobody,
		"", // everybody
		"{podSelector: {}}",
		"{podSelector: {matchLabels: {pod: b}}}",
		"{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}}",
		"{podSelector: {matchExpressions: [{key: pod, operator: NotIn, values: [b]}]}}",
		"{podSelector: {matchExpressions: [{key: pod, operator: Exists}]}}",
		"{podSelector: {matchExpressions: [{key: pod, operator: DoesNotExist}]}}",
		"{namespaceSelector: {}}",
		"{namespaceSelector: {matchLabels: {ns: other}}}",
		"{namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [team]}]}}",
		"{namespaceSelector: {matchLabels: {ns: other}}, podSelector: {matchLabels: {pod: b}}}",
		"{namespaceSelector: {}, podSelector: {matchLabels: {pod: b}}}",
		"{ipBlock: {cidr: 10.0.0.0/24}}",
		"{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.4/30]}}",
		"{podSelector: {matchLabels: {pod: b}}}, {namespaceSelector: {matchLabels: {ns: third}}}",
		"{podSelector: {matchLabels: {pod: b}}}, {ipBlock: {cidr: 10.0.0.8/32}}",
	}
	allPorts = []string{
		"", // all
		"{port: 80}", "{port: 81, protocol: UDP}", "{protocol: TCP}", "{protocol: SCTP}",
		"{port: 80, endPort: 81}", "{port: serve-80-tcp}", "{port: serve-81-udp, protocol: UDP}",
		"{port: serve-80-tcp, protocol: UDP}", "{port: 80}, {port: 81}", "{port: 80, protocol: UDP}, {port: serve-81-tcp}",
	}
	allSelectors = []string{
		"{}", "{matchLabels: {pod: a}}", "{matchExpressions: [{key: pod, operator: NotIn, values: [a]}]}",
	}
)

// Case is a policy with one rule at most.
type Case struct {
	// Text is its spec, in YAML.
	Text string
	// Ingress is true for what its Pods receive, and false for what they send.
	Ingress bool

	pods  metav1.LabelSelector
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
	// empty is true if it has no rule.
	empty bool
}

func caseOf(ingress bool, selector, peers, ports string) Case {
	direction, key := networkingv1.PolicyTypeEgress, "to"
	if ingress {
		direction, key = networkingv1.PolicyTypeIngress, "from"
	}
	var fields []string
	if peers != "" {
		fields = append(fields, key+": ["+peers+"]")
	}
	if ports != "" {
		fields = append(fields, "ports: ["+ports+"]")
	}
	rules := "[{" + strings.Join(fields, ", ") + "}]"
	if peers == nobody {
		rules = "[]"
	}
	c := Case{Ingress: ingress, Text: fmt.Sprintf("{podSelector: %s, policyTypes: [%s], %s: %s}", selector, direction,
		strings.ToLower(string(direction)), rules)}
	var spec networkingv1.NetworkPolicySpec
	if err := yaml.UnmarshalStrict([]byte(c.Text), &spec); err != nil {
		panic(err) // the words are above
	}
	c.pods = spec.PodSelector
	c.empty = len(spec.Ingress)+len(spec.Egress) == 0
	for _, rule := range spec.Ingress {
		c.peers, c.ports = rule.From, rule.Ports
	}
	for _, rule := range spec.Egress {
		c.peers, c.ports = rule.To, rule.Ports
	}
	return c
}

// Cases are all combinations.
func Cases() (cases []Case) {
	for _, ingress := range []bool{true, false} {
		for _, selector := range allSelectors {
			for _, peers := range allPeers {
				for _, ports := range allPorts {
					if peers != nobody || ports == "" {
						cases = append(cases, caseOf(ingress, selector, peers, ports))
					}
				}
			}
		}
	}
	return cases
}

// Draw draws rounds of cases with a seed: in each one case for each of the Namespaces, all of one direction. So each
// packet between two Pods is about one case: that of its receiver's namespace, or of its sender's. No form of peers,
// ports or selectors is drawn again before all were.
func Draw(seed uint64, rounds int) [][]Case {
	random := rand.New(rand.NewPCG(seed, 0))
	peers, ports, selectors := deckOf(random, allPeers), deckOf(random, allPorts), deckOf(random, allSelectors)
	drawn := make([][]Case, rounds)
	for i := range drawn {
		for range Namespaces {
			drawn[i] = append(drawn[i], caseOf(i%2 == 0, selectors(), peers(), ports()))
		}
	}
	return drawn
}

// deckOf draws one of the forms after another, and shuffles them when all were drawn.
func deckOf(random *rand.Rand, forms []string) func() string {
	var left []string
	return func() (form string) {
		if len(left) == 0 {
			left = slices.Clone(forms)
			random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		}
		form, left = left[0], left[1:]
		return form
	}
}

// Selects reports whether the policy is about a Pod of its namespace.
func (c Case) Selects(p Pod) bool { return selects(&c.pods, p.Labels()) }

// selects is what Kubernetes says of a selector.
func selects(s *metav1.LabelSelector, set labels.Set) bool {
	is, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		panic(err) // the words are above
	}
	return is.Matches(set)
}

// Refused reports whether Neutron cannot say the rule, so that it allows nothing: only Pods have names of ports.
func (c Case) Refused() bool {
	named := func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && p.Port.Type == intstr.String }
	block := func(p networkingv1.NetworkPolicyPeer) bool { return p.IPBlock != nil }
	return !c.Ingress && slices.ContainsFunc(c.ports, named) &&
		(len(c.peers) == 0 || slices.ContainsFunc(c.peers, block))
}

// Packet is what a Pod sends to a port of another one.
type Packet struct {
	// Family is the place of an address among those of a Pod: 0 is IPv4, 1 is IPv6.
	Family   int
	Protocol string
	Number   int32
}

// Packets are those of each family and protocol to each number.
func Packets() (packets []Packet) {
	for family := range 2 {
		for _, protocol := range Protocols {
			for _, number := range Numbers {
				packets = append(packets, Packet{family, protocol, number})
			}
		}
	}
	return packets
}

// Permits is the meaning of the API: whether the policy, in a namespace, permits what a Pod that it selects receives
// from another one, or sends to it.
func (c Case) Permits(namespace string, at, remote Pod, x Packet) bool {
	isPeer := func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(remote.Addresses[x.Family]) }
			return in(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, in)
		}
		inNamespace := remote.Namespace == namespace
		if p.NamespaceSelector != nil {
			inNamespace = selects(p.NamespaceSelector, LabelsOf(remote.Namespace))
		}
		return inNamespace && (p.PodSelector == nil || selects(p.PodSelector, remote.Labels()))
	}
	isPort := func(p networkingv1.NetworkPolicyPort) bool {
		of := "tcp"
		if p.Protocol != nil {
			of = strings.ToLower(string(*p.Protocol))
		}
		switch {
		case of != x.Protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return p.Port.StrVal == PortName(x.Protocol, x.Number)
		case p.EndPort != nil:
			return p.Port.IntVal <= x.Number && x.Number <= *p.EndPort
		}
		return p.Port.IntVal == x.Number
	}
	return !c.empty && (len(c.peers) == 0 || slices.ContainsFunc(c.peers, isPeer)) &&
		(len(c.ports) == 0 || slices.ContainsFunc(c.ports, isPort))
}

// Passes reports whether a packet from one Pod to another passes the policy, in a namespace, as Neutron enforces it.
func (c Case) Passes(namespace string, from, to Pod, x Packet) bool {
	at, remote := from, to
	if c.Ingress {
		at, remote = to, from
	}
	if at.Namespace != namespace || !c.Selects(at) {
		return true
	}
	return !c.Refused() && c.Permits(namespace, at, remote, x)
}
