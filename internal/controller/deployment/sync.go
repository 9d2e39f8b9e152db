package deployment

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// recheck is how often a blocked Deployment is synced without an event. Usually an event comes earlier. It covers
// changes without an event, and costs no call.
const recheck = 30 * time.Second

// sync gives one Deployment the ports that it needs, and its Pods theirs. It is level-triggered: it acts on the current
// state of the caches.
//
// It is the only writer of the bindings of ports that were made for a Deployment of the name. The Deployment may be
// gone. The process may crash after any step. The caches of the next one show what was written; it plans from them.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	// An orphan that cannot be deleted does not keep Pods from their ports.
	orphans := c.caches.DeleteOrphans(ctx, &c.ports, consumer.DeploymentKind, key)
	result, err := c.syncPorts(ctx, key)
	return result, controller.Worst(err, orphans)
}

// syncPorts is sync without the deletion of orphans.
func (c *Controller) syncPorts(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	deployment := c.caches.Deployment(key)
	if deployment != nil && !c.expected.Met(key, deployment.UID, deployment.ResourceVersion) {
		// The cache is older than our last write. The event that updates the cache requeues the key.
		return controller.Result{}, nil
	}
	if !c.ports.CaughtUp(key, c.caches) {
		return controller.Result{}, controller.ErrStale
	}
	ports := c.caches.PortsMadeFor(consumer.DeploymentKind, key)
	if len(ports) == 0 && (deployment == nil || !c.needsPorts(deployment)) {
		c.forget(key)
		return controller.Result{}, nil
	}
	if deployment != nil && deployment.DeletionTimestamp != nil {
		// Foreground deletion removes the ports before the Deployment. Creating them again would block both.
		deployment = nil
	}
	return c.reconcile(ctx, key, deployment, ports)
}

// needsPorts reports whether a Deployment without ports may need some, or has a condition about them. Pods of an older
// template may wait for ports although the template does not declare networks any more.
func (c *Controller) needsPorts(deployment *appsv1.Deployment) bool {
	return consumer.Declares(deployment.Spec.Template.Annotations) || complains(deployment) ||
		slices.ContainsFunc(c.caches.PodsOf(deployment), waits)
}

// reconcile makes a plan, applies it and reports it. deployment is nil if it is gone or being deleted. ports are those
// that were made for a Deployment of the name.
func (c *Controller) reconcile(
	ctx context.Context, key cache.ObjectName, deployment *appsv1.Deployment, ports []*cloudteamv1.NetworkPort,
) (controller.Result, error) {
	m := c.remember(key, deployment)
	p := newPlan(c.observe(key, deployment, ports, m))
	m.demands, m.stops = p.demands, p.stops
	err := c.apply(ctx, key, deployment, p, m)
	if errors.Is(err, controller.ErrTerminating) {
		return controller.Result{}, err
	}
	var result controller.Result
	within := func(pause time.Duration) {
		if result.RequeueAfter == 0 || pause < result.RequeueAfter {
			result.RequeueAfter = pause
		}
	}
	for _, due := range []time.Time{m.creates.due, m.deletes.due, p.again} {
		if !due.IsZero() {
			within(max(time.Until(due), time.Millisecond))
		}
	}
	if p.contested {
		within(controller.StalePause)
	}
	if p.say.reason != "" {
		within(recheck)
	}
	if say, known := m.verdict(p.say, err); known && deployment != nil {
		pause, err := c.report(ctx, deployment, say, m)
		if err != nil && !errors.Is(err, controller.ErrStale) {
			// Not an error of the sync: its backoff would delay bindings.
			klog.FromContext(ctx).Error(err, "Writing the condition failed; retrying", "in", recheck)
			pause = recheck
		}
		if pause > 0 {
			within(pause)
		}
	}
	return result, err
}

// observe gathers the input of a plan.
func (c *Controller) observe(
	key cache.ObjectName, deployment *appsv1.Deployment, ports []*cloudteamv1.NetworkPort, m *memory,
) observed {
	o := observed{
		deployment: deployment,
		deleted:    map[types.UID]bool{},
		resolve:    func(network cache.ObjectName) standing { return c.resolve(key, network) },
		taken: func(name string) bool {
			return c.caches.Port(cache.NewObjectName(key.Namespace, name)) != nil
		},
		podNamed: func(name string) *corev1.Pod { return c.caches.Pod(cache.NewObjectName(key.Namespace, name)) },
		givenTo:  c.caches.GivenTo,
		rival:    c.caches.Rival,
		now:      time.Now(),
		cooldown: c.options.Cooldown,
		demands:  m.demands,
		stops:    m.stops,
	}
	for _, port := range ports {
		if port.DeletionTimestamp == nil && c.ports.Expected.Removed(key, port.UID) {
			o.deleted[port.UID] = true
		}
		if deployment != nil && controller.Controls(deployment, kind.GroupKind(), port) {
			o.ports = append(o.ports, port)
		} else {
			o.left = append(o.left, port)
		}
	}
	c.ports.Expected.KeepRemoved(key, func(port types.UID) bool { return o.deleted[port] })
	if deployment == nil {
		return o
	}
	o.rolling = m.rolling(deployment)
	o.pods = c.caches.PodsOf(deployment)
	for _, pod := range o.pods {
		for _, port := range c.caches.PortsBoundTo(cache.MetaObjectToName(pod)) {
			if !controller.Controls(deployment, kind.GroupKind(), port) && consumer.Has(pod, port) {
				o.borrowed = append(o.borrowed, port)
			}
		}
	}
	o.declared, o.extras, o.invalid = consumer.DeclaredByDeployment(deployment)
	if len(o.declared) > 0 && deployment.Spec.Template.Spec.HostNetwork {
		o.declared, o.invalid = nil, errHostNetwork
	}
	return o
}

// resolve gives what a network's name refers to for a Deployment.
func (c *Controller) resolve(deployment, network cache.ObjectName) standing {
	s := standing{kind: c.caches.Resolve(deployment.Namespace, network)}
	if found := c.caches.Network(network); found != nil && s.kind == consumer.Ours {
		s.stalled = meta.IsStatusConditionTrue(found.Status.Conditions, cloudteamv1.ConditionStalled)
		s.going = found.DeletionTimestamp != nil
		s.room, s.counted = roomOn(found, deployment)
		if c.options.Limit != nil {
			s.limit = c.options.Limit(found)
		}
	}
	return s
}

// roomOn gives how many of a Deployment's ports a Network's status shows room for: a port has an address of each IP
// family, in any subnet that serves it. counted is false if the status shows no number.
func roomOn(network *cloudteamv1.Network, deployment cache.ObjectName) (room int, counted bool) {
	free := map[bool]int64{}
	serves := declare.Serves(network, deployment.Namespace,
		declare.Workload{Kind: consumer.DeploymentKind.Kind, Name: deployment.Name})
	for _, subnet := range network.Status.Subnets {
		if serves(subnet) && subnet.UsedAddresses != nil && subnet.TotalAddresses != nil {
			free[strings.Contains(subnet.CIDR, ":")] += min(max(*subnet.TotalAddresses-*subnet.UsedAddresses, 0), burst)
		}
	}
	room = burst
	for _, n := range free {
		room = min(room, int(n))
	}
	return room, len(free) > 0
}

// remember gives the memory of a Deployment, an empty one if it is nil. Syncs of one key never overlap, so a memory
// needs no lock.
func (c *Controller) remember(key cache.ObjectName, deployment *appsv1.Deployment) *memory {
	if deployment == nil {
		c.memories.Delete(key)
		return &memory{}
	}
	if known, ok := c.memories.Load(key); ok && known.(*memory).uid == deployment.UID {
		return known.(*memory)
	}
	m := &memory{uid: deployment.UID}
	c.memories.Store(key, m)
	return m
}

// forget drops the records of a Deployment that is gone, or that uses no networks.
func (c *Controller) forget(key cache.ObjectName) {
	c.expected.Forget(key)
	c.ports.Expected.Forget(key)
	c.memories.Delete(key)
}
