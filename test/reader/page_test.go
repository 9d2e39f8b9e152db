package reader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestBlocks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n```sh\na \\\n  b\nc\n```\n```yaml\nd: e\n```\n```\n$ f\ng\nh\n$ i\n```\nthis:\n```\nj\n```\n"
	expect.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	got, err := blocks(page)
	expect.NoError(t, err)
	want := [][]command{
		{{line: 3, text: "a \\\n  b\nc"}},
		{{line: 11, text: "f", shown: []string{"g", "h"}}, {line: 14, text: "i"}},
		{{line: 18, shown: []string{"j"}}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(command{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMissing(t *testing.T) {
	const printed = "NAME     READY   AGE\nalice-1510f96d   True   1m5s\nother   True   2s\n" +
		"network 5182aa0b-8999-478d-94b4-ea486faa8c45 is made\n"
	for sentence, test := range map[string]struct {
		shown []string
		want  string
	}{
		"ids, numbers, ages and widths differ": {shown: []string{
			"NAME READY   AGE", "alice-e6e6f967 True 12s", "…", "network 068d42bb-96f5-48f9-849f-0d08dcfe7af6 is made",
		}},
		"a word differs":      {shown: []string{"alice-1510f96d   False   1m5s"}, want: "alice-1510f96d   False   1m5s"},
		"a line begins so":    {shown: []string{"NAME READY…"}},
		"a line begins other": {shown: []string{"NAME NODE…"}, want: "NAME NODE…"},
		"a column is missing": {shown: []string{"NAME READY NODE AGE"}, want: "NAME READY NODE AGE"},
		"the order differs":   {shown: []string{"other True 2s", "NAME READY AGE"}, want: "NAME READY AGE"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := missing(test.shown, printed); got != test.want {
				t.Errorf("missing is %q, want %q", got, test.want)
			}
		})
	}
}
