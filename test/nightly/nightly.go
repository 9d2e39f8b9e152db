// Package nightly is for tests that need an idle machine, or hours. They run with NIGHTLY=1 in the environment, and
// with nothing beside them; all others hold whatever the machine does meanwhile. A bound of time that a test can do
// without by day stays in its place, as Took.
package nightly

import (
	"os"
	"testing"
	"time"
)

// Is tells whether this is a nightly run, which tries more.
func Is() bool { return os.Getenv("NIGHTLY") == "1" }

// Only skips a test that does not run by day, and says why.
func Only(t testing.TB, why string) {
	t.Helper()
	if !Is() {
		t.Skipf("only with NIGHTLY=1: %s", why)
	}
}

// Took is how long something took. It can be printed, and compared with Within alone.
type Took struct{ duration time.Duration }

// Since is how long something took that began then.
func Since(began time.Time) Took { return Took{time.Since(began)} }

// Lasted is a time that somebody else measured, such as a browser.
func Lasted(d time.Duration) Took { return Took{d} }

// String is fmt.Stringer's.
func (d Took) String() string { return d.duration.Round(time.Millisecond).String() }

// Within prints how long something took. In a nightly run, it fails the test where that is more than a bound.
func (d Took) Within(t testing.TB, what string, most time.Duration) {
	t.Helper()
	t.Logf("%s: %s", what, d)
	if d.duration > most && Is() {
		t.Errorf("%s: %s, want %s at most", what, d, most)
	}
}
