// Package metrictest reads metrics in tests.
package metrictest

import (
	"slices"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Value returns the value of a metric whose labels have these values, in any order, and of a histogram the number of
// its observations. It returns 0 if nothing set it.
func Value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(labels)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, label := range m.GetLabel() {
				values = append(values, label.GetValue())
			}
			slices.Sort(values)
			if slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}
