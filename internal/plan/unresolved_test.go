package plan_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// unresolved is the spec while no subnet pool can be told by its name. seen is the network whose subnets were last seen
// to be from the pools, nil where none was seen.
func unresolved(spec Spec, seen *ObservedNetwork) Spec {
	resolved := spec
	if seen != nil {
		resolved = spec.Allocated(*seen)
	}
	spec.Subnets = slices.Clone(spec.Subnets)
	for i, s := range spec.Subnets {
		if s.From == nil {
			continue
		}
		from := *s.From
		from.Pool, from.Unresolved = SubnetPool{}, true
		if seen != nil {
			given, _ := seen.SubnetByCIDR(resolved.Subnets[i].CIDR)
			from.Given = given.ID
		}
		spec.Subnets[i].From = &from
	}
	return spec
}

func TestPlansWhileAPoolCannotBeTold(t *testing.T) {
	four := func(id, cidr string) ObservedSubnet { return givenFrom("pool-4", id, cidr) }
	six := func(id, cidr string) ObservedSubnet { return givenFrom("pool-6", id, cidr) }
	unknown := func(change func(*Allocation, *Spec)) Spec {
		return fromPool(func(a *Allocation, s *Spec) {
			a.Pool, a.Unresolved = SubnetPool{}, true
			if change != nil {
				change(a, s)
			}
		})
	}
	withSix := func(s *Spec) {
		s.Subnets = append(s.Subnets, Subnet{From: &Allocation{Name: "six", Pool: testPool("pool-6")}, DHCP: true})
	}
	without := func(gateway string, s ObservedSubnet) ObservedSubnet {
		s.Gateway = addr(gateway)
		return s
	}
	for sentence, tc := range map[string]struct {
		spec  Spec
		there []ObservedSubnet
		want  []string
	}{
		"the subnet that was last seen stays where it would have to be made anew": {
			unknown(func(a *Allocation, _ *Spec) { a.Given, a.PrefixLength = "sub-1", 26 }),
			[]ObservedSubnet{four("sub-1", "100.64.7.0/24")}, nil,
		},
		"once its subnet is known, others that are not declared go": {
			unknown(func(a *Allocation, _ *Spec) { a.Given = "sub-1" }),
			[]ObservedSubnet{four("sub-1", "100.64.7.0/24"), six("sub-2", "2001:db8::/64")},
			[]string{"delete subnet sub-2 (2001:db8::/64) (it is no longer declared)"},
		},
		"a subnet from a pool that another names is not meant": {
			unknown(func(a *Allocation, s *Spec) {
				a.Given = "sub-2"
				withSix(s)
			}), []ObservedSubnet{six("sub-1", "2001:db8::/64"), six("sub-2", "2001:db8:0:1::/64")},
			[]string{"delete subnet sub-2 (2001:db8:0:1::/64) (it is a duplicate of the subnet 2001:db8::/64 from its pool)"},
		},
		"others are made and kept": {
			unknown(func(_ *Allocation, s *Spec) {
				withSix(s)
				s.Subnets = append(s.Subnets, Subnet{CIDR: prefix("10.0.0.0/30"), Pools: ranges("10.0.0.1-10.0.0.2")})
			}), []ObservedSubnet{without("2001:db8::9", six("sub-1", "2001:db8::/126"))},
			[]string{
				"update subnet sub-1 (2001:db8::/126): gateway 2001:db8::9 → 2001:db8::1 (it differs from the spec)",
				"create subnet 10.0.0.0/30 (it is declared but missing)",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := ObservedNetwork{ID: "net-1", Created: plantest.Epoch, Attributes: tc.spec.Attributes(), Subnets: tc.there}
			wantSteps(t, tc.spec, Observed{Networks: []ObservedNetwork{n}}, tc.want)
		})
	}
	t.Run("the network is made", func(t *testing.T) {
		wantSteps(t, unknown(nil), Observed{}, []string{`create network "net" (no network bears the owner's marker)`})
	})
}

func TestPropertyWhatCameFromAPoolStaysWhileItCannotBeTold(t *testing.T) {
	fromPools := func(s Spec) bool {
		return slices.ContainsFunc(s.Subnets, func(s Subnet) bool { return s.From != nil })
	}
	rapid.Check(t, func(t *rapid.T) {
		spec, c := specs(testOwner).Filter(fromPools).Draw(t, "spec"), &cloud{}
		mustApply(t, c, mustPlan(t, spec, c))
		followAllocations(t, spec, c)
		var seen *ObservedNetwork
		if rapid.Bool().Draw(t, "seen") {
			n, _ := c.Observe(testOwner).Network()
			seen = &n
		}
		spec = unresolved(spec, seen)
		if change := mustPlan(t, spec, c); !change.Empty() {
			t.Fatalf("of what is as declared the plan is\n%s", change)
		}

		for range rapid.IntRange(1, 6).Draw(t, "deeds") {
			c.meddle(t, testOwner)
		}
		change, err := Network(spec, c.Observe(testOwner))
		if err != nil {
			return // something of others is in the way
		}
		stays := map[string]bool{}
		for _, n := range c.Networks {
			for _, s := range n.Subnets {
				meant := func(d Subnet) bool { return d.From != nil && (seen == nil || d.From.Given == s.ID) }
				stays[s.ID] = s.PoolID != "" && slices.ContainsFunc(spec.Subnets, meant)
			}
		}
		for _, step := range change {
			if step.Action == CreateSubnet && step.Subnet.From != nil || step.Action == DeleteSubnet && stays[step.ID] {
				t.Fatalf("a step of the plan is %s", step)
			}
		}
		mustApply(t, c, change)
		if again := mustPlan(t, spec, c); !again.Empty() {
			t.Fatalf("after\n%s\nthe plan is\n%s", change, again)
		}
	})
}

func TestInterfacesStayWhileItIsNotKnownWhetherTheirSubnetsDo(t *testing.T) {
	for sentence, tc := range map[string]struct {
		seen   bool
		change func(*Spec, *cloud)
		want   []Action
	}{
		"a router is kept where its subnets are":    {true, renameRouter, []Action{UpdateRouter}},
		"a router is left where one is in doubt":    {false, renameRouter, nil},
		"a subnet that is not declared goes anyhow": {false, dropLastSubnet, []Action{DetachInterface, DeleteSubnet}},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec, c := fromPool(func(_ *Allocation, s *Spec) {
				s.Router = &RouterSpec{}
				s.Subnets = append(s.Subnets, routedSpec(nil).Subnets...)
			}), &cloud{}
			mustApply(t, c, mustPlan(t, spec, c))
			followAllocations(t, spec, c)
			var seen *ObservedNetwork
			if tc.seen {
				n, _ := c.Observe(testOwner).Network()
				seen = &n
			}
			spec = unresolved(spec, seen)
			tc.change(&spec, c)
			var actions []Action
			for _, step := range mustPlan(t, spec, c) {
				actions = append(actions, step.Action)
			}
			expect.Equal(t, tc.want, actions, "actions")
		})
	}
}

func renameRouter(_ *Spec, c *cloud) { c.Routers[0].Name = "renamed" }

func dropLastSubnet(spec *Spec, _ *cloud) { spec.Subnets = spec.Subnets[:len(spec.Subnets)-1] }
