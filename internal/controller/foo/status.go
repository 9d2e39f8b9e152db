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

// progress is the state of a Foo whose Deployment is as declared.
func progress(deployment *appsv1.Deployment) controller.State {
	available, want := deployment.Status.AvailableReplicas, replicasOf(deployment)
	message := fmt.Sprintf("%d of %d replicas of Deployment %q are available", available, want, deployment.Name)
	if available >= want {
		return controller.Ready(v1alpha1.ReasonAvailable, message)
	}
	return controller.Reconciling(v1alpha1.ReasonProgressing, fmt.Sprintf(
		"%s; if it stays so, kubectl describe deployment %s tells why", message, deployment.Name))
}

// taken is the outcome where the declared name is that of a Deployment of somebody else's.
func taken(foo *v1alpha1.Foo, deployment *appsv1.Deployment) outcome {
	owner := metav1.GetControllerOfNoCopy(deployment)
	if owner != nil && isFoo(owner) && owner.Name == foo.Name {
		return outcome{known: true, state: controller.Reconciling(v1alpha1.ReasonTerminating, fmt.Sprintf(
			"Deployment %q belongs to an earlier Foo of this name, which is gone; it is created anew when garbage "+
				"collection has removed it", deployment.Name))}
	}
	whose := "nobody controls it"
	if owner != nil {
		whose = fmt.Sprintf("%s %q controls it", owner.Kind, owner.Name)
	}
	message := fmt.Sprintf("Deployment %q exists and is not this Foo's (%s): delete it, or write another "+
		"spec.deploymentName", deployment.Name, whose)
	return outcome{
		known: true, err: errors.New(message), state: controller.Stalled(v1alpha1.ReasonResourceExists, message),
	}
}

// failed is the outcome of an error of the API server's that has the key tried again.
func failed(err error) outcome { return outcome{}.failed(err) }

// failed fills in the state that an error leads to. Texts of errors go into conditions: every error that comes here is
// one that is the same for the same cause.
func (o outcome) failed(err error) outcome {
	o.known, o.err = true, err
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		o.state = controller.Stalled(v1alpha1.ReasonRefused, err.Error()+": change the spec; it is tried again now and then")
		return o
	}
	o.state = controller.Reconciling(v1alpha1.ReasonFailed, err.Error()+"; it is tried again")
	return o
}

// inSync reports whether a condition's reason says that the Deployment is as declared.
func inSync(reason string) bool {
	return reason == v1alpha1.ReasonAvailable || reason == v1alpha1.ReasonProgressing
}

// report sends the Events of what was done, writes the status where it changed, and tells a new failure, or the end of
// one, in an Event of its own.
func (c *Controller) report(ctx context.Context, foo *v1alpha1.Foo, o outcome) error {
	for _, e := range o.events {
		klog.FromContext(ctx).Info("Applied", "step", e.Message)
	}
	status := statusOf(foo, o)
	return controller.Report{
		Done:    o.events,
		Changed: !equality.Semantic.DeepEqual(foo.Status, status),
		Write: func(ctx context.Context) error {
			return controller.WriteStatus(ctx, c.client.Foos(foo.Namespace).Patch, kind, foo, status, &c.expected)
		},
		Turns: []controller.Event{turn(foo, o)},
	}.Send(ctx, c.recorder, foo)
}

// turn tells of a new failure, or of the end of one. It is empty where there is neither.
func turn(foo *v1alpha1.Foo, o outcome) controller.Event {
	was := meta.FindStatusCondition(foo.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case inSync(o.state.Reason):
		if was == nil || !inSync(was.Reason) {
			return controller.Done(v1alpha1.EventSynced, "Deployment %q is as declared", foo.Spec.DeploymentName)
		}
	case o.state.Reason == v1alpha1.ReasonTerminating:
	case was == nil || was.Reason != o.state.Reason || was.Message != o.state.Message:
		return controller.Event{Type: corev1.EventTypeWarning, Reason: o.state.Reason, Message: o.state.Message}
	}
	return controller.Event{}
}

// statusOf gives the Foo's status after a sync.
func statusOf(foo *v1alpha1.Foo, o outcome) v1alpha1.FooStatus {
	status := *foo.Status.DeepCopy()
	status.ObservedGeneration = foo.Generation
	status.AvailableReplicas = o.available
	status.Conditions = controller.SetState(status.Conditions, foo.Generation, o.state)
	return status
}
