package network

import (
	"cmp"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// maxShown is the most subnets, service types and addresses that the status shows. A Network has eight subnets; a cloud
// may return any number.
const maxShown = 16

// show is the Kind's Show: it shows in the status what exists in Neutron. The declared subnets come first, in the order
// of the spec, then the others by address.
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
	var spec plan.Spec
	if d, ok := ownDeclaration(declared); ok {
		spec = d.Allocated(n)
	}
	unresolved := func(d plan.Subnet) bool { return d.From != nil && d.From.Unresolved }
	keepPools := declared == nil || slices.ContainsFunc(spec.Subnets, unresolved)
	place := func(s plan.ObservedSubnet) int {
		at := slices.IndexFunc(spec.Subnets, func(d plan.Subnet) bool { return d.CIDR == s.CIDR })
		if at < 0 {
			return len(spec.Subnets)
		}
		return at
	}
	for _, s := range slices.SortedFunc(slices.Values(n.Subnets), func(a, b plan.ObservedSubnet) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), a.CIDR.Addr().Compare(b.CIDR.Addr()), cmp.Compare(a.ID, b.ID))
	}) {
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
			ServiceTypes: s.ServiceTypes[:min(len(s.ServiceTypes), maxShown)],
		}
		if at := place(s); at < len(spec.Subnets) && spec.Subnets[at].From != nil {
			shown.SubnetPool = spec.Subnets[at].From.Name
		}
		before := slices.IndexFunc(was, func(w cloudteamv1.SubnetStatus) bool { return w.ID == s.ID })
		if keepPools && before >= 0 && shown.SubnetPool == "" {
			shown.SubnetPool = was[before].SubnetPool
		}
		if usage, known := s.Usage(); known {
			shown.TotalAddresses, shown.UsedAddresses = &usage.Total, &usage.Used
		}
		if status.Subnets = append(status.Subnets, shown); len(status.Subnets) == maxShown {
			return
		}
	}
}

// ownDeclaration gives the declaration of a Network, whether it is observed or not; ok is false if it is being deleted.
func ownDeclaration(declared managed.Declaration) (d declaration, ok bool) {
	switch declared := declared.(type) {
	case declaration:
		return declared, true
	case observing:
		return declared.declaration, true
	default:
		return declaration{}, false
	}
}

// routerStatus says which router serves the network: its own, or the one that has its interfaces.
func routerStatus(observed plan.Observed) *cloudteamv1.RouterStatus {
	if own, exists := observed.Router(); exists {
		status := &cloudteamv1.RouterStatus{ID: own.ID, ExternalNetworkID: own.Gateway.NetworkID}
		for _, a := range own.Gateway.Addresses[:min(len(own.Gateway.Addresses), maxShown)] {
			status.ExternalIPs = append(status.ExternalIPs, a.String())
		}
		return status
	}
	for _, p := range observed.Ports {
		if p.Router != "" {
			return &cloudteamv1.RouterStatus{ID: p.Router, Existing: true}
		}
	}
	return nil
}

// setClass writes by which class the Network was made, and what that class forbids of a Network that is kept. A
// Network that is being deleted keeps the record: it says with whose credentials to delete.
func setClass(obj *cloudteamv1.Network, declared managed.Declaration) {
	var forbids *controller.State
	if d, ok := ownDeclaration(declared); ok {
		obj.Status.Class, forbids = d.judged.With.DeepCopy(), d.judged.Forbids
	}
	managed.SetViolation(obj, &obj.Status.Conditions, forbids)
}
