package networkport

import (
	"fmt"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inUse is managed.Kind's: a port goes after what uses it, or its address could be given to something else meanwhile.
func inUse(obj *cloudteamv1.NetworkPort) string {
	if obj.Status.BoundTo == nil {
		return ""
	}
	return "In use by " + user(obj) + ". The port is deleted after it. Delete it first."
}

// user names what uses a port that is bound.
func user(obj *cloudteamv1.NetworkPort) string {
	return fmt.Sprintf("%s %q", obj.Status.BoundTo.Kind, obj.Status.BoundTo.Name)
}

// show is managed.Kind's: it tells in the status what Neutron has.
func show(obj *cloudteamv1.NetworkPort, declared managed.Declaration, observed plan.Observed) {
	status := &obj.Status
	d, known := declared.(declaration)
	if !known {
		// It is being deleted: what there was is told until it is gone.
		return
	}
	port, exists := d.port(observed)
	if !exists && len(observed.Ports) > 0 {
		// What is still on another network is told as it was.
		return
	}
	status.PortID, status.MTU = port.ID, 0
	if !exists {
		if status.BoundTo == nil {
			status.MAC, status.Addresses = "", nil
		}
		return
	}
	status.MAC, status.MTU = port.MAC, d.mtu
	status.Addresses = nil
	for _, a := range port.Addresses {
		shown := cloudteamv1.PortAddress{Address: a.Address.String(), SubnetID: a.SubnetID}
		for _, s := range d.Subnets {
			if s.ID == a.SubnetID {
				shown.Address = netip.PrefixFrom(a.Address, s.CIDR.Bits()).String()
				if s.Gateway != cloudteamv1.GatewayNone {
					shown.Gateway = s.Gateway
				}
			}
		}
		status.Addresses = append(status.Addresses, shown)
	}
}

// statusToWrite is what of the status is this controller's to write. Whoever binds the port writes what it is bound to.
func statusToWrite(obj *cloudteamv1.NetworkPort) any {
	status := obj.Status
	status.BoundTo = nil
	return status
}
