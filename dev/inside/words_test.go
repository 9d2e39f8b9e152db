package inside

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestEachEventIsSaidInBothLanguages holds that both sentences name the same facts. TestInside of test/ui sees that each
// event has some.
func TestEachEventIsSaidInBothLanguages(t *testing.T) {
	content, err := assets.ReadFile("assets/events.js")
	expect.NoError(t, err)
	line := regexp.MustCompile(`(?m)^  '([a-z]+)( [\w ]+)?': \['((?:[^'\\]|\\.)*)',\s+'([^']*)'\],$`)
	values := regexp.MustCompile(`\{\w*\}`)
	found := line.FindAllStringSubmatch(string(content), -1)
	expect.Len(t, strings.Count(string(content), "': ["), found, "sentences that are read")
	for _, of := range found {
		english, chinese := values.FindAllString(of[3], -1), values.FindAllString(of[4], -1)
		slices.Sort(english)
		slices.Sort(chinese)
		expect.Equal(t, english, chinese, "what the sentences of %q name", of[1]+of[2])
	}
}

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
