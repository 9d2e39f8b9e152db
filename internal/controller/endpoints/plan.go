package endpoints

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// plan is what has to be written so that the EndpointSlices of a Service have exactly its Pods. Kubernetes' own
// reconciler decides it, with a plan in the place of its client. The writes are the controller's: they end with its
// term, and are conditional. A method of the interfaces that is not here would panic.
type plan struct {
	kubernetes.Interface
	discoveryclient.DiscoveryV1Interface
	discoveryclient.EndpointSliceInterface

	create, update []*discoveryv1.EndpointSlice
	remove         []string
}

// planFor gives the plan for Pods whose status has the addresses that the Service is to have.
func planFor(
	ctx context.Context, service *corev1.Service, pods []*corev1.Pod, has []*discoveryv1.EndpointSlice,
) (*plan, error) {
	p := &plan{}
	err := endpointslice.NewReconciler(p, anyNode{}, consumer.MaxEndpointsPerSlice,
		endpointsliceutil.NewEndpointSliceTracker(), nil, nil, consumer.EndpointsManagedBy).
		Reconcile(klog.FromContext(ctx), service, pods, has, time.Time{})
	return p, err
}

// DiscoveryV1 implements kubernetes.Interface.
func (p *plan) DiscoveryV1() discoveryclient.DiscoveryV1Interface { return p }

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (p *plan) EndpointSlices(string) discoveryclient.EndpointSliceInterface { return p }

// Create implements discoveryclient.EndpointSliceInterface.
func (p *plan) Create(
	_ context.Context, slice *discoveryv1.EndpointSlice, _ metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	p.create = append(p.create, slice)
	return slice, nil
}

// Update implements discoveryclient.EndpointSliceInterface.
func (p *plan) Update(
	_ context.Context, slice *discoveryv1.EndpointSlice, _ metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	p.update = append(p.update, slice)
	return slice, nil
}

// Delete implements discoveryclient.EndpointSliceInterface.
func (p *plan) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	p.remove = append(p.remove, name)
	return nil
}

// anyNode has each Node, without a zone. Kubernetes' reconciler reads of a Node only that, for hints to kube-proxy.
type anyNode struct{}

// Get implements corelisters.NodeLister.
func (anyNode) Get(string) (*corev1.Node, error) { return &corev1.Node{}, nil }

// List implements corelisters.NodeLister.
func (anyNode) List(labels.Selector) ([]*corev1.Node, error) { return nil, nil }

// at gives a Pod as the reconciler is to see it: with the addresses of a port, the lowest of each IP family. The API
// server refuses a whole slice for an address that no endpoint may have.
func at(pod *corev1.Pod, port *cloudteamv1.NetworkPort) *corev1.Pod {
	var lowest [2]netip.Addr
	for _, a := range port.Status.Addresses {
		prefix, err := netip.ParsePrefix(a.Address)
		addr := prefix.Addr()
		if err != nil || addr.Is4In6() || addr.IsUnspecified() || addr.IsLoopback() || addr.IsLinkLocalUnicast() ||
			addr.IsMulticast() {
			continue
		}
		family := &lowest[0]
		if addr.Is6() {
			family = &lowest[1]
		}
		if !family.IsValid() || addr.Less(*family) {
			*family = addr
		}
	}
	is := *pod
	is.Status.PodIP, is.Status.PodIPs = "", nil
	for _, addr := range lowest {
		if addr.IsValid() {
			is.Status.PodIPs = append(is.Status.PodIPs, corev1.PodIP{IP: addr.String()})
		}
	}
	return &is
}
