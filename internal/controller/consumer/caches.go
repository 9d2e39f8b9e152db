// Package consumer has what the controllers of Deployments and of Pods share. Deployments and Pods are consumers of
// Networks: they declare them in an annotation (package selection) and use them through NetworkPorts. A Deployment has
// a pool of ports, and each of its Pods is bound to as many as it declares. A Pod of a StatefulSet or of a virtual
// machine has the ports of its Slot, and any other Pod its own.
package consumer

import (
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	factory "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Informers are those of all kinds that consumers use.
type Informers struct {
	Networks     informers.NetworkInformer
	Ports        informers.NetworkPortInformer
	Pods         coreinformers.PodInformer
	ReplicaSets  appsinformers.ReplicaSetInformer
	Deployments  appsinformers.DeploymentInformer
	StatefulSets appsinformers.StatefulSetInformer
}

// InformersOf gives the Informers of two factories.
func InformersOf(own factory.SharedInformerFactory, kube kubeinformers.SharedInformerFactory) Informers {
	return Informers{
		Networks:     own.Cloudteam().V1().Networks(),
		Ports:        own.Cloudteam().V1().NetworkPorts(),
		Pods:         kube.Core().V1().Pods(),
		ReplicaSets:  kube.Apps().V1().ReplicaSets(),
		Deployments:  kube.Apps().V1().Deployments(),
		StatefulSets: kube.Apps().V1().StatefulSets(),
	}
}

// Attachments tells which NetworkAttachmentDefinitions exist.
type Attachments interface {
	// Has reports whether one of the name exists that belongs to no Network. It MUST be safe for concurrent use.
	Has(namespace, name string) bool
}

// Caches tell who uses what, from the informers' caches. The controllers of Deployments and of Pods share one. All
// methods are safe for concurrent use. The returned objects belong to the caches and MUST NOT be changed.
type Caches struct {
	Informers

	attachments Attachments
}

const (
	// indexController is the index of NetworkPorts, Pods and ReplicaSets by their namespace and the UID of the object that
	// controls them. It has only the Pods that use networks.
	indexController = "consumer/controller"
	// indexBound is the index of NetworkPorts by the namespace and name of the Pod that they are bound to.
	indexBound = "consumer/bound"
	// indexMadeFor is the index of NetworkPorts by the consumer that they were made for.
	indexMadeFor = "consumer/made-for"
	// indexAddress is the index of NetworkPorts by their Networks and the addresses that their status shows.
	indexAddress = "consumer/address"
	// indexNetwork is the index of Deployments and Pods by the namespaces and names of the networks that they declare.
	indexNetwork = "consumer/network"
	// indexAllocated is the index of Pods by the namespaces and ids of the ports that they were given.
	indexAllocated = "consumer/allocated"
	// indexMachine is the index of Pods that use networks by the namespace and name of the instance of a virtual machine
	// that they name as their controller.
	indexMachine = "consumer/machine"
	// indexNode is the index of Pods by the names of their Nodes.
	indexNode = "consumer/node"
	// indexGated is the index of the Pods that wait for their ports before they are scheduled.
	indexGated = "consumer/gated"
)

// NewCaches adds the indexes to the informers, which MUST NOT run yet. attachments may be nil: then there are none.
func NewCaches(from Informers, attachments Attachments) (*Caches, error) {
	from = Informers{
		Networks: hold(from.Networks), Ports: hold(from.Ports), Pods: hold(from.Pods), ReplicaSets: hold(from.ReplicaSets),
		Deployments: hold(from.Deployments), StatefulSets: hold(from.StatefulSets),
	}
	for _, added := range []struct {
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{from.Ports.Informer(), cache.Indexers{
			indexController: controller.IndexBy(byController[*cloudteamv1.NetworkPort]),
			indexBound:      controller.IndexBy(byBound),
			indexMadeFor:    controller.IndexBy(byMadeFor),
			indexAddress:    controller.IndexBy(addressKeys),
		}},
		{from.Pods.Informer(), cache.Indexers{
			indexController: controller.IndexBy(byControllerOfUser),
			indexNetwork:    controller.IndexBy(byNetworkOfPod),
			indexAllocated:  controller.IndexBy(byAllocated),
			indexMachine:    controller.IndexBy(byMachine),
			indexGated:      controller.IndexBy(byGate),
			indexNode:       controller.IndexBy(byNode),
		}},
		{from.ReplicaSets.Informer(), cache.Indexers{
			indexController: controller.IndexBy(byController[*appsv1.ReplicaSet]),
		}},
		{from.Deployments.Informer(), cache.Indexers{
			indexNetwork: controller.IndexBy(byNetworkOfDeployment),
		}},
	} {
		if err := added.informer.AddIndexers(added.indexers); err != nil {
			return nil, fmt.Errorf("indexing the consumers of networks: %w", err)
		}
	}
	from.Networks.Informer()
	return &Caches{from, attachments}, nil
}

// held is a generated informer that keeps what its methods return. Each of these asks its factory, under a lock, by a
// new object of the kind, and handlers and syncs call them for each key. A kind that no controller asks for is not
// watched.
type held[L any] struct {
	informer func() cache.SharedIndexInformer
	lister   func() L
}

func hold[L any](of interface {
	Informer() cache.SharedIndexInformer
	Lister() L
}) held[L] {
	return held[L]{sync.OnceValue(of.Informer), sync.OnceValue(of.Lister)}
}

// Informer is the generated method.
func (h held[L]) Informer() cache.SharedIndexInformer { return h.informer() }

// Lister is the generated method.
func (h held[L]) Lister() L { return h.lister() }

func byController[T metav1.Object](obj T) []string {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return []string{controllerKey(obj.GetNamespace(), owner.UID)}
	}
	return nil
}

// controllerKey is the value of indexController for the objects of a namespace that name an owner of a UID.
func controllerKey(namespace string, owner types.UID) string { return namespace + "/" + string(owner) }

// byControllerOfUser skips the Pods that use no networks, which are most Pods of a cluster.
func byControllerOfUser(pod *corev1.Pod) []string {
	if !UsesNetworks(pod) {
		return nil
	}
	return byController(pod)
}

func byBound(port *cloudteamv1.NetworkPort) []string {
	if port.Status.BoundTo == nil {
		return nil
	}
	return []string{cache.NewObjectName(port.Namespace, port.Status.BoundTo.Name).String()}
}

// cached gives the object that an informer's cache has under a key, nil if there is none.
func cached[T any](informer cache.SharedIndexInformer, key cache.ObjectName) T {
	obj, _ := controller.Cached[T](informer.GetIndexer(), key)
	return obj
}

// Network gives a Network in the cache, nil if there is none.
func (c *Caches) Network(key cache.ObjectName) *cloudteamv1.Network {
	return cached[*cloudteamv1.Network](c.Networks.Informer(), key)
}

// Port gives a NetworkPort in the cache, nil if there is none.
func (c *Caches) Port(key cache.ObjectName) *cloudteamv1.NetworkPort {
	return cached[*cloudteamv1.NetworkPort](c.Ports.Informer(), key)
}

// Pod gives a Pod in the cache, nil if there is none.
func (c *Caches) Pod(key cache.ObjectName) *corev1.Pod {
	return cached[*corev1.Pod](c.Pods.Informer(), key)
}

// Deployment gives a Deployment in the cache, nil if there is none.
func (c *Caches) Deployment(key cache.ObjectName) *appsv1.Deployment {
	return cached[*appsv1.Deployment](c.Deployments.Informer(), key)
}

// StatefulSet gives a StatefulSet in the cache, nil if there is none.
func (c *Caches) StatefulSet(key cache.ObjectName) *appsv1.StatefulSet {
	return cached[*appsv1.StatefulSet](c.StatefulSets.Informer(), key)
}

// PodOf gives the Pod that a port is bound to; nil if it is bound to none, or the Pod is not in the cache.
func (c *Caches) PodOf(port *cloudteamv1.NetworkPort) *corev1.Pod {
	if !IsBoundToPod(port) {
		return nil
	}
	pod := c.Pod(cache.NewObjectName(port.Namespace, port.Status.BoundTo.Name))
	if pod == nil || pod.UID != port.Status.BoundTo.UID {
		return nil
	}
	return pod
}

func byNetworkOfPod(pod *corev1.Pod) []string {
	selections, _ := DeclaredByPod(pod)
	return networksOf(selections)
}

func byNetworkOfDeployment(deployment *appsv1.Deployment) []string {
	selections, _ := declared(deployment.Spec.Template.Annotations, deployment.Namespace)
	return networksOf(selections)
}

func networksOf(selections []selection.Selection) []string {
	var keys []string
	for _, s := range selections {
		keys = append(keys, s.Namespace+"/"+s.Name)
	}
	return keys
}

// addressKeys combines a port's Network with each of its addresses.
func addressKeys(port *cloudteamv1.NetworkPort) []string {
	var keys []string
	for _, a := range port.Status.Addresses {
		keys = append(keys, NetworkOf(port).String()+" "+a.Address)
	}
	return keys
}

func byGate(pod *corev1.Pod) []string {
	if !Gated(pod) || !Waiting(pod) {
		return nil
	}
	return []string{""}
}

// byAllocated gives nothing for an annotation that somebody overwrote.
func byAllocated(pod *corev1.Pod) (keys []string) {
	if !Allocated(pod) {
		return nil
	}
	allocations, err := Allocations(pod)
	if err != nil {
		return nil
	}
	for _, a := range allocations {
		keys = append(keys, pod.Namespace+"/"+a.PortID)
	}
	return keys
}

func byNode(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// DeploymentOf gives the Deployment that a Pod belongs to through its ReplicaSet, nil for none. known is false if the
// cache lacks the ReplicaSet or the Deployment (yet). Users can write any owner reference, so both MUST exist in the
// Pod's namespace under the names and UIDs that the references have.
func (c *Caches) DeploymentOf(pod metav1.Object) (deployment *appsv1.Deployment, known bool) {
	owner := controller.OwnerOf(pod, ReplicaSetKind)
	if owner == nil {
		return nil, true
	}
	set := cached[*appsv1.ReplicaSet](c.ReplicaSets.Informer(), cache.NewObjectName(pod.GetNamespace(), owner.Name))
	if set == nil || set.UID != owner.UID {
		return nil, false
	}
	if controller.OwnerOf(set, DeploymentKind) == nil {
		return nil, true
	}
	deployment = c.DeploymentControlling(set)
	return deployment, deployment != nil
}

// DeploymentControlling gives the Deployment in the cache that controls an object, such as a ReplicaSet or a
// NetworkPort; nil if there is none.
func (c *Caches) DeploymentControlling(obj metav1.Object) *appsv1.Deployment {
	owner := controller.OwnerOf(obj, DeploymentKind)
	if owner == nil {
		return nil
	}
	deployment := c.Deployment(cache.NewObjectName(obj.GetNamespace(), owner.Name))
	if deployment == nil || !controller.Controls(deployment, DeploymentKind, obj) {
		return nil
	}
	return deployment
}

// PodsOf gives the Pods of a Deployment that use networks. It includes those that are being deleted or have ended.
func (c *Caches) PodsOf(deployment *appsv1.Deployment) []*corev1.Pod {
	var pods []*corev1.Pod
	sets := controller.Indexed[*appsv1.ReplicaSet](
		c.ReplicaSets.Informer().GetIndexer(), indexController, controllerKey(deployment.Namespace, deployment.UID))
	for _, set := range sets {
		if controller.Controls(deployment, DeploymentKind, set) {
			pods = append(pods, c.PodsControlledBy(set, ReplicaSetKind)...)
		}
	}
	return pods
}

// PodsControlledBy gives the Pods that an object of the given kind controls and that use networks.
func (c *Caches) PodsControlledBy(owner metav1.Object, kind schema.GroupKind) []*corev1.Pod {
	return slices.DeleteFunc(c.pods(indexController, controllerKey(owner.GetNamespace(), owner.GetUID())),
		func(pod *corev1.Pod) bool { return !controller.Controls(owner, kind, pod) })
}

// PortsOf gives the NetworkPorts that an object of the given kind controls.
func (c *Caches) PortsOf(owner metav1.Object, kind schema.GroupKind) []*cloudteamv1.NetworkPort {
	return slices.DeleteFunc(c.ports(indexController, controllerKey(owner.GetNamespace(), owner.GetUID())),
		func(port *cloudteamv1.NetworkPort) bool { return !controller.Controls(owner, kind, port) })
}

// PortsBoundTo gives the NetworkPorts that are bound to a Pod of the name, of any UID.
func (c *Caches) PortsBoundTo(pod cache.ObjectName) []*cloudteamv1.NetworkPort {
	return c.ports(indexBound, pod.String())
}

// PortsMadeFor gives the NetworkPorts that were made for a consumer of the kind and name, even if it is gone.
func (c *Caches) PortsMadeFor(kind schema.GroupKind, consumer cache.ObjectName) []*cloudteamv1.NetworkPort {
	return c.ports(indexMadeFor, kind.Kind+" "+consumer.String())
}

// GivenTo gives the Pods that were given a port by their annotation, and whose containers may still use it. All of them
// are in the port's namespace.
func (c *Caches) GivenTo(port *cloudteamv1.NetworkPort) []*corev1.Pod {
	if port.Status.PortID == "" {
		return nil
	}
	return slices.DeleteFunc(c.pods(indexAllocated, port.Namespace+"/"+port.Status.PortID), Ended)
}

// PortsOnNode gives the ports that are bound to the Pods of a Node, or were given to them. A port may be there twice.
// The informer of NetworkPorts has the indexes of controller.IndexPorts.
func (c *Caches) PortsOnNode(node string) (ports []*cloudteamv1.NetworkPort) {
	for _, pod := range c.pods(indexNode, node) {
		ports = append(ports, c.PortsBoundTo(cache.MetaObjectToName(pod))...)
		allocations, _ := Allocations(pod) // somebody may have overwritten the annotation
		for _, a := range allocations {
			for _, port := range controller.PortsWithID(c.Ports.Informer().GetIndexer(), a.PortID) {
				if port.Namespace == pod.Namespace {
					ports = append(ports, port)
				}
			}
		}
	}
	return ports
}

// Rival gives another port that shows an address of this port, nil for none; a bound one first. Neutron gives no
// address twice. But the first port with the address may have been deleted in Neutron by hand. If a Pod has that port,
// it gets the address back; otherwise its status will soon show that it is gone.
func (c *Caches) Rival(port *cloudteamv1.NetworkPort) *cloudteamv1.NetworkPort {
	var rival *cloudteamv1.NetworkPort
	for _, key := range addressKeys(port) {
		for _, other := range c.ports(indexAddress, key) {
			switch {
			case other.UID == port.UID:
			case BoundTo(other) != "":
				return other
			case other.DeletionTimestamp == nil: // a port in deletion is given to nobody
				rival = other
			}
		}
	}
	return rival
}

// DeploymentsDeclaring gives the Deployments that declare a network of the name.
func (c *Caches) DeploymentsDeclaring(network cache.ObjectName) []*appsv1.Deployment {
	return controller.Indexed[*appsv1.Deployment](
		c.Deployments.Informer().GetIndexer(), indexNetwork, network.String())
}

// PodsDeclaring gives the Pods that declare a network of the name.
func (c *Caches) PodsDeclaring(network cache.ObjectName) []*corev1.Pod {
	return c.pods(indexNetwork, network.String())
}

// Gated gives the Pods that wait for their ports before they are scheduled.
func (c *Caches) Gated() []*corev1.Pod { return c.pods(indexGated, "") }

func (c *Caches) pods(index, value string) []*corev1.Pod {
	return controller.Indexed[*corev1.Pod](c.Pods.Informer().GetIndexer(), index, value)
}

func (c *Caches) ports(index, value string) []*cloudteamv1.NetworkPort {
	return controller.Indexed[*cloudteamv1.NetworkPort](c.Ports.Informer().GetIndexer(), index, value)
}

// SameNetwork reports whether two states of a Network are the same for its consumers.
func SameNetwork(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && was.DeletionTimestamp.Equal(is.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(was.Status, is.Status)
}

// Kind is what a declared name refers to.
type Kind int

const (
	// Missing is neither a NetworkAttachmentDefinition nor a Network that the namespace of the consumer may use. Users
	// MUST NOT learn which Networks exist that they may not use.
	Missing Kind = iota
	// Ours is a Network that the consumer's namespace may use.
	Ours
	// Foreign is a NetworkAttachmentDefinition that belongs to no Network. Only Multus handles it.
	Foreign
)

// Resolve gives what a name refers to that a consumer in a namespace declares. A namespace that a Network no longer
// allows keeps the ports that its Pods have; other Pods get none.
func (c *Caches) Resolve(namespace string, network cache.ObjectName) Kind {
	if found := c.Network(network); found != nil {
		if controller.Allows(found, namespace) {
			return Ours
		}
		return Missing
	}
	if c.attachments != nil && c.attachments.Has(network.Namespace, network.Name) {
		return Foreign
	}
	return Missing
}
