package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=np,categories=cloudteam
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.status.attachment.node`
// +kubebuilder:selectablefield:JSONPath=`.status.standby.node`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.networkName`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0].address`
// +kubebuilder:printcolumn:name="Bound To",type=string,JSONPath=`.status.boundTo.name`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.attachment.node`
// +kubebuilder:printcolumn:name="Dataplane",type=string,JSONPath=`.status.attachment.mode`
// +kubebuilder:printcolumn:name="Floating IP",type=string,priority=1,JSONPath=`.status.floatingIP.address`
// +kubebuilder:printcolumn:name="Attached",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Attached")].status`
// +kubebuilder:printcolumn:name="Second Address",type=string,priority=1,JSONPath=`.status.addresses[1].address`
// +kubebuilder:printcolumn:name="MAC",type=string,priority=1,JSONPath=`.status.mac`
// +kubebuilder:printcolumn:name="Port ID",type=string,priority=1,JSONPath=`.status.portID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`has(self.spec)`,fieldPath=`.spec`,reason=FieldValueRequired,message=`a NetworkPort needs a spec: write spec.networkName, the name of a Network`

// NetworkPort is a port in OpenStack Neutron, with its addresses. The
// controller creates it when the Network is Ready, keeps it as declared, and
// deletes it before this object goes. The controller creates NetworkPorts for
// Deployments and Pods that declare networks.
type NetworkPort struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. spec.networkName must be set.
	// +optional
	Spec NetworkPortSpec `json:"spec,omitempty"`

	// status is the observed state. Only the controllers write it.
	// +optional
	Status NetworkPortStatus `json:"status,omitempty"`
}

// Rules that compare with the old object ignore an invalid new value, so that one mistake gives one message. Another
// spelling of the same addresses is no change. A $name is a fragment; see SubnetSpec.
//
// +kubebuilder:validation:XValidation:rule=`has(self.networkName) && self.networkName != ''`,fieldPath=`.networkName`,reason=FieldValueRequired,message=`a port needs a network: write the name of a Network, such as "example-network"; once written, it cannot be removed`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.networkName) || !has(oldSelf.networkName) || !$isSubdomain(self.networkName) || self.networkName == oldSelf.networkName`,fieldPath=`.networkName`,messageExpression=`'a port cannot move: write "%s" again, or delete this NetworkPort and create another'.format([oldSelf.networkName])`
// +kubebuilder:validation:XValidation:rule=`has(self.networkNamespace) ? !$isLabel(self.networkNamespace) || has(oldSelf.networkNamespace) && self.networkNamespace == oldSelf.networkNamespace : !has(oldSelf.networkNamespace)`,fieldPath=`.networkNamespace`,messageExpression=`'a port cannot move: %s, or delete this NetworkPort and create another'.format([has(oldSelf.networkNamespace) ? 'write "%s" again'.format([oldSelf.networkNamespace]) : 'leave networkNamespace out'])`
// +kubebuilder:validation:XValidation:rule=`has(self.addresses) ? self.addresses.size() == 0 || !self.addresses.all(a, isIP(a)) || has(oldSelf.addresses) && $sameAddresses : !has(oldSelf.addresses)`,fieldPath=`.addresses`,messageExpression=`'the addresses of a port cannot change: %s, or delete this NetworkPort and create another'.format([has(oldSelf.addresses) ? 'write %s again'.format([oldSelf.addresses]) : 'leave addresses out'])`
// +kubebuilder:validation:XValidation:rule=`has(self.mac) ? !$isMAC(self.mac) || self.mac == '00:00:00:00:00:00' || has(oldSelf.mac) && self.mac.lowerAscii() == oldSelf.mac.lowerAscii() : !has(oldSelf.mac)`,fieldPath=`.mac`,messageExpression=`'the mac of a port cannot change: %s, or delete this NetworkPort and create another'.format([has(oldSelf.mac) ? 'write "%s" again'.format([oldSelf.mac]) : 'leave mac out'])`
// +kubebuilder:validation:XValidation:rule=`!has(self.portSecurity) || self.portSecurity || (!has(self.securityGroups) || self.securityGroups.size() == 0) && (!has(self.securityGroupRefs) || self.securityGroupRefs.size() == 0) && (!has(self.allowedAddressPairs) || self.allowedAddressPairs.size() == 0)`,fieldPath=`.portSecurity`,message=`a port without port security has no security groups and needs no allowedAddressPairs: leave them out, or write portSecurity: true`

// NetworkPortSpec declares a port.
type NetworkPortSpec struct {
	// networkName is the name of the port's Network. It must be set, and cannot
	// change later. The port waits for a Network that is missing or not Ready.
	// +neutron:attribute=port.network_id,mutable=false,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == '' || $isSubdomain(self)`,message=`not the name of an object: write lower-case letters, digits, "-" and ".", with a letter or digit at both ends and around each ".", such as "example-network"`
	NetworkName string `json:"networkName,omitempty"`

	// networkNamespace is the Network's namespace. The default is this object's
	// own. A Network in another namespace must list this object's namespace in its
	// spec.allowedNamespaces. It cannot change later.
	// +neutron:attribute=port.network_id,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`$isLabel(self)`,message=`not the name of a namespace: write lower-case letters, digits and "-", with a letter or digit at both ends, such as "team-a", or leave it out for the NetworkPort's own`
	NetworkNamespace string `json:"networkNamespace,omitempty"`

	// addresses are the port's addresses, inside the Network's subnets, at most 8.
	// An empty list is refused. Neutron chooses one, of each IP family that the
	// Network has, when they are unset. They cannot change later.
	// +neutron:attribute=port.fixed_ips,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule=`isIP(self)`,message=`not an address: write one without a prefix length, such as "192.168.0.10" or "fd00:1::10"`
	// +kubebuilder:validation:XValidation:rule=`$addressesDiffer`,message=`an address is listed twice ("FD00::1" and "fd00::1" are the same one): list it once`
	// +kubebuilder:validation:XValidation:rule=`self.size() > 0`,message=`a port needs an address: write one, or leave addresses out and Neutron chooses`
	Addresses []string `json:"addresses,omitempty"`

	// mac is the port's hardware address, such as fa:16:3e:00:00:01. Neutron
	// chooses one when it is unset. It cannot change later.
	// +neutron:attribute=port.mac_address,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self != '00:00:00:00:00:00' && $isMAC(self)`,message=`not the hardware address of one host: write six groups of two hexadecimal digits, the second digit even and not all zero, such as "fa:16:3e:00:00:01", or leave it out and Neutron chooses`
	MAC string `json:"mac,omitempty"`

	// securityGroups are the ids or names of the port's security groups in
	// Neutron, at most 16, with at most 4 KiB in all. A name means a group of the
	// project of the Network's credentials; it is refused on a Network of another
	// namespace. An empty list means no group at all. The default is
	// securityGroupRefs, then those of the Network, then those of its class, then
	// the cloud's choice, as a rule the project's group "default". They can change
	// later.
	// +neutron:attribute=port.security_groups,mutable=true,removed=kept,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not a security group: write its id or its name`
	// +kubebuilder:validation:XValidation:rule=`self.all(g, self.exists_one(h, h == g))`,message=`a security group is listed twice: list it once`
	// +kubebuilder:validation:XValidation:rule=`self.map(g, bytes(g).size()).sum() <= 4096`,message=`the names are too long together: write at most 4096 bytes in all, or ids`
	SecurityGroups []string `json:"securityGroups,omitzero"`

	// securityGroupRefs are the names of SecurityGroups of this object's
	// namespace, at most 16. The port is in their groups and in those of
	// securityGroups. It waits for a SecurityGroup that is missing or not Ready.
	// An empty list means none. The default is that of securityGroups. They can
	// change later.
	// +neutron:attribute=port.security_groups,mutable=true,removed=kept,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a SecurityGroup: write the name of one of this namespace, as "kubectl get securitygroups" shows it`
	// +kubebuilder:validation:XValidation:rule=`self.all(g, self.exists_one(h, h == g))`,message=`a SecurityGroup is listed twice: list it once`
	SecurityGroupRefs []string `json:"securityGroupRefs,omitzero"`

	// allowedAddressPairs are further addresses that the port may send from and
	// receive at, such as a virtual address of two servers, at most 10. An empty
	// list means none. Only a port of the Network's own namespace may have them,
	// and the Network's class must have allowedAddressPairs in allowedFields. The
	// default is what others set in Neutron. They can change later.
	// +neutron:attribute=port.allowed_address_pairs,mutable=true,removed=back,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule=`self.all(p, self.exists_one(q, q.address == p.address && $orEmpty(q.mac) == $orEmpty(p.mac)))`,message=`an address pair is listed twice: list it once`
	AllowedAddressPairs []AddressPair `json:"allowedAddressPairs,omitzero"`

	// portSecurity says whether Neutron drops what the port sends under other
	// addresses than its own, and applies security groups. false needs a port of
	// the Network's own namespace, and portSecurity in allowedFields of the
	// Network's class; the port has no security groups then. The default is the
	// Network's setting when the port is created. It can change later.
	// +neutron:attribute=port.port_security_enabled,mutable=true,removed=kept,privilege=tenant
	// +optional
	PortSecurity *bool `json:"portSecurity,omitempty"`

	// qosPolicy is the id or the name of the port's QoS policy, which replaces the
	// Network's; "none" means that the port itself has none. It is refused on a
	// Network of another namespace. The cloud needs Neutron's extension qos. The
	// default is what others set in Neutron. It can change later.
	// +neutron:attribute=port.qos_policy_id,mutable=true,removed=back,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not a QoS policy: write its id or its name, or "none" for a port without its own policy`
	QoSPolicy string `json:"qosPolicy,omitempty"`

	// dnsName is the port's name in the cloud's DNS service, before the Network's
	// dnsDomain; "none" means no name. It is refused on a Network of another
	// namespace. The cloud needs Neutron's extension dns-integration, and a
	// dns_domain in Neutron's configuration: without, Neutron ignores the name,
	// and the port is not Ready. The default is what others set in Neutron. It can
	// change later.
	// +neutron:attribute=port.dns_name,mutable=true,removed=back,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`$isLabel(self)`,message=`not a host name: write lower-case letters, digits and "-", with a letter or digit at both ends, such as "web-0", or "none"`
	DNSName string `json:"dnsName,omitempty"`

	// floatingIP gives the port an address of an external network, under which the
	// world outside reaches it. Only a port of the Network's own namespace may
	// have one, and the Network's class must have floatingIP in allowedFields. The
	// port needs an address of IPv4, in a subnet whose router has a gateway to the
	// external network. The address stays while this is set, also if the port is
	// made again. The default is none. It can change later.
	// +neutron:attribute=floatingip.port_id,mutable=true,removed=default,privilege=tenant
	// +optional
	FloatingIP *PortFloatingIP `json:"floatingIP,omitempty"`

	// deletionPolicy says what happens to the port in Neutron when this object is
	// deleted. Delete deletes it. Retain removes the ownership marker and keeps
	// the port. The default is Delete, or the value of the controller's flag
	// --deletion-policy. The flag does not apply to ports of Deployments and Pods.
	// It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// driftPolicy says what happens when someone else changes the port in Neutron.
	// Correct reverts the change. Report lists the differences in status.drift and
	// leaves them until the spec next changes. The default is Correct, or the
	// value of the controller's flag --drift-policy. The flag does not apply to
	// ports of Deployments and Pods. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// ignoreDrift are the fields that others may change in Neutron, by their names
	// in status.drift. Such a change is neither reverted nor reported. A change of
	// the spec still applies all fields, and so does the creation of a lost port.
	// The default is none. They can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	IgnoreDrift []PortDriftField `json:"ignoreDrift,omitempty"`
}

// AddressPair is a range of addresses that a port may use besides its own.
type AddressPair struct {
	// address is an address or a range, such as 192.168.0.100 or 10.9.0.0/16. It
	// must be set. It can change later.
	// +neutron:attribute=port.allowed_address_pairs.ip_address,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule=`isIP(self) || isCIDR(self)`,message=`not an address: write one such as "192.168.0.100", or a range such as "10.9.0.0/16"`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, c).all(c, c == c.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	Address string `json:"address"`

	// mac is the hardware address that goes with it. The default is the port's
	// own. It can change later.
	// +neutron:attribute=port.allowed_address_pairs.mac_address,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self != '00:00:00:00:00:00' && $isMAC(self)`,message=`not the hardware address of one host: write six groups of two hexadecimal digits, the second digit even and not all zero, such as "fa:16:3e:00:00:01", or leave it out for the port's own`
	MAC string `json:"mac,omitempty"`
}

// +kubebuilder:validation:XValidation:rule=`has(self.address) ? has(oldSelf.address) && self.address == oldSelf.address : !has(oldSelf.address)`,fieldPath=`.address`,message=`the address of a floating IP cannot change: write it as it was, or first remove floatingIP`
// +kubebuilder:validation:XValidation:rule=`!has(self.address) || self.externalNetwork == oldSelf.externalNetwork`,fieldPath=`.externalNetwork`,message=`the external network of an address of choice cannot change: write it as it was, or first remove floatingIP`

// PortFloatingIP asks for a floating IP of the port itself.
type PortFloatingIP struct {
	// externalNetwork is the id or name of the external network of the address. It
	// must be set. It can change later while address is unset; then the port
	// gets another address.
	// +neutron:attribute=floatingip.floating_network_id,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`write the id or the name of an external network, or leave floatingIP out`
	ExternalNetwork string `json:"externalNetwork"`

	// address is the address that the floating IP has, of IPv4, in a subnet of the
	// external network. Neutron lets administrators choose one. A member writes a
	// FloatingIP, which imports the floating IP that has it. The default is
	// Neutron's choice. It cannot change.
	// +neutron:attribute=floatingip.floating_ip_address,mutable=false,removed=refused,privilege=admin
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule=`isIP(self) && self.contains('.')`,message=`not an address of IPv4: write one such as "203.0.113.10"`
	Address string `json:"address,omitempty"`
}

// NetworkPortStatus is the observed state of a port.
type NetworkPortStatus struct {
	ResourceStatus `json:",inline"`

	// portID is the port's id in Neutron.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PortID string `json:"portID,omitempty"`

	// mac is the port's hardware address.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MAC string `json:"mac,omitempty"`

	// addresses are the port's addresses.
	// +optional
	// +listType=atomic
	Addresses []PortAddress `json:"addresses,omitempty"`

	// mtu is the network's maximum transmission unit in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// floatingIP is the port's floating IP.
	// +optional
	FloatingIP *PortFloatingIPStatus `json:"floatingIP,omitempty"`

	// securityGroupIDs are the ids of the port's security groups in Neutron.
	// +optional
	// +listType=atomic
	SecurityGroupIDs []string `json:"securityGroupIDs,omitempty"`

	// boundTo is what uses the port. A bound port is not assigned to another
	// Pod, and is not deleted in Neutron.
	// +optional
	BoundTo *PortBinding `json:"boundTo,omitempty"`

	// attachment says on which node the port's interface is, and how it is
	// attached there. It is unset on nodes without a data plane.
	// +optional
	Attachment *PortAttachment `json:"attachment,omitempty"`

	// standby is the Pod that gets the port when the one that it is bound to has
	// ended, during a live migration of a virtual machine. Its node makes the
	// interface, and connects it when the port is attached there.
	// +optional
	Standby *PortStandby `json:"standby,omitempty"`
}

// PortFloatingIPStatus is a port's floating IP.
type PortFloatingIPStatus struct {
	// id is the floating IP's id in Neutron.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// address is the address in the external network.
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address"`
	// externalNetworkID is the id of the external network.
	// +kubebuilder:validation:MaxLength=64
	ExternalNetworkID string `json:"externalNetworkID"`
}

// PortAddress is an address of a port.
type PortAddress struct {
	// address is the address and its subnet's prefix length, such as
	// 192.168.0.7/16.
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address"`
	// gateway is the address of the subnet's router; unset where there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Gateway string `json:"gateway,omitempty"`
	// subnetID is the subnet's id in Neutron.
	// +kubebuilder:validation:MaxLength=64
	SubnetID string `json:"subnetID"`
}

// PortBinding names what uses a port. It is in the port's namespace.
type PortBinding struct {
	// kind is "Pod".
	Kind string `json:"kind"`
	// name is the object's name.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// uid is the object's UID. It excludes another object of the same name.
	UID types.UID `json:"uid"`
}

// PortDriftField is a field in which a port can differ from its spec, as Drift names it. Addresses, MAC and floating IP
// are not among them, because what uses the port has them.
// +kubebuilder:validation:Enum=name;description;adminState;securityGroups;allowedAddressPairs;portSecurity;qosPolicy;dnsName
type PortDriftField string

// DNSNameNone is the value of a dnsName field that declares a port without a DNS name.
const DNSNameNone = "none"

// PortFinalizer is on every NetworkPort before its port is created, and goes when the port is gone.
const PortFinalizer = "cloudteam.ztgame.com/networkport"

// Network returns the name of the port's Network.
func (p *NetworkPort) Network() types.NamespacedName {
	name := types.NamespacedName{Namespace: p.Spec.NetworkNamespace, Name: p.Spec.NetworkName}
	if name.Namespace == "" {
		name.Namespace = p.Namespace
	}
	return name
}

// TakesGroupsOf reports whether the port's security groups are those that its Network has for ports without their own.
func (p *NetworkPort) TakesGroupsOf(on *Network) bool {
	return p.Spec.SecurityGroups == nil && p.Spec.SecurityGroupRefs == nil && on.Spec.SecurityGroupRefs != nil
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// NetworkPortList is a list of NetworkPorts.
type NetworkPortList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the NetworkPorts.
	Items []NetworkPort `json:"items"`
}
