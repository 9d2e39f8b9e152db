package v1alpha1

// Reasons of a Foo's conditions. The condition's message gives the cause and the remedy.
const (
	// ReasonAvailable: the Deployment matches the spec, and its replicas are available.
	ReasonAvailable = "Available"
	// ReasonProgressing: the Deployment matches the spec, but not all of its replicas are available yet.
	ReasonProgressing = "Progressing"
	// ReasonResourceExists: a Deployment of the declared name exists and belongs to somebody else. It is not changed.
	// Retried. The word is that of Kubernetes' sample-controller.
	ReasonResourceExists = "ErrResourceExists"
	// ReasonTerminating: an earlier Deployment of the declared name is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonInvalidSpec: no Deployment can match the spec.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRejected: the API server rejects the Deployment.
	ReasonRejected = "Rejected"
	// ReasonReconcileFailed: another error; the message gives the cause. Retried with backoff.
	ReasonReconcileFailed = "ReconcileFailed"
)

// Reasons of a Foo's Events. The Event of a failure has the condition's reason.
const (
	// EventSynced: the Deployment matches the spec now. The word is that of Kubernetes' sample-controller.
	EventSynced = "Synced"
	// EventCreated: the Deployment was created.
	EventCreated = "Created"
	// EventScaled: the Deployment's replicas were set to the declared number.
	EventScaled = "Scaled"
	// EventDeleted: a Deployment of this Foo was deleted, because the spec names another one.
	EventDeleted = "Deleted"
)
