package v1

// Reasons of the conditions of Networks and NetworkPorts, and of ConditionNetworksReady. The condition's message gives
// the cause and the remedy. With "retried", the controller retries with backoff.
const (
	// ReasonAvailable: Neutron matches the spec.
	ReasonAvailable = "Available"
	// ReasonDriftDetected: somebody changed the network in Neutron, and driftPolicy Report leaves the change. Ready stays
	// True while the network and its declared subnets exist.
	ReasonDriftDetected = "DriftDetected"
	// ReasonPaused: the object has AnnotationPaused, or managementPolicy Plan of an earlier version. Ready stays True if
	// Neutron matched the spec before.
	ReasonPaused = "Paused"
	// ReasonPlanned: the controller writes nothing to Neutron (--report-only). The message lists what it would do. Ready is
	// True if that is nothing.
	ReasonPlanned = "Planned"
	// ReasonObserved: managementPolicy is Observe, and the network matches the spec.
	ReasonObserved = "Observed"
	// ReasonImportNotFound: what is to be imported does not exist. Retried.
	ReasonImportNotFound = "ImportNotFound"
	// ReasonImportAmbiguous: more than one resource fits the filter of the import. The message has at most ten ids. Retried.
	ReasonImportAmbiguous = "ImportAmbiguous"
	// ReasonImportMismatch: the network to import differs from the spec. The message lists the differences.
	ReasonImportMismatch = "ImportMismatch"
	// ReasonAlreadyOwned: the network to import, or one of its subnets, has another owner's marker.
	ReasonAlreadyOwned = "AlreadyOwned"
	// ReasonProjectMismatch: the network to import belongs to another project than the credentials.
	ReasonProjectMismatch = "ProjectMismatch"
	// ReasonInvalidSpec: no cloud can apply the spec.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRejected: this cloud rejects the spec. The message is Neutron's.
	ReasonRejected = "Rejected"
	// ReasonForbidden: the cloud's policy denies the request to these credentials. The message names the fields of the spec
	// that need other credentials.
	ReasonForbidden = "Forbidden"
	// ReasonQuotaExceeded: the project's quota is full. Retried.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonCloudUnavailable: the cloud does not answer, or answers with a server error. Retried.
	ReasonCloudUnavailable = "CloudUnavailable"
	// ReasonPending: the requests to Neutron wait for their turn, or for an answer.
	ReasonPending = "Pending"
	// ReasonRateLimited: the cloud limits the rate of requests. Retried when the cloud allows it.
	ReasonRateLimited = "RateLimited"
	// ReasonCredentialsRejected: the cloud rejects the credentials.
	ReasonCredentialsRejected = "CredentialsRejected"
	// ReasonCredentialsUnavailable: the Secret of spec.cloud does not exist, is not readable, or has no usable credentials.
	// Retried when the Secret changes.
	ReasonCredentialsUnavailable = "CredentialsUnavailable"
	// ReasonCloudMismatch: the credentials are for another cloud or project than the one of the network.
	ReasonCloudMismatch = "CloudMismatch"
	// ReasonIdentityDisputed: another controller acts for a cluster with the same UID, such as a restored copy. Nothing is
	// changed or removed before one of the two stops.
	ReasonIdentityDisputed = "IdentityDisputed"
	// ReasonForbiddenByClass: the Network's NetworkClass forbids a field or a range of the spec, or the namespace. It is also
	// the reason of ConditionClassViolated.
	ReasonForbiddenByClass = "ForbiddenByClass"
	// ReasonClassNotFound: the NetworkClass does not exist, or there are classes, but no default one.
	ReasonClassNotFound = "ClassNotFound"
	// ReasonClassLimitReached: there are as many Networks or ports as the NetworkClass allows.
	ReasonClassLimitReached = "ClassLimitReached"
	// ReasonConflict: somebody else changes the network at the same time. Retried.
	ReasonConflict = "Conflict"
	// ReasonInUse: something still uses the network or a part of it. Retried.
	ReasonInUse = "InUse"
	// ReasonBlocked: a resource without our marker prevents the change. The message names it.
	ReasonBlocked = "Blocked"
	// ReasonOwnershipLost: the network exists, but its description no longer has the ownership marker.
	ReasonOwnershipLost = "OwnershipLost"
	// ReasonMarkerNotKept: the cloud does not keep the ownership marker of what is created. That was deleted.
	ReasonMarkerNotKept = "MarkerNotKept"
	// ReasonNotConverged: Neutron accepted a change but does not show it.
	ReasonNotConverged = "NotConverged"
	// ReasonNetworkNotReady: the port's Network does not exist, or is not Ready.
	ReasonNetworkNotReady = "NetworkNotReady"
	// ReasonSecurityGroupNotReady: a SecurityGroup that the object names does not exist, or has no group in Neutron yet.
	ReasonSecurityGroupNotReady = "SecurityGroupNotReady"
	// ReasonPortNotReady: the NetworkPort that a FloatingIP names does not exist, or has no port in Neutron yet.
	ReasonPortNotReady = "PortNotReady"
	// ReasonNamespaceNotAllowed: the Network is in another namespace, and does not exist or does not allow this one.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonAddressesExhausted: the network has no free address, or the subnet pool no free range. Retried.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonAddressesLow, of ConditionAddressesLow and its Event: few addresses of a subnet are free. The message says how
	// many are in use.
	ReasonAddressesLow = "AddressesLow"
	// ReasonAddressInUse: another port has a declared address or MAC. Retried.
	ReasonAddressInUse = "AddressInUse"
	// ReasonReconcileFailed: another error; the message gives the cause. Retried.
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of ConditionNetworksReady, on Pods and Deployments, in addition to those above.
const (
	// ReasonInvalidNetworks: the annotation that declares networks is malformed or invalid.
	ReasonInvalidNetworks = "InvalidNetworks"
	// ReasonPortLimitReached: the Deployment may have no more ports, by its Network's class or the default.
	ReasonPortLimitReached = "PortLimitReached"
	// ReasonNetworkNotFound: neither a Network nor a NetworkAttachmentDefinition of the own namespace has a declared name.
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonPortsNotReady: ports are being created.
	ReasonPortsNotReady = "PortsNotReady"
	// ReasonPortsFailed: some ports cannot be created. The message names the first one and its cause.
	ReasonPortsFailed = "PortsFailed"
	// ReasonSchedulingGateMissing: the Pod was scheduled before its ports existed. Its containers may lack them.
	ReasonSchedulingGateMissing = "SchedulingGateMissing"
	// ReasonAllocated: all ports exist.
	ReasonAllocated = "Allocated"
)

// Reasons of the Events of Networks and NetworkPorts, and on Pods and Deployments. The Event of a failure has the
// condition's reason.
const (
	// EventCreated: the network or port was created in Neutron.
	EventCreated = "Created"
	// EventUpdated: a change of the spec was applied to Neutron.
	EventUpdated = "Updated"
	// EventDriftCorrected: a change that somebody made in Neutron was reverted.
	EventDriftCorrected = "DriftCorrected"
	// EventDriftDetected: a change that somebody made in Neutron was found and left as it is.
	EventDriftDetected = "DriftDetected"
	// EventDeleted: the network or port was deleted in Neutron.
	EventDeleted = "Deleted"
	// EventAdopted: an existing network was adopted.
	EventAdopted = "Adopted"
	// EventRetained: the network or port was left in Neutron, without the marker.
	EventRetained = "Retained"
	// EventAbandoned: the object went although its network or port may still be in Neutron. Its credentials went with their
	// namespace. It is an Event of the object's Namespace, in the namespace default.
	EventAbandoned = "Abandoned"
)

// Reasons of the Events of Services with AnnotationFloatingIP.
const (
	// EventFloatingIPAssociated: the Service's floating IP is associated with the port of a Pod. The message names the address and the Pod.
	EventFloatingIPAssociated = "FloatingIPAssociated"
	// EventFloatingIPFailed: the Service's floating IP is associated with no Pod. The message gives the cause and the remedy.
	EventFloatingIPFailed = "FloatingIPFailed"
)

// EventEndpointsFailed is the reason of the Event of a Service with AnnotationEndpointsNetwork that has no endpoints by it,
// or not all. The message gives the cause and the remedy.
const EventEndpointsFailed = "EndpointsFailed"

// EventPolicyIncomplete is the reason of the Event of a MultiNetworkPolicy of which a part is not applied.
const EventPolicyIncomplete = "PolicyIncomplete"

// Reasons of the Events of Networks about their NetworkAttachmentDefinitions.
const (
	// EventAttachmentCreated: the NetworkAttachmentDefinition was created.
	EventAttachmentCreated = "AttachmentCreated"
	// EventAttachmentUpdated: the NetworkAttachmentDefinition was updated to match the Network.
	EventAttachmentUpdated = "AttachmentUpdated"
	// EventAttachmentExists: a NetworkAttachmentDefinition of the Network's name exists and does not belong to the Network.
	EventAttachmentExists = "AttachmentExists"
	// EventAttachmentFailed: the NetworkAttachmentDefinition cannot be written. Retried.
	EventAttachmentFailed = "AttachmentFailed"
)
