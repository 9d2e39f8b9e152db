// Package v1 is version v1 of the cloudteam.ztgame.com API group. Each kind has a file, and a place in addKnownTypes.
//
// A field that is added here must be optional, with a default that leaves existing objects as they are.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +kubebuilder:object:generate=false
// +groupName=cloudteam.ztgame.com
package v1
