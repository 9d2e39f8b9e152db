// Package service is the controller of Services with a floating IP: for each Service with the annotation
// cloudteam.ztgame.com/floating-ip it keeps one FloatingIP, and leads it to the port of a Pod that the Service selects.
// The FloatingIP belongs to the Service, so the address stays while Pods come and go.
package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

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
	// indexPort is the index of FloatingIPs by the namespaces and names of the NetworkPorts in their specs.
	indexPort = "service/port"
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
	if err == nil {
		err = floating.Informer().AddIndexers(cache.Indexers{
			indexPort: controller.IndexBy(func(obj *cloudteamv1.FloatingIP) []string {
				if obj.Spec.PortName == "" {
					return nil
				}
				return []string{cache.NewObjectName(obj.Namespace, obj.Spec.PortName).String()}
			}),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("indexing services and floatingips: %w", err)
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
	return controller.Indexed[*cloudteamv1.FloatingIP](c.led, indexPort, cache.NewObjectName(namespace, port).String())
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
		consumer.Ended(was) == consumer.Ended(is)
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

// sync brings the FloatingIP of a Service to what its annotation asks for. It is level-triggered. The process may end
// after any write: the FloatingIP has the Service's name, so the next sync finds it.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		// Garbage collection deletes its FloatingIP.
		c.told.Delete(key)
		c.expected.Forget(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	has, err := c.floating.FloatingIPs(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		has = nil
	} else if err != nil {
		return controller.Result{}, err
	}
	w, declares, err := wishOf(service)
	switch {
	case err != nil: // what exists stays as it is
		c.fail(service, err.Error())
		return controller.Result{}, nil
	case !declares:
		c.told.Delete(key)
		if has != nil && controller.Controls(service, Kind.GroupKind(), has) {
			return controller.Result{}, c.delete(ctx, service, has)
		}
		return controller.Result{}, nil
	case has != nil && !controller.Controls(service, Kind.GroupKind(), has):
		if owner := controller.OwnerOf(has, Kind.GroupKind()); owner == nil || owner.Name != service.Name {
			c.fail(service, fmt.Sprintf("FloatingIP %s exists and is not this Service's: make the Service its owner to keep "+
				"its address (docs/floatingip.md), delete it, or rename one of the two", has.Name))
		} // otherwise it is that of an earlier Service, which goes
		return controller.Result{}, nil
	case has != nil && has.Spec.ExternalNetwork != w.external:
		return controller.Result{}, c.delete(ctx, service, has) // its end requeues the Service
	}
	if _, tooMany := service.Spec.Selector[TooManyLabels]; tooMany {
		c.fail(service, fmt.Sprintf("spec.selector has more than %d labels: write fewer", MaxSelector))
	} else if len(service.Spec.Selector) == 0 {
		c.fail(service, fmt.Sprintf("the Service selects no Pods, so no floating IP can lead to one: set spec.selector, or "+
			"remove the annotation %s", cloudteamv1.AnnotationFloatingIP))
	}
	return controller.Result{}, c.lead(ctx, service, has, w)
}

// lead makes the FloatingIP of a Service lead to one of the Service's Pods. Without such a Pod it leads nowhere, and
// its address stays. Before there was the first one, nobody knows in which cloud it has to be.
func (c *Controller) lead(
	ctx context.Context, service *corev1.Service, has *cloudteamv1.FloatingIP, w wish,
) error {
	key := cache.MetaObjectToName(service)
	now := ""
	if has != nil {
		now = has.Spec.PortName
		if has.DeletionTimestamp != nil {
			return nil // its end requeues the Service
		}
		if !c.expected.Met(key, has.UID, has.ResourceVersion) {
			return controller.ErrStale
		}
	}
	stay, leave, why := c.backends(service, w)
	to, found := c.choose(has, stay, leave)
	if !found && why != "" {
		c.fail(service, why)
	}
	if !found && (has == nil || now == "") {
		return nil
	}
	spec := cloudteamv1.FloatingIPSpec{ExternalNetwork: w.external}
	if found {
		network, err := c.caches.Networks.Lister().Networks(key.Namespace).Get(to.port.Network().Name)
		if err != nil {
			return nil //nolint:nilerr // the Network is gone, and its ports go: an event follows
		}
		spec.PortName = to.port.Name
		spec.Cloud, spec.ClassName = network.Spec.Cloud, network.Spec.ClassName
		if network.Status.Class != nil && spec.Cloud == nil {
			spec.ClassName = network.Status.Class.Name
		}
	} else {
		spec.Cloud, spec.ClassName = has.Spec.Cloud, has.Spec.ClassName
	}
	var err error
	if has == nil {
		err = c.create(ctx, service, spec)
	} else {
		err = c.update(ctx, key, has, spec)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // such as by a quota: there is no other place to say so
		c.fail(service, fmt.Sprintf("the FloatingIP cannot be written: %v", err))
	}
	if err != nil || has == nil {
		return err
	}
	if found && has.Status.Address != "" && has.Status.PortID == to.port.Status.PortID {
		c.tell(service, corev1.EventTypeNormal, cloudteamv1.EventFloatingIPLeads, fmt.Sprintf(
			"%s of external network %s leads to Pod %s (NetworkPort %s)", has.Status.Address, w.external, to.pod.Name,
			to.port.Name))
	}
	return nil
}

func (c *Controller) create(ctx context.Context, service *corev1.Service, spec cloudteamv1.FloatingIPSpec) error {
	key := cache.MetaObjectToName(service)
	if err := controller.CheckOwner(ctx, c.owners.Services(key.Namespace), Kind.Kind, service); err != nil {
		return err
	}
	obj := &cloudteamv1.FloatingIP{Spec: spec}
	obj.Namespace, obj.Name = key.Namespace, key.Name
	obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(service, Kind)}
	_, err := controller.CreateOwned(ctx, c.client.FloatingIPs(key.Namespace), "FloatingIP", key, obj, &c.expected)
	if errors.Is(err, controller.ErrTerminating) {
		return nil
	}
	if err == nil {
		klog.FromContext(ctx).Info("Created a FloatingIP for a Service", "port", spec.PortName)
	}
	return err
}

// update corrects where a FloatingIP leads, and by whose credentials. All other fields are the user's.
func (c *Controller) update(
	ctx context.Context, key cache.ObjectName, has *cloudteamv1.FloatingIP, spec cloudteamv1.FloatingIPSpec,
) error {
	if has.Spec.PortName == spec.PortName && has.Spec.ClassName == spec.ClassName &&
		equality.Semantic.DeepEqual(has.Spec.Cloud, spec.Cloud) {
		return nil
	}
	unset := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	var cloud any
	if spec.Cloud != nil { // a merge patch would keep a name that is left out
		cloud = map[string]any{"secretName": spec.Cloud.SecretName, "name": unset(spec.Cloud.Name)}
	}
	body := map[string]any{"spec": map[string]any{
		"portName": unset(spec.PortName), "className": unset(spec.ClassName), "cloud": cloud,
	}}
	written, err := controller.PatchAsRead(ctx, c.client.FloatingIPs(key.Namespace).Patch, types.MergePatchType,
		controller.FieldManager, has, body)
	if err != nil {
		return fmt.Errorf("updating FloatingIP %q: %w", has.Name, err)
	}
	c.expected.Written(key, written.UID, written.ResourceVersion)
	klog.FromContext(ctx).Info("Led the FloatingIP of a Service to another port", "port", spec.PortName)
	return nil
}

// delete gives up an address, which does not come back. So it first reads the Service: the cache of a new leader may
// show what it asked for earlier.
func (c *Controller) delete(ctx context.Context, service *corev1.Service, has *cloudteamv1.FloatingIP) error {
	key := cache.MetaObjectToName(service)
	if has.DeletionTimestamp != nil {
		return nil
	}
	if !c.expected.Met(key, has.UID, has.ResourceVersion) {
		return controller.ErrStale
	}
	live, err := controller.Live(ctx, c.owners.Services(key.Namespace), Kind.Kind, key.Name)
	if err != nil {
		return err
	}
	asks, askedFor := "", service.Annotations[cloudteamv1.AnnotationFloatingIP]
	if live != nil {
		asks = live.Annotations[cloudteamv1.AnnotationFloatingIP]
	}
	if live == nil || live.UID != service.UID || asks != askedFor {
		return controller.ErrStale
	}
	err = c.client.FloatingIPs(key.Namespace).Delete(ctx, has.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &has.UID, ResourceVersion: &has.ResourceVersion},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return controller.ErrStale
	}
	if err != nil {
		return fmt.Errorf("deleting FloatingIP %q: %w", has.Name, err)
	}
	klog.FromContext(ctx).Info("Deleted the FloatingIP of a Service that asks for none of that external network")
	return nil
}

// fail tells why a Service's floating IP leads to no Pod.
func (c *Controller) fail(service *corev1.Service, text string) {
	c.tell(service, corev1.EventTypeWarning, cloudteamv1.EventFloatingIPFailed, text)
}

// tell sends an Event about a Service, once for the same text.
func (c *Controller) tell(service *corev1.Service, kind, reason, text string) {
	if was, _ := c.told.Swap(cache.MetaObjectToName(service), text); was != text {
		c.recorder.Event(consumer.Reference(Kind, service), kind, reason, text)
	}
}
