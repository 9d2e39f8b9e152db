package client

import "errors"

// Gate is what holds back, in this process, a request that the cloud would otherwise get.
type Gate string

// The gates of a write. Each refuses with an [Error] that names it.
const (
	// GateDispute is closed while another cluster with this cluster's UID may act in the project.
	GateDispute Gate = "dispute"
	// GateKeeper is closed if what a step is taken for is gone.
	GateKeeper Gate = "keeper"
	// GateRate is closed while the cloud's rate limit lasts.
	GateRate Gate = "rate"
	// GateMarker is closed while the cloud does not keep ownership markers.
	GateMarker Gate = "marker"
	// GateRoom is closed while a quota or a subnet is full, except for one create at a time that tries.
	GateRoom Gate = "room"
	// GatePermit is closed unless this process leads and may still act on the object. It is asked again right before the
	// request is sent.
	GatePermit Gate = "permit"
	// GateOutage is closed while the cloud does not answer, except for one probe at a time.
	GateOutage Gate = "outage"
	// GateIdentity is closed if the credentials are for another project than the one that was planned for.
	GateIdentity Gate = "identity"
)

// Gates are the gates of a write, in the order in which it passes them. Reads pass the last two.
var Gates = []Gate{
	GateDispute, GateKeeper, GateRate, GateMarker, GateRoom, GatePermit, GateOutage, GateIdentity,
}

const (
	// gateConfinement is closed for addresses to which a user's credentials may not be sent.
	gateConfinement Gate = "confinement"
	// GateTurn is closed for a read that waits longer than others for an answer on behalf of all.
	GateTurn Gate = "turn"
)

// HeldBack returns the error of a request that a gate held back for now.
func HeldBack(by Gate, op, reason string) *Error {
	return &Error{Kind: Transient, Op: op, Gate: by, Reason: notSent(by, reason)}
}

// notSent is the Reason of a request that a gate held back. `kubectl network why` reads the gate in it.
func notSent(by Gate, reason string) string {
	return OneLine("not sent (" + string(by) + "): " + reason)
}

// GateOf returns the gate that held back the request of an error; empty if none did.
func GateOf(err error) Gate {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal.Gate
	}
	return ""
}
