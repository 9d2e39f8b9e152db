package declare

import (
	"cmp"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// FloatingIP translates a FloatingIP's spec into the domain's form. port is the NetworkPort that it leads to; nil if it
// leads nowhere. The NetworkID is as in the spec, an id or a name, while there is no floating IP. After that it is the
// one of the floating IP: a name may be another network's by now, and an address does not come back.
func FloatingIP(
	obj *cloudteamv1.FloatingIP, owner plan.Owner, port *cloudteamv1.NetworkPort,
) plan.FloatingSpec {
	spec := plan.FloatingSpec{
		Owner: owner, NetworkID: cmp.Or(obj.Status.ExternalNetworkID, obj.Spec.ExternalNetwork),
	}
	if port != nil {
		spec.PortID, spec.Fixed = port.Status.PortID, AddressesOfIPv4(port)
	}
	return spec
}

// AddressesOfIPv4 are a NetworkPort's addresses of IPv4, as its status shows them. A floating IP leads to one of them.
func AddressesOfIPv4(port *cloudteamv1.NetworkPort) (addresses []netip.Addr) {
	for _, a := range port.Status.Addresses {
		if prefix, err := netip.ParsePrefix(a.Address); err == nil && prefix.Addr().Is4() {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses
}
