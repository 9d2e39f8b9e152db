package v1

import (
	"net/netip"
	"slices"
)

// Subnets are all that a Network declares: the one that stands directly in its spec, then the additional ones.
func (s *NetworkSpec) Subnets() []SubnetSpec {
	return slices.Concat([]SubnetSpec{s.SubnetSpec}, s.AdditionalSubnets)
}

// Declares reports whether the Network has a subnet that its status shows: one of the pool that its CIDR was taken from,
// by the spec's own name for it or the class's, or one of its CIDR, however that is spelled.
func (n *Network) Declares(shown SubnetStatus) bool {
	cidr, err := netip.ParsePrefix(shown.CIDR)
	return slices.ContainsFunc(n.Spec.Subnets(), func(declared SubnetSpec) bool {
		if declared.CIDR == "" && declared.SubnetPool == "" && n.Status.Class != nil && n.Status.Class.Defaults != nil {
			declared.SubnetPool = n.Status.Class.Defaults.SubnetPool
		}
		if declared.SubnetPool != "" {
			return declared.SubnetPool == shown.SubnetPool
		}
		prefix, malformed := netip.ParsePrefix(declared.CIDR)
		return err == nil && malformed == nil && prefix == cidr
	})
}
