package controller

import (
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
