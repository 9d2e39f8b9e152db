package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Names of the fields of a subnet whose CIDR comes from a subnet pool, as in the user's spec.
const (
	FieldSubnetPool   = "subnetPool"
	FieldPrefixLength = "prefixLength"
)

// SubnetPool is a subnet pool in Neutron, which supplies CIDRs.
type SubnetPool struct {
	ID string
	// IPVersion is 4 or 6.
	IPVersion int
	// MinPrefixLength and MaxPrefixLength limit a request. DefaultPrefixLength applies if the request has none.
	MinPrefixLength, MaxPrefixLength, DefaultPrefixLength int
}

// Allocation describes how a subnet gets a CIDR from a pool. Copies of a Subnet share it, so it MUST NOT be changed.
type Allocation struct {
	// Name is the pool's id or name in the spec.
	Name string
	// Pool is the pool of that name. It is zero until the lookup.
	Pool SubnetPool
	// PrefixLength is that of the CIDR. 0 leaves it to the pool; then any value is right.
	PrefixLength int
	// NoGateway is true for a subnet without a router. Otherwise the router has DefaultGateway.
	NoGateway bool
	// Unresolved is true if it is unknown which pool is meant. Pool is zero then. No subnet is created for it, and none
	// is deleted that may be meant.
	Unresolved bool
	// Given is the id of the subnet that last matched the declared one, or empty. It identifies that subnet while the
	// pool is Unresolved.
	Given string
}

// Pending reports whether the subnet still needs a CIDR from its pool. Gateway and Pools follow from the CIDR and are
// empty until then.
func (s Subnet) Pending() bool { return s.From != nil && !s.CIDR.IsValid() }

// unresolved reports whether the subnet is unknown: its pool is Unresolved and no subnet matched before.
func (s Subnet) unresolved() bool { return s.Pending() && s.From.Unresolved }

// prefixLength is that of the CIDR or of the request to the pool. It is 0 if neither is known.
func (s Subnet) prefixLength() int {
	if s.Pending() {
		return cmp.Or(s.From.PrefixLength, s.From.Pool.DefaultPrefixLength)
	}
	return s.CIDR.Bits()
}

// at returns the subnet with a CIDR from its pool. It adds the gateway and pools that Neutron derives from it
// (_allocate_any_subnet in neutron/ipam/subnet_alloc.py; the contract suite checks it).
func (s Subnet) at(cidr netip.Prefix) Subnet {
	s.CIDR, s.Gateway = cidr, netip.Addr{}
	if !s.From.NoGateway {
		s.Gateway = DefaultGateway(cidr)
	}
	s.Pools = DefaultPools(cidr, s.Gateway)
	return s
}

// validateAllocation refuses what the pool does not supply. It also refuses DNS servers and routes of the other IP
// version. Neutron accepts these (measured), but hosts cannot use them. The API server does not know the pool's
// version.
func (s Subnet) validateAllocation() error {
	pool, length := s.From.Pool, s.prefixLength()
	if pool.ID == "" {
		return nil
	}
	longest := 30
	if pool.IPVersion == 6 {
		longest = 126
	}
	least, most := max(1, pool.MinPrefixLength), min(longest, pool.MaxPrefixLength)
	mode, field := s.mode()
	switch {
	case length < least || length > most:
		return &FieldError{FieldPrefixLength, fmt.Sprintf("subnet pool %q gives no /%d to hosts: write %d to %d",
			s.From.Name, length, least, most)}
	case mode != "" && pool.IPVersion == 4:
		return &FieldError{field, fmt.Sprintf("only IPv6 has it, and subnet pool %q is of IPv4: leave it out", s.From.Name)}
	case SelfAddressed(mode, "") && length != selfAddressedBits:
		return &FieldError{FieldPrefixLength, fmt.Sprintf("hosts form their own addresses only in a /%d, and %s has "+
			"them: write such a prefix length, or %s", selfAddressedBits, mode, DHCPv6Stateful)}
	}
	for i, server := range s.DNSServers {
		if versionOf(server) != pool.IPVersion {
			return s.otherVersion(fmt.Sprintf("dnsServers[%d]", i), server)
		}
	}
	for i, route := range s.HostRoutes {
		if versionOf(route.Destination.Addr()) != pool.IPVersion || versionOf(route.NextHop) != pool.IPVersion {
			return s.otherVersion(fmt.Sprintf("hostRoutes[%d]", i), route)
		}
	}
	return nil
}

// otherVersion is the error for an address of the wrong IP version.
func (s Subnet) otherVersion(field string, value fmt.Stringer) error {
	return &FieldError{field, fmt.Sprintf("%s is not of IPv%d, as subnet pool %q is: write one of IPv%d",
		value, s.From.Pool.IPVersion, s.From.Name, s.From.Pool.IPVersion)}
}

// notLookedUp reports whether the lookup of a pool is still missing.
func (s Spec) notLookedUp() bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool {
		return s.From != nil && s.From.Pool.ID == "" && !s.From.Unresolved
	})
}

// doubtful reports whether an owned subnet that matches no declared subnet may still be a declared one. Two things are
// then true. The pool of a declared subnet is unknown. No declared subnet is known to come from this one's pool. The
// subnet and its ports then stay unchanged. The spec MUST be Allocated.
func (s Spec) doubtful(o ObservedSubnet) bool {
	if o.PoolID == "" || !slices.ContainsFunc(s.Subnets, Subnet.unresolved) {
		return false // the usual case
	}
	return !s.declares(o.CIDR) && !s.takesFrom(o.PoolID) && s.Owner.Owns(o.Description)
}

// takesFrom reports whether a declared subnet is known to come from the pool.
func (s Spec) takesFrom(poolID string) bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool { return s.From != nil && s.From.Pool.ID == poolID })
}

// Allocated fills in the CIDRs of subnets that come from pools, and what follows from a CIDR. It takes them from the
// network's subnets that come from the same pools. For an Unresolved pool it takes the subnet last seen. Subnets
// without a match stay Pending. The rest of the spec does not change.
//
// If several subnets come from one pool, it takes the oldest, and among equals the lowest id. So every replica of the
// controller chooses the same one.
func (s Spec) Allocated(n ObservedNetwork) Spec {
	return s.allocated(n, func(o ObservedSubnet) bool { return s.Owner.Owns(o.Description) || s.adoptable(o) })
}

// allocated is Allocated with a filter of the subnets that it may choose.
func (s Spec) allocated(n ObservedNetwork, may func(ObservedSubnet) bool) Spec {
	subnets := slices.Clone(s.Subnets)
	for i, declared := range subnets {
		// A subnet that differs in a fixed field does not match, except on an imported network, where nothing is replaced.
		fitting := slices.DeleteFunc(slices.Clone(n.Subnets), func(o ObservedSubnet) bool {
			return !s.mayBe(declared, o) || !may(o) || s.Import.ID == "" && !declared.Fits(o) ||
				declared.From.Unresolved && s.takesFrom(o.PoolID) // the unknown name may have meant that pool
		})
		if len(fitting) > 0 {
			subnets[i] = declared.at(slices.MinFunc(fitting, s.compareGiven).CIDR).Canonical()
		}
	}
	s.Subnets = subnets
	return s
}

// mayBe reports whether an observed subnet may be a declared one that is Pending: it comes from that pool, and no other
// declared subnet has its CIDR.
func (s Spec) mayBe(declared Subnet, o ObservedSubnet) bool {
	return declared.Pending() && o.isFrom(declared) && !s.declares(o.CIDR)
}

// compareGiven sorts subnets of the owner first, then those without an owner, then those of other owners. Within each
// group the older subnet comes first.
func (s Spec) compareGiven(a, b ObservedSubnet) int {
	rank := func(o ObservedSubnet) int {
		_, owner, marked := ParseDescription(o.Description)
		switch {
		case owner == s.Owner:
			return 0
		case !marked:
			return 1
		default:
			return 2
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Fits reports whether an observed subnet can match a declared one from a pool. It comes from the same pool and is
// equal in the fixed fields.
func (s Subnet) Fits(o ObservedSubnet) bool {
	return o.isFrom(s) && len(s.at(o.CIDR).fixedDifferences(o.Subnet)) == 0
}

// isFrom reports whether the subnet comes from the pool of a declared one. If that pool is Unresolved, it reports
// whether the subnet was the last match.
func (s ObservedSubnet) isFrom(declared Subnet) bool {
	switch {
	case declared.From == nil || s.PoolID == "":
		return false
	case declared.From.Unresolved:
		return s.ID == declared.From.Given
	default:
		return s.PoolID == declared.From.Pool.ID
	}
}
