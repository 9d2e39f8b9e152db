// Package service is the controller of Services with a floating IP: for each Service with the annotation
// cloudteam.ztgame.com/floating-ip it keeps one FloatingIP, and leads it to the port of a Pod that the Service selects.
// The FloatingIP belongs to the Service, so the address stays while Pods come and go.
package service

import (
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "service"

// Kind is the kind of the objects that the controller syncs.
var Kind = corev1.SchemeGroupVersion.WithKind("Service")

// Controller keeps the FloatingIPs of Services. Make it with NewController.
type Controller struct {
	*controller.Loop

	client   typed.FloatingIPsGetter
	owners   corev1client.ServicesGetter
	services corelisters.ServiceLister
	indexer  cache.Indexer // of Services
	floating listers.FloatingIPLister
	led      cache.Indexer // of FloatingIPs
	caches   *consumer.Caches
	recorder record.EventRecorder
	// expected has the last write to the FloatingIP of each Service.
	expected controller.Expectations
	// told has the last Event of each Service.
	told sync.Map
}

const (
	// indexAnnotated is the index of the Services that ask for a floating IP, by their namespaces.
	indexAnnotated = "service/annotated"
	// indexSelector is the index of these Services by their namespaces and the first label of their selectors, so that a
	// Pod finds those that may select it.
	indexSelector = "service/selector"
)

// MaxSelector is the most labels of a selector that caches have. A Service with more has none there, and asks in vain.
const MaxSelector = 32

// TooManyLabels is the only label that caches have of a selector with more labels than they keep.
const TooManyLabels = "cloudteam.ztgame.com/too-many-labels-to-select"

// NewController makes a controller that watches the informers, which MUST NOT run yet. It does nothing before Run.
func NewController(
	client typed.FloatingIPsGetter, owners corev1client.ServicesGetter, services coreinformers.ServiceInformer,
	floating informers.FloatingIPInformer, caches *consumer.Caches, recorder record.EventRecorder,
) (*Controller, error) {
	err := services.Informer().AddIndexers(cache.Indexers{
		indexAnnotated: controller.IndexBy(func(service *corev1.Service) []string {
			if _, declares := service.Annotations[cloudteamv1.AnnotationFloatingIP]; !declares {
				return nil
			}
			return []string{service.Namespace}
		}),
		indexSelector: controller.IndexBy(func(service *corev1.Service) []string {
			_, declares := service.Annotations[cloudteamv1.AnnotationFloatingIP]
			if key, value, any := firstOf(service.Spec.Selector); declares && any {
				return []string{labelKey(service.Namespace, key, value)}
			}
			return nil
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("indexing services: %w", err)
	}
	if err := controller.IndexFloatingIPs(floating.Informer()); err != nil {
		return nil, err
	}
	c := &Controller{
		client: client, owners: owners, services: services.Lister(), indexer: services.Informer().GetIndexer(),
		floating: floating.Lister(), led: floating.Informer().GetIndexer(), caches: caches, recorder: recorder,
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		c.Watch(services.Informer(), controller.HandlerOfPart(c.Loop, controller.KeyOf, sameService)),
		c.Watch(floating.Informer(), c.HandlerOf(c.ofFloating)),
		c.Watch(caches.Pods.Informer(), controller.HandlerOfPart(c.Loop, c.selecting, samePod)),
		c.Watch(caches.Ports.Informer(), controller.HandlerOfPart(c.Loop, c.ofPort, samePort)),
		c.Watch(caches.Networks.Informer(), controller.HandlerOfPart(c.Loop, c.ofNetwork, samePlace)),
	)
}

func sameService(was, is *corev1.Service) bool {
	return was.Annotations[cloudteamv1.AnnotationFloatingIP] == is.Annotations[cloudteamv1.AnnotationFloatingIP] &&
		equality.Semantic.DeepEqual(was.Spec.Selector, is.Spec.Selector) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp)
}

// ofFloating names the Service of a FloatingIP, the one of its name, which it may be in the way of, and those whose
// FloatingIPs lead to the same port, which may choose another one.
func (c *Controller) ofFloating(obj metav1.Object) []cache.ObjectName {
	keys := []cache.ObjectName{cache.MetaObjectToName(obj)}
	if owner := controller.OwnerOf(obj, Kind.GroupKind()); owner != nil && owner.Name != obj.GetName() {
		keys = append(keys, cache.NewObjectName(obj.GetNamespace(), owner.Name))
	}
	if f, ok := obj.(*cloudteamv1.FloatingIP); ok && f.Spec.PortName != "" {
		for _, beside := range c.leadingTo(f.Namespace, f.Spec.PortName) {
			keys = append(keys, cache.MetaObjectToName(beside))
		}
	}
	return keys
}

// leadingTo gives the FloatingIPs whose specs name a NetworkPort.
func (c *Controller) leadingTo(namespace, port string) []*cloudteamv1.FloatingIP {
	return controller.FloatingIPsTo(c.led, cache.NewObjectName(namespace, port))
}

// annotated gives the Services of a namespace that ask for a floating IP.
func (c *Controller) annotated(namespace string) []*corev1.Service {
	return controller.Indexed[*corev1.Service](c.indexer, indexAnnotated, namespace)
}

// selecting names the Services with a floating IP that select a Pod. It is called for each event of a Pod or port, of
// all namespaces in turn, so its cost must not depend on what a tenant writes.
func (c *Controller) selecting(pod metav1.Object) (keys []cache.ObjectName) {
	for key, value := range pod.GetLabels() {
		all := controller.Indexed[*corev1.Service](c.indexer, indexSelector, labelKey(pod.GetNamespace(), key, value))
		for _, service := range all {
			if selects(service, pod) {
				keys = append(keys, cache.MetaObjectToName(service))
			}
		}
	}
	return keys
}

// labelKey is the value of indexSelector for a label.
func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// firstOf gives the first label of a selector, by its key; any is false if there is none.
func firstOf(selector map[string]string) (key, value string, any bool) {
	for k, v := range selector {
		if !any || k < key {
			key, value, any = k, v, true
		}
	}
	return key, value, any
}

// selects reports whether a Service selects a Pod. As in Kubernetes, one without a selector selects none.
func selects(service *corev1.Service, pod metav1.Object) bool {
	has := pod.GetLabels()
	for key, value := range service.Spec.Selector {
		if is, labelled := has[key]; !labelled || is != value {
			return false
		}
	}
	_, tooMany := service.Spec.Selector[TooManyLabels]
	return len(service.Spec.Selector) > 0 && !tooMany
}

func samePod(was, is *corev1.Pod) bool {
	return equality.Semantic.DeepEqual(was.Labels, is.Labels) && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		consumer.Ended(was) == consumer.Ended(is) && consumer.Allocated(was) == consumer.Allocated(is)
}

// ofPort names the Services whose floating IPs may lead to a port: those that select its Pod.
func (c *Controller) ofPort(obj metav1.Object) []cache.ObjectName {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok || port.Status.BoundTo == nil || len(c.annotated(port.Namespace)) == 0 {
		return nil
	}
	pod, err := c.caches.Pods.Lister().Pods(port.Namespace).Get(port.Status.BoundTo.Name)
	if err != nil {
		return nil // its deletion was an event
	}
	return c.selecting(pod)
}

func samePort(was, is *cloudteamv1.NetworkPort) bool {
	return was.Status.PortID == is.Status.PortID && consumer.BoundTo(was) == consumer.BoundTo(is) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(was.Status.Addresses, is.Status.Addresses)
}

// ofNetwork names the Services with a floating IP of a Network's namespace.
func (c *Controller) ofNetwork(obj metav1.Object) (keys []cache.ObjectName) {
	for _, service := range c.annotated(obj.GetNamespace()) {
		keys = append(keys, cache.MetaObjectToName(service))
	}
	return keys
}

func samePlace(was, is *cloudteamv1.Network) bool {
	return equality.Semantic.DeepEqual(was.Spec.Cloud, is.Spec.Cloud) &&
		equality.Semantic.DeepEqual(was.Status.Class, is.Status.Class)
}
