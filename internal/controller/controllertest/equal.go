package controllertest

import (
	gocmp "github.com/google/go-cmp/cmp"
)

// reporter is a test, drawn or not.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// WantEqual fails the test where a value, which the message calls what, is not as it should be.
func WantEqual(t reporter, what string, want, got any, options ...gocmp.Option) {
	t.Helper()
	if diff := gocmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
