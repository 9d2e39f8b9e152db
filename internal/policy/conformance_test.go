package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The peers, ports and selectors of NetworkPolicies, each in all forms that the API has. TestConformance combines them as
// the suite cyclonus does, with as many Pods: a, b and c in each of three namespaces, with ports 80 and 81.
var (
	conformingPeers = []string{
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
	conformingPorts = []string{
		"", // all
		"{port: 80}", "{port: 81, protocol: UDP}", "{protocol: TCP}", "{protocol: SCTP}",
		"{port: 80, endPort: 81}", "{port: serve-80-tcp}", "{port: serve-81-udp, protocol: UDP}", "{port: serve-80-tcp, protocol: UDP}",
		"{port: 80}, {port: 81}", "{port: 80, protocol: UDP}, {port: serve-81-tcp}",
	}
	conformingPods = []string{"{}", "{matchLabels: {pod: a}}", "{matchExpressions: [{key: pod, operator: NotIn, values: [a]}]}"}
)

// cyclonusPods are those of the suite. Its ports are called after their numbers and protocols.
func cyclonusPods() (pods world) {
	ports := map[string]int32{}
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		for _, number := range []int32{80, 81} {
			ports[fmt.Sprintf("%s/serve-%d-%s", protocol, number, protocol)] = number
		}
	}
	for i, namespace := range []string{"team", "other", "third"} {
		for j, name := range []string{"a", "b", "c"} {
			pods = append(pods, pod{
				name: name, namespace: namespace, labels: labels.Set{"pod": name}, ports: ports,
				addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + 3*i + j)})},
			})
		}
	}
	return pods
}

// selects is what Kubernetes says of a selector.
func selects(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	is, err := metav1.LabelSelectorAsSelector(s)
	expect.NoError(t, err)
	return is.Matches(set)
}

// permits is the meaning of the API: whether a policy of namespace team permits what a Pod that it selects gets from another
// one, or sends to it.
func permits(t *testing.T, spec networkingv1.NetworkPolicySpec, remote, destination pod, protocol string, number int32) bool {
	t.Helper()
	var peers []networkingv1.NetworkPolicyPeer
	var ports []networkingv1.NetworkPolicyPort
	switch {
	case len(spec.Ingress)+len(spec.Egress) == 0:
		return false
	case len(spec.Ingress) > 0:
		peers, ports = spec.Ingress[0].From, spec.Ingress[0].Ports
	default:
		peers, ports = spec.Egress[0].To, spec.Egress[0].Ports
	}
	isPeer := func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(remote.addresses[0]) }
			return in(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, in)
		}
		inNamespace := remote.namespace == "team"
		if p.NamespaceSelector != nil {
			inNamespace = selects(t, p.NamespaceSelector, labels.Set{"ns": remote.namespace})
		}
		return inNamespace && (p.PodSelector == nil || selects(t, p.PodSelector, remote.labels))
	}
	isPort := func(p networkingv1.NetworkPolicyPort) bool {
		of := "tcp"
		if p.Protocol != nil {
			of = strings.ToLower(string(*p.Protocol))
		}
		switch {
		case of != protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return destination.ports[protocol+"/"+p.Port.StrVal] == number
		case p.EndPort != nil:
			return p.Port.IntVal <= number && number <= *p.EndPort
		}
		return p.Port.IntVal == number
	}
	return (len(peers) == 0 || slices.ContainsFunc(peers, isPeer)) && (len(ports) == 0 || slices.ContainsFunc(ports, isPort))
}

// TestConformance has each policy allow between all Pods what the API says, or say that it does not.
func TestConformance(t *testing.T) {
	was := namespaces
	namespaces = map[string]labels.Set{"team": {"ns": "team"}, "other": {"ns": "other"}, "third": {"ns": "third"}}
	defer func() { namespaces = was }()
	pods := cyclonusPods()
	agree, refused := 0, 0
	for _, direction := range []string{"Ingress", "Egress"} {
		key := map[string]string{"Ingress": "from", "Egress": "to"}[direction]
		for _, selector := range conformingPods {
			rules := []string{"[]", "[{}]"}
			for _, peers := range conformingPeers {
				for _, ports := range conformingPorts {
					if peers != "" || ports != "" {
						rules = append(rules, strings.NewReplacer(key+": [], ", "", ", ports: []", "").Replace(
							fmt.Sprintf("[{%s: [%s], ports: [%s]}]", key, peers, ports)))
					}
				}
			}
			for _, rule := range rules {
				text := fmt.Sprintf("{podSelector: %s, policyTypes: [%s], %s: %s}", selector, direction, strings.ToLower(direction), rule)
				if conforms(t, text, direction == "Ingress", pods) {
					agree++
				} else {
					refused++
				}
			}
		}
	}
	// Names for addresses, of three selectors: one peer is everybody, and three are ranges or have some.
	if want := 3 * 4 * 4; refused != want {
		t.Errorf("%d policies are refused, want %d", refused, want)
	}
	t.Logf("%d policies allow what they say, %d are refused", agree, refused)
}

// conforms compares what a policy allows between all Pods; false if it is refused.
func conforms(t *testing.T, text string, ingress bool, pods world) bool {
	t.Helper()
	var spec networkingv1.NetworkPolicySpec
	expect.NoError(t, yaml.Unmarshal([]byte(text), &spec))
	p, problems, ok := parse(t, head+"spec: "+text)
	if !ok {
		t.Errorf("%s: %q", text, problems)
		return false
	}
	p.On = p.On[:1]
	groups, incomplete, lacks := Groups([]Policy{p}, pods)
	said := len(problems)+len(incomplete[p.Name])+len(lacks[p.Name]) > 0
	members, in := Members([]Policy{p}, p.On[0]), map[*pod]Membership{}
	for i := range pods {
		if pods[i].namespace == "team" {
			in[&pods[i]] = members(pods[i].labels)
		}
	}
	for i := range pods {
		at := &pods[i]
		if !in[at].Selected {
			continue
		}
		for j := range pods {
			remote := &pods[j]
			destination := remote
			if ingress {
				destination = at
			}
			for _, protocol := range []string{"tcp", "udp", "sctp"} {
				for _, number := range []int32{80, 81} {
					want := permits(t, spec, *remote, *destination, protocol, number)
					got := slices.ContainsFunc(groups, func(g Group) bool {
						return slices.Contains(in[at].Groups, g.Name) && slices.ContainsFunc(g.Rules, func(r cloudteamv1.SecurityGroupRule) bool {
							return (r.Direction == cloudteamv1.RuleIngress) == ingress && r.EtherType == cloudteamv1.EtherTypeIPv4 &&
								(r.Protocol == "" || r.Protocol == protocol) &&
								(r.PortRangeMin == nil || *r.PortRangeMin <= number && number <= *r.PortRangeMax) &&
								(r.RemoteCIDR == "" || netip.MustParsePrefix(r.RemoteCIDR).Contains(remote.addresses[0])) &&
								(r.RemoteGroup == "" || slices.Contains(in[remote].Groups, r.RemoteGroup))
						})
					})
					if got && !want || want && !got && !said {
						t.Errorf("%s: between %s and %s, %s %d: it says %t, its groups %t (%q)", text, at.name, remote.namespace+"/"+remote.name,
							protocol, number, want, got, problems)
						return false
					}
				}
			}
		}
	}
	return len(problems) == 0
}
