package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationCloud holds, from the write that adds the finalizer, the CloudStatus in JSON of the cloud in which the
// object's resources are created. It pins the object until status.cloud does.
const AnnotationCloud = "cloudteam.ztgame.com/cloud"

// AnnotationTakeBack holds a TakeBack in JSON, where there is one. Only the controller writes it.
const AnnotationTakeBack = "cloudteam.ztgame.com/take-back"

// TakeBack names the fields that an object's spec has set and that are taken back in Neutron when the spec sets them no
// longer. It is written before the first request that carries such a field, so that no crash loses it.
type TakeBack struct {
	// UID is the object's. One that was copied from another object says nothing.
	UID types.UID `json:"uid"`
	// Fields are in alphabetical order.
	Fields []string `json:"fields"`
}

// AnnotationPaused on a Network or NetworkPort, with any value but "false", has the controller change nothing for it in
// Neutron while it stands: neither create, nor correct, nor delete. An object that is deleted stays until it is taken
// off.
const AnnotationPaused = "cloudteam.ztgame.com/paused"

// Types of conditions in status.conditions. They follow kstatus: Ready always stands; the others stand, as True, only
// while they hold.
const (
	// ConditionReady is True when what is in Neutron is as the spec declares.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec, or waits to try again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the controller cannot go on until the spec, the credentials or the cloud change.
	ConditionStalled = "Stalled"
	// ConditionAddressesLow is True while few addresses of a Network's subnet are free. Nothing is wrong yet: Ready is
	// what it is.
	ConditionAddressesLow = "AddressesLow"
)

// ResourceStatus is what the statuses of all kinds have in common whose
// objects stand for resources in Neutron.
type ResourceStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// appliedGeneration is the generation of the spec that was last applied to
	// Neutron whole. A difference that appears afterwards is drift.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`

	// conditions are Ready, and while they hold Reconciling or Stalled and, of a
	// Network, AddressesLow.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// cloud is the cloud that holds the resources. Credentials that lead
	// elsewhere stall the object.
	// +optional
	Cloud *CloudStatus `json:"cloud,omitempty"`

	// drift lists where Neutron differs from the spec, under driftPolicy Report.
	// +optional
	// +listType=atomic
	Drift []Drift `json:"drift,omitempty"`
}

// CloudStatus identifies a project in a cloud.
type CloudStatus struct {
	// endpoint is the address of the Neutron API.
	Endpoint string `json:"endpoint"`
	// region is the region of the endpoint, where the cloud has regions.
	// +optional
	Region string `json:"region,omitempty"`
	// projectID is the id of the project that the resources belong to.
	ProjectID string `json:"projectID"`
}

// Drift is one difference between the spec and Neutron.
type Drift struct {
	// resource is "network", "port", "router", "subnet" and its cidr or the pool
	// that this is to come from, or "router interface" and its addresses.
	Resource string `json:"resource"`
	// field is the name of the field in the spec, or "exists" for a resource that
	// is missing or should not be there.
	Field string `json:"field"`
	// declared is the value that the spec asks for.
	// +optional
	Declared string `json:"declared,omitempty"`
	// actual is the value that Neutron has.
	// +optional
	Actual string `json:"actual,omitempty"`
}
