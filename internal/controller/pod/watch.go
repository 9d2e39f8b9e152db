// Package pod is the controller of Pods that declare networks: it binds each to ports, writes on the Pod what it has
// got, and lets it be scheduled.
package pod

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "pod"

// kind is the kind that is synced.
var kind = corev1.SchemeGroupVersion.WithKind("Pod")

// Controller syncs Pods that declare networks. Make it with NewController.
type Controller struct {
	*controller.Loop

	ports       portclient.NetworkPortsGetter
	pods        coreclient.PodsGetter
	caches      *consumer.Caches
	portIndexer cache.Indexer
	podIndexer  cache.Indexer
	recorder    record.EventRecorder

	// expected is the last write to each Pod.
	expected controller.Expectations
	// ledger is what is known of bindings ahead of the cache.
	ledger ledger
	// look and paused are the Loop's.
	look   func(cache.ObjectName)
	paused func(cache.ObjectName) bool
}

const (
	// indexOffer is the index of NetworkPorts that are free by what they offer: see offerKey.
	indexOffer = "pod/offer"
	// indexAddress is the index of NetworkPorts by their Networks and the addresses that they say that they have.
	indexAddress = "pod/address"
	// indexWaiting is the index of Pods that wait for ports by the UID of the object that controls them.
	indexWaiting = "pod/waiting"
	// indexAllocated is the index of Pods by the namespaces and ids of the ports that they say that they have.
	indexAllocated = "pod/allocated"
)

// NewController makes a controller that watches and indexes the informers of the caches, which must
// not run yet. Nothing runs before Run. The recorder needs no scheme that knows Pods.
func NewController(
	ports portclient.NetworkPortsGetter, pods coreclient.PodsGetter, caches *consumer.Caches,
	recorder record.EventRecorder,
) (*Controller, error) {
	from := caches.Informers
	c := &Controller{
		ports:       ports,
		pods:        pods,
		caches:      caches,
		portIndexer: from.Ports.Informer().GetIndexer(),
		podIndexer:  from.Pods.Informer().GetIndexer(),
		recorder:    recorder,
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	c.look, c.paused = c.Look, c.Paused
	c.WhenHeld(c.heldBack)
	if err := errors.Join(
		from.Ports.Informer().AddIndexers(cache.Indexers{indexOffer: byOffer, indexAddress: byAddress}),
		from.Pods.Informer().AddIndexers(cache.Indexers{indexAllocated: byAllocated, indexWaiting: byWaiting}),
	); err != nil {
		return nil, fmt.Errorf("indexing the ports of pods: %w", err)
	}
	return c, errors.Join(
		c.Watch(from.Pods.Informer(), c.HandlerOf(c.keysOfPod)),
		c.Watch(from.Ports.Informer(), c.HandlerOf(c.keysOfPort)),
		c.Watch(from.Networks.Informer(), c.HandlerOf(func(network metav1.Object) []cache.ObjectName {
			return c.keysDeclaring(cache.MetaObjectToName(network))
		})),
		c.Watch(from.ReplicaSets.Informer(), controller.HandlerOfPart(c.Loop, c.keysOfReplicaSet, sameOwners)),
	)
}

// EnqueueDeclaring has the Pods looked at again that wait for a network of the name: for those who see
// NetworkAttachmentDefinitions come and go. It is safe for concurrent use.
func (c *Controller) EnqueueDeclaring(network cache.ObjectName) {
	for _, key := range c.keysDeclaring(network) {
		c.Enqueue(key)
	}
}

// keysOfPod leaves out the Pods, most of a cluster's, that have nothing to do with networks. One that leaves its line
// brings who is the first then.
func (c *Controller) keysOfPod(object metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(object)
	pod, known := object.(*corev1.Pod)
	if !known {
		return []cache.ObjectName{key}
	}
	if consumer.Declares(pod.Annotations) || consumer.Gated(pod) || len(c.caches.PortsBoundTo(key)) > 0 {
		return append(c.headAfter(pod), key)
	}
	return nil
}

// keysOfPort names the Pods that a port concerns: the one that it is bound to, one that it was made for, those that say
// that they have it, and, where it is free and there is something to say of it, the first of those that wait for one of
// its pool.
//
// What it is free for is read from the cache, which is ahead of the event or level with it: the state before a binding
// would have a Pod look for the port that is no longer free.
func (c *Controller) keysOfPort(object metav1.Object) []cache.ObjectName {
	port, ok := object.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil // it is gone, and its Pods were named with its last state known
	}
	current, err := c.caches.Ports.NetworkPorts(port.Namespace).Get(port.Name)
	here := err == nil && current.UID == port.UID
	ahead := here && c.ledger.ahead(current)
	if !here {
		c.ledger.forget(port.UID)
	}
	var keys []cache.ObjectName
	if binding := port.Status.BoundTo; binding != nil {
		keys = append(keys, cache.NewObjectName(port.Namespace, binding.Name))
	}
	if pod, orphaned := consumer.Orphaned(port, kind.Kind); orphaned {
		keys = append(keys, pod)
	}
	for _, pod := range c.allocatedTo(port) {
		keys = append(keys, cache.MetaObjectToName(pod))
	}
	owner := metav1.GetControllerOfNoCopy(port)
	switch {
	case owner == nil:
	case owner.Kind == kind.Kind:
		keys = append(keys, cache.NewObjectName(port.Namespace, owner.Name))
	case here && !ahead && isFree(current) && conditionOf(current) != pending:
		keys = append(keys, c.head(owner.UID)...)
	}
	return keys
}

// sameOwners reports whether two states of a ReplicaSet are the same to its Pods, which ask it for its Deployment. Its
// status is written each time that one of them comes or goes.
func sameOwners(was, is *appsv1.ReplicaSet) bool {
	return equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

func (c *Controller) keysOfReplicaSet(object metav1.Object) []cache.ObjectName {
	if set, ok := object.(*appsv1.ReplicaSet); ok {
		return keysWaiting(c.caches.PodsControlledBy(set.UID))
	}
	return nil
}

func (c *Controller) keysDeclaring(network cache.ObjectName) []cache.ObjectName {
	return keysWaiting(c.caches.PodsDeclaring(network))
}

func keysWaiting(pods []*corev1.Pod) []cache.ObjectName {
	var keys []cache.ObjectName
	for _, pod := range pods {
		if consumer.Waiting(pod) {
			keys = append(keys, cache.MetaObjectToName(pod))
		}
	}
	return keys
}

// isFree reports whether a port can be bound, as far as it is not in use.
func isFree(port *cloudteamv1.NetworkPort) bool {
	return port.Status.BoundTo == nil && port.DeletionTimestamp == nil
}

// offerKey is what a free port says to those who look for one: its state, whose it is, and which request it serves.
func offerKey(state condition, owner types.UID, request consumer.Request) string {
	return fmt.Sprintf("%s %s %s %s %s", state, owner, request.Network, request.Addresses, request.MAC)
}

func byOffer(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	owner := metav1.GetControllerOfNoCopy(port)
	if owner == nil || !isFree(port) {
		return nil, nil
	}
	return []string{offerKey(conditionOf(port), owner.UID, consumer.ServedBy(port))}, nil
}

// offered gives the ports of an owner that are free, are in the state given, and serve a request.
func (c *Controller) offered(
	state condition, owner types.UID, request consumer.Request,
) []*cloudteamv1.NetworkPort {
	objects, err := c.portIndexer.ByIndex(indexOffer, offerKey(state, owner, request))
	if err != nil {
		return nil // the index is made in NewController
	}
	var ports []*cloudteamv1.NetworkPort
	for _, obj := range objects {
		if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
			ports = append(ports, port)
		}
	}
	return ports
}

func byAddress(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	return addressKeys(port), nil
}

// addressKeys are a port's Network with each of its addresses.
func addressKeys(port *cloudteamv1.NetworkPort) []string {
	var keys []string
	for _, a := range port.Status.Addresses {
		keys = append(keys, consumer.NetworkOf(port).String()+" "+a.Address)
	}
	return keys
}

// rival gives another port that says that it has an address of a port's, one that is bound before others; nil as a
// rule.
// Neutron gives no address twice; but the port that had it first may have been deleted there behind the back of its
// NetworkPort, which is to get it back where a Pod has it, and will soon be known to be gone where none does.
func (c *Controller) rival(port *cloudteamv1.NetworkPort) *cloudteamv1.NetworkPort {
	var rival *cloudteamv1.NetworkPort
	for _, key := range addressKeys(port) {
		objects, err := c.portIndexer.ByIndex(indexAddress, key)
		if err != nil {
			return nil // the index is made in NewController
		}
		for _, obj := range objects {
			other, ok := obj.(*cloudteamv1.NetworkPort)
			switch {
			case !ok || other.UID == port.UID:
			case boundTo(other) != "":
				return other
			case other.DeletionTimestamp == nil: // nobody will be given one that is going
				rival = other
			}
		}
	}
	return rival
}

func byWaiting(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no Pod", obj)
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || !consumer.Waiting(pod) {
		return nil, nil
	}
	return []string{string(owner.UID)}, nil
}

func byAllocated(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no Pod", obj)
	}
	if !consumer.Allocated(pod) {
		return nil, nil
	}
	allocations, err := allocationsOf(pod)
	if err != nil {
		return nil, nil //nolint:nilerr // nothing can be said of what somebody wrote there
	}
	var keys []string
	for _, a := range allocations {
		keys = append(keys, pod.Namespace+"/"+a.PortID)
	}
	return keys, nil
}

// allocatedTo gives the Pods that say that they have a port, and whose containers may still use it. Pods of other
// namespaces cannot have it, whatever they say.
func (c *Controller) allocatedTo(port *cloudteamv1.NetworkPort) []*corev1.Pod {
	if port.Status.PortID == "" {
		return nil
	}
	objects, err := c.podIndexer.ByIndex(indexAllocated, port.Namespace+"/"+port.Status.PortID)
	if err != nil {
		return nil // the index is made in NewController
	}
	var pods []*corev1.Pod
	for _, obj := range objects {
		if pod, ok := obj.(*corev1.Pod); ok && !consumer.Ended(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}
