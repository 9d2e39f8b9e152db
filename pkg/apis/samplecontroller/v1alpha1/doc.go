// Package v1alpha1 is version v1alpha1 of the samplecontroller.k8s.io API group: the Foo kind, whose fields are those
// of the Foo in Kubernetes' sample-controller.
//
// A field that is added here must be optional, with a default that leaves existing objects as they are.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +kubebuilder:object:generate=false
// +groupName=samplecontroller.k8s.io
package v1alpha1
