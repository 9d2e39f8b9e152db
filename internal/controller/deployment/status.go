package deployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// countPause is the least time between two writes of a condition of which no more than the text has changed. In a pool
// that fails as a whole the number of ports in the text moves with each of them, and every write to a Deployment has
// its own controller look at it, too.
const countPause = 5 * time.Second

// verdict is what to tell users after the writes of a plan. known is false where the caches did not show enough, or
// where the API server failed in a way that tells nothing about the Deployment.
func (o outcome) verdict(planned verdict) (say verdict, known bool) {
	say = planned
	switch {
	case say.reason != "" && !aboutPorts(say.reason):
		return say, true // what is declared is wrong, whatever the writes say
	case o.refused != nil:
		say.reason = cloudteamv1.ReasonPortsFailing
		say.message = fmt.Sprintf("%d of %d ports cannot be made: the API server refuses them: %s: %s",
			o.uncreated, say.total, o.refused, remedy(o.refused))
		return say, true
	}
	return say, !o.behind && (len(o.errs) == 0 || say.reason != "")
}

// remedy is what to do about an answer by which the API server refuses a port.
func remedy(refused error) string {
	if apierrors.IsForbidden(refused) {
		return "look at the namespace's ResourceQuota and at the controller's rights, or lower spec.replicas"
	}
	return "correct the Pod template's annotation " + selection.Annotation
}

// aboutPorts reports whether a reason is one of single ports, whose number is in the message.
func aboutPorts(reason string) bool {
	return reason == cloudteamv1.ReasonPortsFailing || reason == cloudteamv1.ReasonNotAllowed
}

// conditionOf gives a Deployment's condition ConditionNetworksReady, nil where it has none.
func conditionOf(deployment *appsv1.Deployment) *appsv1.DeploymentCondition {
	for i := range deployment.Status.Conditions {
		if deployment.Status.Conditions[i].Type == cloudteamv1.ConditionNetworksReady {
			return &deployment.Status.Conditions[i]
		}
	}
	return nil
}

// complains reports whether a Deployment's condition says that something stands in the way.
func complains(deployment *appsv1.Deployment) bool {
	condition := conditionOf(deployment)
	return condition != nil && condition.Status != corev1.ConditionTrue
}

// nextCondition gives the condition that a Deployment should have after a sync; nil where it should be left as it is.
// It is not written before something stands in the way. Once it was, it says so while ports are still being made.
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
		next.Reason, next.Message = cloudteamv1.ReasonWaitingForPorts,
			"ports are being made; kubectl get networkports tells how far they are"
	default:
		next.Status, next.Reason, next.Message = corev1.ConditionTrue, cloudteamv1.ReasonAllocated, "all ports are there"
		if say.total == 0 {
			next.Message = "no ports are wanted"
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

// sameTrouble reports whether a condition tells of what was told already, with another number of ports at most.
func sameTrouble(was, is *appsv1.DeploymentCondition) bool {
	return was != nil && was.Status == is.Status && was.Reason == is.Reason &&
		(aboutPorts(is.Reason) || was.Message == is.Message)
}

// report writes the condition where it changed, and sends an Event of a new trouble, or of the end of one, once the
// condition says so, too: a condition that could not be written is tried again, and its Event comes then. It returns
// after what time to try again where it was too early.
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
	// No resourceVersion: the rest of the status is the Deployment's own controller's, and moves all the time.
	written, moved, err := consumer.WriteCondition(
		ctx, c.deploymentClient.Deployments(deployment.Namespace).Patch, deployment, "", next, &c.expected)
	if err != nil || moved {
		return 0, err
	}
	m.told = now
	about := consumer.Reference(kind, written)
	switch {
	case next.Status == corev1.ConditionTrue:
		c.recorder.Event(about, corev1.EventTypeNormal, next.Reason, next.Message)
	case next.Reason != cloudteamv1.ReasonWaitingForPorts && !sameTrouble(was, next):
		c.recorder.Event(about, corev1.EventTypeWarning, next.Reason, next.Message)
	}
	return 0, nil
}
