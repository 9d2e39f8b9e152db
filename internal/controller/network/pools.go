package network

import (
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// subnetPoolOf gives the spec's name for the subnet pool of an observed subnet. It is empty if the spec declares the
// CIDR, or does not declare the subnet.
func subnetPoolOf(s plan.ObservedSubnet, declared []plan.Subnet) string {
	at := slices.IndexFunc(declared, func(d plan.Subnet) bool { return d.CIDR == s.CIDR && d.From != nil })
	if at < 0 {
		return ""
	}
	return declared[at].From.Name
}

// keepPools fills in the previous pool for subnets whose pool is unknown now.
func keepPools(subnets, was []cloudteamv1.SubnetStatus) {
	for i, s := range subnets {
		at := slices.IndexFunc(was, func(w cloudteamv1.SubnetStatus) bool { return w.ID == s.ID })
		if at >= 0 && s.SubnetPool == "" {
			subnets[i].SubnetPool = was[at].SubnetPool
		}
	}
}

// unresolvedPool reports whether the pool of a subnet could not be resolved.
func unresolvedPool(s plan.Subnet) bool { return s.From != nil && s.From.Unresolved }
