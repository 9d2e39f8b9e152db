package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// routedSpec is a network with a subnet and a router of its own.
func routedSpec(router *RouterSpec) Spec {
	cidr := prefix("10.0.0.0/24")
	gateway := DefaultGateway(cidr)
	return Spec{
		Owner: testOwner, Name: "n", Router: router,
		Subnets: []Subnet{{CIDR: cidr, Gateway: gateway, Pools: DefaultPools(cidr, gateway)}},
	}
}

func TestARouterBecomesAnotherKindOnlyWhileItIsOff(t *testing.T) {
	const off, on = "adminState down → up", "adminState up → down"
	for sentence, c := range map[string]struct {
		router *RouterSpec
		change func(*ObservedRouter)
		// want are the differences of each step, which all are about the router.
		want []string
	}{
		"one that is on stays so, and what Neutron refuses comes last": {
			&RouterSpec{HA: new(false)}, func(r *ObservedRouter) { r.Name = "renamed" },
			[]string{`name "renamed" → "n"`, "ha true → false"},
		},
		"one that is off is changed before it is switched on": {
			&RouterSpec{HA: new(false), Distributed: new(true)}, func(r *ObservedRouter) { r.AdminStateUp = false },
			[]string{"ha true → false, distributed false → true", off},
		},
		"what these credentials do not see differs": {
			&RouterSpec{Distributed: new(false)}, func(r *ObservedRouter) { r.Distributed = nil },
			[]string{"distributed not shown → false"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			at := &cloud{}
			mustApply(t, at, mustPlan(t, routedSpec(&RouterSpec{}), at))
			c.change(&at.Routers[0])
			var got []string
			for _, step := range mustPlan(t, routedSpec(c.router), at) {
				expect.Equal(t, UpdateRouter, step.Action, "the step %s", step)
				var texts []string
				for _, d := range step.Differences {
					texts = append(texts, d.Field+" "+d.Actual+" → "+d.Declared)
				}
				got = append(got, strings.Join(texts, ", "))
			}
			expect.Equal(t, c.want, got, "steps")
			if strings.Contains(strings.Join(got, ", "), on) {
				t.Errorf("the router is switched off: %q", got)
			}
		})
	}
}

// With OVN, Neutron fails at a port of a router interface that is on no router. It needs one only for addresses that
// hosts generate, and for service types.
func TestAPortBecomesARouterInterfaceWhenItIsAttached(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Subnet)
		want   string
	}{
		"as a rule":               {func(*Subnet) {}, UnattachedDeviceOwner},
		"where hosts address":     {func(s *Subnet) { *s = six(SLAAC) }, InterfaceDeviceOwner},
		"in subnets of services":  {func(s *Subnet) { s.ServiceTypes = []string{InterfaceDeviceOwner} }, InterfaceDeviceOwner},
		"beside one that goes on": {nil, InterfaceDeviceOwner},
	} {
		t.Run(name, func(t *testing.T) {
			at, spec := &cloud{}, routedSpec(nil)
			if c.change == nil { // the other subnet's own interface comes with it
				spec.Subnets = append(spec.Subnets, six(SLAAC))
			} else {
				c.change(&spec.Subnets[0])
			}
			mustApply(t, at, mustPlan(t, spec, at))
			spec.Router = &RouterSpec{}
			for _, step := range mustPlan(t, spec, at) {
				if step.Action == CreateInterface && step.DeviceOwner != c.want {
					t.Errorf("%s has the device owner %q, want %q", step, step.DeviceOwner, c.want)
				}
			}
		})
	}
}

// six is a subnet of IPv6 whose hosts get their addresses in a mode.
func six(mode IPv6Mode) Subnet {
	cidr := prefix("fd00::/64")
	gateway := DefaultGateway(cidr)
	return Subnet{
		CIDR: cidr, Gateway: gateway, Pools: DefaultPools(cidr, gateway), DHCP: true, IPv6AddressMode: mode, IPv6RAMode: mode,
	}
}

func TestTheKindOfARouterTakesAnAdministrator(t *testing.T) {
	at := &cloud{}
	spec := routedSpec(&RouterSpec{HA: new(false), Distributed: new(false)})
	var got []string
	for _, step := range mustPlan(t, spec, at) {
		got = append(got, step.Privileged()...)
	}
	expect.Equal(t, []string{FieldHA, FieldDistributed}, got, "an administrator's of a creation")
	mustApply(t, at, mustPlan(t, routedSpec(&RouterSpec{}), at))
	got = nil
	for _, step := range mustPlan(t, spec, at) {
		got = append(got, step.Privileged()...)
	}
	expect.Equal(t, []string{FieldHA}, got, "an administrator's of an update")
}

func TestPropertyARouterThatIsNotKnownKeepsNothingElseAndLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := routedScenes().Draw(t, "scene")
		spec, before := plantest.Clone(s.spec), s.cloud.clone()
		spec.Router = &RouterSpec{Unresolved: true}
		mustApply(t, s.cloud, mustPlan(t, spec, s.cloud))
		followAllocations(t, spec, s.cloud)
		requireAsDeclared(t, spec, s.cloud)
		if again := mustPlan(t, spec, s.cloud); !again.Empty() {
			t.Fatalf("planning what was just applied gives\n%s", again)
		}
		if spec.Routed(s.cloud.Observe(testOwner)) {
			t.Fatal("a network whose router is not known counts as routed")
		}

		ids := func(routers []ObservedRouter) (all []string) {
			for _, r := range routers {
				all = append(all, r.ID+" "+r.Gateway.NetworkID)
			}
			return all
		}
		if diff := cmp.Diff(ids(before.Routers), ids(s.cloud.Routers)); diff != "" {
			t.Fatalf("the routers and where they lead (-before +after):\n%s", diff)
		}
		gateways := map[string]bool{}
		n, _ := s.cloud.Observe(testOwner).Network()
		for _, subnet := range spec.Allocated(n).Subnets {
			if Serves(subnet.ServiceTypes, InterfaceDeviceOwner) {
				gateways[subnet.Gateway.String()] = true
			}
		}
		for _, p := range before.Ports {
			stays := true
			for _, a := range p.Addresses {
				_, there := s.cloud.Subnet(a.SubnetID)
				stays = stays && there != nil && gateways[a.Address.String()]
			}
			now := s.cloud.Port(p.ID)
			switch {
			case stays && (now == nil || now.Router != p.Router):
				t.Fatalf("interface %+v of declared gateways is %+v now", p, now)
			case !stays && now != nil:
				t.Fatalf("interface %+v of others than declared gateways is left", p)
			}
		}

		mustApply(t, s.cloud, mustPlan(t, s.spec, s.cloud))
		requireAsDeclared(t, s.spec, s.cloud)
		requireRouted(t, s.spec, s.cloud)
	})
}
