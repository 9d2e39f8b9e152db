package network

import (
	"errors"
	"fmt"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a Network's spec.
type declaration plan.Spec

// Plan is managed.Declaration's.
func (d declaration) Plan(observed plan.Observed) (plan.Change, error) {
	return plan.Network(plan.Spec(d), observed)
}

// Complete is managed.Declaration's.
func (d declaration) Complete(observed plan.Observed) bool {
	n, exists := observed.Network()
	if !exists {
		return false
	}
	for _, subnet := range plan.Spec(d).Allocated(n).Subnets {
		if _, exists := n.SubnetByCIDR(subnet.CIDR); !exists {
			return false
		}
	}
	return plan.Spec(d).Routed(observed)
}

// declare is managed.Kind's.
func declare(obj *cloudteamv1.Network, owner plan.Owner) (managed.Declaration, error) {
	spec, err := desired(obj, owner)
	return declaration(spec), err
}

// desired brings a Network's spec into the domain's canonical form. The API server refuses most of what cannot be
// parsed here; what came in another way gives *plan.FieldErrors, joined.
func desired(obj *cloudteamv1.Network, owner plan.Owner) (plan.Spec, error) {
	spec := plan.Spec{
		Owner:        owner,
		Name:         nameOf(obj),
		Description:  obj.Spec.Description,
		PortSecurity: obj.Spec.PortSecurity,
		Import:       desiredImport(obj),
	}
	errs := desiredProperties(obj.Spec, &spec)
	if obj.Spec.MTU != nil {
		spec.MTU = int(*obj.Spec.MTU)
		if spec.MTU == 0 {
			// To the domain 0 means unset, and a user who writes it means something else.
			errs = append(errs, &plan.FieldError{
				Field: plan.FieldMTU, Problem: "0 is out of range: leave the field out to have the cloud choose",
			})
		}
	}
	var bad []error
	for i, declared := range obj.Spec.Subnets() {
		subnet, err := desiredSubnet(declared, obj.Status.Subnets)
		bad = append(bad, plan.InSubnet(i, err))
		spec.Subnets = append(spec.Subnets, subnet)
	}
	if err := errors.Join(bad...); err != nil {
		errs = append(errs, err)
		spec.Subnets = nil // what is told of them is told above
	}
	router, err := desiredRouter(obj.Spec.Router)
	if err != nil {
		errs, router = append(errs, err), nil // half of it must not be held against the rules
	}
	spec.Router = router
	if err := errors.Join(append(errs, spec.Validate())...); err != nil {
		return plan.Spec{}, err
	}
	return spec, nil
}

// desiredSubnet brings what a Network says of one of its subnets into the domain's form. shown are the Network's
// subnets as its status tells them.
func desiredSubnet(s cloudteamv1.SubnetSpec, shown []cloudteamv1.SubnetStatus) (plan.Subnet, error) {
	var p parser
	subnet := plan.Subnet{
		From: desiredAllocation(s, shown), DHCP: s.DHCP == nil || *s.DHCP,
		IPv6AddressMode: plan.IPv6Mode(s.IPv6AddressMode), IPv6RAMode: plan.IPv6Mode(s.IPv6RAMode),
		ServiceTypes: s.ServiceTypes, DNSPublishFixedIP: s.DNSPublishFixedIP != nil && *s.DNSPublishFixedIP,
	}
	switch {
	case subnet.From == nil:
		subnet.CIDR = p.prefix("cidr", s.CIDR)
	case s.CIDR != "":
		p.refuse(plan.FieldSubnetPool, "a cidr is taken from the pool: leave one of both out")
	}
	switch {
	case s.Gateway == "" && subnet.CIDR.IsValid():
		subnet.Gateway = plan.DefaultGateway(subnet.CIDR)
	case s.Gateway != "" && s.Gateway != cloudteamv1.GatewayNone:
		subnet.Gateway = p.addr("gateway", s.Gateway)
	}
	for i, pool := range s.AllocationPools {
		field := fmt.Sprintf("allocationPools[%d]", i)
		subnet.Pools = append(subnet.Pools, plan.Range{
			Start: p.addr(field+".start", pool.Start), End: p.addr(field+".end", pool.End),
		})
	}
	for i, server := range s.DNSServers {
		subnet.DNSServers = append(subnet.DNSServers, p.addr(fmt.Sprintf("dnsServers[%d]", i), server))
	}
	subnet.HostRoutes = routes(&p, plan.FieldHostRoutes, s.HostRoutes)
	if err := p.err(); err != nil {
		return plan.Subnet{}, err
	}
	// Pools that overlap must be seen before the canonical form joins them.
	if err := subnet.Validate(); err != nil {
		return plan.Subnet{}, err
	}
	if len(subnet.Pools) == 0 {
		subnet.Pools = plan.DefaultPools(subnet.CIDR, subnet.Gateway)
	}
	return subnet.Canonical(), nil
}
