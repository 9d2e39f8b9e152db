package metric

import (
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	events = Histogram("test_events_seconds", "Events.", []float64{1, 2})
	depth  = NewComputed("test_depth", "Depth, by kind.", "kind")
)

func TestMetricsAreServed(t *testing.T) {
	Register()
	observed := uint64(0)
	depths := func() int {
		t.Helper()
		families, err := legacyregistry.DefaultGatherer.Gather()
		expect.NoError(t, err)
		for _, family := range families {
			switch family.GetName() {
			case "test_events_seconds":
				h := family.Metric[0].GetHistogram()
				observed = h.GetSampleCount()
				if h.Schema == nil || len(h.Bucket) != 2 {
					t.Errorf("want a native histogram with two buckets, got %v", h)
				}
			case "test_depth":
				return len(family.Metric)
			}
		}
		return 0
	}
	expect.Equal(t, 0, depths(), "values that nobody computed")
	before := observed
	events.Observe(1.5)
	depths()
	expect.Equal(t, before+1, observed, "observations")
	former := Compute(func(set Set) { set(depth, 1, "a") })
	stop := Compute(func(set Set) { set(depth, 1, "a"); set(depth, 2, "b") })
	former()
	expect.Equal(t, 2, depths(), "values of the last to compute them")
	stop()
	expect.Equal(t, 0, depths(), "values after the end")
}

func TestAllHasEachMetricOnce(t *testing.T) {
	all := All()
	if len(all) != 2 || all[0].Name != "test_depth" || all[1].Type != "histogram" || all[0].Labels[0] != "kind" {
		t.Errorf("got %v", all)
	}
}
