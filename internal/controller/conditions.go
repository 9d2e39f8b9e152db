package controller

import (
	"errors"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// State is the content of an object's conditions. Make one with Ready, Reconciling or Stalled.
type State struct {
	// Ready is the status of the condition Ready.
	Ready metav1.ConditionStatus
	// Abnormal is the second condition, ConditionReconciling or ConditionStalled, or empty.
	Abnormal string
	// Reason is a constant word. Message says what happened and what to do.
	Reason, Message string
}

// Ready is the state of an object whose observed state matches its spec.
func Ready(reason, message string) State {
	return State{metav1.ConditionTrue, "", reason, message}
}

// Reconciling is the state of an object that is in progress or waits for a retry.
func Reconciling(reason, message string) State {
	return State{metav1.ConditionFalse, cloudteamv1.ConditionReconciling, reason, message}
}

// Stalled is the state of an object that needs an action by a user.
func Stalled(reason, message string) State {
	return State{metav1.ConditionFalse, cloudteamv1.ConditionStalled, reason, message}
}

// SetState returns a copy of conditions with the state for the given generation of the spec. Other conditions do not
// change. It follows kstatus: Ready is always present; Reconciling and Stalled are present only while they are true. A
// condition's lastTransitionTime changes only with its status.
func SetState(conditions []metav1.Condition, generation int64, s State) []metav1.Condition {
	set := slices.Clone(conditions)
	for _, abnormal := range []string{cloudteamv1.ConditionReconciling, cloudteamv1.ConditionStalled} {
		if abnormal != s.Abnormal && meta.FindStatusCondition(set, abnormal) != nil {
			meta.RemoveStatusCondition(&set, abnormal)
		}
	}
	meta.SetStatusCondition(&set, metav1.Condition{
		Type: cloudteamv1.ConditionReady, Status: s.Ready, ObservedGeneration: generation,
		Reason: s.Reason, Message: s.Message,
	})
	if s.Abnormal != "" {
		meta.SetStatusCondition(&set, metav1.Condition{
			Type: s.Abnormal, Status: metav1.ConditionTrue, ObservedGeneration: generation,
			Reason: s.Reason, Message: s.Message,
		})
	}
	return set
}

// RequestID returns the cloud's id of the request that failed with err; empty if there is none. An error of the cloud
// has the method RequestID.
func RequestID(err error) string {
	var refused interface{ RequestID() string }
	if errors.As(err, &refused) {
		return refused.RequestID()
	}
	return ""
}

// mentioned matches what Mention adds.
var mentioned = regexp.MustCompile(` \(Neutron's request: req-[0-9a-f-]{36}\)$`)

// WithoutRequest returns a message without what Mention added.
func WithoutRequest(message string) string { return mentioned.ReplaceAllString(message, "") }

// Mention adds the id of the request that failed to the state of an object. Each attempt has another id. So as long as
// the state is that of the object's condition Ready, the condition's id stays: the id of the first failure.
func (s State) Mention(err error, conditions []metav1.Condition) State {
	told := meta.FindStatusCondition(conditions, cloudteamv1.ConditionReady)
	if told != nil && told.Reason == s.Reason && WithoutRequest(told.Message) == s.Message {
		s.Message = told.Message
	} else if id := RequestID(err); id != "" {
		s.Message += " (Neutron's request: " + id + ")"
	}
	return s
}
