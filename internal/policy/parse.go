package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
)

// AnnotationFor names the Networks that a policy is for, with commas between: by name, or by namespace and name with a
// slash between (MultiNetworkPolicy's README, "policy-for"). A policy without it is for none.
const AnnotationFor = "k8s.v1.cni.cncf.io/policy-for"

// Policy is a MultiNetworkPolicy.
type Policy struct {
	// Name is the object's.
	Name string
	// On are the Networks that it is for, each once.
	On []cache.ObjectName
	// Pods selects the Pods that it is about, by their labels.
	Pods *Selector
	// Ingress and Egress say whether it restricts what its Pods receive, and what they send. In and Out list what is
	// allowed then.
	Ingress, Egress bool
	In, Out         []Rule
	// own selects the peers of the own namespace, each once.
	own []*Selector
}

// Rule allows packets to or from peers.
type Rule struct {
	// Peers are any of them; nil for everybody.
	Peers []Peer
	// Ports are those of the destination; nil for all protocols and ports.
	Ports []Ports
}

// Peer is a range of addresses, or Pods on the policy's Network.
type Peer struct {
	// Block is a range, without the ranges in Except. It is the zero Prefix for Pods.
	Block  netip.Prefix
	Except []netip.Prefix
	// Pods selects Pods by their labels, and Namespaces their namespaces. A nil Namespaces is the policy's own.
	Pods, Namespaces *Selector
}

// own reports whether the peer is Pods of the policy's own namespace.
func (p Peer) own() bool { return !p.Block.IsValid() && p.Namespaces == nil }

// equals reports whether two peers that one selectors made are the same.
func (p Peer) equals(other Peer) bool {
	return p.Block == other.Block && p.Pods == other.Pods && p.Namespaces == other.Namespaces &&
		slices.Equal(p.Except, other.Except)
}

// Ports is a range of ports of a protocol, or the ports of a name.
type Ports struct {
	// Protocol is tcp, udp or sctp.
	Protocol string
	// First and Last are 0 for all ports.
	First, Last int32
	// Name, if it is set, means the ports of that name of the containers that packets go to. First and Last are 0 then.
	Name string
}

// Limits of a policy, beside MaxSize. A rule beyond them would not fit into a security group, or nearly so.
const (
	// maxNetworks is the most Networks, and maxAnnotation the most bytes of AnnotationFor. They are kept of a policy
	// that cannot be read, too.
	maxNetworks   = 16
	maxAnnotation = 2 << 10
	// maxItems is the most peers of a rule, ports of a rule, and exceptions of a peer.
	maxItems = MaxRules
	// maxOwn is the most different peers of the own namespace. Each takes two rules.
	maxOwn = (MaxRules - 1) / 2
	// maxNames is the most ports of a rule by name: for each, the Pods of each peer are looked at.
	maxNames = 16
	// maxRequirements is the most labels and expressions of a selector: each is held against the labels of many Pods.
	maxRequirements = 16
	// maxProblems is the most problems that are told of a policy, and maxText the most bytes of each. An Event has room
	// for so many.
	maxProblems, maxText = 4, 256
)

// Parse reads a MultiNetworkPolicy. problems say in which words it has what Neutron cannot do, or nobody; a rule with
// such words is left out, so that nothing is allowed that the policy does not allow. ok is false if it is unknown which
// Pods it is about, on the Networks On, or on which Networks, if there are none in On. A policy that is for no
// Network is not read further. What is returned keeps little more than MaxSize.
func Parse(obj *unstructured.Unstructured) (p Policy, problems []string, ok bool) {
	defer func() { problems = limited(problems) }()
	p = Policy{Name: obj.GetName()}
	on, problems := networksOf(obj)
	if p.On = on; len(on) == 0 {
		return p, problems, len(problems) == 0
	}
	content, _, err := unstructured.NestedFieldNoCopy(obj.Object, "spec")
	if err == nil && !fits(content, on) {
		return p, append(problems, tooLarge()), false
	}
	fields, isMap := content.(map[string]any)
	if err == nil && !isMap && content != nil {
		err = fmt.Errorf("it is %T, and not an object", content)
	}
	var spec networkingv1.NetworkPolicySpec
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec)
	}
	if err != nil {
		return p, append(problems, "spec cannot be read: "+err.Error()), false
	}
	known := selectors{}
	if p.Pods, err = known.of(&spec.PodSelector); err != nil {
		return p, append(problems, "spec.podSelector: "+err.Error()), false
	}
	types := spec.PolicyTypes
	p.Ingress = len(types) == 0 || slices.Contains(types, networkingv1.PolicyTypeIngress)
	p.Egress = len(types) == 0 && len(spec.Egress) > 0 || slices.Contains(types, networkingv1.PolicyTypeEgress)
	if p.Ingress && len(spec.Ingress) > 0 {
		p.In = make([]Rule, 0, len(spec.Ingress))
	}
	if p.Egress && len(spec.Egress) > 0 {
		p.Out = make([]Rule, 0, len(spec.Egress))
	}
	add := func(to *[]Rule, at string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
		rule, err := known.ruleOf(peers, ports, to == &p.Out)
		with := p.with(rule)
		if err == nil && len(with.own) > maxOwn {
			err = fmt.Errorf("with it, the policy has more than %d different podSelectors as peers: write several policies",
				maxOwn)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v. The rule allows nothing", at, err))
			return
		}
		p.own = with.own
		*to = append(*to, rule)
	}
	for i, r := range spec.Ingress {
		if p.Ingress {
			add(&p.In, fmt.Sprintf("spec.ingress[%d]", i), r.From, r.Ports)
		}
	}
	for i, r := range spec.Egress {
		if p.Egress {
			add(&p.Out, fmt.Sprintf("spec.egress[%d]", i), r.To, r.Ports)
		}
	}
	return p, problems, true
}

// limited cuts problems, whose words are the user's.
func limited(problems []string) []string {
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems:maxProblems], fmt.Sprintf("and %d more", len(problems)-maxProblems))
	}
	for i, text := range problems {
		if len(text) > maxText {
			problems[i] = strings.ToValidUTF8(strings.Clone(text[:maxText]), "") + "…"
		}
	}
	return problems
}

// with is the policy with the selectors of a rule's peers in own.
func (p Policy) with(r Rule) Policy {
	p.own = slices.Clone(p.own)
	for _, peer := range r.Peers {
		same := func(s *Selector) bool { return s.String() == peer.Pods.String() }
		if peer.own() && !slices.ContainsFunc(p.own, same) {
			p.own = append(p.own, peer.Pods)
		}
	}
	return p
}

// networksOf reads AnnotationFor. With too many, it gives none.
func networksOf(obj *unstructured.Unstructured) (on []cache.ObjectName, problems []string) {
	annotation, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "annotations", AnnotationFor)
	text, _ := annotation.(string)
	if len(text) > maxAnnotation {
		return nil, []string{fmt.Sprintf("the annotation %s has %d bytes, more than %d", AnnotationFor, len(text),
			maxAnnotation)}
	}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		namespace, name, found := strings.Cut(item, "/")
		if !found {
			namespace, name = obj.GetNamespace(), item
		}
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			problems = append(problems, fmt.Sprintf("the annotation %s has %q: write NAME or NAMESPACE/NAME of a Network",
				AnnotationFor, item))
			continue
		}
		if key := cache.NewObjectName(namespace, name); !slices.Contains(on, key) {
			// The annotation is not kept as a whole.
			on = append(on, cache.NewObjectName(strings.Clone(namespace), strings.Clone(name)))
		}
		if len(on) > maxNetworks {
			return nil, []string{fmt.Sprintf("the annotation %s names more than %d Networks: write several policies",
				AnnotationFor, maxNetworks)}
		}
	}
	return on, problems
}

// ruleOf reads a rule. With toPeers, it is about what Pods send, so that its ports are those of its peers.
func (known selectors) ruleOf(
	peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, toPeers bool,
) (r Rule, err error) {
	if most := max(len(peers), len(ports)); most > maxItems {
		return Rule{}, fmt.Errorf("it has %d peers or ports, more than %d: write ranges, or several policies", most, maxItems)
	}
	if len(peers) > 0 {
		r.Peers = make([]Peer, 0, len(peers))
	}
	if len(ports) > 0 {
		r.Ports = make([]Ports, 0, len(ports))
	}
	for i, peer := range peers {
		p, err := known.peerOf(peer)
		if err != nil {
			return Rule{}, fmt.Errorf("peer %d: %w", i, err)
		}
		if !slices.ContainsFunc(r.Peers, p.equals) {
			r.Peers = append(r.Peers, p)
		}
	}
	names := 0
	for i, port := range ports {
		p, err := portsOf(port)
		if err == nil && p.Name != "" && toPeers && !r.toPodsOnly() {
			err = fmt.Errorf("%q is a name, which only Pods have: write the number, or only podSelector and "+
				"namespaceSelector as peers", p.Name)
		}
		if err != nil {
			return Rule{}, fmt.Errorf("port %d: %w", i, err)
		}
		if slices.Contains(r.Ports, p) {
			continue
		}
		r.Ports = append(r.Ports, p)
		if p.named() {
			names++
		}
	}
	if names > maxNames {
		return Rule{}, fmt.Errorf("it has %d ports by name, more than %d: write numbers, or several rules", names, maxNames)
	}
	return r, nil
}

func (known selectors) peerOf(peer networkingv1.NetworkPolicyPeer) (p Peer, err error) {
	if b := peer.IPBlock; b != nil {
		if peer.PodSelector != nil || peer.NamespaceSelector != nil {
			return p, errors.New("it has an ipBlock and a selector: write two peers")
		}
		if p.Block, err = prefixOf(b.CIDR); err != nil {
			return p, err
		}
		if len(b.Except) > maxItems {
			return p, fmt.Errorf("it has %d exceptions, more than %d: write several peers", len(b.Except), maxItems)
		}
		if len(b.Except) > 0 {
			p.Except = make([]netip.Prefix, 0, len(b.Except))
		}
		for _, text := range b.Except {
			except, err := prefixOf(text)
			if err != nil {
				return p, err
			}
			p.Except = append(p.Except, except)
		}
		return p, nil
	}
	if peer.PodSelector == nil && peer.NamespaceSelector == nil {
		return p, errors.New("it is empty: write podSelector, namespaceSelector or ipBlock")
	}
	if p.Pods, err = known.of(cmp.Or(peer.PodSelector, &metav1.LabelSelector{})); err != nil {
		return p, fmt.Errorf("podSelector: %w", err)
	}
	if s := peer.NamespaceSelector; s != nil {
		if p.Namespaces, err = known.of(s); err != nil {
			return p, fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	return p, nil
}

// toPodsOnly reports whether the rule's peers are Pods, all of them.
func (r Rule) toPodsOnly() bool {
	return len(r.Peers) > 0 && !slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Block.IsValid() })
}

func prefixOf(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no range of addresses: write one such as 10.0.0.0/8 or fd00:1::/64", text)
	}
	return prefix.Masked(), nil
}

func portsOf(port networkingv1.NetworkPolicyPort) (p Ports, err error) {
	switch protocol := cmp.Or(port.Protocol, new(corev1.ProtocolTCP)); *protocol {
	case corev1.ProtocolTCP:
		p.Protocol = "tcp"
	case corev1.ProtocolUDP:
		p.Protocol = "udp"
	case corev1.ProtocolSCTP:
		p.Protocol = "sctp"
	default:
		return p, fmt.Errorf("protocol %q is none of TCP, UDP and SCTP", *protocol)
	}
	switch {
	case port.Port == nil && port.EndPort != nil:
		return p, errors.New("it has endPort without port: write the first port, too")
	case port.Port == nil:
		return p, nil
	case port.Port.Type == intstr.String:
		if why := validation.IsValidPortName(port.Port.StrVal); len(why) > 0 || port.EndPort != nil {
			return p, fmt.Errorf("%q is not the name of a container's port: write such a name, or a number without quotes. "+
				"With endPort, write a number", port.Port.StrVal)
		}
		p.Name = strings.Clone(port.Port.StrVal)
		return p, nil
	}
	p.First, p.Last = port.Port.IntVal, port.Port.IntVal
	if port.EndPort != nil {
		p.Last = *port.EndPort
	}
	if p.First < 1 || p.Last > 65535 || p.Last < p.First {
		return p, fmt.Errorf("ports %d to %d are no range within 1 to 65535", p.First, p.Last)
	}
	return p, nil
}
