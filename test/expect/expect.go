// Package expect has the checks that tests make most often.
package expect

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
)

// T is the part of testing.TB that the checks need. rapid.T has it, too.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// NoError ends the test where there is an error.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal fails the test where two values differ, and shows how. The format says what they are.
func Equal(t T, want, got any, format string, args ...any) {
	t.Helper()
	EqualWith(t, nil, want, got, format, args...)
}

// EqualWith is Equal for values that are equal by some options.
func EqualWith(t T, options cmp.Options, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}
