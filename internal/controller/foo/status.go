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

// taken is the state if another owner has a Deployment of the declared name.
func taken(foo *v1alpha1.Foo, deployment *appsv1.Deployment) (controller.State, error) {
	owner := controller.OwnerOf(deployment, kind.GroupKind())
	if owner != nil && owner.Name == foo.Name {
		return controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"Deployment %q belongs to an earlier Foo of this name, which is gone; a new one is created when garbage "+
				"collection has removed it", deployment.Name)), nil
	}
	whose := "nobody controls it"
	if owner := metav1.GetControllerOfNoCopy(deployment); owner != nil {
		whose = fmt.Sprintf("%s %q controls it", owner.Kind, owner.Name)
	}
	message := fmt.Sprintf("Deployment %q exists and is not this Foo's (%s): delete it, or change spec.deploymentName",
		deployment.Name, whose)
	return controller.Stalled(v1alpha1.ReasonResourceExists, message), errors.New(message)
}

// failed is the state after an error of the API server. The sync is retried. The text goes into a condition, so the
// same cause MUST have the same text.
func failed(err error) controller.State {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return controller.Stalled(v1alpha1.ReasonRejected, err.Error()+": change the spec. Retrying periodically.")
	}
	return controller.Reconciling(v1alpha1.ReasonReconcileFailed, err.Error()+". Retrying with backoff.")
}

// inSync reports whether a condition's reason says that the Deployment matches the spec.
func inSync(reason string) bool {
	return reason == v1alpha1.ReasonAvailable || reason == v1alpha1.ReasonProgressing
}

// completed logs a completed action and sends its Event.
func (c *Controller) completed(ctx context.Context, foo *v1alpha1.Foo, reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	klog.FromContext(ctx).Info("Applied", "step", message)
	c.recorder.Event(foo, corev1.EventTypeNormal, reason, message)
}

// report writes the status if it changed. Then it sends an Event if a failure began or ended. deployment is nil if the
// Foo has none.
func (c *Controller) report(
	ctx context.Context, foo *v1alpha1.Foo, deployment *appsv1.Deployment, state controller.State,
) error {
	status := *foo.Status.DeepCopy()
	status.ObservedGeneration = foo.Generation
	status.AvailableReplicas = 0
	if deployment != nil {
		status.AvailableReplicas = deployment.Status.AvailableReplicas
	}
	status.Conditions = controller.SetState(status.Conditions, foo.Generation, state)
	return controller.Report{
		Changed: !equality.Semantic.DeepEqual(foo.Status, status),
		Write: func(ctx context.Context) error {
			return controller.WriteStatus(ctx, c.client.Foos(foo.Namespace).Patch, kind, foo, status, &c.expected)
		},
		Turns: []controller.Event{turn(foo, state)},
	}.Send(ctx, c.recorder, foo)
}

// turn is the Event for a failure that begins or ends, or none.
func turn(foo *v1alpha1.Foo, state controller.State) controller.Event {
	was := meta.FindStatusCondition(foo.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case inSync(state.Reason):
		if was == nil || !inSync(was.Reason) {
			return controller.Done(v1alpha1.EventSynced, "Deployment %q is as declared", foo.Spec.DeploymentName)
		}
	case state.Reason == v1alpha1.ReasonTerminating:
	case was == nil || was.Reason != state.Reason || was.Message != state.Message:
		return controller.Event{Type: corev1.EventTypeWarning, Reason: state.Reason, Message: state.Message}
	}
	return controller.Event{}
}
