package v1

// IPv6Mode is a way in which hosts come to their IPv6 addresses, by Neutron's
// name.
// +kubebuilder:validation:Enum=slaac;dhcpv6-stateful;dhcpv6-stateless
type IPv6Mode string

const (
	// IPv6ModeSLAAC has each host make its address of its MAC and of what routers advertise (RFC 4862).
	IPv6ModeSLAAC IPv6Mode = "slaac"
	// IPv6ModeDHCPv6Stateful has hosts ask for their addresses (RFC 8415).
	IPv6ModeDHCPv6Stateful IPv6Mode = "dhcpv6-stateful"
	// IPv6ModeDHCPv6Stateless is SLAAC with DHCP for all but the address.
	IPv6ModeDHCPv6Stateless IPv6Mode = "dhcpv6-stateless"
)
