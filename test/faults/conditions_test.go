package faults

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// otherReason is nil where conditions say of an object that it is not Ready for a reason, and beside it what stands for
// that: ConditionReconciling or ConditionStalled.
func otherReason(object metav1.Object, abnormal, reason string) error {
	conditions := harness.StatusOf(object).Conditions
	ready := meta.FindStatusCondition(conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason ||
		!meta.IsStatusConditionTrue(conditions, abnormal) {
		return fmt.Errorf("%s is not %s for the reason %s: %+v", object.GetName(), abnormal, reason, conditions)
	}
	return nil
}

// awaitReason waits until a Network is not Ready for a reason, and returns the message. Then it waits for the Event that
// tells of it.
func (w *world) awaitReason(short, abnormal, reason string) (message string) {
	w.t.Helper()
	return awaitsReason(w, w.api().Networks(w.namespace), w.name(short), abnormal, reason)
}

func awaitsReason[T metav1.Object](
	w *world, api harness.Getter[T], name, abnormal, reason string,
) (message string) {
	w.t.Helper()
	object := harness.Await(w.t, w, api, name, func(object T) error { return otherReason(object, abnormal, reason) })
	message = meta.FindStatusCondition(harness.StatusOf(object).Conditions, cloudteamv1.ConditionReady).Message
	w.awaitEvent(name, reason, message)
	return message
}

// awaitPortReason is awaitReason for a NetworkPort.
func (w *world) awaitPortReason(name, abnormal, reason string) {
	w.t.Helper()
	awaitsReason(w, w.portClient(), name, abnormal, reason)
}

// events are the messages of the Events about an object that have a reason.
func (w *world) events(object, reason string) []string {
	w.t.Helper()
	// Events live longer than their objects.
	all, err := w.around.Kube.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", object).String(),
	})
	expect.NoError(w.t, err)
	var messages []string
	for _, event := range all.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// awaitEvent is harness.AwaitEvent.
func (w *world) awaitEvent(object, reason, says string) {
	w.t.Helper()
	harness.AwaitEvent(w.t, w, w.around.Kube, w.namespace, object, reason, says)
}
