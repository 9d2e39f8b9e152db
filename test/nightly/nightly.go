// Package nightly marks the tests that only a nightly run pays for: long draws, soaks, and what needs the machine for
// itself.
package nightly

import (
	"os"
	"testing"
)

// Only skips a test unless NIGHTLY=1. why says what makes it too expensive, or too sensitive, for each change.
func Only(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("NIGHTLY") != "1" {
		t.Skip("only in nightly runs (NIGHTLY=1): " + why)
	}
}
