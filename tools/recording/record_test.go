package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The README's picture says what docs/demo.md says.
func TestThePictureIsAsNewAsItsPage(t *testing.T) {
	page, err := os.ReadFile("../../" + source)
	expect.NoError(t, err)
	want, err := Record(string(page))
	expect.NoError(t, err)
	got, err := os.ReadFile("../../" + picture)
	expect.NoError(t, err)
	expect.Equal(t, want, string(got), "%s lags behind %s: run go run ./tools/recording", picture, source)
	if len(got) > 150_000 {
		t.Errorf("%s has %d bytes, more than 150,000", picture, len(got))
	}
	for decoder := xml.NewDecoder(strings.NewReader(want)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is not XML: %v", err)
		}
		if text, ok := token.(xml.CharData); ok && strings.HasPrefix(string(text), "   ") {
			if n := utf8.RuneCount(text); n > columns && !strings.Contains(string(text), "{") {
				t.Errorf("a line of %d letters is wider than the screen, which has %d: %s", n, columns, text)
			}
		}
	}
}

func TestLayOut(t *testing.T) {
	got := layOut([]string{
		"9. Run Pods",
		"   Because.",
		"   $ kubectl get ports",
		"   NAME    ID                                     NODE   AGE",
		"   web-0   69871868-2721-4864-894d-d841cc7ffaae          0s",
		"   web-1                                                 12s",
		"   ✓ done",
		"   " + strings.Repeat("long ", 18),
	})
	want := []line{
		{"t", "9. Run Pods"},
		{"f", "   Because."},
		{"c", "   $ kubectl get ports"},
		{"o", "   NAME   ID"},
		{"o", "   web-0  69871868…"},
		{"o", "   web-1"},
		{"g", "   ✓ done"},
		{"o", "   " + strings.TrimSpace(strings.Repeat("long ", 17))},
		{"o", "     long "},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecordRefusesWhatItCannotShow(t *testing.T) {
	for page, want := range map[string]string{
		"no block":               "no code block",
		"\n```\n3. Apply\n```\n": "no step 5",
	} {
		if _, err := Record(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
