package foo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// sync reconciles the Deployment of one Foo. It is level-triggered: it acts on the state in the caches.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	foo, err := c.lister.Foos(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		// The Foo owns the Deployment, so garbage collection deletes it.
		c.expected.Forget(key)
		c.expectedDeployments.Forget(key)
		return controller.Result{}, nil
	case err != nil:
		return controller.Result{}, err
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
	deployment, err := c.deploymentLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	switch {
	case apierrors.IsNotFound(err) && !c.expectedDeployments.CaughtUp(key, version):
		return nil, controller.State{}, controller.ErrStale
	case apierrors.IsNotFound(err):
		deployment, err = c.create(ctx, key, foo)
	case err != nil:
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
