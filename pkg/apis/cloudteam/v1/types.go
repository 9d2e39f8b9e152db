package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=net,categories=cloudteam
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.status.subnets[0].gateway`
// +kubebuilder:printcolumn:name="Network ID",type=string,priority=1,JSONPath=`.status.networkID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// Network is a network in OpenStack Neutron, with its subnet. The controller creates it, keeps it as declared, and
// deletes it before this object goes.
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the network as it should be.
	// +optional
	Spec NetworkSpec `json:"spec,omitempty"`

	// status is the network as it was last seen. Only the controller writes it.
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkSpec declares a network.
type NetworkSpec struct {
	// The network's first subnet. Its fields stand directly in the spec.
	SubnetSpec `json:",inline"`

	// description is shown in Neutron, in front of the controller's ownership marker. At most 173 characters, so that
	// both fit in Neutron's 255.
	// +optional
	Description string `json:"description,omitempty"`

	// mtu is the network's maximum transmission unit in bytes. The cloud chooses when it is unset.
	// +optional
	MTU *int32 `json:"mtu,omitempty"`

	// portSecurity is the default for ports of this network: whether anti-spoofing rules and security groups apply.
	// The cloud chooses when it is unset.
	// +optional
	PortSecurity *bool `json:"portSecurity,omitempty"`

	// deletionPolicy says what becomes of the Neutron network when this object is deleted. Delete (the default) removes
	// it; Retain takes the ownership marker off and leaves it.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// driftPolicy says what is done when someone else changes the network in Neutron. Correct (the default) puts it
	// back; Report lists the differences in status.drift and leaves them until the spec next changes.
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`
}

// SubnetSpec declares a subnet.
type SubnetSpec struct {
	// cidr is the subnet's network address and prefix length, such as 192.168.0.0/16 or fd00:1::/64. It cannot change
	// later.
	// +optional
	CIDR string `json:"cidr,omitempty"`

	// gateway is the address of the subnet's router, or "none" for a subnet without one. The default is the first
	// address of the cidr.
	// +optional
	Gateway string `json:"gateway,omitempty"`

	// allocationPools are the ranges that Neutron gives addresses from. The default is every usable address but the
	// gateway.
	// +optional
	// +listType=atomic
	AllocationPools []AllocationPool `json:"allocationPools,omitempty"`

	// dhcp says whether Neutron serves addresses by DHCP. The default is true.
	// +optional
	DHCP *bool `json:"dhcp,omitempty"`

	// dnsServers are the addresses of name servers that DHCP hands out, in order of preference.
	// +optional
	// +listType=atomic
	DNSServers []string `json:"dnsServers,omitempty"`

	// hostRoutes are routes that DHCP hands out.
	// +optional
	// +listType=atomic
	HostRoutes []HostRoute `json:"hostRoutes,omitempty"`
}

// GatewayNone is the value of a gateway field that declares a subnet without a gateway.
const GatewayNone = "none"

// AllocationPool is a range of addresses, both ends included.
type AllocationPool struct {
	// start is the first address of the range.
	Start string `json:"start"`
	// end is the last address of the range.
	End string `json:"end"`
}

// HostRoute is a route that hosts on the subnet use.
type HostRoute struct {
	// destination is the network that the route leads to, such as 10.1.0.0/16.
	Destination string `json:"destination"`
	// nextHop is the address of the router that leads there.
	NextHop string `json:"nextHop"`
}

// DeletionPolicy says what becomes of Neutron resources when their object is deleted.
type DeletionPolicy string

const (
	// DeletionPolicyDelete removes the resources. It is the default.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain takes the ownership marker off the resources and leaves them.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// DriftPolicy says what is done about changes that others make in Neutron.
type DriftPolicy string

const (
	// DriftPolicyCorrect puts the declared state back. It is the default.
	DriftPolicyCorrect DriftPolicy = "Correct"
	// DriftPolicyReport lists the differences in status.drift and leaves them until the spec next changes.
	DriftPolicyReport DriftPolicy = "Report"
)

// Finalizer is on every Network before its first resource is created, and goes when the last one is gone.
const Finalizer = "cloudteam.ztgame.com/network"

// Types of conditions in status.conditions. They follow kstatus: Ready always stands; Reconciling and Stalled stand,
// as True, only while they hold.
const (
	// ConditionReady is True when the network in Neutron is as the spec declares.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the controller works towards the spec, or waits to try again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when the controller cannot go on until the spec, the credentials or the cloud change.
	ConditionStalled = "Stalled"
)

// NetworkStatus is a network as it was last seen.
type NetworkStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// appliedGeneration is the generation of the spec that was last applied to Neutron whole. A difference that appears
	// afterwards is drift.
	// +optional
	AppliedGeneration int64 `json:"appliedGeneration,omitempty"`

	// conditions are Ready, and Reconciling or Stalled while they hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// networkID is the network's id in Neutron.
	// +optional
	NetworkID string `json:"networkID,omitempty"`

	// mtu is the network's maximum transmission unit in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// subnets are the network's subnets in Neutron, the spec's first one first.
	// +optional
	// +listType=atomic
	Subnets []SubnetStatus `json:"subnets,omitempty"`

	// cloud is the cloud that holds the network. It is set before the first resource is created there, and
	// credentials that lead elsewhere stall the object.
	// +optional
	Cloud *CloudStatus `json:"cloud,omitempty"`

	// drift lists where Neutron differs from the spec, under driftPolicy Report.
	// +optional
	// +listType=atomic
	Drift []Drift `json:"drift,omitempty"`
}

// SubnetStatus is a subnet as it was last seen.
type SubnetStatus struct {
	// id is the subnet's id in Neutron.
	ID string `json:"id"`
	// cidr is the subnet's network address and prefix length.
	CIDR string `json:"cidr"`
	// gateway is the address of the subnet's router, or "none".
	// +optional
	Gateway string `json:"gateway,omitempty"`
	// totalAddresses counts the addresses in the allocation pools, up to 9223372036854775807. Unset where the
	// credentials may not ask for it.
	// +optional
	TotalAddresses *int64 `json:"totalAddresses,omitempty"`
	// usedAddresses counts the addresses in use. Unset where the credentials may not ask for it.
	// +optional
	UsedAddresses *int64 `json:"usedAddresses,omitempty"`
}

// CloudStatus identifies a project in a cloud.
type CloudStatus struct {
	// endpoint is the address of the Neutron API.
	Endpoint string `json:"endpoint"`
	// region is the region of the endpoint, where the cloud has regions.
	// +optional
	Region string `json:"region,omitempty"`
	// projectID is the id of the project that the network belongs to.
	ProjectID string `json:"projectID"`
}

// Drift is one difference between the spec and Neutron.
type Drift struct {
	// resource is "network", or "subnet" and its cidr.
	Resource string `json:"resource"`
	// field is the name of the field in the spec, or "exists" for a resource that is missing or should not be there.
	Field string `json:"field"`
	// declared is the value that the spec asks for.
	// +optional
	Declared string `json:"declared,omitempty"`
	// actual is the value that Neutron has.
	// +optional
	Actual string `json:"actual,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// NetworkList is a list of Networks.
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Networks.
	Items []Network `json:"items"`
}
