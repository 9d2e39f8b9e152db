package plan

import "cmp"

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

// validateModes refuses what Neutron does (_validate_ipv6_attributes in neutron/db/db_base_plugin_v2.py).
func (s Subnet) validateModes(refuse func(field, format string, args ...any)) {
	if s.IPv6AddressMode == "" && s.IPv6RAMode == "" {
		return
	}
	known := func(field string, mode IPv6Mode) {
		switch mode {
		case "", SLAAC, DHCPv6Stateful, DHCPv6Stateless:
		default:
			refuse(field, "%q is none: write %s, %s or %s", string(mode), SLAAC, DHCPv6Stateful, DHCPv6Stateless)
		}
	}
	known(FieldIPv6AddressMode, s.IPv6AddressMode)
	known(FieldIPv6RAMode, s.IPv6RAMode)
	field := FieldIPv6AddressMode
	if s.IPv6AddressMode == "" {
		field = FieldIPv6RAMode
	}
	switch {
	case s.IPVersion() == 4:
		refuse(field, "only IPv6 has it: leave it out, or write an IPv6 cidr")
	case s.IPv6AddressMode != "" && s.IPv6RAMode != "" && s.IPv6AddressMode != s.IPv6RAMode:
		refuse(FieldIPv6RAMode, "%s does not go with %s %s: write the same in both, or leave one out",
			s.IPv6RAMode, FieldIPv6AddressMode, s.IPv6AddressMode)
	case SelfAddressed(s.IPv6AddressMode, s.IPv6RAMode) && !s.fitsSelfAddressed():
		field := "cidr"
		if s.From != nil {
			field = FieldPrefixLength
		}
		refuse(field, "hosts make addresses of their own only in a /%d, and %s has them: write such a prefix length, or %s",
			selfAddressedBits, cmp.Or(s.IPv6AddressMode, s.IPv6RAMode), DHCPv6Stateful)
	}
	if !s.DHCP {
		refuse(FieldDHCP, "a subnet with %s needs it: write true, or leave out the mode", field)
	}
}

// fitsSelfAddressed reports whether hosts can make addresses of their own in the subnet. Of a CIDR that is yet to come,
// what the pool is asked for decides, where that is known; of one that has come from a pool, nothing does any more.
func (s Subnet) fitsSelfAddressed() bool {
	return s.prefixLength() == selfAddressedBits || s.From != nil && (s.IPVersion() == 0 || !s.Pending())
}

// fixedDifferences are the differences in what is fixed when Neutron makes a subnet.
func (s Subnet) fixedDifferences(actual Subnet) []Difference {
	diffs := s.allocationDifferences(actual)
	add := func(field string, declared, got IPv6Mode) {
		if declared != got {
			diffs = append(diffs, Difference{
				subnetResource(s.CIDR), field, cmp.Or(string(declared), None), cmp.Or(string(got), None),
			})
		}
	}
	add(FieldIPv6AddressMode, s.IPv6AddressMode, actual.IPv6AddressMode)
	add(FieldIPv6RAMode, s.IPv6RAMode, actual.IPv6RAMode)
	return diffs
}
