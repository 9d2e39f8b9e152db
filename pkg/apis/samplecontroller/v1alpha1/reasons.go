package v1alpha1

// Reasons of a Foo's conditions. The message beside one says what happened and what to do.
const (
	// ReasonAvailable: the Deployment is as declared, and its replicas are available.
	ReasonAvailable = "Available"
	// ReasonProgressing: the Deployment is as declared, and not all of its replicas are available yet.
	ReasonProgressing = "Progressing"
	// ReasonResourceExists: a Deployment of the declared name exists and is not this Foo's. It is left alone, and looked
	// at again. The word is that of Kubernetes' sample-controller.
	ReasonResourceExists = "ErrResourceExists"
	// ReasonTerminating: an earlier Deployment of the declared name has to go first, and is going.
	ReasonTerminating = "Terminating"
	// ReasonInvalidSpec: the spec names no Deployment that could exist.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRejected: the API server refuses the Deployment as it would have to be.
	ReasonRejected = "Rejected"
	// ReasonReconcileFailed: something else went wrong; the message says what. It is tried again.
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of a Foo's Events. A failure's Event has the condition's reason.
const (
	// EventSynced: the Deployment is as declared, and was not, or was not known to be, before. The word is that of
	// Kubernetes' sample-controller.
	EventSynced = "Synced"
	// EventCreated: the Deployment was created.
	EventCreated = "Created"
	// EventScaled: the Deployment's number of replicas was set to the declared one.
	EventScaled = "Scaled"
	// EventDeleted: a Deployment of this Foo's was deleted, because the spec names another one.
	EventDeleted = "Deleted"
)
