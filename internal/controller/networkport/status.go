package networkport

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inUse is the Kind's InUse. A port is deleted after its user; otherwise its address could be given to something else
// meanwhile.
func inUse(obj *cloudteamv1.NetworkPort) string {
	if obj.Status.BoundTo == nil {
		if at := obj.Status.Attachment; at != nil && at.Mode == cloudteamv1.AttachmentTrunk {
			return "In the trunk of node " + at.Node + ". The port is deleted when it was taken out."
		}
		return ""
	}
	return "In use by " + user(obj) + ". The port is deleted after the " + obj.Status.BoundTo.Kind + ". Delete that first."
}

// user names the user of a bound port.
func user(obj *cloudteamv1.NetworkPort) string {
	return fmt.Sprintf("%s %q", obj.Status.BoundTo.Kind, obj.Status.BoundTo.Name)
}

// show is the Kind's Show: it shows in the status what exists in Neutron.
func show(obj *cloudteamv1.NetworkPort, declared managed.Declaration, observed plan.Observed) {
	status := &obj.Status
	d, known := declared.(declaration)
	if !known {
		// While it is being deleted, the status keeps what existed until the port is gone. Otherwise it lost the port; see
		// Kind.Loses.
		if obj.DeletionTimestamp == nil && status.PortID != "" {
			status.PortID, status.MTU = "", 0
			if status.BoundTo == nil {
				status.MAC, status.Addresses = "", nil
			}
		}
		return
	}
	port, exists := d.port(observed)
	if !exists && len(observed.Ports) > 0 {
		// The status of a port that is still on another network stays as it was.
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

// statusToWrite gives the part of the status that this controller writes. Whoever binds the port writes boundTo, and
// whoever attaches it writes attachment and the condition Attached.
func statusToWrite(obj *cloudteamv1.NetworkPort) any {
	status := obj.Status
	status.BoundTo, status.Attachment = nil, nil
	if meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionAttached) != nil {
		status.Conditions = slices.Clone(status.Conditions)
		meta.RemoveStatusCondition(&status.Conditions, cloudteamv1.ConditionAttached)
	}
	return status
}
