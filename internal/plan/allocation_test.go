package plan_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// fromPool is a spec whose only subnet is from pool-4.
func fromPool(change func(*Allocation, *Spec)) Spec {
	from := &Allocation{Name: "office", Pool: testPool("pool-4")}
	spec := Spec{Owner: testOwner, Name: "net", Subnets: []Subnet{{From: from, DHCP: true}}}
	if change != nil {
		change(from, &spec)
	}
	return spec
}

// givenFrom is a subnet of ours that Neutron has taken from a pool.
func givenFrom(pool, id, cidr string) ObservedSubnet {
	p := prefix(cidr)
	return ObservedSubnet{
		ID: id, Created: plantest.Epoch, Name: "net", Description: testOwner.Marker(), PoolID: pool,
		Subnet: Subnet{CIDR: p, Gateway: DefaultGateway(p), Pools: DefaultPools(p, DefaultGateway(p)), DHCP: true},
	}
}

func TestPlansOfSubnetsFromPools(t *testing.T) {
	given := func(id, cidr string) ObservedSubnet { return givenFrom("pool-4", id, cidr) }
	with := func(change func(*ObservedSubnet), s ObservedSubnet) ObservedSubnet {
		change(&s)
		return s
	}
	const create = `create subnet from subnet pool "office" (it is declared but missing)`
	for sentence, tc := range map[string]struct {
		spec  Spec
		there []ObservedSubnet
		want  []string
	}{
		"its gateway goes where none is declared, and the pools fill its place": {
			fromPool(func(a *Allocation, _ *Spec) { a.NoGateway = true }),
			[]ObservedSubnet{given("sub-1", "100.64.7.0/24")}, []string{
				"update subnet sub-1 (100.64.7.0/24): gateway 100.64.7.1 → none, allocationPools " +
					"100.64.7.2-100.64.7.254 → 100.64.7.1-100.64.7.254 (it differs from the spec)",
			},
		},
		"a second one from the pool goes, and the older one stays": {
			fromPool(nil), []ObservedSubnet{
				with(func(s *ObservedSubnet) { s.Created = plantest.Epoch.Add(time.Second) }, given("sub-1", "100.64.7.0/24")),
				given("sub-2", "100.64.8.0/24"),
			}, []string{"delete subnet sub-1 (100.64.7.0/24) (it is a duplicate of the subnet 100.64.8.0/24 from its pool)"},
		},
		"one of another length than the declared one is replaced": {
			fromPool(func(a *Allocation, _ *Spec) { a.PrefixLength = 26 }), []ObservedSubnet{given("sub-1", "100.64.7.0/24")},
			[]string{"delete subnet sub-1 (100.64.7.0/24) (an immutable field differs)", create},
		},
		"one of another pool is another subnet": {
			fromPool(nil), []ObservedSubnet{givenFrom("pool-6", "sub-1", "2001:db8::/64")},
			[]string{"delete subnet sub-1 (2001:db8::/64) (it is no longer declared)", create},
		},
		"one of the CIDR that another declares is not taken for it": {
			fromPool(func(_ *Allocation, s *Spec) { s.Subnets = append(s.Subnets, given("", "100.64.7.0/24").Subnet) }),
			[]ObservedSubnet{given("sub-1", "100.64.7.0/24")}, []string{create},
		},
		"one of each family is told by its pool": {
			fromPool(func(_ *Allocation, s *Spec) {
				s.Subnets = append(s.Subnets, Subnet{From: &Allocation{Name: "six", Pool: testPool("pool-6")}, DHCP: true})
			}), []ObservedSubnet{given("sub-1", "100.64.7.0/24")},
			[]string{`create subnet from subnet pool "six" (it is declared but missing)`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := ObservedNetwork{ID: "net-1", Created: plantest.Epoch, Attributes: tc.spec.Attributes(), Subnets: tc.there}
			wantSteps(t, tc.spec, Observed{Networks: []ObservedNetwork{n}}, tc.want)
		})
	}
}

func TestARouteByWayOfAPoolsSubnetWaitsForItsInterface(t *testing.T) {
	spec := fromPool(func(_ *Allocation, s *Spec) {
		s.Router = &RouterSpec{Routes: []Route{route("198.51.100.0/24", "100.64.0.9")}}
	})
	c := &cloud{}
	first := mustPlan(t, spec, c)
	if slices.ContainsFunc(first, func(s Step) bool { return s.Action == UpdateRouter }) {
		t.Errorf("before there is a CIDR the routes are set:\n%s", first)
	}
	mustApply(t, c, first)
	if n, _ := c.Observe(testOwner).Network(); spec.Routed(Observed{Networks: []ObservedNetwork{n}}) {
		t.Error("without the interface it counts as routed")
	}
	followAllocations(t, spec, c)
	if left := mustPlan(t, spec, c); !left.Empty() || !spec.Routed(c.Observe(testOwner)) {
		t.Errorf("there is left\n%s", left)
	}
}

func TestASubnetOfThePoolThatIsNotOursBlocksASecondOne(t *testing.T) {
	for sentence, description := range map[string]string{
		"without a marker": "theirs", "of another owner": Owner{"c2", "o2"}.Marker(),
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := fromPool(nil)
			theirs := givenFrom("pool-4", "sub-1", "100.64.7.0/24")
			theirs.Description = description
			n := ObservedNetwork{ID: "net-1", Attributes: spec.Attributes(), Subnets: []ObservedSubnet{theirs}}
			_, err := Network(spec, Observed{Networks: []ObservedNetwork{n}})
			blocked, ok := errors.AsType[*BlockedError](err)
			if !ok || !strings.Contains(blocked.Message, `sub-1 (100.64.7.0/24) of network net-1 is from subnet pool "office"`) {
				t.Errorf("got %v", err)
			}
			// Beside our own, it is in nobody's way.
			n.Subnets = append(n.Subnets, givenFrom("pool-4", "sub-2", "100.64.8.0/24"))
			if change, err := Network(spec, Observed{Networks: []ObservedNetwork{n}}); err != nil || !change.Empty() {
				t.Errorf("beside our own: %v\n%s", err, change)
			}
		})
	}
}

func TestAnImportFindsItsSubnetsByTheirPools(t *testing.T) {
	bare := givenFrom("pool-4", "sub-1", "100.64.7.0/24")
	bare.Description = "made by hand"
	found := ObservedNetwork{ID: "net-1", Attributes: Attributes{Name: "net", AdminStateUp: true}, Subnets: []ObservedSubnet{bare}}
	spec := fromPool(func(_ *Allocation, s *Spec) { s.Import = Import{ID: "net-1", AdoptSubnets: true} })
	if differences, err := Compare(spec, found); err != nil || len(differences) > 0 {
		t.Errorf("as declared it differs: %v, %v", err, differences)
	}
	found.Description = spec.Describe()
	change, err := Network(spec, Observed{Networks: []ObservedNetwork{found}})
	if err != nil || len(change) != 1 || change[0].ID != "sub-1" || !change[0].Changes(FieldDescription) {
		t.Errorf("got %v and\n%s\nwant the subnet's marker", err, change)
	}

	spec.Subnets[0].From = &Allocation{Name: "office", Pool: testPool("pool-4"), PrefixLength: 26}
	_, err = Network(spec, Observed{Networks: []ObservedNetwork{found}})
	if blocked, ok := errors.AsType[*BlockedError](err); !ok || !strings.Contains(blocked.Message, "prefixLength of subnet sub-1 (100.64.7.0/24) on the imported network net-1 is 24") {
		t.Errorf("of another length: %v", err)
	}

	found.Description, found.Subnets[0].Description = "", Owner{"c2", "o2"}.Marker()
	if _, err := Compare(spec, found); !strings.Contains(err.Error(), "[owner=c2/o2]") {
		t.Errorf("another's: %v", err)
	}
}

func TestAllocationsThatCannotBe(t *testing.T) {
	six := func(a *Allocation) { a.Pool = testPool("pool-6") }
	for sentence, tc := range map[string]struct {
		change      func(*Allocation, *Spec)
		field, says string
	}{
		"a default length without hosts": {
			func(a *Allocation, _ *Spec) { a.Pool.DefaultPrefixLength = 32 }, "prefixLength", "gives no /32 to hosts",
		},
		"a name server of the other IP version": {
			func(_ *Allocation, s *Spec) { s.Subnets[0].DNSServers = []netip.Addr{addr("fd00::53")} },
			"dnsServers[0]", "not of IPv4",
		},
		"an IPv6 mode in IPv4": {
			func(_ *Allocation, s *Spec) { s.Subnets[0].IPv6RAMode = SLAAC }, "ipv6RAMode", "only IPv6 has it",
		},
		"SLAAC in a /80": {
			func(a *Allocation, s *Spec) {
				six(a)
				a.PrefixLength, s.Subnets[0].IPv6RAMode = 80, SLAAC
			}, "prefixLength", "only in a /64",
		},
		"two of one pool, by its name and its id": {
			func(_ *Allocation, s *Spec) {
				again := Subnet{From: &Allocation{Name: "pool-4", Pool: testPool("pool-4")}, DHCP: true}
				s.Subnets = append(s.Subnets, again)
			}, "additionalSubnets[0].subnetPool", `another subnet is from subnet pool "pool-4"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := Network(fromPool(tc.change), Observed{})
			requireFieldError(t, err, tc.field, tc.says)
		})
	}
}

func TestACIDRFromAPoolMustNotOverlapADeclaredOne(t *testing.T) {
	spec := fromPool(func(_ *Allocation, s *Spec) { s.Subnets = append(s.Subnets, Subnet{CIDR: prefix("100.64.7.0/25")}) })
	n := ObservedNetwork{
		ID: "net-1", Attributes: spec.Attributes(), Subnets: []ObservedSubnet{givenFrom("pool-4", "sub-1", "100.64.7.0/24")},
	}
	_, err := Network(spec, Observed{Networks: []ObservedNetwork{n}})
	requireFieldError(t, err, "additionalSubnets[0].cidr", "100.64.7.0/25 overlaps 100.64.7.0/24")
}

func TestAPoolThatIsNotLookedUpIsNotPlannedWith(t *testing.T) {
	spec := fromPool(func(a *Allocation, _ *Spec) { a.Pool = SubnetPool{} })
	if err := spec.Validate(); err != nil {
		t.Errorf("what is not known is no mistake: %v", err)
	}
	if change, err := Network(spec, Observed{}); err == nil || len(change) > 0 {
		t.Errorf("it is planned with:\n%s", change)
	}
}

// Neutron would refuse these, and its refusal would hide what they wait for, and keep the rest from being done.
func TestWhatNeutronBarsWaitsForTheSubnetThatIsInUse(t *testing.T) {
	from := func(name string) Subnet { return Subnet{From: &Allocation{Name: name, Pool: testPool(name)}} }
	inCIDR := func(cidr string) Subnet { return Subnet{CIDR: prefix(cidr)} }
	pooled := func(cidr string) Step { return Step{Subnet: inCIDR(cidr), PoolID: "pool-4"} }
	for sentence, tc := range map[string]struct {
		inUse  Step
		create Subnet
		waits  bool
	}{
		"one from a pool for one of its version that is from none": {
			Step{Subnet: inCIDR("10.0.0.0/24")}, from("pool-4"), true,
		},
		"one from no pool for one of its version from a pool": {pooled("100.64.0.0/26"), inCIDR("10.0.0.0/24"), true},
		"a subnet for none from its own pool":                 {pooled("100.64.0.0/26"), from("pool-4"), false},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.inUse.Action, tc.inUse.ID = DeleteSubnet, "sub-1"
			tags := Step{Action: TagNetwork, Ref: Ref{ID: "net-1"}}
			change := Change{tc.inUse, {Action: CreateSubnet, Subnet: tc.create}, tags}
			want := change[1:]
			if tc.waits {
				want = Change{tags}
			}
			if got := change.Despite(nil); got.String() != want.String() {
				t.Errorf("left is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestTheDeletionOfASubnetNamesItsPool(t *testing.T) {
	spec := fromPool(func(a *Allocation, _ *Spec) { a.PrefixLength = 26 })
	change, err := Network(spec, observedWith(func(n *ObservedNetwork) {
		n.Subnets = []ObservedSubnet{givenFrom("pool-4", "sub-1", "100.64.7.0/24")}
	}))
	at := slices.IndexFunc(change, func(s Step) bool { return s.Action == DeleteSubnet })
	if err != nil || at < 0 || change[at].PoolID != "pool-4" {
		t.Errorf("the plan is\n%s, %v; want the deletion of a subnet from pool-4", change, err)
	}
}
