package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Comments that kubectl explain prints are at most 76 columns wide, because it keeps their line breaks.

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=net,categories=cloudteam
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.status.subnets[0].cidr`
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.status.subnets[0].gateway`
// +kubebuilder:printcolumn:name="Network ID",type=string,priority=1,JSONPath=`.status.networkID`
// +kubebuilder:printcolumn:name="MTU",type=integer,priority=1,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="Class",type=string,priority=1,JSONPath=`.status.class.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`has(self.spec)`,fieldPath=`.spec`,reason=FieldValueRequired,message=`a Network needs a spec: write spec.cidr, such as "192.168.0.0/16", or spec.subnetPool`

// Network is a network in OpenStack Neutron, with its subnets. The controller
// creates it, keeps it as declared, and deletes it before this object goes.
type Network struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state. spec.cidr or spec.subnetPool must be set.
	// +optional
	Spec NetworkSpec `json:"spec,omitempty"`

	// status is the observed state. Only the controller writes it.
	// +optional
	Status NetworkStatus `json:"status,omitempty"`
}

// The class of a Network that names one may have the pool of its first subnet. What was written stays.
//
// +kubebuilder:validation:XValidation:rule=`$hasRange(self) || has(self.className)`,fieldPath=`.cidr`,reason=FieldValueRequired,message=`a subnet needs a cidr: write its network address and prefix length, such as "192.168.0.0/16", or a subnetPool to take one from; once written, it cannot be removed`
// +kubebuilder:validation:XValidation:rule=`$hasRange(self) || !has(self.className) || !$hasRange(oldSelf)`,fieldPath=`.cidr`,reason=FieldValueRequired,message=`it cannot be removed: write it as before, or delete this Network and create another`
//
// Rules that compare with the old object are on this type and not on SubnetSpec: Kubernetes finds no old value of an
// element of a list. A $name is a fragment; see SubnetSpec.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.cidr) || !has(oldSelf.cidr) || [self.cidr].all(c, [oldSelf.cidr].all(o, c == o || !isCIDR(c) || !isCIDR(o) || cidr(c).masked() == cidr(o).masked()))`,fieldPath=`.cidr`,messageExpression=`'the cidr cannot change: write "%s" again, or delete this Network and create another'.format([oldSelf.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.mtu) || self.mtu >= 1280 || self.mtu < 68 || ($isNotIPv6(self)) && (!has(self.additionalSubnets) || self.additionalSubnets.all(s, $isNotIPv6(s)))`,fieldPath=`.mtu`,message=`IPv6 needs an MTU of at least 1280 bytes (RFC 8200, section 5): write 1280 or more, or leave mtu out`
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalSubnets) || self.additionalSubnets.all(s, !has(s.cidr) || $subnet(s.cidr, c).all(c, $isDisjoint(c)))`,fieldPath=`.additionalSubnets`,messageExpression=`'another subnet of this Network has some of the same addresses: %s; write ranges that do not overlap'.format(['%s'.format([$overlappingSubnets])])`
//
// All subnets together may have as many entries as one. The API server and the controllers keep them in memory.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalSubnets) || $entries(self) + self.additionalSubnets.map(s, $entries(s)).sum() <= 160`,fieldPath=`.additionalSubnets`,message=`the subnets have too many entries together: write at most 160 allocationPools, dnsServers, hostRoutes, serviceTypes and reservedFor in all, or another Network`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.cloud) || !has(self.className)`,fieldPath=`.className`,message=`a Network with its own cloud has no class: leave cloud or className out`
//
// +kubebuilder:validation:XValidation:rule=`$isManaged || has(self.__import__)`,fieldPath=`.managementPolicy`,message=`an observed network must exist already: write its id in import.id, or an import.filter, or leave managementPolicy out to create one`
// +kubebuilder:validation:XValidation:rule=`$isManaged || has(oldSelf.managementPolicy) && oldSelf.managementPolicy == 'Observe'`,fieldPath=`.managementPolicy`,message=`a managed network cannot become an observed one: leave managementPolicy out, or delete this Network with deletionPolicy Retain and import the network in another`
// +kubebuilder:validation:XValidation:rule=`$isManaged || !has(self.router)`,fieldPath=`.router`,message=`the router of an observed network is not managed either: leave router out, or managementPolicy`
// +kubebuilder:validation:XValidation:rule=`has(self.__import__) ? $isNoImport(self.__import__) || has(oldSelf.__import__) && $sameImport(self.__import__, oldSelf.__import__) : !has(oldSelf.__import__)`,fieldPath=`.import`,messageExpression=`'the import cannot change: %s, or delete this Network and create another'.format([$writeImportAgain])`
//
// Neutron fixes a subnet's IPv6 modes when it creates the subnet. A subnet that is removed and declared again later is
// another subnet.
//
// +kubebuilder:validation:XValidation:rule=`$orEmpty(self.ipv6AddressMode) == $orEmpty(oldSelf.ipv6AddressMode) || $isAnotherSubnet`,fieldPath=`.ipv6AddressMode`,messageExpression=`'it cannot change: %s, or delete this Network and create another'.format([$writeAgain(oldSelf.ipv6AddressMode)])`
// +kubebuilder:validation:XValidation:rule=`$orEmpty(self.ipv6RAMode) == $orEmpty(oldSelf.ipv6RAMode) || $isAnotherSubnet`,fieldPath=`.ipv6RAMode`,messageExpression=`'it cannot change: %s, or delete this Network and create another'.format([$writeAgain(oldSelf.ipv6RAMode)])`
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalSubnets) || !has(oldSelf.additionalSubnets) || self.additionalSubnets.all(s, !has(s.cidr) || !isCIDR(s.cidr) || !$hasOtherModes(s))`,fieldPath=`.additionalSubnets`,messageExpression=`'the ipv6AddressMode and ipv6RAMode of a subnet cannot change: write %s as before, or remove it, wait until status.subnets no longer has it, and add it again'.format(['%s'.format([self.additionalSubnets.filter(s, has(s.cidr) && isCIDR(s.cidr) && $hasOtherModes(s)).map(s, s.cidr)])])`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.router) || $canHaveRouter(self)`,fieldPath=`.ipv6RAMode`,reason=FieldValueRequired,messageExpression=`'a Neutron router cannot serve a subnet whose hosts use the advertisements of another router: write "%s" here too if the subnet is new, or gateway "none" for a subnet without this router, or leave router out'.format([self.ipv6AddressMode])`
// +kubebuilder:validation:XValidation:rule=`!has(self.router) || !has(self.additionalSubnets) || self.additionalSubnets.all(s, $canHaveRouter(s))`,fieldPath=`.additionalSubnets`,messageExpression=`'a Neutron router cannot serve subnets whose hosts use the advertisements of another router: write ipv6RAMode too in %s if they are new, or gateway "none" for subnets without this router, or leave router out'.format(['%s'.format([self.additionalSubnets.filter(s, !($canHaveRouter(s))).map(s, has(s.cidr) ? s.cidr : s.subnetPool)])])`
//
// The pool identifies a subnet from a pool.
//
// +kubebuilder:validation:XValidation:rule=`$same(self.subnetPool, oldSelf.subnetPool)`,fieldPath=`.subnetPool`,messageExpression=`'it cannot change: %s, or delete this Network and create another'.format([$writeAgain(oldSelf.subnetPool)])`
// +kubebuilder:validation:XValidation:rule=`$same(self.prefixLength, oldSelf.prefixLength) || !has(self.subnetPool) || !has(oldSelf.subnetPool) || self.subnetPool != oldSelf.subnetPool`,fieldPath=`.prefixLength`,messageExpression=`'it cannot change: %s, or delete this Network and create another'.format([has(oldSelf.prefixLength) ? 'write %d again'.format([oldSelf.prefixLength]) : 'leave it out'])`
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalSubnets) || self.additionalSubnets.all(s, !has(s.subnetPool) || (!has(self.subnetPool) || s.subnetPool != self.subnetPool) && self.additionalSubnets.exists_one(o, has(o.subnetPool) && o.subnetPool == s.subnetPool))`,fieldPath=`.additionalSubnets`,message=`two subnets are from one subnetPool, which identifies a subnet: write another pool, or one subnet with a shorter prefixLength`
// +kubebuilder:validation:XValidation:rule=`!has(self.additionalSubnets) || !has(oldSelf.additionalSubnets) || self.additionalSubnets.all(s, !has(s.subnetPool) || !oldSelf.additionalSubnets.exists(o, has(o.subnetPool) && o.subnetPool == s.subnetPool && !($orZero(s.prefixLength) == $orZero(o.prefixLength) && $sameModes(s, o))))`,fieldPath=`.additionalSubnets`,message=`the prefixLength, ipv6AddressMode and ipv6RAMode of a subnet from a subnetPool cannot change: write them as before, or remove it, wait until status.subnets no longer has it, and add it again`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.provider) || has(oldSelf.provider)`,fieldPath=`.provider`,message=`provider cannot be added later: leave it out, or delete this Network and create another`
// +kubebuilder:validation:XValidation:rule=`!has(self.provider) || !has(oldSelf.provider) || self.provider.networkType == oldSelf.provider.networkType`,fieldPath=`.provider.networkType`,messageExpression=`'the network type cannot change: write "%s" again, or delete this Network and create another'.format([oldSelf.provider.networkType])`
// +kubebuilder:validation:XValidation:rule=`!has(self.provider) || !has(oldSelf.provider) || !has(self.provider.physicalNetwork) || has(oldSelf.provider.physicalNetwork) && self.provider.physicalNetwork == oldSelf.provider.physicalNetwork`,fieldPath=`.provider.physicalNetwork`,message=`the physical network can neither change nor be added later: write it as it was, or delete this Network and create another`
// +kubebuilder:validation:XValidation:rule=`!has(self.provider) || !has(oldSelf.provider) || self.provider.networkType == 'vlan' || !has(self.provider.segmentationID) || has(oldSelf.provider.segmentationID) && self.provider.segmentationID == oldSelf.provider.segmentationID`,fieldPath=`.provider.segmentationID`,message=`only the segmentation ID of a vlan can change: write it as it was, or delete this Network and create another`
// +kubebuilder:validation:XValidation:rule=`!has(self.availabilityZoneHints) || self.availabilityZoneHints.size() == 0 || has(oldSelf.availabilityZoneHints) && self.availabilityZoneHints.all(z, z in oldSelf.availabilityZoneHints) && oldSelf.availabilityZoneHints.all(z, z in self.availabilityZoneHints)`,fieldPath=`.availabilityZoneHints`,message=`the zones can neither change nor be added later: write them as they were, or delete this Network and create another`

// NetworkSpec declares a network.
type NetworkSpec struct {
	// The network's first subnet. Its fields stand directly in the spec.
	SubnetSpec `json:",inline"`

	// additionalSubnets are further subnets of the network, at most 7, such as an
	// IPv6 subnet beside an IPv4 one. Their cidrs must not overlap each other or
	// the cidr above. The cidr or the subnetPool identifies a subnet: another
	// value means another subnet. All subnets together have at most 160
	// allocationPools, dnsServers, hostRoutes, serviceTypes and reservedFor. The
	// default is none. They can be added and removed later. A removed subnet that
	// is in use is deleted when it is no longer in use.
	// +neutron:attribute=network.subnets,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:XValidation:rule=`$hasRange(self)`,fieldPath=`.cidr`,reason=FieldValueRequired,message=`a subnet needs a cidr: write its network address and prefix length, such as "192.168.0.0/16", or a subnetPool to take one from; once written, it cannot be removed`
	AdditionalSubnets []SubnetSpec `json:"additionalSubnets,omitempty"`

	// description is a text for people. Neutron shows it in front of the
	// controller's ownership marker. It has at most 173 characters, so that both
	// fit in Neutron's 255. The default is empty. It can change later.
	// +neutron:attribute=network.description,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.size() <= 173`,messageExpression=`'%s characters are too many: write at most 173, which with the ownership marker fit in Neutron\'s 255'.format([string(self.size())])`
	// +kubebuilder:validation:XValidation:rule=`!self.contains('[owner=')`,message=`"[owner=" begins the ownership marker in Neutron: write the text without it`
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]')`,message=`a control character is not allowed, because terminals may act on it: write printable text, tabs and line breaks only`
	Description string `json:"description,omitempty"`

	// mtu is the network's maximum transmission unit in bytes, 68 (1280 with an
	// IPv6 subnet) to 65535. The cloud's own network limits it, too. The cloud
	// chooses when it is unset. It can change later.
	// +neutron:attribute=network.mtu,mutable=true,removed=kept,privilege=tenant
	// +optional
	// +kubebuilder:validation:Minimum=68
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`

	// portSecurity is the default for ports of this network: whether anti-spoofing
	// rules and security groups apply. The cloud chooses when it is unset. It can
	// change later; existing ports keep their setting.
	// +neutron:attribute=network.port_security_enabled,mutable=true,removed=kept,privilege=tenant
	// +optional
	PortSecurity *bool `json:"portSecurity,omitempty"`

	// networkName is the name in Neutron of the network and its subnets, 1 to 255
	// characters. An imported network keeps its own name, unless import.overwrite
	// is true. The default is this object's name. It can change later.
	// +neutron:attribute=network.name+subnet.name,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`$isPrintable(self)`,message=`a control character is not allowed, because terminals may act on it: write printable text`
	NetworkName string `json:"networkName,omitempty"`

	// adminState says whether the network carries traffic in Neutron: Up or Down.
	// The default is Up. It can change later.
	// +neutron:attribute=network.admin_state_up,mutable=true,removed=default,privilege=tenant
	// +optional
	AdminState AdminState `json:"adminState,omitempty"`

	// dnsDomain is the domain of the ports' names in the cloud's DNS service. It
	// ends with a full stop, such as "example.org."; "none" means no domain. The
	// cloud needs Neutron's extension dns-integration. The default is what others
	// set in Neutron. It can change later.
	// +neutron:attribute=network.dns_domain,mutable=true,removed=back,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self == 'none' || self.matches('^([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?[.])+$') && !self.matches('[.][0-9]+[.]$')`,message=`not a DNS domain: write labels of letters, digits and hyphens, the last one not of digits alone, each with a full stop after it, such as "example.org.", or "none"`
	DNSDomain string `json:"dnsDomain,omitempty"`

	// tags are the network's tags in Neutron, at most 64, with at most 4 KiB in
	// all. An empty list means no tags at all. They cost one more request after
	// the network is created. The default is what others set in Neutron. They can
	// change later.
	// +neutron:attribute=network.tags,mutable=true,removed=back,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not a tag: write 1 to 255 printable characters`
	// +kubebuilder:validation:XValidation:rule=`self.all(t, self.exists_one(u, u == t))`,message=`a tag is listed twice: list it once`
	// +kubebuilder:validation:XValidation:rule=`self.map(t, bytes(t).size()).sum() <= 4096`,message=`the tags are too long together: write at most 4096 bytes in all`
	Tags []string `json:"tags,omitzero"`

	// qosPolicy is the id or the name of a QoS policy; "none" means no policy. It
	// applies to the network's ports without their own policy. A project
	// sees its own policies and those that are shared with it. The cloud needs
	// Neutron's extension qos. The default is what others set in Neutron. It can
	// change later.
	// +neutron:attribute=network.qos_policy_id,mutable=true,removed=back,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not a QoS policy: write its id or its name, or "none" for a network without one`
	QoSPolicy string `json:"qosPolicy,omitempty"`

	// sharedWith are the ids of the other projects that may use the network, at
	// most 64. A cloud may allow fewer: Neutron's default quota is 10 for
	// everything that a project shares. Neither the controller nor Neutron checks
	// whether a project exists. An empty list means no other project. The default
	// is what others set in Neutron. They can change later; a removed project
	// keeps access until its ports are gone.
	// +neutron:attribute=rbac_policy.target_tenant,mutable=true,removed=back,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.all(p, self.exists_one(q, q == p))`,message=`a project is listed twice: list it once`
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^[-_.:A-Za-z0-9]+$')`,message=`not a project's id: write one as "openstack project list" shows it, or shared: true for all projects`
	SharedWith []string `json:"sharedWith,omitzero"`

	// shared says whether all projects of the cloud may use the network. By
	// Neutron's default policy, only administrators may set it. The default is
	// what others set in Neutron. It can change later.
	// +neutron:attribute=network.shared,mutable=true,removed=back,privilege=admin
	// +optional
	Shared *bool `json:"shared,omitempty"`

	// external says whether the network is outside the cloud, so that routers
	// can have their gateway on it (router:external in Neutron). By Neutron's
	// default policy, only administrators may set it. The default is what others
	// set in Neutron. It can change later.
	// +neutron:attribute=network.router:external,mutable=true,removed=back,privilege=admin
	// +optional
	External *bool `json:"external,omitempty"`

	// provider says how the cloud implements the network: its type, physical
	// network and segmentation ID. The cloud chooses when it is unset. It can be
	// removed, but not added later. Only the segmentationID of a vlan can change.
	// By Neutron's default policy, only administrators may set it.
	// +neutron:attribute=network.provider:network_type+network.provider:physical_network+network.provider:segmentation_id,mutable=false,removed=kept,privilege=admin
	// +optional
	Provider *ProviderSpec `json:"provider,omitempty"`

	// availabilityZoneHints are the zones in which agents may serve the network,
	// at most 16. All names together, plus 4 characters for each zone, have at
	// most 255 characters. The cloud chooses when they are unset. They can be
	// removed, but neither changed nor added later.
	// +neutron:attribute=network.availability_zone_hints,mutable=false,removed=kept,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self.map(z, z.size() + 4).sum() <= 255`,message=`the names are too long together for Neutron: write fewer zones, whose names have at most 255 characters with 4 more for each zone`
	AvailabilityZoneHints []string `json:"availabilityZoneHints,omitempty"`

	// router is the router that serves the network's subnets: its own router, or
	// an existing one. An empty object means its own router without an external
	// network. The default is none. It can be added, changed and removed later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +structType=atomic
	Router *RouterSpec `json:"router,omitempty"`

	// deletionPolicy says what happens to the network in Neutron when this object
	// is deleted. Delete deletes it. Retain removes the ownership marker and keeps
	// the network. The default is Delete, or the value of the controller's flag
	// --deletion-policy. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// allowedNamespaces are the other namespaces whose Pods, Deployments and
	// NetworkPorts may use this network, at most 64; "*" means all. Objects in the
	// network's own namespace always may. The default is none. They can change
	// later; existing users keep the network.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self == '*' || $isLabel(self)`,message=`not a namespace: write its name, such as "team-a", or "*" for all namespaces`
	AllowedNamespaces []string `json:"allowedNamespaces,omitempty"`

	// securityGroupRefs are the names of SecurityGroups of this namespace, at most
	// 16. They are the default for NetworkPorts on this network, also those of
	// other namespaces, with neither securityGroups nor securityGroupRefs. An
	// empty list means no group at all. The default is that of the network's
	// class, then the cloud's choice. They can change later; ports follow.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a SecurityGroup: write the name of one of this namespace, as "kubectl get securitygroups" shows it`
	// +kubebuilder:validation:XValidation:rule=`self.all(g, self.exists_one(h, h == g))`,message=`a SecurityGroup is listed twice: list it once`
	SecurityGroupRefs []string `json:"securityGroupRefs,omitzero"`

	// driftPolicy says what happens when someone else changes the network in
	// Neutron. Correct reverts the change. Report lists the differences in
	// status.drift and leaves them until the spec next changes. The default is
	// Correct, or the value of the controller's flag --drift-policy. It can change
	// later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// ignoreDrift are the fields that others may change in Neutron, by their names
	// in status.drift. Such a change is neither reverted nor reported. A change of
	// the spec still applies all fields, and so does the creation of a lost
	// network. The default is none. They can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	IgnoreDrift []NetworkDriftField `json:"ignoreDrift,omitempty"`

	// managementPolicy says what the controller does with the network in Neutron.
	// Manage creates it, keeps it as declared, and deletes it. Observe only shows
	// the network named by import in the status, and writes nothing to Neutron.
	// The default is Manage. It can change later, but not to Observe.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	ManagementPolicy ManagementPolicy `json:"managementPolicy,omitempty"`

	// import names an existing network in Neutron to adopt or to observe, instead
	// of creating one. Then deletionPolicy is Retain by default. The default is
	// none. It cannot change later.
	// +neutron:attribute=none,mutable=false,removed=refused,privilege=tenant
	// +optional
	Import *NetworkImport `json:"import,omitempty"`

	// cloud is the cloud of the network, by credentials in a Secret of this
	// namespace. The default is the controller's own cloud. It can change later,
	// to other credentials for the same project. With credentials for another
	// project, the Network is Stalled, and nothing is created or deleted.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Cloud *CloudReference `json:"cloud,omitempty"`

	// className is the name of a NetworkClass, which says with which credentials
	// the network is made, and what this Network may set. A Network with cloud has
	// no class. The default is the cluster's default class, if there are classes.
	// It can change later, to a class with credentials for the same project.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a NetworkClass: write lower-case letters, digits, "-" and ".", with a letter or digit at both ends and around each ".", as "kubectl get networkclasses" shows it`
	ClassName string `json:"className,omitempty"`
}

// The rules of one subnet are on this type, and not on the types that use it, so that each use has them.
//
// A $name in a rule is a fragment of CEL, which tools/rules defines and explains; it also says how to add a rule. A rule
// speaks only where its premises hold, so that one mistake gives one message and no input makes an expression fail.
//
// The cidr of a subnet from a pool is not known when it is declared. Fields that must fit the cidr are refused, because
// nothing can check them.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.subnetPool) || !has(self.cidr)`,fieldPath=`.subnetPool`,message=`the pool supplies the cidr: leave cidr or subnetPool out`
// +kubebuilder:validation:XValidation:rule=`!has(self.prefixLength) || has(self.subnetPool)`,fieldPath=`.prefixLength`,message=`it needs a subnetPool: write one, or leave prefixLength out; a cidr contains its own prefix length`
// +kubebuilder:validation:XValidation:rule=`!has(self.subnetPool) || !has(self.gateway) || self.gateway == 'none'`,fieldPath=`.gateway`,message=`the cidr is unknown until the subnetPool supplies it: leave gateway out for the first address, or write "none"`
// +kubebuilder:validation:XValidation:rule=`!has(self.subnetPool) || !has(self.allocationPools) || self.allocationPools.size() == 0`,fieldPath=`.allocationPools`,message=`the cidr is unknown until the subnetPool supplies it: leave allocationPools out for every usable address but the gateway`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.gateway) || !has(self.cidr) || $subnet(self.cidr, c).all(c, [self.gateway].filter(a, $isAddress(a)).all(a, $canBeRouter(a, c)))`,fieldPath=`.gateway`,messageExpression=`!cidr(self.cidr).containsIP(self.gateway) ? 'not inside %s: write an IPv%s address of that range, or "none" for a subnet without a gateway'.format([self.cidr, string(cidr(self.cidr).ip().family())]) : '%s is the %s, which no router can have: write another address of that range'.format([self.gateway, ip(self.gateway) == cidr(self.cidr).ip() ? 'address of the network ' + self.cidr + ' itself' : 'broadcast address of ' + self.cidr])`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || $subnet(self.cidr, c).all(c, self.allocationPools.all(p, !$isRange(p) || c.containsIP(p.start) && c.containsIP(p.end)))`,fieldPath=`.allocationPools`,messageExpression=`'not inside %s: %s; write ranges that begin and end in it'.format([self.cidr, '%s'.format([self.allocationPools.map(p, $isRange(p) && ![p.start, p.end].all(a, cidr(self.cidr).containsIP(a)), p.start + '-' + p.end)])])`
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || $subnet(self.cidr, c).all(c, self.allocationPools.all(p, !$isPoolIn(c, p) || !(ip(p.start) == c.ip())))`,fieldPath=`.allocationPools`,messageExpression=`'%s is the address of the network itself, which no host can have: start the pool after it'.format([string(cidr(self.cidr).ip())])`
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || $subnet(self.cidr, c).filter(c, c.ip().family() == 4).all(c, self.allocationPools.all(p, !$isPoolIn(c, p) || !$isBroadcast(p.end, c)))`,fieldPath=`.allocationPools`,messageExpression=`'a pool ends at the broadcast address of %s, which no host can have: end it one address earlier'.format([self.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || !has(self.gateway) || $gatewayIsOutsidePools`,fieldPath=`.allocationPools`,messageExpression=`'the gateway %s lies inside a pool, and no host may get its address: end the pool before it, or start the pool after it'.format([self.gateway])`
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || has(self.gateway) || $subnet(self.cidr, c).all(c, !self.allocationPools.exists(p, $hasFirstAddress(c, p)))`,fieldPath=`.allocationPools`,messageExpression=`'the first address of %s is the default gateway, and no host may get it: start the pool after it, or write another gateway, or gateway "none"'.format([self.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.allocationPools) || !has(self.cidr) || $poolsDoNotOverlap`,fieldPath=`.allocationPools`,message=`two pools have an address in common: write ranges that do not overlap`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.dnsServers) || !has(self.cidr) || $subnet(self.cidr, c).all(c, self.dnsServers.all(a, !isIP(a) || ip(a).family() == c.ip().family()))`,fieldPath=`.dnsServers`,messageExpression=`'a subnet takes name servers of its own IP family only: write IPv%s addresses, as in the cidr %s'.format([string(cidr(self.cidr).ip().family()), self.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.hostRoutes) || !has(self.cidr) || $subnet(self.cidr, c).all(c, self.hostRoutes.all(r, (!isCIDR(r.destination) || cidr(r.destination).ip().family() == c.ip().family()) && (!isIP(r.nextHop) || ip(r.nextHop).family() == c.ip().family())))`,fieldPath=`.hostRoutes`,messageExpression=`'a subnet takes routes of its own IP family only: write IPv%s destinations and next hops, as in the cidr %s'.format([string(cidr(self.cidr).ip().family()), self.cidr])`
//
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6AddressMode) || !has(self.cidr) || $subnet(self.cidr, c).all(c, c.ip().family() == 6)`,fieldPath=`.ipv6AddressMode`,messageExpression=`'%s is IPv4, and only IPv6 has this: leave it out'.format([self.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6RAMode) || !has(self.cidr) || $subnet(self.cidr, c).all(c, c.ip().family() == 6)`,fieldPath=`.ipv6RAMode`,messageExpression=`'%s is IPv4, and only IPv6 has this: leave it out'.format([self.cidr])`
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6AddressMode) || !has(self.ipv6RAMode) || self.ipv6AddressMode == self.ipv6RAMode`,fieldPath=`.ipv6RAMode`,messageExpression=`'"%s" does not go with ipv6AddressMode "%s": write the same in both, or leave one out'.format([self.ipv6RAMode, self.ipv6AddressMode])`
// +kubebuilder:validation:XValidation:rule=`$usesNoSLAAC || !has(self.cidr) || $subnet(self.cidr, c).filter(c, c.ip().family() == 6).all(c, c.prefixLength() == 64)`,fieldPath=`.cidr`,messageExpression=`'with the mode "%s" hosts form their own addresses, which needs a /64: write such a cidr, or the mode "dhcpv6-stateful"'.format([has(self.ipv6AddressMode) ? self.ipv6AddressMode : self.ipv6RAMode])`
// +kubebuilder:validation:XValidation:rule=`!has(self.ipv6AddressMode) && !has(self.ipv6RAMode) || !has(self.dhcp) || self.dhcp`,fieldPath=`.dhcp`,message=`a subnet with ipv6AddressMode or ipv6RAMode needs DHCP: write true, or leave these out`
// +kubebuilder:validation:XValidation:rule=`!has(self.reservedFor) || self.reservedFor.size() == 0 || $usesNoSLAAC`,fieldPath=`.reservedFor`,message=`every port of the network forms an address of such a subnet itself: leave reservedFor out, or write the IPv6 mode "dhcpv6-stateful"`

// SubnetSpec declares a subnet.
type SubnetSpec struct {
	// cidr is the subnet's network address and prefix length, such as
	// 192.168.0.0/16 or fd00:1::/64. The prefix length is 1 to 30 for IPv4 and 1
	// to 126 for IPv6. The default is one from subnetPool. It cannot change later.
	// In additionalSubnets, another cidr means another subnet.
	// +neutron:attribute=subnet.cidr+subnet.ip_version,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule=`self == '' || isCIDR(self)`,message=`not a CIDR: write a network address and a prefix length, such as "192.168.0.0/16" or "fd00:1::/64"`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, c).all(c, $hasHosts(c))`,messageExpression=`'the prefix length is out of range: write one from 1 to %s'.format([cidr(self).ip().family() == 4 ? '30' : '126'])`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, c).filter(c, $hasHosts(c)).all(c, c == c.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	// +kubebuilder:validation:XValidation:rule=`$subnet(self, c).all(c, !(c.ip() == ip('0.0.0.0')) && !['127.0.0.0/8', '224.0.0.0/4', 'ff00::/8'].exists(r, cidr(r).containsCIDR(c)))`,message=`not a range for hosts: write one that does not begin at 0.0.0.0 and is neither loopback nor multicast`
	CIDR string `json:"cidr,omitempty"`

	// subnetPool is the id or name of a subnet pool in Neutron. Neutron allocates
	// the cidr from it when the subnet is created; status.subnets shows it. A
	// network has at most one subnet from each pool. The default is none, and cidr
	// must be set. It cannot change later. In additionalSubnets, another pool
	// means another subnet.
	// +neutron:attribute=subnet.subnetpool_id+subnet.ip_version,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`write the id or the name of a subnet pool, in printable text, or leave subnetPool out and write a cidr`
	SubnetPool string `json:"subnetPool,omitempty"`

	// prefixLength is the prefix length of the cidr to allocate from subnetPool.
	// It is within the pool's bounds, 1 to 30 for IPv4 and 1 to 126 for IPv6. The
	// default is the pool's. It cannot change later.
	// +neutron:attribute=subnet.prefixlen,mutable=false,removed=refused,privilege=tenant
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=126
	PrefixLength *int32 `json:"prefixLength,omitempty"`

	// gateway is the address of the subnet's router, inside the cidr, or "none"
	// for a subnet without one. In IPv6 it may be the first address, such as
	// fd00:1::, which is Neutron's own default. With subnetPool it is "none" or
	// unset. The default is the address after that, such as 192.168.0.1 or
	// fd00:1::1. It can change later.
	// +neutron:attribute=subnet.gateway_ip,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`self == 'none' || $isAddress(self)`,message=`not an address: write one such as "192.168.0.1" or "fd00:1::1", or "none" for a subnet without a gateway`
	Gateway string `json:"gateway,omitempty"`

	// allocationPools are the ranges from which Neutron allocates addresses, at
	// most 32. They are inside the cidr, do not contain the gateway, and do not
	// overlap. They must be unset with subnetPool. The default is every usable
	// address but the gateway. They can change later.
	// +neutron:attribute=subnet.allocation_pools,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	AllocationPools []AllocationPool `json:"allocationPools,omitempty"`

	// dhcp says whether Neutron offers addresses, dnsServers and hostRoutes by
	// DHCP. The default is true. It can change later.
	// +neutron:attribute=subnet.enable_dhcp,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:default=true
	DHCP *bool `json:"dhcp,omitempty"`

	// dnsServers are the addresses of the name servers that DHCP offers, in order
	// of preference. They are of the cidr's IP family, at most 16. A cloud may
	// allow fewer: Neutron's default limit is 5. The default is none. They can
	// change later.
	// +neutron:attribute=subnet.dns_nameservers,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule=`isIP(self)`,message=`not an address: write one such as "192.168.0.53" or "fd00:1::53"`
	// +kubebuilder:validation:XValidation:rule=`$addressesDiffer`,message=`an address is listed twice ("FD00::1" and "fd00::1" are the same one): list it once`
	DNSServers []string `json:"dnsServers,omitempty"`

	// hostRoutes are the routes that DHCP offers. They are of the cidr's IP
	// family, at most 64. A cloud may allow fewer: Neutron's default limit is 20.
	// The default is none. They can change later.
	// +neutron:attribute=subnet.host_routes,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule=`$routesDiffer`,message=`a route is listed twice ("FD00::/64" and "fd00::/64" are the same destination): list it once`
	HostRoutes []HostRoute `json:"hostRoutes,omitempty"`

	// ipv6AddressMode says how hosts get addresses in an IPv6 subnet. slaac: each
	// host forms its own from its MAC and the cidr, which must be a /64.
	// dhcpv6-stateful: Neutron's DHCP assigns them. dhcpv6-stateless: as slaac,
	// with DHCP for all other settings. The default is that Neutron assigns none.
	// It needs dhcp. It cannot change later.
	// +neutron:attribute=subnet.ipv6_address_mode,mutable=false,removed=refused,privilege=tenant
	// +optional
	IPv6AddressMode IPv6Mode `json:"ipv6AddressMode,omitempty"`

	// ipv6RAMode says what Neutron's routers advertise in an IPv6 subnet, with the
	// same values. If ipv6AddressMode is set too, both must be equal. The default
	// is nothing: an external router advertises. It needs dhcp. With spec.router,
	// a subnet with ipv6AddressMode and a gateway needs it, too. It cannot change
	// later.
	// +neutron:attribute=subnet.ipv6_ra_mode,mutable=false,removed=refused,privilege=tenant
	// +optional
	IPv6RAMode IPv6Mode `json:"ipv6RAMode,omitempty"`

	// serviceTypes are the kinds of ports that get addresses from the subnet, at
	// most 16. They are device owners, such as compute:nova or
	// network:floatingip_agent_gateway. Other ports get none, including those of
	// NetworkPorts and Pods. A router needs network:router_interface. The default
	// is none, a subnet for all ports. They can change later; existing ports keep
	// their addresses.
	// +neutron:attribute=subnet.service_types,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^(compute|network|neutron|baremetal):[^\\x00-\\x1f\\x7f]*$')`,message=`not a device owner: write one that begins with "compute:", "network:", "neutron:" or "baremetal:", such as "compute:nova"`
	// +kubebuilder:validation:XValidation:rule=`self.map(t, bytes(t).size()).sum() <= 4096`,message=`the device owners are too long together: write at most 4096 bytes in all`
	ServiceTypes []string `json:"serviceTypes,omitempty"`

	// reservedFor are the users whose ports get addresses from the subnet, at most
	// 32. Other NetworkPorts, Deployments and Pods get none. The ports of these
	// users get addresses of the subnet's IP family only from subnets that are
	// reserved for them; what is reserved for a Deployment or StatefulSet counts
	// before what is reserved for its namespace. The default is none, a subnet for
	// all users. They can change later; existing ports keep their addresses.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule=`self.all(u, self.exists_one(v, v == u))`,message=`a user is listed twice: list it once`
	ReservedFor []AddressUser `json:"reservedFor,omitempty"`

	// dnsPublishFixedIP says whether the cloud's DNS service publishes the
	// addresses of the subnet's ports. The cloud needs Neutron's extension
	// subnet-dns-publish-fixed-ip. The default is false. It can change later.
	// +neutron:attribute=subnet.dns_publish_fixed_ip,mutable=true,removed=default,privilege=tenant
	// +optional
	DNSPublishFixedIP *bool `json:"dnsPublishFixedIP,omitempty"`
}

// AddressUser names who gets addresses from a subnet: a namespace, or a Deployment or a StatefulSet in it.
//
// +kubebuilder:validation:XValidation:rule=`has(self.kind) == has(self.name)`,fieldPath=`.name`,message=`kind and name go together: write both, such as kind "Deployment" and name "web", or neither for the whole namespace`
type AddressUser struct {
	// namespace is the namespace of the ports. Another one than the Network's is
	// also in allowedNamespaces. The default is the Network's own. It can change
	// later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`$isLabel(self)`,message=`not a namespace: write its name, such as "team-a", or leave it out for the Network's own`
	Namespace string `json:"namespace,omitempty"`

	// kind is Deployment or StatefulSet, for the ports of its Pods. The default is
	// all ports of the namespace. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:Enum=Deployment;StatefulSet
	Kind string `json:"kind,omitempty"`

	// name is the name of the Deployment or StatefulSet. The default is none, with
	// no kind either. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isSubdomain(self)`,message=`not the name of a Deployment or StatefulSet: write it as "kubectl get deployments,statefulsets" shows it`
	Name string `json:"name,omitempty"`
}

// GatewayNone is the value of a gateway field that declares a subnet without a gateway.
const GatewayNone = "none"

// +kubebuilder:validation:XValidation:rule=`!$isRange(self) || ip(self.start).family() != ip(self.end).family() || [$numbers([self.start, self.end])].all(k, $atMost(k[0], k[1]))`,messageExpression=`'the range is reversed: write start "%s" and end "%s"'.format([self.end, self.start])`

// AllocationPool is a range of addresses, both ends included.
type AllocationPool struct {
	// start is the first address of the range.
	// +neutron:attribute=subnet.allocation_pools.start,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`$isAddress(self)`,message=`not an address: write one such as "192.168.0.10" or "fd00:1::10"`
	Start string `json:"start"`
	// end is the last address of the range.
	// +neutron:attribute=subnet.allocation_pools.end,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`$isAddress(self)`,message=`not an address: write one such as "192.168.0.99" or "fd00:1::99"`
	End string `json:"end"`
}

// HostRoute is a route that hosts on the subnet use.
type HostRoute struct {
	// destination is the network that the route is for, such as 10.1.0.0/16 or
	// fd00:2::/64. 0.0.0.0/0 and ::/0 are a default route.
	// +neutron:attribute=subnet.host_routes.destination,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule=`isCIDR(self)`,message=`not a CIDR: write a network address and a prefix length, such as "10.1.0.0/16" or "fd00:2::/64"`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, d).all(d, d == d.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, d).all(d, !(d == d.masked()) || !['127.0.0.0/8', '::1/128'].exists(r, cidr(r).containsCIDR(d)))`,message=`a loopback range cannot be routed: write a range that other hosts have`
	Destination string `json:"destination"`
	// nextHop is the address of the next router.
	// +neutron:attribute=subnet.host_routes.nexthop,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`isIP(self)`,message=`not an address: write one such as "192.168.0.254" or "fd00:1::fe"`
	NextHop string `json:"nextHop"`
}

// DeletionPolicy says what becomes of Neutron resources when their object is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete removes the resources.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain takes the ownership marker off the resources and leaves them.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// DriftPolicy says what is done about changes that others make in Neutron.
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

const (
	// DriftPolicyCorrect puts the declared state back.
	DriftPolicyCorrect DriftPolicy = "Correct"
	// DriftPolicyReport lists the differences in status.drift and leaves them until the spec next changes.
	DriftPolicyReport DriftPolicy = "Report"
)

// NetworkDriftField is a field in which a network, or a subnet of it, can differ from its spec, as Drift names it.
// +kubebuilder:validation:Enum=name;description;adminState;mtu;portSecurity;dnsDomain;tags;qosPolicy;sharedWith;shared;external;provider.segmentationID;gateway;allocationPools;dhcp;dnsServers;hostRoutes;serviceTypes;dnsPublishFixedIP
type NetworkDriftField string

// Finalizer is on every Network before its first resource is created, and goes when the last one is gone.
const Finalizer = "cloudteam.ztgame.com/network"

// NetworkStatus is a network as it was last seen.
type NetworkStatus struct {
	ResourceStatus `json:",inline"`

	// networkID is the network's id in Neutron.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NetworkID string `json:"networkID,omitempty"`

	// mtu is the network's maximum transmission unit in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// subnets are the network's subnets in Neutron, in the order of the spec.
	// Subnets that are no longer declared come last.
	// +optional
	// +listType=atomic
	Subnets []SubnetStatus `json:"subnets,omitempty"`

	// router is the router that serves the network's subnets.
	// +optional
	Router *RouterStatus `json:"router,omitempty"`

	// class is the class that the network was applied with. It is unset with
	// spec.cloud.
	// +optional
	Class *AppliedClass `json:"class,omitempty"`
}

// SubnetStatus is a subnet as it was last seen.
type SubnetStatus struct {
	// id is the subnet's id in Neutron.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// cidr is the subnet's network address and prefix length.
	// +kubebuilder:validation:MaxLength=64
	CIDR string `json:"cidr"`
	// subnetPool is the spec's name for the subnet pool of the cidr. It is unset
	// if the spec declares the cidr.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	SubnetPool string `json:"subnetPool,omitempty"`
	// gateway is the address of the subnet's router, or "none".
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Gateway string `json:"gateway,omitempty"`
	// ipv6AddressMode is how hosts get addresses in an IPv6 subnet, if Neutron
	// assigns them.
	// +optional
	IPv6AddressMode IPv6Mode `json:"ipv6AddressMode,omitempty"`
	// ipv6RAMode is what Neutron's routers advertise.
	// +optional
	IPv6RAMode IPv6Mode `json:"ipv6RAMode,omitempty"`
	// serviceTypes are the kinds of ports that get addresses from the subnet, if
	// it is not for all.
	// +optional
	// +listType=atomic
	ServiceTypes []string `json:"serviceTypes,omitempty"`
	// totalAddresses counts the addresses in the allocation pools, up to
	// 9223372036854775807. It is unset if usedAddresses is.
	// +optional
	TotalAddresses *int64 `json:"totalAddresses,omitempty"`
	// usedAddresses counts the addresses of ports, inside the pools or not, up to
	// totalAddresses. It is written when it changes by a twentieth of these, and
	// together with other changes. Without an administrator's credentials it
	// counts only the project's own ports. It is unset if the count is unknown.
	// +optional
	UsedAddresses *int64 `json:"usedAddresses,omitempty"`
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
