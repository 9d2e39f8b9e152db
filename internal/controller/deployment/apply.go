package deployment

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inFlight is the most concurrent writes, of all Deployments together. A write takes an API server some milliseconds,
// so a pool of 500 is created or bound within about a second. A slow API server does not get more than it answers. None
// of these writes goes to Neutron.
const inFlight = 16

// writes is the outcome of the writes of a plan.
type writes struct {
	// stale is true if a cache is behind the API server. The key is requeued.
	stale bool
	// terminating is true if the namespace is being deleted, and the Deployment with it.
	terminating bool
	// refused is the first answer by which the API server permanently refused a port. uncreated is how many ports are
	// missing because of such answers.
	refused   error
	uncreated int
	// errs make the Loop retry the sync.
	errs []error
}

// add records the answer to one write.
func (w *writes) add(err error) {
	switch {
	case errors.Is(err, controller.ErrStale):
		w.stale = true
	case err != nil:
		w.errs = append(w.errs, err)
	}
}

// apply writes a plan, starting with what Pods wait for.
func (c *Controller) apply(
	ctx context.Context, key cache.ObjectName, deployment *appsv1.Deployment, p plan, m *memory,
) writes {
	var w writes
	c.bind(ctx, &w, key, p.bind)
	c.release(ctx, &w, key, p.release)
	if deployment != nil {
		c.resize(ctx, &w, key, deployment, p, &m.resizes)
	}
	return w
}

// resize deletes and creates ports.
//
// Failures do not fail the sync: its retries have a backoff, and a Pod would wait that long for a port that is released
// meanwhile. Resizes have a backoff of their own.
func (c *Controller) resize(
	ctx context.Context, w *writes, key cache.ObjectName, deployment *appsv1.Deployment, p plan, b *backoff,
) {
	if len(p.remove)+len(p.create) == 0 {
		b.reset()
		return
	}
	if !b.ready(deployment.Generation, time.Now()) {
		return
	}
	failed := c.remove(ctx, w, key, p.remove)
	if len(p.create) > 0 {
		failed = errors.Join(failed, c.create(ctx, w, key, deployment, p.create))
	}
	if failed == nil {
		b.reset()
		return
	}
	pause := b.fail(deployment.Generation, w.refused, w.uncreated, time.Now())
	klog.FromContext(ctx).Info("Resizing the pool failed; retrying with backoff", "err", failed, "in", pause)
}

// bind binds ports to Pods. A write succeeds only if the port has not changed since it was read: if two processes give
// one port to two Pods, one fails.
func (c *Controller) bind(ctx context.Context, w *writes, key cache.ObjectName, bindings []binding) {
	for _, err := range c.each(ctx, len(bindings), func(i int) error {
		b := bindings[i]
		if b.lost {
			// The cache may show a Pod that is gone, and whose port was released.
			live, err := consumer.LivePod(ctx, c.pods, cache.MetaObjectToName(b.pod))
			if err != nil {
				return err
			}
			if live == nil || live.UID != b.pod.UID || consumer.Ended(live) {
				return controller.ErrStale
			}
		}
		bound, err := consumer.Bind(ctx, c.client, b.port, b.pod)
		if err != nil {
			return err
		}
		c.expectedPorts.Written(key, bound.UID, bound.ResourceVersion)
		klog.FromContext(ctx).V(2).Info("Bound port", "port", bound.Name, "pod", b.pod.Name, "again", b.lost)
		return nil
	}) {
		w.add(err)
	}
}

// release releases ports, each after a read of its Pod from the API server: see consumer.MayRelease.
func (c *Controller) release(ctx context.Context, w *writes, key cache.ObjectName, bindings []binding) {
	for _, err := range c.each(ctx, len(bindings), func(i int) error {
		b := bindings[i]
		live, err := consumer.LivePod(ctx, c.pods, cache.NewObjectName(key.Namespace, b.port.Status.BoundTo.Name))
		if err != nil {
			return err
		}
		if !consumer.MayRelease(b.port, b.pod, live) {
			return controller.ErrStale
		}
		released, err := consumer.Bind(ctx, c.client, b.port, nil)
		if err != nil {
			return err
		}
		c.expectedPorts.Written(key, released.UID, released.ResourceVersion)
		klog.FromContext(ctx).V(2).Info("Released port", "port", released.Name, "pod", b.port.Status.BoundTo.Name)
		return nil
	}) {
		w.add(err)
	}
}

// remove deletes ports, each only if it has not changed since it was read: a port that was bound meanwhile survives.
func (c *Controller) remove(
	ctx context.Context, w *writes, key cache.ObjectName, ports []*cloudteamv1.NetworkPort,
) (failed error) {
	for _, err := range c.each(ctx, len(ports), func(i int) error {
		moved, err := consumer.DeletePort(ctx, c.client, ports[i], new(ports[i].ResourceVersion))
		if moved {
			return controller.ErrStale
		}
		if err == nil {
			c.expectedPorts.LetGo(key, ports[i].UID)
			klog.FromContext(ctx).Info("Deleted port that no Pod needs", "port", ports[i].Name)
		}
		return err
	}) {
		switch {
		case errors.Is(err, controller.ErrStale):
			w.stale = true
		case err != nil && failed == nil:
			failed = err
		}
	}
	return failed
}

// each calls do for 0 to n-1 concurrently, within the limit on writes, and gives the answers.
func (c *Controller) each(ctx context.Context, n int, do func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = c.write(ctx, func() error { return do(i) }) })
	}
	wg.Wait()
	return errs
}

// write runs one write once the limit allows it.
func (c *Controller) write(ctx context.Context, do func() error) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.writing }()
	return do()
}

// create creates ports, and gives the first error. The ports of one request start slowly, as kube-controller-manager
// starts Pods: whatever refuses one (a quota, a rule of the CRD) refuses the next as well, and should not get five
// hundred requests. Other requests continue.
func (c *Controller) create(
	ctx context.Context, w *writes, key cache.ObjectName, deployment *appsv1.Deployment,
	requests [][]*cloudteamv1.NetworkPort,
) (failed error) {
	err := controller.CheckOwner(ctx, c.deploymentClient.Deployments(key.Namespace), kind.Kind, deployment)
	switch {
	case errors.Is(err, controller.ErrStale):
		w.stale = true
		return nil
	case err != nil:
		return err
	}
	client := c.client.NetworkPorts(key.Namespace)
	for _, ports := range requests {
		errs := slowStart(len(ports), inFlight, func(i int) error {
			return c.write(ctx, func() error {
				created, err := controller.CreateOwned(ctx, client, "NetworkPort", key, ports[i], &c.expectedPorts)
				if err == nil {
					klog.FromContext(ctx).Info("Created port", "port", created.Name)
				}
				return err
			})
		})
		err := w.created(len(ports), errs)
		if w.terminating {
			return nil
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// created records the outcome of the creates for one request, and gives the first error. errs has the answers to those
// that were tried.
func (w *writes) created(ports int, errs []error) (failed error) {
	var refused error
	uncreated := ports - len(errs)
	for _, err := range errs {
		switch {
		case err == nil:
			continue
		case errors.Is(err, controller.ErrStale):
			w.stale = true
			continue
		case errors.Is(err, controller.ErrTerminating):
			w.terminating = true
			return nil
		case refused == nil && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
			refused = err
		}
		if failed == nil {
			failed = err
		}
		uncreated++
	}
	if refused != nil {
		w.uncreated += uncreated
		if w.refused == nil {
			w.refused = refused
		}
	}
	return failed
}

// slowStart calls do for 0 to n-1, in concurrent batches of 1, 2, 4 and so on up to most. It ends after a batch with an
// error other than a stale cache. It returns the answers of the calls that were made, which are the first ones.
func slowStart(n, most int, do func(i int) error) []error {
	errs := make([]error, n)
	for tried, batch := 0, 1; tried < n; batch = min(2*batch, most) {
		end := min(tried+batch, n)
		var wg sync.WaitGroup
		for i := tried; i < end; i++ {
			wg.Go(func() { errs[i] = do(i) })
		}
		wg.Wait()
		for _, err := range errs[tried:end] {
			if err != nil && !errors.Is(err, controller.ErrStale) {
				return errs[:end]
			}
		}
		tried = end
	}
	return errs
}
