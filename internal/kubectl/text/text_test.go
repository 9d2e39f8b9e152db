package text_test

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestPlainShowsWhatIsThere(t *testing.T) {
	for given, want := range map[string]string{
		"Zürich 网络 e\u0301": "Zürich 网络 e\u0301",
		"a\x1b[2Jb\nc":      "a [2Jb c",
		"\u202egnp.exe":     " gnp.exe", // turns the direction
		"ad\u200bmin\ufeff": "ad min ",  // has no width
		"a\u2066b\u2069":    "a b ",
	} {
		expect.Equal(t, want, text.Plain(given), "what is plain of %+q", given)
	}
}
