package neutron

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// routedSpec is a network with a subnet of each family and a router of its own.
func (e emulated) routedSpec() network.Spec {
	spec := network.Spec{Owner: e.owner, Name: "n", Router: &network.RouterSpec{}}
	for _, cidr := range []string{"10.0.0.0/24", "fd00::/64", "fd00:1::/64"} {
		subnet := network.Subnet{CIDR: netip.MustParsePrefix(cidr), DHCP: true}
		subnet.Gateway = network.DefaultGateway(subnet.CIDR)
		subnet.Pools = network.DefaultPools(subnet.CIDR, subnet.Gateway)
		spec.Subnets = append(spec.Subnets, subnet)
	}
	spec.Router.Routes = []network.Route{{
		Destination: netip.MustParsePrefix("198.18.0.0/16"), NextHop: netip.MustParseAddr("10.0.0.9"),
	}}
	return spec
}

// requireNothing holds that nothing is left to do, by what is held and by what a list shows.
func (e emulated) requireNothing(plan func(network.Observed) (network.Change, error)) {
	e.t.Helper()
	for _, what := range []string{"what is held", "a list"} {
		change, err := plan(e.observed())
		if err != nil || len(change) > 0 {
			e.t.Errorf("after %s there is still: %v\n%s", what, err, change)
		}
		if moved, err := e.listSince(e.t.Context(), time.Now()); err != nil || len(moved) > 0 {
			e.t.Errorf("a list finds %q moved, %v", moved, err)
		}
	}
}

// TestRoutersAreAppliedInOneGo holds that ids and revisions which steps make reach the steps that need them, and that
// what is held then is what a list shows.
func TestRoutersAreAppliedInOneGo(t *testing.T) {
	for sentence, options := range map[string]InventoryOptions{
		"with ports": {Ports: true}, "without ports": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEmulated(t, options)
			e.CoverRouters()
			spec := e.routedSpec()
			plan := func(o network.Observed) (network.Change, error) { return network.Plan(spec, o) }
			e.apply(plan(e.observed()))
			e.requireNothing(plan)
			if got := e.observed(); len(got.Routers) != 1 || len(got.Ports) != 2 || !spec.Routed(got) {
				t.Fatalf("applied: %+v", got)
			}
			owners, _, _, _ := e.Owners()
			if held := owners[e.owner.Object]; len(held.Routers) != 1 || len(held.Ports) != 2 {
				t.Errorf("the owner has %+v", held)
			}

			spec.Name = "renamed"
			spec.Subnets[0].Gateway = netip.MustParseAddr("10.0.0.254")
			spec.Subnets[0].Pools = network.DefaultPools(spec.Subnets[0].CIDR, spec.Subnets[0].Gateway)
			e.apply(plan(e.observed()))
			e.requireNothing(plan)

			e.apply(network.PlanDelete(e.owner, e.observed()))
			if left := e.observed(); !left.Empty() {
				t.Errorf("left: %v", left.Resources())
			}
		})
	}
}

func TestRoutersAreReleased(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	e.CoverRouters()
	e.apply(network.Plan(e.routedSpec(), e.observed()))
	e.apply(network.PlanRelease(e.owner, e.observed()), nil)
	if left := e.observed(); !left.Empty() {
		t.Errorf("still held after the release: %v", left.Resources())
	}
}

// TestARouterOfAKindIsMadeAndPutBack holds what an administrator sees of a router, and what Neutron does of it.
func TestARouterOfAKindIsMadeAndPutBack(t *testing.T) {
	for sentence, kind := range map[string]network.RouterSpec{
		"on several agents": {HA: new(true), Distributed: new(false)},
		"on all hosts":      {HA: new(false), Distributed: new(true)},
		"both":              {HA: new(true), Distributed: new(true)},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEmulatedAs(t, "admin", InventoryOptions{Ports: true})
			e.CoverRouters()
			spec := e.routedSpec()
			kind.Routes = spec.Router.Routes
			spec.Router = &kind
			plan := func(o network.Observed) (network.Change, error) { return network.Plan(spec, o) }
			e.apply(plan(e.observed()))
			e.requireNothing(plan)

			other := spec
			other.Router = &network.RouterSpec{HA: new(!*kind.HA), Routes: kind.Routes}
			change, err := network.Plan(other, e.observed())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Apply(t.Context(), change); !isKind(err, Invalid) ||
				!strings.Contains(err.Error(), "set router admin_state_up to False") {
				t.Errorf("a router that is on becomes another kind: %v", err)
			}

			// Somebody switches it off and makes it another kind.
			held := e.observed().Routers[0]
			for _, fields := range []map[string]any{{"admin_state_up": false}, {"ha": !*kind.HA}} {
				if err := e.cloud.do(t.Context(), request{
					op: "meddle", method: http.MethodPut, path: routerAPI.path(held.ID),
					body: map[string]any{routerAPI.one: fields}, answer: new(json.RawMessage),
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Audit(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.planned(spec)
			e.apply(network.PlanDelete(e.owner, e.observed()))
			if left := e.observed(); !left.Empty() {
				t.Errorf("left: %v", left.Resources())
			}
		})
	}
}

// countingLists gives what counts the lists of a collection so far, and what holds how many an audit sends.
func (e emulated) countingLists(collection string) (lists func() int, audit func(want int, why string)) {
	lists = func() int { return e.server.Calls(http.MethodGet, "/v2.0/"+collection) }
	return lists, func(want int, why string) {
		e.t.Helper()
		before := lists()
		if err := e.Audit(e.t.Context()); err != nil {
			e.t.Fatal(err)
		}
		if got := lists() - before; got != want {
			e.t.Errorf("%s: %d lists of %s, want %d", why, got, collection, want)
		}
	}
}

func TestRoutersAreListedWhereThereIsAReason(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	lists, audit := e.countingLists("routers")
	past := func(d time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.coverage.asked, e.coverage.last = e.coverage.asked.Add(-d), e.coverage.last.Add(-d)
	}
	audit(1, "the first list of a process")
	audit(0, "nobody has a router")
	past(coverEvery)
	audit(1, "an hour later")
	audit(0, "right after that")

	before := lists()
	e.CoverRouters()
	e.observed()
	if got := lists() - before; got != 1 {
		t.Errorf("asked for, after a list without routers: %d lists of routers, want 1", got)
	}
	e.observed()
	if got := lists() - before; got != 1 {
		t.Errorf("asked for again: %d lists of routers, want 1", got)
	}
	audit(1, "somebody has just asked")
	past(coverFor)
	audit(0, "nobody has asked for long, and there are none")
	e.CoverRouters()
	e.apply(network.Plan(e.routedSpec(), e.observed()))
	past(coverFor)
	audit(1, "there is one")
	e.apply(network.PlanDelete(e.owner, e.observed()))
	audit(0, "it is gone")
}

func TestARepeatedInterfaceIsFoundAndNotMadeTwice(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	e.CoverRouters()
	spec := e.routedSpec()
	done := e.apply(network.Plan(spec, e.observed()))
	for _, step := range done {
		switch step.Action {
		case network.CreateInterface, network.AttachInterface:
			// The answer was lost, and nobody has looked since.
			if step.Action == network.CreateInterface {
				e.ports.remove(step.ID)
				step.ID = ""
			}
			if _, err := e.Apply(t.Context(), network.Change{step}); !IsConflict(err) {
				t.Errorf("%s once more: %v", step, err)
			}
		}
	}
	if change, err := network.Plan(spec, e.observed()); err != nil || len(change) > 0 {
		t.Errorf("what was found leaves %v\n%s", err, change)
	}
	deletion, _ := network.PlanDelete(e.owner, e.observed())
	for _, step := range deletion {
		switch step.Action {
		case network.UpdateRouter:
			e.apply(network.Change{step}, nil)
		case network.DetachInterface:
			e.apply(network.Change{step, step}, nil) // what is gone already counts as detached
		}
	}
}

// TestASubnetThatNoRouterMayServeIsNamed also holds that a refused interface leaves nothing behind that the next attempt
// would make once more, and that there is a way out.
func TestASubnetThatNoRouterMayServeIsNamed(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	e.CoverRouters()
	spec := e.routedSpec()
	spec.Router.Routes = nil
	last := &spec.Subnets[2]
	last.IPv6AddressMode = network.SLAAC
	plan := func(o network.Observed) (network.Change, error) { return network.Plan(spec, o) }
	const want = "attach router interface: subnet fd00:1::/64 has ipv6AddressMode slaac and no ipv6RAMode: "
	told := map[string]bool{}
	for attempt := range 3 {
		change, err := plan(e.observed())
		if err != nil {
			t.Fatal(err)
		}
		if attempt > 0 && (len(change) != 1 || change[0].Action != network.AttachInterface) {
			t.Errorf("attempt %d has more to do than to attach the interface:\n%s", attempt, change)
		}
		_, err = e.Apply(t.Context(), change)
		if !isKind(err, Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("attempt %d: %v, want it refused: %s", attempt, err, want)
		}
		told[err.Error()] = true
		if err := e.Audit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 {
		t.Errorf("the attempts tell of it in several ways: %v", slices.Sorted(maps.Keys(told)))
	}

	last.Gateway = netip.Addr{}
	last.Pools = network.DefaultPools(last.CIDR, last.Gateway)
	e.apply(plan(e.observed()))
	e.requireNothing(plan)
	if got := e.observed(); len(got.Ports) != 2 || !spec.Routed(got) {
		t.Errorf("with no gateway there: %+v", got)
	}
}

func TestWhoHasTheGatewaysAddressIsNamed(t *testing.T) {
	e := newEmulated(t, InventoryOptions{Ports: true})
	e.CoverRouters()
	spec := e.routedSpec()
	spec.Router = nil
	e.apply(network.Plan(spec, e.observed()))
	n, _ := e.observed().Network()
	subnet, _ := n.SubnetByCIDR(spec.Subnets[0].CIDR)
	foreign := network.Step{Action: network.CreatePort, NetworkID: n.ID, Port: network.PortAttributes{
		Name: "theirs", Addresses: []network.PortAddress{{SubnetID: subnet.ID, Address: subnet.Gateway}},
	}}
	e.apply(network.Change{foreign}, nil)
	spec.Router = &network.RouterSpec{}
	change, err := network.Plan(spec, e.observed())
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Apply(t.Context(), change)
	if !isKind(err, Taken) || !strings.Contains(err.Error(), `"theirs"`) {
		t.Errorf("the refusal is %v", err)
	}
}

func TestWhatUsersNameIsFoundByIDOrName(t *testing.T) {
	e := newEmulated(t, InventoryOptions{})
	create := func(name string) string {
		e.apply(network.Change{{Action: network.CreateRouter, Router: network.RouterAttributes{Name: name}}}, nil)
		var found []entry
		for _, r := range mustList(t, e.cloud) {
			if r.Name == name {
				found = append(found, r)
			}
		}
		return found[len(found)-1].ID
	}
	one := create("one")
	create("twins")
	create("twins")
	find := func(idOrName string) string {
		id, err := e.Router(t.Context(), idOrName)
		if err != nil {
			if !isKind(err, Invalid) {
				t.Errorf("%s: %v is no refusal", idOrName, err)
			}
			return err.Error()
		}
		return id
	}
	const nobody = "11111111-1111-1111-1111-111111111111"
	got := []string{find("one"), find(one)}
	if diff := cmp.Diff([]string{one, one}, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if calls := e.server.Calls("GET", "/v2.0/routers"); calls != 1+3 { // three were this test's own
		t.Errorf("%d lists of routers", calls)
	}
	for idOrName, want := range map[string]string{
		"twins":  `2 are called "twins": write the id`,
		"":       "neither the id nor the name",
		"nobody": "neither the id nor the name",
		nobody:   "neither the id nor the name",
	} {
		if got := find(idOrName); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %q", idOrName, got, want)
		}
	}
	if _, err := e.ExternalNetwork(t.Context(), "public"); !isKind(err, Invalid) {
		t.Errorf("an external network that is not there: %v", err)
	}
}

func mustList(t *testing.T, c *Cloud) []entry {
	t.Helper()
	routers, err := listOfProject[entry](context.WithoutCancel(t.Context()), c, opListRouters, routerAPI, []string{"id", "name"})
	if err != nil {
		t.Fatal(err)
	}
	return routers
}

func TestACloudWithoutRoutersHasNone(t *testing.T) {
	b := newBench(t, InventoryOptions{})
	b.CoverRouters()
	if err := b.Audit(t.Context()); err != nil {
		t.Fatal(err)
	}
	create := network.Step{Action: network.CreateRouter, Router: network.RouterAttributes{Description: ownerOf("o").Marker()}}
	_, err := b.Apply(t.Context(), network.Change{create})
	_, nameErr := b.Router(t.Context(), "r")
	for _, err := range []error{err, nameErr} {
		if !isKind(err, Invalid) || !strings.Contains(err.Error(), "this cloud has no routers") {
			t.Errorf("asked for one: %v", err)
		}
	}
	if calls := strings.Count(strings.Join(b.neutron.calls, "\n"), http.MethodGet+" routers"); calls != 2 {
		t.Errorf("%d lists of routers, want one for the audit and one for the name", calls)
	}
}
