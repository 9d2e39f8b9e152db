package cyclonus

import (
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// texts are those of cases.
func texts(cases []Case) (texts []string) {
	for _, c := range cases {
		texts = append(texts, c.Text)
	}
	return texts
}

func TestASeedDrawsTheSameCases(t *testing.T) {
	all := texts(Cases())
	for seed := range uint64(20) {
		drawn := Draw(seed, 6)
		expect.Equal(t, texts(slices.Concat(Draw(seed, 6)...)), texts(slices.Concat(drawn...)), "cases of seed %d", seed)
		for i, cases := range drawn {
			expect.Equal(t, len(Namespaces), len(cases), "cases of a round")
			for _, c := range cases {
				if !slices.Contains(all, c.Text) || c.Ingress != (i%2 == 0) {
					t.Errorf("seed %d draws %+v in round %d", seed, c, i)
				}
			}
		}
	}
	if slices.Equal(texts(slices.Concat(Draw(1, 6)...)), texts(slices.Concat(Draw(2, 6)...))) {
		t.Error("two seeds draw the same cases")
	}
}

// A sample without a form would be blind for it.
func TestEachFormOfPeersIsDrawn(t *testing.T) {
	rounds := (len(allPeers) + len(Namespaces) - 1) / len(Namespaces)
	for seed := range uint64(20) {
		drawn := texts(slices.Concat(Draw(seed, rounds)...))
		for _, peers := range allPeers[2:] { // that have words of their own
			if !slices.ContainsFunc(drawn, func(text string) bool { return strings.Contains(text, "["+peers+"]") }) {
				t.Errorf("seed %d draws no %s", seed, peers)
			}
		}
	}
}
