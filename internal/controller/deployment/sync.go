package deployment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// behindPause is how long a sync waits for a cache that is behind the API server. As a rule an event ends the wait
	// before. There is none where a port came and went between two lists.
	behindPause = time.Second
	// recheck is how often a Deployment in whose way something stands is looked at without an event. Events bring it as a
	// rule; this is for what no event tells, and costs no call.
	recheck = 30 * time.Second
	// inFlight is how many creates and deletes of ports are under way at once, of all Deployments together. A create
	// takes an API server some milliseconds, so that a pool of 500 is declared within a second or so, and an API server
	// that is slow is not asked for more than it answers. Neutron is not asked here.
	inFlight = 16
)

// outcome is how the writes of a plan went.
type outcome struct {
	// behind is true where a cache showed less than the API server has: it is looked at again, and nobody is to blame.
	behind bool
	// over is true where the namespace goes, and the Deployment with it.
	over bool
	// refused is the first answer by which the API server refused a port for good; uncreated is how many are missing for
	// such answers.
	refused   error
	uncreated int
	// errs have the key tried again.
	errs []error
}

// sync makes the pools of one Deployment as it needs them. It acts on what the caches hold now, whatever put the key on
// the queue.
//
// Every step can be the last before a crash: what was created and what was deleted is in the caches of the next
// process, and the plan is made from them anew.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	if err := c.caches.DeleteOrphans(ctx, c.client, kind.Kind, key); err != nil {
		return controller.Result{}, err
	}
	deployment, err := c.caches.Deployments.Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		// The ports bear the Deployment as their owner: garbage collection removes them.
		c.forget(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	if !c.expected.Met(key, deployment.UID, deployment.ResourceVersion) {
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nil
	}
	if deployment.DeletionTimestamp != nil {
		// Garbage collection may be removing the ports before the Deployment. To create them anew would hold both up.
		return controller.Result{}, nil
	}
	// Read before the index is: what the cache does not hold then, it did not hold at this version.
	version := c.ports.LastStoreSyncResourceVersion()
	if !c.expectedPorts.CaughtUp(key, version) {
		return controller.Result{RequeueAfter: behindPause}, nil
	}
	ports := c.caches.PortsOf(deployment.UID)
	if !consumer.Declares(deployment.Spec.Template.Annotations) && len(ports) == 0 && !complains(deployment) {
		c.forget(key)
		return controller.Result{}, nil
	}

	remembered := c.remember(key, deployment.UID)
	p := planPools(c.observe(deployment, ports, remembered))
	remembered.demands = p.demands
	var o outcome
	c.remove(ctx, &o, p.remove, remembered)
	c.create(ctx, &o, key, deployment, p.create)
	if o.over {
		return controller.Result{}, nil
	}
	var result controller.Result
	within := func(pause time.Duration) {
		if result.RequeueAfter == 0 || pause < result.RequeueAfter {
			result.RequeueAfter = pause
		}
	}
	if o.behind {
		within(behindPause)
	}
	if p.say.reason != "" {
		within(recheck)
	}
	if !p.again.IsZero() {
		within(max(time.Until(p.again), time.Millisecond))
	}
	if say, known := o.verdict(p.say); known {
		pause, err := c.report(ctx, deployment, say, remembered)
		if err != nil {
			o.errs = append(o.errs, err)
		}
		if pause > 0 {
			within(pause)
		}
	}
	return result, errors.Join(o.errs...)
}

// observe gathers what a plan is made from.
func (c *Controller) observe(
	deployment *appsv1.Deployment, ports []*cloudteamv1.NetworkPort, m *memory,
) observed {
	shown := map[types.UID]bool{}
	for _, port := range ports {
		shown[port.UID] = port.DeletionTimestamp == nil
	}
	for uid := range m.deleted {
		if !shown[uid] {
			delete(m.deleted, uid)
		}
	}
	o := observed{
		deployment: deployment,
		rolling:    m.rolling(deployment),
		pods:       c.caches.PodsOf(deployment.UID),
		ports:      ports,
		deleted:    m.deleted,
		resolve:    c.resolve,
		taken: func(name string) bool {
			_, err := c.caches.Ports.NetworkPorts(deployment.Namespace).Get(name)
			return err == nil
		},
		now:      time.Now(),
		cooldown: c.cooldown,
		demands:  m.demands,
	}
	for _, pod := range o.pods {
		for _, port := range c.caches.PortsBoundTo(cache.MetaObjectToName(pod)) {
			if port.Status.BoundTo.UID == pod.UID && !metav1.IsControlledBy(port, deployment) && !consumer.Ended(pod) {
				o.borrowed = append(o.borrowed, port)
			}
		}
	}
	o.declared, o.invalid = consumer.DeclaredByDeployment(deployment)
	if len(o.declared) > 0 && deployment.Spec.Template.Spec.HostNetwork {
		o.declared, o.invalid = nil, errHostNetwork
	}
	return o
}

// resolve tells what a network's name stands for.
func (c *Controller) resolve(network cache.ObjectName) standing {
	s := standing{kind: c.caches.Resolve(selection.Selection{Namespace: network.Namespace, Name: network.Name})}
	if found, err := c.caches.Networks.Networks(network.Namespace).Get(network.Name); err == nil {
		s.stalled = meta.IsStatusConditionTrue(found.Status.Conditions, cloudteamv1.ConditionStalled)
		s.going = found.DeletionTimestamp != nil
	}
	return s
}

// remember gives what is remembered of a Deployment. Syncs of one key never overlap, so that it has no lock of its own.
func (c *Controller) remember(key cache.ObjectName, uid types.UID) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.memories[key]
	if !ok || m.uid != uid {
		m = &memory{uid: uid, deleted: map[types.UID]bool{}}
		c.memories[key] = m
	}
	return m
}

// forget drops what is remembered of a Deployment that is gone, or that has nothing to do with networks.
func (c *Controller) forget(key cache.ObjectName) {
	c.expected.Forget(key)
	c.expectedPorts.Forget(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, key)
}

// remove deletes ports, each only while it is as it was read: one that a Pod is bound to meanwhile has another
// resourceVersion, and survives.
func (c *Controller) remove(ctx context.Context, o *outcome, ports []*cloudteamv1.NetworkPort, m *memory) {
	errs, moved := make([]error, len(ports)), make([]bool, len(ports))
	var wg sync.WaitGroup
	for i, port := range ports {
		wg.Go(func() {
			errs[i] = c.write(ctx, func() (err error) {
				moved[i], err = consumer.DeletePort(ctx, c.client, port, new(port.ResourceVersion))
				return err
			})
		})
	}
	wg.Wait()
	for i, port := range ports {
		switch {
		case errs[i] != nil:
			o.errs = append(o.errs, errs[i])
		case moved[i]:
			o.behind = true
		default:
			m.deleted[port.UID] = true
			klog.FromContext(ctx).Info("Deleted a port that no Pod needs", "port", port.Name)
		}
	}
}

// create creates ports. Those of one request are begun slowly, as kube-controller-manager begins Pods: what refuses one
// (a quota, a rule of the CRD) refuses the next as well, and should not be asked five hundred times. Those of another
// request go on.
func (c *Controller) create(
	ctx context.Context, o *outcome, key cache.ObjectName, deployment *appsv1.Deployment,
	requests [][]*cloudteamv1.NetworkPort,
) {
	if len(requests) == 0 {
		return
	}
	// Who deletes a Deployment in the foreground has its ports deleted first, and the cache of Deployments may hear of it
	// later than that of ports: without this read they would be made again.
	live, err := c.deploymentClient.Deployments(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && (live.UID != deployment.UID || live.DeletionTimestamp != nil):
		o.behind = true
		return
	case err != nil:
		o.errs = append(o.errs, fmt.Errorf("reading the Deployment before creating its ports: %w", err))
		return
	}
	client := c.client.NetworkPorts(key.Namespace)
	for _, ports := range requests {
		errs := slowStart(len(ports), inFlight, func(i int) error {
			return c.write(ctx, func() error {
				created, err := client.Create(ctx, ports[i], metav1.CreateOptions{FieldManager: controller.FieldManager})
				if err == nil {
					c.expectedPorts.Written(key, deployment.UID, created.ResourceVersion)
					klog.FromContext(ctx).Info("Created a port", "port", created.Name)
				}
				return err
			})
		})
		if o.created(ports, errs); o.over {
			return
		}
	}
}

// created notes how the creates of one request's ports went. errs has the answers of those that were tried.
func (o *outcome) created(ports []*cloudteamv1.NetworkPort, errs []error) {
	var failed, refused error
	uncreated := len(ports) - len(errs)
	for i, err := range errs {
		switch {
		case err == nil:
			continue
		case behind(err):
			// Somebody else's, or one of ours whose answer was lost. Whose it is can wait until the cache shows it.
			o.behind = true
			continue
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			o.over = true // the Deployment goes with its namespace
			return
		case refused == nil && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)):
			refused = err
		}
		if failed == nil {
			failed = fmt.Errorf("creating NetworkPort %q: %w", ports[i].Name, err)
		}
		uncreated++
	}
	if failed != nil {
		o.errs = append(o.errs, failed)
	}
	if refused != nil {
		o.uncreated += uncreated
		if o.refused == nil {
			o.refused = refused
		}
	}
}

// behind reports whether an answer to a create says that the cache is behind.
func behind(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }

// write runs one write when there is room for it.
func (c *Controller) write(ctx context.Context, do func() error) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.writing }()
	return do()
}

// slowStart calls do for 0 to n-1, in batches of 1, 2, 4 and so on up to most at once, and ends after a batch in which
// one failed otherwise than by a cache that is behind. It returns the answers of those that were tried, which are the
// first ones.
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
			if err != nil && !behind(err) {
				return errs[:end]
			}
		}
		tried = end
	}
	return errs
}
