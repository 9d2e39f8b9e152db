package plan_test

import (
	"slices"
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// everythingSet is the declared spec, with a value in each field that can be taken back.
func everythingSet(s *Spec) {
	s.DNSDomain, s.QoSPolicy = new("a.org."), new("qos-1")
	s.Tags, s.SharedWith = []string{"a"}, []string{"one"}
	s.Shared, s.External = new(true), new(true)
}

// everythingThere is the observed network as everythingSet declares it.
func everythingThere(n *ObservedNetwork) {
	n.DNSDomain, n.QoSPolicy = new("a.org."), new("qos-1")
	n.Tags, n.Shares = []string{"a"}, []Share{{"rbac-1", "one"}}
	n.Shared, n.External = new(true), new(true)
}

// takeBacks are the fields that are taken back.
var takeBacks = []string{FieldDNSDomain, FieldExternal, FieldQoSPolicy, FieldShared, FieldSharedWith, FieldTags}

func TestPlanOfWhatASpecSetsNoLonger(t *testing.T) {
	const update, differs = "update network net-1: ", " (it differs from the spec)"
	takeBack := func(change func(*Spec), fields ...string) Spec {
		return specWith(func(s *Spec) {
			if change != nil {
				change(s)
			}
			s.TakeBack = fields
		})
	}
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		want     []string
	}{
		"all of it is taken back": {
			takeBack(nil, takeBacks...), observedWith(everythingThere), []string{
				update + `dnsDomain "a.org." → none, qosPolicy "qos-1" → none, shared true → false, external true → false` +
					differs,
				`unshare network net-1: project "one" (it is not declared)`,
				`tag network net-1: tags "a" → none` + differs,
			},
		},
		"what is not there need not be taken back": {
			takeBack(nil, takeBacks...), observedWith(func(*ObservedNetwork) {}), nil,
		},
	} {
		t.Run(sentence, func(t *testing.T) { wantSteps(t, tc.spec, tc.observed, tc.want) })
	}
}

func TestANewNetworkIsNotMadeWithWhatIsTakenBack(t *testing.T) {
	spec := specWith(func(s *Spec) { s.TakeBack = takeBacks })
	change, err := Network(spec, Observed{})
	expect.NoError(t, err)
	a := change[0].Attributes
	if a.DNSDomain != nil || a.QoSPolicy != nil || a.Shared != nil || a.External != nil || a.Tags != nil {
		t.Errorf("the network is created with %+v, and its cloud may know none of it", a)
	}
}

func TestSetsNamesWhatHasAValue(t *testing.T) {
	if got := specWith(everythingSet).Sets(); !slices.Equal(got, takeBacks) {
		t.Errorf("a spec with all of it sets %q, want %q", got, takeBacks)
	}
	empty := specWith(func(s *Spec) {
		s.DNSDomain, s.QoSPolicy, s.Tags, s.SharedWith = new(""), new(""), []string{}, []string{}
		s.Shared, s.External = new(false), new(false)
	})
	for sentence, spec := range map[string]Spec{"a plain spec": declaredSpec(), "an empty value": empty} {
		expect.Empty(t, spec.Sets(), "what %s sets, with nothing to take back of it", sentence)
	}
}

func TestAnImportTakesNothingBackOfOthers(t *testing.T) {
	found := observedWith(everythingThere).Networks[0]
	found.Description = ""
	spec := specWith(func(s *Spec) {
		s.Description, s.Import, s.TakeBack = "", Import{ID: found.ID}, takeBacks
	})
	differences, err := Compare(spec, found)
	if err != nil || len(differences) > 0 {
		t.Errorf("the network to import differs in %v (%v), and nothing of it is the object's yet", differences, err)
	}
}
