package policy

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/cyclonus"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// cyclonusPods are those of the suite, in the packet model.
func cyclonusPods() (pods world) {
	ports := map[string]int32{}
	for _, protocol := range cyclonus.Protocols {
		for _, number := range cyclonus.Numbers {
			ports[protocol+"/"+cyclonus.PortName(protocol, number)] = number
		}
	}
	for _, p := range cyclonus.Pods() {
		pods = append(pods, pod{
			name: p.Name, namespace: p.Namespace, labels: p.Labels(), ports: ports, addresses: p.Addresses,
		})
	}
	return pods
}

// TestConformance has each policy allow between all Pods what the API says, or say that it does not. Packets between
// Pods are sent for a sample of the policies in test/dataplane.
func TestConformance(t *testing.T) {
	was := namespaces
	namespaces = map[string]labels.Set{}
	for _, name := range cyclonus.Namespaces {
		namespaces[name] = cyclonus.LabelsOf(name)
	}
	defer func() { namespaces = was }()
	pods := cyclonusPods()
	agree, refused := 0, 0
	for _, c := range cyclonus.Cases() {
		if conforms(t, c, pods) {
			agree++
		} else {
			refused++
		}
	}
	// Names for addresses, of three selectors: one peer is everybody, and three are ranges or have some.
	if want := 3 * 4 * 4; refused != want {
		t.Errorf("%d policies are refused, want %d", refused, want)
	}
	t.Logf("%d policies allow what they say, %d are refused", agree, refused)
}

type rule = cloudteamv1.SecurityGroupRule

// conforms compares what a policy allows between all Pods; false if it is refused.
func conforms(t *testing.T, c cyclonus.Case, pods world) bool {
	t.Helper()
	p, problems, ok := parse(t, head+"spec: "+c.Text)
	if !ok {
		t.Errorf("%s: %q", c.Text, problems)
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
	theirs, etherTypes := cyclonus.Pods(), []cloudteamv1.EtherType{cloudteamv1.EtherTypeIPv4, cloudteamv1.EtherTypeIPv6}
	for i := range pods {
		at := &pods[i]
		if !in[at].Selected {
			continue
		}
		for j := range pods {
			remote := &pods[j]
			for _, x := range cyclonus.Packets() {
				want := c.Permits("team", theirs[i], theirs[j], x)
				got := slices.ContainsFunc(groups, func(g Group) bool {
					return slices.Contains(in[at].Groups, g.Name) && slices.ContainsFunc(g.Rules, func(r rule) bool {
						return (r.Direction == cloudteamv1.RuleIngress) == c.Ingress && r.EtherType == etherTypes[x.Family] &&
							(r.Protocol == "" || r.Protocol == x.Protocol) &&
							(r.PortRangeMin == nil || *r.PortRangeMin <= x.Number && x.Number <= *r.PortRangeMax) &&
							(r.RemoteCIDR == "" || netip.MustParsePrefix(r.RemoteCIDR).Contains(remote.addresses[x.Family])) &&
							(r.RemoteGroup == "" || slices.Contains(in[remote].Groups, r.RemoteGroup))
					})
				})
				if got && !want || want && !got && !said {
					t.Errorf("%s: between %s and %s, %+v: it says %t, its groups %t (%q)", c.Text, at.name,
						remote.namespace+"/"+remote.name, x, want, got, problems)
					return false
				}
			}
		}
	}
	expect.Equal(t, c.Refused(), len(problems) > 0, "%s is refused", c.Text)
	return len(problems) == 0
}
