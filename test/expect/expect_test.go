package expect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// recorder is a test that notes how it failed.
type recorder struct{ failed, ended string }

func (*recorder) Helper()                             {}
func (r *recorder) Errorf(format string, args ...any) { r.failed += fmt.Sprintf(format, args...) }
func (r *recorder) Fatal(args ...any)                 { r.ended += fmt.Sprint(args...) }

func TestChecksFailTests(t *testing.T) {
	var r recorder
	NoError(&r, nil)
	Equal(&r, []int{1}, []int{1}, "the numbers")
	Empty(&r, []int{}, "the numbers")
	Len(&r, 1, map[string]int{"a": 1}, "the numbers")
	Contains(&r, "one two", "two", "the text")
	ErrorSays(&r, errors.New("it is broken"), "broken")
	if r != (recorder{}) {
		t.Errorf("what is as it should be fails a test: %+v", r)
	}
	NoError(&r, errors.New("broken"))
	Equal(&r, []int{1}, []int{2}, "the numbers of %s", "x")
	if r.ended != "broken" || !strings.HasPrefix(r.failed, "the numbers of x (-want +got):\n") {
		t.Errorf("what is wrong is told as %+v", r)
	}
	for want, check := range map[string]func(t T){
		"the numbers of x: 1, want 0: [1]":             func(t T) { Empty(t, []int{1}, "the numbers of %s", "x") },
		"the text of x lacks \"two\":\none":            func(t T) { Contains(t, "one", "two", "the text of %s", "x") },
		`error <nil>, want one that says "broken"`:     func(t T) { ErrorSays(t, nil, "broken") },
		`error it is odd, want one that says "broken"`: func(t T) { ErrorSays(t, errors.New("it is odd"), "broken") },
	} {
		r = recorder{}
		check(&r)
		Equal(t, want, r.failed, "what is wrong is told as")
	}
}
