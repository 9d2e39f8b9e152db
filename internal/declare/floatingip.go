package declare

import (
	"cmp"
	"net/netip"
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// FloatingIP translates a FloatingIP's spec into the domain's form. port is the NetworkPort that it is associated with,
// or nil. The NetworkID is as in the spec, an id or a name, while there is no floating IP. After that
// it is the one of the floating IP: a name may be another network's since then, and an address does not come back.
// Which addresses the port has, the cloud says.
func FloatingIP(
	obj *cloudteamv1.FloatingIP, owner plan.Owner, port *cloudteamv1.NetworkPort,
) plan.FloatingSpec {
	address, _ := netip.ParseAddr(obj.Spec.Address) // the API server refuses all else; none leaves the choice to Neutron
	spec := plan.FloatingSpec{
		Owner: owner, Address: address, NetworkID: cmp.Or(obj.Status.ExternalNetworkID, obj.Spec.ExternalNetwork),
		ImportID: ImportID(obj),
	}
	if port != nil {
		spec.PortID = port.Status.PortID
	}
	return spec
}

// HasIPv4 reports whether a NetworkPort has an address of IPv4, as its status shows it. A floating IP is associated
// with one.
func HasIPv4(port *cloudteamv1.NetworkPort) bool {
	return slices.ContainsFunc(port.Status.Addresses, func(a cloudteamv1.PortAddress) bool {
		prefix, err := netip.ParsePrefix(a.Address)
		return err == nil && prefix.Addr().Is4()
	})
}
