package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// countPause is the least time between two writes of a condition of which only the text changes. In a pool that fails
// as a whole, the number of ports in the text changes with each port. Every write to a Deployment also triggers its own
// controller.
const countPause = 5 * time.Second

// verdict is what to tell users after the writes of a plan, whose first failure is err. known is false if the caches
// did not show enough. It is also false if the API server's failure has nothing to do with the Deployment.
func (m *memory) verdict(planned verdict, err error) (say verdict, known bool) {
	say = planned
	switch {
	case say.reason != "" && !aboutPorts(say.reason):
		return say, true // the declaration is wrong, whatever the writes say
	case m.refused.err != nil && !m.creates.due.IsZero():
		say.reason = cloudteamv1.ReasonPortsFailed
		say.message = fmt.Sprintf("%d of %d ports cannot be created; the API server refuses them: %s; %s",
			m.refused.ports, say.total, m.refused.err, remedy(m.refused.err))
		return say, true
	case say.reason != "":
		return say, !errors.Is(err, controller.ErrStale)
	}
	return say, err == nil && m.creates.due.IsZero() && m.deletes.due.IsZero()
}

// remedy says what to do when the API server refuses a port.
func remedy(refused error) string {
	if apierrors.IsForbidden(refused) {
		return "check the namespace's ResourceQuota and the controller's RBAC, or lower spec.replicas"
	}
	return "correct the Pod template's annotation " + selection.Annotation
}

// aboutPorts reports whether a reason is about single ports, whose number is in the message.
func aboutPorts(reason string) bool {
	return reason == cloudteamv1.ReasonPortsFailed || reason == cloudteamv1.ReasonNamespaceNotAllowed
}

// conditionOf gives a Deployment's condition ConditionNetworksReady, nil if it has none.
func conditionOf(deployment *appsv1.Deployment) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if deployment.Status.Conditions[i].Type == cloudteamv1.ConditionNetworksReady {
			return &deployment.Status.Conditions[i]
		}
	}
	return nil
}

// complains reports whether a Deployment's condition says that something blocks it.
func complains(deployment *appsv1.Deployment) bool {
	condition := conditionOf(deployment)
	return condition != nil && condition.Status != corev1.ConditionTrue
}

// nextCondition gives the condition that a Deployment should have after a sync; nil to leave it as it is. It is not
// written until something blocks the Deployment. From then on it also says that ports are being created.
func nextCondition(deployment *appsv1.Deployment, say verdict, now time.Time) *appsv1.DeploymentCondition {
	was := conditionOf(deployment)
	next := appsv1.DeploymentCondition{
		Type: cloudteamv1.ConditionNetworksReady, Status: corev1.ConditionFalse, Reason: say.reason, Message: say.message,
	}
	switch {
	case say.reason != "":
	case !complains(deployment):
		return nil
	case !say.settled:
		next.Reason, next.Message = cloudteamv1.ReasonPortsNotReady,
			"Ports are being created. kubectl get networkports shows their progress."
	default:
		next.Status, next.Reason, next.Message = corev1.ConditionTrue, cloudteamv1.ReasonAllocated, "All ports are Ready."
		if say.total == 0 {
			next.Message = "No ports are needed."
		}
	}
	if was != nil && was.Status == next.Status && was.Reason == next.Reason && was.Message == next.Message {
		return nil
	}
	next.LastUpdateTime = metav1.NewTime(now)
	next.LastTransitionTime = next.LastUpdateTime
	if was != nil && was.Status == next.Status {
		next.LastTransitionTime = was.LastTransitionTime
	}
	return &next
}

// sameTrouble reports whether two conditions describe the same obstacle. The number of ports may differ.
func sameTrouble(was, is *appsv1.DeploymentCondition) bool {
	return was != nil && was.Status == is.Status && was.Reason == is.Reason &&
		(aboutPorts(is.Reason) || was.Message == is.Message)
}

// report writes the condition if it changed, and then sends an Event if an obstacle is new or gone. If the write fails,
// it is retried, and the Event follows then. It returns how long to wait if another write is too early.
func (c *Controller) report(
	ctx context.Context, deployment *appsv1.Deployment, say verdict, m *memory,
) (time.Duration, error) {
	now, was := time.Now(), conditionOf(deployment)
	next := nextCondition(deployment, say, now)
	if next == nil {
		return 0, nil
	}
	if wait := countPause - now.Sub(m.told); wait > 0 && sameTrouble(was, next) {
		return wait, nil
	}
	// Of any version: the Deployment's own controller often writes the rest of the status.
	written, err := consumer.WriteCondition(
		ctx, c.client.Deployments(deployment.Namespace).Patch, deployment, true, next, &c.expected)
	if err != nil {
		return 0, err
	}
	m.told = now
	about := consumer.Reference(kind, written)
	switch {
	case next.Status == corev1.ConditionTrue:
		c.recorder.Event(about, corev1.EventTypeNormal, next.Reason, next.Message)
	case next.Reason != cloudteamv1.ReasonPortsNotReady && !sameTrouble(was, next):
		c.recorder.Event(about, corev1.EventTypeWarning, next.Reason, next.Message)
	}
	return 0, nil
}
