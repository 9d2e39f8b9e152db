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
)

// seedFlag is rapid's flag of the seed that it begins with; 0 has it take one at random.
const seedFlag = "rapid.seed"

// seedsApart is how far the seeds of two lanes are apart: rapid adds to the one that it begins with.
const seedsApart = 1_000_000

// anew has other sequences drawn than the last time.
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

// Check runs rapid.Check n times at a time, in subtests a, b, c and so on. Each draws its own sequences. They are the
// same each time, so that a change is held to what held before it.
func Check(t *testing.T, n int, property func(*rapid.T)) {
	choose := !*anew && flag.Lookup(seedFlag).Value.String() == "0"
	var seeding sync.Mutex
	for i := range n {
		t.Run(string(rune('a'+i)), func(t *testing.T) {
			t.Parallel()
			// rapid has one seed for the whole process, and reads it before it calls what it checks.
			seeding.Lock()
			seeded := sync.OnceFunc(seeding.Unlock)
			defer seeded()
			if choose {
				if err := flag.Set(seedFlag, strconv.Itoa(1+i*seedsApart)); err != nil {
					t.Fatal(err)
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				seeded()
				property(t)
			})
		})
	}
}
