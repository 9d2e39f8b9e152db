// Package deployment is the controller of Deployments that declare networks. For each it keeps a pool of NetworkPorts,
// as many as the Pods need, and creates them in advance. Only this package binds these ports to Pods and releases them.
// Package pod then writes on a Pod what it got.
package deployment

import (
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "deployment"

// kind is the kind that this controller syncs.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Controller syncs Deployments. Create it with NewController.
type Controller struct {
	*controller.Loop

	client   appsclient.DeploymentsGetter
	caches   *consumer.Caches
	recorder record.EventRecorder
	options  Options
	// ports writes the ports and their bindings.
	ports consumer.Writer
	// expected is the last condition written, by the Deployment's key.
	expected controller.Expectations
	// memories has the *memory of each Deployment that declares networks or has ports, by its key.
	memories sync.Map
}

// Options tune a Controller.
type Options struct {
	// Cooldown, at least 0, is how long a pool keeps its size after it was needed; see DefaultCooldown.
	Cooldown time.Duration
	// Limit, if not nil, gives how many ports a Deployment may have on a Network. It MUST be safe for concurrent use.
	Limit func(network *cloudteamv1.Network) Limit
}

// NewController makes a controller that watches the caches' informers, which MUST NOT run yet. Nothing runs before Run.
func NewController(
	ports portclient.NetworkPortsGetter, deployments appsclient.DeploymentsGetter, pods coreclient.PodsGetter,
	caches *consumer.Caches, recorder record.EventRecorder, options Options,
) (*Controller, error) {
	c := &Controller{
		client:   deployments,
		caches:   caches,
		recorder: recorder,
		options:  options,
		ports:    consumer.Writer{Ports: ports, Pods: pods},
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		c.Watch(caches.Deployments.Informer(), c.Handler()),
		c.Watch(caches.Ports.Informer(), c.HandlerOf(keysOfPort)),
		c.Watch(caches.Pods.Informer(), c.HandlerOf(c.keysOfPod)),
		// A Pod may be in its cache before its ReplicaSet is. It counts for its Deployment once both are.
		c.Watch(caches.ReplicaSets.Informer(), c.HandlerOf(c.keysOfReplicaSet)),
		c.Watch(caches.Networks.Informer(),
			controller.HandlerOfManyByStatus(c.Loop, controller.KeyOf, c.keysDeclaring, consumer.SameNetwork)),
	)
}

// EnqueueDeclaring requeues the Deployments that declare a network of the name. Call it when a
// NetworkAttachmentDefinition of the name is created or deleted, which no informer of this controller shows. It is safe
// for concurrent use.
func (c *Controller) EnqueueDeclaring(network cache.ObjectName) {
	c.Enqueue(c.keysDeclaring(network)...)
}

// keysDeclaring names the Deployments whose Pod template declares the network, and those with a waiting Pod of an
// earlier template that does.
func (c *Controller) keysDeclaring(network cache.ObjectName) []cache.ObjectName {
	keys := controller.KeysOf(c.caches.DeploymentsDeclaring(network))
	for _, pod := range c.caches.PodsDeclaring(network) {
		if waits(pod) {
			keys = append(keys, c.keysOfOwner(pod)...)
		}
	}
	return keys
}

// keysOfOwner names the Deployment that a Pod belongs to.
func (c *Controller) keysOfOwner(pod metav1.Object) []cache.ObjectName {
	if deployment, _ := c.caches.DeploymentOf(pod); deployment != nil {
		return []cache.ObjectName{cache.MetaObjectToName(deployment)}
	}
	return nil
}

// keysOfPod names the Deployments that a Pod affects: its own, if it declares networks, and those whose ports it has.
func (c *Controller) keysOfPod(obj metav1.Object) []cache.ObjectName {
	var keys []cache.ObjectName
	if consumer.Declares(obj.GetAnnotations()) {
		keys = c.keysOfOwner(obj)
	}
	for _, port := range c.portsOf(obj) {
		keys = append(keys, keysOfPort(port)...)
	}
	return keys
}

// portsOf gives the ports that are bound to a Pod, and those that it was given by its annotation.
func (c *Controller) portsOf(obj metav1.Object) []*cloudteamv1.NetworkPort {
	ports := c.caches.PortsBoundTo(cache.MetaObjectToName(obj))
	pod, ok := obj.(*corev1.Pod)
	if !ok || !consumer.Allocated(pod) {
		return ports // the last state of a deleted Pod may be unknown
	}
	allocations, err := consumer.Allocations(pod)
	if err != nil {
		return ports
	}
	for _, a := range allocations {
		if port := c.caches.Port(cache.NewObjectName(pod.Namespace, a.Port)); port != nil {
			ports = append(ports, port)
		}
	}
	return ports
}

// keysOfReplicaSet names the Deployment of a ReplicaSet whose Pods declare networks. It checks the Pods, because the
// cache may not hold the ReplicaSet's template.
func (c *Controller) keysOfReplicaSet(set metav1.Object) []cache.ObjectName {
	owner := controller.OwnerOf(set, consumer.DeploymentKind) // the sync checks whether the Deployment owns it
	if owner == nil || len(c.caches.PodsControlledBy(set, consumer.ReplicaSetKind)) == 0 {
		return nil
	}
	return []cache.ObjectName{cache.NewObjectName(set.GetNamespace(), owner.Name)}
}

// keysOfPort names the Deployment that a port was made for.
func keysOfPort(obj metav1.Object) []cache.ObjectName {
	if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
		if deployment, ok := consumer.MadeFor(port, consumer.DeploymentKind); ok {
			return []cache.ObjectName{deployment}
		}
	}
	return nil
}
