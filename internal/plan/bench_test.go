package plan_test

import (
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
)

// BenchmarkPlan is what it costs to find that all is as declared, and what is to be done where nothing exists.
func BenchmarkPlan(b *testing.B) {
	for name, observed := range map[string]Observed{
		"at rest": observedWith(func(*ObservedNetwork) {}),
		"nothing": {},
	} {
		b.Run(name, func(b *testing.B) {
			spec := declaredSpec()
			b.ReportAllocs()
			for b.Loop() {
				change, err := Network(spec, observed)
				if err != nil || change.Empty() != (name == "at rest") {
					b.Fatal(change, err)
				}
			}
		})
	}
}
