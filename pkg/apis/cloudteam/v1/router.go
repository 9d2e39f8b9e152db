package v1

// A $name in a rule is a fragment; see SubnetSpec.
// +kubebuilder:validation:XValidation:rule=`!has(self.existing) || !has(self.externalNetwork) && !has(self.snat) && !has(self.externalIP) && (!has(self.routes) || self.routes.size() == 0) && !has(self.ha) && !has(self.distributed)`,fieldPath=`.existing`,message=`an existing router keeps its own settings: write existing alone, or leave it out to create a router`
// +kubebuilder:validation:XValidation:rule=`has(self.existing) || has(self.externalNetwork) || !has(self.snat)`,fieldPath=`.snat`,message=`snat needs an external network: write externalNetwork too, or leave snat out`
// +kubebuilder:validation:XValidation:rule=`has(self.existing) || has(self.externalNetwork) || !has(self.externalIP)`,fieldPath=`.externalIP`,message=`externalIP needs an external network: write externalNetwork too, or leave externalIP out`
//
// Neutron changes ha and distributed only while a router's admin state is down (l3_hamode_db.py and l3_dvr_db.py in
// neutron/db). A Network's router is up.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.ha) || has(self.existing) || has(oldSelf.existing) || has(oldSelf.ha) && self.ha == oldSelf.ha`,fieldPath=`.ha`,messageExpression=`'it can neither change nor be added while the router exists: %s, or remove router, wait until status.router is gone, and add it again'.format([$writeValueAgain(oldSelf.ha)])`
// +kubebuilder:validation:XValidation:rule=`!has(self.distributed) || has(self.existing) || has(oldSelf.existing) || has(oldSelf.distributed) && self.distributed == oldSelf.distributed`,fieldPath=`.distributed`,messageExpression=`'it can neither change nor be added while the router exists: %s, or remove router, wait until status.router is gone, and add it again'.format([$writeValueAgain(oldSelf.distributed)])`

// RouterSpec declares the router of a network. It has an interface on each of
// the network's subnets that has a gateway, with the gateway's address.
type RouterSpec struct {
	// existing is the id or name of an existing router. The network's subnets are
	// attached to it; the router's own settings do not change. The default is
	// none: the network gets its own router, which is deleted with it. It can
	// change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != ''`,message=`write the id or the name of a router, or leave existing out to create one`
	Existing string `json:"existing,omitempty"`

	// externalNetwork is the id or name of the router's external network. The
	// default is none: the router connects only the network's own subnets, and
	// what others attach to it. It can change later.
	// +neutron:attribute=router.external_gateway_info.network_id,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`self != ''`,message=`write the id or the name of an external network, or leave externalNetwork out for a router without one`
	ExternalNetwork string `json:"externalNetwork,omitempty"`

	// snat says whether the router translates the addresses of hosts to its own
	// external address. The cloud chooses when it is unset. By Neutron's default
	// policy, only administrators may set it. It can change later.
	// +neutron:attribute=router.external_gateway_info.enable_snat,mutable=true,removed=kept,privilege=admin
	// +optional
	SNAT *bool `json:"snat,omitempty"`

	// externalIP is the router's address on the external network. The cloud
	// chooses when it is unset. By Neutron's default policy, only administrators
	// may set it. It can change later.
	// +neutron:attribute=router.external_gateway_info.external_fixed_ips,mutable=true,removed=kept,privilege=admin
	// +optional
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`$isAddress(self)`,message=`not an address: write one such as "203.0.113.10" or "2001:db8::10"`
	ExternalIP string `json:"externalIP,omitempty"`

	// routes are the router's static routes, at most 30. A cloud may allow fewer:
	// Neutron's default limit is 30. The router must have an interface or its
	// gateway on the subnet of each next hop. The default is none. They can change
	// later.
	// +neutron:attribute=router.routes,mutable=true,removed=default,privilege=tenant
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule=`$routesDiffer`,message=`a route is listed twice ("FD00::/64" and "fd00::/64" are the same destination): list it once`
	// +kubebuilder:validation:XValidation:rule=`self.all(r, !isCIDR(r.destination) || !isIP(r.nextHop) || cidr(r.destination).ip().family() == ip(r.nextHop).family())`,message=`a route has an IPv4 destination and an IPv6 next hop, or the other way round: write both of one family`
	Routes []RouterRoute `json:"routes,omitempty"`

	// ha says whether the router runs on several agents, so that another one takes
	// over if one fails. The cloud chooses when it is unset. It can be removed,
	// but neither changed nor added while the router exists. By Neutron's default
	// policy, only administrators may set it. The cloud needs Neutron's extension
	// l3-ha.
	// +neutron:attribute=router.ha,mutable=false,removed=kept,privilege=admin
	// +optional
	HA *bool `json:"ha,omitempty"`

	// distributed says whether each compute host routes for its own servers. The
	// cloud chooses when it is unset. It can be removed, but neither changed nor
	// added while the router exists. By Neutron's default policy, only
	// administrators may set it. The cloud needs Neutron's extension dvr.
	// +neutron:attribute=router.distributed,mutable=false,removed=kept,privilege=admin
	// +optional
	Distributed *bool `json:"distributed,omitempty"`
}

// RouterRoute is a route of a router.
type RouterRoute struct {
	// destination is the network that the route is for, such as
	// 10.1.0.0/16 or fd00:2::/64. 0.0.0.0/0 and ::/0 are a default route.
	// +neutron:attribute=router.routes.destination,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule=`isCIDR(self)`,message=`not a CIDR: write a network address and a prefix length, such as "10.1.0.0/16" or "fd00:2::/64"`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, d).all(d, d == d.masked())`,messageExpression=`'host bits are set: write "%s"'.format([string(cidr(self).masked())])`
	// +kubebuilder:validation:XValidation:rule=`$parsed(self, d).all(d, !(d == d.masked()) || !['127.0.0.0/8', '::1/128'].exists(r, cidr(r).containsCIDR(d)))`,message=`a loopback range cannot be routed: write a range that other hosts have`
	Destination string `json:"destination"`
	// nextHop is the address of the next router.
	// +neutron:attribute=router.routes.nexthop,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule=`isIP(self)`,message=`not an address: write one such as "192.168.0.254" or "fd00:1::fe"`
	NextHop string `json:"nextHop"`
}

// RouterStatus is the observed state of a network's router.
type RouterStatus struct {
	// id is the router's id in Neutron.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// existing is true when the router is not the network's own.
	// +optional
	Existing bool `json:"existing,omitempty"`
	// externalNetworkID is the id of the external network that the network's
	// own router connects to.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ExternalNetworkID string `json:"externalNetworkID,omitempty"`
	// externalIPs are the external addresses of the network's own router.
	// +optional
	// +listType=atomic
	ExternalIPs []string `json:"externalIPs,omitempty"`
}
