package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationDefaultClass marks the NetworkClass of Networks that name none, with the value "true". Of several such
// classes, the newest is the default, and of equally old ones the first by name.
const AnnotationDefaultClass = "cloudteam.ztgame.com/is-default-class"

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=networkclasses,singular=networkclass,scope=Cluster,shortName=netclass,categories=cloudteam
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.metadata.annotations.cloudteam\.ztgame\.com/is-default-class`
// +kubebuilder:printcolumn:name="Credentials",type=string,JSONPath=`.spec.credentials.secretName`
// +kubebuilder:printcolumn:name="Fields",type=string,JSONPath=`.spec.allowedFields`
// +kubebuilder:printcolumn:name="Ranges",type=string,priority=1,JSONPath=`.spec.allowedRanges`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// NetworkClass says what a namespace's Networks may do with an operator's
// credentials: where, with which fields, and how many. A Network names a class
// in spec.className. Without any class, Networks may use private ranges and
// their own routers. A Network with spec.cloud has no class.
type NetworkClass struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what Networks of the class may do. An empty spec allows private
	// ranges and routers of the Networks' own.
	// +optional
	Spec NetworkClassSpec `json:"spec,omitempty"`
}

// NetworkClassSpec says what Networks of the class may do.
type NetworkClassSpec struct {
	// credentials are those of the class's cloud, in a Secret of the controller's
	// own namespace. The default is the controller's own credentials. They can
	// change later, to other credentials for the same project. With credentials
	// for another project, existing Networks of the class are Stalled.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	Credentials *ClassCredentials `json:"credentials,omitempty"`

	// namespaceSelector selects the namespaces whose Networks may use the class,
	// by their labels. The default is all namespaces. It can change later;
	// existing Networks stay.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:XValidation:rule=`!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])`,fieldPath=`.matchExpressions`,message=`not an operator: write In, NotIn, Exists or DoesNotExist`
	// +kubebuilder:validation:XValidation:rule=`!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['In', 'NotIn']) || has(e.values) && e.values.size() > 0)`,fieldPath=`.matchExpressions`,message=`In and NotIn compare with values: write one or more, or the operator Exists or DoesNotExist`
	// +kubebuilder:validation:XValidation:rule=`!has(self.matchExpressions) || self.matchExpressions.all(e, !(e.operator in ['Exists', 'DoesNotExist']) || !has(e.values) || e.values.size() == 0)`,fieldPath=`.matchExpressions`,message=`Exists and DoesNotExist compare with nothing: leave values out, or write the operator In or NotIn`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// allowedFields are the privileged fields that Networks of the class may set.
	// import: adopt or observe an existing network or floating IP. existingRouter:
	// attach to an existing router. sharedWith, shared, provider, external: the
	// fields of these names. snat, externalIP, ha, distributed: the fields of
	// these names in router; externalIP also allows the address of a floating IP.
	// allowedAddressPairs, portSecurity, floatingIP: the fields of these names of
	// NetworkPorts in the Network's namespace. endpoints: Services whose endpoints
	// are addresses on the Network. The default is none. They can change later;
	// existing Networks stay.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=14
	AllowedFields []PrivilegedField `json:"allowedFields,omitempty"`

	// allowedRanges are the ranges that contain the cidrs of the Networks, at most
	// 64. "0.0.0.0/0" and "::/0" together are all. A cidr from a subnet pool may
	// be any. An empty list is refused. The default is the private ranges
	// 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 and fc00::/7. They
	// can change later; existing Networks stay.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:items:XValidation:rule=`isCIDR(self)`,message=`not a CIDR: write a network address and a prefix length, such as "10.20.0.0/16", or "0.0.0.0/0" for all of IPv4`
	// +kubebuilder:validation:items:XValidation:rule=`$parsed(self, c).all(c, c == c.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	// +kubebuilder:validation:XValidation:rule=`self.all(r, !isCIDR(r) || self.exists_one(o, isCIDR(o) && cidr(o) == cidr(r)))`,message=`a range is listed twice: list it once`
	AllowedRanges []string `json:"allowedRanges,omitempty"`

	// defaults are for what a Network of the class leaves out. A Network keeps the
	// defaults that it was first applied with. A Network with import gets none.
	// An empty object means none. The default is none. They can change later;
	// existing Networks stay.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	Defaults *ClassDefaults `json:"defaults,omitempty"`

	// limits bound how much there may be. The oldest objects come first. An empty
	// object means no limit. The default is no limit. They can change later;
	// existing objects stay.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	Limits *ClassLimits `json:"limits,omitempty"`
}

// PrivilegedField is a field of a Network or a NetworkPort with which it touches what is not its own: see NetworkClassSpec.AllowedFields.
// +kubebuilder:validation:Enum=import;existingRouter;sharedWith;provider;external;shared;ha;distributed;externalIP;snat;allowedAddressPairs;portSecurity;floatingIP;endpoints
type PrivilegedField string

// The privileged fields.
const (
	// FieldImport is spec.import of a Network or a FloatingIP, with either management policy.
	FieldImport PrivilegedField = "import"
	// FieldExistingRouter is spec.router.existing.
	FieldExistingRouter PrivilegedField = "existingRouter"
	// FieldSharedWith is spec.sharedWith.
	FieldSharedWith PrivilegedField = "sharedWith"
	// FieldProvider is spec.provider.
	FieldProvider PrivilegedField = "provider"
	// FieldExternal is spec.external.
	FieldExternal PrivilegedField = "external"
	// FieldShared is spec.shared.
	FieldShared PrivilegedField = "shared"
	// FieldHA is spec.router.ha.
	FieldHA PrivilegedField = "ha"
	// FieldDistributed is spec.router.distributed.
	FieldDistributed PrivilegedField = "distributed"
	// FieldExternalIP is spec.router.externalIP, and the address of a floating IP.
	FieldExternalIP PrivilegedField = "externalIP"
	// FieldSNAT is spec.router.snat.
	FieldSNAT PrivilegedField = "snat"
	// FieldAddressPairs is spec.allowedAddressPairs of a NetworkPort.
	FieldAddressPairs PrivilegedField = "allowedAddressPairs"
	// FieldPortSecurity is spec.portSecurity of a NetworkPort with the value false.
	FieldPortSecurity PrivilegedField = "portSecurity"
	// FieldFloatingIP is spec.floatingIP of a NetworkPort.
	FieldFloatingIP PrivilegedField = "floatingIP"
	// FieldEndpoints is AnnotationEndpointsNetwork of a Service of the Network's namespace.
	FieldEndpoints PrivilegedField = "endpoints"
)

// ClassCredentials names the credentials of a cloud, in a Secret of the
// controller's own namespace.
type ClassCredentials struct {
	// secretName is the name of a Secret in the controller's own namespace, in the
	// form that spec.cloud of a Network describes. It must be set.
	// +neutron:attribute=none,mutable=true,privilege=operator
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')`,message=`not the name of a Secret: write one of the controller's namespace, such as "openstack"`
	SecretName string `json:"secretName"`

	// name is the entry in clouds.yaml. The default is the only entry.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isPrintable(self)`,message=`a control character is not allowed, because terminals may act on it: write the name of an entry below "clouds:" in clouds.yaml`
	Name string `json:"name,omitempty"`
}

// ClassDefaults are for what a Network leaves out.
type ClassDefaults struct {
	// mtu is for Networks without spec.mtu, 1280 to 65535. The default is the
	// cloud's choice. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU *int32 `json:"mtu,omitempty"`

	// dnsServers are for subnets without dnsServers, at most 16. A subnet gets
	// those of its own IP family. One from a subnet pool gets none. The default is
	// none. They can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule=`isIP(self)`,message=`not an address: write one such as "192.168.0.53" or "fd00:1::53"`
	// +kubebuilder:validation:XValidation:rule=`$addressesDiffer`,message=`an address is listed twice ("FD00::1" and "fd00::1" are the same one): list it once`
	DNSServers []string `json:"dnsServers,omitempty"`

	// router is for Networks without spec.router. An empty object means a router
	// of the Network's own without an external network. The default is none. It
	// can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +structType=atomic
	Router *ClassRouter `json:"router,omitempty"`

	// subnetPool is the id or name of the subnet pool for Networks that name the
	// class in className and have neither cidr nor subnetPool. The default is
	// none. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != '' && $isPrintable(self)`,message=`write the id or the name of a subnet pool, in printable text, or leave subnetPool out`
	SubnetPool string `json:"subnetPool,omitempty"`

	// securityGroups are the ids or names of the security groups for NetworkPorts
	// without spec.securityGroups, at most 16. The default is the cloud's choice,
	// as a rule the project's group "default". They can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:XValidation:rule=`self != '' && $isPrintable(self)`,message=`not a security group: write its id or its name`
	// +kubebuilder:validation:XValidation:rule=`self.all(g, self.exists_one(h, h == g))`,message=`a security group is listed twice: list it once`
	// +kubebuilder:validation:XValidation:rule=`self.map(g, bytes(g).size()).sum() <= 4096`,message=`the names are too long together: write at most 4096 bytes in all, or ids`
	SecurityGroups []string `json:"securityGroups,omitempty"`
}

// +kubebuilder:validation:XValidation:rule=`!has(self.existing) || !has(self.externalNetwork) && !has(self.snat) && !has(self.ha) && !has(self.distributed)`,fieldPath=`.existing`,message=`an existing router keeps its own settings: write existing alone, or leave it out to create a router for each Network`
// +kubebuilder:validation:XValidation:rule=`has(self.existing) || has(self.externalNetwork) || !has(self.snat)`,fieldPath=`.snat`,message=`snat needs an external network: write externalNetwork too, or leave snat out`

// ClassRouter is the router of Networks that declare none. The fields are those
// of spec.router of a Network. They need no allowedFields.
type ClassRouter struct {
	// existing is the id or name of an existing router for all these Networks. The
	// default is none: each Network gets its own router. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != ''`,message=`write the id or the name of a router, or leave existing out to create one for each Network`
	Existing string `json:"existing,omitempty"`

	// externalNetwork is the id or name of the routers' external network. The
	// default is none. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != ''`,message=`write the id or the name of an external network, or leave externalNetwork out for routers without one`
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// snat says whether the routers translate the addresses of hosts to their own
	// external address. The cloud chooses when it is unset. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	SNAT *bool `json:"snat,omitempty"`

	// ha says whether the routers run on several agents. The cloud chooses when it
	// is unset. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	HA *bool `json:"ha,omitempty"`

	// distributed says whether each compute host routes for its own servers. The
	// cloud chooses when it is unset. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	Distributed *bool `json:"distributed,omitempty"`
}

// ClassLimits bound how much there may be.
type ClassLimits struct {
	// networksPerNamespace is the number of Networks of the class in each
	// namespace, 0 to 100000. The default is no limit. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	NetworksPerNamespace *int32 `json:"networksPerNamespace,omitempty"`

	// securityGroupsPerNamespace is the number of SecurityGroups of the class in
	// each namespace, 0 to 100000. The default is no limit. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	SecurityGroupsPerNamespace *int32 `json:"securityGroupsPerNamespace,omitempty"`

	// floatingIPsPerNamespace is the number of FloatingIPs of the class in each
	// namespace, 0 to 100000. Those of a NetworkPort's own spec do not count. The
	// default is no limit. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	FloatingIPsPerNamespace *int32 `json:"floatingIPsPerNamespace,omitempty"`

	// portsPerNetwork is the number of NetworkPorts on each Network of the class,
	// 0 to 100000. The default is no limit. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	PortsPerNetwork *int32 `json:"portsPerNetwork,omitempty"`

	// portsPerDeployment is the number of NetworkPorts that one Deployment may
	// have on each Network of the class, 0 to 100000. The default is 1000. It can
	// change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=operator
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	PortsPerDeployment *int32 `json:"portsPerDeployment,omitempty"`
}

// AppliedClass is the class that a Network was applied with.
type AppliedClass struct {
	// name is the NetworkClass. It is empty for the rules of a cluster without
	// classes.
	// +optional
	Name string `json:"name,omitempty"`
	// defaults are those that the Network was first applied with. Later changes
	// of the class do not affect them.
	// +optional
	Defaults *ClassDefaults `json:"defaults,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// NetworkClassList is a list of NetworkClasses.
type NetworkClassList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the NetworkClasses.
	Items []NetworkClass `json:"items"`
}
