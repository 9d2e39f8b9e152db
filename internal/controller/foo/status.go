package foo

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// progress is the state of a Foo whose Deployment matches the spec. It shows the progress of the rollout.
func progress(deployment *appsv1.Deployment) controller.State {
	available, want := deployment.Status.AvailableReplicas, replicasOf(deployment)
	message := fmt.Sprintf("%d of %d replicas of Deployment %q are available", available, want, deployment.Name)
	if available >= want {
		return controller.Ready(v1alpha1.ReasonAvailable, message)
	}
	return controller.Reconciling(v1alpha1.ReasonProgressing, fmt.Sprintf(
		"%s; kubectl describe deployment %s shows why", message, deployment.Name))
}

// taken is the result if another owner has a Deployment of the declared name.
func taken(foo *v1alpha1.Foo, deployment *appsv1.Deployment) syncResult {
	owner := metav1.GetControllerOfNoCopy(deployment)
	if owner != nil && isFoo(owner) && owner.Name == foo.Name {
		return syncResult{known: true, state: controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"Deployment %q belongs to an earlier Foo of this name, which is gone; a new one is created when garbage "+
				"collection has removed it", deployment.Name))}
	}
	whose := "nobody controls it"
	if owner != nil {
		whose = fmt.Sprintf("%s %q controls it", owner.Kind, owner.Name)
	}
	message := fmt.Sprintf("Deployment %q exists and is not this Foo's (%s): delete it, or change spec.deploymentName",
		deployment.Name, whose)
	return syncResult{
		known: true, err: errors.New(message), state: controller.Stalled(v1alpha1.ReasonResourceExists, message),
	}
}

// failed is the result of an error of the API server. The sync is retried.
func failed(err error) syncResult { return syncResult{}.failed(err) }

// failed sets the state for an error. The text goes into a condition, so the same cause MUST have the same text.
func (r syncResult) failed(err error) syncResult {
	r.known, r.err = true, err
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		r.state = controller.Stalled(v1alpha1.ReasonRefused, err.Error()+": change the spec. Retrying periodically.")
		return r
	}
	r.state = controller.Reconciling(v1alpha1.ReasonFailed, err.Error()+". Retrying with backoff.")
	return r
}

// inSync reports whether a condition's reason says that the Deployment matches the spec.
func inSync(reason string) bool {
	return reason == v1alpha1.ReasonAvailable || reason == v1alpha1.ReasonProgressing
}

// report sends the Events of completed actions and writes the status if it changed. It sends an Event when a failure
// begins or ends.
func (c *Controller) report(ctx context.Context, foo *v1alpha1.Foo, r syncResult) error {
	for _, e := range r.events {
		klog.FromContext(ctx).Info("Applied", "step", e.Message)
	}
	status := statusOf(foo, r)
	return controller.Report{
		Done:    r.events,
		Changed: !equality.Semantic.DeepEqual(foo.Status, status),
		Write: func(ctx context.Context) error {
			return controller.WriteStatus(ctx, c.client.Foos(foo.Namespace).Patch, kind, foo, status, &c.expected)
		},
		Turns: []controller.Event{turn(foo, r)},
	}.Send(ctx, c.recorder, foo)
}

// turn is the Event for a failure that begins or ends, or none.
func turn(foo *v1alpha1.Foo, r syncResult) controller.Event {
	was := meta.FindStatusCondition(foo.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case inSync(r.state.Reason):
		if was == nil || !inSync(was.Reason) {
			return controller.Done(v1alpha1.EventSynced, "Deployment %q is as declared", foo.Spec.DeploymentName)
		}
	case r.state.Reason == v1alpha1.ReasonTerminating:
	case was == nil || was.Reason != r.state.Reason || was.Message != r.state.Message:
		return controller.Event{Type: corev1.EventTypeWarning, Reason: r.state.Reason, Message: r.state.Message}
	}
	return controller.Event{}
}

// statusOf is the Foo's status after a sync.
func statusOf(foo *v1alpha1.Foo, r syncResult) v1alpha1.FooStatus {
	status := *foo.Status.DeepCopy()
	status.ObservedGeneration = foo.Generation
	status.AvailableReplicas = r.available
	status.Conditions = controller.SetState(status.Conditions, foo.Generation, r.state)
	return status
}
