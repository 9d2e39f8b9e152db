package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestFragmentsExpand(t *testing.T) {
	known, err := parse(map[string]string{
		"isManaged": `self.policy != 'Observe'`,
		"isEven(n)": `n % 2 == 0`,
		"subnet(text, c)": `
			[text]
			.filter(c, isCIDR(c))
			.map(c, cidr(c))`,
		"bothEven(a, b)": `
			$isEven(a) &&
			$isEven(b)`,
	})
	expect.NoError(t, err)
	for expression, want := range map[string]string{
		"self.size() > 0":                      "self.size() > 0",
		"$isManaged || true":                   "self.policy != 'Observe' || true",
		"!($isEven(self.n))":                   "!(self.n % 2 == 0)",
		"$isEven(f(x, [y])) ":                  "f(x, [y]) % 2 == 0 ",
		"$subnet(self.cidr, d).all(d, d.c())":  "[self.cidr].filter(d, isCIDR(d)).map(d, cidr(d)).all(d, d.c())",
		"$bothEven(b, a)":                      "b % 2 == 0 && a % 2 == 0",
		"$isEven($isEven(1) ? 2 : 3)":          "1 % 2 == 0 ? 2 : 3 % 2 == 0",
		"self.matches('^a$isEven(')":           "self.matches('^a$isEven(')",
		`$isEven(size('a, \'b')) && c == "$c"`: `size('a, \'b') % 2 == 0 && c == "$c"`,
	} {
		got, err := expand(expression, known, map[string]bool{})
		if err != nil || got != want {
			t.Errorf("%s: %q, error %v; want %q", expression, got, err, want)
		}
	}
}

func TestParametersAreReplacedAsWholeWordsOnly(t *testing.T) {
	known, err := parse(map[string]string{"f(c)": `c.c == cc && 'c' != 9223372036854775807c(c)`})
	expect.NoError(t, err)
	got, err := expand("$f(self.x)", known, map[string]bool{})
	if want := `self.x.c == cc && 'c' != 9223372036854775807c(self.x)`; err != nil || got != want {
		t.Errorf("%q, error %v; want %q", got, err, want)
	}
}

func TestMistakesInFragmentsSayWhatToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fragments  map[string]string
		expression string
		want       string
	}{
		"an unknown fragment":         {nil, "$x", "there is no fragment $x"},
		"no arguments":                {map[string]string{"x(a)": "a"}, "$x", "write $x(a)"},
		"empty arguments":             {map[string]string{"x(a)": "a"}, "$x()", "write $x(a)"},
		"too many arguments":          {map[string]string{"x(a)": "a"}, "$x(1, 2)", "write $x(a)"},
		"an open parenthesis":         {map[string]string{"x(a)": "a"}, "$x(1", "write $x(a)"},
		"a fragment that uses itself": {map[string]string{"x": "$y", "y": "$x"}, "$x", "uses itself"},
		"a malformed declaration":     {map[string]string{"x(": "a"}, "true", "write a name"},
		"two of one name":             {map[string]string{"x(a)": "a", "x(b)": "b"}, "true", "defined twice"},
	} {
		t.Run(name, func(t *testing.T) {
			known, err := parse(c.fragments)
			if err == nil {
				_, err = expand(c.expression, known, map[string]bool{})
			}
			expect.ErrorSays(t, err, c.want)
		})
	}
}

func TestTheGeneratedRulesHaveNoFragmentLeft(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs, error %v", err)
	}
	known, err := parse(fragments)
	expect.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		expect.NoError(t, err)
		for name := range known {
			if strings.Contains(string(content), "$"+name) {
				t.Errorf("%s has $%s: run `make generate`", file, name)
			}
		}
	}
}
