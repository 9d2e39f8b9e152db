package declare

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var portOwner = plan.Owner{Cluster: "c1", Object: "uid-1"}

// exampleNetwork is a Network that is in Neutron.
func exampleNetwork() *cloudteamv1.Network {
	n := &cloudteamv1.Network{}
	n.Namespace, n.Name, n.UID, n.Generation = "team", "example-network", "net-uid", 1
	n.Spec.CIDR, n.Spec.Gateway = "192.168.0.0/16", "192.168.0.1"
	n.Status.NetworkID, n.Status.MTU = "net-1", 1450
	n.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "sub-1", CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}}
	return n
}

// example is a NetworkPort on the example.
func example() *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{}
	port.Namespace, port.Name, port.UID, port.Generation = "team", "web-0", "uid-1", 1
	port.Spec.NetworkName = "example-network"
	return port
}

// with gives a Network another subnet in Neutron, and in its spec if that declares it.
func with(n *cloudteamv1.Network, cidr, id string, declared bool) {
	if declared {
		n.Spec.AdditionalSubnets = append(n.Spec.AdditionalSubnets, cloudteamv1.SubnetSpec{CIDR: cidr})
	}
	n.Status.Subnets = append(n.Status.Subnets, cloudteamv1.SubnetStatus{
		ID: id, CIDR: netip.MustParsePrefix(cidr).String(), Gateway: cloudteamv1.GatewayNone,
	})
}

func at(address string) plan.PortAddress {
	a := plan.PortAddress{SubnetID: "sub-1"}
	if address != "" {
		a.Address = netip.MustParseAddr(address)
	}
	return a
}

// The changes below are what the cases of TestNetworkPort do to the example Network. Its subnet is the first, and each
// that is added the next.
type networkChange = func(*cloudteamv1.Network)

// also adds a subnet that the spec declares.
func also(cidr, id string) networkChange {
	return func(n *cloudteamv1.Network) { with(n, cidr, id, true) }
}

// undeclared adds a subnet that the spec declares no longer.
func undeclared(cidr, id string) networkChange {
	return func(n *cloudteamv1.Network) { with(n, cidr, id, false) }
}

// without takes the subnet of the example away.
func without(n *cloudteamv1.Network) { n.Status.Subnets = nil }

// serving has a subnet be for devices of some kind.
func serving(subnet int, types ...string) networkChange {
	return func(n *cloudteamv1.Network) { n.Status.Subnets[subnet].ServiceTypes = types }
}

// reserving has the spec reserve a subnet.
func reserving(subnet int, users ...cloudteamv1.AddressUser) networkChange {
	return func(n *cloudteamv1.Network) {
		if subnet == 0 {
			n.Spec.ReservedFor = users
			return
		}
		n.Spec.AdditionalSubnets[subnet-1].ReservedFor = users
	}
}

// planned has the spec declare a subnet that Neutron does not have yet.
func planned(s cloudteamv1.SubnetSpec) networkChange {
	return func(n *cloudteamv1.Network) { n.Spec.AdditionalSubnets = append(n.Spec.AdditionalSubnets, s) }
}

// slaac has ports make their addresses of the second subnet themselves.
func slaac(n *cloudteamv1.Network) { n.Status.Subnets[1].IPv6AddressMode = cloudteamv1.IPv6ModeSLAAC }

func ofAnotherNamespace(n *cloudteamv1.Network) { n.Namespace = "owner" }

func TestNetworkPort(t *testing.T) {
	guests, team := cloudteamv1.AddressUser{Namespace: "guests"}, cloudteamv1.AddressUser{Namespace: "team"}
	web := cloudteamv1.AddressUser{Kind: "Deployment", Name: "web"}
	spec := func(change func(*plan.PortSpec)) *plan.PortSpec {
		s := &plan.PortSpec{Owner: portOwner, Name: "web-0", NetworkID: "net-1", Addresses: []plan.PortAddress{at("")}}
		if change != nil {
			change(s)
		}
		return s
	}
	// on is a port with any address of each of some subnets.
	on := func(subnets ...string) *plan.PortSpec {
		return spec(func(s *plan.PortSpec) {
			s.Addresses = nil
			for _, id := range subnets {
				s.Addresses = append(s.Addresses, plan.PortAddress{SubnetID: id})
			}
		})
	}
	// What is known of the port: nothing, what it was given, or also that something uses it.
	const given, used = 1, 2
	for name, c := range map[string]struct {
		network []networkChange
		// port is its spec, and guest puts it into another namespace than the Network.
		port  string
		guest bool
		state int
		// selfMade is an address of sub-2 that the port has, too.
		selfMade string
		made     Workload
		want     *plan.PortSpec
		says     string // the error, where nothing is wanted
	}{
		"a port that says nothing gets an address of the Network's subnet": {want: on("sub-1")},
		"options are brought into canonical form": {
			port: `{qosPolicy: gold, dnsName: web, portSecurity: true, allowedAddressPairs: [{address: "FD00::100"},
				{address: 10.9.0.0/16, mac: "FA:16:3E:00:00:09"}]}`,
			want: spec(func(s *plan.PortSpec) {
				s.PortOptions = plan.PortOptions{
					PortSecurity: new(true), QoSPolicy: new("gold"), DNSName: new("web"), AddressPairs: []plan.AddressPair{
						{Range: netip.MustParsePrefix("fd00::100/128")},
						{Range: netip.MustParsePrefix("10.9.0.0/16"), MAC: "fa:16:3e:00:00:09"},
					},
				}
			}),
		},
		"a port without port security has neither groups nor pairs": {
			network: []networkChange{func(n *cloudteamv1.Network) {
				n.Status.Class = &cloudteamv1.AppliedClass{Defaults: &cloudteamv1.ClassDefaults{SecurityGroups: []string{"g"}}}
			}},
			port: "portSecurity: false",
			want: spec(func(s *plan.PortSpec) {
				s.PortSecurity, s.SecurityGroups, s.AddressPairs = new(false), []string{}, []plan.AddressPair{}
			}),
		},
		"a guest leaves no limit of the Network's": {
			port: "qosPolicy: gold", guest: true,
			says: "qosPolicy: Network team/example-network is of another namespace, where only its own ports may have it: " +
				"leave it out, or create the port in namespace team",
		},
		"a guest takes no name in the Network's domain": {
			port: "dnsName: www", guest: true, says: "dnsName: Network team/example-network is of another namespace",
		},
		"a guest sends under no other address": {
			port: "allowedAddressPairs: [{address: 192.168.0.1}]", guest: true,
			says: "allowedAddressPairs: Network team/example-network is of another namespace",
		},
		"a guest has port security": {
			port: "portSecurity: false", guest: true,
			says: "portSecurity: Network team/example-network is of another namespace",
		},
		"a guest takes no public address": {
			port: "floatingIP: {externalNetwork: public}", guest: true,
			says: "floatingIP: Network team/example-network is of another namespace",
		},
		"a floating IP is of IPv4": {
			network: []networkChange{func(n *cloudteamv1.Network) {
				n.Spec.CIDR, n.Status.Subnets[0].CIDR = "fd00::/64", "fd00::/64"
			}},
			port: "floatingIP: {externalNetwork: public}",
			says: "floatingIP: the port has no address of IPv4, and only such an address can have one",
		},
		"what is declared is brought into canonical form": {
			port: `{addresses: [192.168.0.9, 192.168.0.8], mac: "FA:16:3E:00:00:01", securityGroups: [b, a]}`,
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC = []plan.PortAddress{at("192.168.0.9"), at("192.168.0.8")}, "fa:16:3e:00:00:01"
				s.SecurityGroups = []string{"a", "b"}
			}),
		},
		"it gets an address of each family's first subnet, or else of the next ones": {
			network: []networkChange{
				also("192.169.0.0/16", "sub-2"), also("FD00::/64", "sub-3"), also("fd01::/64", "sub-4"),
			},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses = []plan.PortAddress{{SubnetID: "sub-1"}, {SubnetID: "sub-3"}}
				s.Overflow = map[string][]string{"sub-1": {"sub-2"}, "sub-3": {"sub-4"}}
			}),
		},
		"it asks for no address of a subnet that is kept for others": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), serving(0, "compute:nova")}, want: on("sub-2"),
		},
		"it keeps an address of a subnet that is kept for others since": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), serving(0, "compute:nova")}, state: given,
			want: spec(func(s *plan.PortSpec) { s.Overflow = map[string][]string{"sub-1": {"sub-2"}} }),
		},
		"an address of a subnet that is kept for others cannot be": {
			network: []networkChange{serving(0, "network:dhcp")}, port: "addresses: [192.168.0.9]",
			says: "192.168.0.9 is in 192.168.0.0/16, which Network team/example-network keeps from this port by its " +
				"serviceTypes",
		},
		"it gets none of a subnet that is reserved for others": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), reserving(0, guests, web)},
			made:    Workload{"StatefulSet", "web"}, want: on("sub-2"),
		},
		"it gets one of what is reserved for its namespace, and of nothing else": {
			network: []networkChange{
				also("192.169.0.0/16", "sub-2"), also("192.170.0.0/16", "sub-3"), also("fd00::/64", "sub-4"),
				reserving(1, guests), reserving(2, cloudteamv1.AddressUser{Namespace: "guests", Kind: "Deployment", Name: "web"}),
			},
			guest: true, want: on("sub-2", "sub-4"),
		},
		"what is reserved for its workload comes before what is reserved for its namespace": {
			network: []networkChange{
				also("192.169.0.0/16", "sub-2"), also("192.170.0.0/16", "sub-3"), reserving(0, team),
				reserving(1, cloudteamv1.AddressUser{Kind: "StatefulSet", Name: "db"}), reserving(2, web),
			},
			made: Workload{"StatefulSet", "db"}, want: on("sub-2"),
		},
		"an address of a subnet that is reserved for others cannot be": {
			network: []networkChange{reserving(0, guests)}, port: "addresses: [192.168.0.9]",
			says: "192.168.0.9 is in 192.168.0.0/16, which Network team/example-network keeps from this port by its " +
				"reservedFor",
		},
		"an address beside what is reserved for it cannot be": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), reserving(1, team)}, port: "addresses: [192.168.0.9]",
			says: "keeps from this port by its reservedFor",
		},
		"it keeps an address of a subnet that is reserved for others since": {
			network: []networkChange{reserving(0, guests)}, state: given, want: on("sub-1"),
		},
		"where all is reserved for others, it is told so": {
			network: []networkChange{reserving(0, guests)},
			says:    "Network team/example-network reserves all its subnets for others",
		},
		"what is reserved for it bounds it before Neutron has it": {
			network: []networkChange{
				planned(cloudteamv1.SubnetSpec{CIDR: "10.1.0.0/24", ReservedFor: []cloudteamv1.AddressUser{guests}}),
			},
			guest: true,
			says:  "no subnet in Neutron that an address could come from: it keeps 192.168.0.0/16 for others by its reservedFor",
		},
		"nobody gets an address of a subnet that left the spec: it may have been reserved": {
			network: []networkChange{undeclared("10.1.0.0/24", "sub-2")}, port: "addresses: [10.1.0.9]",
			says: "10.1.0.9 is in 10.1.0.0/24, which Network team/example-network does not declare any more",
		},
		"a reservation where it cannot have an address bounds nothing": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), reserving(1, team), serving(1, "compute:nova")},
			want:    on("sub-1"),
		},
		"it gets none of a subnet whose pool the Network does not name any more": {
			network: []networkChange{also("192.169.0.0/16", "sub-2"), func(n *cloudteamv1.Network) {
				n.Status.Subnets[0].SubnetPool, n.Spec.CIDR, n.Spec.SubnetPool = "office", "", "workshop"
			}},
			want: on("sub-2"),
		},
		"it asks for no address where ports make them": {
			network: []networkChange{also("fd00::/64", "sub-2"), also("fd01::/64", "sub-3"), func(n *cloudteamv1.Network) {
				n.Status.Subnets[1].IPv6RAMode = cloudteamv1.IPv6ModeSLAAC
			}},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.SelfAddressed = []plan.PortAddress{{SubnetID: "sub-1"}, {SubnetID: "sub-3"}}, []string{"sub-2"}
			}),
		},
		"it needs no other address than those that it makes": {
			network: []networkChange{without, also("fd00::/64", "sub-2"), func(n *cloudteamv1.Network) {
				n.Status.Subnets[0].IPv6AddressMode = cloudteamv1.IPv6ModeDHCPv6Stateless
			}},
			want: spec(func(s *plan.PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-2"} }),
		},
		"one that something uses does not ask for what it has made": {
			network: []networkChange{also("fd00::/64", "sub-2"), slaac}, state: used, selfMade: "fd00::7/64",
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC, s.SelfAddressed = []plan.PortAddress{at("192.168.0.7")}, "fa:16:3e:00:00:07", []string{"sub-2"}
			}),
		},
		"an address where ports make them is refused": {
			network: []networkChange{also("fd00::/64", "sub-2"), slaac}, port: `addresses: [192.168.0.9, "fd00::9"]`,
			says: "fd00::9 is in fd00::/64, where ports make their addresses",
		},
		"one that something uses keeps such an address": {
			network: []networkChange{undeclared("fd00::/64", "sub-2")}, state: used, selfMade: "fd00::7/64",
			want: spec(func(s *plan.PortSpec) {
				s.Addresses = []plan.PortAddress{
					at("192.168.0.7"), {SubnetID: "sub-2", Address: netip.MustParseAddr("fd00::7")},
				}
				s.MAC = "fa:16:3e:00:00:07"
			}),
		},
		"an address outside the Network is refused with its range": {
			port: "addresses: [10.0.0.5]", says: "10.0.0.5 is not inside 192.168.0.0/16 of Network team/example-network",
		},
		"the gateway's address is refused": {port: "addresses: [192.168.0.1]", says: "192.168.0.1 is the gateway"},
		"a security group is not named on a Network of another namespace": {
			network: []networkChange{ofAnotherNamespace}, port: "securityGroups: [web]",
			says: `"web" is no id: on a Network of another namespace, write the id`,
		},
		"what is no address is refused":           {port: "addresses: [192.168.0.300]", says: `"192.168.0.300" is no address`},
		"a port that nothing uses may get others": {state: given, want: on("sub-1")},
		"declared addresses win over those that were given": {
			port: `{addresses: [192.168.0.8], mac: "fa:16:3e:00:00:08"}`, state: used,
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC = []plan.PortAddress{at("192.168.0.8")}, "fa:16:3e:00:00:08"
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, port := exampleNetwork(), example()
			for _, change := range c.network {
				change(n)
			}
			expect.NoError(t, yaml.UnmarshalStrict([]byte(c.port), &port.Spec))
			if c.guest {
				port.Namespace, port.Spec.NetworkNamespace = "guests", "team"
			}
			if c.state >= given {
				port.Status.PortID, port.Status.MAC = "port-1", "fa:16:3e:00:00:07"
				port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16", SubnetID: "sub-1"}}
			}
			if c.state == used {
				port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "pod-1"}
			}
			if c.selfMade != "" {
				made := cloudteamv1.PortAddress{Address: c.selfMade, SubnetID: "sub-2"}
				port.Status.Addresses = append(port.Status.Addresses, made)
			}
			got, err := NetworkPort(n, port, c.made, portOwner)
			if c.want == nil {
				expect.ErrorSays(t, err, c.says)
				return
			}
			expect.NoError(t, err)
			if diff := cmp.Diff(*c.want, got.PortSpec, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
