package plan_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestRangesAndSubnetsOfTheEdge(t *testing.T) {
	if got := (Range{addr("fd00::"), addr("fd00::7fff:ffff:ffff:ffff")}).Size(); got != math.MaxInt64 {
		t.Errorf("one address more than an int64 holds is %d", got)
	}
	if first, last := Usable(prefix("fd00::/127")); first != addr("fd00::1") || last != first {
		t.Errorf("the only address of a host is %s to %s", first, last)
	}
	if first, last := Usable(prefix("10.0.0.0/31")); first.IsValid() || last.IsValid() {
		t.Errorf("between the network and its broadcast is %s to %s", first, last)
	}
	most := int64(math.MaxInt64)
	for _, c := range []struct{ a, b, want Usage }{
		{Usage{1, 5}, Usage{2, 7}, Usage{3, 12}},
		{Usage{most - 1, most}, Usage{1, 1}, Usage{most, most}},
		{Usage{1, most}, Usage{most, most}, Usage{most, most}},
	} {
		expect.Equal(t, c.want, c.a.Plus(c.b), "%+v and %+v together", c.a, c.b)
	}
}

// A limit that is taken for none lets in what nobody declared.
func TestARuleWithOneLimitKeepsIt(t *testing.T) {
	for _, r := range []Rule{
		{Direction: Ingress, EtherType: IPv4, Protocol: "tcp", PortMin: 1, PortMax: 1023},
		{Direction: Ingress, EtherType: IPv4, Protocol: "tcp", PortMin: 1024, PortMax: 65535},
		{Direction: Ingress, EtherType: IPv4, PortMin: NoPort, PortMax: NoPort, Remote: prefix("10.0.0.0/8")},
	} {
		expect.Equal(t, r, r.Canonical(), "the canonical form")
	}
}

func TestRulesInWords(t *testing.T) {
	rule := func(protocol string, from, to int) Rule {
		return Rule{Direction: Ingress, EtherType: IPv4, Protocol: protocol, PortMin: from, PortMax: to}
	}
	out := rule("", NoPort, NoPort)
	out.Direction = Egress
	for want, r := range map[string]Rule{
		"ingress IPv4 tcp 80 from anywhere":               rule("tcp", 80, 80),
		"ingress IPv4 tcp 80-90 from anywhere":            rule("tcp", 80, 90),
		"ingress IPv4 icmp from anywhere":                 rule("icmp", NoPort, NoPort),
		"ingress IPv4 icmp type 8 from anywhere":          rule("icmp", 8, NoPort),
		"ingress IPv4 icmpv6 type 3 code 3 from anywhere": rule("icmpv6", 3, 3),
		"egress IPv4 any to anywhere":                     out,
	} {
		expect.Equal(t, want, r.String(), "the range as text")
	}
}

// A rule too many lets in what the spec keeps out, and one too few keeps out what it lets in.
func TestAGroupIsCompleteWithItsRulesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		observed Observed
		want     bool
	}{
		"as declared":                   {observedGroup(), true},
		"that does not exist":           {Observed{}, false},
		"with another rule":             {observedGroup(addRule("x", tcp(22))), false},
		"without one":                   {observedGroup(func(g *ObservedGroup) { g.Rules = g.Rules[1:] }), false},
		"with another in place of one":  {observedGroup(func(g *ObservedGroup) { g.Rules[2].Rule = tcp(22) }), false},
		"with none of its three":        {observedGroup(func(g *ObservedGroup) { g.Rules = nil }), false},
		"with one twice, besides":       {observedGroup(addRule("x", tcp(80))), false},
		"without one, with another two": {observedGroup(func(g *ObservedGroup) { g.Rules[2].Rule = tcp(22) }, addRule("x", tcp(23))), false},
	} {
		expect.Equal(t, c.want, declaredGroup().Complete(c.observed), "a group %s is complete", name)
	}
	if none := (GroupSpec{Owner: testOwner, Name: "none"}); none.Complete(Observed{}) {
		t.Error("a group without rules is complete that does not exist")
	}
}

func TestAFloatingIPIsCompleteAtItsPort(t *testing.T) {
	for _, c := range []struct {
		port, at string
		exists   bool
		want     bool
	}{
		{"port-1", "port-1", true, true}, {"port-1", "", true, false}, {"port-1", "port-2", true, false}, {"", "", true, true},
		{"", "port-1", true, false}, {"", "", false, false},
	} {
		observed := Observed{}
		if c.exists {
			observed.FloatingIPs = []ObservedFloatingIP{led("fip-1", c.at, "")}
		}
		expect.Equal(t, c.want, floatingTo(c.port).Complete(observed), "declared at %q, at %q, there %t: complete", c.port, c.at, c.exists)
	}
}

// Whoever takes a step asks these before what cannot be undone.
func TestWhatStepsSayOfThemselves(t *testing.T) {
	keeper := Keeper{Resource: Resource{KindFloatingIP, "fip-1"}}
	for _, c := range []struct {
		step Step
		want bool
	}{
		{Step{Action: DeleteFloatingIP}, true}, {Step{Action: DeleteFloatingIP, Keeper: keeper}, false},
		{Step{Action: DeletePort}, false}, {Step{Action: UpdateFloatingIP}, false},
	} {
		expect.Equal(t, c.want, c.step.GivesUp(), "%s gives up an address", c.step.Action)
	}
}

func TestWhatWasDoneInWords(t *testing.T) {
	id := Ref{ID: "id"}
	difference := []Difference{{Resource: "port", Field: FieldName, Declared: `"b"`, Actual: `"a"`}}
	for want, step := range map[string]Step{
		"Created port id":                           {Action: CreatePort, Ref: id, Reason: "why"},
		"Deleted port id: why":                      {Action: DeletePort, Ref: id, Reason: "why"},
		"Updated port id":                           {Action: UpdatePort, Ref: id, Reason: "why"},
		`Updated port: name "a" → "b"`:              {Action: UpdatePort, Ref: id, Differences: difference, Reason: "why"},
		"Deleted subnet 10.0.0.0/24: why":           {Action: DeleteSubnet, Ref: id, Subnet: Subnet{CIDR: prefix("10.0.0.0/24")}, Reason: "why"},
		"Created subnet 10.0.0.0/24":                {Action: CreateSubnet, Ref: id, Subnet: Subnet{CIDR: prefix("10.0.0.0/24")}, Reason: "why"},
		"Deleted floating IP id: the port asks why": {Action: DeleteFloatingIP, Ref: id, Reason: "the port asks why"},
	} {
		expect.Equal(t, want, step.Done(), "the step as text")
	}
}

func TestWhatAPortSetsAndIsTakenBack(t *testing.T) {
	if got := (PortSpec{}).Sets(); got != nil {
		t.Errorf("an empty spec sets %v", got)
	}
	all := PortSpec{FloatingNetwork: "outside", ByPolicies: true}
	all.AddressPairs, all.DNSName, all.QoSPolicy = []AddressPair{{}}, new("db"), new("policy")
	want := []string{FieldAddressPairs, FieldDNSName, FieldFloatingIP, FieldQoSPolicy, FieldSecurityGroups}
	expect.Equal(t, want, all.Sets(), "what it sets")
	empty := PortSpec{}
	empty.AddressPairs, empty.DNSName, empty.QoSPolicy = []AddressPair{}, new(""), new("")
	if got := empty.Sets(); got != nil {
		t.Errorf("a spec with empty fields sets %v", got)
	}
}

// pooled is a subnet from a pool that was looked up.
func pooled(version, length int) Subnet {
	return Subnet{From: &Allocation{Name: "pool", PrefixLength: length, Pool: SubnetPool{
		ID: "pool-1", IPVersion: version, MinPrefixLength: 8, MaxPrefixLength: 64, DefaultPrefixLength: length,
	}}}
}

func TestASpecIsRefusedForWhatItHasAlone(t *testing.T) {
	via := func(destination, hop string) Subnet {
		s := pooled(4, 24)
		s.HostRoutes = []Route{{Destination: prefix(destination), NextHop: addr(hop)}}
		return s
	}
	for name, c := range map[string]struct {
		spec Spec
		says string
	}{
		"a small MTU with a pool of IPv4":   {Spec{MTU: 1000, Subnets: []Subnet{pooled(4, 24)}}, ""},
		"a small MTU with a pool of IPv6":   {Spec{MTU: 1000, Subnets: []Subnet{pooled(6, 64)}}, "too small for IPv6"},
		"the least MTU with a pool of IPv6": {Spec{MTU: 1280, Subnets: []Subnet{pooled(6, 64)}}, ""},
		"no MTU with a pool of IPv6":        {Spec{Subnets: []Subnet{pooled(6, 64)}}, ""},
		"routes of the pool's version":      {Spec{Subnets: []Subnet{via("10.9.0.0/16", "10.0.0.1")}}, ""},
		"a destination of the other":        {Spec{Subnets: []Subnet{via("fd00::/16", "10.0.0.1")}}, "hostRoutes[0]"},
		"a next hop of the other":           {Spec{Subnets: []Subnet{via("10.9.0.0/16", "fd00::1")}}, "hostRoutes[0]"},
		"all projects, named first":         {Spec{SharedWith: []string{"*", "p"}}, "sharedWith[0]"},
	} {
		c.spec.Owner = testOwner
		if err := c.spec.Validate(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Of several subnets from one pool, the own one is the declared one, then one that nobody owns.
func TestWhichSubnetOfAPoolIsTheDeclaredOne(t *testing.T) {
	from := func(id, cidr, description string) ObservedSubnet {
		s := ObservedSubnet{ID: id, PoolID: "pool-1", Created: plantest.Epoch, Description: description}
		s.CIDR = prefix(cidr)
		s.Gateway = DefaultGateway(s.CIDR)
		s.Pools = DefaultPools(s.CIDR, s.Gateway)
		return s
	}
	of := func(own string, others ...ObservedSubnet) (cidr netip.Prefix) {
		spec := Spec{Owner: testOwner, Subnets: []Subnet{pooled(4, 24)}, Import: Import{ID: "net-1", AdoptSubnets: true}}
		mine := from("s-1", "10.0.1.0/24", own)
		mine.Created = mine.Created.Add(1) // the youngest
		return spec.Allocated(ObservedNetwork{ID: "net-1", Subnets: append(others, mine)}).Subnets[0].CIDR
	}
	unmarked, others := from("s-0", "10.0.0.0/24", "a text"), from("s-2", "10.0.2.0/24", otherOwner.Marker())
	if got := of(testOwner.Marker(), unmarked, others); got != prefix("10.0.1.0/24") {
		t.Errorf("beside an older one without an owner it is %s", got)
	}
	if got := of("a text", others); got != prefix("10.0.1.0/24") {
		t.Errorf("beside one of another owner it is %s", got)
	}
	spec := Spec{Owner: testOwner, Name: "n", Subnets: []Subnet{pooled(4, 24)}, Import: Import{ID: "net-1", Overwrite: true}}
	mine := from("s-1", "10.0.1.0/24", "a text")
	mine.Created = mine.Created.Add(1)
	found := ObservedNetwork{ID: "net-1", Subnets: []ObservedSubnet{others, mine}}
	if _, err := Compare(spec, found); err != nil {
		t.Errorf("with a subnet that nobody owns, the import fails for another one: %v", err)
	}
}

// Of two equal interfaces, the attached one stays: the router would lose it for a moment otherwise.
func TestTheAttachedInterfaceStays(t *testing.T) {
	at := &cloud{}
	spec := routedSpec(&RouterSpec{})
	mustApply(t, at, mustPlan(t, spec, at))
	attached := at.Ports[0]
	spare := plantest.Clone(attached)
	spare.ID, spare.Router, spare.Created = "spare", "", attached.Created.Add(-1)
	for name, ports := range map[string][]ObservedPort{"first": {attached, spare}, "last": {spare, attached}} {
		change, err := Network(spec, Observed{
			Networks: at.Networks, Routers: at.Routers, Ports: slices.Clone(ports),
		})
		if err != nil || len(change) != 1 || !change[0].Action.Deletes() || change[0].ID != "spare" {
			t.Errorf("with the attached one %s: %v, %v", name, change, err)
		}
	}
}

// A description is handed over with what it says, and only by its owner.
func TestHandOver(t *testing.T) {
	for text, want := range map[string]string{
		testOwner.Marker():                    otherOwner.Marker(),
		testOwner.Describe("a [retain]"):      otherOwner.Describe("a [retain]"),
		"a text":                              "",
		"":                                    "",
		otherOwner.Describe("another's text"): "",
	} {
		got, ok := testOwner.HandOver(text, otherOwner)
		if ok != (want != "") || ok && got != want || !ok && got != text {
			t.Errorf("%q becomes %q, %t, want %q", text, got, ok, want)
		}
	}
}

// A name means nothing that has or had an owner: users chose it.
func TestNameless(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a text": false, testOwner.Marker(): true, "a text [released]": true, "[released] a text": false,
	} {
		expect.Equal(t, want, Nameless(text), "%q is nameless", text)
	}
}

func TestAddressPairsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.7": "10.0.0.7", "10.0.0.0/24": "10.0.0.0/24", "10.0.0.7/32": "10.0.0.7", "fd00::7": "fd00::7",
		"fd00::/64": "fd00::/64",
	} {
		read, err := ParseRange(text)
		if got := (AddressPair{Range: read}).Address(); err != nil || got != want {
			t.Errorf("%q is written %q, want %q (%v)", text, got, want, err)
		}
	}
	if read, err := ParseRange("ten"); err == nil || read != (netip.Prefix{}) {
		t.Errorf("ten is %s", read)
	}
}

func TestANetworkIsRoutedWithItsRouterAndInterfaces(t *testing.T) {
	at := &cloud{}
	spec := routedSpec(&RouterSpec{})
	mustApply(t, at, mustPlan(t, spec, at))
	whole := at.Observe(testOwner)
	routed := func(name string, spec Spec, observed Observed, want bool) {
		t.Helper()
		expect.Equal(t, want, spec.Routed(observed), "a network %s is routed", name)
	}
	routed("as declared", spec, whole, true)
	routed("without a router, as declared", routedSpec(nil), Observed{Networks: whole.Networks}, true)
	routed("without its router", spec, Observed{Networks: whole.Networks}, false)
	routed("without its interface", spec, Observed{Networks: whole.Networks, Routers: whole.Routers}, false)
	loose := plantest.Clone(whole.Ports[0])
	loose.Router = ""
	routed("whose interface is attached to nothing", spec,
		Observed{Networks: whole.Networks, Routers: whole.Routers, Ports: []ObservedPort{loose}}, false)
	renamed := plantest.Clone(whole.Routers[0])
	renamed.Name = "renamed"
	routed("whose router has other settings", spec,
		Observed{Networks: whole.Networks, Routers: []ObservedRouter{renamed}, Ports: whole.Ports}, true)
	routed("whose router is not known", routedSpec(&RouterSpec{Unresolved: true}), whole, false)
	existing := Spec{Owner: testOwner, Name: "n", Router: &RouterSpec{Existing: "theirs"}, Subnets: spec.Subnets}
	routed("that is still at its own router", existing, whole, false)
}
