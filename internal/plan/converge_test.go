package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// scene is a spec and a cloud that somebody has been in.
type scene struct {
	spec  Spec
	cloud *cloud
}

// scenes begin with a spec that is applied, go on with what people do in Neutron, and end with a spec that may be
// another one.
func scenes() *rapid.Generator[scene] {
	return rapid.Custom(func(t *rapid.T) scene {
		s := scene{spec: specs(testOwner).Draw(t, "spec"), cloud: &cloud{}}
		if rapid.IntRange(0, 4).Draw(t, "begin") > 0 {
			mustApply(t, s.cloud, mustPlan(t, s.spec, s.cloud))
			followAllocations(t, s.spec, s.cloud)
		}
		for range rapid.IntRange(0, 6).Draw(t, "deeds") {
			s.cloud.meddle(t, testOwner)
		}
		switch rapid.IntRange(0, 3).Draw(t, "then") {
		case 0:
			s.spec = specs(testOwner).Draw(t, "other spec")
		case 1: // The same subnets, set otherwise.
			s.spec = plantest.Clone(s.spec)
			for i, subnet := range s.spec.Subnets {
				s.spec.Subnets[i] = setOtherwise(t, subnet)
			}
		}
		return s
	})
}

func mustPlan(t rapid.TB, spec Spec, c *cloud) Change {
	change, err := Network(spec, c.Observe(spec.Owner))
	if err != nil {
		t.Fatalf("Network: %v", err)
	}
	return change
}

func mustApply(t rapid.TB, c *cloud, change Change) {
	if err := c.apply(change); err != nil {
		t.Fatalf("Neutron refuses %v\nof the plan\n%s", err, change)
	}
}

// blockers are the subnets of others that a plan must not touch and cannot do without. It is written from the
// specification of Network, not from its code.
func blockers(spec Spec, observed Observed) []string {
	var found []string
	keep, _ := observed.Network()
	for _, n := range observed.Networks {
		for _, s := range n.Subnets {
			if strings.HasSuffix(s.Description, " "+spec.Owner.Marker()) || s.Description == spec.Owner.Marker() {
				continue
			}
			inTheWay := func(declared Subnet) bool { return declared.CIDR.Overlaps(s.CIDR) }
			inItsPlace := func(declared Subnet) bool {
				return declared.From != nil && declared.From.Pool.ID == s.PoolID && !standsFor(spec.Owner, declared, keep)
			}
			if n.ID != keep.ID || slices.ContainsFunc(spec.Subnets, inTheWay) || slices.ContainsFunc(spec.Subnets, inItsPlace) {
				found = append(found, s.ID)
			}
		}
	}
	return found
}

// standsFor reports whether the network has a subnet of the owner's that is from a declared one's pool, as it was asked.
func standsFor(owner Owner, declared Subnet, n ObservedNetwork) bool {
	return slices.ContainsFunc(n.Subnets, func(s ObservedSubnet) bool {
		return s.PoolID == declared.From.Pool.ID && strings.HasSuffix(" "+s.Description, " "+owner.Marker()) &&
			s.IPv6AddressMode == declared.IPv6AddressMode && s.IPv6RAMode == declared.IPv6RAMode &&
			(declared.From.PrefixLength == 0 || declared.From.PrefixLength == s.CIDR.Bits())
	})
}

// requireAsDeclared holds the cloud against the spec, field by field.
func requireAsDeclared(t rapid.TB, spec Spec, c *cloud) {
	observed := c.Observe(spec.Owner)
	if len(observed.Networks) != 1 {
		t.Fatalf("%d networks bear the marker, want 1", len(observed.Networks))
	}
	n := observed.InOrder().Networks[0]
	want := spec.Attributes()
	keepUnset(&want, spec, n.Attributes)
	if diff := cmp.Diff(want, n.Attributes, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the network is not as declared (-declared +actual):\n%s", diff)
	}
	requireShares(t, spec, n)
	var declared, ours []ObservedSubnet
	for _, s := range spec.Allocated(n).Subnets {
		want := ObservedSubnet{Name: spec.Name, Description: spec.Owner.Marker(), Subnet: s.Canonical()}
		if s.From != nil {
			want.PoolID, want.From = s.From.Pool.ID, nil
		}
		declared = append(declared, want)
	}
	for _, s := range n.Subnets {
		if spec.Owner.Owns(s.Description) {
			s.ID, s.Revision, s.Created, s.Subnet = "", 0, time.Time{}, s.Canonical()
			ours = append(ours, s)
		}
	}
	byCIDR := func(a, b ObservedSubnet) int { return ComparePrefixes(a.CIDR, b.CIDR) }
	slices.SortFunc(declared, byCIDR)
	slices.SortFunc(ours, byCIDR)
	if diff := cmp.Diff(declared, ours, addresses, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the subnets are not as declared (-declared +actual):\n%s", diff)
	}
}

func TestPropertyWhatIsAppliedFromNothingPlansEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, c := specs(testOwner).Draw(t, "spec"), &cloud{}
		change := mustPlan(t, spec, c)
		want := 1 + len(spec.Subnets) + len(spec.SharedWith)
		if len(spec.Tags) > 0 {
			want++
		}
		if len(change) != want {
			t.Fatalf("a network with %d subnets and %d tags, shared with %d, takes %d steps, want %d",
				len(spec.Subnets), len(spec.Tags), len(spec.SharedWith), len(change), want)
		}
		mustApply(t, c, change)
		followAllocations(t, spec, c)
		requireAsDeclared(t, spec, c)
		if again := mustPlan(t, spec, c); !again.Empty() {
			t.Fatalf("planning what was just applied gives\n%s", again)
		}
	})
}

// anyScene is a scene of a Network, with or without a router, or of a port.
type anyScene interface {
	in() *cloud
	// plan plans the scene's spec.
	plan(observed Observed) (Change, error)
	// blockers are what the plan must not touch and cannot do without.
	blockers() []string
	// converge takes the whole plan in a cloud, and holds that all is as declared then and that nothing is left to do.
	converge(t rapid.TB, c *cloud)
	// declared is a copy of the spec.
	declared() any
}

func (s scene) in() *cloud                      { return s.cloud }
func (s scene) plan(o Observed) (Change, error) { return Network(s.spec, o) }
func (s scene) blockers() []string              { return blockers(s.spec, s.cloud.Observe(testOwner)) }
func (s scene) declared() any                   { return plantest.Clone(s.spec) }
func (s scene) plans() map[string]plannedChange { return plansOf(s, s.cloud.Observe(testOwner)) }

func (s scene) converge(t rapid.TB, c *cloud) {
	before, existed := c.Observe(testOwner).InOrder().Network()
	change := mustPlan(t, s.spec, c)
	mustApply(t, c, change)
	followAllocations(t, s.spec, c)
	requireAsDeclared(t, s.spec, c)
	if after, _ := c.Observe(testOwner).InOrder().Network(); existed {
		unset := after.Attributes
		keepUnset(&unset, s.spec, before.Attributes)
		if s.spec.SharedWith != nil {
			before.Shares = after.Shares
		}
		if diff := cmp.Diff([]any{unset, before.Shares}, []any{after.Attributes, after.Shares}, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what the spec does not set was changed (-before +after):\n%s", diff)
		}
	}
	if len(c.Routers) > 0 {
		requireRouted(t, s.spec, c)
	}
	if again := mustPlan(t, s.spec, c); !again.Empty() {
		t.Fatalf("planning what was just applied gives\n%s\nafter\n%s", again, change)
	}
}

func (s portScene) in() *cloud                      { return s.cloud }
func (s portScene) plan(o Observed) (Change, error) { return Port(s.spec, o) }
func (s portScene) blockers() []string              { return nil }
func (s portScene) declared() any                   { return plantest.Clone(s.spec) }

func (s portScene) converge(t rapid.TB, c *cloud) {
	before, existed := c.Observe(testOwner).Port(s.spec.NetworkID)
	mustConverge(t, s.spec, c)
	requirePortAsDeclared(t, s.spec, c)
	if after, _ := c.Observe(testOwner).Port(s.spec.NetworkID); existed {
		requireUnsetAsBefore(t, s.spec, before, after)
	}
	requireOthersAsBefore(t, s.cloud, c)
}

// plannedChange makes a plan.
type plannedChange func() (Change, error)

// plansOf are all plans that can be made of what is observed.
func plansOf(s anyScene, observed Observed) map[string]plannedChange {
	return map[string]plannedChange{
		"the spec's plan": func() (Change, error) { return s.plan(observed) },
		"Delete":          func() (Change, error) { return Delete(testOwner, observed) },
		"Release":         func() (Change, error) { return Release(testOwner, observed), nil },
	}
}

// inAnyScene holds a property of plans for scenes of each kind.
func inAnyScene(t *testing.T, property func(t *rapid.T, s anyScene)) {
	for name, draw := range map[string]func(*rapid.T) anyScene{
		"networks":              func(t *rapid.T) anyScene { return scenes().Draw(t, "scene") },
		"networks with routers": func(t *rapid.T) anyScene { return routedScenes().Draw(t, "scene") },
		"ports":                 func(t *rapid.T) anyScene { return portScenes().Draw(t, "scene") },
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { property(t, draw(t)) }) })
	}
}

// A process may be killed after any step. What it did not plan at all is the plan that ended before its first step.
func TestPropertyAnyStateConvergesWhereverItIsInterruptedOrIsBlocked(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		want := s.blockers()
		change, err := s.plan(s.in().Observe(testOwner))
		blocked, isBlocked := errors.AsType[*BlockedError](err)
		switch {
		case isBlocked:
			names := func(id string) bool { return strings.Contains(blocked.Message, id) }
			if !slices.ContainsFunc(want, names) || len(change) > 0 {
				t.Fatalf("got %d steps and %q, want none and one of %q named", len(change), err, want)
			}
			return
		case err != nil:
			t.Fatalf("there is no plan: %v", err)
		case len(want) > 0:
			t.Fatalf("planned past the subnets %q of others:\n%s", want, change)
		}
		for done := range len(change) + 1 {
			c := s.in().clone()
			mustApply(t, c, change[:done])
			t.Logf("after %d steps of\n%s", done, change)
			s.converge(t, c)
		}
	})
}

func TestPropertyNothingOfOthersIsTouched(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		// The whole project, which no plan should be given: what is not ours must not be named all the same.
		for of, observed := range map[string]Observed{"the owner": s.in().Observe(testOwner), "everything": s.in().Everything()} {
			for name, plan := range plansOf(s, observed) {
				change, _ := plan()
				for _, step := range change {
					requireOurs(t, name+" of "+of, s.in(), step)
				}
			}
		}
	})
}

func TestPropertyPlansDoNotWriteToTheirArguments(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		spec, observed := s.declared(), s.in().Observe(testOwner)
		for _, plan := range plansOf(s, observed) {
			change, _ := plan()
			for _, step := range change {
				step.Subnet.Canonical()
			}
		}
		if diff := cmp.Diff(spec, s.declared(), addresses); diff != "" {
			t.Fatalf("the spec was written to (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(s.in().Observe(testOwner), observed, addresses); diff != "" {
			t.Fatalf("the observed state was written to (-before +after):\n%s", diff)
		}
	})
}

func TestPropertyPlansDoNotDependOnTheOrderOfLists(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		other := s.in().clone()
		other.Networks, other.Ports = shuffled(t, other.Networks), shuffled(t, other.Ports)
		other.Routers, other.FloatingIPs = shuffled(t, other.Routers), shuffled(t, other.FloatingIPs)
		for i := range other.Networks {
			other.Networks[i].Subnets = shuffled(t, other.Networks[i].Subnets)
		}
		for i, p := range other.Ports {
			other.Ports[i].Addresses, other.Ports[i].SecurityGroups = shuffled(t, p.Addresses), shuffled(t, p.SecurityGroups)
		}
		others := plansOf(s, other.Observe(testOwner))
		for name, plan := range plansOf(s, s.in().Observe(testOwner)) {
			one, oneErr := plan()
			two, twoErr := others[name]()
			if diff := cmp.Diff(one, two, addresses); diff != "" {
				t.Fatalf("%s differs with the order (-one +other):\n%s", name, diff)
			}
			if diff := cmp.Diff(fmt.Sprint(oneErr), fmt.Sprint(twoErr)); diff != "" {
				t.Fatalf("%s's error differs with the order (-one +other):\n%s", name, diff)
			}
		}
	})
}

func TestPropertyChangesPrintAsOneCleanLineAStep(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		for name, plan := range plansOf(s, s.in().Observe(testOwner)) {
			change, _ := plan()
			if change.Empty() {
				continue
			}
			lines := strings.Split(change.String(), "\n")
			if len(lines) != len(change) {
				t.Fatalf("%s of %d steps prints %d lines:\n%q", name, len(change), len(lines), lines)
			}
			for _, d := range change.Differences() {
				lines = append(lines, d.String())
			}
			for _, line := range lines {
				if line == "" || strings.ContainsFunc(line, unicode.IsControl) {
					t.Fatalf("%s prints the line %q", name, line)
				}
			}
		}
	})
}

// requireOurs holds that what the step names bears our marker, and what would go with it too.
func requireOurs(t *rapid.T, plan string, c *cloud, step Step) {
	var descriptions []string
	switch step.Action {
	case UpdateNetwork, DeleteNetwork:
		n := c.Network(step.ID)
		descriptions = append(descriptions, n.Description)
		for _, s := range n.Subnets {
			if step.Action == DeleteNetwork {
				descriptions = append(descriptions, s.Description)
			}
		}
	case UpdateSubnet, DeleteSubnet:
		_, s := c.Subnet(step.ID)
		descriptions = append(descriptions, s.Description)
	case CreateSubnet, ShareNetwork, UnshareNetwork:
		if n := c.Network(step.NetworkRef.ID); n != nil {
			descriptions = append(descriptions, n.Description)
		}
	case UpdatePort, DeletePort, DetachInterface, DeleteInterface:
		descriptions = append(descriptions, c.Port(step.ID).Description)
	case UpdateRouter, UpdateGateway, DeleteRouter:
		if r := c.Router(step.ID); r != nil { // and not one that the plan creates
			descriptions = append(descriptions, r.Description)
		}
	case UpdateFloatingIP, DeleteFloatingIP:
		descriptions = append(descriptions, c.FloatingIP(step.ID).Description)
	case CreateNetwork, CreatePort, CreateFloatingIP: // A port may be on somebody else's network.
	}
	for _, description := range descriptions {
		if !strings.HasSuffix(" "+description, " "+testOwner.Marker()) {
			t.Fatalf("%s touches what is described as %q: %s", plan, description, step)
		}
	}
}

func TestPropertyDeletionLeavesNothingOfOurs(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		foreign := slices.ContainsFunc(s.in().Observe(testOwner).Networks, func(n ObservedNetwork) bool {
			return slices.ContainsFunc(n.Subnets, func(s ObservedSubnet) bool { return !testOwner.Owns(s.Description) })
		})
		change, err := Delete(testOwner, s.in().Observe(testOwner))
		if _, blocked := errors.AsType[*BlockedError](err); blocked != foreign || !blocked && err != nil {
			t.Fatalf("Delete: %v, with subnets of others: %t", err, foreign)
		}
		if foreign {
			return
		}
		for done := range len(change) + 1 {
			c := s.in().clone()
			mustApply(t, c, change[:done])
			rest, err := Delete(testOwner, c.Observe(testOwner))
			if err != nil {
				t.Fatalf("Delete: %v", err)
			}
			mustApply(t, c, rest)
			if left := c.Observe(testOwner); !left.Empty() {
				t.Fatalf("interrupted after %d steps, this is left: %v", done, left.Resources())
			}
			requireOthersAsBefore(t, s.in(), c)
		}
	})
}

// requireOthersAsBefore holds that nothing but what is the owner's changed.
func requireOthersAsBefore(t rapid.TB, before, after *cloud) {
	others := func(c *cloud) Observed {
		all := c.Everything()
		all.Networks = slices.DeleteFunc(all.Networks, func(n ObservedNetwork) bool { return testOwner.Owns(n.Description) })
		all.Routers = slices.DeleteFunc(all.Routers, func(r ObservedRouter) bool { return testOwner.Owns(r.Description) })
		all.Ports = slices.DeleteFunc(all.Ports, func(p ObservedPort) bool { return testOwner.Owns(p.Description) })
		all.FloatingIPs = slices.DeleteFunc(all.FloatingIPs, func(f ObservedFloatingIP) bool {
			return testOwner.Owns(f.Description)
		})
		for i := range all.Routers { // an interface of ours moves it
			all.Routers[i].Revision = 0
		}
		for i, f := range all.FloatingIPs { // Neutron frees those of a port that goes
			if f.PortID != "" && c.Port(f.PortID) == nil {
				t.Fatalf("floating IP %s leads to a port that is gone", f.ID)
			}
			all.FloatingIPs[i].PortID, all.FloatingIPs[i].Fixed, all.FloatingIPs[i].Revision = "", netip.Addr{}, 0
		}
		return all
	}
	if diff := cmp.Diff(others(before), others(after), addresses, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("what is not ours changed (-before +after):\n%s", diff)
	}
}

// A release moves a network's revision with the steps before the network's own, so it has to be planned again once for
// each network. It must come to an end then, and leave no marker on what it released.
func TestPropertyReleaseLeavesEverythingWithoutAMarker(t *testing.T) {
	inAnyScene(t, func(t *rapid.T, s anyScene) {
		before, after := s.in(), s.in().clone()
		var released []string
		limit := len(before.Observe(testOwner).Networks) + 1
		for round := 0; ; round++ {
			change := Release(testOwner, after.Observe(testOwner))
			if change.Empty() {
				break
			}
			if round == limit {
				t.Fatalf("after %d rounds there is still\n%s", round, change)
			}
			for _, step := range change {
				released = append(released, step.ID)
			}
			if err := after.apply(change); err != nil && !errors.Is(err, plantest.ErrMoved) {
				t.Fatalf("Neutron refuses %v", err)
			}
		}
		// unmarked is everything without the descriptions and revisions of what was released.
		unmarked := func(c *cloud) Observed {
			all := c.Everything()
			clear := func(id string, description *string, revision *int) {
				if !slices.Contains(released, id) {
					return
				}
				if _, of, marked := ParseDescription(*description); marked && c == after {
					t.Fatalf("%s was released and is described as %q, which makes it %s's", id, *description, of)
				}
				*description, *revision = "", 0
			}
			for i := range all.Networks {
				n := &all.Networks[i]
				for j := range n.Subnets {
					clear(n.Subnets[j].ID, &n.Subnets[j].Description, &n.Subnets[j].Revision)
				}
				clear(n.ID, &n.Description, &n.Revision)
				n.Revision = 0 // its subnets move it
			}
			for i := range all.Routers {
				clear(all.Routers[i].ID, &all.Routers[i].Description, &all.Routers[i].Revision)
			}
			for i := range all.Ports {
				clear(all.Ports[i].ID, &all.Ports[i].Description, &all.Ports[i].Revision)
			}
			for i := range all.FloatingIPs {
				clear(all.FloatingIPs[i].ID, &all.FloatingIPs[i].Description, &all.FloatingIPs[i].Revision)
			}
			return all
		}
		if diff := cmp.Diff(unmarked(before), unmarked(after), addresses, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("more than descriptions changed (-before +after):\n%s", diff)
		}
	})
}

// cloud is a Neutron in which people work behind our back.
type cloud struct{ plantest.Neutron }

func (c *cloud) clone() *cloud { return &cloud{*c.Clone()} }

// apply takes the steps until one fails, and says which.
func (c *cloud) apply(change Change) error {
	_, err := c.Apply(change)
	return err
}

// keepUnset gives what the spec leaves as it is the values that it had.
func keepUnset(a *Attributes, spec Spec, had Attributes) {
	if spec.MTU == 0 {
		a.MTU = had.MTU
	}
	if spec.PortSecurity == nil {
		a.PortSecurity = had.PortSecurity
	}
	if spec.DNSDomain == nil {
		a.DNSDomain = had.DNSDomain
	}
	if spec.QoSPolicy == nil {
		a.QoSPolicy = had.QoSPolicy
	}
	if spec.Shared == nil {
		a.Shared = had.Shared
	}
	if spec.External == nil {
		a.External = had.External
	}
	if spec.Provider.SegmentationID == 0 {
		a.Provider.SegmentationID = had.Provider.SegmentationID
	}
	a.Provider.NetworkType, a.Provider.PhysicalNetwork = had.Provider.NetworkType, had.Provider.PhysicalNetwork
	if spec.Tags == nil {
		a.Tags = slices.Sorted(slices.Values(had.Tags))
	}
}
