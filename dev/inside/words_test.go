package inside

import (
	"regexp"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTheWordsOfThePageAreInChineseToo finds them in the page's own files, as a reader sees them.
func TestTheWordsOfThePageAreInChineseToo(t *testing.T) {
	read := func(name string) string {
		content, err := assets.ReadFile("assets/" + name)
		expect.NoError(t, err)
		return string(content)
	}
	var words []string
	for _, in := range []struct{ file, pattern string }{
		{"index.html", `>\s*([A-Za-z][^<]*?)\s*<`},
		{"index.html", `aria-label="([^"]+)"`},
		{"app.js", "say`([^`]*)`"},
		{"app.js", `(?m)^  \['\w+', '([A-Z][^']*)', '([^']+)'\]`}, // the stages
		{"app.js", `\['\w+', '\w+', '\w+', '([^']+)'\]`},          // the arrows
	} {
		found := regexp.MustCompile(in.pattern).FindAllStringSubmatch(read(in.file), -1)
		if found == nil {
			t.Errorf("%s has no %s", in.file, in.pattern)
		}
		for _, match := range found {
			words = append(words, match[1:]...)
		}
	}
	for _, action := range (World{Lose: func() {}}).Actions() {
		words = append(words, action.Label, action.Shows)
	}
	values := regexp.MustCompile(`\$\{[^}]*\}`)
	chinese := read("zh.js")
	for _, word := range words {
		word = values.ReplaceAllString(word, "{}")
		expect.Contains(t, chinese, "\n  '"+word+"':", "zh.js")
	}
}
