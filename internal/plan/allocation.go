package plan

import (
	"cmp"
	"errors"
	"slices"
)

// errNotLookedUp is a spec that is planned with before its pools were looked up.
var errNotLookedUp = errors.New("a subnet pool is not known yet")

// notLookedUp reports whether a pool is not looked up yet.
func (s Spec) notLookedUp() bool {
	return slices.ContainsFunc(s.Subnets, func(s Subnet) bool {
		return s.From != nil && s.From.Pool.ID == "" && !s.From.Unresolved
	})
}

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
