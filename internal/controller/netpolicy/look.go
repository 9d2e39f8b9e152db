package netpolicy

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// maxSets is the most sets of Pods of other namespaces that the policies of one namespace may name: each of them is
	// held against all ports of a Network.
	maxSets = 256
	// maxNamed is the most names of ports that they may name, each of a set of Pods.
	maxNamed = 256
)

// look is one sync's look at the Pods that the policies of a namespace name, a policy.Pods. It reads the ports of each
// Network once, and asks each selector once about each set of labels: Pods of one workload have the same ones.
type look struct {
	*Policies
	within string // the namespace
	on     map[string][]crowd
	found  map[lookedFor][]netip.Prefix
	named  map[named][]policy.Numbered
	// sets are the labels of Pods and namespaces, each once, and known has their places by their sums.
	sets  []labels.Set
	known map[uint64]int
	// answers has, for the text of a selector, what it says about sets; 0 where it was not asked.
	answers map[string][]answer
	// asked counts how often a selector was held against labels, and read the ports that were read. They are for tests.
	asked, read int
}

type answer int8

const (
	selects answer = iota + 1
	doesNot
)

// crowd are the ports of a namespace whose Pods have the same labels.
type crowd struct {
	namespace, pods int // their labels in sets
	ports           []*cloudteamv1.NetworkPort
}

// lookedFor is a set of Pods: of the own namespace, or of those that a selector selects.
type lookedFor struct {
	on               cache.ObjectName
	own              bool
	namespaces, pods string
}

func lookFor(on cache.ObjectName, peer policy.Peer) lookedFor {
	of := lookedFor{on: on, own: peer.Namespaces == nil, pods: peer.Pods.String()}
	if !of.own {
		of.namespaces = peer.Namespaces.String()
	}
	return of
}

// named is what Pods of a set call a port.
type named struct {
	lookedFor
	protocol, name string
}

func (p *Policies) looking(namespace string) *look {
	return &look{
		Policies: p, within: namespace, on: map[string][]crowd{}, found: map[lookedFor][]netip.Prefix{},
		named: map[named][]policy.Numbered{}, known: map[uint64]int{}, answers: map[string][]answer{},
	}
}

// Ports is that of a policy.Pods. It looks for each name once.
func (l *look) Ports(on cache.ObjectName, peer policy.Peer, protocol, name string) (found []policy.Numbered, ok bool) {
	of := named{lookFor(on, peer), protocol, name}
	if found, ok = l.named[of]; ok || len(l.named) >= maxNamed {
		return found, ok
	}
	crowds, inNamespaces := []crowd(nil), func(int) bool { return true }
	if !of.own {
		crowds = l.crowds(on)
		inNamespaces = l.asking(peer.Namespaces)
	} else {
		crowds = l.own(on)
	}
	amongPods := l.asking(peer.Pods)
	numbers := map[int32]*netipx.IPSetBuilder{}
	for _, c := range crowds {
		if !inNamespaces(c.namespace) || !amongPods(c.pods) {
			continue
		}
		for _, port := range c.ports {
			for number := range l.numbersOf(port, protocol, name) {
				if numbers[number] == nil {
					numbers[number] = &netipx.IPSetBuilder{}
				}
				if !of.own {
					addAddresses(numbers[number], port)
				}
			}
		}
	}
	left := policy.MaxRanges + 1
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		if len(found) > policy.MaxRules {
			break
		}
		is := policy.Numbered{Number: number}
		if set, err := numbers[number].IPSet(); err == nil { // of invalid addresses only, of which there are none
			all := set.Prefixes()
			is.Addresses = slices.Clone(all[:min(len(all), left)])
			left -= len(is.Addresses)
		}
		found = append(found, is)
	}
	l.named[of] = found
	return found, true
}

// numbersOf gives the numbers that the Pod which a port is bound to has for the name of a port.
func (l *look) numbersOf(port *cloudteamv1.NetworkPort, protocol, name string) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		pod := l.caches.PodOf(port)
		if pod == nil {
			return
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				of := strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP)))
				if p.Name == name && of == protocol && !yield(p.ContainerPort) {
					return
				}
			}
		}
	}
}

func addAddresses(to *netipx.IPSetBuilder, port *cloudteamv1.NetworkPort) {
	for _, a := range port.Status.Addresses {
		if prefix, err := netip.ParsePrefix(a.Address); err == nil {
			to.Add(prefix.Addr())
		}
	}
}

// Addresses is that of a policy.Pods. It looks for each set once.
func (l *look) Addresses(on cache.ObjectName, peer policy.Peer) (found []netip.Prefix, ok bool) {
	of := lookFor(on, peer)
	if found, ok = l.found[of]; ok || len(l.found) >= maxSets {
		return found, ok
	}
	var ranges netipx.IPSetBuilder
	crowds := l.crowds(on)
	inNamespaces, amongPods := l.asking(peer.Namespaces), l.asking(peer.Pods)
	for _, c := range crowds {
		if inNamespaces(c.namespace) && amongPods(c.pods) {
			for _, port := range c.ports {
				addAddresses(&ranges, port)
			}
		}
	}
	if set, err := ranges.IPSet(); err == nil { // of invalid addresses only, of which there are none
		all := set.Prefixes()
		found = append([]netip.Prefix(nil), all[:min(len(all), policy.MaxRanges+1)]...)
	}
	l.found[of] = found
	return found, true
}

// asking gives a function that says whether a selector selects the labels of a place in sets.
func (l *look) asking(by *policy.Selector) func(set int) bool {
	known := l.answers[by.String()]
	known = append(known, make([]answer, len(l.sets)-len(known))...)
	l.answers[by.String()] = known
	return func(set int) bool {
		if known[set] == 0 {
			l.asked++
			known[set] = doesNot
			if by.Matches(l.sets[set]) {
				known[set] = selects
			}
		}
		return known[set] == selects
	}
}

// crowds are the ports with addresses on a Network whose labels are known, and own those of the own namespace.
func (l *look) crowds(on cache.ObjectName) []crowd { return l.crowdsAt(indexAddressed, on.String()) }

func (l *look) own(on cache.ObjectName) []crowd {
	return l.crowdsAt(indexPorts, Place{l.within, on}.String())
}

func (l *look) crowdsAt(index, value string) (all []crowd) {
	if all, ok := l.on[index+value]; ok {
		return all
	}
	at := map[[2]int]int{}
	namespaces := map[string]int{}
	for _, port := range controller.Indexed[*cloudteamv1.NetworkPort](l.ports, index, value) {
		l.read++
		of, known := l.labelsOf(port)
		if !known {
			continue
		}
		namespace, seen := namespaces[port.Namespace]
		if !seen {
			namespace = l.set(l.namespace(port.Namespace))
			namespaces[port.Namespace] = namespace
		}
		key := [2]int{namespace, l.set(of)}
		if _, seen := at[key]; !seen {
			at[key] = len(all)
			all = append(all, crowd{namespace: key[0], pods: key[1]})
		}
		c := &all[at[key]]
		c.ports = append(c.ports, port)
	}
	l.on[index+value] = all
	return all
}

// set gives the place of labels in sets.
func (l *look) set(of labels.Set) int {
	sum := l.sum(of)
	at, known := l.known[sum]
	if !known {
		at = len(l.sets)
		l.known[sum], l.sets = at, append(l.sets, of)
	}
	return at
}
