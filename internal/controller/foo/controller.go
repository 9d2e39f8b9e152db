// Package foo is the controller of Foos. It keeps one Deployment for each Foo object.
package foo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	fooclient "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/samplecontroller/v1alpha1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/samplecontroller/v1alpha1"
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
	indexer           cache.Indexer
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
		indexer:           informer.GetIndexer(),
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
		key := cache.NewObjectName(deployment.GetNamespace(), owner.Name)
		if foo, exists := controller.Cached[*v1alpha1.Foo](c.indexer, key); exists && foo.UID == owner.UID {
			keys = append(keys, key)
		}
	}
	declared := cache.MetaObjectToName(deployment).String()
	return append(keys, controller.KeysOf(controller.Indexed[*v1alpha1.Foo](c.indexer, indexDeployment, declared))...)
}

// sync reconciles the Deployment of one Foo. It is level-triggered: it acts on the state in the caches.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	foo, exists := controller.Cached[*v1alpha1.Foo](c.indexer, key)
	switch {
	case !exists:
		// The Foo owns the Deployment, so garbage collection deletes it.
		c.expected.Forget(key)
		c.expectedDeployments.Forget(key)
		return controller.Result{}, nil
	case !c.expected.Met(key, foo.UID, foo.ResourceVersion):
		// The cache is older than the controller's last write. The event that updates the cache requeues the key.
		return controller.Result{}, nil
	case foo.DeletionTimestamp != nil:
		// A foreground deletion deletes the Deployment before the Foo. A new Deployment would block the deletion of
		// both.
		return controller.Result{}, nil
	}
	deployment, state, err := c.reconcile(ctx, key, foo)
	if errors.Is(err, controller.ErrStale) || errors.Is(err, controller.ErrTerminating) {
		return controller.Result{}, err
	}
	if err != nil && state.Reason == "" {
		state = failed(err)
	}
	return controller.Result{}, errors.Join(err, c.report(ctx, foo, deployment, state))
}

// reconcile creates, scales and deletes until the Foo has exactly its declared Deployment. It returns the Deployment,
// nil if the Foo has none, and the state to report. With an error, the state may be empty.
//
// A Deployment of an earlier spec.deploymentName is deleted after the one of the present name exists. If the present
// name is taken or refused, the old Deployment keeps running until a user decides.
func (c *Controller) reconcile(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo,
) (*appsv1.Deployment, controller.State, error) {
	if problems := validation.IsDNS1123Subdomain(foo.Spec.DeploymentName); len(problems) > 0 {
		// Only a new spec helps, and that causes an event.
		return nil, controller.Stalled(v1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.deploymentName %q: %s",
			foo.Spec.DeploymentName, strings.Join(problems, "; "))), nil
	}
	version := c.deploymentIndexer.LastStoreSyncResourceVersion() // read before the cache: see CaughtUp
	deployment, exists := controller.Cached[*appsv1.Deployment](
		c.deploymentIndexer, cache.NewObjectName(foo.Namespace, foo.Spec.DeploymentName))
	var err error
	switch {
	case !exists && !c.expectedDeployments.CaughtUp(key, version):
		return nil, controller.State{}, controller.ErrStale
	case !exists:
		deployment, err = c.create(ctx, key, foo)
	case !c.expectedDeployments.Met(key, deployment.UID, deployment.ResourceVersion):
		return nil, controller.State{}, controller.ErrStale
	case !controller.Controls(foo, kind.GroupKind(), deployment):
		state, err := taken(foo, deployment)
		return nil, state, err
	case deployment.DeletionTimestamp != nil:
		return deployment, controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"Deployment %q is being deleted; a new one is created when it is gone", deployment.Name)), nil
	case foo.Spec.Replicas != nil && *foo.Spec.Replicas != replicasOf(deployment):
		deployment, err = c.scale(ctx, key, foo, deployment)
	}
	if err == nil {
		err = c.prune(ctx, foo)
	}
	if err != nil {
		return deployment, controller.State{}, err
	}
	return deployment, progress(deployment), nil
}

// create creates the Foo's Deployment.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo,
) (*appsv1.Deployment, error) {
	if err := controller.CheckOwner(ctx, c.client.Foos(foo.Namespace), kind.Kind, foo); err != nil {
		return nil, err
	}
	created, err := controller.CreateOwned(ctx, c.deploymentClient.Deployments(foo.Namespace), "Deployment", key,
		desired(foo), &c.expectedDeployments)
	if err != nil {
		return nil, err
	}
	c.completed(ctx, foo, v1alpha1.EventCreated, "Created Deployment %q", created.Name)
	return created, nil
}

// scale sets the Deployment's replicas to the number that the Foo declares. It writes only that field. The write fails
// if the Deployment changed since it was read, because it may have another owner by now. It returns the Deployment
// after the write, or as it was.
func (c *Controller) scale(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo, deployment *appsv1.Deployment,
) (*appsv1.Deployment, error) {
	scaled, err := controller.PatchAsRead(ctx, c.deploymentClient.Deployments(deployment.Namespace).Patch,
		types.MergePatchType, controller.FieldManager, deployment,
		map[string]any{"spec": map[string]any{"replicas": *foo.Spec.Replicas}})
	if err != nil {
		return deployment, fmt.Errorf("scaling Deployment %q: %w", deployment.Name, err)
	}
	c.expectedDeployments.Written(key, scaled.UID, scaled.ResourceVersion)
	c.completed(ctx, foo, v1alpha1.EventScaled, "Scaled Deployment %q from %d to %d",
		scaled.Name, replicasOf(deployment), replicasOf(scaled))
	return scaled, nil
}

// prune deletes the Foo's Deployments of earlier names. Each deletion fails if the Deployment changed since it was
// read.
func (c *Controller) prune(ctx context.Context, foo *v1alpha1.Foo) error {
	var errs []error
	for _, deployment := range controller.Indexed[*appsv1.Deployment](c.deploymentIndexer, indexOwner, string(foo.UID)) {
		if !controller.Controls(foo, kind.GroupKind(), deployment) || deployment.Name == foo.Spec.DeploymentName ||
			deployment.DeletionTimestamp != nil {
			continue
		}
		err := c.deploymentClient.Deployments(deployment.Namespace).Delete(ctx, deployment.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{
				UID: new(deployment.UID), ResourceVersion: new(deployment.ResourceVersion),
			},
			PropagationPolicy: new(metav1.DeletePropagationBackground),
		})
		switch {
		case err == nil:
			c.completed(ctx, foo, v1alpha1.EventDeleted, "Deleted Deployment %q: spec.deploymentName is now %q",
				deployment.Name, foo.Spec.DeploymentName)
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			errs = append(errs, controller.ErrStale)
		default:
			errs = append(errs, fmt.Errorf("deleting Deployment %q of an earlier spec.deploymentName: %w",
				deployment.Name, err))
		}
	}
	return controller.Worst(errs...)
}

// desired is the Deployment to create for a Foo. It is the same as in Kubernetes' sample-controller. For an existing
// Deployment, only the number of replicas is compared. Others may change everything else.
func desired(foo *v1alpha1.Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: foo.Namespace,
			Name:      foo.Spec.DeploymentName,
			Labels:    labels,
			// Garbage collection deletes the Deployment after the Foo, or before it in a foreground deletion.
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, kind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}

// replicasOf is the number of replicas that a Deployment declares.
func replicasOf(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1 // the API server's default
	}
	return *deployment.Spec.Replicas
}
