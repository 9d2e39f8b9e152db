package controller

import (
	"errors"
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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
