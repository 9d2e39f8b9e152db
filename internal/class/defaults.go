package class

import (
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// WithDefaults gives the spec with a class's defaults for what it leaves out. An imported network has what it has
// already, and gets none. The result shares what it does not change with the spec; neither may be changed.
func WithDefaults(spec cloudteamv1.NetworkSpec, defaults *cloudteamv1.ClassDefaults) cloudteamv1.NetworkSpec {
	if defaults == nil || spec.Import != nil {
		return spec
	}
	if spec.MTU == nil {
		spec.MTU = defaults.MTU
	}
	if spec.CIDR == "" && spec.SubnetPool == "" {
		spec.SubnetPool = defaults.SubnetPool
	}
	if len(defaults.DNSServers) > 0 {
		spec.DNSServers = nameServers(spec.SubnetSpec, defaults.DNSServers)
		spec.AdditionalSubnets = slices.Clone(spec.AdditionalSubnets)
		for i, subnet := range spec.AdditionalSubnets {
			spec.AdditionalSubnets[i].DNSServers = nameServers(subnet, defaults.DNSServers)
		}
	}
	if r := defaults.Router; spec.Router == nil && r != nil && !slices.ContainsFunc(spec.Subnets(), advertisedByOthers) {
		spec.Router = &cloudteamv1.RouterSpec{
			Existing: r.Existing, ExternalNetwork: r.ExternalNetwork, SNAT: r.SNAT, HA: r.HA, Distributed: r.Distributed,
		}
	}
	return spec
}

// nameServers are those of a subnet: its own, or the default ones of its IP family.
func nameServers(s cloudteamv1.SubnetSpec, byDefault []string) []string {
	cidr, err := netip.ParsePrefix(s.CIDR)
	if len(s.DNSServers) > 0 || err != nil {
		return s.DNSServers
	}
	var fitting []string
	for _, text := range byDefault {
		if server, err := netip.ParseAddr(text); err == nil && server.Is4() == cidr.Addr().Is4() {
			fitting = append(fitting, text)
		}
	}
	return fitting
}

// advertisedByOthers reports whether a subnet's hosts use the advertisements of another router, so that Neutron gives
// it no interface on its own ones.
func advertisedByOthers(s cloudteamv1.SubnetSpec) bool {
	return s.IPv6AddressMode != "" && s.IPv6RAMode == "" && s.Gateway != cloudteamv1.GatewayNone &&
		plan.Serves(s.ServiceTypes, plan.InterfaceDeviceOwner)
}
