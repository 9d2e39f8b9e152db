// Package expect has the checks that tests make most often.
package expect

import (
	"fmt"
	"reflect"
	"strings"

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

// allFields has cmp look at fields that are not exported, too.
var allFields = cmp.Exporter(func(reflect.Type) bool { return true })

// Equal fails the test where two values differ, and shows how. The format says what they are.
func Equal(t T, want, got any, format string, args ...any) {
	t.Helper()
	EqualWith(t, cmp.Options{allFields}, want, got, format, args...)
}

// EqualWith is Equal for values that are equal by some options. They say what to do with fields that are not exported.
func EqualWith(t T, options cmp.Options, want, got any, format string, args ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Len fails the test where a list, map or text has another length, and shows it. The format says what it is.
func Len(t T, want int, got any, format string, args ...any) {
	t.Helper()
	if have := reflect.ValueOf(got).Len(); have != want {
		t.Errorf("%s: %d, want %d: %v", fmt.Sprintf(format, args...), have, want, got)
	}
}

// Empty is Len for what has nothing in it.
func Empty(t T, got any, format string, args ...any) {
	t.Helper()
	Len(t, 0, got, format, args...)
}

// Contains fails the test where a text lacks a part, and shows both. The format says what the text is.
func Contains(t T, text, part, format string, args ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s lacks %q:\n%s", fmt.Sprintf(format, args...), part, text)
	}
}

// ErrorSays fails the test where there is no error, or one whose text lacks a part.
func ErrorSays(t T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want one that says %q", err, part)
	}
}
