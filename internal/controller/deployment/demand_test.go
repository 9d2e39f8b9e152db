package deployment

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestDemand(t *testing.T) {
	const cooldown = 10 * time.Second
	type look struct{ at, want int } // seconds, ports
	for name, c := range map[string]struct {
		looks []look
		spare int
		until int // seconds
	}{
		"a demand that never was larger has none to spare":    {[]look{{0, 3}, {1, 5}, {2, 5}}, 0, 0},
		"what was wanted until now counts from now":           {[]look{{0, 5}, {100, 3}}, 2, 110},
		"the largest counts until its time is over":           {[]look{{0, 5}, {1, 4}, {5, 3}}, 2, 11},
		"then the next one does":                              {[]look{{0, 5}, {1, 4}, {5, 3}, {11, 3}}, 1, 15},
		"in the end none does":                                {[]look{{0, 5}, {1, 4}, {5, 3}, {15, 3}}, 0, 0},
		"a demand that grows has that fewer to spare":         {[]look{{0, 5}, {1, 2}, {2, 4}}, 1, 11},
		"one that grows beyond what was begins anew":          {[]look{{0, 5}, {1, 2}, {2, 6}, {30, 4}}, 2, 40},
		"one that comes back counts until it was last wanted": {[]look{{0, 5}, {1, 2}, {9, 5}, {10, 2}, {12, 2}}, 3, 20},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(0, 0)
			var d demand
			for _, l := range c.looks {
				d = d.next(l.want, begin.Add(time.Duration(l.at)*time.Second), cooldown)
			}
			spare, until := d.spare(cooldown)
			want := time.Time{}
			if c.until > 0 {
				want = begin.Add(time.Duration(c.until) * time.Second)
			}
			if spare != c.spare || !until.Equal(want) {
				t.Errorf("%d to spare until %s, want %d until %s", spare, until, c.spare, want)
			}
		})
	}
}

func TestADemandIsTheMostOfLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cooldown := time.Duration(rapid.IntRange(0, 20).Draw(t, "cool-down")) * time.Second
		now := time.Unix(0, 0)
		var d demand
		var all []peak
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pause")) * time.Second)
			want := rapid.IntRange(0, 8).Draw(t, "want")
			// What was wanted before was wanted until now.
			all = append(all, peak{d.want, now})
			before := slices.Clone(d.peaks)
			next := d.next(want, now, cooldown)
			expect.EqualWith(t, cmp.Options{cmp.AllowUnexported(peak{})}, before, slices.Clone(d.peaks), "a demand was changed")
			d = next
			most := want
			for _, p := range all {
				if now.Before(p.end.Add(cooldown)) {
					most = max(most, p.want)
				}
			}
			spare, until := d.spare(cooldown)
			expect.Equal(t, most, d.want+spare, "%d wanted and %d spared, together", d.want, spare)
			if spare > 0 && !until.After(now) {
				t.Errorf("%d are spared until %s, which is over at %s", spare, until, now)
			}
		}
	})
}
