package deployment

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inFlight is the most concurrent writes of a sync. A write takes an API server some milliseconds, so a pool of 500 is
// created or bound within about a second. None of these writes goes to Neutron.
const inFlight = 16

// apply writes a plan, starting with what Pods wait for.
//
// Failures to create and to delete ports do not fail the sync: its retries have a backoff, and a Pod would wait that
// long for a port that is released meanwhile. Creates and deletes have their own backoffs.
func (c *Controller) apply(
	ctx context.Context, key cache.ObjectName, deployment *appsv1.Deployment, p plan, m *memory,
) error {
	bound := concurrently(len(p.bind), func(i int) error {
		b := p.bind[i]
		if b.lost {
			return c.ports.BindAgain(ctx, key, b.port, b.pod)
		}
		_, err := c.ports.Bind(ctx, key, b.port, b.pod)
		return err
	})
	released := concurrently(len(p.release), func(i int) error {
		return c.ports.Release(ctx, key, p.release[i].pod, nil, p.release[i].port)
	})
	errs := slices.Concat(bound, released)
	if deployment != nil {
		errs = append(errs,
			m.deletes.try(ctx, deployment.Generation, len(p.remove), func() error { return c.remove(ctx, key, p.remove) }),
			m.creates.try(ctx, deployment.Generation, len(p.create), func() error {
				m.refused = refusal{}
				return c.create(ctx, key, deployment, p.create, &m.refused)
			}))
	}
	return controller.Worst(errs...)
}

// remove deletes ports, each only if it has not changed since it was read: a port that was bound meanwhile survives.
func (c *Controller) remove(ctx context.Context, key cache.ObjectName, ports []*cloudteamv1.NetworkPort) error {
	return controller.Worst(concurrently(len(ports), func(i int) error {
		err := c.ports.Delete(ctx, ports[i], true)
		if err == nil {
			c.ports.Expected.LetGo(key, ports[i].UID)
			klog.FromContext(ctx).Info("Deleted port that no Pod needs", "port", ports[i].Name)
		}
		return err
	})...)
}

// create creates ports. The ports of one request start slowly, as kube-controller-manager starts Pods: whatever refuses
// one (a quota, a rule of the CRD) refuses the next as well, and should not get five hundred requests. Other requests
// continue.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, deployment *appsv1.Deployment,
	requests [][]*cloudteamv1.NetworkPort, refused *refusal,
) error {
	err := controller.CheckOwner(ctx, c.client.Deployments(key.Namespace), kind.Kind, deployment)
	if err != nil {
		return err
	}
	var all []error
	for _, ports := range requests {
		errs := slowStart(len(ports), inFlight, func(i int) error { return c.ports.Create(ctx, key, ports[i]) })
		refused.count(errs)
		all = append(all, errs...)
	}
	return controller.Worst(all...)
}

// refusal says how many ports are missing because the API server permanently refuses them, and why it refused the
// first.
type refusal struct {
	err   error
	ports int
}

// count adds the answers to creates.
func (r *refusal) count(errs []error) {
	for _, err := range errs {
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			r.ports++
			if r.err == nil {
				r.err = err
			}
		}
	}
}

// concurrently calls do for 0 to n-1, within the limit on writes, and gives the answers.
func concurrently(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(inFlight)
	for i := range n {
		group.Go(func() error {
			errs[i] = do(i)
			return nil
		})
	}
	_ = group.Wait()
	return errs
}

// slowStart calls do for 0 to n-1, in concurrent batches of 1, 2, 4 and so on up to most, and gives the answers. After
// a batch with an error other than a stale cache it ends, and that error is the answer to the others.
func slowStart(n, most int, do func(i int) error) []error {
	var errs []error
	for batch := 1; len(errs) < n; batch = min(2*batch, most) {
		tried := len(errs)
		answers := concurrently(min(batch, n-tried), func(i int) error { return do(tried + i) })
		errs = append(errs, answers...)
		if err := controller.Worst(answers...); err != nil && !errors.Is(err, controller.ErrStale) {
			for len(errs) < n {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

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
