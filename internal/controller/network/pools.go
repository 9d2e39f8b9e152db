package network

import (
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// subnetPoolOf is what the spec calls the subnet pool of an observed subnet; empty where the spec declares the CIDR, or
// does not have the subnet.
func subnetPoolOf(s plan.ObservedSubnet, declared []plan.Subnet) string {
	at := slices.IndexFunc(declared, func(d plan.Subnet) bool { return d.CIDR == s.CIDR && d.From != nil })
	if at < 0 {
		return ""
	}
	return declared[at].From.Name
}

// keepPools tells of subnets whose pools are not told what was told of these before.
func keepPools(subnets, was []cloudteamv1.SubnetStatus) {
	for i, s := range subnets {
		at := slices.IndexFunc(was, func(w cloudteamv1.SubnetStatus) bool { return w.ID == s.ID })
		if at >= 0 && s.SubnetPool == "" {
			subnets[i].SubnetPool = was[at].SubnetPool
		}
	}
}

// unresolvedPool reports whether it is not known which pool is meant of a subnet.
func unresolvedPool(s plan.Subnet) bool { return s.From != nil && s.From.Unresolved }
