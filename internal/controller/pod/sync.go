package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// before.
	behindPause = time.Second
	// quiet is how long after its creation a Pod may wait for ports before it is told so: as a rule they are there by
	// then, and nothing is written that is over at once.
	quiet = 10 * time.Second
	// recheck is how often a Pod that waits is looked at without an event. Events bring it as a rule; this is for what no
	// event tells, and costs no call.
	recheck = 30 * time.Second
)

// outcome is how a sync went.
type outcome struct {
	// reason and message are what stands in the Pod's way; empty where nothing does, or where it is not known.
	reason, message string
	// passing is true where what stands in the way is told only if it lasts.
	passing bool
	// allocated is true where the Pod has its ports, or needs none.
	allocated bool
	// passed is true where the Pod has had the next in its line look.
	passed bool
	// behind is true where a cache showed less than the API server has: it is looked at again, and nobody is to blame.
	behind bool
}

// sync brings one Pod to its ports, or the ports of one that is gone to others. It acts on what the caches hold now,
// whatever put the key on the queue.
//
// It has no memory that matters. Each of its writes is found by the next sync, in whatever process: a port that was
// created by its name, a binding by the Pod's UID in it, and the allocation, the end of it all, on the Pod. A crash
// between two of them leaves a state that the same code goes on from.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	turn := anyOther // after one that panics
	defer func() { c.passOn(key, turn) }()
	result, after, err := c.syncOne(ctx, key)
	if turn = after; err != nil && turn == next {
		turn = anyOther // those ahead of it may have found taken what it had no use for
	}
	return result, err
}

// syncOne is sync, and tells who in the Pod's line looks after it.
func (c *Controller) syncOne(ctx context.Context, key cache.ObjectName) (controller.Result, turn, error) {
	if err := c.caches.DeleteOrphans(ctx, c.ports, kind.Kind, key); err != nil {
		return controller.Result{}, next, err
	}
	pod, err := c.caches.Pods.Pods(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		pod = nil
		c.expected.Forget(key)
	case err != nil:
		return controller.Result{}, next, err
	case !c.expected.Met(key, pod.UID, pod.ResourceVersion):
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nobody, nil
	}
	behind, err := c.releaseGone(ctx, key, pod)
	if err != nil || pod == nil {
		return requeue(outcome{behind: behind}), next, err
	}
	o, err := c.converge(ctx, key, pod)
	o.behind = o.behind || behind
	if err != nil && o.reason == "" {
		return controller.Result{}, next, err
	}
	after := next
	switch {
	case o.passed:
		after = nobody
	case o.reason != "":
		after = nextOther
	}
	if left := quiet - time.Since(pod.CreationTimestamp.Time); o.passing && left > 0 && !told(pod) {
		if o.behind {
			left = min(left, behindPause)
		}
		return controller.Result{RequeueAfter: left}, after, err
	}
	wrote, moved, tellErr := c.tell(ctx, pod, o)
	o.behind = o.behind || moved
	if wrote && after == nextOther {
		after = next // which is to be told, too
	}
	return requeue(o), after, errors.Join(err, tellErr)
}

// requeue is when a sync that went so is followed by another without an event.
func requeue(o outcome) controller.Result {
	switch {
	case o.behind:
		return controller.Result{RequeueAfter: behindPause}
	case o.reason != "":
		return controller.Result{RequeueAfter: recheck}
	}
	return controller.Result{}
}

// converge does what the Pod needs.
func (c *Controller) converge(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (outcome, error) {
	switch {
	case consumer.Mirror(pod):
		// Its Pod is the kubelet's, which takes no change from the API server.
		return outcome{}, nil
	case consumer.Ended(pod):
		// Garbage collection would leave its ports until somebody deletes the Pod, which may be never.
		return outcome{}, c.deleteOwn(ctx, pod, func(*cloudteamv1.NetworkPort) bool { return false })
	case consumer.Allocated(pod):
		return c.keep(ctx, key, pod)
	case pod.DeletionTimestamp != nil:
		// Its containers may run on: it keeps what it holds until it is gone.
		return outcome{}, nil
	}
	// Deferred, as a panic must not leave ports taken that nobody binds.
	defer c.abandon(key)
	return c.provide(ctx, key, pod)
}

// abandon gives up the ports that a Pod was to be bound to and was not. Others may have found them taken meanwhile:
// those behind it in line. The port that it failed for has moved, which has the first one look, or the sync fails.
func (c *Controller) abandon(key cache.ObjectName) {
	if c.ledger.abandon(key) {
		c.passOn(key, next)
	}
}

// provide binds a Pod that waits to its ports, and allocates them to it once all are there.
func (c *Controller) provide(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (outcome, error) {
	selections, err := consumer.DeclaredByPod(pod)
	if err != nil {
		return invalid(err), nil
	}
	var ours []int
	for i, s := range selections {
		switch c.caches.Resolve(s) {
		case consumer.Missing:
			return missing(s), nil
		case consumer.Ours:
			ours = append(ours, i)
		case consumer.Foreign:
		}
	}
	if len(ours) == 0 {
		return c.letGo(ctx, key, pod)
	}
	if pod.Spec.HostNetwork {
		return onHostNetwork(), nil
	}
	requests := make([]consumer.Request, len(ours))
	for n, i := range ours {
		requests[n] = consumer.RequestOf(selections[i])
	}
	held := c.boundTo(key, pod)
	if given := asGiven(requests, held); given != nil && !consumer.Gated(pod) {
		ports := make([]*cloudteamv1.NetworkPort, len(selections))
		for n, i := range ours {
			ports[i] = given[n]
		}
		return c.allocate(ctx, key, pod, selections, ports, true)
	}
	owner, o, err := c.poolOf(ctx, pod, requests)
	if owner == "" {
		return o, err
	}
	var doubles []*cloudteamv1.NetworkPort
	contested := false
	a := c.ledger.choose(key, pod.UID, requests, held, func(r consumer.Request) []*cloudteamv1.NetworkPort {
		return c.offered(usable, owner, r)
	}, func(port *cloudteamv1.NetworkPort) bool {
		switch rival := c.rival(port); {
		case rival == nil:
		case boundTo(rival) != "":
			doubles = append(doubles, port)
			fallthrough
		default:
			contested = true
			return false
		}
		// A Pod that says that it has the port may use it, although the binding was lost.
		return !slices.ContainsFunc(c.allocatedTo(port), func(other *corev1.Pod) bool { return other.UID != pod.UID })
	})
	if err := c.deleteDoubles(ctx, doubles); err != nil {
		return outcome{}, err
	}
	if !a.complete() {
		// Another process may see the same Pod with more ports, and be giving it these at this moment. None gives it one
		// that is surplus. What it holds beyond its needs it lets go of in keep, once it says which it has.
		behind, err := c.releaseSurplus(ctx, key, pod, a.surplus)
		if err != nil {
			return outcome{}, err
		}
		o := c.lacking(pod, owner, requests, a.ports)
		o.behind = behind || contested
		return o, nil
	}
	c.passOn(key, next)
	o, err = c.bindAll(ctx, key, pod, selections, ours, a.ports)
	o.passed = true
	return o, err
}

// bindAll binds a Pod to the ports that were chosen for those of its selections that are ours, and allocates them.
func (c *Controller) bindAll(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod,
	selections []selection.Selection, ours []int, chosen []*cloudteamv1.NetworkPort,
) (outcome, error) {
	ports := make([]*cloudteamv1.NetworkPort, len(selections))
	for n, port := range chosen {
		if conditionOf(port) != usable {
			return unready(port), nil
		}
		bound, behind, err := c.hold(ctx, port, pod)
		if err != nil || behind {
			return outcome{behind: behind}, err
		}
		ports[ours[n]] = bound
	}
	return c.allocate(ctx, key, pod, selections, ports, false)
}

// asGiven gives those of the ports that a Pod holds that its requests speak of with all that they have got, in the
// order of the requests; nil unless there is one for each.
func asGiven(requests []consumer.Request, held []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	given := make([]*cloudteamv1.NetworkPort, len(requests))
	for i, request := range requests {
		at := slices.IndexFunc(held, func(port *cloudteamv1.NetworkPort) bool {
			all, ok := consumer.Given(port)
			return ok && all == request && !slices.Contains(given, port)
		})
		if at < 0 {
			return nil
		}
		given[i] = held[at]
	}
	return given
}

// hold sees to it that a port is bound to the Pod, and gives it as the API server has it. A binding that was not
// written just now is read there: the cache may show one that was undone, and the port may be another Pod's by now.
func (c *Controller) hold(
	ctx context.Context, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (held *cloudteamv1.NetworkPort, behind bool, err error) {
	if boundTo(port) != pod.UID {
		return c.bind(ctx, port, pod)
	}
	live, err := c.ports.NetworkPorts(port.Namespace).Get(ctx, port.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != port.UID:
		// The event of its end may have come before the ledger heard of its binding.
		c.ledger.forget(port.UID)
		return nil, true, nil
	case err != nil:
		return nil, false, fmt.Errorf("reading NetworkPort %q: %w", port.Name, err)
	case boundTo(live) != pod.UID || live.DeletionTimestamp != nil || conditionOf(live) != usable:
		return nil, true, nil
	}
	return live, false, nil
}

// poolOf tells whose ports a Pod is bound to: those of its Deployment, which its controller makes, or its own, which
// are made here. It is empty, with the outcome, where that cannot be told or done.
func (c *Controller) poolOf(
	ctx context.Context, pod *corev1.Pod, requests []consumer.Request,
) (types.UID, outcome, error) {
	deployment, known := c.caches.DeploymentOf(pod)
	if !known {
		return "", orphan(pod), nil
	}
	if deployment != nil {
		return deployment.UID, outcome{}, nil
	}
	behind, problem, err := c.ensureOwn(ctx, pod, requests)
	if problem != "" {
		return "", outcome{reason: cloudteamv1.ReasonPortsFailing, message: problem}, err
	}
	if behind || err != nil {
		return "", outcome{behind: behind}, err
	}
	return pod.UID, outcome{}, nil
}

// boundTo gives the ports that the cache shows to be bound to a Pod.
func (c *Controller) boundTo(key cache.ObjectName, pod *corev1.Pod) []*cloudteamv1.NetworkPort {
	return slices.DeleteFunc(c.caches.PortsBoundTo(key), func(port *cloudteamv1.NetworkPort) bool {
		return boundTo(port) != pod.UID
	})
}

// releaseSurplus frees ports that a Pod holds and has no use for. What it has a use for was read from the cache: the
// Pod MUST still be as it was there. Ports that its containers may use are not among them: see mentions.
func (c *Controller) releaseSurplus(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, ports []*cloudteamv1.NetworkPort,
) (behind bool, err error) {
	if !consumer.Gated(pod) {
		ports = slices.DeleteFunc(slices.Clone(ports), func(port *cloudteamv1.NetworkPort) bool {
			return mentions(pod, port)
		})
	}
	return c.releaseWhere(ctx, key, ports, func(live *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
		return live == nil || live.UID != boundTo(port) || live.ResourceVersion == pod.ResourceVersion
	})
}

// allocate writes on the Pod what it has got and takes our gate off, in one write: a Pod that is scheduled has its
// annotations, and one that is not allocated cannot be. The write holds only while the Pod is as it was, so that what
// it declares is what it gets. ports are bound to it and usable; selections of others have none (nil).
// again is true where the Pod had them before, and somebody took off what says so.
func (c *Controller) allocate(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod,
	selections []selection.Selection, ports []*cloudteamv1.NetworkPort, again bool,
) (outcome, error) {
	declared, allocations, err := annotationsFor(selections, ports)
	if err != nil {
		// Addresses make the annotation longer than what was declared: it may exceed what one can hold.
		if _, ok := errors.AsType[*selection.Error](err); ok {
			return invalid(err), nil
		}
		return outcome{reason: cloudteamv1.ReasonPortsFailing, message: err.Error()}, nil
	}
	if !again && !consumer.Gated(pod) && pod.Spec.NodeName != "" {
		// Told first: once the allocation is there, nothing tells this Pod from one that was gated.
		if pod, err = c.write(ctx, pod, notGated()); err != nil || pod == nil {
			return outcome{behind: true}, err
		}
	}
	return c.patch(ctx, key, pod, map[string]string{
		selection.Annotation: declared, cloudteamv1.AnnotationAllocations: allocations,
	})
}

// letGo takes our gate off a Pod that asks nothing of us (any more), and frees what it holds. One that is not gated may
// run with what it holds, although it does not say so any more, and keeps that until it is gone.
func (c *Controller) letGo(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (outcome, error) {
	if !consumer.Gated(pod) {
		return outcome{allocated: true}, nil
	}
	held := slices.DeleteFunc(c.boundTo(key, pod), c.ledger.ahead)
	behind, err := c.releaseSurplus(ctx, key, pod, held)
	if err != nil || behind {
		return outcome{behind: behind}, err
	}
	if err := c.deleteOwn(ctx, pod, func(*cloudteamv1.NetworkPort) bool { return false }); err != nil {
		return outcome{}, err
	}
	return c.patch(ctx, key, pod, nil)
}

// patch sets annotations and takes our gate off, if it is there.
func (c *Controller) patch(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, annotations map[string]string,
) (outcome, error) {
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	if annotations != nil { // null would remove all that the Pod has
		metadata["annotations"] = annotations
	}
	body := map[string]any{"metadata": metadata}
	if consumer.Gated(pod) {
		body["spec"] = map[string]any{"schedulingGates": []map[string]string{
			{"$patch": "delete", "name": cloudteamv1.SchedulingGate},
		}}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return outcome{}, err
	}
	patched, err := c.pods.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, text,
		metav1.PatchOptions{FieldManager: controller.FieldManager})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return outcome{behind: true}, nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return outcome{reason: cloudteamv1.ReasonFailed, message: "the Pod's annotations cannot be written: " + err.Error()},
			err
	case err != nil:
		return outcome{}, fmt.Errorf("writing the Pod's annotations: %w", err)
	}
	c.expected.Written(key, patched.UID, patched.ResourceVersion)
	klog.FromContext(ctx).Info("Allocated", "allocations", annotations[cloudteamv1.AnnotationAllocations])
	// What was told before is taken back by the sync that sees this write.
	return outcome{}, nil
}

// keep sees to it that a Pod that has its ports keeps them, and no others.
//
// What it has is not changed any more: its containers run with the addresses that they were started with. A port that
// was deleted by hand waits, with its address, for the Pod to go; where it is gone all the same, or is another one in
// Neutron, that is told, and a new Pod is what helps. A binding that was lost is written again.
func (c *Controller) keep(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (outcome, error) {
	allocations, err := allocationsOf(pod)
	if err != nil {
		// Somebody wrote there. What it holds stays bound to it.
		return outcome{}, nil //nolint:nilerr // there is nobody to try again for
	}
	o := outcome{allocated: true}
	named := map[string]bool{}
	for _, a := range allocations {
		named[a.Port] = true
		port, err := c.caches.Ports.NetworkPorts(pod.Namespace).Get(a.Port)
		if err != nil && !apierrors.IsNotFound(err) {
			return outcome{}, err
		}
		if err != nil {
			port = nil
		}
		if o.reason == "" {
			problem, err := c.confirm(ctx, a, port, pod)
			if err != nil {
				return outcome{}, err
			}
			if problem != "" {
				o.reason, o.message = cloudteamv1.ReasonPortsFailing, problem
			}
		}
		if port == nil || port.Status.PortID != a.PortID || boundTo(port) != "" || c.ledger.ahead(port) {
			continue
		}
		// The cache may show a Pod that is gone, whose port was released.
		live, err := c.livePod(ctx, key)
		if err != nil {
			return outcome{}, err
		}
		if live == nil || live.UID != pod.UID || consumer.Ended(live) {
			return outcome{behind: true}, nil
		}
		klog.FromContext(ctx).Info("Binding again a port whose binding was lost", "port", port.Name)
		_, behind, err := c.bind(ctx, port, pod)
		if err != nil {
			return outcome{}, err
		}
		o.behind = o.behind || behind
	}
	unnamed := func(port *cloudteamv1.NetworkPort) bool { return !named[port.Name] && !c.ledger.ahead(port) }
	surplus := slices.DeleteFunc(c.boundTo(key, pod), func(port *cloudteamv1.NetworkPort) bool { return !unnamed(port) })
	behind, err := c.releaseSurplus(ctx, key, pod, surplus)
	o.behind = o.behind || behind
	if err != nil {
		return outcome{}, err
	}
	return o, c.deleteOwn(ctx, pod, func(port *cloudteamv1.NetworkPort) bool { return !unnamed(port) })
}

// confirm is differs, for one that is not told yet at the API server: the cache of ports may be older than that of
// Pods.
func (c *Controller) confirm(
	ctx context.Context, a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) (problem string, err error) {
	problem = c.differs(a, port, pod)
	if was := conditionOn(pod); problem == "" || was != nil && was.Message == problem || pod.DeletionTimestamp != nil {
		return problem, nil
	}
	live, err := c.ports.NetworkPorts(pod.Namespace).Get(ctx, a.Port, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return "", fmt.Errorf("reading NetworkPort %q: %w", a.Port, err)
	}
	return c.differs(a, live, pod), nil
}
