package nightly

import (
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
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
		expect.Equal(t, c.failed, r.failed, "NIGHTLY=%s: %s in the place of a minute fails", c.night, c.took)
	}
}
