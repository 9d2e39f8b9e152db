package plan_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	testCluster = "11111111-2222-3333-4444-555555555555"
	testObject  = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	otherObject = "ffffffff-0000-1111-2222-333333333333"
)

var (
	testOwner  = Owner{Cluster: testCluster, Object: testObject}
	otherOwner = Owner{Cluster: testCluster, Object: otherObject}
)

func TestParseDescriptionTellsMarkersFromTexts(t *testing.T) {
	type result struct {
		description string
		owner       Owner
		ok          bool
	}
	marker := testOwner.Marker()
	for sentence, tc := range map[string]struct {
		text string
		want result
	}{
		"an empty text bears none":             {"", result{}},
		"a text and the marker":                {"db " + marker, result{"db", testOwner, true}},
		"only one space belongs to the marker": {"db  " + marker, result{"db ", testOwner, true}},
		"the last of two markers counts": {
			otherOwner.Marker() + " " + marker, result{otherOwner.Marker(), testOwner, true},
		},
		"a marker behind a tab is a text":        {"db\t" + marker, result{"db\t" + marker, Owner{}, false}},
		"a marker without a cluster is a text":   {"[owner=/b]", result{"[owner=/b]", Owner{}, false}},
		"a marker of two slashes is a text":      {"[owner=a/b/c]", result{"[owner=a/b/c]", Owner{}, false}},
		"a marker with a space inside is a text": {"[owner=a/b ]", result{"[owner=a/b ]", Owner{}, false}},
		"a marker of letters outside ASCII is a text": {
			"[owner=а/b]", result{"[owner=а/b]", Owner{}, false},
		},
		"UIDs that are no UUIDs are UIDs all the same": {
			"[owner=a-1/B]", result{"", Owner{"a-1", "B"}, true},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got result
			got.description, got.owner, got.ok = ParseDescription(tc.text)
			if tc.text == "" {
				tc.want.description = ""
			}
			if got != tc.want {
				t.Errorf("ParseDescription(%q) = %+v, want %+v", tc.text, got, tc.want)
			}
		})
	}
}

func TestMaxUserDescriptionFillsNeutronsLimit(t *testing.T) {
	for sentence, character := range map[string]string{"in ASCII": "x", "in characters of four bytes": "🛰"} {
		t.Run(sentence, func(t *testing.T) {
			longest := strings.Repeat(character, MaxUserDescription)
			expect.Equal(t, MaxDescription, utf8.RuneCountInString(testOwner.Describe(longest)), "characters of the longest description with its marker")
		})
	}
}

func TestPropertyDescriptionsSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, owner := userTexts().Draw(t, "text"), owners().Draw(t, "owner")
		described := owner.Describe(text)
		got, of, ok := ParseDescription(described)
		if !ok || of != owner || got != text {
			t.Fatalf("ParseDescription(%q) = %q, %v, %v", described, got, of, ok)
		}
	})
}

// FuzzParseDescription holds that a text and its description are inverse, whatever markers the text has itself.
func FuzzParseDescription(f *testing.F) {
	for _, seed := range []string{
		"", " ", "  two before, two behind  ", "one\ntwo\tthree\r\n", "сеть базы данных, 数据库网络, 🛰", "[a] ]b[ [",
		"[owner=", "/x]", "x [owner=a/b", otherOwner.Marker(), "theirs " + otherOwner.Marker(),
		testOwner.Marker() + " " + testOwner.Marker(), testOwner.Marker(), "db " + testOwner.Marker(), " " + testOwner.Marker(), testOwner.Marker() + "]",
		"[owner=[owner=a/b]", "x [owner=a/b] [owner=c/d]", "[owner=a/b/c]", "[owner=/]", "\xff [owner=a/b]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		description, owner, ok := ParseDescription(text)
		if ok {
			if again := owner.Describe(description); again != text {
				t.Errorf("%q was parsed to %q and %v, which is described as %q", text, description, owner, again)
			}
		} else if description != text || owner != (Owner{}) {
			t.Errorf("%q bears no marker, and was parsed to %q and %v", text, description, owner)
		}
		back, of, ok := ParseDescription(testOwner.Describe(text))
		if !ok || of != testOwner || back != text {
			t.Errorf("%q came back as %q, %v, %v", text, back, of, ok)
		}
	})
}

func TestAMarkerSaysRetain(t *testing.T) {
	owner := Owner{Cluster: strings.Repeat("c", 36), Object: strings.Repeat("o", 36)}
	for name, c := range map[string]struct{ text, want string }{
		"of many bytes":  {strings.Repeat("界", MaxUserDescription), strings.Repeat("界", 164) + " [retain] " + owner.Marker()},
		"with just room": {strings.Repeat("x", 164), strings.Repeat("x", 164) + " [retain] " + owner.Marker()},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Owner: owner, Description: c.text, Retain: true}
			expect.NoError(t, spec.Validate())
			got := spec.Attributes().Description
			if got != c.want || utf8.RuneCountInString(got) > MaxDescription || !owner.Owns(got) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatSaysRetainIsReleasedWithoutItsObject(t *testing.T) {
	text := testOwner.Describe("mine [retain]")
	network := ObservedNetwork{ID: "net-1"}
	network.Description = text
	port := ObservedPort{ID: "port-1", NetworkID: "net-1"}
	port.Description = testOwner.Describe("[retain]")
	plain := port
	plain.Description = testOwner.Marker()
	for name, c := range map[string]struct {
		observed Observed
		want     []Action
	}{
		"a network with a port that says nothing": {
			Observed{Networks: []ObservedNetwork{network}, Ports: []ObservedPort{plain}}, []Action{UpdatePort, UpdateNetwork}},
		"an old marker": {Observed{Ports: []ObservedPort{plain}}, []Action{DeletePort}},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := Orphan(testOwner, c.observed)
			expect.NoError(t, err)
			var got []Action
			for _, step := range change {
				got = append(got, step.Action)
				description := step.Attributes.Description + step.Port.Description
				if step.Action != DeletePort && description != "" && description != "mine" {
					t.Errorf("%s leaves the description %q", step.Action, description)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAChangeOfDeletionPolicyIsOneUpdate(t *testing.T) {
	spec := declaredPort()
	spec.Retain = true
	change, err := Port(spec, Observed{Ports: []ObservedPort{portAsDeclared()}})
	expect.NoError(t, err)
	const want = "update port port-1: deletionPolicy Delete → Retain (it differs from the spec)"
	expect.Equal(t, want, change.String(), "the change as text")
}
