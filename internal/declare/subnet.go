package declare

import (
	"fmt"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// subnetOf translates one declared subnet into the domain's form. shown are the subnets in the Network's status.
func subnetOf(s cloudteamv1.SubnetSpec, shown []cloudteamv1.SubnetStatus) (plan.Subnet, error) {
	var p parser
	subnet := plan.Subnet{
		From: allocationOf(s, shown), DHCP: s.DHCP == nil || *s.DHCP,
		IPv6AddressMode: plan.IPv6Mode(s.IPv6AddressMode), IPv6RAMode: plan.IPv6Mode(s.IPv6RAMode),
		ServiceTypes: s.ServiceTypes, DNSPublishFixedIP: s.DNSPublishFixedIP != nil && *s.DNSPublishFixedIP,
	}
	switch {
	case subnet.From == nil:
		subnet.CIDR = p.prefix("cidr", s.CIDR)
	case s.CIDR != "" || s.Gateway != "" && s.Gateway != cloudteamv1.GatewayNone || len(s.AllocationPools) > 0:
		p.refuse(plan.FieldSubnetPool, "cidr, gateway and allocationPools follow from the pool: leave them out")
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
	if len(subnet.Pools) == 0 {
		subnet.Pools = plan.DefaultPools(subnet.CIDR, subnet.Gateway)
	}
	return subnet.Canonical(), nil
}

// allocationOf says how a subnet gets its CIDR from a pool. It is nil if the CIDR is declared. shown are the subnets in
// the Network's status.
func allocationOf(s cloudteamv1.SubnetSpec, shown []cloudteamv1.SubnetStatus) *plan.Allocation {
	if s.SubnetPool == "" {
		return nil
	}
	from := &plan.Allocation{Name: s.SubnetPool, NoGateway: s.Gateway == cloudteamv1.GatewayNone}
	if s.PrefixLength != nil {
		from.PrefixLength = int(*s.PrefixLength)
	}
	at := slices.IndexFunc(shown, func(was cloudteamv1.SubnetStatus) bool { return was.SubnetPool == s.SubnetPool })
	if at >= 0 {
		from.Given = shown[at].ID
	}
	return from
}
