// Package pod is the controller of Pods that declare networks. It waits until a Pod is bound to all its ports, writes
// on the Pod what it got, and removes the scheduling gate. It creates and binds the ports of Pods without a Deployment;
// package deployment binds those of the others.
package pod

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "pod"

// kind is the kind that this controller syncs.
var kind = corev1.SchemeGroupVersion.WithKind("Pod")

// Controller syncs Pods that declare networks. Create it with NewController.
type Controller struct {
	*controller.Loop

	pods     coreclient.PodsGetter
	sets     appsclient.StatefulSetsGetter
	metadata metadata.Interface
	caches   *consumer.Caches
	// machines is nil where KubeVirt is not served.
	machines *consumer.Machines
	policies *netpolicy.Policies
	recorder record.EventRecorder
	// labelsOf gives the labels of a namespace.
	labelsOf func(namespace string) labels.Set
	// ports writes the bindings, and creates and deletes the ports of Pods without a Deployment.
	ports consumer.Writer
	// expected is the last write to each Pod, by its key.
	expected controller.Expectations
	// ofMachine has the Pods that have not ended, by the slot of the virtual machine that they name.
	ofMachine controller.Line
	// failing has the ports of Deployments that are free and fail, by the Deployment and the request that they serve. They
	// are in the order of consumer.CompareByName.
	failing controller.Line
	// reportOnly is true with --report-only.
	reportOnly bool
}

// wake is the most Pods that an event names of those that name the same object: users can have any number do so. The
// oldest ones are named. One that gets what it waits for causes the next event; others are synced again after recheck.
const wake = 8

// NewController makes a controller that watches the informers of the caches, which MUST NOT run yet. machines is nil if
// KubeVirt is not served, and by if MultiNetworkPolicies are not. labelsOf gives the labels of a namespace. Nothing
// runs before Run. The recorder needs no scheme that knows Pods.
func NewController(
	ports portclient.NetworkPortsGetter, pods coreclient.PodsGetter, sets appsclient.StatefulSetsGetter,
	client metadata.Interface, caches *consumer.Caches, machines *consumer.Machines, by *netpolicy.Policies,
	recorder record.EventRecorder, labelsOf func(namespace string) labels.Set,
) (*Controller, error) {
	from := caches.Informers
	if err := controller.IndexPorts(from.Ports.Informer()); err != nil {
		return nil, err
	}
	c := &Controller{
		pods:     pods,
		sets:     sets,
		metadata: client,
		caches:   caches,
		machines: machines,
		policies: by,
		recorder: recorder,
		labelsOf: labelsOf,
		ports:    consumer.Writer{Ports: ports, Pods: pods},
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	if err := c.Watch(from.Pods.Informer(), controller.FollowLine(&c.ofMachine, machineOf)); err != nil {
		return nil, err
	}
	if machines != nil {
		handler := controller.HandlerOfPart(c.Loop, c.keysOfMachine, sameMachine)
		err := errors.Join(c.WatchOptional(machines.All, handler), c.WatchOptional(machines.Instances, handler))
		if err != nil {
			return nil, err
		}
		c.After(machines.HasSynced, func() { c.Enqueue(c.keysOfMachines()...) })
	}
	return c, errors.Join(
		c.Watch(from.Pods.Informer(), c.HandlerOf(c.keysOfPod)),
		c.Watch(from.Ports.Informer(), c.HandlerOf(c.keysOfPort)),
		c.Watch(from.Networks.Informer(),
			controller.HandlerOfManyByStatus(c.Loop, controller.KeyOf, c.keysOfNetwork, consumer.SameNetwork)),
		c.Watch(from.ReplicaSets.Informer(), controller.HandlerOfMany(c.Loop, workloadOf, c.keysOfReplicaSet, sameOwners)),
		c.Watch(from.StatefulSets.Informer(), controller.HandlerOfMany(c.Loop, workloadOf, c.keysOfStatefulSet, sameSlots)),
	)
}

// ReportOnly has the controller give no Pod a port, and change nothing but conditions: those of Pods that wait say why.
// Call it before Run.
func (c *Controller) ReportOnly() { c.reportOnly = true }

// EnqueueDeclaring requeues the Pods that wait for a network of the name. Call it when a NetworkAttachmentDefinition of
// the name is created or deleted, which no informer of this controller shows. It is safe for concurrent use.
func (c *Controller) EnqueueDeclaring(network cache.ObjectName) {
	c.Enqueue(c.keysDeclaring(network)...)
}

// keysOfPod skips the Pods that use no networks, which are most Pods of a cluster.
func (c *Controller) keysOfPod(object metav1.Object) []cache.ObjectName {
	key := cache.MetaObjectToName(object)
	pod, known := object.(*corev1.Pod)
	if known && !consumer.UsesNetworks(pod) && len(c.caches.PortsBoundTo(key)) == 0 &&
		len(c.caches.PortsOfSlot(key)) == 0 {
		return nil
	}
	keys := []cache.ObjectName{key}
	slot, ok := consumer.MachineOf(object)
	if !ok {
		return keys
	}
	keys = append(keys, slot.Key())
	if object.GetDeletionTimestamp() != nil { // the target of its migration waits for its end
		keys = append(keys, c.ofMachine.Names(slot.Key().String(), wake)...)
	}
	return keys
}

// machineOf is what a Pod is found by in Controller.ofMachine.
func machineOf(pod *corev1.Pod) string {
	slot, ok := consumer.MachineOf(pod)
	if !ok || consumer.Ended(pod) || !consumer.UsesNetworks(pod) {
		return ""
	}
	return slot.Key().String()
}

// keysOfPort names the Pods that a port affects: the one that it is bound to, the one that it was made for, and those
// that were given it. If it is the first of its pool to fail, it also affects those that wait for the pool.
func (c *Controller) keysOfPort(object metav1.Object) []cache.ObjectName {
	c.noteFailing(cache.MetaObjectToName(object))
	port, ok := object.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil // it is gone, and its last state is unknown
	}
	var keys []cache.ObjectName
	if binding := port.Status.BoundTo; binding != nil {
		keys = append(keys, cache.NewObjectName(port.Namespace, binding.Name))
	}
	if pod, ok := consumer.MadeFor(port, consumer.PodKind); ok {
		keys = append(keys, pod)
	}
	if slot, ok := consumer.SlotOf(port); ok {
		keys = append(keys, slot.Key())
		if slot.Machine != "" {
			keys = append(keys, c.waitingOf(slot)...)
		}
	}
	given := c.caches.GivenTo(port)
	if len(given) > wake {
		slices.SortFunc(given, func(a, b *corev1.Pod) int { return controller.WaitingOf(a).Older(controller.WaitingOf(b)) })
		given = given[:wake]
	}
	keys = append(keys, controller.KeysOf(given)...)
	if deployment := c.caches.DeploymentControlling(port); deployment != nil && c.isFirstToFail(port) {
		keys = append(keys, keysWaiting(c.caches.PodsOf(deployment))...)
	}
	return keys
}

// waitingOf names the Pods of a virtual machine that wait for ports.
func (c *Controller) waitingOf(slot consumer.Slot) []cache.ObjectName {
	return slices.DeleteFunc(c.ofMachine.Names(slot.Key().String(), wake), func(key cache.ObjectName) bool {
		pod := c.caches.Pod(key)
		return pod == nil || !consumer.Waiting(pod)
	})
}

// noteFailing keeps Controller.failing, by the cache, which is never older than the event.
func (c *Controller) noteFailing(key cache.ObjectName) {
	// The order of consumer.CompareByName is that of the names' lengths first.
	w, pool := controller.Waiting{Name: key, Since: metav1.Unix(int64(len(key.Name)), 0)}, ""
	if port := c.caches.Port(key); port != nil {
		pool = failingPool(port)
	}
	c.failing.Put(w, pool)
}

// failingPool is what a port is found by in Controller.failing; empty if it is not free, or does not fail.
func failingPool(port *cloudteamv1.NetworkPort) string {
	owner := controller.OwnerOf(port, consumer.DeploymentKind)
	if owner == nil || port.Status.BoundTo != nil || port.DeletionTimestamp != nil ||
		consumer.StateOf(port) != consumer.PortFailing {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s %v", port.Namespace, owner.Name, owner.UID, consumer.ServedBy(port))
}

// isFirstToFail reports whether a free port is the one of its pool whose failure the waiting Pods show. If a pool fails
// as a whole, one port requeues the Pods, and not each of them.
func (c *Controller) isFirstToFail(port *cloudteamv1.NetworkPort) bool {
	pool := failingPool(port)
	first := c.failing.Names(pool, 1)
	return pool != "" && len(first) > 0 && first[0] == cache.MetaObjectToName(port)
}

// sameOwners reports whether two states of a ReplicaSet are the same for its Pods, which find their Deployment through
// it. Its status is written each time one of them is created or deleted.
func sameOwners(was, is *appsv1.ReplicaSet) bool {
	return equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}

// workload identifies a ReplicaSet or a StatefulSet.
type workload struct {
	cache.ObjectName
	uid types.UID
}

func workloadOf(object metav1.Object) []workload {
	return []workload{{cache.MetaObjectToName(object), object.GetUID()}}
}

// object is what the caches find its Pods by.
func (w workload) object() metav1.Object {
	return &metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, UID: w.uid}
}

func (c *Controller) keysOfReplicaSet(set workload) []cache.ObjectName {
	return keysWaiting(c.caches.PodsControlledBy(set.object(), consumer.ReplicaSetKind))
}

// sameSlots reports whether two states of a StatefulSet are the same for the ports of its slots.
func sameSlots(was, is *appsv1.StatefulSet) bool {
	return was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(was.Spec.Replicas, is.Spec.Replicas) &&
		equality.Semantic.DeepEqual(was.Spec.Ordinals, is.Spec.Ordinals) &&
		was.Annotations[cloudteamv1.AnnotationPortsWhenScaled] == is.Annotations[cloudteamv1.AnnotationPortsWhenScaled]
}

// keysOfStatefulSet names the Pods that wait for a StatefulSet to be known, and those that its ports were made for.
func (c *Controller) keysOfStatefulSet(set workload) []cache.ObjectName {
	keys := keysWaiting(c.caches.PodsControlledBy(set.object(), consumer.StatefulSetKind))
	for _, port := range c.caches.PortsMadeFor(consumer.StatefulSetKind, set.ObjectName) {
		if slot, ok := consumer.SlotOf(port); ok {
			keys = append(keys, slot.Key())
		}
	}
	return keys
}

// sameMachine reports whether two states of a virtual machine or of its instance are the same for its ports.
func sameMachine(was, is *metav1.PartialObjectMetadata) bool {
	return was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		was.Annotations[cloudteamv1.AnnotationPortsWhenStopped] == is.Annotations[cloudteamv1.AnnotationPortsWhenStopped]
}

// keysOfMachine names the Pods that wait for an instance of a virtual machine to be known, and the key that deletes the
// ports of the machine.
func (c *Controller) keysOfMachine(machine metav1.Object) []cache.ObjectName {
	slot := consumer.Slot{Namespace: machine.GetNamespace(), Machine: machine.GetName()}
	return append(c.waitingOf(slot), slot.Key())
}

// keysOfMachines names the keys that delete the ports of all virtual machines.
func (c *Controller) keysOfMachines() []cache.ObjectName {
	var keys []cache.ObjectName
	for _, port := range controller.All[*cloudteamv1.NetworkPort](c.caches.Ports.Informer().GetStore()) {
		if slot, ok := consumer.SlotOf(port); ok && slot.Machine != "" {
			keys = append(keys, slot.Key())
		}
	}
	return keys
}

// keysOfNetwork names the Pods that wait for a Network. If it is being deleted, or gone, it also names those whose
// ports on it wait for them.
func (c *Controller) keysOfNetwork(key cache.ObjectName) []cache.ObjectName {
	keys := c.keysDeclaring(key)
	if network := c.caches.Network(key); network != nil && network.DeletionTimestamp == nil {
		return keys
	}
	for _, port := range controller.PortsOn(c.caches.Ports.Informer().GetIndexer(), key) {
		if slot, ok := consumer.SlotOf(port); ok {
			keys = append(keys, slot.Key())
		}
	}
	return keys
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

// free gives those of a pool's ports that are not bound and serve a request, by their state.
func free(
	pool []*cloudteamv1.NetworkPort, request consumer.Request,
) map[consumer.PortState][]*cloudteamv1.NetworkPort {
	free := map[consumer.PortState][]*cloudteamv1.NetworkPort{}
	for _, port := range pool {
		if port.Status.BoundTo == nil && port.DeletionTimestamp == nil && consumer.ServedBy(port) == request {
			state := consumer.StateOf(port)
			free[state] = append(free[state], port)
		}
	}
	return free
}
