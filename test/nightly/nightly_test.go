package nightly

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
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
		if r.failed != c.failed {
			t.Errorf("NIGHTLY=%s: %s in the place of a minute fails: %t, want %t", c.night, c.took, r.failed, c.failed)
		}
	}
}

// TestFilesOfNightlyTestsHoldNothingElse: the rule of .golangci.yml against comparisons of measured time does not look
// into files of this name.
func TestFilesOfNightlyTestsHoldNothingElse(t *testing.T) {
	function := regexp.MustCompile(`(?m)^func .*\n.*`)
	begins := regexp.MustCompile(`^func Test\w+\(t \*testing\.T\) \{\n\tnightly\.Only\(t, "`)
	files := 0
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_nightly_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, is := range function.FindAll(text, -1) {
			if !begins.Match(is) {
				t.Errorf("%s: this is no test that begins with nightly.Only:\n%s", path, is)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were read, error %v", files, err)
	}
}
