package declare

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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

// guest is a port of another namespace than the Network's.
func guest(change func(*cloudteamv1.NetworkPortSpec)) func(*cloudteamv1.NetworkPort) {
	return func(p *cloudteamv1.NetworkPort) {
		p.Namespace, p.Spec.NetworkNamespace = "guests", "team"
		change(&p.Spec)
	}
}

func TestNetworkPort(t *testing.T) {
	bound := &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "pod-1"}
	asBefore := func(p *cloudteamv1.NetworkPort) {
		p.Status.PortID, p.Status.MAC = "port-1", "fa:16:3e:00:00:07"
		p.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16", SubnetID: "sub-1"}}
	}
	spec := func(change func(*plan.PortSpec)) *plan.PortSpec {
		s := &plan.PortSpec{Owner: portOwner, Name: "web-0", NetworkID: "net-1", Addresses: []plan.PortAddress{at("")}}
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		network func(*cloudteamv1.Network)
		port    func(*cloudteamv1.NetworkPort)
		made    Workload
		want    *plan.PortSpec
		says    string // the error, where nothing is wanted
	}{
		"a port that says nothing gets an address of the Network's subnet": {
			network: func(*cloudteamv1.Network) {}, want: spec(nil),
		},
		"options are brought into canonical form": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				p.Spec.QoSPolicy, p.Spec.DNSName, p.Spec.PortSecurity = "gold", "web", new(true)
				p.Spec.AllowedAddressPairs = []cloudteamv1.AddressPair{
					{Address: "FD00::100"}, {Address: "10.9.0.0/16", MAC: "FA:16:3E:00:00:09"},
				}
			},
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
			network: func(n *cloudteamv1.Network) {
				n.Status.Class = &cloudteamv1.AppliedClass{Defaults: &cloudteamv1.ClassDefaults{SecurityGroups: []string{"g"}}}
			},
			port: func(p *cloudteamv1.NetworkPort) { p.Spec.PortSecurity = new(false) },
			want: spec(func(s *plan.PortSpec) {
				s.PortSecurity, s.SecurityGroups, s.AddressPairs = new(false), []string{}, []plan.AddressPair{}
			}),
		},
		"no pairs at all": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				p.Spec.AllowedAddressPairs = []cloudteamv1.AddressPair{}
			},
			want: spec(func(s *plan.PortSpec) { s.AddressPairs = []plan.AddressPair{} }),
		},
		"a guest leaves no limit of the Network's": {
			network: func(*cloudteamv1.Network) {}, port: guest(func(s *cloudteamv1.NetworkPortSpec) { s.QoSPolicy = "gold" }),
			says: "qosPolicy: Network team/example-network is of another namespace, where only its own ports may have it: " +
				"leave it out, or create the port in namespace team",
		},
		"a guest takes no name in the Network's domain": {
			network: func(*cloudteamv1.Network) {}, port: guest(func(s *cloudteamv1.NetworkPortSpec) { s.DNSName = "www" }),
			says: "dnsName: Network team/example-network is of another namespace",
		},
		"a guest sends under no other address": {
			network: func(*cloudteamv1.Network) {}, port: guest(func(s *cloudteamv1.NetworkPortSpec) {
				s.AllowedAddressPairs = []cloudteamv1.AddressPair{{Address: "192.168.0.1"}}
			}),
			says: "allowedAddressPairs: Network team/example-network is of another namespace",
		},
		"a guest has port security": {
			network: func(*cloudteamv1.Network) {}, port: guest(func(s *cloudteamv1.NetworkPortSpec) {
				s.PortSecurity = new(false)
			}),
			says: "portSecurity: Network team/example-network is of another namespace",
		},
		"what is declared is brought into canonical form": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				p.Spec.Addresses, p.Spec.MAC = []string{"192.168.0.9", "192.168.0.8"}, "FA:16:3E:00:00:01"
				p.Spec.SecurityGroups = []string{"b", "a"}
			},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC = []plan.PortAddress{at("192.168.0.9"), at("192.168.0.8")}, "fa:16:3e:00:00:01"
				s.SecurityGroups = []string{"a", "b"}
			}),
		},
		"it gets an address of each family's first subnet, or else of the next ones": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				with(n, "FD00::/64", "sub-3", true)
				with(n, "fd01::/64", "sub-4", true)
			},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses = []plan.PortAddress{{SubnetID: "sub-1"}, {SubnetID: "sub-3"}}
				s.Overflow = map[string][]string{"sub-1": {"sub-2"}, "sub-3": {"sub-4"}}
			}),
		},
		"it asks for no address of a subnet that is kept for others": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Status.Subnets[0].ServiceTypes = []string{"compute:nova"}
			},
			want: spec(func(s *plan.PortSpec) { s.Addresses = []plan.PortAddress{{SubnetID: "sub-2"}} }),
		},
		"it keeps an address of a subnet that is kept for others since": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Status.Subnets[0].ServiceTypes = []string{"compute:nova"}
			},
			port: asBefore, want: spec(func(s *plan.PortSpec) { s.Overflow = map[string][]string{"sub-1": {"sub-2"}} }),
		},
		"an address of a subnet that is kept for others cannot be": {
			network: func(n *cloudteamv1.Network) { n.Status.Subnets[0].ServiceTypes = []string{"network:dhcp"} },
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.9"} },
			says: "192.168.0.9 is in 192.168.0.0/16, which Network team/example-network keeps from this port by its " +
				"serviceTypes",
		},
		"it gets none of a subnet that is reserved for others": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Spec.ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}, {Kind: "Deployment", Name: "web"}}
			},
			made: Workload{"StatefulSet", "web"},
			want: spec(func(s *plan.PortSpec) { s.Addresses = []plan.PortAddress{{SubnetID: "sub-2"}} }),
		},
		"it gets one of what is reserved for its namespace, and of nothing else": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				with(n, "192.170.0.0/16", "sub-3", true)
				with(n, "fd00::/64", "sub-4", true)
				n.Spec.AdditionalSubnets[0].ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}}
				n.Spec.AdditionalSubnets[1].ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests", Kind: "Deployment", Name: "web"}}
			},
			port: guest(func(*cloudteamv1.NetworkPortSpec) {}),
			want: spec(func(s *plan.PortSpec) {
				s.Addresses = []plan.PortAddress{{SubnetID: "sub-2"}, {SubnetID: "sub-4"}}
			}),
		},
		"what is reserved for its workload comes before what is reserved for its namespace": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				with(n, "192.170.0.0/16", "sub-3", true)
				n.Spec.ReservedFor = []cloudteamv1.AddressUser{{Namespace: "team"}}
				n.Spec.AdditionalSubnets[0].ReservedFor = []cloudteamv1.AddressUser{{Kind: "StatefulSet", Name: "db"}}
				n.Spec.AdditionalSubnets[1].ReservedFor = []cloudteamv1.AddressUser{{Kind: "Deployment", Name: "web"}}
			},
			made: Workload{"StatefulSet", "db"},
			want: spec(func(s *plan.PortSpec) { s.Addresses = []plan.PortAddress{{SubnetID: "sub-2"}} }),
		},
		"an address of a subnet that is reserved for others cannot be": {
			network: func(n *cloudteamv1.Network) { n.Spec.ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}} },
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.9"} },
			says: "192.168.0.9 is in 192.168.0.0/16, which Network team/example-network keeps from this port by its " +
				"reservedFor",
		},
		"an address beside what is reserved for it cannot be": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Spec.AdditionalSubnets[0].ReservedFor = []cloudteamv1.AddressUser{{Namespace: "team"}}
			},
			port: func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.9"} },
			says: "keeps from this port by its reservedFor",
		},
		"it keeps an address of a subnet that is reserved for others since": {
			network: func(n *cloudteamv1.Network) { n.Spec.ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}} },
			port:    asBefore, want: spec(nil),
		},
		"where all is reserved for others, it is told so": {
			network: func(n *cloudteamv1.Network) { n.Spec.ReservedFor = []cloudteamv1.AddressUser{{Namespace: "guests"}} },
			says:    "Network team/example-network reserves all its subnets for others",
		},
		"what is reserved for it bounds it before Neutron has it": {
			network: func(n *cloudteamv1.Network) {
				n.Spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{
					{CIDR: "10.1.0.0/24", ReservedFor: []cloudteamv1.AddressUser{{Namespace: "guests"}}},
				}
			},
			port: guest(func(*cloudteamv1.NetworkPortSpec) {}),
			says: "no subnet in Neutron that an address could come from: it keeps 192.168.0.0/16 for others by its reservedFor",
		},
		"also if nobody knows yet of which family it is": {
			network: func(n *cloudteamv1.Network) {
				n.Spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{
					{SubnetPool: "office", ReservedFor: []cloudteamv1.AddressUser{{Namespace: "guests"}}},
				}
			},
			port: guest(func(s *cloudteamv1.NetworkPortSpec) { s.Addresses = []string{"192.168.0.9"} }),
			says: "keeps from this port by its reservedFor",
		},
		"nobody gets an address of a subnet that left the spec: it may have been reserved": {
			network: func(n *cloudteamv1.Network) { with(n, "10.1.0.0/24", "sub-2", false) },
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"10.1.0.9"} },
			says:    "10.1.0.9 is in 10.1.0.0/24, which Network team/example-network does not declare any more",
		},
		"a reservation where it cannot have an address bounds nothing": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Spec.AdditionalSubnets[0].ReservedFor = []cloudteamv1.AddressUser{{Namespace: "team"}}
				n.Status.Subnets[1].ServiceTypes = []string{"compute:nova"}
			},
			want: spec(nil),
		},
		"it gets an address of a subnet whose CIDR is from a pool": {
			network: func(n *cloudteamv1.Network) {
				n.Spec.CIDR, n.Spec.SubnetPool = "", "office"
				n.Status.Subnets[0].SubnetPool = "office"
				with(n, "fd00::/64", "sub-2", false)
			},
			want: spec(nil),
		},
		"it gets none of a subnet whose pool the Network does not name any more": {
			network: func(n *cloudteamv1.Network) {
				with(n, "192.169.0.0/16", "sub-2", true)
				n.Status.Subnets[0].SubnetPool, n.Spec.CIDR, n.Spec.SubnetPool = "office", "", "workshop"
			},
			want: spec(func(s *plan.PortSpec) { s.Addresses = []plan.PortAddress{{SubnetID: "sub-2"}} }),
		},
		"it asks for no address where ports make them": {
			network: func(n *cloudteamv1.Network) {
				with(n, "fd00::/64", "sub-2", true)
				with(n, "fd01::/64", "sub-3", true)
				n.Status.Subnets[1].IPv6RAMode = cloudteamv1.IPv6ModeSLAAC
			},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.SelfAddressed = []plan.PortAddress{{SubnetID: "sub-1"}, {SubnetID: "sub-3"}}, []string{"sub-2"}
			}),
		},
		"it needs no other address than those that it makes": {
			network: func(n *cloudteamv1.Network) {
				n.Status.Subnets = nil
				with(n, "fd00::/64", "sub-2", true)
				n.Status.Subnets[0].IPv6AddressMode = cloudteamv1.IPv6ModeDHCPv6Stateless
			},
			want: spec(func(s *plan.PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-2"} }),
		},
		"one that something uses does not ask for what it has made": {
			network: func(n *cloudteamv1.Network) {
				with(n, "fd00::/64", "sub-2", true)
				n.Status.Subnets[1].IPv6AddressMode = cloudteamv1.IPv6ModeSLAAC
			},
			port: func(p *cloudteamv1.NetworkPort) {
				asBefore(p)
				p.Status.BoundTo = bound
				p.Status.Addresses = append(p.Status.Addresses, cloudteamv1.PortAddress{Address: "fd00::7/64", SubnetID: "sub-2"})
			},
			want: spec(func(s *plan.PortSpec) {
				s.MAC, s.SelfAddressed = "fa:16:3e:00:00:07", []string{"sub-2"}
				s.Addresses = []plan.PortAddress{at("192.168.0.7")}
			}),
		},
		"an address where ports make them is refused": {
			network: func(n *cloudteamv1.Network) {
				with(n, "fd00::/64", "sub-2", true)
				n.Status.Subnets[1].IPv6AddressMode = cloudteamv1.IPv6ModeSLAAC
			},
			port: func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.9", "fd00::9"} },
			says: "fd00::9 is in fd00::/64, where ports make their addresses",
		},
		"no address comes from a subnet that is no longer declared": {
			network: func(n *cloudteamv1.Network) { with(n, "fd00::/64", "sub-2", false) }, want: spec(nil),
		},
		"one that something uses keeps such an address": {
			network: func(n *cloudteamv1.Network) { with(n, "fd00::/64", "sub-2", false) },
			port: func(p *cloudteamv1.NetworkPort) {
				asBefore(p)
				p.Status.BoundTo = bound
				p.Status.Addresses = append(p.Status.Addresses, cloudteamv1.PortAddress{Address: "fd00::7/64", SubnetID: "sub-2"})
			},
			want: spec(func(s *plan.PortSpec) {
				s.MAC = "fa:16:3e:00:00:07"
				s.Addresses = []plan.PortAddress{
					at("192.168.0.7"), {SubnetID: "sub-2", Address: netip.MustParseAddr("fd00::7")},
				}
			}),
		},
		"an address outside the Network is refused with its range": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"10.0.0.5"} },
			says:    "10.0.0.5 is not inside 192.168.0.0/16 of Network team/example-network",
		},
		"the gateway's address is refused": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.1"} },
			says:    "192.168.0.1 is the gateway",
		},
		"a security group is not named on a Network of another namespace": {
			network: func(n *cloudteamv1.Network) { n.Namespace = "owner" },
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.SecurityGroups = []string{"web"} },
			says:    `"web" is no id: on a Network of another namespace, write the id`,
		},
		"but its id is": {
			network: func(n *cloudteamv1.Network) { n.Namespace = "owner" },
			port: func(p *cloudteamv1.NetworkPort) {
				p.Spec.SecurityGroups = []string{"0b7a1f0e-6f0c-4f0e-9f0e-0123456789ab"}
			},
			want: spec(func(s *plan.PortSpec) { s.SecurityGroups = []string{"0b7a1f0e-6f0c-4f0e-9f0e-0123456789ab"} }),
		},
		"what is no address is refused": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { p.Spec.Addresses = []string{"192.168.0.300"} },
			says:    `"192.168.0.300" is no address`,
		},
		"a port that something uses keeps the address and MAC that it was given": {
			network: func(*cloudteamv1.Network) {},
			port:    func(p *cloudteamv1.NetworkPort) { asBefore(p); p.Status.BoundTo = bound },
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC = []plan.PortAddress{at("192.168.0.7")}, "fa:16:3e:00:00:07"
			}),
		},
		"a port that nothing uses may get others": {
			network: func(*cloudteamv1.Network) {}, port: asBefore, want: spec(nil),
		},
		"declared addresses win over those that were given": {
			network: func(*cloudteamv1.Network) {},
			port: func(p *cloudteamv1.NetworkPort) {
				asBefore(p)
				p.Status.BoundTo, p.Spec.Addresses, p.Spec.MAC = bound, []string{"192.168.0.8"}, "fa:16:3e:00:00:08"
			},
			want: spec(func(s *plan.PortSpec) {
				s.Addresses, s.MAC = []plan.PortAddress{at("192.168.0.8")}, "fa:16:3e:00:00:08"
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, port := exampleNetwork(), example()
			c.network(n)
			if c.port != nil {
				c.port(port)
			}
			got, err := NetworkPort(n, port, c.made, portOwner)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want one that says %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*c.want, got.PortSpec, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
