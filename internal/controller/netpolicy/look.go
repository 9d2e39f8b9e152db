package netpolicy

import (
	"net/netip"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// maxSets is the most sets of Pods of other namespaces that the policies of one namespace may name: each of them is
// held against all ports of a Network.
const maxSets = 256

// look is one sync's look at the Pods of other namespaces. It reads the ports of each Network once, and asks each
// selector once about each set of labels: Pods of one workload have the same ones.
type look struct {
	*Policies
	on    map[cache.ObjectName][]crowd
	found map[lookedFor][]netip.Prefix
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
	addresses       []netip.Addr
}

// lookedFor is a set of Pods of other namespaces.
type lookedFor struct {
	on               cache.ObjectName
	namespaces, pods string
}

func (p *Policies) looking() *look {
	return &look{
		Policies: p, on: map[cache.ObjectName][]crowd{}, found: map[lookedFor][]netip.Prefix{}, known: map[uint64]int{},
		answers: map[string][]answer{},
	}
}

// addresses is a policy.Addresses for one sync. It looks for each set once.
func (l *look) addresses(on cache.ObjectName, peer policy.Peer) (found []netip.Prefix, ok bool) {
	of := lookedFor{on, peer.Namespaces.String(), peer.Pods.String()}
	if found, ok = l.found[of]; ok || len(l.found) >= maxSets {
		return found, ok
	}
	var ranges netipx.IPSetBuilder
	crowds := l.crowds(on)
	inNamespaces, amongPods := l.asking(peer.Namespaces), l.asking(peer.Pods)
	for _, c := range crowds {
		if inNamespaces(c.namespace) && amongPods(c.pods) {
			for _, a := range c.addresses {
				ranges.Add(a)
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

// crowds are the ports with addresses on a Network whose labels are known.
func (l *look) crowds(on cache.ObjectName) (all []crowd) {
	if all, ok := l.on[on]; ok {
		return all
	}
	at := map[[2]int]int{}
	namespaces := map[string]int{}
	for _, port := range controller.Indexed[*cloudteamv1.NetworkPort](l.ports, indexAddressed, on.String()) {
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
		for _, a := range port.Status.Addresses {
			if prefix, err := netip.ParsePrefix(a.Address); err == nil {
				all[at[key]].addresses = append(all[at[key]].addresses, prefix.Addr())
			}
		}
	}
	l.on[on] = all
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
