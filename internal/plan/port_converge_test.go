package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
)

// portScene is a port's spec and a cloud that somebody has been in.
type portScene struct {
	spec  PortSpec
	cloud *cloud
}

// portScenes begin with a spec that is applied, go on with what people do in Neutron, and end with a spec that may be
// another one.
func portScenes() *rapid.Generator[portScene] {
	return rapid.Custom(func(t *rapid.T) portScene {
		c := portCloud()
		s := portScene{spec: portSpecs(testOwner, c).Draw(t, "spec"), cloud: c}
		if rapid.IntRange(0, 4).Draw(t, "begin") > 0 {
			mustApply(t, c, mustPlanPort(t, s.spec, c))
		}
		for range rapid.IntRange(0, 6).Draw(t, "deeds") {
			c.meddleWithPorts(t, testOwner)
		}
		if rapid.Bool().Draw(t, "another spec") {
			s.spec = portSpecs(testOwner, c).Draw(t, "other spec")
		}
		return s
	})
}

func mustPlanPort(t rapid.TB, spec PortSpec, c *cloud) Change {
	change, err := Port(spec, c.Observe(spec.Owner))
	if err != nil {
		t.Fatalf("Port: %v", err)
	}
	return change
}

// rounds is how many plans a port takes at most: with a first one, it has its new addresses, and keeps the one that its
// floating IP leads to.
const rounds = 2

// mustConverge plans and applies until there is nothing to do.
func mustConverge(t rapid.TB, spec PortSpec, c *cloud) {
	var all []Change
	for range rounds {
		all = append(all, mustPlanPort(t, spec, c))
		mustApply(t, c, all[len(all)-1])
	}
	if again := mustPlanPort(t, spec, c); !again.Empty() {
		t.Fatalf("planning what was just applied gives\n%s\nafter\n%s", again, all)
	}
}

// requirePortAsDeclared holds the cloud against the spec, field by field. It is written from the specification of
// Port, not from its code.
func requirePortAsDeclared(t rapid.TB, spec PortSpec, c *cloud) {
	ports := c.Observe(spec.Owner).Ports
	if len(ports) != 1 {
		t.Fatalf("%d ports bear the marker, want 1", len(ports))
	}
	p := ports[0]
	requireFloatingIPAsDeclared(t, spec, p, c.Observe(spec.Owner).FloatingIPs)
	if p.NetworkID != spec.NetworkID {
		t.Fatalf("the port is on network %s, want %s", p.NetworkID, spec.NetworkID)
	}
	want := spec.Attributes()
	// Whatever Neutron chose is right where it was asked to choose.
	left := slices.DeleteFunc(slices.Clone(p.Addresses), func(a PortAddress) bool {
		return slices.Contains(spec.SelfAddressed, a.SubnetID)
	})
	for _, a := range spec.Addresses {
		if a.Address.IsValid() {
			at := slices.Index(left, a)
			if at < 0 {
				t.Fatalf("the port has the addresses %v, not %v", p.Addresses, a)
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	for _, a := range spec.Addresses {
		if !a.Address.IsValid() {
			at := slices.IndexFunc(left, func(l PortAddress) bool {
				return l.SubnetID == a.SubnetID || slices.Contains(spec.Overflow[a.SubnetID], l.SubnetID)
			})
			if at < 0 {
				t.Fatalf("the port has the addresses %v, and not %v besides", p.Addresses, a)
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	if len(left) > 0 {
		t.Fatalf("the port has the addresses %v, which are not declared", left)
	}
	want.Addresses, want.Overflow = p.Addresses, nil
	if want.MAC == "" {
		want.MAC = p.MAC
	}
	if want.SecurityGroups == nil {
		want.SecurityGroups = p.SecurityGroups
	}
	want.PortOptions = optionsAsDeclared(spec, p)
	if diff := cmp.Diff(want, p.PortAttributes, addresses, cmpopts.EquateEmpty(),
		cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Fatalf("the port is not as declared (-declared +actual):\n%s", diff)
	}
}

// requireFloatingIPAsDeclared holds that the port has its floating IP, and that there is no other.
func requireFloatingIPAsDeclared(t rapid.TB, spec PortSpec, p ObservedPort, all []ObservedFloatingIP) {
	want := 1
	if spec.FloatingNetwork == "" {
		want = 0
	}
	if len(all) != want {
		t.Fatalf("%d floating IPs bear the marker, want %d: %+v", len(all), want, all)
	}
	for _, f := range all {
		fixed := slices.ContainsFunc(p.Addresses, func(a PortAddress) bool { return a.Address == f.Fixed })
		if f.NetworkID != spec.FloatingNetwork || f.PortID != p.ID || !fixed || f.Description != spec.Attributes().Description {
			t.Fatalf("the floating IP %+v does not lead to port %s from network %s", f, p.ID, spec.FloatingNetwork)
		}
		if spec.FloatingAddress.IsValid() && f.Address != spec.FloatingAddress {
			t.Fatalf("the floating IP has address %s, want %s", f.Address, spec.FloatingAddress)
		}
	}
}

func comparePairs(a, b AddressPair) int { return strings.Compare(a.String(), b.String()) }

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// optionsAsDeclared are the options that a port should have, in Neutron's form: what is not declared is as it is.
func optionsAsDeclared(spec PortSpec, p ObservedPort) PortOptions {
	want := p.PortOptions
	if spec.PortSecurity != nil {
		want.PortSecurity = spec.PortSecurity
	}
	text := func(declared, actual *string, field string) *string {
		switch {
		case declared == nil && slices.Contains(spec.TakeBack, field), declared != nil && *declared == "":
			return nil
		case declared == nil:
			return actual
		}
		return declared
	}
	want.QoSPolicy = text(spec.QoSPolicy, p.QoSPolicy, FieldQoSPolicy)
	want.DNSName = text(spec.DNSName, p.DNSName, FieldDNSName)
	if spec.AddressPairs != nil || slices.Contains(spec.TakeBack, FieldAddressPairs) {
		want.AddressPairs = nil
		for _, pair := range spec.AddressPairs {
			want.AddressPairs = append(want.AddressPairs, AddressPair{pair.Range, orElse(pair.MAC, p.MAC)})
		}
		slices.SortFunc(want.AddressPairs, comparePairs)
		slices.SortFunc(p.AddressPairs, comparePairs)
	}
	return want
}

// requireUnsetAsBefore holds that a port still has what the spec leaves as it is.
func requireUnsetAsBefore(t rapid.TB, spec PortSpec, before, after ObservedPort) {
	want := after.PortAttributes
	if spec.MAC == "" {
		want.MAC = before.MAC
	}
	if spec.SecurityGroups == nil {
		want.SecurityGroups = before.SecurityGroups
	}
	before.MAC = after.MAC // which its pairs have
	want.PortOptions = optionsAsDeclared(spec, before)
	if diff := cmp.Diff(want, after.PortAttributes, addresses, cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare),
		cmpopts.SortSlices(comparePairs)); diff != "" {
		t.Fatalf("what the spec does not set was changed (-before +after):\n%s", diff)
	}
}

// Whoever reaches a port by its floating IP reaches it while the port's addresses change, and whatever Neutron refuses.
func TestPropertyAFloatingIPLeadsToItsPortWhileAddressesChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := portCloud()
		reachable := portSpecs(testOwner, c).Filter(func(s PortSpec) bool { return s.FloatingNetwork != "" })
		spec := reachable.Draw(t, "spec")
		mustConverge(t, spec, c)
		next := reachable.Filter(func(s PortSpec) bool { return s.NetworkID == spec.NetworkID }).Draw(t, "next spec")
		next.FloatingNetwork, next.FloatingAddress = spec.FloatingNetwork, spec.FloatingAddress
		before := c.Observe(testOwner)
		port, f := before.Ports[0], before.FloatingIPs[0]
		for range rounds {
			for _, step := range mustPlanPort(t, next, c) {
				mustApply(t, c, Change{step})
				is, at := c.FloatingIP(f.ID), c.Port(port.ID)
				leads := func(a PortAddress) bool { return is.PortID == at.ID && a.Address == is.Fixed }
				if is == nil || at == nil || !slices.ContainsFunc(at.Addresses, leads) || is.Address != f.Address {
					t.Fatalf("after %s, floating IP %+v leads to nothing of port %+v", step, is, at)
				}
			}
		}
	})
}

// placeOf is the subnet in whose place a subnet serves, or itself.
func placeOf(spec PortSpec, subnet string) string {
	for first, others := range spec.Overflow {
		if slices.Contains(others, subnet) {
			return first
		}
	}
	return subnet
}

// What uses a port knows its addresses: those that may stay must, however many others come or go.
func TestPropertyAPortKeepsTheAddressesThatItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := portScenes().Draw(t, "scene")
		before, exists := s.cloud.Observe(testOwner).Port(s.spec.NetworkID)
		if !exists {
			t.Skip("no port on the network")
		}
		before.Addresses = s.spec.Given(before.Addresses) // what it makes itself goes with its MAC
		mustConverge(t, s.spec, s.cloud)
		after, _ := s.cloud.Observe(testOwner).Port(s.spec.NetworkID)
		if after.ID != before.ID {
			t.Fatalf("port %s went, and %s came in its place", before.ID, after.ID)
		}
		named, others, unnamed := 0, map[string]int{}, map[string]int{}
		for _, a := range before.Addresses {
			if slices.Contains(s.spec.Addresses, a) {
				named++
			} else {
				others[placeOf(s.spec, a.SubnetID)]++
			}
		}
		for _, a := range s.spec.Addresses {
			if !a.Address.IsValid() {
				unnamed[placeOf(s.spec, a.SubnetID)]++
			}
		}
		may := named
		for subnet, n := range unnamed {
			may += min(n, others[subnet])
		}
		kept := 0
		for _, a := range before.Addresses {
			if slices.Contains(after.Addresses, a) {
				kept++
			}
		}
		if kept != may {
			t.Fatalf("of the addresses %v, %d were kept and %d may be: %v", before.Addresses, kept, may, after.Addresses)
		}
	})
}
