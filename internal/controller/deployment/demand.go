package deployment

import (
	"slices"
	"time"
)

// DefaultCooldown is the default for how long a pool stays as large as it was needed. It is twice the time that a Pod
// has to end by default (30 s, terminationGracePeriodSeconds in k8s.io/api/core/v1): in a rolling update the next
// Pods end about when those before them are gone.
const DefaultCooldown = time.Minute

// demand is how many ports a pool needs, and how many it needed recently. A rolling update needs more and fewer ports
// several times within seconds. Each port that is given up meanwhile costs a call to Neutron, and so does the next
// one that is made. The idea is that of the HorizontalPodAutoscaler's downscale stabilization: the maximum within a
// time counts.
//
// It is kept in memory alone. A process that starts takes all existing ports for needed until then: it may keep some of
// them for one cool-down longer, and deletes none too early.
//
// A demand does not change; next makes a new one.
type demand struct {
	want int
	// peaks are those above want that still count, in the order of their ends. The largest is the first: a peak before a
	// larger one does not matter.
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

// spare is how many ports may stay beyond those that are needed, and until when so many may; the zero time where
// there are none.
func (d demand) spare(cooldown time.Duration) (ports int, until time.Time) {
	if len(d.peaks) == 0 {
		return 0, time.Time{}
	}
	return d.peaks[0].want - d.want, d.peaks[0].end.Add(cooldown)
}
