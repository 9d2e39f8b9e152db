package plan_test

import (
	"net/netip"
	"strings"
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestPlanOfProperties(t *testing.T) {
	const update, tag = "update network net-1: ", "tag network net-1: "
	nothing := func(*ObservedNetwork) {}
	for sentence, tc := range map[string]struct {
		set func(*Spec)
		has func(*ObservedNetwork)
		// want is the step; empty for none.
		want string
	}{
		"a network that should be off is switched off": {func(s *Spec) { s.Down = true }, nothing, update + "adminState up → down"},
		"a DNS domain is set": {
			func(s *Spec) { s.DNSDomain = new("a.org.") }, func(n *ObservedNetwork) { n.DNSDomain = new("") },
			update + `dnsDomain none → "a.org."`,
		},
		"a DNS domain that should not be is taken off": {
			func(s *Spec) { s.DNSDomain = new("") }, func(n *ObservedNetwork) { n.DNSDomain = new("a.org.") },
			update + `dnsDomain "a.org." → none`,
		},
		"a DNS domain in a cloud without DNS is said to be unsupported": {
			func(s *Spec) { s.DNSDomain = new("a.org.") }, nothing, update + `dnsDomain unsupported → "a.org."`,
		},
		"what an administrator set and the spec does not speak of stays": {func(*Spec) {}, func(n *ObservedNetwork) {
			n.Shared, n.External, n.Provider, n.ZoneHints = new(true), new(true), plantest.Provider, []string{"a"}
		}, ""},
		"a network is shared and led outside": {
			func(s *Spec) { s.Shared, s.External = new(true), new(true) },
			func(n *ObservedNetwork) { n.Shared, n.External = new(false), new(false) },
			update + "shared false → true, external false → true",
		},
		"another segmentation ID is put back": {
			func(s *Spec) { s.Provider = Provider{"vlan", "physnet1", 7} },
			func(n *ObservedNetwork) { n.Provider = plantest.Provider }, update + "provider.segmentationID 100 → 7",
		},
		"a provider that the credentials may not see is not taken to be right": {
			func(s *Spec) { s.Provider = Provider{"vlan", "physnet1", 7} }, nothing, update +
				`provider.networkType not shown → vlan, provider.physicalNetwork not shown → "physnet1", ` +
				`provider.segmentationID not shown → 7`,
		},
		"zones have no order": {
			func(s *Spec) { s.ZoneHints = []string{"a", "b"} }, func(n *ObservedNetwork) { n.ZoneHints = []string{"b", "a"} }, "",
		},
		"other zones are refused by Neutron, and not here": {
			func(s *Spec) { s.ZoneHints = []string{"a", "b"} }, func(n *ObservedNetwork) { n.ZoneHints = []string{"b"} },
			update + `availabilityZoneHints "b" → "a", "b"`,
		},
		"tags have no order": {
			func(s *Spec) { s.Tags = []string{"a", "b"} }, func(n *ObservedNetwork) { n.Tags = []string{"b", "a"} }, "",
		},
		"tags that should not be go": {
			func(s *Spec) { s.Tags = []string{} }, func(n *ObservedNetwork) { n.Tags = []string{"a"} }, tag + `tags "a" → none`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var want []string
			if tc.want != "" {
				want = []string{tc.want + " (it differs from the spec)"}
			}
			wantSteps(t, specWith(tc.set), observedWith(tc.has), want)
		})
	}
	t.Run("a new network without tags is not tagged", func(t *testing.T) {
		wantSteps(t, specWith(func(s *Spec) { s.Tags = []string{} }), Observed{}, []string{
			`create network "net" (no network bears the owner's marker)`,
			"create subnet 10.0.0.0/24 (it is declared but missing)",
		})
	})
}

// wantSteps holds the plan of a spec against the texts of its steps.
func wantSteps(t *testing.T, spec Spec, observed Observed, want []string) {
	t.Helper()
	change, err := Network(spec, observed)
	wantChange(t, change, err, want)
}

// wantChange holds a change against the texts of its steps. They are what a person reads of a plan.
func wantChange(t *testing.T, change Change, err error, want []string) {
	t.Helper()
	expect.NoError(t, err)
	expect.Equal(t, strings.Join(want, "\n"), change.String(), "steps")
	expect.Equal(t, len(want) == 0, change.Empty(), "Empty() of %d steps", len(change))
}

func TestPrivilegedFieldsOfAStep(t *testing.T) {
	all := []string{FieldShared, FieldExternal, FieldNetworkType, FieldPhysicalNetwork, FieldSegmentationID}
	everything := func(s *Spec) {
		s.Shared, s.External, s.Provider = new(true), new(true), Provider{"vlan", "physnet1", 7}
	}
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		want     []string
	}{
		"a create sends what the spec sets": {specWith(everything), Observed{}, all},
		"a create does not send what a new network is anyway": {
			specWith(func(s *Spec) { s.Shared, s.External = new(false), new(false) }), Observed{}, nil,
		},
		"an update sends what differs": {
			specWith(everything), observedWith(func(n *ObservedNetwork) {
				n.Shared, n.External, n.Provider = new(false), new(true), plantest.Provider
			}), []string{FieldShared, FieldSegmentationID},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Network(tc.spec, tc.observed)
			expect.NoError(t, err)
			expect.Equal(t, tc.want, change[0].Privileged(), "privileged fields")
		})
	}
}

func TestPrivilegedFieldsOfARouter(t *testing.T) {
	outside := RouterAttributes{Gateway: ExternalGateway{NetworkID: "ext-1"}}
	declared := outside
	declared.Gateway.SNAT, declared.Gateway.Addresses = new(true), []netip.Addr{addr("203.0.113.10")}
	for sentence, tc := range map[string]struct {
		step Step
		want []string
	}{
		"a router that leads outside as the cloud has it": {Step{Action: CreateRouter, Router: outside}, nil},
		"a router with all that is declared": {
			Step{Action: CreateRouter, Router: declared}, []string{FieldSNAT, FieldExternalIP},
		},
		"a change of the way outside": {
			Step{Action: UpdateGateway, Router: declared}, []string{FieldSNAT, FieldExternalIP},
		},
		"a change of its name": {Step{Action: UpdateRouter, Router: declared}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, tc.want, tc.step.Privileged(), "privileged fields")
		})
	}
}

// What others may change is made as declared all the same where the network is made anew.
func TestIgnoredTagsAreGivenToANewNetwork(t *testing.T) {
	spec := specWith(func(s *Spec) { s.Tags = []string{"a"} })
	for sentence, tc := range map[string]struct {
		observed Observed
		want     int
	}{
		"a network that is gone":            {Observed{}, 3},
		"a network that others have tagged": {observedWith(func(n *ObservedNetwork) { n.Tags = []string{"b"} }), 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Network(spec, tc.observed)
			expect.NoError(t, err)
			expect.Len(t, tc.want, change.Without(FieldTags), "steps that are left")
		})
	}
}
