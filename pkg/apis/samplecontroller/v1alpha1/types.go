package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The comments that kubectl explain prints are narrower than the others: it keeps their line breaks, in 76 columns.

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=foos
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, the API of an example that lives outside of Kubernetes"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentName`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`has(self.spec)`,fieldPath=`.spec`,reason=FieldValueRequired,message=`a Foo needs a spec: write spec.deploymentName, such as "example-foo"`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name.size() <= 63`,messageExpression=`'metadata.name: %s characters are too many for the label "controller" that the Deployment gets: write at most 63'.format([string(self.metadata.name.size())])`

// Foo owns one Deployment: the controller creates it, brings its number of
// replicas back to the declared one, and shows how many are available. The
// Deployment goes with this object.
type Foo struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the Deployment as it should be. spec.deploymentName must be set.
	// +optional
	Spec FooSpec `json:"spec,omitempty"`

	// status is the Deployment as it was last seen. Only the controller writes it.
	// +optional
	Status FooStatus `json:"status,omitempty"`
}

// +kubebuilder:validation:XValidation:rule=`has(self.deploymentName) && self.deploymentName != ''`,fieldPath=`.deploymentName`,reason=FieldValueRequired,message=`a Foo needs the name of its Deployment: write one, such as "example-foo"`

// FooSpec declares a Deployment.
type FooSpec struct {
	// deploymentName is the name of the Deployment, in the Foo's own namespace. It
	// must be set. A Deployment of that name that is not this Foo's is left alone,
	// and the Foo waits until it is gone. The name can change later: the
	// Deployment of the new name is created, and then the one of the old name is
	// deleted.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self == '' || !format.dns1123Subdomain().validate(self).hasValue()`,message=`no Deployment can have this name: write at most 253 lower-case letters, digits, "-" and ".", each part between dots beginning and ending with a letter or digit, such as "example-foo"`
	DeploymentName string `json:"deploymentName,omitempty"`

	// replicas is how many Pods the Deployment should have, 1 to 10. A Deployment
	// that is scaled by hand is scaled back. Leave it out to leave the number to
	// others, such as a HorizontalPodAutoscaler; a new Deployment then begins with
	// 1. It can change later.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 10`,messageExpression=`'%d replicas are not possible: write a number from 1 to 10, or leave it out to let others scale the Deployment'.format([self])`
	Replicas *int32 `json:"replicas,omitempty"`
}

// FooStatus is the Deployment as it was last seen.
type FooStatus struct {
	// availableReplicas is how many Pods are available of the Deployment that
	// spec.deploymentName names; 0 while this Foo has none of that name.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// observedGeneration is the metadata.generation of the spec that the rest of
	// the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions follow kstatus: Ready is always present, and is True when the
	// Deployment is as declared and its replicas are available. Reconciling is
	// present while that is being worked on or waited for, Stalled while somebody
	// has to act. The message says what to do.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Types of conditions, after kstatus (sigs.k8s.io/cli-utils/pkg/kstatus). Ready is always present; the others are present, as
// True, only while they hold.
const (
	// ConditionReady is True when the Deployment is as declared and its replicas are available.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec, waits for replicas, or waits to try
	// again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the controller cannot go on until somebody acts.
	ConditionStalled = "Stalled"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// FooList is a list of Foos.
type FooList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Foos.
	Items []Foo `json:"items"`
}
