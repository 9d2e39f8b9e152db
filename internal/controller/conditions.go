package controller

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// State is what an object's conditions say. Make one with Ready, Reconciling or Stalled.
type State struct {
	// Ready is the condition Ready.
	Ready metav1.ConditionStatus
	// Abnormal is the condition that stands beside it, ConditionReconciling or ConditionStalled, or empty.
	Abnormal string
	// Reason is a fixed word; Message says what happened and what to do.
	Reason, Message string
}

// Ready is the state of an object that is as declared.
func Ready(reason, message string) State {
	return State{metav1.ConditionTrue, "", reason, message}
}

// Reconciling is the state of an object that is being worked on, or waits for its next attempt.
func Reconciling(reason, message string) State {
	return State{metav1.ConditionFalse, cloudteamv1.ConditionReconciling, reason, message}
}

// Stalled is the state of an object that needs somebody to act.
func Stalled(reason, message string) State {
	return State{metav1.ConditionFalse, cloudteamv1.ConditionStalled, reason, message}
}

// SetState returns conditions with the state in them, for the given generation of the spec, and everything else as it
// was. It follows kstatus: Ready always stands; Reconciling and Stalled stand only while they hold. A condition's
// lastTransitionTime moves only when its status does. The argument is not written to.
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
