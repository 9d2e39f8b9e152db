package deployment

import (
	"context"
	"errors"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
)

// backoff delays writes of one kind after a failure. The zero value is ready.
type backoff struct {
	delays wait.Backoff
	// due is the time of the next attempt; zero if the last one did not fail.
	due time.Time
	// generation is the Deployment's at the last failure. A new generation is tried at once.
	generation int64
}

// try calls do, unless there are no writes or they failed a moment ago. It logs a failure and schedules the next
// attempt. Only a stale cache and a namespace that is being deleted are errors of the sync.
func (b *backoff) try(ctx context.Context, generation int64, writes int, do func() error) error {
	switch {
	case writes == 0:
		*b = backoff{}
		return nil
	case generation != b.generation:
		*b = backoff{generation: generation}
	case time.Now().Before(b.due):
		return nil
	}
	err := do()
	if err == nil || errors.Is(err, controller.ErrStale) || errors.Is(err, controller.ErrTerminating) {
		*b = backoff{}
		return err
	}
	if b.due.IsZero() {
		b.delays = wait.Backoff{
			Duration: controller.BackoffFirst, Factor: 2, Jitter: 0.2, Cap: controller.BackoffLast, Steps: math.MaxInt,
		}
	}
	pause := b.delays.Step()
	b.due = time.Now().Add(pause)
	klog.FromContext(ctx).Info("Resizing the pool failed; retrying with backoff", "err", err, "in", pause)
	return nil
}
