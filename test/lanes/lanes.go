// Package lanes runs several sequences of steps that rapid draws at a time. A sequence waits far more than it works.
//
// Only tests import it.
package lanes

import (
	"flag"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// seedFlag is rapid's flag of the seed that it begins with; 0 has it take one at random.
const seedFlag = "rapid.seed"

// seedsApart is how far the seeds of two lanes are apart: rapid adds to the one that it begins with.
const seedsApart = 1_000_000

// again has other sequences drawn than the last time.
var anew = flag.Bool("anew", false, "draw other sequences than the last time; -"+seedFlag+" draws those of a seed")

// SetDefaults sets flags of rapid, whose own values are meant for microseconds. The command line is read later, and
// wins. TestMain calls it.
func SetDefaults(values map[string]string) {
	for name, value := range values {
		if err := flag.Set(name, value); err != nil {
			panic(err) // package rapid has the flags
		}
	}
}

// Check is rapid.Check. The test may be in a bubble of testing/synctest.
type Check func(t *testing.T, property func(*rapid.T))

// seeding guards the one seed that rapid has for the whole process, and that it reads before it calls what it checks.
var seeding sync.Mutex

// Run runs n lanes at a time, in subtests a, b, c and so on. Each calls its check once, which draws its own sequences.
// They are the same each time, so that a change is held to what held before it.
func Run(t *testing.T, n int, lane func(t *testing.T, check Check)) {
	check := checks()
	for i := range n {
		t.Run(string(rune('a'+i)), func(t *testing.T) {
			t.Parallel()
			lane(t, check(i))
		})
	}
}

// Draw is the check of one lane, in the test itself.
func Draw(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks()(0)(t, property)
}

// checks gives the check of each lane, by its number.
func checks() func(lane int) Check {
	choose := !*anew && flag.Lookup(seedFlag).Value.String() == "0"
	return func(lane int) Check {
		return func(t *testing.T, property func(*rapid.T)) {
			t.Helper()
			seeding.Lock()
			seeded := sync.OnceFunc(seeding.Unlock)
			defer seeded()
			if choose {
				expect.NoError(t, flag.Set(seedFlag, strconv.Itoa(1+lane*seedsApart)))
			}
			rapid.Check(timeless{t}, func(t *rapid.T) {
				seeded()
				property(t)
			})
		}
	}
}

// timeless hides from rapid that a test has a deadline, for which a bubble has no answer.
type timeless struct{ *testing.T }
