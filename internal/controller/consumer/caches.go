// Package consumer has what the controllers of Deployments and of Pods share. Deployments and Pods are consumers of
// Networks: they declare them in an annotation (package selection) and use them through NetworkPorts. A Deployment has
// a pool of ports, and each of its Pods is bound to as many as it declares. A Pod without a Deployment has its own
// ports.
package consumer

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Informers are those of all kinds that consumers use.
type Informers struct {
	Networks    informers.NetworkInformer
	Ports       informers.NetworkPortInformer
	Pods        coreinformers.PodInformer
	ReplicaSets appsinformers.ReplicaSetInformer
	Deployments appsinformers.DeploymentInformer
}

// Attachments tells which NetworkAttachmentDefinitions exist.
type Attachments interface {
	// Has reports whether one of the name exists that belongs to no Network. It MUST be safe for concurrent use.
	Has(namespace, name string) bool
}

// Caches tell who uses what, from the informers' caches. The controllers of Deployments and of Pods share one. All
// methods are safe for concurrent use. The returned objects belong to the caches and MUST NOT be changed.
type Caches struct {
	Networks    listers.NetworkLister
	Ports       listers.NetworkPortLister
	Pods        corelisters.PodLister
	ReplicaSets appslisters.ReplicaSetLister
	Deployments appslisters.DeploymentLister

	// Informers fill the caches.
	Informers Informers

	attachments Attachments
}

const (
	// indexController is the index of NetworkPorts, Pods and ReplicaSets by the UID of the object that controls them.
	indexController = "consumer/controller"
	// indexBound is the index of NetworkPorts by the namespace and name of the Pod that they are bound to.
	indexBound = "consumer/bound"
	// indexOrphan is the index of NetworkPorts without an owner by namespace and AnnotationMadeFor.
	indexOrphan = "consumer/orphan"
	// indexDeployment is the index of NetworkPorts by the Deployment that they were made for.
	indexDeployment = "consumer/deployment"
	// indexAddress is the index of NetworkPorts by their Networks and the addresses that their status shows.
	indexAddress = "consumer/address"
	// indexNetwork is the index of Deployments and Pods by the namespaces and names of the networks that they declare.
	indexNetwork = "consumer/network"
	// indexAllocated is the index of Pods by the namespaces and ids of the ports that they were given.
	indexAllocated = "consumer/allocated"
)

// NewCaches adds the indexes to the informers, which MUST NOT run yet. attachments may be nil: then there are none.
func NewCaches(from Informers, attachments Attachments) (*Caches, error) {
	for _, added := range []struct {
		informer cache.SharedIndexInformer
		indexers cache.Indexers
	}{
		{from.Ports.Informer(), cache.Indexers{
			indexController: byController, indexBound: byBound, indexOrphan: byOrphan, indexDeployment: byDeployment,
			indexAddress: byAddress,
		}},
		{from.Pods.Informer(), cache.Indexers{
			indexController: byController, indexNetwork: byNetwork, indexAllocated: byAllocated,
		}},
		{from.ReplicaSets.Informer(), cache.Indexers{indexController: byController}},
		{from.Deployments.Informer(), cache.Indexers{indexNetwork: byNetwork}},
	} {
		if err := added.informer.AddIndexers(added.indexers); err != nil {
			return nil, fmt.Errorf("indexing the consumers of networks: %w", err)
		}
	}
	from.Networks.Informer()
	return &Caches{
		Networks:    from.Networks.Lister(),
		Ports:       from.Ports.Lister(),
		Pods:        from.Pods.Lister(),
		ReplicaSets: from.ReplicaSets.Lister(),
		Deployments: from.Deployments.Lister(),
		Informers:   from,
		attachments: attachments,
	}, nil
}

func byController(obj any) ([]string, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

func byBound(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	if port.Status.BoundTo == nil {
		return nil, nil
	}
	return []string{cache.NewObjectName(port.Namespace, port.Status.BoundTo.Name).String()}, nil
}

func byNetwork(obj any) ([]string, error) {
	var selections []selection.Selection
	switch consumer := obj.(type) {
	case *corev1.Pod:
		selections, _ = DeclaredByPod(consumer)
	case *appsv1.Deployment:
		selections, _ = DeclaredByDeployment(consumer)
	default:
		return nil, fmt.Errorf("%T declares no networks", obj)
	}
	var keys []string
	for _, s := range selections {
		keys = append(keys, s.Namespace+"/"+s.Name)
	}
	return keys, nil
}

func byAddress(obj any) ([]string, error) {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok {
		return nil, fmt.Errorf("%T is no NetworkPort", obj)
	}
	return addressKeys(port), nil
}

// addressKeys combines a port's Network with each of its addresses.
func addressKeys(port *cloudteamv1.NetworkPort) []string {
	var keys []string
	for _, a := range port.Status.Addresses {
		keys = append(keys, NetworkOf(port).String()+" "+a.Address)
	}
	return keys
}

func byAllocated(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no Pod", obj)
	}
	if !Allocated(pod) {
		return nil, nil
	}
	allocations, err := Allocations(pod)
	if err != nil {
		return nil, nil //nolint:nilerr // somebody wrote over the annotation: it tells nothing
	}
	var keys []string
	for _, a := range allocations {
		keys = append(keys, pod.Namespace+"/"+a.PortID)
	}
	return keys, nil
}

// replicaSetOf returns nil if no ReplicaSet controls the Pod, or if the cache lacks it.
func (c *Caches) replicaSetOf(pod metav1.Object) *appsv1.ReplicaSet {
	owner := metav1.GetControllerOfNoCopy(pod)
	if !isOfApps(owner, "ReplicaSet") {
		return nil
	}
	set, err := c.ReplicaSets.ReplicaSets(pod.GetNamespace()).Get(owner.Name)
	if err != nil || set.UID != owner.UID {
		return nil
	}
	return set
}

// DeploymentOf gives the owner reference to the Deployment that a Pod belongs to through its ReplicaSet, nil for none.
// known is false if the cache lacks the ReplicaSet (yet), so that the Deployment is unknown.
func (c *Caches) DeploymentOf(pod metav1.Object) (deployment *metav1.OwnerReference, known bool) {
	if !isOfApps(metav1.GetControllerOfNoCopy(pod), "ReplicaSet") {
		return nil, true
	}
	set := c.replicaSetOf(pod)
	if set == nil {
		return nil, false
	}
	owner := metav1.GetControllerOfNoCopy(set)
	if !IsDeployment(owner) {
		return nil, true
	}
	return owner, true
}

// IsDeployment reports whether an owner, which may be nil, is a Deployment of any version.
func IsDeployment(owner *metav1.OwnerReference) bool { return isOfApps(owner, "Deployment") }

// isOfApps reports whether an owner is of a kind of the group apps: other groups have kinds of the same names.
func isOfApps(owner *metav1.OwnerReference, kind string) bool {
	if owner == nil || owner.Kind != kind {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == appsv1.GroupName
}

// PodsOf gives the Pods of a Deployment in a namespace, including those that are being deleted or have ended. In other
// namespaces, anybody can write the Deployment's UID into an owner reference.
func (c *Caches) PodsOf(namespace string, deployment types.UID) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, set := range c.ReplicaSetsOf(deployment) {
		if set.Namespace != namespace || !IsDeployment(metav1.GetControllerOfNoCopy(set)) {
			continue
		}
		for _, pod := range c.PodsControlledBy(set.UID) {
			if pod.Namespace == set.Namespace && isOfApps(metav1.GetControllerOfNoCopy(pod), "ReplicaSet") {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// ReplicaSetsOf gives the ReplicaSets of a Deployment.
func (c *Caches) ReplicaSetsOf(deployment types.UID) []*appsv1.ReplicaSet {
	return indexed[*appsv1.ReplicaSet](c.Informers.ReplicaSets.Informer(), indexController, string(deployment))
}

// PodsControlledBy gives the Pods that the object of the given UID controls, such as a ReplicaSet's.
func (c *Caches) PodsControlledBy(owner types.UID) []*corev1.Pod {
	return indexed[*corev1.Pod](c.Informers.Pods.Informer(), indexController, string(owner))
}

// PortsOf gives the NetworkPorts that the object of the given UID controls.
func (c *Caches) PortsOf(owner types.UID) []*cloudteamv1.NetworkPort {
	return indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexController, string(owner))
}

// PortsBoundTo gives the NetworkPorts that are bound to a Pod of the name, of any UID.
func (c *Caches) PortsBoundTo(pod cache.ObjectName) []*cloudteamv1.NetworkPort {
	return indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexBound, pod.String())
}

// PortsMadeFor gives the NetworkPorts that were made for a Deployment of the name, even if it is gone.
func (c *Caches) PortsMadeFor(deployment cache.ObjectName) []*cloudteamv1.NetworkPort {
	return indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexDeployment, deployment.String())
}

// GivenTo gives the Pods that were given a port by their annotation, and whose containers may still use it. All of them
// are in the port's namespace.
func (c *Caches) GivenTo(port *cloudteamv1.NetworkPort) []*corev1.Pod {
	if port.Status.PortID == "" {
		return nil
	}
	return slices.DeleteFunc(
		indexed[*corev1.Pod](c.Informers.Pods.Informer(), indexAllocated, port.Namespace+"/"+port.Status.PortID), Ended)
}

// Rival gives another port that shows an address of this port, nil for none; a bound one first. Neutron gives no
// address twice. But the first port with the address may have been deleted in Neutron by hand. If a Pod has that port,
// it gets the address back; otherwise its status will soon show that it is gone.
func (c *Caches) Rival(port *cloudteamv1.NetworkPort) *cloudteamv1.NetworkPort {
	var rival *cloudteamv1.NetworkPort
	for _, key := range addressKeys(port) {
		for _, other := range indexed[*cloudteamv1.NetworkPort](c.Informers.Ports.Informer(), indexAddress, key) {
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
	return indexed[*appsv1.Deployment](c.Informers.Deployments.Informer(), indexNetwork, network.String())
}

// PodsDeclaring gives the Pods that declare a network of the name.
func (c *Caches) PodsDeclaring(network cache.ObjectName) []*corev1.Pod {
	return indexed[*corev1.Pod](c.Informers.Pods.Informer(), indexNetwork, network.String())
}

func indexed[T any](informer cache.SharedIndexInformer, index, value string) []T {
	objects, err := informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // NewCaches adds the indexes
	}
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		if object, ok := obj.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

// Kind is what a declared name refers to.
type Kind int

const (
	// Missing is neither a Network nor a NetworkAttachmentDefinition.
	Missing Kind = iota
	// Ours is a Network.
	Ours
	// Foreign is a NetworkAttachmentDefinition that belongs to no Network. Only Multus handles it.
	Foreign
)

// Resolve gives what a declared name refers to.
func (c *Caches) Resolve(network cache.ObjectName) Kind {
	if _, err := c.Networks.Networks(network.Namespace).Get(network.Name); err == nil {
		return Ours
	}
	if c.attachments != nil && c.attachments.Has(network.Namespace, network.Name) {
		return Foreign
	}
	return Missing
}
