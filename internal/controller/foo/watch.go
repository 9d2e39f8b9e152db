// Package foo is the controller of Foos. It keeps one Deployment for each Foo object.
package foo

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	fooclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/samplecontroller/v1alpha1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/samplecontroller/v1alpha1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/samplecontroller/v1alpha1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "foo"

// kind is the synced kind.
var kind = v1alpha1.SchemeGroupVersion.WithKind("Foo")

// Controller syncs Foos. Make it with NewController.
type Controller struct {
	*controller.Loop

	client            fooclient.FoosGetter
	deploymentClient  appsclient.DeploymentsGetter
	lister            listers.FooLister
	indexer           cache.Indexer
	deploymentLister  appslisters.DeploymentLister
	deploymentIndexer cache.Indexer
	recorder          record.EventRecorder

	// expected has the last status written, and expectedDeployments the last Deployment created, scaled or found. The
	// key of both is the Foo's.
	expected, expectedDeployments controller.Expectations
}

const (
	// indexDeployment is the index of Foos by the namespace and name of their declared Deployment.
	indexDeployment = "deployment"
	// indexOwner is the index of Deployments by the UID of the Foo that controls them.
	indexOwner = "owner"
)

// NewController makes a controller that watches and indexes the informers. These MUST NOT run yet. The controller does
// nothing before Run.
func NewController(
	client fooclient.FoosGetter, deploymentClient appsclient.DeploymentsGetter,
	foos informers.FooInformer, deployments appsinformers.DeploymentInformer, recorder record.EventRecorder,
) (*Controller, error) {
	informer, deploymentInformer := foos.Informer(), deployments.Informer()
	c := &Controller{
		client:            client,
		deploymentClient:  deploymentClient,
		lister:            foos.Lister(),
		indexer:           informer.GetIndexer(),
		deploymentLister:  deployments.Lister(),
		deploymentIndexer: deploymentInformer.GetIndexer(),
		recorder:          recorder,
	}
	c.Loop = controller.NewLoop(Name, c.sync)

	return c, errors.Join(
		informer.AddIndexers(cache.Indexers{indexDeployment: controller.IndexBy(func(foo *v1alpha1.Foo) []string {
			return []string{cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName).String()}
		})}),
		deploymentInformer.AddIndexers(cache.Indexers{indexOwner: controller.IndexBy(func(d *appsv1.Deployment) []string {
			if owner := controller.OwnerOf(d, kind.GroupKind()); owner != nil {
				return []string{string(owner.UID)}
			}
			return nil
		})}),
		c.Watch(informer, c.Handler()),
		c.Watch(deploymentInformer, c.HandlerOf(c.keysOf)),
	)
}

// keysOf returns the Foos that a Deployment affects: the one that controls it, and those that declare its name. The
// latter may wait for its deletion.
func (c *Controller) keysOf(deployment metav1.Object) []cache.ObjectName {
	var keys []cache.ObjectName
	if owner := controller.OwnerOf(deployment, kind.GroupKind()); owner != nil {
		foo, err := c.lister.Foos(deployment.GetNamespace()).Get(owner.Name)
		if err == nil && foo.UID == owner.UID {
			keys = append(keys, cache.MetaObjectToName(foo))
		}
	}
	declared := cache.MetaObjectToName(deployment).String()
	for _, foo := range controller.Indexed[*v1alpha1.Foo](c.indexer, indexDeployment, declared) {
		keys = append(keys, cache.MetaObjectToName(foo))
	}
	return keys
}
