package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// allocate writes on the Pod what it got and removes our gate. One write does both: a scheduled Pod has its
// annotations, and a Pod without an allocation cannot be scheduled. The write succeeds only if the Pod has not changed
// since it was read, so that it gets what it declares. ports are bound to it and usable, one for each request. again is
// true if the Pod had them before and lost the annotation.
func (c *Controller) allocate(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, declaration consumer.Declaration,
	ports []*cloudteamv1.NetworkPort, again bool,
) (progress, error) {
	bySelection := make([]*cloudteamv1.NetworkPort, len(declaration.Selections))
	for n, i := range declaration.Ours {
		bySelection[i] = ports[n]
	}
	declared, allocations, err := annotationsFor(declaration.Selections, bySelection)
	if err != nil {
		// The addresses make the annotation longer than the declared one: it may exceed the limit.
		if _, ok := errors.AsType[*selection.Error](err); ok {
			return invalid(err), nil
		}
		return progress{reason: cloudteamv1.ReasonPortsFailed, message: err.Error()}, nil
	}
	if !again && !consumer.Gated(pod) && pod.Spec.NodeName != "" {
		// Write this first: after the allocation, nothing distinguishes this Pod from one that was gated.
		if pod, err = c.writeCondition(ctx, pod, notGated(pod.Namespace)); err != nil {
			return progress{}, err
		}
	}
	p, err := c.patch(ctx, key, pod, map[string]string{
		selection.Annotation: declared, cloudteamv1.AnnotationAllocations: allocations,
	})
	if err == nil && p.reason == "" && !again {
		portsDuration.Observe(time.Since(pod.CreationTimestamp.Time).Seconds())
	}
	return p, err
}

// letGo removes our gate from a Pod that requests none of our networks (any more), once its ports are released. A Pod
// that is not gated may run with what it holds, even if it no longer declares it: it keeps that until it is gone.
func (c *Controller) letGo(ctx context.Context, key cache.ObjectName, pod *corev1.Pod) (progress, error) {
	if !consumer.Gated(pod) {
		return progress{allocated: true}, nil
	}
	if err := c.deleteOwn(ctx, c.madeFor(pod, nil), nil); err != nil {
		return progress{}, err
	}
	return c.patch(ctx, key, pod, nil)
}

// patch sets annotations and removes our gate, if present.
func (c *Controller) patch(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, annotations map[string]string,
) (progress, error) {
	body := map[string]any{}
	if annotations != nil { // null would remove all annotations of the Pod
		body["metadata"] = map[string]any{"annotations": annotations}
	}
	if consumer.Gated(pod) {
		body["spec"] = map[string]any{"schedulingGates": []map[string]string{
			{"$patch": "delete", "name": cloudteamv1.SchedulingGate},
		}}
	}
	patched, err := controller.PatchAsRead(ctx, c.pods.Pods(pod.Namespace).Patch, types.StrategicMergePatchType,
		controller.FieldManager, pod, body)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return progress{
			reason: cloudteamv1.ReasonReconcileFailed, message: "The Pod's annotations cannot be written: " + err.Error(),
		}, err
	case err != nil:
		return progress{}, fmt.Errorf("writing the Pod's annotations: %w", err)
	}
	c.expected.Written(key, patched.UID, patched.ResourceVersion)
	klog.FromContext(ctx).Info("Allocated", "allocations", annotations[cloudteamv1.AnnotationAllocations])
	// The sync that sees this write clears the condition.
	return progress{}, nil
}

// annotationsFor gives the annotations of a Pod whose selections have the given ports; nil for selections of others.
// The first annotation is the declaration with the addresses filled in, and the second is what the Pod has got.
func annotationsFor(
	selections []selection.Selection, ports []*cloudteamv1.NetworkPort,
) (declared, allocations string, err error) {
	resolved := make([]selection.Selection, len(selections))
	var got []cloudteamv1.Allocation
	for i, s := range selections {
		if port := ports[i]; port != nil {
			if s, err = resolve(s, port); err != nil {
				return "", "", err
			}
			got = append(got, allocationOf(s, port))
		}
		resolved[i] = s
	}
	if declared, err = selection.Format(resolved); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(got)
	if err == nil && len(text) > consumer.MaxAllocationsSize {
		err = fmt.Errorf("the allocation has %d bytes, more than %d: declare fewer networks", len(text),
			consumer.MaxAllocationsSize)
	}
	return declared, string(text), err
}

// resolve fills in what a network plugin must set: the port's addresses and MAC.
func resolve(s selection.Selection, port *cloudteamv1.NetworkPort) (selection.Selection, error) {
	s.MAC = strings.ToLower(port.Status.MAC)
	s.Addresses = nil
	for _, a := range port.Status.Addresses {
		address, err := netip.ParsePrefix(a.Address)
		if err != nil {
			return s, fmt.Errorf("reading the status of NetworkPort %q: %w", port.Name, err)
		}
		s.Addresses = append(s.Addresses, address)
	}
	return s, nil
}

// allocationOf is what a Pod gets by a port that serves a selection.
func allocationOf(s selection.Selection, port *cloudteamv1.NetworkPort) cloudteamv1.Allocation {
	allocation := cloudteamv1.Allocation{
		Name:      consumer.NetworkOf(port).String(),
		Interface: s.Interface,
		MAC:       strings.ToLower(port.Status.MAC),
		MTU:       port.Status.MTU,
		PortID:    port.Status.PortID,
		Port:      port.Name,
	}
	var four, six bool
	for _, a := range port.Status.Addresses {
		allocation.IPs = append(allocation.IPs, a.Address)
		gateway, err := netip.ParseAddr(a.Gateway)
		if err != nil {
			continue // it has no gateway
		}
		// A port may have addresses of several subnets of one family, but a Pod has one default route of each.
		has := &four
		if gateway.Is6() {
			has = &six
		}
		if !*has {
			allocation.Gateway = append(allocation.Gateway, a.Gateway)
			*has = true
		}
	}
	return allocation
}
