package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=secgroup,categories=cloudteam
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Rules",type=integer,JSONPath=`.status.ruleCount`
// +kubebuilder:printcolumn:name="Security Group ID",type=string,priority=1,JSONPath=`.status.securityGroupID`
// +kubebuilder:printcolumn:name="Class",type=string,priority=1,JSONPath=`.status.class.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`has(self.spec)`,fieldPath=`.spec`,reason=FieldValueRequired,message=`a SecurityGroup needs a spec: write spec.rules, or "spec: {}" for a group that lets everything out and nothing in`
// +kubebuilder:validation:XValidation:rule=`self.metadata.name != 'default'`,message=`each project in Neutron has a group of the name "default", which cannot be created: write another name`

// SecurityGroup is a security group in OpenStack Neutron, with its rules. The
// controller creates it, keeps it as declared, and deletes it before this
// object goes. What no rule of any of a port's groups lets pass is dropped.
type SecurityGroup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. It must be set. An empty one is a group that lets
	// everything out and nothing in.
	// +optional
	Spec SecurityGroupSpec `json:"spec,omitempty"`

	// status is the observed state. Only the controller writes it.
	// +optional
	Status SecurityGroupStatus `json:"status,omitempty"`
}

// +kubebuilder:validation:XValidation:rule=`!has(self.cloud) || !has(self.className)`,fieldPath=`.className`,message=`a SecurityGroup with its own cloud has no class: leave cloud or className out`

// SecurityGroupSpec declares a security group.
type SecurityGroupSpec struct {
	// rules are what may pass, at most 64. The group has exactly these rules in
	// Neutron: rules that others add there are removed. Without a rule for egress,
	// it also has two that let everything out, one for each etherType, as Neutron
	// gives to a new group. The default is none. They can change later.
	// +neutron:attribute=security_group.security_group_rules,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule=`self.map(r, has(r.remoteGroup) ? r.remoteGroup.size() : 0).sum() <= 8192`,message=`the names in remoteGroup are too long together: write at most 8192 characters in all`
	Rules []SecurityGroupRule `json:"rules,omitempty"`

	// description is a text for people. Neutron shows it in front of the
	// controller's ownership marker. It has at most 173 characters, so that both
	// fit in Neutron's 255. The default is empty. It can change later.
	// +neutron:attribute=security_group.description,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.size() <= 173`,messageExpression=`'%s characters are too many: write at most 173, which with the ownership marker fit in Neutron\'s 255'.format([string(self.size())])`
	// +kubebuilder:validation:XValidation:rule=`!self.contains('[owner=')`,message=`"[owner=" begins the ownership marker in Neutron: write the text without it`
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]')`,message=`a control character is not allowed, because terminals may act on it: write printable text, tabs and line breaks only`
	Description string `json:"description,omitempty"`

	// stateful says whether the answer to a packet that may pass may pass, too.
	// false judges each packet alone, and needs Neutron's extension
	// stateful-security-group. A port cannot have groups of both kinds. The
	// default is true. It can change later, while no port is in the group.
	// +neutron:attribute=security_group.stateful,mutable=true,removed=default,privilege=tenant
	// +optional
	Stateful *bool `json:"stateful,omitempty"`

	// deletionPolicy says what happens to the group in Neutron when this object is
	// deleted. Delete deletes it. Retain removes the ownership marker and keeps
	// the group. The default is Delete, or the value of the controller's flag
	// --deletion-policy. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// driftPolicy says what happens when someone else changes the group or its
	// rules in Neutron. Correct reverts the change. Report lists the differences
	// in status.drift and leaves them until the spec next changes; with other
	// rules than the declared ones, the group is not Ready. The default is
	// Correct, or the value of the controller's flag --drift-policy. It can change
	// later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// managementPolicy is Manage: the controller creates the group in Neutron,
	// keeps it as declared, and deletes it. The default is Manage. It can change
	// later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	ManagementPolicy SecurityGroupManagementPolicy `json:"managementPolicy,omitempty"`

	// cloud is the cloud of the group, by credentials in a Secret of this
	// namespace. A group serves ports of its own project only, so it has the same
	// cloud as their Network. The default is the controller's own cloud. It can
	// change later, to other credentials for the same project. With credentials
	// for another project, the SecurityGroup is Stalled, and nothing is created or
	// deleted.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Cloud *CloudReference `json:"cloud,omitempty"`

	// className is the name of a NetworkClass, which says with which credentials
	// the group is made. A SecurityGroup with cloud has no class. The default is
	// the cluster's default class, if there are classes. It can change later, to a
	// class with credentials for the same project.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a NetworkClass: write lower-case letters, digits, "-" and ".", with a letter or digit at both ends and around each ".", as "kubectl get networkclasses" shows it`
	ClassName string `json:"className,omitempty"`
}

// SecurityGroupManagementPolicy is a ManagementPolicy without Observe: a group cannot be imported.
// +kubebuilder:validation:Enum=Manage
type SecurityGroupManagementPolicy string

// RuleDirection says which packets a rule is about: those to a port (ingress) or from it (egress).
// +kubebuilder:validation:Enum=ingress;egress
type RuleDirection string

// The directions.
const (
	RuleIngress RuleDirection = "ingress"
	RuleEgress  RuleDirection = "egress"
)

// EtherType is the IP family of a rule.
// +kubebuilder:validation:Enum=IPv4;IPv6
type EtherType string

// The IP families.
const (
	EtherTypeIPv4 EtherType = "IPv4"
	EtherTypeIPv6 EtherType = "IPv6"
)

// RuleProtocolAny is the value of protocol that declares a rule for all protocols.
const RuleProtocolAny = "any"

// +kubebuilder:validation:XValidation:rule=`!has(self.remoteCIDR) || !has(self.remoteGroup)`,fieldPath=`.remoteGroup`,message=`a rule is about one remote: leave remoteCIDR or remoteGroup out`
// +kubebuilder:validation:XValidation:rule=`!has(self.remoteCIDR) || $parsed(self.remoteCIDR, c).all(c, c.ip().family() == ($isOfIPv6 ? 6 : 4))`,fieldPath=`.remoteCIDR`,messageExpression=`'not of the rule\'s IP family: write etherType "%s"'.format([$isOfIPv6 ? 'IPv4' : 'IPv6'])`
// +kubebuilder:validation:XValidation:rule=`!has(self.protocol) || self.protocol != ($isOfIPv6 ? 'icmp' : 'icmpv6')`,fieldPath=`.protocol`,message=`icmp is IPv4's and icmpv6 is IPv6's: write the one of the rule's etherType`
// +kubebuilder:validation:XValidation:rule=`!has(self.portRangeMin) && !has(self.portRangeMax) || has(self.protocol) && self.protocol in ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6']`,fieldPath=`.portRangeMin`,message=`only tcp, udp and sctp have ports, and icmp and icmpv6 a type and a code: write such a protocol, or leave the ports out`
// +kubebuilder:validation:XValidation:rule=`!has(self.portRangeMax) || has(self.portRangeMin)`,fieldPath=`.portRangeMin`,reason=FieldValueRequired,message=`write the first port (for icmp and icmpv6 the type), or leave portRangeMax out`
// +kubebuilder:validation:XValidation:rule=`!$hasPorts || !has(self.portRangeMin) || self.portRangeMin > 0 && (!has(self.portRangeMax) || self.portRangeMin <= self.portRangeMax)`,fieldPath=`.portRangeMin`,message=`not a range of ports: write 1 or more, and at most portRangeMax`
// +kubebuilder:validation:XValidation:rule=`!$hasTypes || (!has(self.portRangeMin) || self.portRangeMin <= 255) && (!has(self.portRangeMax) || self.portRangeMax <= 255)`,fieldPath=`.portRangeMin`,message=`the type and the code of icmp and icmpv6 are 0 to 255`

// SecurityGroupRule lets some packets pass.
type SecurityGroupRule struct {
	// direction says which packets the rule is about: ingress, those to a port, or
	// egress, those from it. It must be set.
	// +neutron:attribute=security_group_rule.direction,mutable=true,privilege=tenant
	// +required
	Direction RuleDirection `json:"direction"`

	// etherType is the IP family. The default is IPv4.
	// +neutron:attribute=security_group_rule.ethertype,mutable=true,removed=default,privilege=tenant
	// +optional
	EtherType EtherType `json:"etherType,omitempty"`

	// protocol is tcp, udp, sctp, icmp, icmpv6, the number of another protocol
	// from 1 to 255, or any. The default is any.
	// +neutron:attribute=security_group_rule.protocol,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule=`self in ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'any'] || self.matches('^([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$') && !(self in ['1', '6', '17', '58', '132'])`,message=`not a protocol: write "tcp", "udp", "sctp", "icmp", "icmpv6", "any", or in quotes the number of another protocol, from "1" to "255"`
	Protocol string `json:"protocol,omitempty"`

	// portRangeMin is the first port of the destination. For icmp and icmpv6 it is
	// the type. The default is every port, or every type.
	// +neutron:attribute=security_group_rule.port_range_min,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PortRangeMin *int32 `json:"portRangeMin,omitempty"`

	// portRangeMax is the last port of the destination. For icmp and icmpv6 it is
	// the code. The default is portRangeMin, or every code.
	// +neutron:attribute=security_group_rule.port_range_max,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	PortRangeMax *int32 `json:"portRangeMax,omitempty"`

	// remoteCIDR is the range of addresses that packets come from, or with egress
	// go to, such as 10.0.0.0/8. The default is everywhere, unless remoteGroup is
	// set.
	// +neutron:attribute=security_group_rule.remote_ip_prefix,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule=`isCIDR(self)`,message=`not a CIDR: write a network address and a prefix length, such as "10.0.0.0/8" or "fd00:1::/64"; one address is "10.0.0.7/32" or "fd00:1::7/128"`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, c).all(c, c == c.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	RemoteCIDR string `json:"remoteCIDR,omitempty"`

	// remoteGroup is the name of a SecurityGroup of this namespace, which may be
	// this one: packets come from ports in that group, or with egress go to them.
	// The rule waits until that group exists. The default is none.
	// +neutron:attribute=security_group_rule.remote_group_id,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a SecurityGroup: write the name of one of this namespace, as "kubectl get securitygroups" shows it`
	RemoteGroup string `json:"remoteGroup,omitempty"`
}

// SecurityGroupStatus is the observed state of a security group.
type SecurityGroupStatus struct {
	ResourceStatus `json:",inline"`

	// securityGroupID is the group's id in Neutron.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SecurityGroupID string `json:"securityGroupID,omitempty"`

	// ruleCount is how many rules the group has in Neutron.
	// +optional
	RuleCount int32 `json:"ruleCount,omitempty"`

	// class is the NetworkClass that the group was made with.
	// +optional
	Class *AppliedClass `json:"class,omitempty"`
}

// AnnotationPolicyProblem on a SecurityGroup that the controller made for a MultiNetworkPolicy says which part of the
// policy the group lacks. The condition ConditionPolicyIncomplete shows it.
const AnnotationPolicyProblem = "cloudteam.ztgame.com/policy-problem"

// SecurityGroupFinalizer is on every SecurityGroup before its group is created, and goes when the group is gone.
const SecurityGroupFinalizer = "cloudteam.ztgame.com/securitygroup"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// SecurityGroupList is a list of SecurityGroups.
type SecurityGroupList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the SecurityGroups.
	Items []SecurityGroup `json:"items"`
}
