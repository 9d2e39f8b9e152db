package plan_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// theirs are routers that are not ours, which specs may ask for.
func theirs() []ObservedRouter {
	var all []ObservedRouter
	for _, id := range []string{"theirs-1", "theirs-2"} {
		all = append(all, ObservedRouter{
			ID: id, Created: plantest.Epoch, RouterAttributes: RouterAttributes{Name: "theirs", AdminStateUp: true},
		})
	}
	return all
}

// routerSpecs are valid for a network with the given subnets: the next hops are where the router has an interface.
func routerSpecs(t *rapid.T, subnets []Subnet) *RouterSpec {
	switch rapid.IntRange(0, 4).Draw(t, "router") {
	case 0:
		return nil
	case 1:
		return &RouterSpec{Existing: rapid.SampledFrom([]string{"theirs-1", "theirs-2"}).Draw(t, "existing")}
	}
	r := &RouterSpec{}
	if rapid.Bool().Draw(t, "of a kind") {
		r.HA, r.Distributed = rapid.Ptr(rapid.Just(plantest.HA), true).Draw(t, "HA"), new(plantest.Distributed)
	}
	if rapid.Bool().Draw(t, "leads outside") {
		r.ExternalNetwork = rapid.SampledFrom([]string{"ext-1", "ext-2"}).Draw(t, "external network")
		r.SNAT = rapid.Ptr(rapid.Bool(), true).Draw(t, "SNAT")
		if rapid.Bool().Draw(t, "with an address") {
			r.ExternalIP = netip.AddrFrom4([4]byte{203, 0, 114, rapid.Byte().Draw(t, "address")})
		}
	}
	destinations := rapid.SampledFrom([]netip.Prefix{prefix("198.18.0.0/16"), prefix("198.19.0.0/24"), prefix("0.0.0.0/0")})
	for _, s := range subnets {
		if s.Gateway.Is4() && Serves(s.ServiceTypes, InterfaceDeviceOwner) && rapid.Bool().Draw(t, "with a route") {
			route := Route{destinations.Draw(t, "to"), hostsOf(s.CIDR).Draw(t, "by")}
			if !slices.Contains(r.Routes, route) {
				r.Routes = append(r.Routes, route)
			}
		}
	}
	return r
}

// routedSpecs are specs with routers, whose subnets lie inside.
func routedSpecs() *rapid.Generator[Spec] {
	return rapid.Custom(func(t *rapid.T) Spec {
		spec := specs(testOwner).Draw(t, "spec")
		spec.Subnets = slices.DeleteFunc(spec.Subnets, func(s Subnet) bool { return s.CIDR.Overlaps(plantest.Outside) })
		spec.Router = routerSpecs(t, spec.Subnets)
		return spec
	})
}

// routedScenes are scenes with a router, in which people have changed what concerns routing.
func routedScenes() *rapid.Generator[scene] {
	return rapid.Custom(func(t *rapid.T) scene {
		s := scene{spec: routedSpecs().Draw(t, "spec"), cloud: &cloud{plantest.Neutron{Routers: theirs()}}}
		if rapid.IntRange(0, 4).Draw(t, "begin") > 0 {
			mustApply(t, s.cloud, mustPlan(t, s.spec, s.cloud))
			followAllocations(t, s.spec, s.cloud)
		}
		for range rapid.IntRange(0, 6).Draw(t, "deeds") {
			s.cloud.meddleWithRouting(t)
		}
		switch rapid.IntRange(0, 3).Draw(t, "then") {
		case 0:
			s.spec = routedSpecs().Draw(t, "other spec")
		case 1: // The same subnets, with other gateways and another router.
			s.spec = plantest.Clone(s.spec)
			for i, subnet := range s.spec.Subnets {
				s.spec.Subnets[i] = setOtherwise(t, subnet)
			}
			s.spec.Router = routerSpecs(t, s.spec.Subnets)
		}
		return s
	})
}

// meddleWithRouting does one thing that somebody may do with routers in Neutron.
func (c *cloud) meddleWithRouting(t *rapid.T) {
	ours := func(r ObservedRouter) bool { return testOwner.Owns(r.Description) }
	at := slices.IndexFunc(c.Routers, ours)
	deed := rapid.SampledFrom([]string{
		"rename", "switch", "describe", "gateway", "no gateway", "routes", "no routes", "detach", "forget an interface",
		"switch an interface", "lose an answer", "duplicate", "delete", "make it another kind",
	}).Draw(t, "deed")
	port := slices.IndexFunc(c.Ports, func(p ObservedPort) bool { return p.Router != "" })
	switch deed {
	case "detach":
		if port >= 0 {
			p := c.Ports[port]
			_ = c.apply(Change{{
				Action: DetachInterface, Ref: Ref{ID: p.ID}, RouterRef: Ref{ID: p.Router}, Reason: "by hand",
				Differences: []Difference{{}},
			}})
		}
		return
	case "switch an interface":
		if port >= 0 {
			c.Ports[port].AdminStateUp = false
			c.Ports[port].Revision++
		}
		return
	case "forget an interface": // One that was created and not attached, of which no plan may know.
		for _, n := range c.Observe(testOwner).Networks {
			for _, s := range n.Subnets {
				if a := (PortAddress{s.ID, DefaultGateway(s.CIDR)}); !c.Addressed(s.ID, a.Address) {
					id := c.NextID("port")
					c.MarkInterface(id)
					c.Ports = append(c.Ports, ObservedPort{
						ID: id, NetworkID: n.ID, Created: plantest.Epoch,
						PortAttributes: PortAttributes{Description: testOwner.Marker(), Addresses: []PortAddress{a}, MAC: c.NextMAC()},
					})
					return
				}
			}
		}
		return
	case "duplicate":
		c.Routers = append(c.Routers, ObservedRouter{
			ID: c.NextID("router"), Created: plantest.Epoch.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "age")) * time.Hour),
			RouterAttributes: RouterAttributes{
				Description: testOwner.Marker(), Gateway: ExternalGateway{NetworkID: "ext-1", SNAT: new(true)},
				HA: new(plantest.HA), Distributed: new(plantest.Distributed),
			},
		})
		return
	}
	if at < 0 {
		return
	}
	r := &c.Routers[at]
	r.Revision++
	switch deed {
	case "rename":
		r.Name = userTexts().Draw(t, "name")
	case "switch": // One of another kind stays off: nothing is put back of one that is on.
		r.AdminStateUp = !r.AdminStateUp && *r.HA == plantest.HA && *r.Distributed == plantest.Distributed
	case "make it another kind":
		r.AdminStateUp, r.HA, r.Distributed = false, new(!plantest.HA), new(rapid.Bool().Draw(t, "distributed"))
	case "describe":
		r.Description = testOwner.Describe("x")
	case "gateway":
		_ = c.SetGateway(r, ExternalGateway{NetworkID: "ext-2", SNAT: new(rapid.Bool().Draw(t, "SNAT"))})
	case "no gateway":
		r.Gateway = ExternalGateway{}
	case "routes":
		for _, cidr := range c.Served(r) {
			if first, _ := Usable(cidr); cidr.Addr().Is4() {
				r.Routes = []Route{{prefix("198.51.100.0/24"), first}}
			}
		}
	case "no routes":
		r.Routes = nil
	case "delete":
		if !slices.ContainsFunc(c.Ports, func(p ObservedPort) bool { return p.Router == r.ID }) {
			c.Routers = slices.Delete(c.Routers, at, at+1)
		}
	}
}

// requireRouted holds the cloud's routing against the spec. It is written from the documentation of RouterSpec.
func requireRouted(t rapid.TB, spec Spec, c *cloud) {
	observed := c.Observe(spec.Owner)
	target := ""
	if spec.Router != nil {
		target = spec.Router.Existing
	}
	switch {
	case !spec.Router.Own() && len(observed.Routers) > 0, spec.Router.Own() && len(observed.Routers) != 1:
		t.Fatalf("%d routers bear the marker, with %+v declared", len(observed.Routers), spec.Router)
	case spec.Router.Own():
		r := observed.Routers[0]
		target = r.ID
		routes := slices.SortedFunc(slices.Values(spec.Router.Routes), CompareRoutes)
		slices.SortFunc(r.Routes, CompareRoutes)
		if r.Name != spec.Name || r.Description != spec.Owner.Marker() || !r.AdminStateUp ||
			r.Gateway.NetworkID != spec.Router.ExternalNetwork || !slices.Equal(r.Routes, routes) ||
			spec.Router.SNAT != nil && *r.Gateway.SNAT != *spec.Router.SNAT ||
			spec.Router.HA != nil && *r.HA != *spec.Router.HA ||
			spec.Router.Distributed != nil && *r.Distributed != *spec.Router.Distributed ||
			spec.Router.ExternalIP.IsValid() && !slices.Contains(r.Gateway.Addresses, spec.Router.ExternalIP) {
			t.Fatalf("the router is %+v, with %+v declared", r, spec.Router)
		}
	}
	want, got := map[netip.Addr]string{}, map[netip.Addr]string{}
	n, _ := observed.Network()
	for _, s := range spec.Allocated(n).Subnets {
		if s.Gateway.IsValid() && spec.Router != nil && Serves(s.ServiceTypes, InterfaceDeviceOwner) {
			want[s.Gateway] = target
		}
	}
	for _, p := range observed.Ports {
		if !p.AdminStateUp || p.Name != spec.Name {
			t.Fatalf("interface %+v is not as declared", p)
		}
		for _, a := range p.Addresses {
			got[a.Address] = p.Router
		}
	}
	if diff := cmp.Diff(want, got, addresses); diff != "" {
		t.Fatalf("the interfaces are on other routers (-declared +actual):\n%s", diff)
	}
	if diff := cmp.Diff(theirs(), c.Routers[:2], addresses, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(ObservedRouter{}, "Revision")); diff != "" {
		t.Fatalf("routers of others have changed (-before +after):\n%s", diff)
	}
	if !spec.Routed(observed) {
		t.Fatal("what is as declared does not count as routed")
	}
}

func TestARouterLosesItsRoutesBeforeItsGateway(t *testing.T) {
	cloudWithout := func() *cloud {
		c := &cloud{}
		mustApply(t, c, mustPlan(t, routedSpec(nil), c))
		c.Routers = []ObservedRouter{{
			ID: "router-1", Created: plantest.Epoch, RouterAttributes: RouterAttributes{
				Description: testOwner.Marker(), Gateway: ExternalGateway{NetworkID: "ext-1"},
				Routes: []Route{{prefix("198.18.0.0/16"), plantest.Outside.Addr().Next()}},
			},
		}}
		return c
	}
	for name, plan := range map[string]func(*cloud) Change{
		"the router is no longer declared": func(c *cloud) Change { return mustPlan(t, routedSpec(nil), c) },
		"the object is deleted": func(c *cloud) Change {
			change, err := Delete(testOwner, c.Observe(testOwner))
			expect.NoError(t, err)
			return change
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloudWithout()
			change := plan(c)
			var got []Action
			for _, step := range change {
				if step.ID == "router-1" {
					got = append(got, step.Action)
				}
			}
			expect.Equal(t, []Action{UpdateRouter, UpdateGateway, DeleteRouter}, got, "steps on a router without interfaces")
			mustApply(t, c, change)
		})
	}
}
