// Package deployment is the controller of Deployments that declare networks. It keeps, for each, a pool of
// NetworkPorts: as many as its Pods need, made before they do, so that a Pod finds its port ready. Package pod binds
// the Pods to them.
package deployment

import (
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	portclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "deployment"

// kind is the kind that is synced.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Controller syncs Deployments. Make it with NewController.
type Controller struct {
	*controller.Loop

	client           portclient.NetworkPortsGetter
	deploymentClient appsclient.DeploymentsGetter
	caches           *consumer.Caches
	ports            cache.Indexer
	recorder         record.EventRecorder
	// cooldown is for how long a pool stays as large as it was needed.
	cooldown time.Duration

	// expected is the last condition written, and expectedPorts the newest port that was created, both by the
	// Deployment's key.
	expected, expectedPorts controller.Expectations
	// writing has room for the creates and deletes that are under way, of all workers together.
	writing chan struct{}

	mu sync.Mutex
	// memories are of the Deployments that declare networks or have ports.
	memories map[cache.ObjectName]*memory
}

// NewController makes a controller that watches the caches' informers, which must not run yet. Ports that Pods needed
// stay for the cooldown, from 0 on, after they do not; see DefaultCooldown. Nothing runs before Run.
func NewController(
	client portclient.NetworkPortsGetter, deployments appsclient.DeploymentsGetter,
	caches *consumer.Caches, recorder record.EventRecorder, cooldown time.Duration,
) (*Controller, error) {
	c := &Controller{
		client:           client,
		deploymentClient: deployments,
		caches:           caches,
		ports:            caches.Informers.Ports.Informer().GetIndexer(),
		recorder:         recorder,
		cooldown:         cooldown,
		writing:          make(chan struct{}, inFlight),
		memories:         map[cache.ObjectName]*memory{},
	}
	c.Loop = controller.NewLoop(Name, c.sync)
	return c, errors.Join(
		c.Watch(caches.Informers.Deployments.Informer(), c.Handler()),
		c.Watch(caches.Informers.Ports.Informer(), c.HandlerOf(keysOfPort)),
		c.Watch(caches.Informers.Pods.Informer(), c.HandlerOf(c.keysOfPod)),
		// A Pod may be in its cache before its ReplicaSet is, and counts for its Deployment from then on.
		c.Watch(caches.Informers.ReplicaSets.Informer(), c.HandlerOf(c.keysOfReplicaSet)),
		c.Watch(caches.Informers.Networks.Informer(), c.HandlerOf(func(network metav1.Object) []cache.ObjectName {
			return c.keysDeclaring(cache.MetaObjectToName(network))
		})),
	)
}

// EnqueueDeclaring has the Deployments looked at again that declare a network of the name. It is for whoever knows that
// the name stands for something else now in a way that no informer of this controller's tells: a
// NetworkAttachmentDefinition of somebody else's came or went. It is safe for concurrent use.
func (c *Controller) EnqueueDeclaring(network cache.ObjectName) {
	for _, key := range c.keysDeclaring(network) {
		c.Enqueue(key)
	}
}

// keysDeclaring names the Deployments whose Pod template declares the network, and those of which a Pod of an earlier
// template does and still waits for its ports.
func (c *Controller) keysDeclaring(network cache.ObjectName) []cache.ObjectName {
	var keys []cache.ObjectName
	seen := map[cache.ObjectName]bool{}
	add := func(key cache.ObjectName) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, deployment := range c.caches.DeploymentsDeclaring(network) {
		add(cache.MetaObjectToName(deployment))
	}
	for _, pod := range c.caches.PodsDeclaring(network) {
		if !waits(pod) {
			continue
		}
		if owner, _ := c.caches.DeploymentOf(pod); owner != nil {
			add(cache.NewObjectName(pod.Namespace, owner.Name))
		}
	}
	return keys
}

// keysOfPod names the Deployment of a Pod that declares networks. Of others' Pods a pool does not depend.
func (c *Controller) keysOfPod(pod metav1.Object) []cache.ObjectName {
	if !consumer.Declares(pod.GetAnnotations()) {
		return nil
	}
	owner, _ := c.caches.DeploymentOf(pod)
	if owner == nil {
		return nil
	}
	return []cache.ObjectName{cache.NewObjectName(pod.GetNamespace(), owner.Name)}
}

// keysOfReplicaSet names the Deployment of a ReplicaSet whose Pods declare networks. It asks the Pods: the cache need
// not hold what the ReplicaSet says of them.
func (c *Controller) keysOfReplicaSet(obj metav1.Object) []cache.ObjectName {
	for _, pod := range c.caches.PodsControlledBy(obj.GetUID()) {
		if consumer.Declares(pod.Annotations) {
			return keysOfOwned(obj)
		}
	}
	return nil
}

// keysOfPort names the Deployment that a port is of, or that it was made for.
func keysOfPort(obj metav1.Object) []cache.ObjectName {
	if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
		if deployment, orphaned := consumer.Orphaned(port, kind.Kind); orphaned {
			return []cache.ObjectName{deployment}
		}
	}
	return keysOfOwned(obj)
}

// keysOfOwned names the Deployment that controls an object.
func keysOfOwned(obj metav1.Object) []cache.ObjectName {
	owner := metav1.GetControllerOfNoCopy(obj)
	if !consumer.IsDeployment(owner) {
		return nil
	}
	return []cache.ObjectName{cache.NewObjectName(obj.GetNamespace(), owner.Name)}
}
