// Package service is the controller of Services with a floating IP: for each Service with the annotation
// cloudteam.ztgame.com/floating-ip it keeps one FloatingIP, and leads it to the port of a Pod that the Service selects.
// The FloatingIP belongs to the Service, so the address stays while Pods come and go.
package service

import (
	"errors"
	"fmt"
	"slices"
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
	floating listers.FloatingIPLister
	led      cache.Indexer // of FloatingIPs
	pods     cache.Indexer
	caches   *consumer.Caches
	recorder record.EventRecorder
	// expected has the last write to the FloatingIP of each Service.
	expected controller.Expectations
	// told has the last Event of each Service.
	told sync.Map
	// assignments has the *assignment of each namespace in which Services need ports.
	assignments sync.Map
	// asking has the Services with the annotation, by their namespaces. Only handlers of Services write it.
	asking controller.Line
	// waiting has the Services that have no port of their own, and leading those that lead to a port, by that.
	waiting, leading controller.Line
}

// indexReady is the index of the Pods that a floating IP may lead to, by their namespaces.
const indexReady = "service/ready"

// MaxSelector is the most labels of a selector that caches have. A Service with more has none there, and asks in vain.
const MaxSelector = 32

// TooManyLabels is the only label that caches have of a selector with more labels than they keep.
const TooManyLabels = "cloudteam.ztgame.com/too-many-labels-to-select"

// NewController makes a controller that watches the informers, which MUST NOT run yet. It does nothing before Run.
func NewController(
	client typed.FloatingIPsGetter, owners corev1client.ServicesGetter, services coreinformers.ServiceInformer,
	floating informers.FloatingIPInformer, caches *consumer.Caches, recorder record.EventRecorder,
) (*Controller, error) {
	err := caches.Pods.Informer().AddIndexers(cache.Indexers{
		indexReady: controller.IndexBy(func(pod *corev1.Pod) []string {
			if !ready(pod) {
				return nil
			}
			return []string{pod.Namespace}
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("indexing pods: %w", err)
	}
	err = errors.Join(controller.IndexFloatingIPs(floating.Informer()), controller.IndexPorts(caches.Ports.Informer()))
	if err != nil {
		return nil, err
	}
	c := &Controller{
		client: client, owners: owners, services: services.Lister(),
		floating: floating.Lister(), led: floating.Informer().GetIndexer(), pods: caches.Pods.Informer().GetIndexer(),
		caches: caches, recorder: recorder,
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		c.Watch(services.Informer(), controller.HandlerOfPart(c.Loop, c.itself, sameService)),
		c.Watch(floating.Informer(), c.HandlerOf(c.ofFloating)),
		c.Watch(floating.Informer(), controller.HandlerOfPart(c.Loop, c.leaving, sameLead)),
		c.Watch(caches.Pods.Informer(), controller.HandlerOfPart(c.Loop, c.selecting, samePod)),
		c.Watch(caches.Ports.Informer(), controller.HandlerOfPart(c.Loop, c.ofPort, samePort)),
		c.Watch(caches.Networks.Informer(), controller.HandlerOfMany(c.Loop, controller.KeyOf, c.ofNetwork, samePlace)),
	)
}

func sameService(was, is *corev1.Service) bool {
	return sameWish(was, is) &&
		equality.Semantic.DeepEqual(was.Spec.Selector, is.Spec.Selector) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp)
}

// sameWish reports whether the annotations of two states ask for the same.
func sameWish(was, is *corev1.Service) bool {
	return !slices.ContainsFunc([]string{
		cloudteamv1.AnnotationFloatingIP, cloudteamv1.AnnotationFloatingIPAddress, cloudteamv1.AnnotationFloatingIPImport,
	}, func(key string) bool { return was.Annotations[key] != is.Annotations[key] })
}

// itself names the Service, and the last one of its namespace that is assigned a port: its turn may have come.
func (c *Controller) itself(service metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(service)
	c.changed(key.Namespace)
	asks := "" // by the cache, which is never older than the event
	if is, err := c.services.Services(key.Namespace).Get(key.Name); err == nil {
		if _, declares := is.Annotations[cloudteamv1.AnnotationFloatingIP]; declares && is.DeletionTimestamp == nil {
			service, asks = is, key.Namespace
		}
	}
	c.asking.Put(controller.WaitingOf(service), asks)
	keys := []cache.ObjectName{key}
	if first := c.asking.Names(key.Namespace, maxServices); len(first) == maxServices {
		keys = append(keys, first[maxServices-1])
	}
	return keys
}

// ofFloating names the Service of a FloatingIP, and the one of its name, which it may be in the way of.
func (c *Controller) ofFloating(obj metav1.Object) []cache.ObjectName {
	c.changed(obj.GetNamespace())
	keys := []cache.ObjectName{cache.MetaObjectToName(obj)}
	if owner := controller.OwnerOf(obj, Kind.GroupKind()); owner != nil && owner.Name != obj.GetName() {
		keys = append(keys, cache.NewObjectName(obj.GetNamespace(), owner.Name))
	}
	return keys
}

// leaving names Services that look for a port when a FloatingIP leaves one, and the next ones that lead there.
func (c *Controller) leaving(obj metav1.Object) []cache.ObjectName {
	f, ok := obj.(*cloudteamv1.FloatingIP)
	if !ok || f.Spec.PortName == "" {
		return nil
	}
	port, err := c.caches.Ports.Lister().NetworkPorts(f.Namespace).Get(f.Spec.PortName)
	if err != nil {
		return c.leading.Names(cache.NewObjectName(f.Namespace, f.Spec.PortName).String(), wake)
	}
	return c.ofPort(port)
}

func sameLead(was, is *cloudteamv1.FloatingIP) bool { return was.Spec.PortName == is.Spec.PortName }

// selecting names the Services that an event of a Pod may concern: some of those whose floating IPs are associated with
// it, and some that select it and look for a port, at most wake of each. If the Pod has more ports, it names one for
// each, and each Service that leaves a port wakes the next. selecting is called for each event of a Pod or port, of all
// namespaces in turn, so its cost must not depend on what a tenant writes.
func (c *Controller) selecting(pod metav1.Object) (keys []cache.ObjectName) {
	c.changed(pod.GetNamespace())
	ports := c.caches.PortsBoundTo(cache.MetaObjectToName(pod))
	for _, port := range ports {
		keys = append(keys, c.leading.Names(cache.MetaObjectToName(port).String(), max(1, wake/len(ports)))...)
	}
	left := wake
	for key, value := range pod.GetLabels() {
		found := c.waiting.Names(labelKey(pod.GetNamespace(), key, value), left)
		keys = append(keys, found...)
		if left -= len(found); left == 0 {
			break
		}
	}
	return keys
}

// labelKey is what a Service waits for that selects a label first.
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

// ofPort names the Services that an event of a port may concern: those of its Pod, or some that lead there without one.
func (c *Controller) ofPort(obj metav1.Object) []cache.ObjectName {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil
	}
	if port.Status.BoundTo != nil {
		pod, err := c.caches.Pods.Lister().Pods(port.Namespace).Get(port.Status.BoundTo.Name)
		if err == nil { // otherwise its deletion was an event
			return append(c.selecting(pod), c.leading.Names(cache.MetaObjectToName(port).String(), 1)...)
		}
	}
	return c.leading.Names(cache.MetaObjectToName(port).String(), wake)
}

func samePort(was, is *cloudteamv1.NetworkPort) bool {
	return was.Status.PortID == is.Status.PortID && consumer.BoundTo(was) == consumer.BoundTo(is) &&
		was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(was.Status.Addresses, is.Status.Addresses)
}

// ofNetwork names the Services whose floating IPs are associated with ports on a Network.
func (c *Controller) ofNetwork(network cache.ObjectName) (keys []cache.ObjectName) {
	for _, port := range controller.PortsOn(c.caches.Ports.Informer().GetIndexer(), network) {
		keys = append(keys, c.leading.Names(cache.MetaObjectToName(port).String(), maxServices)...)
	}
	return keys
}

func samePlace(was, is *cloudteamv1.Network) bool {
	return equality.Semantic.DeepEqual(was.Spec.Cloud, is.Spec.Cloud) &&
		equality.Semantic.DeepEqual(was.Status.Class, is.Status.Class)
}
