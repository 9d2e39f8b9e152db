package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
)

// settings are the fields of resources that exist, in which others can change them.
var settings = []string{
	FieldName, FieldDescription, FieldAdminState, FieldMTU, FieldPortSecurity, FieldGateway, FieldAllocationPools,
	FieldDHCP, FieldDNSServers, FieldHostRoutes, FieldAddresses, FieldMAC, FieldSecurityGroups,
	FieldQoSPolicy, FieldDNSName, FieldAddressPairs,
}

// requireWithout holds what a change without some fields is, from the specification.
func requireWithout(t *rapid.T, change Change) (rest Change, fields []string) {
	fields = rapid.SliceOfDistinct(rapid.SampledFrom(settings), rapid.ID).Draw(t, "fields")
	before, whole := slices.Clone(change), change.String()
	rest = change.Without(fields...)
	if diff := cmp.Diff(before, change, addresses); diff != "" || change.String() != whole {
		t.Fatalf("the change was written to:\n%s", diff)
	}
	var want []Difference
	completes := func(d Difference) bool { // what belongs to a creation is not ignored
		return slices.ContainsFunc(change, func(s Step) bool { return s.Completes() && slices.Contains(s.Differences, d) })
	}
	for _, d := range change.Differences() {
		if !slices.Contains(fields, d.Field) || completes(d) {
			want = append(want, d)
		}
	}
	if diff := cmp.Diff(want, rest.Differences()); diff != "" {
		t.Fatalf("differences without %q (-want +got):\n%s", fields, diff)
	}
	lives := func(s Step) bool {
		return slices.Contains([]Action{UpdateNetwork, UpdateSubnet, UpdatePort, UpdateFloatingIP}, s.Action)
	}
	rests := func(c Change) (others []Step) {
		return slices.DeleteFunc(slices.Clone(c), lives)
	}
	if diff := cmp.Diff(rests(change), rests(rest), addresses, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("steps other than updates without %q (-want +got):\n%s", fields, diff)
	}
	for _, s := range rest {
		if lives(s) && len(s.Differences) == 0 {
			t.Fatalf("a step that settles nothing is left: %s", s)
		}
	}
	return rest, fields
}

func TestPropertyWhatIsIgnoredIsLeftAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenes().Draw(t, "scene")
		change, err := Network(s.spec, s.cloud.Observe(testOwner))
		if err != nil {
			t.SkipNow()
		}
		rest, fields := requireWithout(t, change)
		if s.cloud.apply(rest) != nil {
			// Neutron refuses a gateway in a pool: what is ignored may stand in the way of what is not.
			if !slices.Contains(fields, FieldGateway) && !slices.Contains(fields, FieldAllocationPools) {
				t.Fatalf("Neutron refuses\n%s\nof\n%s", rest, change)
			}
			return
		}
		// What follows from CIDRs that were taken from pools.
		if s.cloud.apply(mustPlan(t, s.spec, s.cloud).Without(fields...)) != nil {
			return
		}
		for _, d := range mustPlan(t, s.spec, s.cloud).Differences() {
			if !slices.Contains(fields, d.Field) {
				t.Fatalf("%s differs after all but %q was applied", d, fields)
			}
		}
	})
}

func TestPropertyWhatIsIgnoredOfAPortIsLeftAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := portScenes().Draw(t, "scene")
		change, err := Port(s.spec, s.cloud.Observe(s.spec.Owner))
		if err != nil {
			t.SkipNow()
		}
		requireWithout(t, change)
	})
}

func TestNothingIgnoredIsTheChangeItself(t *testing.T) {
	change := Change{{Action: UpdateNetwork, Differences: []Difference{{NetworkResource, FieldMTU, "1400", "1500"}}}}
	for sentence, fields := range map[string][]string{
		"no fields": nil, "others than those that differ": {FieldName}, "existence": {FieldExists},
	} {
		wantEqual(t, change, change.Without(fields...), "%s", sentence)
	}
}
