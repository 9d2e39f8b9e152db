package plan_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
)

// This file holds that a state does not tell how it was reached. test/transitions does the same with real controllers.

// applySome plans with observed and takes a drawn number of the steps, all of them as a rule: a controller may be killed
// at any time.
func (c *cloud) applySome(t *rapid.T, change Change) {
	if len(change) > 0 && rapid.IntRange(0, 3).Draw(t, "interrupted") == 3 {
		change = change[:rapid.IntRange(0, len(change)-1).Draw(t, "steps")]
	}
	mustApply(t, c, change)
}

// unblock removes the subnets of others that are in the way of a spec, as the error asks for.
func (c *cloud) unblock(spec Spec) {
	blocking := blockers(spec, c.Observe(spec.Owner))
	for i := range c.Networks {
		n := &c.Networks[i]
		n.Subnets = slices.DeleteFunc(n.Subnets, func(s ObservedSubnet) bool { return slices.Contains(blocking, s.ID) })
	}
}

// alike is what is the owner's, without what differs from one cloud to another: ids, times, revisions, and the form in
// which ranges are cut.
func (c *cloud) alike(owner Owner) Observed {
	observed := c.Observe(owner).InOrder()
	for i := range observed.Networks {
		n := &observed.Networks[i]
		n.ID, n.Revision, n.Created = "", 0, plantest.Epoch
		for j := range n.Shares {
			n.Shares[j].ID = ""
		}
		n.Subnets = slices.DeleteFunc(n.Subnets, func(s ObservedSubnet) bool { return !owner.Owns(s.Description) })
		for j := range n.Subnets {
			s := &n.Subnets[j]
			s.ID, s.Revision, s.Subnet = "", 0, s.Canonical()
			alikePool(s)
		}
	}
	for i := range observed.Ports {
		p := &observed.Ports[i]
		p.ID, p.Revision, p.Created = "", 0, plantest.Epoch
	}
	for i, f := range observed.FloatingIPs {
		observed.FloatingIPs[i] = ObservedFloatingIP{FloatingIPAttributes: FloatingIPAttributes{
			Description: f.Description, NetworkID: f.NetworkID,
		}}
	}
	return observed
}

func requireAlike(t *rapid.T, reached, direct Observed) {
	t.Helper()
	if diff := cmp.Diff(direct, reached, addresses, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("what was reached is not what the last spec leads to directly (-direct +reached):\n%s", diff)
	}
}

func TestPropertyOfASequenceOfSpecsTheLastDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, c := specs(testOwner).Draw(t, "spec"), &cloud{}
		plan := func() Change {
			change, err := Network(spec, c.Observe(testOwner))
			if blocked := (*BlockedError)(nil); errors.As(err, &blocked) {
				c.unblock(spec)
				change = mustPlan(t, spec, c)
			} else if err != nil {
				t.Fatalf("Network: %v", err)
			}
			return change
		}
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				c.applySome(t, plan())
			case 1:
				spec = specs(testOwner).Draw(t, "other spec")
				c.applySome(t, plan())
			case 2: // The same subnets, set otherwise.
				spec = cloneSpec(spec)
				for i, subnet := range spec.Subnets {
					spec.Subnets[i] = setOtherwise(t, subnet)
				}
				c.applySome(t, plan())
			case 3, 4:
				c.meddle(t, testOwner)
			case 5:
				change, err := Delete(testOwner, c.Observe(testOwner))
				if err == nil {
					c.applySome(t, change)
				}
			}
		}
		change := plan()
		before, existed := c.Observe(testOwner).Network()
		mustApply(t, c, change)
		followAllocations(t, spec, c)
		if again := mustPlan(t, spec, c); !again.Empty() {
			t.Fatalf("planning what was just applied gives\n%s\nafter\n%s", again, change)
		}
		direct := &cloud{}
		mustApply(t, direct, mustPlan(t, spec, direct))
		followAllocations(t, spec, direct)

		want := direct.alike(testOwner)
		// What is left to the cloud stays as it was.
		if existed {
			keepUnset(&want.Networks[0].Attributes, spec, before.Attributes)
			keepShares(&want.Networks[0], spec, before.Shares)
		}
		requireAlike(t, c.alike(testOwner), want)

		deletion, err := Delete(testOwner, c.Observe(testOwner))
		if blocked := (*BlockedError)(nil); errors.As(err, &blocked) {
			return // a subnet of others, which was in nobody's way
		}
		if err != nil {
			t.Fatalf("Delete: %v", err)
		}
		mustApply(t, c, deletion)
		if left := c.Observe(testOwner); !left.Empty() {
			t.Fatalf("there is still %v", left.Resources())
		}
	})
}

func TestPropertyOfASequenceOfPortSpecsTheLastDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := portCloud()
		spec := portSpecs(testOwner, c).Draw(t, "spec")
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				c.applySome(t, mustPlanPort(t, spec, c))
			case 1:
				spec = portSpecs(testOwner, c).Draw(t, "other spec")
				c.applySome(t, mustPlanPort(t, spec, c))
			case 2, 3:
				c.meddleWithPorts(t, testOwner)
			case 4:
				change, err := Delete(testOwner, c.Observe(testOwner))
				if err != nil {
					t.Fatalf("Delete: %v", err)
				}
				c.applySome(t, change)
			}
		}
		before, existed := c.Observe(testOwner).Port(spec.NetworkID)
		mustConverge(t, spec, c)
		direct := portCloud()
		mustApply(t, direct, mustPlanPort(t, spec, direct))

		reached, want := c.alike(testOwner), direct.alike(testOwner)
		if len(reached.Ports) != 1 {
			t.Fatalf("%d ports bear the marker, want 1", len(reached.Ports))
		}
		hideUnnamed(spec, &reached.Ports[0])
		hideUnnamed(spec, &want.Ports[0])
		// What is left to the cloud stays as it was.
		if spec.MAC == "" {
			want.Ports[0].MAC = reached.Ports[0].MAC
			if existed && before.MAC != reached.Ports[0].MAC {
				t.Fatalf("the MAC %s became %s, and none was declared", before.MAC, reached.Ports[0].MAC)
			}
		}
		if existed && spec.SecurityGroups == nil {
			want.Ports[0].SecurityGroups = slices.Sorted(slices.Values(before.SecurityGroups))
		}
		base := want.Ports[0]
		if existed {
			base = before
		}
		base.MAC = reached.Ports[0].MAC
		want.Ports[0].PortOptions = optionsAsDeclared(spec, base)
		for _, p := range []*ObservedPort{&reached.Ports[0], &want.Ports[0]} {
			slices.SortFunc(p.AddressPairs, comparePairs)
		}
		requireAlike(t, reached, want)
	})
}

// hideUnnamed takes away which addresses they are that the spec leaves to Neutron.
func hideUnnamed(spec PortSpec, p *ObservedPort) {
	for i, a := range p.Addresses {
		if !slices.Contains(spec.Addresses, a) {
			p.Addresses[i] = PortAddress{SubnetID: placeOf(spec, a.SubnetID)}
		}
	}
	slices.SortFunc(p.Addresses, ComparePortAddresses)
}
