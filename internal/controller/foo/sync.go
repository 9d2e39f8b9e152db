package foo

import (
	"context"
	"encoding/json"
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

// syncResult has the observations and actions of a sync, for the Foo's status.
type syncResult struct {
	// known is false if the caches did not have enough data for a status.
	known bool
	state controller.State
	// available is the number of available replicas of the Foo's Deployment.
	available int32
	// events are the Events of completed actions.
	events []controller.Event
	// stale is true if a cache is behind the API server. The key is requeued.
	stale bool
	// err, if not nil, causes a retry of the sync.
	err error
}

// stale is the result of a sync whose cache is behind the API server.
func stale() syncResult { return syncResult{stale: true} }

// sync reconciles the Deployment of one Foo. It is level-triggered: it acts on the state in the caches.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	foo, err := c.lister.Foos(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		// The Foo owns the Deployment, so garbage collection deletes it.
		c.expected.Forget(key)
		c.expectedDeployments.Forget(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	if !c.expected.Met(key, foo.UID, foo.ResourceVersion) {
		// The cache is older than the controller's last write. The event that updates the cache requeues the key.
		return controller.Result{}, nil
	}
	if foo.DeletionTimestamp != nil {
		// A foreground deletion deletes the Deployment before the Foo. A new Deployment would block the deletion of
		// both.
		return controller.Result{}, nil
	}
	r := c.reconcile(ctx, key, foo)
	if r.known {
		err = c.report(ctx, foo, r)
	}
	var result controller.Result
	if r.stale {
		result.RequeueAfter = controller.StalePause
	}
	return result, errors.Join(r.err, err)
}

// reconcile creates, scales and deletes until the Foo has exactly its declared Deployment.
//
// A Deployment of an earlier spec.deploymentName is deleted after the one of the present name exists. If the present
// name is taken or refused, the old Deployment keeps running until a user decides.
func (c *Controller) reconcile(ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo) syncResult {
	if problems := validation.IsDNS1123Subdomain(foo.Spec.DeploymentName); len(problems) > 0 {
		// Only a new spec helps, and that causes an event.
		return syncResult{known: true, state: controller.Stalled(v1alpha1.ReasonInvalidSpec,
			fmt.Sprintf("spec.deploymentName %q: %s", foo.Spec.DeploymentName, strings.Join(problems, "; ")))}
	}
	version := c.deploymentIndexer.LastStoreSyncResourceVersion() // read before the cache: see CaughtUp
	deployment, err := c.deploymentLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	var r syncResult
	switch {
	case apierrors.IsNotFound(err):
		if !c.expectedDeployments.CaughtUp(key, version) {
			return stale()
		}
		deployment, r = c.create(ctx, key, foo)
	case err != nil:
		return failed(err)
	case !c.expectedDeployments.Met(key, deployment.UID, deployment.ResourceVersion):
		return stale()
	case !metav1.IsControlledBy(deployment, foo):
		return taken(foo, deployment)
	case deployment.DeletionTimestamp != nil:
		return syncResult{known: true, available: deployment.Status.AvailableReplicas,
			state: controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
				"Deployment %q is being deleted; a new one is created when it is gone", deployment.Name))}
	default:
		deployment, r = c.scale(ctx, key, foo, deployment)
	}
	if deployment == nil {
		return r
	}
	r.available = deployment.Status.AvailableReplicas
	r.known, r.state = true, progress(deployment)
	return c.prune(ctx, foo, r)
}

// create creates the Foo's Deployment. If it fails, it returns nil and a result with the cause.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo,
) (*appsv1.Deployment, syncResult) {
	var created *appsv1.Deployment
	err := controller.CheckOwner(ctx, c.client.Foos(foo.Namespace), kind.Kind, foo)
	if err == nil {
		created, err = controller.CreateOwned(ctx, c.deploymentClient.Deployments(foo.Namespace), "Deployment", key,
			desired(foo), &c.expectedDeployments)
	}
	switch {
	case errors.Is(err, controller.ErrStale):
		return nil, stale()
	case errors.Is(err, controller.ErrTerminating):
		return nil, syncResult{}
	case err != nil:
		return nil, failed(err)
	}
	return created, syncResult{events: []controller.Event{
		controller.Done(v1alpha1.EventCreated, "Created Deployment %q", created.Name),
	}}
}

// scale sets the Deployment's replicas to the number that the Foo declares, if any. It writes only that field. The
// write fails if the Deployment changed since it was read, because it may have another owner by now. On failure, scale
// returns nil and a result with the cause.
func (c *Controller) scale(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo, deployment *appsv1.Deployment,
) (*appsv1.Deployment, syncResult) {
	was := replicasOf(deployment)
	if foo.Spec.Replicas == nil || *foo.Spec.Replicas == was {
		return deployment, syncResult{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": deployment.UID, "resourceVersion": deployment.ResourceVersion},
		"spec":     map[string]any{"replicas": *foo.Spec.Replicas},
	})
	if err != nil {
		return nil, failed(err)
	}
	scaled, err := c.deploymentClient.Deployments(deployment.Namespace).Patch(ctx, deployment.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: controller.FieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, stale()
	}
	if err != nil {
		r := syncResult{available: deployment.Status.AvailableReplicas}
		return nil, r.failed(fmt.Errorf("scaling Deployment %q: %w", deployment.Name, err))
	}
	c.expectedDeployments.Written(key, scaled.UID, scaled.ResourceVersion)
	return scaled, syncResult{events: []controller.Event{controller.Done(
		v1alpha1.EventScaled, "Scaled Deployment %q from %d to %d", scaled.Name, was, replicasOf(scaled))}}
}

// prune deletes the Foo's Deployments of earlier names. Each deletion fails if the Deployment changed since it was
// read.
func (c *Controller) prune(ctx context.Context, foo *v1alpha1.Foo, r syncResult) syncResult {
	owned, err := c.deploymentIndexer.ByIndex(indexOwner, string(foo.UID))
	if err != nil {
		return r.failed(err)
	}
	var errs []error
	for _, obj := range owned {
		deployment, ok := obj.(*appsv1.Deployment)
		if !ok || deployment.Namespace != foo.Namespace || deployment.Name == foo.Spec.DeploymentName ||
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
			r.events = append(r.events, controller.Done(v1alpha1.EventDeleted,
				"Deleted Deployment %q: spec.deploymentName is now %q", deployment.Name, foo.Spec.DeploymentName))
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			r.stale = true
		default:
			errs = append(errs, fmt.Errorf("deleting Deployment %q of an earlier spec.deploymentName: %w",
				deployment.Name, err))
		}
	}
	if len(errs) > 0 {
		return r.failed(errors.Join(errs...))
	}
	return r
}
