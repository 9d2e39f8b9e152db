package network

import (
	"net/netip"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func observedSubnet(id, cidr, gateway string, owner plan.Owner) plan.ObservedSubnet {
	s := plan.ObservedSubnet{ID: id, Subnet: plan.Subnet{CIDR: netip.MustParsePrefix(cidr)}}
	if gateway != "" {
		s.Gateway = netip.MustParseAddr(gateway)
	}
	if owner != (plan.Owner{}) {
		s.Description = owner.Marker()
	}
	return s
}

func TestShow(t *testing.T) {
	declared := declaration{Spec: plan.Spec{Owner: specOwner, Subnets: []plan.Subnet{
		{CIDR: netip.MustParsePrefix("192.168.0.0/16")}, {CIDR: netip.MustParsePrefix("10.0.0.0/8")},
	}}}
	cloud := &cloudteamv1.CloudStatus{Endpoint: "https://neutron.test/"}
	known := cloudteamv1.NetworkStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{ObservedGeneration: 3, AppliedGeneration: 3, Cloud: cloud},
		NetworkID:      "net-1", MTU: 1450,
		Subnets: []cloudteamv1.SubnetStatus{{ID: "sub-1", CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}},
	}
	counted := observedSubnet("counted", "10.0.0.0/8", "10.0.0.1", specOwner)
	counted.Pools = []plan.Range{poolOf("10.0.0.2", "10.255.255.254")}
	counted.Used = new(int64(3))
	full := observedSubnet("full", "10.0.0.0/8", "10.0.0.1", specOwner)
	full.Pools = []plan.Range{poolOf("10.0.0.2", "10.0.0.3")}
	full.Used = new(int64(3)) // the router's, too
	slaac := observedSubnet("slaac", "fd00::/64", "", specOwner)
	slaac.IPv6AddressMode, slaac.IPv6RAMode = plan.SLAAC, plan.DHCPv6Stateless
	observed := func(subnets ...plan.ObservedSubnet) plan.Observed {
		attributes := plan.Attributes{Description: specOwner.Marker(), MTU: 9000}
		return plan.Observed{
			Networks: []plan.ObservedNetwork{{ID: "net-2", Attributes: attributes, Subnets: subnets}},
		}
	}
	for name, c := range map[string]struct {
		declared managed.Declaration
		observed plan.Observed
		want     cloudteamv1.NetworkStatus
	}{
		"a network that is gone is not shown": {declared, plan.Observed{}, cloudteamv1.NetworkStatus{}},
		"the declared subnets come first and in order, and foreign ones not at all": {
			declared, observed(
				observedSubnet("old-b", "172.16.1.0/24", "", specOwner),
				observedSubnet("foreign", "172.16.9.0/24", "", plan.Owner{}),
				observedSubnet("second", "10.0.0.0/8", "10.0.0.1", specOwner),
				observedSubnet("others", "172.16.8.0/24", "", plan.Owner{Cluster: specCluster, Object: "uid-9"}),
				observedSubnet("old-a", "172.16.0.0/24", "", specOwner),
				observedSubnet("first", "192.168.0.0/16", "192.168.0.1", specOwner),
			),
			cloudteamv1.NetworkStatus{NetworkID: "net-2", MTU: 9000, Subnets: []cloudteamv1.SubnetStatus{
				{ID: "first", CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"},
				{ID: "second", CIDR: "10.0.0.0/8", Gateway: "10.0.0.1"},
				{ID: "old-a", CIDR: "172.16.0.0/24", Gateway: "none"},
				{ID: "old-b", CIDR: "172.16.1.0/24", Gateway: "none"},
			}},
		},
		"while the object is being deleted nothing is declared, and addresses give the order": {
			nil, observed(
				observedSubnet("b", "192.168.0.0/16", "", specOwner), observedSubnet("a", "10.0.0.0/8", "", specOwner),
			),
			cloudteamv1.NetworkStatus{NetworkID: "net-2", MTU: 9000, Subnets: []cloudteamv1.SubnetStatus{
				{ID: "a", CIDR: "10.0.0.0/8", Gateway: "none"}, {ID: "b", CIDR: "192.168.0.0/16", Gateway: "none"},
			}},
		},
		"IPv6 modes are shown as Neutron has them": {
			declared, observed(slaac),
			cloudteamv1.NetworkStatus{NetworkID: "net-2", MTU: 9000, Subnets: []cloudteamv1.SubnetStatus{{
				ID: "slaac", CIDR: "fd00::/64", Gateway: "none", IPv6AddressMode: "slaac", IPv6RAMode: "dhcpv6-stateless",
			}}},
		},
		"the addresses are told where somebody counts them": {
			declared, observed(counted),
			cloudteamv1.NetworkStatus{NetworkID: "net-2", MTU: 9000, Subnets: []cloudteamv1.SubnetStatus{{
				ID: "counted", CIDR: "10.0.0.0/8", Gateway: "10.0.0.1",
				TotalAddresses: new(int64(16777213)), UsedAddresses: new(int64(3)),
			}}},
		},
		"of no more addresses than there are any is in use": {
			declared, observed(full),
			cloudteamv1.NetworkStatus{NetworkID: "net-2", MTU: 9000, Subnets: []cloudteamv1.SubnetStatus{{
				ID: "full", CIDR: "10.0.0.0/8", Gateway: "10.0.0.1",
				TotalAddresses: new(int64(2)), UsedAddresses: new(int64(2)),
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &cloudteamv1.Network{Status: *known.DeepCopy()}
			show(obj, c.declared, specOwner, c.observed)
			// What all kinds have is not the kind's to show.
			c.want.ResourceStatus = known.ResourceStatus
			expect.Equal(t, c.want, obj.Status, "status")
		})
	}
}

func TestComplete(t *testing.T) {
	declared := declaration{Spec: plan.Spec{Subnets: []plan.Subnet{
		{CIDR: netip.MustParsePrefix("192.168.0.0/16")}, {CIDR: netip.MustParsePrefix("10.0.0.0/8")},
	}}}
	first := observedSubnet("first", "192.168.0.0/16", "192.168.0.1", specOwner)
	second := observedSubnet("second", "10.0.0.0/8", "", specOwner)
	other := observedSubnet("other", "172.16.0.0/24", "", specOwner)
	for name, c := range map[string]struct {
		observed plan.Observed
		want     bool
	}{
		"without a network nothing is complete": {plan.Observed{}, false},
		"a declared subnet is missing": {
			plan.Observed{Networks: []plan.ObservedNetwork{{Subnets: []plan.ObservedSubnet{first, other}}}}, false},
		"all declared subnets exist, whatever their settings and whatever else there is": {
			plan.Observed{Networks: []plan.ObservedNetwork{
				{Subnets: []plan.ObservedSubnet{other, second, first}},
			}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, c.want, declared.Complete(c.observed), "complete")
		})
	}
}
