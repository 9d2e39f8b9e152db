package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Names of the fields of a subnet whose CIDR comes from a subnet pool, as the user writes them in a spec.
const (
	FieldSubnetPool   = "subnetPool"
	FieldPrefixLength = "prefixLength"
)

// SubnetPool is a subnet pool in Neutron, from which it takes CIDRs.
type SubnetPool struct {
	ID string
	// IPVersion is 4 or 6.
	IPVersion int
	// MinPrefixLength and MaxPrefixLength bound what may be asked for; DefaultPrefixLength is what comes of not asking.
	MinPrefixLength, MaxPrefixLength, DefaultPrefixLength int
}

// Allocation is how a subnet comes to a CIDR that is not declared. It is shared between copies of a Subnet and MUST NOT
// be changed.
type Allocation struct {
	// Name is what the spec calls the pool: its id or its name.
	Name string
	// Pool is the pool of that name; the zero value until it was looked up.
	Pool SubnetPool
	// PrefixLength is that of the CIDR; 0 leaves it to the pool, and then any is right.
	PrefixLength int
	// NoGateway is true of a subnet without a router. Otherwise the router has DefaultGateway.
	NoGateway bool
	// Unresolved is true where it is not known which pool is meant, and Pool is zero then: no subnet is made for it, and
	// none goes that may be meant.
	Unresolved bool
	// Given is the id of the subnet that was last seen to stand for the declared one; empty where none was. Where the pool
	// is Unresolved it is what tells that subnet.
	Given string
}

// Pending reports whether the subnet's CIDR is yet to be taken from its pool. Gateway and Pools, which follow from the
// CIDR, are empty as long.
func (s Subnet) Pending() bool { return s.From != nil && !s.CIDR.IsValid() }

// Origin is the CIDR, and the pool that it comes from.
func (s Subnet) Origin() string {
	switch {
	case s.From == nil:
		return s.CIDR.String()
	case s.Pending():
		return "from subnet pool " + strconv.Quote(s.From.Name)
	default:
		return s.CIDR.String() + " from subnet pool " + strconv.Quote(s.From.Name)
	}
}

// IPVersion is 4 or 6, or 0 where the pool is not known yet that the CIDR is to come from.
func (s Subnet) IPVersion() int {
	switch {
	case s.Pending():
		return s.From.Pool.IPVersion
	case !s.CIDR.IsValid():
		return 0
	case s.CIDR.Addr().Is4():
		return 4
	default:
		return 6
	}
}

// prefixLength is that of the CIDR, or what the pool is asked for; 0 where neither is known.
func (s Subnet) prefixLength() int {
	if s.Pending() {
		return cmp.Or(s.From.PrefixLength, s.From.Pool.DefaultPrefixLength)
	}
	return s.CIDR.Bits()
}

// resource is what a Difference of the subnet is of.
func (s Subnet) resource() string {
	if s.Pending() {
		return "subnet " + s.Origin()
	}
	return subnetResource(s.CIDR)
}

// at is the subnet with a CIDR from its pool, and with the gateway and the pools that follow from that. They are the
// ones that Neutron gives it (_allocate_any_subnet in neutron/ipam/subnet_alloc.py; the contract suite holds it).
func (s Subnet) at(cidr netip.Prefix) Subnet {
	s.CIDR, s.Gateway = cidr, netip.Addr{}
	if !s.From.NoGateway {
		s.Gateway = DefaultGateway(cidr)
	}
	s.Pools = DefaultPools(cidr, s.Gateway)
	return s
}

// afresh is the subnet as it is declared: with a CIDR that is yet to come, where that is to come from a pool.
func (s Subnet) afresh() Subnet {
	if s.From != nil {
		s.CIDR, s.Gateway, s.Pools = netip.Prefix{}, netip.Addr{}, nil
	}
	return s
}

// cidrField is the field that a CIDR which is not fit comes from.
func (s Subnet) cidrField() string {
	if s.From != nil {
		return FieldSubnetPool
	}
	return "cidr"
}

// validateAllocation refuses what the pool does not give.
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
		return &FieldError{FieldPrefixLength, fmt.Sprintf("hosts make addresses of their own only in a /%d, and %s has them: "+
			"write such a prefix length, or %s", selfAddressedBits, mode, DHCPv6Stateful)}
	}
	return nil
}

// allocationDifferences are the differences in what a subnet from a pool keeps for good.
func (s Subnet) allocationDifferences(actual Subnet) []Difference {
	if s.From == nil || s.From.PrefixLength == 0 || s.From.PrefixLength == actual.CIDR.Bits() {
		return nil
	}
	return []Difference{{
		subnetResource(actual.CIDR), FieldPrefixLength, strconv.Itoa(s.From.PrefixLength), strconv.Itoa(actual.CIDR.Bits()),
	}}
}

// validateAllocations refuses two subnets from one pool: nothing but the pool tells them from each other.
func (s Spec) validateAllocations() (errs []error) {
	known := map[string]bool{}
	for i, subnet := range s.Subnets {
		if subnet.From == nil {
			continue
		}
		name := cmp.Or(subnet.From.Pool.ID, subnet.From.Name)
		if known[name] {
			errs = append(errs, InSubnet(i, &FieldError{FieldSubnetPool, fmt.Sprintf(
				"another subnet is from subnet pool %q: write another pool, or one subnet with a shorter prefixLength",
				subnet.From.Name)}))
		}
		known[name] = true
	}
	return errs
}

// errNotLookedUp is a spec that is planned with before its pools were looked up.
var errNotLookedUp = errors.New("a subnet pool is not known yet")

// notLookedUp reports whether a pool is not looked up yet.
func (s Spec) notLookedUp() bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool {
		return s.From != nil && s.From.Pool.ID == "" && !s.From.Unresolved
	})
}

// unresolved reports whether it is not known which subnet is meant, as its pool is Unresolved and none was seen before.
func (s Subnet) unresolved() bool { return s.Pending() && s.From.Unresolved }

// doubtful reports whether a subnet of ours that stands for no declared one may be meant all the same: it is from a
// pool that no declared subnet is known to be from, while it is not known of one which pool that is. It stays as it is,
// and so do its ports. The spec has to be Allocated.
func (s Spec) doubtful(o ObservedSubnet) bool {
	if o.PoolID == "" || !slices.ContainsFunc(s.Subnets, Subnet.unresolved) {
		return false // as a rule
	}
	_, declared := declaredSubnet(s, o.CIDR)
	return !declared && !s.takesFrom(o.PoolID) && s.Owner.Owns(o.Description)
}

// takesFrom reports whether a declared subnet is known to be from a pool.
func (s Spec) takesFrom(poolID string) bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool { return s.From != nil && s.From.Pool.ID == poolID })
}

// pending reports whether a subnet has no CIDR yet.
func (s Spec) pending() bool { return slices.ContainsFunc(s.Subnets, Subnet.Pending) }

// Allocated is the spec for a network that is there: its subnets from pools have the CIDRs, and what follows from
// these, of those that the network has from the same pools, or that were last seen where a pool is Unresolved. Others
// stay Pending. What else a spec says does not change.
//
// Of several from one pool, ours is the oldest, and of equals the one with the lowest id, so that every replica of the
// controller picks the same one.
func (s Spec) Allocated(n ObservedNetwork) Spec {
	return s.allocated(n, func(o ObservedSubnet) bool { return s.Owner.Owns(o.Description) || s.adoptable(o) })
}

// allocated is Allocated with the subnets that may be the spec's.
func (s Spec) allocated(n ObservedNetwork, may func(ObservedSubnet) bool) Spec {
	if !s.pending() {
		return s
	}
	subnets := slices.Clone(s.Subnets)
	for i, subnet := range subnets {
		if !subnet.Pending() {
			continue
		}
		if given, exists := s.given(n, subnet, may); exists {
			subnets[i] = subnet.at(given.CIDR).Canonical()
		}
	}
	s.Subnets = subnets
	return s
}

// given finds the subnet that stands for a declared one from a pool. One that differs in what cannot change is none,
// except of an imported network, of which nothing is made anew.
func (s Spec) given(
	n ObservedNetwork, declared Subnet, may func(ObservedSubnet) bool,
) (oldest ObservedSubnet, exists bool) {
	for _, o := range n.Subnets {
		if _, byCIDR := declaredSubnet(s, o.CIDR); byCIDR || !o.isFrom(declared) || !may(o) {
			continue
		}
		if declared.From.Unresolved && s.takesFrom(o.PoolID) {
			continue // the name may have been that pool's
		}
		if s.Import.ID == "" && !declared.Fits(o) {
			continue
		}
		if !exists || s.compareGiven(o, oldest) < 0 {
			oldest, exists = o, true
		}
	}
	return oldest, exists
}

// compareGiven sorts what is the owner's before what is nobody's, that before what is another's, and the older subnet
// first.
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

// Fits reports whether a subnet is one that a declared one from a pool can stand for: from the same pool, and alike in
// what cannot change.
func (s Subnet) Fits(o ObservedSubnet) bool {
	return o.isFrom(s) && len(s.at(o.CIDR).fixedDifferences(o.Subnet)) == 0
}

// isFrom reports whether the subnet is from the pool of a declared one, or was last seen to be where that pool is
// Unresolved.
func (o ObservedSubnet) isFrom(declared Subnet) bool {
	switch {
	case declared.From == nil || o.PoolID == "":
		return false
	case declared.From.Unresolved:
		return o.ID == declared.From.Given
	default:
		return o.PoolID == declared.From.Pool.ID
	}
}

// superfluous says why a subnet of ours goes that stands for no declared one.
func (s Spec) superfluous(o ObservedSubnet) string {
	for _, declared := range s.Subnets {
		switch {
		case !o.isFrom(declared) || declared.unresolved():
		case declared.Pending():
			return reasonFixed
		default:
			return "it is a duplicate of the subnet " + declared.CIDR.String() + " from its pool"
		}
	}
	return "it is ours and no longer declared"
}

// planAllocation has a subnet created from its pool. Where the network has one of the pool that is not ours, ours may
// have lost its marker: a second one would leave what uses it behind.
func planAllocation(spec Spec, n ObservedNetwork, declared Subnet) (Step, error) {
	for _, o := range n.Subnets {
		if _, byCIDR := declaredSubnet(spec, o.CIDR); !byCIDR && o.isFrom(declared) && !spec.Owner.Owns(o.Description) {
			return Step{}, &BlockedError{fmt.Sprintf("network %s holds subnet %s (%s) from subnet pool %q, which does not bear "+
				"the marker %s: delete that subnet, or end its description with the marker",
				n.ID, o.ID, o.CIDR, declared.From.Name, spec.Owner)}
		}
	}
	return createSubnet(spec, Ref{ID: n.ID}, declared), nil
}

// barredBy reports whether a subnet that the step creates is one that Neutron refuses while another, which is to go, is
// there: all subnets of one IP version on a network are from one pool, or none is (_validate_network_subnetpools in
// neutron/db/ipam_backend_mixin.py; the contract suite holds it). By address scopes a cloud may allow more. There, too,
// such a subnet comes when the other has gone.
func (s Step) barredBy(going Step) bool {
	pool := ""
	if s.Subnet.From != nil {
		pool = s.Subnet.From.Pool.ID
	}
	return s.Subnet.IPVersion() == going.Subnet.IPVersion() && pool != going.PoolID
}
