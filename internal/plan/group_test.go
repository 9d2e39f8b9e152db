package plan_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func tcp(port int) Rule {
	return Rule{Direction: Ingress, EtherType: IPv4, Protocol: "tcp", PortMin: port, PortMax: port}
}

func declaredGroup(change ...func(*GroupSpec)) GroupSpec {
	spec := GroupSpec{Owner: testOwner, Name: "web", Rules: append(DefaultEgress(), tcp(80))}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

// observedGroup is as declaredGroup declares, with the rules under the ids r0, r1, …
func observedGroup(change ...func(*ObservedGroup)) Observed {
	spec := declaredGroup()
	g := ObservedGroup{ID: "group-1", Revision: 3, Created: plantest.Epoch, GroupAttributes: spec.Attributes()}
	for i, r := range spec.Rules {
		g.Rules = append(g.Rules, ObservedRule{ID: "r" + string(rune('0'+i)), Rule: r})
	}
	for _, c := range change {
		c(&g)
	}
	return Observed{Groups: []ObservedGroup{g}}
}

func addRule(id string, r Rule) func(*ObservedGroup) {
	return func(g *ObservedGroup) { g.Rules = append(g.Rules, ObservedRule{ID: id, Rule: r}) }
}

func TestSecurityGroupPlan(t *testing.T) {
	about := Rule{Direction: Ingress, EtherType: IPv4, PortMin: NoPort, PortMax: NoPort}
	ofOthers := func(id string) Rule { r := about; r.RemoteGroup = id; return r }
	young := observedGroup(func(g *ObservedGroup) { g.ID, g.Created = "group-2", g.Created.Add(1) }).Groups[0]
	for what, test := range map[string]struct {
		spec     GroupSpec
		observed Observed
		want     []string
	}{
		"a new group has Neutron's rules": {declaredGroup(), Observed{}, []string{
			`create security group "web" (no security group bears the owner's marker)`,
			"create security group rules ingress IPv4 tcp 80 from anywhere (the group does not have them)",
		}},
		"a rule by hand goes": {declaredGroup(), observedGroup(addRule("x", tcp(22))), []string{
			"delete security group rule ingress IPv4 tcp 22 from anywhere (it is not declared)",
		}},
		"a missing rule comes before another goes": {
			declaredGroup(func(s *GroupSpec) { s.Rules[2] = tcp(81) }), observedGroup(), []string{
				"create security group rules ingress IPv4 tcp 81 from anywhere (the group does not have them)",
				"delete security group rule ingress IPv4 tcp 80 from anywhere (it is not declared)",
			},
		},
		"a name, a description and another kind": {
			declaredGroup(func(s *GroupSpec) { s.Description, s.Stateless = "d", true }),
			observedGroup(func(g *ObservedGroup) { g.Name = "x" }),
			[]string{`update security group group-1: name "x" → "web", description "" → "d", stateful true → false ` +
				`(it differs from the spec)`},
		},
		"a cloud without stateless groups": {
			declaredGroup(), observedGroup(func(g *ObservedGroup) { g.Stateful = nil }), nil,
		},
		"rules about a group that is not known yet stay": {
			declaredGroup(func(s *GroupSpec) { s.Pending = []Rule{about} }),
			observedGroup(addRule("x", ofOthers("g-2")), addRule("y", ofOthers(OwnGroup)), addRule("z", tcp(22))), []string{
				"delete security group rule ingress IPv4 tcp 22 from anywhere (it is not declared)",
			},
		},
		"one that lets everybody in is none of these": {
			declaredGroup(func(s *GroupSpec) { s.Pending = []Rule{about} }), observedGroup(addRule("x", about)), []string{
				"delete security group rule ingress IPv4 any from anywhere (it is not declared)",
			},
		},
		"a younger one goes": {
			declaredGroup(), Observed{Groups: append(observedGroup().Groups, young)},
			[]string{"delete security group group-2 (it is a duplicate of the older security group group-1)"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			change, err := SecurityGroup(test.spec, test.observed)
			wantChange(t, change, err, test.want)
		})
	}
}

func TestSecurityGroupOfOthersIsRefused(t *testing.T) {
	theirs := observedGroup(func(g *ObservedGroup) { g.Description = otherOwner.Marker() })
	if _, err := SecurityGroup(declaredGroup(), theirs); err == nil || !strings.Contains(err.Error(), "marker") {
		t.Errorf("another owner's group: %v", err)
	}
	if _, err := Delete(testOwner, theirs); err == nil {
		t.Error("another owner's group would be deleted")
	}
}

// TestCanonicalRule holds that rules which Neutron takes for duplicates are equal.
func TestCanonicalRule(t *testing.T) {
	for what, test := range map[string]struct{ rule, want Rule }{
		"a number with a name": {Rule{Protocol: "6"}, Rule{Protocol: "tcp"}},
		"a name without one":   {Rule{Protocol: "GRE"}, Rule{Protocol: "47"}},
		"any":                  {Rule{Protocol: "any"}, Rule{}},
		"everywhere":           {Rule{Remote: netip.MustParsePrefix("::/0")}, Rule{}},
		"all ports": {
			Rule{Protocol: "udp", PortMin: 1, PortMax: 65535}, Rule{Protocol: "udp", PortMin: NoPort, PortMax: NoPort},
		},
		"ICMP of IPv6":   {Rule{EtherType: IPv6, Protocol: "icmp"}, Rule{EtherType: IPv6, Protocol: "icmpv6"}},
		"its number":     {Rule{EtherType: IPv6, Protocol: "1"}, Rule{EtherType: IPv6, Protocol: "icmpv6"}},
		"its other name": {Rule{EtherType: IPv6, Protocol: "ipv6-icmp"}, Rule{EtherType: IPv6, Protocol: "icmpv6"}},
		"ICMP of IPv4":   {Rule{EtherType: IPv4, Protocol: "1"}, Rule{EtherType: IPv4, Protocol: "icmp"}},
	} {
		if got := test.rule.Canonical(); got != test.want || got.Canonical() != got {
			t.Errorf("%s: %#v, want %#v", what, got, test.want)
		}
	}
}

func groupRules(t *rapid.T) Rule {
	r := Rule{
		Direction: rapid.SampledFrom([]string{Ingress, Egress}).Draw(t, "direction"),
		EtherType: rapid.SampledFrom([]string{IPv4, IPv6}).Draw(t, "etherType"),
		Protocol:  rapid.SampledFrom([]string{"", "tcp", "udp", "47", "6", "any"}).Draw(t, "protocol"),
		PortMin:   NoPort, PortMax: NoPort,
	}
	if r.Protocol == "tcp" {
		r.PortMin = rapid.IntRange(1, 3).Draw(t, "from")
		r.PortMax = rapid.SampledFrom([]int{r.PortMin, 65535}).Draw(t, "to")
	}
	switch rapid.IntRange(0, 3).Draw(t, "remote") {
	case 0:
		r.RemoteGroup = rapid.SampledFrom([]string{OwnGroup, "others"}).Draw(t, "group")
	case 1:
		r.Remote = netip.MustParsePrefix(map[string]string{IPv4: "10.0.0.0/8", IPv6: "fd00::/8"}[r.EtherType])
	}
	return r.Canonical()
}

func groupSpecs(t *rapid.T) GroupSpec {
	return GroupSpec{
		Owner: testOwner, Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
		Description: rapid.SampledFrom([]string{"", "d"}).Draw(t, "description"),
		Stateless:   rapid.Bool().Draw(t, "stateless"), Retain: rapid.Bool().Draw(t, "retain"),
		Rules: rapid.SliceOfNDistinct(rapid.Custom(groupRules), 0, 5, rapid.ID).Draw(t, "rules"),
	}
}

// TestSecurityGroupConverges holds that any group becomes as declared within two plans, whatever rules Neutron gives to
// a new one, whatever others did, and wherever the first plan was interrupted. Then nothing is left to do.
func TestSecurityGroupConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := plantest.Neutron{
			Groups:        []ObservedGroup{{ID: "others", GroupAttributes: GroupAttributes{Name: "theirs"}}},
			GroupDefaults: rapid.SliceOfNDistinct(rapid.Custom(groupRules), 0, 3, rapid.ID).Draw(t, "Neutron's own"),
		}
		// A rule of Neutron's own may be a declared one. Then the rest waits for the next plan, which knows it.
		apply := func(t *rapid.T, change Change) {
			var refused *plantest.Error
			_, err := c.Apply(change)
			own := len(change) > 0 && change[0].Action == CreateGroup && errors.As(err, &refused) && refused.Type == "SecurityGroupRuleExists"
			if err != nil && !own {
				t.Fatalf("%v\n%v", err, change)
			}
		}
		takeSome := func(spec GroupSpec) {
			change, err := SecurityGroup(spec, c.Observe(testOwner))
			expect.NoError(t, err)
			apply(t, change[:rapid.IntRange(0, len(change)).Draw(t, "taken")])
		}
		takeSome(groupSpecs(t))
		for _, g := range c.Observe(testOwner).Groups {
			own := c.Group(g.ID)
			own.Rules = slices.DeleteFunc(own.Rules, func(ObservedRule) bool { return rapid.Bool().Draw(t, "lose") })
			own.Rules = append(own.Rules, ObservedRule{ID: "by hand", Rule: groupRules(t)})
			own.Revision++
		}
		spec := groupSpecs(t)
		takeSome(spec)
		for range 2 {
			change, err := SecurityGroup(spec, c.Observe(testOwner))
			expect.NoError(t, err)
			apply(t, change)
		}
		observed := c.Observe(testOwner)
		if change, err := SecurityGroup(spec, observed); err != nil || !change.Empty() || !spec.Complete(observed) {
			t.Fatalf("what was applied is planned again: %v, %v", change, err)
		}
		var rules []Rule
		for _, r := range observed.Groups[0].Rules {
			rules = append(rules, r.Rule)
		}
		if len(rules) != len(spec.Rules) || slices.ContainsFunc(rules, func(r Rule) bool {
			return !slices.Contains(spec.Rules, r)
		}) {
			t.Fatalf("the group has %v, want %v", rules, spec.Rules)
		}
		gone, err := Orphan(testOwner, observed)
		expect.NoError(t, err)
		if _, err := c.Apply(gone); err != nil {
			t.Fatal(err)
		}
		if left := c.Observe(testOwner); !left.Empty() || len(c.Groups) != 1+map[bool]int{true: 1}[spec.Retain] {
			t.Fatalf("after the object's end: %v", c.Groups)
		}
	})
}

func TestRulesWaitForNoOtherStep(t *testing.T) {
	spec := declaredGroup(func(s *GroupSpec) { s.Stateless, s.Rules[2] = true, tcp(81) })
	change, err := SecurityGroup(spec, observedGroup())
	if err != nil || len(change) != 3 {
		t.Fatal(change, err)
	}
	// While a port is in the group, Neutron refuses stateful; when the quota is full, the new rule.
	if !change[0].Postponable() || !change[1].Postponable() {
		t.Error("a refused step would hold up the rules")
	}
	if rest := change.Despite(nil); len(rest) != 2 || rest[0].Action != CreateRules {
		t.Errorf("beside the group's settings, %v goes on", rest)
	}
	if rest := change.Despite(change[:1]); len(rest) != 1 || rest[0].Action != DeleteRule {
		t.Errorf("beside new rules, %v goes on", rest)
	}
	expect.NoError(t, spec.Validate())
}
