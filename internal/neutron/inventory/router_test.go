package inventory

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// routedSpec is a network with a subnet of each family and a router of its own.
func (e emulated) routedSpec() plan.Spec {
	spec := plan.Spec{Owner: e.owner, Name: "n", Router: &plan.RouterSpec{}}
	for _, cidr := range []string{"10.0.0.0/24", "fd00::/64", "fd00:1::/64"} {
		subnet := plan.Subnet{CIDR: netip.MustParsePrefix(cidr), DHCP: true}
		subnet.Gateway = plan.DefaultGateway(subnet.CIDR)
		subnet.Pools = plan.DefaultPools(subnet.CIDR, subnet.Gateway)
		spec.Subnets = append(spec.Subnets, subnet)
	}
	spec.Router.Routes = []plan.Route{{
		Destination: netip.MustParsePrefix("198.18.0.0/16"), NextHop: netip.MustParseAddr("10.0.0.9"),
	}}
	return spec
}

// requireNothing holds that nothing is left to do, by what is held and by what a list shows.
func (e emulated) requireNothing(planOf func(plan.Observed) (plan.Change, error)) {
	e.t.Helper()
	for _, what := range []string{"what is held", "a list"} {
		change, err := planOf(e.observed())
		if err != nil || len(change) > 0 {
			e.t.Errorf("after %s there is still: %v\n%s", what, err, change)
		}
		if moved, err := e.listAll(e.t.Context(), time.Now(), e.stocks, false); err != nil || len(moved) > 0 {
			e.t.Errorf("a list finds %q moved, %v", moved, err)
		}
	}
}

// requireGone holds that nothing of the owner's is held.
func (e emulated) requireGone() {
	e.t.Helper()
	if left := e.observed(); !left.Empty() {
		e.t.Errorf("left: %v", left.Resources())
	}
}

// TestRoutersAreAppliedInOneGo holds that ids and revisions which steps make reach the steps that need them, and that
// what is held then is what a list shows.
func TestRoutersAreAppliedInOneGo(t *testing.T) {
	for sentence, options := range map[string]Options{
		"with ports": {Ports: true}, "without ports": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEmulated(t, options)
			spec := e.routedSpec()
			planOf := func(o plan.Observed) (plan.Change, error) { return plan.Network(spec, o) }
			e.apply(planOf(e.observed()))
			e.requireNothing(planOf)
			if got := e.observed(); len(got.Routers) != 1 || len(got.Ports) != 2 || !spec.Routed(got) {
				t.Fatalf("applied: %+v", got)
			}
			owners, _, _, _ := e.Owners()
			if held := owners[e.owner.Object]; len(held[plan.KindRouter]) != 1 || len(held[plan.KindPort]) != 2 {
				t.Errorf("the owner has %+v", held)
			}

			spec.Name = "renamed"
			spec.Subnets[0].Gateway = netip.MustParseAddr("10.0.0.254")
			spec.Subnets[0].Pools = plan.DefaultPools(spec.Subnets[0].CIDR, spec.Subnets[0].Gateway)
			e.apply(planOf(e.observed()))
			e.requireNothing(planOf)

			e.apply(plan.Delete(e.owner, e.observed()))
			e.requireGone()
		})
	}
}

func TestRoutersAreReleased(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	e.apply(plan.Network(e.routedSpec(), e.observed()))
	e.apply(plan.Release(e.owner, e.observed()), nil)
	e.requireGone()
}

// TestARouterOfAKindIsMadeAndPutBack holds what an administrator sees of a router, and what Neutron does of it.
func TestARouterOfAKindIsMadeAndPutBack(t *testing.T) {
	for sentence, kind := range map[string]plan.RouterSpec{
		"on several agents": {HA: new(true), Distributed: new(false)},
		"on all hosts":      {HA: new(false), Distributed: new(true)},
		"both":              {HA: new(true), Distributed: new(true)},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEmulatedAs(t, "admin", Options{Ports: true})
			spec := e.routedSpec()
			kind.Routes = spec.Router.Routes
			spec.Router = &kind
			planOf := func(o plan.Observed) (plan.Change, error) { return plan.Network(spec, o) }
			e.apply(planOf(e.observed()))
			e.requireNothing(planOf)

			other := spec
			other.Router = &plan.RouterSpec{HA: new(!*kind.HA), Routes: kind.Routes}
			change, err := plan.Network(other, e.observed())
			expect.NoError(t, err)
			if _, err := e.Apply(t.Context(), change); !client.IsKind(err, client.Invalid) ||
				!strings.Contains(err.Error(), "set router admin_state_up to False") {
				t.Errorf("a router that is on becomes another kind: %v", err)
			}

			// Somebody switches it off and makes it another kind.
			held := e.observed().Routers[0]
			for _, fields := range []map[string]any{{"admin_state_up": false}, {"ha": !*kind.HA}} {
				e.byHand(http.MethodPut, routerKind.Path(held.ID), routerKind.One, fields)
			}
			expect.NoError(t, e.Audit(t.Context()))
			e.planned(spec)
			e.apply(plan.Delete(e.owner, e.observed()))
			e.requireGone()
		})
	}
}

func TestRoutersHaveInterfacesWithOVN(t *testing.T) {
	for _, mode := range []plan.IPv6Mode{"", plan.SLAAC} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			e := newEmulated(t, Options{Ports: true})
			expect.NoError(t, e.habits.Set(neutrontest.OVNRouterPorts))
			spec := e.routedSpec()
			spec.Subnets[1].IPv6AddressMode, spec.Subnets[1].IPv6RAMode = mode, mode
			e.planned(spec)
			for _, p := range e.observed().Ports {
				if p.Router == "" || p.Description != e.owner.Describe("") {
					t.Errorf("port %s of %v is on router %q and described as %q", p.ID, p.Addresses, p.Router, p.Description)
				}
			}
			e.apply(plan.Delete(e.owner, e.observed()))
			e.requireGone()
		})
	}
}

// A port that was given to its router before a crash is no interface, and goes like one.
func TestAPortThatWasGivenToItsRouterIsNoInterface(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	expect.NoError(t, e.habits.Set(neutrontest.OVNRouterPorts))
	spec := e.routedSpec()
	spec.Subnets[1].IPv6AddressMode, spec.Subnets[1].IPv6RAMode = plan.SLAAC, plan.SLAAC
	e.planned(spec)
	for _, p := range e.observed().Ports {
		e.byHand(http.MethodPut, portKind.Path(p.ID), portKind.One, map[string]any{
			"description": e.owner.Describe(plan.Halfway),
		})
	}
	expect.NoError(t, e.Audit(t.Context()))
	if change, err := plan.Network(spec, e.observed()); err != nil ||
		!slices.ContainsFunc(change, func(s plan.Step) bool { return s.Action == plan.DetachInterface }) {
		t.Errorf("no interface is detached: %v\n%s", err, change)
	}
	e.planned(spec)
}

func TestARepeatedInterfaceIsFoundAndNotMadeTwice(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	done := e.apply(plan.Network(spec, e.observed()))
	for _, step := range done {
		switch step.Action {
		case plan.CreateInterface, plan.AttachInterface:
			// The answer was lost, and nobody has looked since.
			if step.Action == plan.CreateInterface {
				e.ports.remove(step.ID)
				step.ID = ""
			}
			if _, err := e.Apply(t.Context(), plan.Change{step}); !client.IsConflict(err) {
				t.Errorf("%s once more: %v", step, err)
			}
		}
	}
	if change, err := plan.Network(spec, e.observed()); err != nil || len(change) > 0 {
		t.Errorf("what was found leaves %v\n%s", err, change)
	}
	deletion, _ := plan.Delete(e.owner, e.observed())
	for _, step := range deletion {
		switch step.Action {
		case plan.UpdateRouter:
			e.apply(plan.Change{step}, nil)
		case plan.DetachInterface:
			e.apply(plan.Change{step, step}, nil) // what is gone already counts as detached
		}
	}
}

// TestASubnetThatNoRouterMayServeIsNamed also holds that a refused interface leaves nothing behind that the next attempt
// would make once more, and that there is a way out.
func TestASubnetThatNoRouterMayServeIsNamed(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	spec.Router.Routes = nil
	last := &spec.Subnets[2]
	last.IPv6AddressMode = plan.SLAAC
	planOf := func(o plan.Observed) (plan.Change, error) { return plan.Network(spec, o) }
	const want = "attach router interface: subnet fd00:1::/64 has ipv6AddressMode slaac and no ipv6RAMode: "
	told := map[string]bool{}
	for attempt := range 3 {
		change, err := planOf(e.observed())
		expect.NoError(t, err)
		if attempt > 0 && (len(change) != 1 || change[0].Action != plan.AttachInterface) {
			t.Errorf("attempt %d has more to do than to attach the interface:\n%s", attempt, change)
		}
		_, err = e.Apply(t.Context(), change)
		if !client.IsKind(err, client.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("attempt %d: %v, want it refused: %s", attempt, err, want)
		}
		told[err.Error()] = true
		expect.NoError(t, e.Audit(t.Context()))
	}
	if len(told) != 1 {
		t.Errorf("the attempts tell of it in several ways: %v", slices.Sorted(maps.Keys(told)))
	}

	last.Gateway = netip.Addr{}
	last.Pools = plan.DefaultPools(last.CIDR, last.Gateway)
	e.apply(planOf(e.observed()))
	e.requireNothing(planOf)
	if got := e.observed(); len(got.Ports) != 2 || !spec.Routed(got) {
		t.Errorf("with no gateway there: %+v", got)
	}
}

func TestWhoHasTheGatewaysAddressIsNamed(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	spec.Router = nil
	e.apply(plan.Network(spec, e.observed()))
	n, _ := e.observed().Network()
	subnet, _ := n.SubnetByCIDR(spec.Subnets[0].CIDR)
	foreign := plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: n.ID}, Port: plan.PortAttributes{
		Name: "theirs", Addresses: []plan.PortAddress{{SubnetID: subnet.ID, Address: subnet.Gateway}},
	}}
	e.apply(plan.Change{foreign}, nil)
	spec.Router = &plan.RouterSpec{}
	change, err := plan.Network(spec, e.observed())
	expect.NoError(t, err)
	_, err = e.Apply(t.Context(), change)
	if !client.IsKind(err, client.Taken) || !strings.Contains(err.Error(), `"theirs"`) {
		t.Errorf("the refusal is %v", err)
	}
}

func TestAnInterfaceStaysWhereItsNextAddressIsAPorts(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	e.apply(plan.Network(spec, e.observed()))
	n, _ := e.observed().Network()
	subnet, _ := n.SubnetByCIDR(spec.Subnets[0].CIDR)
	spec.Subnets[0].Gateway = netip.MustParseAddr("10.0.0.7")
	spec.Subnets[0].Pools = plan.DefaultPools(spec.Subnets[0].CIDR, spec.Subnets[0].Gateway)
	e.apply(plan.Change{{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: n.ID}, Port: plan.PortAttributes{
		Name: "theirs", Addresses: []plan.PortAddress{{SubnetID: subnet.ID, Address: spec.Subnets[0].Gateway}},
	}}}, nil)
	change, err := plan.Network(spec, e.observed())
	expect.NoError(t, err)
	done, err := e.Apply(t.Context(), change)
	if !client.IsKind(err, client.Taken) || len(done) > 0 {
		t.Errorf("%d steps were taken, and the refusal is %v", len(done), err)
	}
	expect.ErrorSays(t, err, "the gateway's address 10.0.0.7 is that of port")
}

func TestWhatUsersNameIsFoundByIDOrName(t *testing.T) {
	e := newEmulated(t, Options{})
	create := func(name string) string {
		return e.byHand(http.MethodPost, "routers", "router", map[string]any{"name": name})
	}
	one := create("one")
	create("twins")
	create("twins")
	find := func(idOrName string) string {
		id, err := e.Router(t.Context(), idOrName)
		if err != nil {
			if !client.IsKind(err, client.Invalid) {
				t.Errorf("%s: %v is no refusal", idOrName, err)
			}
			return err.Error()
		}
		return id
	}
	const nobody = "11111111-1111-1111-1111-111111111111"
	got := []string{find("one"), find(one)}
	expect.Equal(t, []string{one, one}, got, "found")
	expect.Equal(t, 1, e.server.Calls("GET", "/v2.0/routers"), "lists of routers")
	for idOrName, want := range map[string]string{
		"twins":  `2 are called "twins": write the id`,
		"":       "neither the id nor the name",
		"nobody": "neither the id nor the name",
		nobody:   "neither the id nor the name",
	} {
		expect.Contains(t, find(idOrName), want, "what %q finds", idOrName)
	}
	if _, err := e.ExternalNetwork(t.Context(), "spec.router.externalNetwork", "public"); !client.IsKind(err, client.Invalid) {
		t.Errorf("an external network that is not there: %v", err)
	}
}

func TestACloudWithoutRoutersHasNone(t *testing.T) {
	b := newBench(t, Options{})
	expect.NoError(t, b.Audit(t.Context()))
	create := plan.Step{Action: plan.CreateRouter, Router: plan.RouterAttributes{Description: ownerOf("o").Marker()}}
	_, err := b.Apply(t.Context(), plan.Change{create})
	_, nameErr := b.Router(t.Context(), "r")
	for _, err := range []error{err, nameErr} {
		if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), "this cloud has no routers") {
			t.Errorf("asked for one: %v", err)
		}
	}
	expect.Equal(t, 2, strings.Count(strings.Join(b.neutron.calls, "\n"), http.MethodGet+" routers"), "lists of routers")
}

// TestARouterIsDeletedWithOVN: the ML2 driver for OVN moves a router's revision while Neutron deletes it. A Network with
// a router never went.
func TestARouterIsDeletedWithOVN(t *testing.T) {
	cloud, _ := cloudtest.Emulated(t, neutrontest.Options{OVN: true}, nil)
	owner := plan.Owner{Cluster: "c", Object: "o"}
	e := emulated{Inventory: New(cloud, owner.Cluster, Options{}), t: t, owner: owner}
	spec := e.routedSpec()
	spec.Router.Routes = nil
	e.apply(plan.Network(spec, e.observed()))
	e.apply(plan.Delete(owner, e.observed()))
	e.requireGone()
}

// The other subnet on a router may be another namespace's: the message names only the own one.
func TestASubnetThatOverlapsOnASharedRouterIsNamedWithoutTheOther(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	spec := e.routedSpec()
	spec.Router.Routes = nil
	e.apply(plan.Network(spec, e.observed()))
	router := e.observed().Routers[0].ID

	e.owner.Object = "another"
	own := plan.Subnet{CIDR: netip.MustParsePrefix("10.0.0.0/16"), DHCP: true}
	own.Gateway = netip.MustParseAddr("10.0.9.1")
	own.Pools = plan.DefaultPools(own.CIDR, own.Gateway)
	change, err := plan.Network(plan.Spec{
		Owner: e.owner, Name: "mine", Subnets: []plan.Subnet{own}, Router: &plan.RouterSpec{Existing: router},
	}, e.observed())
	expect.NoError(t, err)
	_, err = e.Apply(t.Context(), change)
	want := `subnet 10.0.0.0/16 of network "mine" overlaps a subnet of another network, which is on router ` + router
	if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "10.0.0.0/24") {
		t.Errorf("the refusal is %v, want %s", err, want)
	}
}
