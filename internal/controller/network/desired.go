package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// declaration is a Network's spec.
type declaration network.Spec

// Plan is owned.Declaration's.
func (d declaration) Plan(observed network.Observed) (network.Change, error) {
	return network.Plan(network.Spec(d), observed)
}

// Complete is owned.Declaration's.
func (d declaration) Complete(observed network.Observed) bool {
	n, exists := observed.Network()
	if !exists {
		return false
	}
	for _, subnet := range d.Subnets {
		if _, exists := n.SubnetByCIDR(subnet.CIDR); !exists {
			return false
		}
	}
	return network.Spec(d).Routed(observed)
}

// declare is owned.Kind's.
func declare(obj *cloudteamv1.Network, owner network.Owner) (owned.Declaration, error) {
	spec, err := desired(obj, owner)
	return declaration(spec), err
}

// desired brings a Network's spec into the domain's canonical form. The API server refuses most of what cannot be
// parsed here; what came in another way gives *network.FieldErrors, joined.
func desired(obj *cloudteamv1.Network, owner network.Owner) (network.Spec, error) {
	spec := network.Spec{
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
			errs = append(errs, &network.FieldError{
				Field: network.FieldMTU, Problem: "0 is out of range: leave the field out to have the cloud choose",
			})
		}
	}
	var bad []error
	for i, declared := range slices.Concat([]cloudteamv1.SubnetSpec{obj.Spec.SubnetSpec}, obj.Spec.AdditionalSubnets) {
		subnet, err := desiredSubnet(declared)
		bad = append(bad, network.InSubnet(i, err))
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
		return network.Spec{}, err
	}
	return spec, nil
}

func desiredSubnet(s cloudteamv1.SubnetSpec) (network.Subnet, error) {
	var errs []error
	refuse := func(field, format string, args ...any) {
		errs = append(errs, &network.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	addr := func(field, text string) netip.Addr {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4In6() {
			refuse(field, "%q is no address: write one such as 192.168.0.1 or fd00::1", text)
			return netip.Addr{}
		}
		return a
	}
	prefix := func(field, text string) netip.Prefix {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			refuse(field, "%q is no CIDR: write a network address and prefix length, such as 192.168.0.0/16", text)
			return netip.Prefix{}
		}
		return p
	}

	subnet := network.Subnet{
		CIDR: prefix("cidr", s.CIDR), DHCP: s.DHCP == nil || *s.DHCP,
		IPv6AddressMode: network.IPv6Mode(s.IPv6AddressMode), IPv6RAMode: network.IPv6Mode(s.IPv6RAMode),
	}
	switch {
	case s.Gateway == "" && subnet.CIDR.IsValid():
		subnet.Gateway = network.DefaultGateway(subnet.CIDR)
	case s.Gateway != "" && s.Gateway != cloudteamv1.GatewayNone:
		subnet.Gateway = addr("gateway", s.Gateway)
	}
	for i, pool := range s.AllocationPools {
		field := fmt.Sprintf("allocationPools[%d]", i)
		subnet.Pools = append(subnet.Pools, network.Range{
			Start: addr(field+".start", pool.Start), End: addr(field+".end", pool.End),
		})
	}
	for i, server := range s.DNSServers {
		subnet.DNSServers = append(subnet.DNSServers, addr(fmt.Sprintf("dnsServers[%d]", i), server))
	}
	for i, route := range s.HostRoutes {
		field := fmt.Sprintf("hostRoutes[%d]", i)
		subnet.HostRoutes = append(subnet.HostRoutes, network.Route{
			Destination: prefix(field+".destination", route.Destination),
			NextHop:     addr(field+".nextHop", route.NextHop),
		})
	}
	if len(errs) > 0 {
		return network.Subnet{}, errors.Join(errs...)
	}
	// Pools that overlap must be seen before the canonical form joins them.
	if err := subnet.Validate(); err != nil {
		return network.Subnet{}, err
	}
	if len(subnet.Pools) == 0 {
		subnet.Pools = network.DefaultPools(subnet.CIDR, subnet.Gateway)
	}
	return subnet.Canonical(), nil
}
