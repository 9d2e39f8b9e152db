package v1

import (
	"net/netip"
	"slices"
)

// Subnets are all that a Network declares: the one that is directly in its spec, then the additional ones.
func (s *NetworkSpec) Subnets() []SubnetSpec {
	return slices.Concat([]SubnetSpec{s.SubnetSpec}, s.AdditionalSubnets)
}

// Declares reports whether the Network has a subnet that its status shows, as DeclaredAs finds it.
func (n *Network) Declares(shown SubnetStatus) bool { return n.DeclaredAs(shown) >= 0 }

// DeclaredAs gives the place in Subnets of a subnet that the status shows, or -1: the subnet of the pool that its CIDR
// was taken from, by the spec's own name for it or the class's, or the one of its CIDR, however that is spelled.
func (n *Network) DeclaredAs(shown SubnetStatus) int {
	cidr, err := netip.ParsePrefix(shown.CIDR)
	return slices.IndexFunc(n.Spec.Subnets(), func(declared SubnetSpec) bool {
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
