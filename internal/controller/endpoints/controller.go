// Package endpoints is the controller of Services with endpoints on a Network: for each Service with the annotation
// cloudteam.ztgame.com/endpoints-network it keeps the EndpointSlices, with the addresses of the Service's Pods on that
// Network.
package endpoints

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	endpointsliceutil "k8s.io/endpointslice/util"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "endpoints"

// kind is the kind of the objects that the controller syncs.
var kind = corev1.SchemeGroupVersion.WithKind("Service")

const (
	// maxServices is how many Services of a namespace have endpoints: the oldest with the annotation.
	maxServices = 256
	// maxPods is how many Pods of a Service are endpoints: the oldest.
	maxPods = 1000
	// A Service rests after it was compared with its Pods, at most longestRest, for each Service of its namespace that
	// asks: restPerPod for each of its Pods, a tenth of that for each Pod that was looked at, and restPerWrite for each
	// slice that was written. So one who changes a Pod all the time has few comparisons, and few writes.
	restPerPod, restPerWrite, longestRest = 100 * time.Microsecond, 10 * time.Millisecond, 5 * time.Second

	// indexService is the index of EndpointSlices by their Services.
	indexService = "endpoints/service"
	// indexAttachable is the index of Pods that may have attached ports, by their namespaces.
	indexAttachable = "endpoints/attachable"
)

// Controller keeps the EndpointSlices of Services. Make it with NewController.
type Controller struct {
	*controller.Loop

	client   discoveryclient.EndpointSlicesGetter
	owners   corev1client.ServicesGetter
	services corelisters.ServiceLister
	slices   cache.Indexer
	pods     cache.Indexer
	caches   *consumer.Caches
	classes  *classes.Classes
	recorder record.EventRecorder
	// expected has the last writes to the EndpointSlices of each Service.
	expected controller.Expectations
	// told has the last Event of each Service, and rests until when it rests.
	told, rests sync.Map
	// asking has the Services with the annotation, by their namespaces. Only handlers of Services write it.
	asking controller.Line
	// selecting has the Services by the first label of their Pods, and on by their Networks. Only syncs write them.
	selecting, on controller.Line
}

// NewController makes a controller that watches the informers, which MUST NOT run yet. slices has the EndpointSlices
// with the label consumer.EndpointsManagedBy. It does nothing before Run.
func NewController(
	client discoveryclient.EndpointSlicesGetter, owners corev1client.ServicesGetter,
	services coreinformers.ServiceInformer, slices discoveryinformers.EndpointSliceInformer, caches *consumer.Caches,
	of *classes.Classes, recorder record.EventRecorder,
) (*Controller, error) {
	err := errors.Join(
		caches.Pods.Informer().AddIndexers(cache.Indexers{indexAttachable: controller.IndexBy(byAttachable)}),
		slices.Informer().AddIndexers(cache.Indexers{indexService: controller.IndexBy(byService)}),
	)
	if err != nil {
		return nil, fmt.Errorf("indexing pods and endpoint slices: %w", err)
	}
	c := &Controller{
		client: client, owners: owners, services: services.Lister(), slices: slices.Informer().GetIndexer(),
		pods: caches.Pods.Informer().GetIndexer(), caches: caches, classes: of, recorder: recorder,
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		c.Watch(services.Informer(), controller.HandlerOfPart(c.Loop, c.itself, sameService)),
		c.Watch(slices.Informer(), c.HandlerOf(ofSlice)),
		c.Watch(caches.Pods.Informer(), controller.HandlerOfPart(c.Loop, c.ofPod, samePod)),
		c.Watch(caches.Ports.Informer(), controller.HandlerOfPart(c.Loop, c.ofPort, samePort)),
		c.Watch(caches.Networks.Informer(), controller.HandlerOfMany(c.Loop, controller.KeyOf, c.ofNetwork, sameNetwork)),
	)
}

// EnqueueNamespace enqueues the Services of a namespace that ask for endpoints, or all for "".
func (c *Controller) EnqueueNamespace(namespace string) {
	all, _ := c.services.Services(namespace).List(labels.Everything()) // a cache gives no error
	for _, service := range all {
		if consumer.AsksForEndpoints(service) {
			c.Enqueue(cache.MetaObjectToName(service))
		}
	}
}

func sameService(was, is *corev1.Service) bool {
	asks := consumer.AsksForEndpoints(is)
	return asks == consumer.AsksForEndpoints(was) && (!asks ||
		maps.Equal(was.Annotations, is.Annotations) && maps.Equal(was.Labels, is.Labels) &&
			equality.Semantic.DeepEqual(was.Spec, is.Spec) && was.DeletionTimestamp.Equal(is.DeletionTimestamp))
}

// itself names the Service, the last one of its namespace that has endpoints, and the next one: its turn may have come,
// or be over.
func (c *Controller) itself(service metav1.Object) []cache.ObjectName {
	key, within := cache.MetaObjectToName(service), ""
	// The cache is never older than the event.
	is, err := c.services.Services(key.Namespace).Get(key.Name)
	if err == nil && consumer.AsksForEndpoints(is) && is.DeletionTimestamp == nil {
		service, within = is, key.Namespace
	}
	c.asking.Put(controller.WaitingOf(service), within)
	keys := []cache.ObjectName{key}
	if first := c.asking.Names(key.Namespace, maxServices+1); len(first) >= maxServices {
		keys = append(keys, first[maxServices-1:]...)
	}
	return keys
}

// ofSlice names the Service of an EndpointSlice by its label, by which others find it, and the one that controls it.
func ofSlice(slice metav1.Object) []cache.ObjectName {
	keys := []cache.ObjectName{cache.NewObjectName(slice.GetNamespace(), slice.GetLabels()[discoveryv1.LabelServiceName])}
	owner := controller.OwnerOf(slice, kind.GroupKind())
	if owner != nil && owner.Name != keys[0].Name {
		keys = append(keys, cache.NewObjectName(slice.GetNamespace(), owner.Name))
	}
	return keys
}

func byService(slice *discoveryv1.EndpointSlice) (keys []string) {
	for _, key := range ofSlice(slice) {
		keys = append(keys, key.String())
	}
	return keys
}

func byAttachable(pod *corev1.Pod) []string {
	if !attachable(pod) {
		return nil
	}
	return []string{pod.Namespace}
}

// attachable is the part of the condition for an endpoint that is about the Pod alone.
func attachable(pod *corev1.Pod) bool {
	return consumer.Allocated(pod) && !consumer.Ended(pod) && pod.Spec.NodeName != ""
}

// ofPod names the Services whose first label a Pod has.
func (c *Controller) ofPod(pod metav1.Object) (keys []cache.ObjectName) {
	for key, value := range pod.GetLabels() {
		keys = append(keys, c.selecting.Names(labelKey(pod.GetNamespace(), key, value), maxServices)...)
	}
	return keys
}

// labelKey is what Services wait for whose Pods have a label.
func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

func samePod(was, is *corev1.Pod) bool {
	return maps.Equal(was.Labels, is.Labels) && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		attachable(was) == attachable(is) && endpointsliceutil.IsPodReady(was) == endpointsliceutil.IsPodReady(is)
}

// ofPort names the Services that an event of a port may concern: those of its Pod.
func (c *Controller) ofPort(obj metav1.Object) []cache.ObjectName {
	if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
		if pod := c.caches.PodOf(port); pod != nil { // else its deletion was an event
			return c.ofPod(pod)
		}
	}
	return nil
}

func samePort(was, is *cloudteamv1.NetworkPort) bool {
	return attached(was) == attached(is) && consumer.BoundTo(was) == consumer.BoundTo(is) &&
		equality.Semantic.DeepEqual(was.Status.Addresses, is.Status.Addresses) &&
		equality.Semantic.DeepEqual(was.Status.Cloud, is.Status.Cloud) &&
		equality.Semantic.DeepEqual(was.Status.Credentials, is.Status.Credentials)
}

// attached reports whether a port is where its Pod is. Only on nodes with a data plane of this project is it known
// whether packets arrive.
func attached(port *cloudteamv1.NetworkPort) bool {
	return port.Status.PortID != "" && port.DeletionTimestamp == nil &&
		!meta.IsStatusConditionFalse(port.Status.Conditions, cloudteamv1.ConditionAttached)
}

// ofNetwork names the Services with endpoints on a Network.
func (c *Controller) ofNetwork(network cache.ObjectName) []cache.ObjectName {
	return c.on.Names(network.String(), maxServices)
}

func sameNetwork(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.Status.AppliedGeneration == is.Status.AppliedGeneration &&
		equality.Semantic.DeepEqual(was.Status.Cloud, is.Status.Cloud) &&
		equality.Semantic.DeepEqual(was.Status.Credentials, is.Status.Credentials) &&
		equality.Semantic.DeepEqual(was.Status.Subnets, is.Status.Subnets)
}
