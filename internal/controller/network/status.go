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
	unresolved := func(d plan.Subnet) bool { return d.From != nil && d.From.Unresolved }
	keepPools := declared == nil || slices.ContainsFunc(spec.Subnets, unresolved)
	for _, s := range subnetsInOrder(n, spec.Subnets) {
		if !obj.Observes() && !owner.Owns(s.Description) {
			continue
		}
		gateway := cloudteamv1.GatewayNone
		if s.Gateway.IsValid() {
			gateway = s.Gateway.String()
		}
		shown := cloudteamv1.SubnetStatus{
			ID: s.ID, CIDR: s.CIDR.String(), Gateway: gateway,
			IPv6AddressMode: cloudteamv1.IPv6Mode(s.IPv6AddressMode), IPv6RAMode: cloudteamv1.IPv6Mode(s.IPv6RAMode),
			ServiceTypes: s.ServiceTypes,
		}
		if at := placeOf(s, spec.Subnets); at < len(spec.Subnets) && spec.Subnets[at].From != nil {
			shown.SubnetPool = spec.Subnets[at].From.Name
		}
		before := slices.IndexFunc(was, func(w cloudteamv1.SubnetStatus) bool { return w.ID == s.ID })
		if keepPools && before >= 0 && shown.SubnetPool == "" {
			shown.SubnetPool = was[before].SubnetPool
		}
		if usage, known := s.Usage(); known {
			shown.TotalAddresses, shown.UsedAddresses = &usage.Total, &usage.Used
		}
		status.Subnets = append(status.Subnets, shown)
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

// placeOf gives the index of a subnet among the declared ones. It is their number if the subnet is not declared.
func placeOf(s plan.ObservedSubnet, declared []plan.Subnet) int {
	at := slices.IndexFunc(declared, func(d plan.Subnet) bool { return d.CIDR == s.CIDR })
	if at < 0 {
		return len(declared)
	}
	return at
}

// subnetsInOrder gives the subnets of the network: the declared ones in the order of the spec, then the others by
// address.
func subnetsInOrder(n plan.ObservedNetwork, declared []plan.Subnet) []plan.ObservedSubnet {
	return slices.SortedFunc(slices.Values(n.Subnets), func(a, b plan.ObservedSubnet) int {
		return cmp.Or(cmp.Compare(placeOf(a, declared), placeOf(b, declared)), a.CIDR.Addr().Compare(b.CIDR.Addr()),
			cmp.Compare(a.ID, b.ID))
	})
}
