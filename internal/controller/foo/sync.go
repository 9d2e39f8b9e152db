package foo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// behindPause is how long a sync waits for a cache that is behind the API server. As a rule an event ends the wait
// before. There is none where the object came and went between two lists.
const behindPause = time.Second

// outcome is how a sync went.
type outcome struct {
	// known is false where the caches did not tell enough to say anything.
	known bool
	state controller.State
	// available is how many replicas of the Foo's Deployment are available.
	available int32
	// events are what was done.
	events []controller.Event
	// behind is true where a cache showed less than the API server has: it is looked at again, and nobody is to blame.
	behind bool
	// err, where not nil, has the key tried again.
	err error
}

// sync makes the Deployment of one Foo as the Foo declares. It acts on what the caches hold now, whatever put the key
// on the queue.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	foo, err := c.lister.Foos(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		// The Deployment bears the Foo as its owner: garbage collection removes it.
		c.expected.Forget(key)
		c.expectedDeployments.Forget(key)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, err
	}
	if !c.expected.Met(key, foo.UID, foo.ResourceVersion) {
		// The cache is older than our own last write. The event that brings it up to date brings the key back.
		return controller.Result{}, nil
	}
	if foo.DeletionTimestamp != nil {
		// Garbage collection may be removing the Deployment before the Foo. To create it anew would hold both up.
		return controller.Result{}, nil
	}
	o := c.converge(ctx, key, foo)
	if o.known {
		err = c.report(ctx, foo, o)
	}
	var result controller.Result
	if o.behind {
		result.RequeueAfter = behindPause
	}
	return result, errors.Join(o.err, err)
}

// converge creates, scales and deletes what is needed for the Foo's Deployment to be as declared, and for there to be
// no other one of the Foo's.
//
// A Deployment of an earlier name goes when the one of the present name is there: should that name be another's, or the
// API server refuse it, then what runs keeps running until somebody has decided.
func (c *Controller) converge(ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo) outcome {
	if problems := validation.IsDNS1123Subdomain(foo.Spec.DeploymentName); len(problems) > 0 {
		// Nothing but another spec helps, and that brings an event.
		return outcome{known: true, state: controller.Stalled(v1alpha1.ReasonInvalidSpec,
			fmt.Sprintf("spec.deploymentName %q: %s", foo.Spec.DeploymentName, strings.Join(problems, "; ")))}
	}
	// Read before the lister is: what the cache does not hold then, it did not hold at this version.
	version := c.deploymentIndexer.LastStoreSyncResourceVersion()
	deployment, err := c.deploymentLister.Deployments(foo.Namespace).Get(foo.Spec.DeploymentName)
	var o outcome
	switch {
	case apierrors.IsNotFound(err):
		if !c.expectedDeployments.MetWithout(key, version) {
			return outcome{behind: true}
		}
		deployment, o = c.create(ctx, key, foo)
	case err != nil:
		return failed(err)
	case !c.expectedDeployments.Met(key, deployment.UID, deployment.ResourceVersion):
		return outcome{behind: true}
	case !metav1.IsControlledBy(deployment, foo):
		return taken(foo, deployment)
	case deployment.DeletionTimestamp != nil:
		return outcome{known: true, available: deployment.Status.AvailableReplicas,
			state: controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
				"Deployment %q is being deleted; it is created anew when it is gone", deployment.Name))}
	default:
		deployment, o = c.scale(ctx, key, foo, deployment)
	}
	if deployment == nil {
		return o
	}
	o.available = deployment.Status.AvailableReplicas
	o.known, o.state = true, progress(deployment)
	return c.prune(ctx, foo, o)
}

// create creates the Foo's Deployment. It returns nil where there is none now, with an outcome that says why.
func (c *Controller) create(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo,
) (*appsv1.Deployment, outcome) {
	// The one read that is not from a cache: who deletes a Foo in the foreground has its Deployment deleted, too, and the
	// cache of Foos may hear of it later than that of Deployments.
	live, err := c.client.Foos(foo.Namespace).Get(ctx, foo.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && (live.UID != foo.UID || live.DeletionTimestamp != nil):
		return nil, outcome{behind: true}
	case err != nil:
		return nil, failed(fmt.Errorf("reading the Foo before creating Deployment %q: %w", foo.Spec.DeploymentName, err))
	}
	client := c.deploymentClient.Deployments(foo.Namespace)
	created, err := client.Create(ctx, desired(foo), metav1.CreateOptions{FieldManager: controller.FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		// The cache is behind: of somebody else's create, or of one of ours whose answer was lost. Whose it is can wait
		// until the cache shows it.
		existing, err := client.Get(ctx, foo.Spec.DeploymentName, metav1.GetOptions{})
		if err == nil {
			c.expectedDeployments.Written(key, existing.UID, existing.ResourceVersion)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, failed(fmt.Errorf("reading Deployment %q: %w", foo.Spec.DeploymentName, err))
		}
		return nil, outcome{behind: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The Foo goes with its namespace.
		return nil, outcome{}
	case err != nil:
		return nil, failed(fmt.Errorf("creating Deployment %q: %w", foo.Spec.DeploymentName, err))
	}
	c.expectedDeployments.Written(key, created.UID, created.ResourceVersion)
	return created, outcome{events: []controller.Event{
		controller.Done(v1alpha1.EventCreated, "Created Deployment %q", created.Name),
	}}
}

// scale sets the number of replicas of a Deployment of the Foo's to the declared one, if one is declared and it
// differs. It writes that one field, and only while the Deployment is the one that was read: it may be somebody else's
// by now. It returns nil where it could not, with an outcome that says why.
func (c *Controller) scale(
	ctx context.Context, key cache.ObjectName, foo *v1alpha1.Foo, deployment *appsv1.Deployment,
) (*appsv1.Deployment, outcome) {
	was := replicasOf(deployment)
	if foo.Spec.Replicas == nil || *foo.Spec.Replicas == was {
		return deployment, outcome{}
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
		return nil, outcome{behind: true}
	}
	if err != nil {
		o := outcome{available: deployment.Status.AvailableReplicas}
		return nil, o.failed(fmt.Errorf("scaling Deployment %q: %w", deployment.Name, err))
	}
	c.expectedDeployments.Written(key, scaled.UID, scaled.ResourceVersion)
	return scaled, outcome{events: []controller.Event{controller.Done(
		v1alpha1.EventScaled, "Scaled Deployment %q from %d to %d", scaled.Name, was, replicasOf(scaled))}}
}

// prune deletes the Deployments of the Foo's that the spec does not name any more, each only while it is the one that
// was read.
func (c *Controller) prune(ctx context.Context, foo *v1alpha1.Foo, o outcome) outcome {
	owned, err := c.deploymentIndexer.ByIndex(indexOwner, string(foo.UID))
	if err != nil {
		return o.failed(err)
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
			o.events = append(o.events, controller.Done(v1alpha1.EventDeleted,
				"Deleted Deployment %q: spec.deploymentName is %q now", deployment.Name, foo.Spec.DeploymentName))
		case apierrors.IsNotFound(err):
		case apierrors.IsConflict(err):
			o.behind = true
		default:
			errs = append(errs, fmt.Errorf("deleting Deployment %q, which spec.deploymentName does not name any more: %w",
				deployment.Name, err))
		}
	}
	if len(errs) > 0 {
		return o.failed(errors.Join(errs...))
	}
	return o
}
