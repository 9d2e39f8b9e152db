package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	"cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// invalid is for an annotation that cannot be read or written.
func invalid(err error) progress {
	if other, ok := errors.AsType[*consumer.AnnotationError](err); ok {
		return progress{reason: cloudteamv1.ReasonInvalidNetworks, message: other.Error()}
	}
	return progress{reason: cloudteamv1.ReasonInvalidNetworks,
		message: fmt.Sprintf("annotation %s: %s", selection.Annotation, strings.ReplaceAll(err.Error(), "\n", "; "))}
}

// onHostNetwork is for a Pod that shares its node's interfaces.
func onHostNetwork() progress {
	return progress{reason: cloudteamv1.ReasonInvalidNetworks, message: fmt.Sprintf(
		"the Pod has hostNetwork: true, and so it has no network interfaces: create it without, or without the annotation %s",
		selection.Annotation)}
}

// missing is for a network that does not exist, or that does not allow the Pod's namespace.
func missing(pod *corev1.Pod, s selection.Selection) (p progress) {
	p.reason, p.message = consumer.NotFound(pod.Namespace, []cache.ObjectName{cache.NewObjectName(s.Namespace, s.Name)},
		"correct the annotation "+selection.Annotation)
	return p
}

// withoutDeployment is for a Pod whose ReplicaSet, or whose ReplicaSet's Deployment, the cache does not show.
func withoutDeployment(pod *corev1.Pod) progress {
	return progress{reason: cloudteamv1.ReasonPortsNotReady, passing: true, message: fmt.Sprintf(
		"The Pod's Deployment is not known: ReplicaSet %q or the Deployment that controls it is not found.",
		metav1.GetControllerOfNoCopy(pod).Name)}
}

// withoutSlot is for a Pod whose slot cannot be known.
func (c *Controller) withoutSlot(pod *corev1.Pod) progress {
	owner := metav1.GetControllerOfNoCopy(pod)
	p := progress{reason: cloudteamv1.ReasonPortsNotReady, passing: true, message: fmt.Sprintf(
		"The Pod's %s is not known: %q, which controls it, is not found.", owner.Kind, owner.Name)}
	if _, ok := consumer.MachineOf(pod); ok && !c.machines.HasSynced() {
		p.message = "KubeVirt's virtual machines have not been listed yet. If this lasts, see the controller's log, and " +
			"give its account the right to get, list and watch virtualmachines and virtualmachineinstances."
	}
	return p
}

// planned is for a Pod that waits while the controller only reports.
func planned() progress {
	return progress{reason: cloudteamv1.ReasonPlanned, message: "The controller only reports (--report-only, or " +
		"firstStart=Report of the chart) and gives no Pod its ports. The Pod is scheduled once it may write: start it " +
		"without the flag, or set firstStart=Apply."}
}

// heldBack says which scheduling gates of others still keep a Pod from being scheduled; empty if there are none.
func heldBack(pod *corev1.Pod) string {
	if len(pod.Spec.SchedulingGates) == 0 {
		return ""
	}
	const most = 3 // users write them
	var names []string
	for _, gate := range pod.Spec.SchedulingGates[:min(most, len(pod.Spec.SchedulingGates))] {
		names = append(names, gate.Name)
	}
	return "The Pod has its networks. It is not scheduled before others take off their scheduling gates: " +
		strings.Join(names, ", ") + "."
}

// notGated is for a Pod that was scheduled before its ports were Ready.
func notGated(namespace string) progress {
	return progress{reason: cloudteamv1.ReasonSchedulingGateMissing, message: fmt.Sprintf(
		"the Pod was scheduled before its networks were Ready, and its containers may lack them: label the namespace "+
			"(kubectl label namespace %s %s=%s), so that the installed policy (config/admission) sets the scheduling gate %s; "+
			"create Pods without spec.nodeName, and replace this one",
		namespace, cloudteamv1.LabelNetworks, cloudteamv1.LabelNetworksEnabled, cloudteamv1.SchedulingGate)}
}

// unready is for a port that is bound to the Pod and cannot be used at the moment.
func unready(port *cloudteamv1.NetworkPort) progress {
	if consumer.StateOf(port) == consumer.PortFailing {
		return progress{reason: cloudteamv1.ReasonPortsFailed, message: stateOf(port)}
	}
	return progress{reason: cloudteamv1.ReasonPortsNotReady, passing: true, message: stateOf(port)}
}

// insecure is for a port that MultiNetworkPolicies want in other groups: without them, the Pod could be reached by
// what they forbid.
func insecure(lacks string) progress {
	return progress{reason: cloudteamv1.ReasonPortsNotReady, passing: true, message: lacks}
}

// lacking is for requests that no bound port serves. pool are the ports that may be bound to the Pod. Either a port
// fails and there is no other to wait for, or the Pod waits. Of several requests it names the first, so that the
// message is the same in every sync. A port that goes stays for a Pod that may run; see consumer.Useless.
func (c *Controller) lacking(
	pod *corev1.Pod, pool []*cloudteamv1.NetworkPort, requests []consumer.Request,
	ports, held []*cloudteamv1.NetworkPort,
) progress {
	for _, port := range held {
		if port.DeletionTimestamp != nil && consumer.MayRun(pod) {
			return progress{reason: cloudteamv1.ReasonPortsFailed, message: fmt.Sprintf(
				"NetworkPort %q is being deleted and waits for this Pod, which may use it. Delete the Pod.", port.Name)}
		}
	}
	message := ""
	for i, request := range requests {
		if ports[i] != nil {
			continue
		}
		states := free(pool, request)
		made, failed := states[consumer.PortPending], states[consumer.PortFailing]
		if len(states[consumer.PortUsable]) > 0 {
			continue
		}
		if len(made) == 0 && len(failed) > 0 {
			return progress{reason: cloudteamv1.ReasonPortsFailed,
				message: stateOf(slices.MinFunc(failed, consumer.CompareByName))}
		}
		if message == "" {
			message = c.waitingFor(pod, pool, request, made)
		}
	}
	if message == "" {
		message = "Ports are Ready and not bound to this Pod yet. " +
			"If this lasts, check that the controller \"deployment\" runs."
	}
	return progress{reason: cloudteamv1.ReasonPortsNotReady, passing: true, message: message}
}

// waitingFor says what a request without a port waits for. made are the ports that are being created for it.
func (c *Controller) waitingFor(
	pod *corev1.Pod, pool []*cloudteamv1.NetworkPort, request consumer.Request, made []*cloudteamv1.NetworkPort,
) string {
	if network := c.caches.Network(request.Network); network != nil && !controller.Serves(network) {
		return fmt.Sprintf("Network %q is not Ready; kubectl describe networks.%s -n %s %s shows why",
			request.Network, cloudteam.GroupName, request.Network.Namespace, request.Network.Name)
	}
	made = slices.DeleteFunc(made, func(port *cloudteamv1.NetworkPort) bool {
		return meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady) == nil
	})
	if len(made) > 0 {
		return stateOf(slices.MinFunc(made, consumer.CompareByName))
	}
	if _, ok := consumer.MachineOf(pod); ok {
		if port := heldByOther(pod, pool, request); port != nil {
			return fmt.Sprintf("NetworkPort %q of the virtual machine is bound to Pod %q, which has not ended. "+
				"The Pod gets the port when that one has ended.", port.Name, port.Status.BoundTo.Name)
		}
	}
	if request.Exclusive() {
		if port := heldByOther(pod, pool, request); port != nil {
			return fmt.Sprintf("NetworkPort %q has the ips or mac that are asked for, and is bound to Pod %q: remove ips and "+
				"mac from the annotation %s, or run one Pod at a time (replicas: 1, strategy Recreate)", port.Name,
				port.Status.BoundTo.Name, selection.Annotation)
		}
	}
	return fmt.Sprintf("A port on Network %q is being created.", request.Network)
}

// heldByOther gives the first port by name that serves a request and is bound to another Pod, or nil.
func heldByOther(
	pod *corev1.Pod, pool []*cloudteamv1.NetworkPort, request consumer.Request,
) *cloudteamv1.NetworkPort {
	for _, port := range slices.SortedFunc(slices.Values(pool), consumer.CompareByName) {
		binding := port.Status.BoundTo
		if binding != nil && binding.UID != pod.UID && consumer.ServedBy(port) == request {
			return port
		}
	}
	return nil
}

// stateOf describes a port that is not Ready, by its condition.
func stateOf(port *cloudteamv1.NetworkPort) string {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return fmt.Sprintf("NetworkPort %q is being created.", port.Name)
	}
	return fmt.Sprintf("NetworkPort %q: %s: %s", port.Name, ready.Reason, consumer.Quoted(ready.Message))
}

// problemOf says how a port differs from what a Pod was given. It is empty if it does not differ, or if that is
// unknown: a status may lack what is being read again. A port that was deleted in Neutron is usually created again at
// once. If that fails because its address is taken, the Pod runs without a network, and no other condition may say
// so. port is nil if it is gone.
func (c *Controller) problemOf(a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, pod *corev1.Pod) string {
	problem := ""
	switch {
	case port == nil:
		problem = "is gone"
	case port.Status.PortID != "" && port.Status.PortID != a.PortID:
		problem = "is another port in Neutron now"
	case port.Status.MAC != "" && !strings.EqualFold(port.Status.MAC, a.MAC):
		problem = "has another MAC now"
	case len(port.Status.Addresses) > 0 && !sameAddresses(a, port):
		problem = "has other addresses now"
	case port.Status.PortID == "" && consumer.BoundTo(port) == pod.UID && consumer.StateOf(port) == consumer.PortFailing:
		why := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
		problem = fmt.Sprintf("is no longer in Neutron and cannot be created again (%s: %s)", why.Reason,
			consumer.Quoted(why.Message))
	case port.Status.BoundTo != nil && consumer.BoundTo(port) != pod.UID:
		other := c.caches.PodOf(port)
		switch {
		case !consumer.Has(other, port):
		case !consumer.SameInstance(other, pod):
			problem = fmt.Sprintf("is bound to Pod %q", other.Name)
		case other.DeletionTimestamp != nil:
			// The source of a live migration has the port until it has ended, which it does not on a node that is lost.
			return fmt.Sprintf("NetworkPort %q, which the Pod was given, is bound to Pod %q on node %s until that has ended. "+
				"It is being deleted. If node %s is lost, run kubectl delete pod %s -n %s --force", a.Port, other.Name,
				other.Spec.NodeName, other.Spec.NodeName, other.Name, other.Namespace)
		}
	}
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("NetworkPort %q, which the Pod was given, %s: delete the Pod; its replacement gets a new port",
		a.Port, problem)
}

func sameAddresses(a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort) bool {
	var addresses []string
	for _, address := range port.Status.Addresses {
		addresses = append(addresses, address.Address)
	}
	was := slices.Sorted(slices.Values(a.IPs))
	return slices.Equal(was, slices.Sorted(slices.Values(addresses)))
}

// conditionOn gives our condition on a Pod, nil if there is none.
func conditionOn(pod *corev1.Pod) *corev1.PodCondition {
	return consumer.PodCondition(pod, cloudteamv1.ConditionNetworksReady)
}

// isBlocked reports whether a Pod's condition says that something blocks it. Then changes are written at once.
func isBlocked(pod *corev1.Pod) bool {
	was := conditionOn(pod)
	return was != nil && was.Status == corev1.ConditionFalse
}

// report writes what blocks the Pod, or that nothing blocks it any more, if its condition differs.
func (c *Controller) report(ctx context.Context, pod *corev1.Pod, p progress) error {
	switch was := conditionOn(pod); {
	case pod.DeletionTimestamp != nil:
		return nil
	case consumer.Allocated(pod) && was != nil && was.Reason == cloudteamv1.ReasonSchedulingGateMissing:
		return nil // only another Pod helps, and the condition says so
	case p.reason == "" && (!p.allocated || !isBlocked(pod)):
		return nil
	}
	_, err := c.writeCondition(ctx, pod, p)
	return err
}

// writeCondition writes the condition for a progress, with an Event, if the Pod has another one. It returns the
// updated Pod. It returns controller.ErrStale if the Pod has changed meanwhile or is gone.
func (c *Controller) writeCondition(ctx context.Context, pod *corev1.Pod, p progress) (*corev1.Pod, error) {
	condition := corev1.PodCondition{
		Type: cloudteamv1.ConditionNetworksReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(),
		Reason: p.reason, Message: p.message,
	}
	severity := corev1.EventTypeWarning
	if p.reason == "" {
		severity = corev1.EventTypeNormal
		condition.Status, condition.Reason = corev1.ConditionTrue, cloudteamv1.ReasonAllocated
		condition.Message = "The Pod has its networks."
	}
	news := true
	if was := conditionOn(pod); was != nil && was.Status == condition.Status {
		if was.Reason == condition.Reason && was.Message == condition.Message {
			return pod, nil
		}
		// A wait that ends by itself has several steps, which need no Event each.
		news = was.Reason != condition.Reason || !p.passing
		condition.LastTransitionTime = was.LastTransitionTime
	}
	written, err := consumer.WriteCondition(
		ctx, c.pods.Pods(pod.Namespace).Patch, pod, false, condition, &c.expected)
	if err == nil && news {
		c.recorder.Event(consumer.Reference(kind, pod), severity, condition.Reason, condition.Message)
	}
	return written, err
}
