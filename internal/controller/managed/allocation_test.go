package managed_test

import (
	"net/netip"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// pooled is a Network whose subnet is from a pool.
func pooled() *cloudteamv1.Network {
	obj := example()
	obj.Spec.SubnetSpec = cloudteamv1.SubnetSpec{SubnetPool: "office"}
	return obj
}

func TestASubnetFromAPoolThatIsDeletedComesWithAnotherCIDR(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		was := w.status().Subnets[0]
		w.Events.Take()
		others := plan.ObservedNetwork{ID: "others"} // which has the range then
		w.Neutron.Edit(t, w.status().NetworkID, func(n *plan.ObservedNetwork) { n.Subnets, others.Subnets = nil, n.Subnets })
		w.Neutron.Put(others)
		w.Neutron.Audit(t)
		w.MustSync()
		w.Neutron.Remove(others.ID)
		now := w.status().Subnets[0]
		if now.CIDR == was.CIDR || now.CIDR != w.subnetsOf()[0] {
			t.Errorf("it has %s, and had %s; Neutron has %v", now.CIDR, was.CIDR, w.subnetsOf())
		}
		events := w.Events.Take()
		if len(events) != 1 || !strings.Contains(events[0], "Created subnet "+now.CIDR+` from subnet pool "office"`) {
			t.Errorf("the Events are %q", events)
		}
	}, pooled())
}

func TestTwoSubnetsFromPoolsAreToldApart(t *testing.T) {
	obj := pooled()
	obj.Spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "office-v6"}}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		shown := func() (pools []string) {
			for _, s := range w.status().Subnets {
				pools = append(pools, s.SubnetPool)
			}
			return pools
		}
		expect.Equal(t, "office,office-v6", strings.Join(shown(), ","), "the pools of status.subnets")
		w.EditAndSync(func(obj *cloudteamv1.Network) { obj.Spec.AdditionalSubnets = nil })
		if got := strings.Join(shown(), ","); got != "office" || len(w.subnetsOf()) != 1 {
			t.Errorf("status.subnets is of the pools %s, Neutron has %v", got, w.subnetsOf())
		}
	}, obj)
}

// A subnet from a pool comes in the place of one from none, on which ports are. Neutron has not both at a time, and what
// keeps the one from going is what the user has to know.
func TestASubnetFromAPoolWaitsForTheOneInItsPlace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		inUse := true
		w.Neutron.Before = func(step plan.Step) error {
			switch {
			case inUse && step.Action == plan.DeleteSubnet:
				return &client.Error{Kind: client.InUse, Op: "delete subnet", Reason: "ports are on it"}
			case inUse && step.Action == plan.CreateSubnet:
				return &client.Error{Kind: client.Invalid, Op: "create subnet", Type: "NetworkSubnetPoolAffinityError"}
			default:
				return nil
			}
		}
		w.Edit(func(obj *cloudteamv1.Network) {
			obj.Spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "office"}}
		})
		w.SyncFails()
		w.WantState("Ready=False Reconciling=True InUse")
		inUse = false
		w.MustSync()
		w.WantState("Ready=True Available")
		if shown := w.status().Subnets; len(shown) != 2 || shown[1].SubnetPool != "office" {
			t.Errorf("status.subnets is %+v", shown)
		}
	}, func() *cloudteamv1.Network {
		obj := example()
		obj.Spec.CIDR, obj.Spec.Gateway = "fd00::/64", ""
		withSubnets(obj, "10.0.0.0/24")
		return obj
	}())
}

func TestAnObservedNetworkIsKnownByThePoolsOfItsSubnets(t *testing.T) {
	const id = "net-observed"
	obj := pooled()
	obj.Spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	obj.Spec.Import = &cloudteamv1.NetworkImport{ID: id}
	inWorld(t, func(t *testing.T, w *world) {
		subnet := plan.Subnet{CIDR: netip.MustParsePrefix("100.64.0.0/24"), DHCP: true}
		subnet.Gateway = plan.DefaultGateway(subnet.CIDR)
		subnet.Pools = plan.DefaultPools(subnet.CIDR, subnet.Gateway)
		w.Neutron.Put(plan.ObservedNetwork{
			ID: id, Attributes: plan.Attributes{Name: "theirs", AdminStateUp: true},
			Subnets: []plan.ObservedSubnet{{ID: "sub", PoolID: "office", Subnet: subnet}},
		})
		w.MustSync()
		w.WantState("Ready=True Observed")
		if shown := w.status().Subnets; len(shown) != 1 || shown[0].CIDR != "100.64.0.0/24" || shown[0].SubnetPool != "office" {
			t.Errorf("status.subnets is %+v", shown)
		}
	}, obj)
}
