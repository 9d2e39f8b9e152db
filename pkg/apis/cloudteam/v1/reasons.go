package v1

// Reasons of the conditions of Networks and NetworkPorts, and of ConditionNetworksReady. The message beside one says what happened and what to do.
const (
	// ReasonAvailable: what is in Neutron is as declared.
	ReasonAvailable = "Available"
	// ReasonDriftDetected: somebody changed the network in Neutron, and driftPolicy Report leaves it. Ready stays True
	// while the network and its declared subnets exist.
	ReasonDriftDetected = "DriftDetected"
	// ReasonPaused: AnnotationPaused stands. Ready stays True where all was as declared before.
	ReasonPaused = "Paused"
	// ReasonObserved: managementPolicy is Observe, and the network is as the spec says.
	ReasonObserved = "Observed"
	// ReasonImportNotFound: there is no network of the id to import. It is looked for again.
	ReasonImportNotFound = "ImportNotFound"
	// ReasonImportMismatch: the network to import is not as the spec says; the message lists how.
	ReasonImportMismatch = "ImportMismatch"
	// ReasonAlreadyOwned: the network to import, or a subnet of it, bears another owner's marker.
	ReasonAlreadyOwned = "AlreadyOwned"
	// ReasonProjectMismatch: the network to import is of another project, where nothing is changed from here.
	ReasonProjectMismatch = "ProjectMismatch"
	// ReasonInvalidSpec: the spec cannot be applied to any cloud.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRejected: this cloud refuses the spec; the message is Neutron's.
	ReasonRejected = "Rejected"
	// ReasonForbidden: the cloud's policy does not let these credentials do it; the message names the fields of the spec
	// that take other credentials.
	ReasonForbidden = "Forbidden"
	// ReasonQuotaExceeded: the cloud has no room. It is tried again.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonCloudUnavailable: the cloud does not answer, or answers with an error of its own. It is tried again.
	ReasonCloudUnavailable = "CloudUnavailable"
	// ReasonRateLimited: the cloud asked to wait.
	ReasonRateLimited = "RateLimited"
	// ReasonCredentialsRejected: the cloud refuses the credentials.
	ReasonCredentialsRejected = "CredentialsRejected"
	// ReasonCredentialsUnavailable: the Secret that spec.cloud names is not there, may not be read, or holds nothing that can
	// be used. It is looked at again when the Secret changes.
	ReasonCredentialsUnavailable = "CredentialsUnavailable"
	// ReasonCloudMismatch: the credentials lead to another cloud or project than the one that holds the network.
	ReasonCloudMismatch = "CloudMismatch"
	// ReasonConflict: somebody else changes the network at the same time. It is tried again.
	ReasonConflict = "Conflict"
	// ReasonInUse: something still uses the network or a part of it. It is tried again.
	ReasonInUse = "InUse"
	// ReasonBlocked: a resource that is not ours stands in the way; the message names it.
	ReasonBlocked = "Blocked"
	// ReasonOwnershipLost: the network exists and no longer bears the ownership marker in its description.
	ReasonOwnershipLost = "OwnershipLost"
	// ReasonNotConverged: Neutron accepted a change and does not show it.
	ReasonNotConverged = "NotConverged"
	// ReasonNetworkNotReady: the Network that a port is on does not exist, or is not Ready.
	ReasonNetworkNotReady = "NetworkNotReady"
	// ReasonNamespaceNotAllowed: the Network is of another namespace and does not allow this one.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonAddressesExhausted: the network has no free address left, or a subnet pool no range. It is tried again.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonAddressesLow, of ConditionAddressesLow: fewer addresses of a subnet are free than should be; the message says
	// how many are in use. The Event has it, too.
	ReasonAddressesLow = "AddressesLow"
	// ReasonAddressInUse: an address or MAC that is asked for is another port's. It is tried again.
	ReasonAddressInUse = "AddressInUse"
	// ReasonReconcileFailed: something else went wrong; the message says what. It is tried again.
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of ConditionNetworksReady, on Pods and Deployments, beside those above.
const (
	// ReasonInvalidNetworks: the annotation that declares networks cannot be read, or asks for what cannot be.
	ReasonInvalidNetworks = "InvalidNetworks"
	// ReasonNetworkNotFound: there is neither a Network nor a NetworkAttachmentDefinition of a declared name.
	ReasonNetworkNotFound = "NetworkNotFound"
	// ReasonPortsNotReady: ports are being made.
	ReasonPortsNotReady = "PortsNotReady"
	// ReasonPortsFailed: some ports cannot be made; the message names the first and says why.
	ReasonPortsFailed = "PortsFailed"
	// ReasonSchedulingGateMissing: the Pod was scheduled before its ports were there, so that its containers may lack them.
	ReasonSchedulingGateMissing = "SchedulingGateMissing"
	// ReasonAllocated: all ports are there.
	ReasonAllocated = "Allocated"
)

// Reasons of the Events of Networks and NetworkPorts, and on Pods and Deployments. A failure's Event has the condition's reason.
const (
	// EventCreated: the network or port was created in Neutron.
	EventCreated = "Created"
	// EventUpdated: a change of the spec was carried to Neutron.
	EventUpdated = "Updated"
	// EventDriftCorrected: a change that somebody made in Neutron was put back.
	EventDriftCorrected = "DriftCorrected"
	// EventDriftDetected: a change that somebody made in Neutron was found and left.
	EventDriftDetected = "DriftDetected"
	// EventDeleted: the network or port was deleted in Neutron.
	EventDeleted = "Deleted"
	// EventAdopted: a network that was there already was taken over.
	EventAdopted = "Adopted"
	// EventRetained: the network was left in Neutron, without the marker.
	EventRetained = "Retained"
)

// Reasons of the Events of Networks that are about their NetworkAttachmentDefinitions.
const (
	// EventAttachmentCreated: the NetworkAttachmentDefinition was created.
	EventAttachmentCreated = "AttachmentCreated"
	// EventAttachmentUpdated: the NetworkAttachmentDefinition was brought to what the Network declares.
	EventAttachmentUpdated = "AttachmentUpdated"
	// EventAttachmentExists: there is a NetworkAttachmentDefinition of the Network's name that is not the Network's.
	EventAttachmentExists = "AttachmentExists"
	// EventAttachmentFailed: the NetworkAttachmentDefinition cannot be written. It is tried again.
	EventAttachmentFailed = "AttachmentFailed"
)
