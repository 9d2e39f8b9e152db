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
	const differs = " (it differs from the spec)"
	const update, tag = "update network net-1: ", "tag network net-1: "
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		want     []string
	}{
		"a network that should be off is switched off": {
			specWith(func(s *Spec) { s.Down = true }), observedWith(func(*ObservedNetwork) {}),
			[]string{update + "adminState up → down" + differs},
		},
		"a DNS domain is set": {
			specWith(func(s *Spec) { s.DNSDomain = new("a.org.") }),
			observedWith(func(n *ObservedNetwork) { n.DNSDomain = new("") }),
			[]string{update + `dnsDomain none → "a.org."` + differs},
		},
		"a DNS domain that should not be is taken off": {
			specWith(func(s *Spec) { s.DNSDomain = new("") }),
			observedWith(func(n *ObservedNetwork) { n.DNSDomain = new("a.org.") }),
			[]string{update + `dnsDomain "a.org." → none` + differs},
		},
		"a DNS domain in a cloud without DNS is said to be unsupported": {
			specWith(func(s *Spec) { s.DNSDomain = new("a.org.") }), observedWith(func(*ObservedNetwork) {}),
			[]string{update + `dnsDomain unsupported → "a.org."` + differs},
		},
		"what an administrator set and the spec does not speak of stays": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Shared, n.External, n.Provider = new(true), new(true), plantest.Provider
				n.ZoneHints = []string{"a"}
			}), nil,
		},
		"a network is shared and led outside": {
			specWith(func(s *Spec) { s.Shared, s.External = new(true), new(true) }),
			observedWith(func(n *ObservedNetwork) { n.Shared, n.External = new(false), new(false) }),
			[]string{update + "shared false → true, external false → true" + differs},
		},
		"another segmentation ID is put back": {
			specWith(func(s *Spec) { s.Provider = Provider{"vlan", "physnet1", 7} }),
			observedWith(func(n *ObservedNetwork) { n.Provider = plantest.Provider }),
			[]string{update + "provider.segmentationID 100 → 7" + differs},
		},
		"a provider that the credentials may not see is not taken to be right": {
			specWith(func(s *Spec) { s.Provider = Provider{"vlan", "physnet1", 7} }),
			observedWith(func(*ObservedNetwork) {}), []string{update + `provider.networkType not shown → vlan, ` +
				`provider.physicalNetwork not shown → "physnet1", provider.segmentationID not shown → 7` + differs},
		},
		"zones have no order": {
			specWith(func(s *Spec) { s.ZoneHints = []string{"a", "b"} }),
			observedWith(func(n *ObservedNetwork) { n.ZoneHints = []string{"b", "a"} }), nil,
		},
		"other zones are refused by Neutron, and not here": {
			specWith(func(s *Spec) { s.ZoneHints = []string{"a", "b"} }),
			observedWith(func(n *ObservedNetwork) { n.ZoneHints = []string{"b"} }),
			[]string{update + `availabilityZoneHints "b" → "a", "b"` + differs},
		},
		"a new network without tags is not tagged": {
			specWith(func(s *Spec) { s.Tags = []string{} }), Observed{}, []string{
				`create network "net" (no network bears the owner's marker)`,
				"create subnet 10.0.0.0/24 (it is declared but missing)",
			},
		},
		"tags have no order": {
			specWith(func(s *Spec) { s.Tags = []string{"a", "b"} }),
			observedWith(func(n *ObservedNetwork) { n.Tags = []string{"b", "a"} }), nil,
		},
		"tags that should not be go": {
			specWith(func(s *Spec) { s.Tags = []string{} }),
			observedWith(func(n *ObservedNetwork) { n.Tags = []string{"a"} }),
			[]string{tag + `tags "a" → none` + differs},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			wantSteps(t, tc.spec, tc.observed, tc.want)
		})
	}
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
