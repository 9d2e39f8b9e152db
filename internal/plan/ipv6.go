package plan

// IPv6Mode is a way in which hosts get their IPv6 addresses, by Neutron's name. The empty mode means that Neutron takes
// no part.
type IPv6Mode string

// The modes that Neutron knows (IPV6_MODES in neutron_lib/constants.py).
const (
	// SLAAC means that each host derives its address from its MAC and from router advertisements (RFC 4862).
	SLAAC IPv6Mode = "slaac"
	// DHCPv6Stateful means that hosts request their addresses by DHCP (RFC 8415).
	DHCPv6Stateful IPv6Mode = "dhcpv6-stateful"
	// DHCPv6Stateless means SLAAC for the address, DHCP for everything else.
	DHCPv6Stateless IPv6Mode = "dhcpv6-stateless"
)

// Names of a subnet's IPv6 fields, as in the user's spec.
const (
	FieldIPv6AddressMode = "ipv6AddressMode"
	FieldIPv6RAMode      = "ipv6RAMode"
)

// selfAddressedBits is the only prefix length in which hosts can generate their own addresses. The other half of the
// address is the host's (RFC 4291, section 2.5.1).
const selfAddressedBits = 64

// SelfAddressed reports whether ports derive their addresses in such a subnet from their MACs. Every port of the
// network then has such an address, requested or not, and cannot have another one there (is_auto_address_subnet in
// neutron/common/ipv6_utils.py; the contract suite checks it).
func SelfAddressed(addressMode, raMode IPv6Mode) bool {
	makes := func(mode IPv6Mode) bool { return mode == SLAAC || mode == DHCPv6Stateless }
	return makes(addressMode) || makes(raMode)
}

// AdvertisedByOthers reports whether hosts of such a subnet follow the advertisements of a router outside Neutron.
// Neutron attaches no port in such a subnet to a router (_validate_subnet_address_mode in neutron/db/l3_db.py; the
// contract suite checks it).
func AdvertisedByOthers(addressMode, raMode IPv6Mode) bool { return addressMode != "" && raMode == "" }
