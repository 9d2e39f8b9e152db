package controllertest

import (
	"maps"
	"slices"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Of a kind that it forgets, a test's cloud shows nothing and breaks nothing.
func TestACloudKnowsEachKind(t *testing.T) {
	each := plantest.OneOfEach(reader)
	for _, r := range each.Resources() {
		if !slices.Contains(slices.Collect(maps.Values(kinds)), r.Kind) {
			t.Errorf("kinds lacks the kind %q: write its collection there and in prefixes, and show it in see and in Listing "+
				"(neutron.go)", r.Kind)
		}
	}
	removed, err := plan.Delete(reader, each)
	expect.NoError(t, err)
	for _, step := range slices.Concat(removed, plan.Release(reader, each)) {
		if !slices.Contains(slices.Collect(maps.Values(writes)), step.Action) {
			t.Errorf("writes lacks %q: write there the requests for all actions of its kind", step.Action)
		}
	}
}
