package managed_test

import (
	"net/netip"
	"slices"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// subnetsOf are the CIDRs of the one network's subnets in Neutron, sorted.
func (w *world) subnetsOf() []string {
	w.T.Helper()
	all := w.Neutron.Has()
	if len(all) != 1 {
		w.T.Fatalf("Neutron has %d networks", len(all))
	}
	var cidrs []string
	for _, s := range all[0].Subnets {
		cidrs = append(cidrs, s.CIDR.String())
	}
	slices.Sort(cidrs)
	return cidrs
}

func (w *world) wantSubnets(cidrs ...string) {
	w.T.Helper()
	if got := w.subnetsOf(); !slices.Equal(got, cidrs) {
		w.T.Errorf("subnets in Neutron: %v, want %v", got, cidrs)
	}
}

func withSubnets(obj *cloudteamv1.Network, cidrs ...string) {
	obj.Spec.AdditionalSubnets = nil
	for _, cidr := range cidrs {
		obj.Spec.AdditionalSubnets = append(obj.Spec.AdditionalSubnets, cloudteamv1.SubnetSpec{CIDR: cidr})
	}
}

// TestASubnetInUseHoldsUpNothingElse also holds that what has to come in the place of one is not tried before that goes.
func TestASubnetInUseHoldsUpNothingElse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.EditAndSync(func(obj *cloudteamv1.Network) { withSubnets(obj, "10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24") })
		w.Quiet()

		n := w.Neutron.Has()[0]
		used, _ := n.SubnetByCIDR(netip.MustParsePrefix("10.0.0.0/24"))
		w.Neutron.PutPort(plan.ObservedPort{
			ID: "p1", NetworkID: n.ID, Device: "compute:nova, device 9a", PortAttributes: plan.PortAttributes{
				Addresses: []plan.PortAddress{{SubnetID: used.ID, Address: netip.MustParseAddr("10.0.0.9")}},
			},
		})
		w.Edit(func(obj *cloudteamv1.Network) {
			withSubnets(obj, "10.0.0.0/25", "fd00::/64", "10.0.2.0/24")
			obj.Spec.AdditionalSubnets[2].DNSServers = []string{"9.9.9.9"}
		})
		w.SyncFails()
		w.Calls.Want(t, "apply delete subnet", "blockers", "apply delete subnet", "apply create subnet",
			"apply update subnet", "write status")
		w.wantSubnets("10.0.0.0/24", "10.0.2.0/24", "192.168.0.0/16", "fd00::/64")
		w.WantState("Ready=False Reconciling=True InUse")
		const want = "delete subnet 10.0.0.0/24: in use by port p1 (compute:nova, device 9a). Retrying with backoff. Remove what uses it."
		w.WantMessage(want)
		w.Events.WantReasons(t, "Normal Updated", "Warning InUse")

		w.SyncFails()
		w.Calls.Want(t, "apply delete subnet", "blockers")
		w.Events.WantReasons(t)

		w.Neutron.Remove("p1")
		w.MustSync()
		w.wantSubnets("10.0.0.0/25", "10.0.2.0/24", "192.168.0.0/16", "fd00::/64")
		w.WantState("Ready=True Available")
	}, example())
}

// TestAnotherFailureIsToldBeforeASubnetInUse holds that what waits for somebody to act is not hidden by what waits for
// ports to go.
func TestAnotherFailureIsToldBeforeASubnetInUse(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.EditAndSync(func(obj *cloudteamv1.Network) { withSubnets(obj, "10.0.0.0/24") })
		w.Neutron.Before = func(step plan.Step) error {
			switch step.Action {
			case plan.DeleteSubnet:
				return &client.Error{Kind: client.InUse, Op: "delete subnet", Reason: "ports are on it"}
			case plan.CreateSubnet:
				return &client.Error{Kind: client.Invalid, Op: "create subnet", Reason: "not this one"}
			default:
				return nil
			}
		}
		w.Edit(func(obj *cloudteamv1.Network) { withSubnets(obj, "fd00::/64") })
		w.SyncFails()
		w.WantState("Ready=False Stalled=True Rejected")
	}, example())
}
