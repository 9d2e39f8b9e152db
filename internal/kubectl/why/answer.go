package why

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Link is one cause in the chain. The next link is its cause.
type Link struct {
	Object Object `json:"object"`
	// Condition is the condition that says it, such as Ready=False; empty if another part of the object does.
	Condition string `json:"condition,omitempty"`
	// Reason is the condition's, or the word for what was found.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Since is when the condition began; zero if unknown.
	Since *metav1.Time `json:"since,omitempty"`
}

// Answer says why an object is not as it should be.
type Answer struct {
	Object Object `json:"object"`
	// Healthy is true if nothing is wrong with the object's networks.
	Healthy bool `json:"healthy"`
	// Summary is the answer in one sentence.
	Summary string `json:"summary"`
	// Chain goes from the symptom to the cause. It is empty if nothing is wrong.
	Chain []Link `json:"chain,omitempty"`
	// Remedy is what to do about the last link; empty where its message says it.
	Remedy string `json:"remedy,omitempty"`
	// Commands help with the remedy, or show more.
	Commands []string `json:"commands,omitempty"`
	// Warnings are what does not matter yet, or is another problem beside the chain.
	Warnings []string `json:"warnings,omitempty"`
	// Notes say what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Cause is the last link; the zero value if nothing is wrong.
func (a Answer) Cause() Link {
	if len(a.Chain) == 0 {
		return Link{}
	}
	return a.Chain[len(a.Chain)-1]
}

// link makes a link of a condition.
func link(of Object, condition metav1.Condition) Link {
	l := Link{Object: of, Condition: condition.Type + "=" + string(condition.Status), Reason: condition.Reason,
		Message: condition.Message}
	return l.since(condition.LastTransitionTime)
}

func (l Link) since(at metav1.Time) Link {
	if !at.IsZero() {
		l.Since = &at
	}
	return l
}

// age is how long a link has been so; zero if unknown.
func (l Link) age(now time.Time) time.Duration {
	if l.Since == nil {
		return 0
	}
	return now.Sub(l.Since.Time)
}
