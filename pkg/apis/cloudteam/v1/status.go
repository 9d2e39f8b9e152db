package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationCloud holds the CloudStatus, in JSON, of the cloud in which the object's resources are created. It is written
// together with the finalizer, and pins the object until status.cloud does.
const AnnotationCloud = "cloudteam.ztgame.com/cloud"

// AnnotationTakeBack holds a TakeBack in JSON, if there is one. Only the controller writes it.
const AnnotationTakeBack = "cloudteam.ztgame.com/take-back"

// TakeBack names the fields that the spec has set, and that are taken back in Neutron when the spec no longer sets them.
// It is written before the first request with such a field, so that no crash loses it.
type TakeBack struct {
	// UID is the object's. A TakeBack with another UID, such as a copied one, has no effect.
	UID types.UID `json:"uid"`
	// Fields are in alphabetical order.
	Fields []string `json:"fields"`
}

// AnnotationPaused pauses a Network or NetworkPort, with any value but "false". The controller then changes nothing for it
// in Neutron: it neither creates, nor corrects, nor deletes. A deleted object stays until the annotation is removed.
const AnnotationPaused = "cloudteam.ztgame.com/paused"

// Types of conditions in status.conditions. They follow kstatus: Ready is always present. The others are present only
// while they are True.
const (
	// ConditionReady is True when Neutron matches the spec.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec, or waits for a retry.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when somebody must change the spec, the credentials or the cloud.
	ConditionStalled = "Stalled"
	// ConditionAddressesLow is True while few addresses of a Network's subnet are free. It does not affect Ready.
	ConditionAddressesLow = "AddressesLow"
	// ConditionPolicyIncomplete is True on the SecurityGroup of a MultiNetworkPolicy while a part of the policy is not
	// applied, because Neutron cannot say it or because it is too large. That part allows nothing. It does not affect Ready.
	ConditionPolicyIncomplete = "PolicyIncomplete"
	// ConditionClassViolated is True while a Network that was applied has something that its NetworkClass forbids now. The
	// network is kept as declared. It does not affect Ready.
	ConditionClassViolated = "ClassViolated"
)

// ResourceStatus is the common part of the statuses of objects with
// resources in Neutron.
type ResourceStatus struct {
	// observedGeneration is the generation of the object that this status
	// describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// appliedGeneration is the generation of the spec that was last applied to
	// Neutron as a whole. A later difference is drift. The deletion of the object
	// does not count as a generation.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`

	// conditions are Ready, and while they are true Reconciling or Stalled. A
	// Network also has AddressesLow and ClassViolated, and a NetworkPort Attached.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// cloud is the cloud that has the resources. With credentials for another one,
	// the object is Stalled.
	// +optional
	Cloud *CloudStatus `json:"cloud,omitempty"`

	// credentials are where the credentials for that cloud are. They are unset for
	// the controller's own cloud. The object is deleted with them, even if a class
	// that named them is gone.
	// +optional
	Credentials *CredentialsStatus `json:"credentials,omitempty"`

	// drift lists the differences between Neutron and the spec, with driftPolicy
	// Report.
	// +optional
	// +listType=atomic
	Drift []Drift `json:"drift,omitempty"`
}

// CloudStatus identifies a project in a cloud.
type CloudStatus struct {
	// endpoint is the address of the Neutron API.
	// +kubebuilder:validation:MaxLength=512
	Endpoint string `json:"endpoint"`
	// region is the region of the endpoint, if the cloud has regions.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Region string `json:"region,omitempty"`
	// projectID is the id of the project that the resources belong to.
	// +kubebuilder:validation:MaxLength=64
	ProjectID string `json:"projectID"`
}

// CredentialsStatus names the Secret with the credentials of a cloud.
type CredentialsStatus struct {
	// namespace is the Secret's namespace.
	Namespace string `json:"namespace"`
	// secretName is the Secret's name.
	SecretName string `json:"secretName"`
	// name is the entry in the Secret's clouds.yaml; empty for its only entry.
	// +optional
	Name string `json:"name,omitempty"`
}

// Drift is one difference between the spec and Neutron.
type Drift struct {
	// resource is "network", "port", "router", "subnet" and its cidr or its subnet
	// pool, or "router interface" and its addresses.
	Resource string `json:"resource"`
	// field is the name of the field in the spec, or "exists" for a resource that
	// is missing or not declared.
	Field string `json:"field"`
	// declared is the value in the spec.
	// +optional
	Declared string `json:"declared,omitempty"`
	// actual is the value in Neutron.
	// +optional
	Actual string `json:"actual,omitempty"`
}
