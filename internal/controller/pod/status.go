package pod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// invalid is the outcome of an annotation that cannot be read or written.
func invalid(err error) outcome {
	return outcome{reason: cloudteamv1.ReasonInvalidNetworks,
		message: fmt.Sprintf("annotation %s: %s", selection.Annotation, strings.ReplaceAll(err.Error(), "\n", "; "))}
}

// onHostNetwork is the outcome of a Pod that shares its node's interfaces.
func onHostNetwork() outcome {
	return outcome{reason: cloudteamv1.ReasonInvalidNetworks, message: fmt.Sprintf(
		"the Pod has hostNetwork: true, and so no interfaces of its own: create it without, or without the annotation %s",
		selection.Annotation)}
}

// missing is the outcome of a name that nothing bears.
func missing(s selection.Selection) outcome {
	return outcome{reason: cloudteamv1.ReasonNetworkNotFound, message: fmt.Sprintf(
		"there is neither a Network nor a NetworkAttachmentDefinition %q in namespace %q: create the Network, or correct "+
			"the annotation %s", s.Name, s.Namespace, selection.Annotation)}
}

// orphan is the outcome of a Pod whose ReplicaSet the cache does not show.
func orphan(pod *corev1.Pod) outcome {
	return outcome{reason: cloudteamv1.ReasonWaitingForPorts, passing: true, message: fmt.Sprintf(
		"ReplicaSet %q, which controls the Pod, is not there, so that the Pod's Deployment is not known",
		metav1.GetControllerOfNoCopy(pod).Name)}
}

// notGated is the outcome of a Pod that was scheduled before its ports were there.
func notGated() outcome {
	return outcome{reason: cloudteamv1.ReasonNotGated, message: fmt.Sprintf(
		"the Pod was scheduled before its networks were there, and its containers may lack them: install the policy that "+
			"sets the scheduling gate %s (kubectl apply -k config/admission), create Pods without spec.nodeName, and create "+
			"this one anew", cloudteamv1.SchedulingGate)}
}

// unready is the outcome of a port that is bound to the Pod, and cannot be used at the moment.
func unready(port *cloudteamv1.NetworkPort) outcome {
	if conditionOf(port) == failing {
		return outcome{reason: cloudteamv1.ReasonPortsFailing, message: stateOf(port)}
	}
	return outcome{reason: cloudteamv1.ReasonWaitingForPorts, passing: true, message: stateOf(port)}
}

// lacking is the outcome of requests that nothing serves yet: that a port fails, where there is no other to wait for,
// else that ports are waited for. Of several it names the first, so that the message is the same at every look.
func (c *Controller) lacking(
	pod *corev1.Pod, owner types.UID, requests []consumer.Request, ports []*cloudteamv1.NetworkPort,
) outcome {
	message := ""
	for i, request := range requests {
		if ports[i] != nil || len(c.offered(usable, owner, request)) > 0 {
			continue
		}
		made, failed := c.offered(pending, owner, request), c.offered(failing, owner, request)
		if len(made) == 0 && len(failed) > 0 {
			return outcome{reason: cloudteamv1.ReasonPortsFailing, message: stateOf(slices.MinFunc(failed, byOrder))}
		}
		if message == "" {
			message = c.waitingFor(pod, owner, request, made)
		}
	}
	if message == "" {
		message = "ports are free, and are being bound to other Pods"
	}
	return outcome{reason: cloudteamv1.ReasonWaitingForPorts, passing: true, message: message}
}

// waitingFor says what a Pod waits for that no port serves yet. made are the ports that are being made for it.
func (c *Controller) waitingFor(
	pod *corev1.Pod, owner types.UID, request consumer.Request, made []*cloudteamv1.NetworkPort,
) string {
	network, err := c.caches.Networks.Networks(request.Network.Namespace).Get(request.Network.Name)
	if err == nil && !controller.Serves(network) {
		return fmt.Sprintf("Network %q is not Ready; if it stays so, kubectl describe network -n %s %s tells why",
			request.Network, request.Network.Namespace, request.Network.Name)
	}
	made = slices.DeleteFunc(made, func(port *cloudteamv1.NetworkPort) bool {
		return meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady) == nil
	})
	if len(made) > 0 {
		return stateOf(slices.MinFunc(made, byOrder))
	}
	if request.Exclusive() {
		for _, port := range inOrder(c.caches.PortsOf(owner)) {
			binding := port.Status.BoundTo
			if binding != nil && binding.UID != pod.UID && consumer.ServedBy(port) == request {
				return fmt.Sprintf("NetworkPort %q, which has the ips or mac that are asked for, is bound to Pod %q: if it "+
					"stays so, take ips and mac out of the annotation %s, or have one Pod at a time (replicas: 1, strategy "+
					"Recreate)", port.Name, binding.Name, selection.Annotation)
			}
		}
	}
	return fmt.Sprintf("a port on Network %q is being made", request.Network)
}

// stateOf tells of a port that is not Ready what it says itself.
func stateOf(port *cloudteamv1.NetworkPort) string {
	ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return fmt.Sprintf("NetworkPort %q is being made", port.Name)
	}
	return fmt.Sprintf("NetworkPort %q: %s: %s", port.Name, ready.Reason, ready.Message)
}

// differs tells how a port is not what a Pod was allocated any more, empty where it is, or where that is not known: a
// port's status may be without what is being looked up anew. One that was deleted in Neutron is as a rule back at once;
// where it cannot be made again, as its address is another's by now, the Pod runs without a network, and nobody but it
// would say so who has no Deployment. port is nil where it is gone.
func (c *Controller) differs(
	a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort, pod *corev1.Pod,
) string {
	problem := ""
	switch {
	case port == nil:
		problem = "is gone"
	case port.Status.PortID != "" && port.Status.PortID != a.PortID:
		problem = "is another port in Neutron by now"
	case port.Status.MAC != "" && !strings.EqualFold(port.Status.MAC, a.MAC):
		problem = "has another MAC by now"
	case len(port.Status.Addresses) > 0 && !sameAddresses(a, port):
		problem = "has other addresses by now"
	case port.Status.PortID == "" && boundTo(port) == pod.UID && conditionOf(port) == failing:
		why := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
		problem = fmt.Sprintf("is not in Neutron any more and cannot be made again (%s: %s)", why.Reason, why.Message)
	case port.Status.BoundTo != nil && boundTo(port) != pod.UID:
		other, err := c.caches.Pods.Pods(pod.Namespace).Get(port.Status.BoundTo.Name)
		if err == nil && has(other, port) {
			problem = fmt.Sprintf("is bound to Pod %q", other.Name)
		}
	}
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("NetworkPort %q, which the Pod was given, %s: delete the Pod; the one that replaces it is given a "+
		"port anew", a.Port, problem)
}

func sameAddresses(a cloudteamv1.Allocation, port *cloudteamv1.NetworkPort) bool {
	var addresses []string
	for _, address := range port.Status.Addresses {
		addresses = append(addresses, address.Address)
	}
	was := slices.Sorted(slices.Values(a.IPs))
	return slices.Equal(was, slices.Sorted(slices.Values(addresses)))
}

// conditionOn gives our condition on a Pod, nil where there is none.
func conditionOn(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == cloudteamv1.ConditionNetworksReady {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// told reports whether a Pod was told that something stands in its way. What it was told is then kept up to date
// without waiting whether it lasts.
func told(pod *corev1.Pod) bool {
	was := conditionOn(pod)
	return was != nil && was.Status == corev1.ConditionFalse
}

// tell writes what stands in the Pod's way, or that it is over, where that is not what its condition says already.
// It reports whether it was written, or could not be because the Pod has moved on.
func (c *Controller) tell(ctx context.Context, pod *corev1.Pod, o outcome) (wrote, behind bool, err error) {
	switch was := conditionOn(pod); {
	case pod.DeletionTimestamp != nil:
		return false, false, nil // it is over either way
	case consumer.Allocated(pod) && was != nil && was.Reason == cloudteamv1.ReasonNotGated:
		return false, false, nil // nothing helps but another Pod, and that is what it says
	case o.reason == "" && (!o.allocated || !told(pod)):
		return false, false, nil
	}
	written, err := c.write(ctx, pod, o)
	return written != nil && written != pod, written == nil && err == nil, err
}

// write writes the condition that an outcome leads to, with an Event, where the Pod has another. It returns the Pod as
// it is then, nil where the Pod has moved on or is gone.
func (c *Controller) write(ctx context.Context, pod *corev1.Pod, o outcome) (*corev1.Pod, error) {
	condition := corev1.PodCondition{
		Type: cloudteamv1.ConditionNetworksReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now(),
		Reason: o.reason, Message: o.message,
	}
	if o.reason == "" {
		condition.Status, condition.Reason = corev1.ConditionTrue, cloudteamv1.ReasonAllocated
		condition.Message = "the Pod has its networks"
	}
	news := true
	if was := conditionOn(pod); was != nil && was.Status == condition.Status {
		if was.Reason == condition.Reason && was.Message == condition.Message {
			return pod, nil
		}
		// What passes by itself takes several steps, which need no Event each.
		news = was.Reason != condition.Reason || !o.passing
		condition.LastTransitionTime = was.LastTransitionTime
	}
	written, moved, err := consumer.WriteCondition(
		ctx, c.pods.Pods(pod.Namespace).Patch, pod, pod.ResourceVersion, condition, &c.expected)
	if err != nil || moved {
		return nil, err
	}
	if !news {
		return written, nil
	}
	severity := corev1.EventTypeWarning
	if condition.Status == corev1.ConditionTrue {
		severity = corev1.EventTypeNormal
	}
	c.recorder.Event(consumer.Reference(kind, pod), severity, condition.Reason, condition.Message)
	return written, nil
}
