package consumer

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Declares reports whether a Pod or Pod template has the annotation that declares networks.
func Declares(annotations map[string]string) bool { return annotations[selection.Annotation] != "" }

// DeclaredByPod gives the networks that a Pod declares. The error is one of package selection's, for users to read.
func DeclaredByPod(pod *corev1.Pod) ([]selection.Selection, error) {
	return declared(pod.Annotations, pod.Namespace)
}

// DeclaredByDeployment gives the networks that a Deployment's Pod template declares, and what it says of their ports
// beside. The error is one of package selection's or an *AnnotationError, for users to read.
func DeclaredByDeployment(
	deployment *appsv1.Deployment,
) (selections []selection.Selection, extras Extras, err error) {
	annotations := deployment.Spec.Template.Annotations
	if selections, err = declared(annotations, deployment.Namespace); err != nil || len(selections) == 0 {
		return nil, Extras{}, err
	}
	if extras, err = ExtrasDeclared(annotations, deployment.Namespace, selections); err != nil {
		return nil, Extras{}, err
	}
	return selections, extras, nil
}

func declared(annotations map[string]string, namespace string) ([]selection.Selection, error) {
	if !Declares(annotations) {
		return nil, nil
	}
	return selection.Parse(annotations[selection.Annotation], namespace)
}

// Allocated reports whether a Pod has its ports, by its own annotation. On a Pod with our gate, the annotation is a
// copy of another Pod's: one write both allocates and removes the gate.
func Allocated(pod *corev1.Pod) bool {
	return pod.Annotations[cloudteamv1.AnnotationAllocations] != "" && !Gated(pod)
}

// UsesNetworks reports whether a Pod has any mark of a Pod with networks: a declaration, allocations or our gate. Other
// Pods need no ports.
func UsesNetworks(pod *corev1.Pod) bool {
	return Declares(pod.Annotations) || pod.Annotations[cloudteamv1.AnnotationAllocations] != "" || Gated(pod)
}

// Waiting reports whether a Pod declares networks and has not got them yet. The mirror of a kubelet's static Pod gets
// none: the kubelet takes no change from the API server.
func Waiting(pod *corev1.Pod) bool {
	return Declares(pod.Annotations) && !Mirror(pod) && pod.DeletionTimestamp == nil && !Ended(pod) && !Allocated(pod)
}

// Mirror reports whether a Pod is the mirror by which a kubelet shows a static Pod.
func Mirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// Ended reports whether a Pod's containers have stopped for good, so that its addresses are free although it exists.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Gated reports whether a Pod waits for its ports before it is scheduled.
func Gated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: cloudteamv1.SchedulingGate})
}
