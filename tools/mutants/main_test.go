package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const sample = "./testdata/sample"

func TestWhatNoTestCatchesIsReported(t *testing.T) {
	hang = 10 * time.Second // the tests of the sample take milliseconds
	var out strings.Builder
	expect.NoError(t, run(&out, 0, 1, []string{sample}))
	want := `testdata/sample/sample.go:6:5: lived: n < 0 → n <= 0
testdata/sample/sample.go:36:5: not covered: a > b || a == "" → a > b && a == ""
testdata/sample/sample.go:36:5: not covered: a > b → a <= b
testdata/sample/sample.go:36:5: not covered: a > b → a >= b
testdata/sample/sample.go:36:14: not covered: a == "" → a != ""

| package | mutants | caught | not covered | lived | share caught |
| --- | ---: | ---: | ---: | ---: | ---: |
` + "| `tools/mutants/testdata/sample` | 19 | 14 | 4 | 1 | 73.7 % |\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestASampleIsTheSameEachTime(t *testing.T) {
	all := make([]*mutant, 40)
	for i := range all {
		all[i] = &mutant{id: i, was: fmt.Sprint("a", i), is: "b"}
	}
	ids := func(seed int) (ids []int) {
		for _, m := range draw(all, 10, seed) {
			ids = append(ids, m.id)
		}
		return ids
	}
	if a, b := ids(1), ids(1); len(a) != 10 || !cmp.Equal(a, b) {
		t.Errorf("it drew %v and %v", a, b)
	}
	if a, b := ids(1), ids(2); cmp.Equal(a, b) {
		t.Errorf("two seeds drew %v", a)
	}
	expect.Len(t, len(all), draw(all, 0, 1), "how many it drew of all")
}
