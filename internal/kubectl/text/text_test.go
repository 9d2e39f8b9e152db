package text_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
)

func TestPlainShowsWhatIsThere(t *testing.T) {
	for given, want := range map[string]string{
		"Zürich 网络 e\u0301": "Zürich 网络 e\u0301",
		"a\x1b[2Jb\nc":      "a [2Jb c",
		"\u202egnp.exe":     " gnp.exe", // turns the direction
		"ad\u200bmin\ufeff": "ad min ",  // has no width
		"a\u2066b\u2069":    "a b ",
	} {
		if got := text.Plain(given); got != want {
			t.Errorf("%+q became %+q, want %+q", given, got, want)
		}
	}
}
