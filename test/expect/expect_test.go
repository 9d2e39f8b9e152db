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
	if r != (recorder{}) {
		t.Errorf("what is as it should be fails a test: %+v", r)
	}
	NoError(&r, errors.New("broken"))
	Equal(&r, []int{1}, []int{2}, "the numbers of %s", "x")
	if r.ended != "broken" || !strings.HasPrefix(r.failed, "the numbers of x (-want +got):\n") {
		t.Errorf("what is wrong is told as %+v", r)
	}
}
