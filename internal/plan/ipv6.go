package plan

// IPv6Mode is a way in which hosts come to their IPv6 addresses, by Neutron's name. The empty one says that Neutron has
// no part in it.
type IPv6Mode string

// The modes that Neutron knows (IPV6_MODES in neutron_lib/constants.py).
const (
	// SLAAC has each host make its address of its MAC and of what routers advertise (RFC 4862).
	SLAAC IPv6Mode = "slaac"
	// DHCPv6Stateful has hosts ask for their addresses (RFC 8415).
	DHCPv6Stateful IPv6Mode = "dhcpv6-stateful"
	// DHCPv6Stateless is SLAAC with DHCP for all but the address.
	DHCPv6Stateless IPv6Mode = "dhcpv6-stateless"
)

// Names of a subnet's IPv6 fields, as the user writes them in a spec.
const (
	FieldIPv6AddressMode = "ipv6AddressMode"
	FieldIPv6RAMode      = "ipv6RAMode"
)

// selfAddressedBits is the length of the prefixes in which hosts can make addresses of their own, whose other half is
// the host's (RFC 4291, section 2.5.1).
const selfAddressedBits = 64

// SelfAddressed reports whether ports make their addresses in a subnet of these modes, of their MACs: each port of the
// network then has one there, whoever asks for it, and can be given no other (is_auto_address_subnet in
// neutron/common/ipv6_utils.py; the contract suite holds it).
func SelfAddressed(addressMode, raMode IPv6Mode) bool {
	makes := func(mode IPv6Mode) bool { return mode == SLAAC || mode == DHCPv6Stateless }
	return makes(addressMode) || makes(raMode)
}

// AdvertisedByOthers reports whether hosts of a subnet of these modes go by the advertisements of a router that is not
// Neutron's: Neutron makes a port that is in one no router's interface (_validate_subnet_address_mode in
// neutron/db/l3_db.py; the contract suite holds it).
func AdvertisedByOthers(addressMode, raMode IPv6Mode) bool { return addressMode != "" && raMode == "" }
