package faults

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// otherReason is nil where conditions say of an object that it is not Ready for a reason, and beside it what stands for
// that: ConditionReconciling or ConditionStalled.
func otherReason(what string, status cloudteamv1.ResourceStatus, abnormal, reason string) error {
	ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason ||
		!meta.IsStatusConditionTrue(status.Conditions, abnormal) {
		return fmt.Errorf("%s is not %s for the reason %s: %+v", what, abnormal, reason, status.Conditions)
	}
	return nil
}

// awaitReason waits until a Network is not Ready for a reason, and returns the message. Then it waits for the Event that
// tells of it.
func (w *world) awaitReason(short, abnormal, reason string) (message string) {
	w.t.Helper()
	w.await(func() error {
		object, err := w.getNetwork(w.namespace, short)
		if err == nil {
			err = otherReason("Network "+short, object.Status.ResourceStatus, abnormal, reason)
		}
		if err == nil {
			message = meta.FindStatusCondition(object.Status.Conditions, cloudteamv1.ConditionReady).Message
		}
		return err
	})
	w.awaitEvent(w.name(short), reason, message)
	return message
}

// awaitPortReason is awaitReason for a NetworkPort.
func (w *world) awaitPortReason(name, abnormal, reason string) (message string) {
	w.t.Helper()
	w.await(func() error {
		object, err := w.getPort(name)
		if err == nil {
			err = otherReason("NetworkPort "+name, object.Status.ResourceStatus, abnormal, reason)
		}
		if err == nil {
			message = meta.FindStatusCondition(object.Status.Conditions, cloudteamv1.ConditionReady).Message
		}
		return err
	})
	w.awaitEvent(name, reason, message)
	return message
}

// events are the messages of the Events about an object that have a reason.
func (w *world) events(object, reason string) []string {
	w.t.Helper()
	// Events live longer than their objects.
	all, err := w.around.Kube.CoreV1().Events(w.namespace).List(w.t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", object).String(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var messages []string
	for _, event := range all.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// awaitEvent waits until there is an Event about an object that has a reason and says something.
func (w *world) awaitEvent(object, reason, says string) {
	w.t.Helper()
	w.await(func() error {
		messages := w.events(object, reason)
		for _, message := range messages {
			if strings.Contains(message, says) {
				return nil
			}
		}
		return fmt.Errorf("no Event %s of %s says %q, only %q", reason, object, says, messages)
	})
}
