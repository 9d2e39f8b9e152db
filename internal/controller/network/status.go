package network

import (
	"cmp"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// show is the Kind's Show: it shows in the status what exists in Neutron.
func show(
	obj *cloudteamv1.Network, declared managed.Declaration, owner plan.Owner, observed plan.Observed,
) {
	status := &obj.Status
	was := status.Subnets
	status.NetworkID, status.MTU, status.Subnets, status.Router = "", 0, nil, routerStatus(observed)
	n, exists := observed.Network()
	if !exists {
		return
	}
	status.NetworkID = n.ID
	status.MTU = int32(n.MTU)
	spec := declaredSpec(declared).Allocated(n)
	ours := func(s plan.ObservedSubnet) bool { return obj.Observes() || owner.Owns(s.Description) }
	for _, s := range subnetsInOrder(n, ours, spec.Subnets) {
		gateway := cloudteamv1.GatewayNone
		if s.Gateway.IsValid() {
			gateway = s.Gateway.String()
		}
		shown := cloudteamv1.SubnetStatus{
			ID: s.ID, CIDR: s.CIDR.String(), SubnetPool: subnetPoolOf(s, spec.Subnets), Gateway: gateway,
			IPv6AddressMode: cloudteamv1.IPv6Mode(s.IPv6AddressMode), IPv6RAMode: cloudteamv1.IPv6Mode(s.IPv6RAMode),
			ServiceTypes: s.ServiceTypes,
		}
		if usage, known := s.Usage(); known {
			shown.TotalAddresses, shown.UsedAddresses = &usage.Total, &usage.Used
		}
		status.Subnets = append(status.Subnets, shown)
	}
	if declared == nil || slices.ContainsFunc(spec.Subnets, unresolvedPool) {
		keepPools(status.Subnets, was)
	}
}

// declaredSpec gives the spec of a declaration; empty if there is none.
func declaredSpec(declared managed.Declaration) plan.Spec {
	switch d := declared.(type) {
	case declaration:
		return plan.Spec(d)
	case observing:
		return plan.Spec(d.declaration)
	}
	return plan.Spec{}
}

// subnetsInOrder gives our subnets of the network: the declared ones in the order of the spec, then the others by
// address.
func subnetsInOrder(
	n plan.ObservedNetwork, isOurs func(plan.ObservedSubnet) bool, declared []plan.Subnet,
) []plan.ObservedSubnet {
	place := func(s plan.ObservedSubnet) int {
		at := slices.IndexFunc(declared, func(d plan.Subnet) bool { return d.CIDR == s.CIDR })
		if at < 0 {
			return len(declared)
		}
		return at
	}
	var ours []plan.ObservedSubnet
	for _, s := range n.Subnets {
		if isOurs(s) {
			ours = append(ours, s)
		}
	}
	slices.SortFunc(ours, func(a, b plan.ObservedSubnet) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), a.CIDR.Addr().Compare(b.CIDR.Addr()), cmp.Compare(a.ID, b.ID))
	})
	return ours
}
