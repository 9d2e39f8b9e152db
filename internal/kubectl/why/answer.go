package why

import (
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Object names what says something in an Answer.
type Object = ask.Object

// Link is one cause in the chain. The next link is its cause.
type Link struct {
	Object Object `json:"object"`
	// Condition is the condition that says it, such as Ready=False; empty if another part of the object does.
	Condition string `json:"condition,omitempty"`
	// Reason is the condition's, or the word for what was found.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Writer is the object by which a controller writes this one, such as the Service of a FloatingIP; nil for none. Users
	// change that one.
	Writer *Object `json:"writer,omitempty"`
	// Gate is the gate of the controller that holds back its writes, see docs/how-it-works.md; empty if none is known to.
	Gate string `json:"gate,omitempty"`
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
		Message: condition.Message, Gate: gateOf(condition)}
	return l.since(condition.LastTransitionTime)
}

// gates are the gates that Reasons stand for. The other gates are named in the message of a request that was not sent.
var gates = map[string]client.Gate{
	cloudteamv1.ReasonIdentityDisputed: client.GateDispute, cloudteamv1.ReasonRateLimited: client.GateRate,
	cloudteamv1.ReasonMarkerNotKept: client.GateMarker, cloudteamv1.ReasonQuotaExceeded: client.GateRoom,
	cloudteamv1.ReasonAddressesExhausted: client.GateRoom,
}

var notSent = regexp.MustCompile(`: not sent \(([a-z]+)\): `)

func gateOf(condition metav1.Condition) string {
	if parts := notSent.FindStringSubmatch(condition.Message); parts != nil {
		return parts[1]
	}
	return string(gates[condition.Reason])
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
