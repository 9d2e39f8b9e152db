package v1

// Reasons of a Network's conditions. The message beside one says what happened and what to do.
const (
	// ReasonAvailable: the network is as declared.
	ReasonAvailable = "Available"
	// ReasonDriftReported: somebody changed the network in Neutron, and driftPolicy Report leaves it. Ready stays True
	// while the network and its declared subnets exist.
	ReasonDriftReported = "DriftReported"
	// ReasonInvalidSpec: the spec cannot be applied to any cloud.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRefused: this cloud refuses the spec; the message is Neutron's.
	ReasonRefused = "Refused"
	// ReasonQuotaExceeded: the cloud has no room. It is tried again.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonCloudUnavailable: the cloud does not answer, or answers with an error of its own. It is tried again.
	ReasonCloudUnavailable = "CloudUnavailable"
	// ReasonThrottled: the cloud asked to wait.
	ReasonThrottled = "Throttled"
	// ReasonCredentialsRejected: the cloud refuses the credentials.
	ReasonCredentialsRejected = "CredentialsRejected"
	// ReasonCloudMismatch: the credentials lead to another cloud or project than the one that holds the network.
	ReasonCloudMismatch = "CloudMismatch"
	// ReasonChanging: somebody else changes the network at the same time. It is tried again.
	ReasonChanging = "Changing"
	// ReasonInUse: something still uses the network or a part of it. It is tried again.
	ReasonInUse = "InUse"
	// ReasonBlocked: a resource that is not ours stands in the way; the message names it.
	ReasonBlocked = "Blocked"
	// ReasonMarkerRemoved: the network exists and no longer bears the ownership marker in its description.
	ReasonMarkerRemoved = "MarkerRemoved"
	// ReasonNotApplied: Neutron accepted a change and does not show it.
	ReasonNotApplied = "NotApplied"
	// ReasonFailed: something else went wrong; the message says what. It is tried again.
	ReasonFailed = "Failed"
)

// Reasons of a Network's Events. A failure's Event has the condition's reason.
const (
	// EventCreated: the network was created in Neutron.
	EventCreated = "Created"
	// EventUpdated: a change of the spec was carried to Neutron.
	EventUpdated = "Updated"
	// EventDriftCorrected: a change that somebody made in Neutron was put back.
	EventDriftCorrected = "DriftCorrected"
	// EventDriftDetected: a change that somebody made in Neutron was found and left.
	EventDriftDetected = "DriftDetected"
	// EventDeleted: the network was deleted in Neutron.
	EventDeleted = "Deleted"
	// EventRetained: the network was left in Neutron, without the marker.
	EventRetained = "Retained"
)
