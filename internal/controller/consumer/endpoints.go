package consumer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// EndpointsManagedBy is the value of the label endpointslice.kubernetes.io/managed-by of the controller's
	// EndpointSlices. By its own value, Kubernetes' controller knows which slices are not its own.
	EndpointsManagedBy = "network-controller.cloudteam.ztgame.com"
	// MaxEndpointsSelector is the most labels of AnnotationEndpointsSelector.
	MaxEndpointsSelector = 32
	// MaxEndpointsSize is the most bytes of AnnotationEndpointsSelector.
	MaxEndpointsSize = 384
	// MaxEndpointsPerSlice is the most endpoints of an EndpointSlice, as in Kubernetes.
	MaxEndpointsPerSlice = 100
	// MaxEndpointsPorts is the most ports of a Service. Each Pod may have other numbers for those with a name.
	MaxEndpointsPorts = 8
)

// Endpoints is what a Service asks for by its annotations.
type Endpoints struct {
	// Network is the name of the Network, of the Service's namespace.
	Network string
	// Labels are those of the Service's Pods.
	Labels labels.Set
}

// AsksForEndpoints reports whether a Service asks for endpoints on a Network.
func AsksForEndpoints(service *corev1.Service) bool {
	_, is := service.Annotations[cloudteamv1.AnnotationEndpointsNetwork]
	return is
}

// EndpointsOf reads a Service that asks. wrong says for users why it can have no endpoints; it is empty if it can.
func EndpointsOf(service *corev1.Service) (e Endpoints, wrong string) {
	e.Network = service.Annotations[cloudteamv1.AnnotationEndpointsNetwork]
	text := service.Annotations[cloudteamv1.AnnotationEndpointsSelector]
	set, err := labels.ConvertSelectorToLabelsMap(text)
	switch {
	case e.Network == "":
		wrong = fmt.Sprintf("annotation %s names no Network: write the name of one of this namespace",
			cloudteamv1.AnnotationEndpointsNetwork)
	case len(set) > MaxEndpointsSelector || len(text) > MaxEndpointsSize:
		wrong = fmt.Sprintf("annotation %s has more than %d labels or %d bytes: write fewer",
			cloudteamv1.AnnotationEndpointsSelector, MaxEndpointsSelector, MaxEndpointsSize)
	case err != nil || len(set) == 0:
		wrong = fmt.Sprintf("annotation %s selects no Pods: write their labels, such as app=web",
			cloudteamv1.AnnotationEndpointsSelector)
	case len(service.Spec.Selector) > 0:
		wrong = fmt.Sprintf("spec.selector is set, and by that Kubernetes adds the Pods' own addresses: remove it, and "+
			"write the labels in the annotation %s", cloudteamv1.AnnotationEndpointsSelector)
	case service.Spec.ClusterIP != corev1.ClusterIPNone:
		wrong = "the Service has a clusterIP, or is an ExternalName, and nodes cannot forward packets to a Network: create " +
			"it again with clusterIP: None"
	case len(service.Spec.Ports) > MaxEndpointsPorts:
		wrong = fmt.Sprintf("the Service has more than %d ports: write fewer", MaxEndpointsPorts)
	}
	e.Labels = set
	return e, wrong
}
