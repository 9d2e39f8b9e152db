package plan

import (
	"cmp"
	"errors"
	"slices"
)

// errNotLookedUp says that the spec's subnet pools were not looked up before planning.
var errNotLookedUp = errors.New("a subnet pool is not known yet")

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
	_, declared := declaredSubnet(s, o.CIDR)
	return !declared && !s.takesFrom(o.PoolID) && s.Owner.Owns(o.Description)
}

// takesFrom reports whether a declared subnet is known to come from the pool.
func (s Spec) takesFrom(poolID string) bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool { return s.From != nil && s.From.Pool.ID == poolID })
}

// pending reports whether a declared subnet has no CIDR yet.
func (s Spec) pending() bool { return slices.ContainsFunc(s.Subnets, Subnet.Pending) }

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

// given finds the subnet that matches a declared subnet from a pool. A subnet that differs in a fixed field does not
// match, except on an imported network, where nothing is replaced.
func (s Spec) given(
	n ObservedNetwork, declared Subnet, may func(ObservedSubnet) bool,
) (oldest ObservedSubnet, exists bool) {
	for _, o := range n.Subnets {
		if _, byCIDR := declaredSubnet(s, o.CIDR); byCIDR || !o.isFrom(declared) || !may(o) {
			continue
		}
		if declared.From.Unresolved && s.takesFrom(o.PoolID) {
			continue // the unknown name may have meant that pool
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

// superfluous is the reason to delete an owned subnet that matches no declared subnet.
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
