package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fip,categories=cloudteam
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.spec.portName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="External Network",type=string,priority=1,JSONPath=`.spec.externalNetwork`
// +kubebuilder:printcolumn:name="Floating IP ID",type=string,priority=1,JSONPath=`.status.floatingIPID`
// +kubebuilder:printcolumn:name="Class",type=string,priority=1,JSONPath=`.status.class.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`has(self.spec)`,fieldPath=`.spec`,reason=FieldValueRequired,message=`a FloatingIP needs a spec: write spec.externalNetwork`

// FloatingIP is an address of an external network in OpenStack Neutron,
// under which the world outside reaches a NetworkPort. The controller creates
// it, leads it to the port, and deletes it before this object goes. The
// address stays while ports come and go.
type FloatingIP struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. It must be set.
	// +optional
	Spec FloatingIPSpec `json:"spec,omitempty"`

	// status is the observed state. Only the controller writes it.
	// +optional
	Status FloatingIPStatus `json:"status,omitempty"`
}

// +kubebuilder:validation:XValidation:rule=`!has(self.cloud) || !has(self.className)`,fieldPath=`.className`,message=`a FloatingIP with its own cloud has no class: leave cloud or className out`
// +kubebuilder:validation:XValidation:rule=`$isManaged || has(self.__import__)`,fieldPath=`.managementPolicy`,message=`an observed floating IP must exist already: write its id in import.id, or an import.filter, or leave managementPolicy out to create one`
// +kubebuilder:validation:XValidation:rule=`$isManaged || has(oldSelf.managementPolicy) && oldSelf.managementPolicy == 'Observe'`,fieldPath=`.managementPolicy`,message=`a managed floating IP cannot become an observed one: leave managementPolicy out, or delete this FloatingIP with deletionPolicy Retain and import the floating IP in another`
// +kubebuilder:validation:XValidation:rule=`$isManaged || !has(self.portName)`,fieldPath=`.portName`,message=`an observed floating IP stays where it is: leave portName out, or managementPolicy`
// +kubebuilder:validation:XValidation:rule=`has(self.__import__) ? $isNoImport(self.__import__) || has(oldSelf.__import__) && $sameImport(self.__import__, oldSelf.__import__) : !has(oldSelf.__import__)`,fieldPath=`.import`,messageExpression=`'the import cannot change: %s, or delete this FloatingIP and create another'.format([$writeImportAgain])`
// +kubebuilder:validation:XValidation:rule=`has(self.address) ? has(oldSelf.address) && self.address == oldSelf.address : !has(oldSelf.address)`,fieldPath=`.address`,message=`the address of a floating IP cannot change: write it as it was, or create another FloatingIP`

// FloatingIPSpec declares a floating IP.
type FloatingIPSpec struct {
	// externalNetwork is the id or name of the external network of the address.
	// It must be set, and cannot change: create another FloatingIP.
	// +neutron:attribute=floatingip.floating_network_id,mutable=false,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`write the id or the name of an external network`
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf`,message=`a floating IP cannot move to another external network: create another FloatingIP`
	ExternalNetwork string `json:"externalNetwork"`

	// address is the address that the floating IP has, of IPv4, in a subnet of the
	// external network. Neutron lets administrators choose one. A member imports
	// the floating IP that has it. The default is Neutron's choice. It cannot
	// change.
	// +neutron:attribute=floatingip.floating_ip_address,mutable=false,removed=refused,privilege=admin
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule=`isIP(self) && self.contains('.')`,message=`not an address of IPv4: write one such as "203.0.113.10"`
	Address string `json:"address,omitempty"`

	// import names a floating IP that exists in Neutron, to adopt or to observe,
	// instead of creating one. Then deletionPolicy is Retain by default. The
	// default is none. It cannot change later.
	// +neutron:attribute=none,mutable=false,removed=refused,privilege=tenant
	// +optional
	Import *FloatingIPImport `json:"import,omitempty"`

	// portName is the name of the NetworkPort of this namespace that the floating
	// IP is associated with. The port needs an address of IPv4, in a subnet whose
	// router has a gateway to the external network. Its Network must be of this
	// namespace, and the Network's class must have floatingIP in allowedFields.
	// While there is no such port, the address is kept but not associated with a
	// port. The default is none. It can change later; then the address moves.
	// +neutron:attribute=floatingip.port_id,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a NetworkPort: write the name of one of this namespace, as "kubectl get networkports" shows it`
	PortName string `json:"portName,omitempty"`

	// deletionPolicy says what happens to the floating IP in Neutron when this
	// object is deleted. Delete deletes it: its address is free for others. Retain
	// removes the ownership marker and keeps the floating IP. The default is
	// Delete, or the value of the controller's flag --deletion-policy. It can
	// change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// managementPolicy says what the controller does with the floating IP in
	// Neutron. Manage creates it, keeps it as declared, and deletes it. Observe
	// only shows the one named by import in the status, and writes nothing to
	// Neutron. The default is Manage. It can change later, but not to Observe.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	ManagementPolicy ManagementPolicy `json:"managementPolicy,omitempty"`

	// cloud is the cloud of the floating IP, by credentials in a Secret of this
	// namespace. It is the same as that of the port's Network. The default is the
	// controller's own cloud. It can change later, to other credentials for the
	// same project. With credentials for another project, the FloatingIP is
	// Stalled, and nothing is created or deleted.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Cloud *CloudReference `json:"cloud,omitempty"`

	// className is the name of a NetworkClass, which says with which credentials
	// the floating IP is made. The class must have floatingIP in allowedFields. A
	// FloatingIP with cloud has no class. The default is the cluster's default
	// class, if there are classes. It can change later, to a class with
	// credentials for the same project.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a NetworkClass: write lower-case letters, digits, "-" and ".", with a letter or digit at both ends and around each ".", as "kubectl get networkclasses" shows it`
	ClassName string `json:"className,omitempty"`
}

// FloatingIPImport names a floating IP that is in Neutron already.
// +kubebuilder:validation:XValidation:rule=`has(self.id) ? !has(self.filter) : has(self.filter)`,fieldPath=`.id`,message=`write the id of the floating IP, or a filter with its tags, and not both`
type FloatingIPImport struct {
	// id is the id of the floating IP in Neutron. The default is the one that the
	// filter finds. It cannot change later.
	// +neutron:attribute=floatingip.id,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule=`$isID(self)`,message=`not the id of a floating IP: write what "openstack floating ip show -f value -c id ADDRESS" prints`
	ID string `json:"id,omitempty"`

	// filter finds the floating IP by its tags, instead of the id. Exactly one
	// without another owner's marker must fit. It is searched once: the annotation
	// cloudteam.ztgame.com/import-id then has its id. A managed import is only
	// searched in the project of the credentials. The default is none. It cannot
	// change later.
	// +neutron:attribute=none,mutable=false,removed=refused,privilege=tenant
	// +optional
	Filter *FloatingIPImportFilter `json:"filter,omitempty"`
}

// FloatingIPImportFilter says which floating IP is meant. Neutron gives it no name.
type FloatingIPImportFilter struct {
	// tags are tags that the floating IP has in Neutron, at most 4. It may have
	// more. They must be set, and cannot change later.
	// +neutron:attribute=floatingip.tags,mutable=false,privilege=tenant
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=60
	// +kubebuilder:validation:items:XValidation:rule=`self != '' && $isPrintable(self) && !self.contains(',')`,message=`not a tag to search by: write 1 to 60 printable characters without a comma`
	Tags []string `json:"tags"`
}

// Observes reports whether the FloatingIP shows a floating IP of others' and writes nothing to Neutron.
func (f *FloatingIP) Observes() bool { return f.Spec.ManagementPolicy == ManagementPolicyObserve }

// FloatingIPStatus is the observed state of a floating IP.
type FloatingIPStatus struct {
	ResourceStatus `json:",inline"`

	// floatingIPID is the floating IP's id in Neutron.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FloatingIPID string `json:"floatingIPID,omitempty"`

	// address is the address in the external network.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`

	// externalNetworkID is the id of the external network.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ExternalNetworkID string `json:"externalNetworkID,omitempty"`

	// portID is the id of the port that the floating IP is associated with.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PortID string `json:"portID,omitempty"`

	// portAddress is the address of the port that the floating IP is associated with.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PortAddress string `json:"portAddress,omitempty"`

	// class is the NetworkClass that the floating IP was made with.
	// +optional
	Class *AppliedClass `json:"class,omitempty"`
}

// FloatingIPFinalizer is on every FloatingIP before its floating IP is created, and goes when that is gone.
const FloatingIPFinalizer = "cloudteam.ztgame.com/floatingip"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// FloatingIPList is a list of FloatingIPs.
type FloatingIPList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the FloatingIPs.
	Items []FloatingIP `json:"items"`
}
