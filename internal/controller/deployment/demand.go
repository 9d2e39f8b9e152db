package deployment

import (
	"slices"
	"time"
)

// DefaultCooldown is for how long a pool stays as large as it was needed, where nobody says otherwise. It is twice what
// a Pod has to end by default (30 s, terminationGracePeriodSeconds in k8s.io/api/core/v1), as a rolling update has the
// next Pods end about when those before them have.
const DefaultCooldown = time.Minute

// demand is how many ports a pool needs, and how many it needed of late. A rolling update needs more and fewer of them
// several times within seconds; each port that is given up meanwhile is a call to Neutron, and so is the next one that
// is made. The idea is that of the HorizontalPodAutoscaler's downscale stabilization: what counts is the most that was
// wanted within a time.
//
// It is kept in memory alone. A process that begins takes all ports that exist for needed up to then, so that it may
// keep some of them for one cool-down longer, and deletes none too early.
//
// A demand is not changed; next makes a new one.
type demand struct {
	want int
	// peaks are those above want that still count, in the order of their ends, which is that of their sizes: the largest
	// is the first. One that came before a larger one tells nothing.
	peaks []peak
}

// peak is how many ports a pool needed until a time.
type peak struct {
	want int
	end  time.Time
}

// next is the demand once want ports are needed.
func (d demand) next(want int, now time.Time, cooldown time.Duration) demand {
	peaks := slices.Clone(d.peaks)
	if want < d.want {
		peaks = append(peaks, peak{d.want, now})
	}
	peaks = slices.DeleteFunc(peaks, func(p peak) bool { return p.want <= want || now.Sub(p.end) >= cooldown })
	return demand{want, peaks}
}

// spare is how many ports beyond those that are needed may stay, and until when as many may. There is no such time
// where there are none.
func (d demand) spare(cooldown time.Duration) (ports int, until time.Time) {
	if len(d.peaks) == 0 {
		return 0, time.Time{}
	}
	return d.peaks[0].want - d.want, d.peaks[0].end.Add(cooldown)
}
