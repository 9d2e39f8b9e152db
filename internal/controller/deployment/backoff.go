package deployment

import (
	"math/rand/v2"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller"
)

// backoff says when to resize a pool again after a create or a delete failed. The zero value is ready.
type backoff struct {
	failures int
	// due is the time of the next resize; zero if the last attempt did not fail.
	due time.Time
	// generation is the Deployment's at the last failure. A new generation is tried at once.
	generation int64
	// refused and uncreated are the results of the last attempt, to report until the next one.
	refused   error
	uncreated int
}

// ready reports whether the pool may be resized.
func (b *backoff) ready(generation int64, now time.Time) bool {
	return !now.Before(b.due) || generation != b.generation
}

// fail records a failed attempt, and gives the pause: doubled each time, with jitter.
func (b *backoff) fail(generation int64, refused error, uncreated int, now time.Time) time.Duration {
	if generation != b.generation {
		b.failures = 0
	}
	pause := controller.BackoffLast
	if doubled := controller.BackoffFirst << min(b.failures, 16); doubled < pause {
		pause = doubled
	}
	pause += rand.N(pause/5 + 1)
	*b = backoff{
		failures: b.failures + 1, due: now.Add(pause), generation: generation, refused: refused, uncreated: uncreated,
	}
	return pause
}

// reset records that an attempt succeeded, or that none is needed.
func (b *backoff) reset() { *b = backoff{} }
