package nightly

import (
	"testing"
	"time"
)

// recorded is a test that notes whether it failed.
type recorded struct {
	testing.TB
	failed bool
}

func (r *recorded) Logf(string, ...any)   {}
func (r *recorded) Errorf(string, ...any) { r.failed = true }

func TestABoundOfTimeHoldsAtNightAlone(t *testing.T) {
	for _, c := range []struct {
		night  string
		took   time.Duration
		failed bool
	}{
		{"", time.Hour, false}, {"0", time.Hour, false}, {"1", time.Hour, true}, {"1", time.Minute, false},
	} {
		t.Setenv("NIGHTLY", c.night)
		r := &recorded{TB: t}
		Lasted(c.took).Within(r, "it", time.Minute)
		if r.failed != c.failed {
			t.Errorf("NIGHTLY=%s: %s in the place of a minute fails: %t, want %t", c.night, c.took, r.failed, c.failed)
		}
	}
}
