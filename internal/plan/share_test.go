package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestPlanOfSharing(t *testing.T) {
	const undeclared, missing = " (it is not declared)", " (it is declared but missing)"
	sharedWith := func(projects ...string) Spec {
		return specWith(func(s *Spec) { s.SharedWith = append([]string{}, projects...) })
	}
	shared := func(shares ...Share) Observed { return observedWith(func(n *ObservedNetwork) { n.Shares = shares }) }
	one, two := Share{"rbac-1", "one"}, Share{"rbac-2", "two"}
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		want     []string
	}{
		"a network is shared with whom is declared": {
			sharedWith("one", "two"), shared(one),
			[]string{`share network net-1: project "two"` + missing},
		},
		"who goes makes room for who comes": {
			sharedWith("one"), shared(two),
			[]string{`unshare network net-1: project "two"` + undeclared, `share network net-1: project "one"` + missing},
		},
		"shares have no order": {sharedWith("one", "two"), shared(two, one), nil},
		"a share that these credentials do not see is there all the same": {
			sharedWith("one", "two"), shared(Share{"", "one"}, two), nil,
		},
		"a share that these credentials do not see cannot be taken back": {
			sharedWith("two"), shared(Share{"", "one"}, two), nil,
		},
		"a new network is shared once it has its subnets": {
			sharedWith("one"), Observed{}, []string{
				`create network "net" (no network bears the owner's marker)`,
				"create subnet 10.0.0.0/24 (it is declared but missing)",
				`share network just created: project "one"` + missing,
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			wantSteps(t, tc.spec, tc.observed, tc.want)
		})
	}
}

func TestSharingIsOneDifference(t *testing.T) {
	change, err := Network(specWith(func(s *Spec) { s.SharedWith = []string{"a", "b"} }),
		observedWith(func(n *ObservedNetwork) { n.Shares = []Share{{"rbac-1", "c"}} }))
	expect.NoError(t, err)
	want := []Difference{{NetworkResource, FieldSharedWith, `"a", "b"`, `"c"`}}
	if diff := cmp.Diff(want, change.Differences()); diff != "" || len(change) != 3 {
		t.Errorf("%d steps, for (-want +got):\n%s", len(change), diff)
	}
	if rest := change.Without(FieldSharedWith); !rest.Empty() {
		t.Errorf("of what is ignored there is left\n%s", rest)
	}
	created, err := Network(specWith(func(s *Spec) { s.SharedWith = []string{"a"} }), Observed{})
	expect.NoError(t, err)
	if rest := created.Without(FieldSharedWith); len(rest) != len(created) {
		t.Errorf("a network is made without what is ignored later:\n%s", rest)
	}
}

func TestAProjectThatUsesTheNetworkHoldsUpNothingElse(t *testing.T) {
	change, err := Network(
		specWith(func(s *Spec) { s.SharedWith, s.Tags, s.Description = []string{"a"}, []string{"t"}, "new" }),
		observedWith(func(n *ObservedNetwork) { n.Shares = []Share{{"rbac-1", "b"}, {"rbac-2", "c"}} }))
	expect.NoError(t, err)
	at := slices.IndexFunc(change, func(s Step) bool { return s.ID == "rbac-1" })
	if at < 0 || !change[at].Postponable() {
		t.Fatalf("nothing can wait of\n%s", change)
	}
	rest := change.Despite(change[:at])
	if len(rest) != len(change)-at-1 || strings.Contains(rest.String(), `project "b"`) {
		t.Errorf("despite %s there is left\n%s\nof\n%s", change[at], rest, change)
	}
}

func TestAShareThatIsRefusedHoldsUpNothingElse(t *testing.T) {
	spec := specWith(func(s *Spec) { s.SharedWith, s.Tags = []string{"a", "b"}, []string{"t"} })
	change, err := Network(spec, Observed{})
	expect.NoError(t, err)
	at := slices.IndexFunc(change, func(s Step) bool { return s.Action == ShareNetwork })
	if at < 0 || !change[at].Postponable() {
		t.Fatalf("nothing can wait of\n%s", change)
	}
	done := slices.Clone(change[:at])
	done[0].ID = "net-1"
	whole := change.String()
	rest := change.Despite(done)
	if len(rest) != 1 || rest[0].Action != TagNetwork || rest[0].ID != "net-1" {
		t.Errorf("after\n%s\nand despite %s there is left\n%s", done, change[at], rest)
	}
	expect.Equal(t, whole, change.String(), "the change, which must not be written to")
}

func TestPlanOfQoSPolicies(t *testing.T) {
	const update, differs = "update network net-1: ", " (it differs from the spec)"
	for sentence, tc := range map[string]struct {
		want, has *string
		step      string
	}{
		"a policy is set where nothing is known": {new("q-1"), nil, `qosPolicy none → "q-1"`},
		"another policy is replaced":             {new("q-1"), new("q-2"), `qosPolicy "q-2" → "q-1"`},
		"a policy is taken off":                  {new(""), new("q-1"), `qosPolicy "q-1" → none`},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Network(specWith(func(s *Spec) { s.QoSPolicy = tc.want }),
				observedWith(func(n *ObservedNetwork) { n.QoSPolicy = tc.has }))
			var want []string
			if tc.step != "" {
				want = append(want, update+tc.step+differs)
			}
			wantChange(t, change, err, want)
		})
	}
}

// policies are ids of QoS policies that a network may have, none included.
func policies() *rapid.Generator[string] { return rapid.SampledFrom([]string{"", "qos-1", "qos-2"}) }

// projects are sets of ids, sorted, and not nil.
func projects() *rapid.Generator[[]string] {
	one := rapid.SampledFrom([]string{"one", "two", "three", strings.Repeat("f", 32)})
	return rapid.Custom(func(t *rapid.T) []string {
		drawn := rapid.SliceOfNDistinct(one, 0, 3, rapid.ID).Draw(t, "projects")
		slices.Sort(drawn)
		return drawn
	})
}

// requireShares holds with whom a network is shared against the spec.
func requireShares(t rapid.TB, spec Spec, n ObservedNetwork) {
	if spec.SharedWith == nil {
		return
	}
	projects := []string{}
	for _, share := range n.Shares {
		projects = append(projects, share.Project)
	}
	slices.Sort(projects)
	if !slices.Equal(projects, spec.SharedWith) {
		t.Fatalf("the network is shared with %q, declared %q", projects, spec.SharedWith)
	}
}
