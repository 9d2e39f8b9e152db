package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var portsDuration = metric.Histogram("network_controller_pod_ports_duration_seconds",
	"Time from a Pod's creation until it had its ports and could be scheduled. The API server's times are whole seconds.",
	[]float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600})

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
	resolved, allocations, err := annotationsFor(declaration.Selections, bySelection)
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
	p, err := c.patch(ctx, key, pod, c.annotated(pod, resolved, allocations, again))
	if err == nil && p.reason == "" && !again {
		portsDuration.Observe(time.Since(pod.CreationTimestamp.Time).Seconds())
	}
	return p, err
}

// annotated gives the annotations by which a Pod gets its ports. The annotation that declares networks is the user's,
// who applies it again and again. So the controller leaves it to the admission policy that derives it from
// AnnotationResolvedNetworks (config/admission/networks.yaml). The copy of the declaration that the policy made when
// the Pod was created shows that it is in force, but only where the namespace has the label: elsewhere anybody may have
// written it, such as a tool that restores a Pod from a backup. Without the policy the controller writes the annotation
// itself. again is true if the Pod had its ports before: then the annotation says so already.
func (c *Controller) annotated(pod *corev1.Pod, resolved, allocations string, again bool) map[string]string {
	annotations := map[string]string{cloudteamv1.AnnotationAllocations: allocations}
	if again {
		annotations[selection.Annotation] = resolved
		return annotations
	}
	derived := selection.Annotation
	if _, copied := pod.Annotations[cloudteamv1.AnnotationDeclaredNetworks]; copied &&
		c.labelsOf(pod.Namespace)[cloudteamv1.LabelNetworks] == cloudteamv1.LabelNetworksEnabled {
		derived = cloudteamv1.AnnotationResolvedNetworks
	}
	// The user may have changed the declaration since.
	annotations[cloudteamv1.AnnotationDeclaredNetworks] = pod.Annotations[selection.Annotation]
	annotations[derived] = resolved
	return annotations
}

// restore writes what Multus reads again, if a Pod that was given ports declares its networks as it did before:
// somebody applied the declaration again, and no admission policy kept the annotation (any more).
func (c *Controller) restore(
	ctx context.Context, key cache.ObjectName, pod *corev1.Pod, allocations []cloudteamv1.Allocation,
) (progress, error) {
	declared := pod.Annotations[selection.Annotation]
	if was, known := pod.Annotations[cloudteamv1.AnnotationDeclaredNetworks]; !known || was != declared ||
		pod.DeletionTimestamp != nil {
		return progress{}, nil
	}
	resolved, err := resolvedBy(declared, pod.Namespace, allocations)
	if err != nil || resolved == declared {
		return progress{}, nil //nolint:nilerr // somebody overwrote the annotations
	}
	return c.patch(ctx, key, pod, map[string]string{selection.Annotation: resolved})
}

// resolvedBy gives a declaration with what a Pod was given filled in.
func resolvedBy(declared, namespace string, given []cloudteamv1.Allocation) (string, error) {
	selections, err := selection.Parse(declared, namespace)
	if err != nil {
		return "", err
	}
	given = slices.Clone(given)
	for i, s := range selections {
		at := slices.IndexFunc(given, func(a cloudteamv1.Allocation) bool { return a.Name == s.Namespace+"/"+s.Name })
		if at < 0 {
			continue // it is not ours
		}
		if selections[i], err = resolve(s, given[at]); err != nil {
			return "", err
		}
		given = slices.Delete(given, at, at+1)
	}
	return selection.Format(selections)
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
		message := "The Pod's annotations cannot be written: " + err.Error()
		if apierrors.IsForbidden(err) {
			message += ". If a policy of an earlier release refuses this, install config/admission of this release: " +
				"kubectl apply -k config/admission"
		}
		return progress{reason: cloudteamv1.ReasonReconcileFailed, message: message}, err
	case err != nil:
		return progress{}, fmt.Errorf("writing the Pod's annotations: %w", err)
	}
	c.expected.Written(key, patched.UID, patched.ResourceVersion)
	resolved, ok := annotations[cloudteamv1.AnnotationResolvedNetworks]
	if ok && patched.Annotations[selection.Annotation] != resolved { // the policy was removed
		return c.patch(ctx, key, patched, map[string]string{selection.Annotation: resolved})
	}
	if allocations, ok := annotations[cloudteamv1.AnnotationAllocations]; ok {
		klog.FromContext(ctx).Info("Allocated", "allocations", allocations)
		if message := heldBack(patched); message != "" {
			c.recorder.Event(consumer.Reference(kind, pod), corev1.EventTypeNormal, cloudteamv1.ReasonAllocated, message)
		}
	}
	// The sync that sees this write clears the condition.
	return progress{}, nil
}

// annotationsFor gives the annotations of a Pod whose selections have the given ports; nil for selections of others.
// The first is the declaration with the addresses filled in, and the second is what the Pod has got.
func annotationsFor(
	selections []selection.Selection, ports []*cloudteamv1.NetworkPort,
) (resolved, allocations string, err error) {
	filled := make([]selection.Selection, len(selections))
	var got []cloudteamv1.Allocation
	for i, s := range selections {
		if port := ports[i]; port != nil {
			given := allocationOf(s, port)
			if s, err = resolve(s, given); err != nil {
				return "", "", err
			}
			got = append(got, given)
		}
		filled[i] = s
	}
	if resolved, err = selection.Format(filled); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(got)
	if err == nil && len(text) > consumer.MaxAllocationsSize {
		err = fmt.Errorf("the allocation has %d bytes, more than %d: declare fewer networks", len(text),
			consumer.MaxAllocationsSize)
	}
	return resolved, string(text), err
}

// resolve fills in what a network plugin must set: the port's addresses and MAC.
func resolve(s selection.Selection, given cloudteamv1.Allocation) (selection.Selection, error) {
	s.MAC, s.Addresses = given.MAC, nil
	for _, text := range given.IPs {
		address, err := netip.ParsePrefix(text)
		if err != nil {
			return s, fmt.Errorf("reading the addresses of NetworkPort %q: %w", given.Port, err)
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
