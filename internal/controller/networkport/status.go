package networkport

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
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

const (
	// maxAddresses is the most addresses that the status shows, twice what a spec may declare.
	maxAddresses = 16
	// maxGroups is the most security groups that the status shows: those that a spec may name, and those of policies.
	maxGroups = 64
)

// show is the Kind's Show: it shows in the status what exists in Neutron.
func show(obj *cloudteamv1.NetworkPort, declared managed.Declaration, observed plan.Observed) {
	status := &obj.Status
	status.FloatingIP = floatingIPOf(obj, observed)
	d, known := declared.(declaration)
	if !known {
		// While it is being deleted, the status keeps what existed until the port is gone. Otherwise it lost the port; see
		// Kind.Loses.
		if obj.DeletionTimestamp == nil && status.PortID != "" {
			status.PortID, status.MTU, status.SecurityGroupIDs = "", 0, nil
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
	status.PortID, status.MTU, status.SecurityGroupIDs = port.ID, 0, nil
	if !exists {
		if status.BoundTo == nil {
			status.MAC, status.Addresses = "", nil
		}
		return
	}
	// A cloud may return any number.
	groups := slices.Sorted(slices.Values(port.SecurityGroups))
	groups = groups[:min(len(groups), maxGroups)]
	status.MAC, status.MTU, status.SecurityGroupIDs = port.MAC, d.mtu, groups
	status.Addresses = d.shownAddresses(port.Addresses[:min(len(port.Addresses), maxAddresses)], status.Addresses)
}

// shownAddresses are a port's addresses in the subnets that the Network's status shows. Neutron may give a port an
// address in a subnet sooner, and others may in one of theirs. Without the prefix length, no Pod could use it. An
// address whose subnet is shown no longer stays as it was.
func (d declaration) shownAddresses(has []plan.PortAddress, was []cloudteamv1.PortAddress) (
	shown []cloudteamv1.PortAddress,
) {
	for _, a := range has {
		in := slices.IndexFunc(d.Subnets, func(s declare.PortSubnet) bool { return s.ID == a.SubnetID })
		if in >= 0 {
			address := cloudteamv1.PortAddress{
				Address: netip.PrefixFrom(a.Address, d.Subnets[in].CIDR.Bits()).String(), SubnetID: a.SubnetID,
			}
			if gateway := d.Subnets[in].Gateway; gateway != cloudteamv1.GatewayNone {
				address.Gateway = gateway
			}
			shown = append(shown, address)
			continue
		}
		for _, w := range was {
			prefix, err := netip.ParsePrefix(w.Address)
			if err == nil && prefix.Addr() == a.Address && w.SubnetID == a.SubnetID {
				shown = append(shown, w)
			}
		}
	}
	return shown
}

// floatingIPOf is the floating IP to show: the one of the port, or the only one.
func floatingIPOf(obj *cloudteamv1.NetworkPort, observed plan.Observed) *cloudteamv1.PortFloatingIPStatus {
	shown, exists := observed.FloatingIP("", obj.Status.PortID)
	if !exists {
		return nil
	}
	return &cloudteamv1.PortFloatingIPStatus{
		ID: shown.ID, Address: shown.Address.String(), ExternalNetworkID: shown.NetworkID,
	}
}

// statusToWrite gives the part of the status that this controller writes. The controller that binds the port writes
// boundTo, and the one that attaches it writes attachment, standby and the condition Attached.
func statusToWrite(obj *cloudteamv1.NetworkPort) any {
	status := obj.Status
	status.BoundTo, status.Attachment, status.Standby = nil, nil, nil
	if meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionAttached) != nil {
		status.Conditions = slices.Clone(status.Conditions)
		meta.RemoveStatusCondition(&status.Conditions, cloudteamv1.ConditionAttached)
	}
	return status
}
