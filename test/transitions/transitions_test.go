package transitions

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// count is how many sequences run at a time.
const count = 4

// TestConvergedStateIsPathIndependent is what the package is for.
func TestConvergedStateIsPathIndependent(t *testing.T) {
	t.Cleanup(func() { t.Log(met.String()) })
	lanes.Run(t, count, func(t *testing.T, check lanes.Check) {
		synctest.Test(t, func(t *testing.T) {
			around := newScenery(t)
			check(t, func(t *rapid.T) { holdSequence(t, around) })
		})
	})
}

// holdSequence draws a sequence and holds that what it ends in is what the same specs lead to directly.
func holdSequence(t *rapid.T, around *scenery) {
	w, stop := newWorld(t, around)
	defer stop()
	s := newSequence(w)
	// Most steps are nothing before there is something.
	first := rapid.IntRange(0, 3).Draw(t, "networks to begin with")
	number := first
	if w.own == adminProject {
		number += 4
	}
	if w.secrets {
		number += 8
	}
	w.habits.Choose(t, number)
	for range first {
		s.declareNetwork(t)
	}
	for range rapid.IntRange(0, 3).Draw(t, "ports to begin with") {
		s.declarePort(t)
	}
	t.Repeat(s.steps())
	s.finish(t)
	s.goDirectly(t)

	reached, direct := s.look(t, s.reached), s.look(t, s.direct)
	networks, ports := s.inventory(t, s.reached)
	met.Count("sequence")
	for _, n := range networks {
		countState("Network", n.object.Status.ResourceStatus, n.resource)
	}
	for _, p := range ports {
		countState("NetworkPort", p.object.Status.ResourceStatus, p.resource)
	}
	ignoreLeft(reached, ports)
	ignoreLeft(direct, ports)
	if diff := cmp.Diff(direct, reached); diff != "" {
		t.Fatalf("what was reached is not what the same specs lead to directly (-direct +reached):\n%s", diff)
	}
	s.holdNothingOfTheDead(t)
}

// goDirectly declares in the realm direct what the objects of the realm reached declare in the end.
func (s *sequence) goDirectly(t *rapid.T) {
	t.Helper()
	networks, ports := s.inventory(t, s.reached)
	translated := func(n *madeNetwork, spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
		return s.networkSpec(t, s.direct, n.slot, s.drawnNetworkSpec(s.reached, n.slot, spec))
	}
	declarePorts := func(which func(*madePort) bool) {
		var declared bool
		for _, p := range ports {
			if which(p) {
				s.putPort(t, s.direct, p.slot, s.direct.portSpec(s.reached.drawnPortSpec(p.object.Spec)))
				declared = true
			}
		}
		if declared {
			s.settle(t)
		}
	}
	exists := func(p *madePort) bool { return p.resource != nil }

	var detours []*madeNetwork
	keeping := map[*madeNetwork]cloudteamv1.NetworkSpec{}
	for _, n := range networks {
		first := beginning(n, ports)
		s.copyImported(t, n, first)
		s.createNetwork(t, s.direct, n.slot, translated(n, first))
		if asJSON(first) != asJSON(n.object.Spec) {
			detours = append(detours, n)
		}
		if len(first.ServiceTypes) != len(n.object.Spec.ServiceTypes) {
			first.ServiceTypes, first.ReservedFor = n.object.Spec.ServiceTypes, n.object.Spec.ReservedFor
			keeping[n] = first
		}
	}
	s.settle(t)
	declarePorts(func(p *madePort) bool { return exists(p) && !p.excluded() })
	for n, spec := range keeping {
		s.editNetwork(t, s.direct, n.slot, translated(n, spec))
	}
	if len(keeping) > 0 {
		s.settle(t)
	}
	declarePorts(func(p *madePort) bool { return exists(p) && p.excluded() })
	for _, n := range detours {
		s.editNetwork(t, s.direct, n.slot, translated(n, n.object.Spec))
	}
	if len(detours) > 0 {
		s.settle(t)
	}
	// What Networks keep decides what becomes of the ports that were not made.
	directNetworks, _ := s.inventory(t, s.direct)
	kept := false
	for _, reached := range networks {
		for _, direct := range directNetworks {
			if reached.slot == direct.slot && s.keepNetwork(t, reached, direct) {
				kept = true
			}
		}
	}
	if kept {
		s.settle(t)
	}
	declarePorts(func(p *madePort) bool { return !exists(p) })
	_, directPorts := s.inventory(t, s.direct)
	kept = false
	for _, reached := range ports {
		for _, direct := range directPorts {
			if reached.slot == direct.slot && s.keepPort(t, reached, direct) {
				kept = true
			}
		}
	}
	if kept {
		s.settle(t)
	}
}
