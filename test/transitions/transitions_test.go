package transitions

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestWhatIsReachedDoesNotTellTheWay is what the package is for. A sequence waits far more than it works, so that some
// run at a time; each lane draws its own.
func TestWhatIsReachedDoesNotTellTheWay(t *testing.T) {
	t.Cleanup(func() { t.Log(met.String()) })
	for _, lane := range []string{"a", "b", "c", "d"} {
		t.Run(lane, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, holdSequence)
		})
	}
}

// holdSequence draws a sequence and holds that what it ends in is what the same specs lead to directly.
func holdSequence(t *rapid.T) {
	w, stop := newWorld(t)
	defer stop()
	s := newSequence(w)
	// Most steps are nothing before there is something.
	for range rapid.IntRange(0, 3).Draw(t, "networks to begin with") {
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
	met.count("sequence")
	for _, n := range networks {
		met.state("Network", n.object.Status.ResourceStatus, n.resource)
	}
	for _, p := range ports {
		met.state("NetworkPort", p.object.Status.ResourceStatus, p.resource)
	}
	ignoreLeft(reached, ports)
	ignoreLeft(direct, ports)
	if diff := cmp.Diff(direct, reached); diff != "" {
		t.Fatalf("what was reached is not what the same specs lead to directly (-direct +reached):\n%s", diff)
	}
	s.holdNothingOfTheDead(t)
}

// finish does what people have to do before anything can come to rest where its spec says: Networks that are to go let
// go of, what the cloud refuses no longer asked for, and reported drift taken back.
func (s *sequence) finish(t *rapid.T) {
	t.Helper()
	for unfinished := true; unfinished; {
		unfinished = false
		s.settle(t)
		networks, ports := s.inventory(t, s.reached)
		for _, n := range networks {
			ready := meta.FindStatusCondition(n.object.Status.Conditions, cloudteamv1.ConditionReady)
			spec := *n.object.Spec.DeepCopy()
			switch {
			case n.object.DeletionTimestamp != nil:
				for _, p := range ports {
					if p.on == n {
						t.Logf("finish: delete NetworkPort %s", p.slot)
						s.endPort(t, &p.object)
					}
				}
			case ready.Reason == cloudteamv1.ReasonInUse:
				// A subnet that is no longer declared has the address of a port about which nothing is done.
				stuck := false
				for _, p := range ports {
					if p.on == n && p.resource != nil && (p.invalid() || p.is(cloudteamv1.ReasonRefused)) {
						t.Logf("finish: delete NetworkPort %s", p.slot)
						s.endPort(t, &p.object)
						stuck = true
					}
				}
				if !stuck {
					continue // what it waits for comes by itself, and the states are compared
				}
				met.count("a subnet in use that is no longer declared")
			case spec.MTU != nil && *spec.MTU == tooLarge:
				met.count("a spec that the cloud refuses")
				spec.MTU = nil
				t.Logf("finish: declare Network %s: %s", n.slot, asJSON(spec))
				s.putNetwork(t, s.reached, n.slot, spec)
			case ready.Reason == cloudteamv1.ReasonDriftReported:
				met.count("drift that is reported")
				s.holdDrift(t, n)
				spec.DriftPolicy = cloudteamv1.DriftPolicyCorrect
				t.Logf("finish: declare Network %s: %s", n.slot, asJSON(spec))
				s.putNetwork(t, s.reached, n.slot, spec)
			default:
				continue
			}
			unfinished = true
		}
		for _, p := range ports {
			// An administrator has given it another MAC than is declared, and only one could give it back.
			if p.is(cloudteamv1.ReasonForbidden) && p.object.DeletionTimestamp == nil {
				met.count("a port whose MAC an administrator has changed")
				t.Logf("finish: delete NetworkPort %s", p.slot)
				s.endPort(t, &p.object)
				unfinished = true
			}
		}
	}
}

// holdDrift holds that drift is told of where it may be.
func (s *sequence) holdDrift(t *rapid.T, n *madeNetwork) {
	t.Helper()
	switch {
	case n.object.Spec.DriftPolicy != cloudteamv1.DriftPolicyReport:
		t.Fatalf("Network %s reports drift with driftPolicy %q", n.slot, n.object.Spec.DriftPolicy)
	case !s.networkPast(n.slot).meddled:
		t.Fatalf("Network %s reports drift and nobody changed it: %+v", n.slot, n.object.Status.Drift)
	case len(n.object.Status.Drift) == 0:
		t.Fatalf("Network %s reports drift and does not tell which", n.slot)
	}
}

// goDirectly declares in the realm direct what the objects of the realm reached declare in the end.
func (s *sequence) goDirectly(t *rapid.T) {
	t.Helper()
	networks, ports := s.inventory(t, s.reached)
	translated := func(spec cloudteamv1.NetworkSpec) cloudteamv1.NetworkSpec {
		return s.direct.networkSpec(s.reached.drawnNetworkSpec(spec))
	}
	declarePorts := func(which func(*madePort) bool) {
		for _, p := range ports {
			if which(p) {
				s.putPort(t, s.direct, p.slot, s.direct.portSpec(s.reached.drawnPortSpec(p.object.Spec)))
			}
		}
		s.settle(t)
	}
	exists := func(p *madePort) bool { return p.resource != nil }

	var detours []*madeNetwork
	for _, n := range networks {
		first := beginning(n, ports)
		s.putNetwork(t, s.direct, n.slot, translated(first))
		if asJSON(first) != asJSON(n.object.Spec) {
			detours = append(detours, n)
		}
	}
	s.settle(t)
	if slices.ContainsFunc(ports, exists) {
		declarePorts(exists)
	}
	for _, n := range detours {
		s.putNetwork(t, s.direct, n.slot, translated(n.object.Spec))
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
	if slices.ContainsFunc(ports, func(p *madePort) bool { return !exists(p) }) {
		declarePorts(func(p *madePort) bool { return !exists(p) })
	}
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
