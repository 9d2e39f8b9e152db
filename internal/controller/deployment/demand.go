package deployment

import (
	"slices"
	"time"
)

// DefaultCooldown is how long by default a pool keeps its size after it was needed. It is twice the time that a Pod has
// to end by default (30 s, terminationGracePeriodSeconds in k8s.io/api/core/v1). In a rolling update, the next Pods end
// about when the previous ones are gone.
const DefaultCooldown = time.Minute

// demand is how many ports a pool needs, and how many it needed recently. A rolling update needs more and fewer ports
// several times within seconds. Each port that is deleted meanwhile costs a call to Neutron, and so does its
// replacement. As in the HorizontalPodAutoscaler's downscale stabilization, the maximum within a time window counts.
//
// It is kept only in memory. A process that starts assumes that all existing ports were needed until then: it may keep
// some of them for one cool-down longer, and deletes none too early.
//
// A demand is immutable; next makes a new one.
type demand struct {
	want int
	// peaks are those above want that still count, sorted by their end. The first is the largest: a peak before a larger
	// one does not matter.
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

// spare is how many unneeded ports may stay, and until when that many may; the zero time if none may.
func (d demand) spare(cooldown time.Duration) (ports int, until time.Time) {
	if len(d.peaks) == 0 {
		return 0, time.Time{}
	}
	return d.peaks[0].want - d.want, d.peaks[0].end.Add(cooldown)
}
