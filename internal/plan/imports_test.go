package plan_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
)

// bare is the network that stands for a spec, without any marker, as somebody would have made it by hand.
func bare(t rapid.TB, spec Spec) *cloud {
	c := &cloud{}
	mustApply(t, c, mustPlan(t, spec, c))
	followAllocations(t, spec, c)
	n := &c.Networks[0]
	n.Description, _, _ = ParseDescription(n.Description)
	for i := range n.Subnets {
		n.Subnets[i].Description, _, _ = ParseDescription(n.Subnets[i].Description)
	}
	return c
}

// importOf is the spec that imports the only network of a cloud.
func importOf(spec Spec, c *cloud, overwrite bool) Spec {
	spec.Import = Import{ID: c.Networks[0].ID, Overwrite: overwrite, AdoptSubnets: true}
	return spec
}

func TestPropertyAnImportEndsAsDeclaredOrTouchesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := specs(testOwner).Draw(t, "made")
		c := bare(t, made)
		c.Networks[0].Name = userTexts().Filter(func(text string) bool {
			return utf8.RuneCountInString(text) <= MaxDescription // as many a name may have
		}).Draw(t, "name")
		spec := made
		if rapid.Bool().Draw(t, "declared otherwise") {
			spec = specs(testOwner).Draw(t, "spec")
		}
		spec = importOf(spec, c, rapid.Bool().Draw(t, "overwrite"))
		names := []string{c.Networks[0].Name}
		for _, s := range c.Networks[0].Subnets {
			names = append(names, s.Name)
		}

		before := c.Everything()
		change, err := Adopt(spec, before.Networks[0])
		if differs, ok := errors.AsType[*DiffersError](err); ok {
			if len(differs.Differences) == 0 || spec.Import.Overwrite {
				t.Fatalf("refused with %d differences, overwrite %t", len(differs.Differences), spec.Import.Overwrite)
			}
			return
		}
		if _, ok := errors.AsType[*BlockedError](err); ok {
			return
		}
		if err != nil || len(change) != 1 || change[0].Action != UpdateNetwork || !change[0].Changes(FieldDescription) {
			t.Fatalf("got %v and the steps\n%s", err, change)
		}
		mustApply(t, c, change)
		mustApply(t, c, mustPlan(t, spec, c))
		followAllocations(t, spec, c)
		if again := mustPlan(t, spec, c); !again.Empty() {
			t.Fatalf("after the import the plan is\n%s", again)
		}
		if again, err := Adopt(spec, c.Networks[0]); err != nil || !again.Empty() {
			t.Fatalf("importing what is imported gives %v and\n%s", err, again)
		}
		if spec.Import.Overwrite {
			return
		}
		kept := []string{c.Networks[0].Name}
		for _, s := range c.Networks[0].Subnets {
			kept = append(kept, s.Name)
		}
		if diff := cmp.Diff(names, kept); diff != "" {
			t.Fatalf("names (-before +after):\n%s", diff)
		}
	})
}

func TestAnOrphanThatWasImportedIsReleasedAndAnyOtherIsDeleted(t *testing.T) {
	for sentence, c := range map[string]struct {
		of          Import
		description string
		want        Action
		// left is the description that a released network has.
		left string
	}{
		"made here":                {Import{}, "a text", DeleteNetwork, ""},
		"imported":                 {Import{ID: "net-1"}, "a text", UpdateNetwork, "a text"},
		"imported and overwritten": {Import{ID: "net-1", Overwrite: true}, "b", UpdateNetwork, "b"},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := Spec{Owner: testOwner, Name: "a", Description: c.description, Import: c.of}
			observed := Observed{Networks: []ObservedNetwork{{ID: "net-1", Attributes: spec.Attributes()}}}
			change, err := Orphan(testOwner, observed)
			if err != nil || len(change) != 1 || change[0].Action != c.want {
				t.Fatalf("got %v and\n%s", err, change)
			}
			if got := change[0].Attributes.Description; c.want == UpdateNetwork && got != c.left {
				t.Errorf("the description becomes %q, want %q", got, c.left)
			}
		})
	}
}

// Routers and interfaces that others made are never ours, so that a router is always yet to be made, or to be given
// interfaces.
func TestAnImportWithARouterDiffersUnlessItMayBeOverwritten(t *testing.T) {
	closed := routedSpec(nil)
	closed.Subnets[0].Gateway = netip.Addr{}
	closed.Subnets[0].Pools = DefaultPools(closed.Subnets[0].CIDR, netip.Addr{})
	for sentence, tc := range map[string]struct {
		made    Spec
		router  RouterSpec
		differs bool
	}{
		"a router of its own":                      {routedSpec(nil), RouterSpec{}, true},
		"a router that exists, without interfaces": {closed, RouterSpec{Existing: "router-1"}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := bare(t, tc.made)
			for _, overwrite := range []bool{false, true} {
				spec := importOf(tc.made, c, overwrite)
				spec.Router = &tc.router
				change, err := Adopt(spec, c.Networks[0])
				differs, refused := errors.AsType[*DiffersError](err)
				if refused != (tc.differs && !overwrite) || !refused && (err != nil || len(change) != 1) {
					t.Errorf("with overwrite %t: %v and\n%s", overwrite, err, change)
				}
				if refused && !strings.HasPrefix(differs.Differences[0].Resource, RouterResource) {
					t.Errorf("the differences are %v", differs.Differences)
				}
			}
		})
	}
}

func TestWhatIsAnothersIsNotImported(t *testing.T) {
	other := Owner{Cluster: testOwner.Cluster, Object: "another"}
	for sentence, c := range map[string]struct {
		change func(*ObservedNetwork)
		says   string
	}{
		"the network": {func(n *ObservedNetwork) { n.Description = other.Describe("x") }, "network net-"},
		"a subnet":    {func(n *ObservedNetwork) { n.Subnets[0].Description = other.Marker() }, "subnet sub-"},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := Spec{Owner: testOwner, Name: "a", Subnets: []Subnet{subnets(cidrs().Example(1)).Example(1)}}
			there := bare(t, spec)
			c.change(&there.Networks[0])
			for _, overwrite := range []bool{false, true} {
				change, err := Adopt(importOf(spec, there, overwrite), there.Networks[0])
				_, owned := errors.AsType[*OwnedError](err)
				if !owned || len(change) > 0 || !strings.Contains(err.Error(), c.says) {
					t.Errorf("overwrite %t: %v and\n%s\nwant an OwnedError that says %q", overwrite, err, change, c.says)
				}
			}
		})
	}
}

func TestAnImportedNetworkIsNeitherMadeNorTakenForADuplicate(t *testing.T) {
	spec := Spec{Owner: testOwner, Name: "a", Import: Import{ID: "net-1"}}
	_, err := Network(spec, Observed{})
	if missing, ok := errors.AsType[*NotMadeError](err); !ok || missing.ID != "net-1" {
		t.Errorf("without the network: %v", err)
	}
	marked := func(id string) ObservedNetwork {
		return ObservedNetwork{ID: id, Attributes: spec.Attributes()}
	}
	for _, networks := range [][]ObservedNetwork{
		{marked("net-0"), marked("net-1")}, {marked("net-1"), marked("net-2")}, {marked("net-2")},
	} {
		change, err := Network(spec, Observed{Networks: networks})
		if _, blocked := errors.AsType[*BlockedError](err); !blocked || len(change) > 0 {
			t.Errorf("with %d networks: %v and\n%s", len(networks), err, change)
		}
	}
}

func TestSubnetsAreAdoptedOfAnImportAlone(t *testing.T) {
	cidr := cidrs().Example(2)
	spec := Spec{Owner: testOwner, Name: "a", Subnets: []Subnet{subnets(cidr).Example(2)}}
	c := bare(t, spec)
	c.Networks[0].Description = spec.Owner.Describe(spec.Description)
	for sentence, how := range map[string]struct {
		of    Import
		adopt bool
	}{
		"a network that is made here":            {Import{}, false},
		"an import that was applied":             {Import{ID: c.Networks[0].ID}, false},
		"an import that is not applied yet":      {Import{ID: c.Networks[0].ID, AdoptSubnets: true}, true},
		"an import that may be overwritten":      {Import{ID: c.Networks[0].ID, AdoptSubnets: true, Overwrite: true}, true},
		"an import that was applied over it":     {Import{ID: c.Networks[0].ID, Overwrite: true}, false},
		"nothing that is imported, whoever asks": {Import{AdoptSubnets: false}, false},
	} {
		spec.Import = how.of
		change, err := Network(spec, c.Everything())
		adopts := slices.ContainsFunc(change, func(s Step) bool { return s.Action == UpdateSubnet })
		if adopts != how.adopt || (err == nil) != how.adopt {
			t.Errorf("%s: adopts %t, want %t: %v and\n%s", sentence, adopts, how.adopt, err, change)
		}
	}
}
