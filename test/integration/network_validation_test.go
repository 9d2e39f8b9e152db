package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestNetworkMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, map[string]mistake{
		// cidr
		"an empty spec lacks a cidr": {
			`{}`,
			"spec.cidr", `write its network address and prefix length, such as "192.168.0.0/16"`,
		},
		"a spec without a cidr says so once, whatever else it has": {
			`{gateway: 192.168.0.1, mtu: 1000, dnsServers: [192.168.0.53, "fd00::53"],
			  allocationPools: [{start: 192.168.0.2, end: 192.168.0.9}],
			  hostRoutes: [{destination: 10.0.0.0/8, nextHop: "::1"}]}`,
			"spec.cidr", "a subnet needs a cidr",
		},
		"an empty cidr is none": {
			`{cidr: ""}`,
			"spec.cidr", "a subnet needs a cidr",
		},
		"a cidr of words": {
			`{cidr: office}`,
			"spec.cidr", "not a CIDR: write a network address and a prefix length",
		},
		"a cidr without a prefix length": {
			`{cidr: 192.168.0.0}`,
			"spec.cidr", "not a CIDR",
		},
		"a cidr with a netmask": {
			`{cidr: 192.168.0.0/255.255.0.0}`,
			"spec.cidr", "not a CIDR",
		},
		"a cidr with a leading zero": {
			`{cidr: 192.168.010.0/24}`,
			"spec.cidr", "not a CIDR",
		},
		"a prefix length beyond IPv4's": {
			`{cidr: 192.168.0.0/33}`,
			"spec.cidr", "not a CIDR",
		},
		"a prefix length beyond IPv6's": {
			`{cidr: "fd00::/129"}`,
			"spec.cidr", "not a CIDR",
		},
		"an IPv6 cidr with a zone": {
			`{cidr: "fe80::%eth0/64"}`,
			"spec.cidr", "not a CIDR",
		},
		"an IPv4 cidr in IPv6 form": {
			`{cidr: "::ffff:10.0.0.0/104"}`,
			"spec.cidr", "not a CIDR",
		},
		"a bad cidr, with a gateway and pools": {
			`{cidr: x, gateway: 10.0.0.1, allocationPools: [{start: 10.0.0.1, end: 10.0.0.2}]}`,
			"spec.cidr", "not a CIDR",
		},
		"host bits in an IPv4 cidr": {
			`{cidr: 192.168.0.1/16}`,
			"spec.cidr", `host bits are set: write "192.168.0.0/16"`,
		},
		"host bits in an IPv6 cidr": {
			`{cidr: "FD00:1::1:0/64"}`,
			"spec.cidr", `host bits are set: write "fd00:1::/64"`,
		},
		"host bits, with a gateway elsewhere": {
			`{cidr: 192.168.0.1/16, gateway: 10.0.0.1}`,
			"spec.cidr", `write "192.168.0.0/16"`,
		},
		"the whole of IPv4": {
			`{cidr: 0.0.0.0/0}`,
			"spec.cidr", "write one from 1 to 30",
		},
		"the whole of IPv6": {
			`{cidr: "::/0"}`,
			"spec.cidr", "write one from 1 to 126",
		},
		"an IPv4 cidr of two addresses": {
			`{cidr: 192.168.0.0/31}`,
			"spec.cidr", "write one from 1 to 30",
		},
		"an IPv4 cidr of one address": {
			`{cidr: 192.168.0.7/32, gateway: 192.168.0.1}`,
			"spec.cidr", "write one from 1 to 30",
		},
		"an IPv6 cidr of two addresses": {
			`{cidr: "fd00::/127"}`,
			"spec.cidr", "write one from 1 to 126",
		},
		"an IPv6 cidr of one address": {
			`{cidr: "fd00::1/128"}`,
			"spec.cidr", "write one from 1 to 126",
		},
		"a loopback cidr": {
			`{cidr: 127.0.0.0/8}`,
			"spec.cidr", "not a range for hosts",
		},
		"a part of the loopback range": {
			`{cidr: 127.1.0.0/16}`,
			"spec.cidr", "not a range for hosts",
		},
		"an IPv4 multicast cidr": {
			`{cidr: 239.0.0.0/8}`,
			"spec.cidr", "not a range for hosts",
		},
		"an IPv6 multicast cidr": {
			`{cidr: "ff02::/64"}`,
			"spec.cidr", "not a range for hosts",
		},
		"a cidr that begins at 0.0.0.0": {
			`{cidr: 0.0.0.0/8}`,
			"spec.cidr", "not a range for hosts",
		},
		"a text that is longer than any cidr": {
			`{cidr: "` + strings.Repeat("f", 50) + `"}`,
			"spec.cidr", "Too long",
		},

		// gateway
		"a gateway of words": {
			`{cidr: 192.168.0.0/16, gateway: router}`,
			"spec.gateway", `or "none" for a subnet without a gateway`,
		},
		"an empty gateway": {
			`{cidr: 192.168.0.0/16, gateway: ""}`,
			"spec.gateway", `not an address: write one such as "192.168.0.1"`,
		},
		"None is not none": {
			`{cidr: 192.168.0.0/16, gateway: None}`,
			"spec.gateway", `"none"`,
		},
		"a gateway with a prefix length": {
			`{cidr: 192.168.0.0/16, gateway: 192.168.0.1/16}`,
			"spec.gateway", "not an address",
		},
		"a gateway with a leading zero": {
			`{cidr: 192.168.0.0/16, gateway: 192.168.0.01}`,
			"spec.gateway", "not an address",
		},
		"a gateway with a zone": {
			`{cidr: "fe80::/64", gateway: "fe80::1%eth0"}`,
			"spec.gateway", "not an address",
		},
		"an IPv6 gateway with a dotted end": {
			`{cidr: "fd00::/64", gateway: "fd00::192.0.2.1"}`,
			"spec.gateway", "not an address",
		},
		"an IPv6 gateway of an IPv4 cidr": {
			`{cidr: 192.168.0.0/16, gateway: "fd00::1"}`,
			"spec.gateway", "not inside 192.168.0.0/16: write an IPv4 address",
		},
		"an IPv4 gateway of an IPv6 cidr": {
			`{cidr: "fd00::/64", gateway: 192.168.0.1}`,
			"spec.gateway", "not inside fd00::/64: write an IPv6 address",
		},
		"a gateway before the cidr": {
			`{cidr: 192.168.0.0/16, gateway: 192.167.255.255}`,
			"spec.gateway", "not inside 192.168.0.0/16",
		},
		"a gateway after the cidr": {
			`{cidr: 192.168.0.0/16, gateway: 192.169.0.0}`,
			"spec.gateway", "not inside 192.168.0.0/16",
		},
		"an IPv6 gateway outside the cidr": {
			`{cidr: "fd00::/64", gateway: "fd00:0:0:1::1"}`,
			"spec.gateway", "not inside fd00::/64",
		},
		"the network's address as the gateway": {
			`{cidr: 192.168.0.0/16, gateway: 192.168.0.0}`,
			"spec.gateway", "192.168.0.0 is the address of the network",
		},
		"the IPv6 network's address as the gateway": {
			`{cidr: "fd00::/64", gateway: "FD00:0::0"}`,
			"spec.gateway", "is the address of the network",
		},
		"the broadcast address of a /16": {
			`{cidr: 192.168.0.0/16, gateway: 192.168.255.255}`,
			"spec.gateway", "192.168.255.255 is the broadcast address of 192.168.0.0/16",
		},
		"the broadcast address of a /30": {
			`{cidr: 192.168.0.4/30, gateway: 192.168.0.7}`,
			"spec.gateway", "is the broadcast address",
		},
		"the broadcast address of a /9": {
			`{cidr: 10.128.0.0/9, gateway: 10.255.255.255}`,
			"spec.gateway", "is the broadcast address",
		},
		"the broadcast address of a /1": {
			`{cidr: 128.0.0.0/1, gateway: 255.255.255.255}`,
			"spec.gateway", "is the broadcast address",
		},

		// ipv6AddressMode, ipv6RAMode
		"an IPv6 address mode of an IPv4 subnet": {
			`{cidr: 192.168.0.0/16, ipv6AddressMode: dhcpv6-stateful}`,
			"spec.ipv6AddressMode", "192.168.0.0/16 is IPv4, and only IPv6 has this: leave it out",
		},
		"an IPv6 RA mode of an IPv4 subnet": {
			`{cidr: 192.168.0.0/16, ipv6RAMode: slaac}`,
			"spec.ipv6RAMode", "only IPv6 has this",
		},
		"a mode that there is not": {
			`{cidr: "fd00::/64", ipv6RAMode: SLAAC}`,
			"spec.ipv6RAMode", `supported values: "slaac", "dhcpv6-stateful", "dhcpv6-stateless"`,
		},
		"two modes that differ": {
			`{cidr: "fd00::/64", ipv6RAMode: slaac, ipv6AddressMode: dhcpv6-stateless}`,
			"spec.ipv6RAMode", `"slaac" does not go with ipv6AddressMode "dhcpv6-stateless": write the same in both`,
		},
		"addresses of hosts' own in a /48": {
			`{cidr: "fd00::/48", ipv6AddressMode: slaac}`,
			"spec.cidr", `which needs a /64: write such a cidr, or the mode "dhcpv6-stateful"`,
		},
		"advertised addresses of hosts' own in a /65 of additionalSubnets": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/65", ipv6RAMode: dhcpv6-stateless}]}`,
			"spec.additionalSubnets[0].cidr", `with the mode "dhcpv6-stateless" hosts form their own addresses`,
		},
		"an IPv6 mode without DHCP": {
			`{cidr: "fd00::/64", ipv6RAMode: dhcpv6-stateful, dhcp: false}`,
			"spec.dhcp", "needs DHCP: write true",
		},

		// additionalSubnets
		"an additional subnet without a cidr": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {gateway: none}]}`,
			"spec.additionalSubnets[1].cidr", "a subnet needs a cidr",
		},
		"an additional subnet with host bits": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::1/64"}]}`,
			"spec.additionalSubnets[0].cidr", `write "fd00::/64"`,
		},
		"an additional subnet's gateway outside it, in the first one": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: 10.0.0.0/24, gateway: 192.168.0.1}]}`,
			"spec.additionalSubnets[0].gateway", "not inside 10.0.0.0/24",
		},
		"an additional subnet's pools that overlap": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9},
				{start: 10.0.0.9, end: 10.0.0.20}]}]}`,
			"spec.additionalSubnets[0].allocationPools", "do not overlap",
		},
		"an additional subnet's name server of the first one's family": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64", dnsServers: [192.168.0.53]}]}`,
			"spec.additionalSubnets[0].dnsServers", "write IPv6 addresses, as in the cidr fd00::/64",
		},
		"an additional subnet within the first one": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 192.168.1.0/24}]}`,
			"spec.additionalSubnets",
			`some of the same addresses: ["additionalSubnets[1].cidr 192.168.1.0/24"]; write ranges that do not overlap`,
		},
		"an additional subnet around the first one": {
			`{cidr: 192.168.0.0/24, additionalSubnets: [{cidr: 192.168.0.0/16}]}`,
			"spec.additionalSubnets", `["additionalSubnets[0].cidr 192.168.0.0/16"]`,
		},
		"the same subnet twice, spelled differently": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}, {cidr: "FD00:0::0/64"}]}`,
			"spec.additionalSubnets",
			`["additionalSubnets[0].cidr fd00::/64", "additionalSubnets[2].cidr FD00:0::0/64"]`,
		},
		"more subnets than eight": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [` + list(8, func(i int) string {
				return fmt.Sprintf("{cidr: 10.0.%d.0/24}", i)
			}) + `]}`,
			"spec.additionalSubnets", "must have at most 7 items",
		},
		"an MTU too small for an additional subnet of IPv6": {
			`{cidr: 192.168.0.0/16, mtu: 1279, additionalSubnets: [{cidr: "fd00::/64"}]}`,
			"spec.mtu", "IPv6 needs an MTU of at least 1280",
		},

		// allocationPools
		"a pool without a start": {
			`{cidr: 192.168.0.0/16, allocationPools: [{end: 192.168.0.9}]}`,
			"spec.allocationPools[0].start", "Required value",
		},
		"a pool without an end": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.9}]}`,
			"spec.allocationPools[0].end", "Required value",
		},
		"a pool that starts at no address": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: a, end: 192.168.0.9}]}`,
			"spec.allocationPools[0].start", "not an address",
		},
		"a pool that ends at no address": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.2, end: 192.168.0.9},
				{start: 192.168.0.20, end: ""}]}`,
			"spec.allocationPools[1].end", "not an address",
		},
		"a pool that starts at a dotted IPv6 address": {
			`{cidr: "::/64", allocationPools: [{start: "::1:1.2.3.4", end: "::9:1"}]}`,
			"spec.allocationPools[0].start", "not an address",
		},
		"a reversed pool": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.100, end: 192.168.0.20}]}`,
			"spec.allocationPools[0]", `write start "192.168.0.20" and end "192.168.0.100"`,
		},
		"a reversed pool, IPv6": {
			`{cidr: "fd00::/64", allocationPools: [{start: "fd00::1:0", end: "fd00::FFFF"}]}`,
			"spec.allocationPools[0]", `write start "fd00::FFFF" and end "fd00::1:0"`,
		},
		"a pool reversed in the upper half of IPv6": {
			`{cidr: "fd00::/32", allocationPools: [{start: "fd00:0:a::", end: "fd00:0:9::ffff:ffff:ffff:ffff"}]}`,
			"spec.allocationPools[0]", "reversed",
		},
		"a pool of the other family": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: "fd00::2", end: "fd00::9"}]}`,
			"spec.allocationPools", `not inside 192.168.0.0/16: ["fd00::2-fd00::9"]`,
		},
		"a pool from one family to the other": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.2, end: "fd00::9"}]}`,
			"spec.allocationPools", "not inside 192.168.0.0/16",
		},
		"a pool before the cidr": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.167.0.2, end: 192.167.0.9}]}`,
			"spec.allocationPools", "not inside 192.168.0.0/16",
		},
		"a pool that begins before the cidr": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.167.0.2, end: 192.168.0.9}]}`,
			"spec.allocationPools", "not inside",
		},
		"a pool that ends after the cidr, the second": {
			`{cidr: "fd00::/64", allocationPools: [{start: "fd00::2", end: "fd00::9"}, {start: "fd00::10",
				end: "fd00:0:0:1::"}]}`,
			"spec.allocationPools", `["fd00::10-fd00:0:0:1::"]; write ranges that begin and end in it`,
		},
		"a pool with the network's address": {
			`{cidr: 192.168.0.0/24, gateway: 192.168.0.20, allocationPools: [{start: 192.168.0.0,
				end: 192.168.0.9}]}`,
			"spec.allocationPools", "192.168.0.0 is the address of the network itself",
		},
		"a pool with the IPv6 network's address": {
			`{cidr: "fd00::/64", gateway: none, allocationPools: [{start: "fd00::", end: "fd00::9"}]}`,
			"spec.allocationPools", "fd00:: is the address of the network itself",
		},
		"a pool with the broadcast address": {
			`{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.9, end: 192.168.0.255}]}`,
			"spec.allocationPools", "ends at the broadcast address of 192.168.0.0/24",
		},
		"a pool with the broadcast address of a /22": {
			`{cidr: 192.168.4.0/22, allocationPools: [{start: 192.168.4.9, end: 192.168.7.255}]}`,
			"spec.allocationPools", "ends at the broadcast address",
		},
		"a pool around the gateway": {
			`{cidr: 192.168.0.0/24, gateway: 192.168.0.100, allocationPools: [{start: 192.168.0.9,
				end: 192.168.0.200}]}`,
			"spec.allocationPools", "the gateway 192.168.0.100 lies inside a pool",
		},
		"a pool that starts at the gateway": {
			`{cidr: 192.168.0.0/24, gateway: 192.168.0.9, allocationPools: [{start: 192.168.0.9,
				end: 192.168.0.20}]}`,
			"spec.allocationPools", "lies inside a pool",
		},
		"a pool that ends at the gateway": {
			`{cidr: 192.168.0.0/24, gateway: 192.168.0.20, allocationPools: [{start: 192.168.0.9,
				end: 192.168.0.20}]}`,
			"spec.allocationPools", "lies inside a pool",
		},
		"a pool around the IPv6 gateway": {
			`{cidr: "fd00::/64", gateway: "fd00::A:0", allocationPools: [{start: "fd00::9:ffff",
				end: "fd00::a:1"}]}`,
			"spec.allocationPools", "lies inside a pool",
		},
		"a pool with the default gateway": {
			`{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.1, end: 192.168.0.20}]}`,
			"spec.allocationPools", "the first address of 192.168.0.0/24 is the default gateway",
		},
		"a pool with the default IPv6 gateway": {
			`{cidr: "fd00::/64", allocationPools: [{start: "fd00:0::1", end: "fd00::20"}]}`,
			"spec.allocationPools", "the first address of fd00::/64 is the default gateway",
		},
		"two pools that overlap": {
			`{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.9, end: 192.168.0.100},
				{start: 192.168.0.99, end: 192.168.0.200}]}`,
			"spec.allocationPools", "write ranges that do not overlap",
		},
		"two pools that share one address": {
			`{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.100, end: 192.168.0.200},
				{start: 192.168.0.9, end: 192.168.0.100}]}`,
			"spec.allocationPools", "do not overlap",
		},
		"a pool within another": {
			`{cidr: "fd00::/64", allocationPools: [{start: "fd00::2", end: "fd00::ffff"}, {start: "fd00::a",
				end: "fd00::10"}]}`,
			"spec.allocationPools", "do not overlap",
		},
		"a pool that is listed twice": {
			`{cidr: "fd00::/64", allocationPools: [{start: "fd00::a", end: "fd00::b"}, {start: "fd00::A",
				end: "fd00::B"}]}`,
			"spec.allocationPools", "do not overlap",
		},
		"more pools than 32": {
			`{cidr: 10.0.0.0/8, allocationPools: [` + pools(10, 33) + `]}`,
			"spec.allocationPools", "must have at most 32 items",
		},

		// dnsServers
		"a name server by name": {
			`{cidr: 192.168.0.0/16, dnsServers: [192.168.0.53, ns1.example.com]}`,
			"spec.dnsServers[1]", "not an address",
		},
		"a name server that is listed twice": {
			`{cidr: 192.168.0.0/16, dnsServers: [192.168.0.53, 192.168.0.54, 192.168.0.53]}`,
			"spec.dnsServers", "listed twice",
		},
		"a name server in two spellings": {
			`{cidr: "fd00::/64", dnsServers: ["FD00::1", "fd00::1"]}`,
			"spec.dnsServers", "listed twice",
		},
		"an IPv6 name server of an IPv4 subnet": {
			`{cidr: 192.168.0.0/16, dnsServers: ["fd00::53"]}`,
			"spec.dnsServers", "write IPv4 addresses",
		},
		"an IPv4 name server of an IPv6 subnet": {
			`{cidr: "fd00::/64", dnsServers: ["fd00::53", 8.8.8.8]}`,
			"spec.dnsServers", "write IPv6 addresses",
		},
		"more name servers than 16": {
			`{cidr: 10.0.0.0/8, dnsServers: [` + nameServers(17) + `]}`,
			"spec.dnsServers", "must have at most 16 items",
		},

		// serviceTypes
		"a service type that is no device owner": {
			`{cidr: 192.168.0.0/16, serviceTypes: ["compute:nova", nova]}`,
			"spec.serviceTypes[1]", `write one that begins with "compute:", "network:", "neutron:" or "baremetal:"`,
		},
		"a service type with a line break": {
			`{cidr: 192.168.0.0/16, serviceTypes: ["compute:nova\n"]}`,
			"spec.serviceTypes[0]", "not a device owner",
		},
		"a service type twice": {
			`{cidr: 192.168.0.0/16, serviceTypes: ["compute:nova", "compute:nova"]}`,
			"spec.serviceTypes[1]", "Duplicate value",
		},
		"too many service types, in an additional subnet": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64", serviceTypes: [` +
				list(17, serviceType) + `]}]}`,
			"spec.additionalSubnets[0].serviceTypes", "must have at most 16 items",
		},
		// reservedFor
		"a user twice": {
			`{cidr: 192.168.0.0/16, reservedFor: [{namespace: a}, {namespace: a}]}`,
			"spec.reservedFor", "a user is listed twice",
		},
		"a user that is no namespace": {
			`{cidr: 192.168.0.0/16, reservedFor: [{namespace: "*"}]}`,
			"spec.reservedFor[0].namespace", "not a namespace",
		},
		"a user of a kind that has no ports": {
			`{cidr: 192.168.0.0/16, reservedFor: [{kind: Job, name: a}]}`,
			"spec.reservedFor[0].kind", `supported values: "Deployment", "StatefulSet"`,
		},
		"a kind without a name, in an additional subnet": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64", reservedFor: [{kind: Deployment}]}]}`,
			"spec.additionalSubnets[0].reservedFor[0].name", "kind and name go together",
		},
		"a name that nothing can have": {
			`{cidr: 192.168.0.0/16, reservedFor: [{kind: Deployment, name: Web}]}`,
			"spec.reservedFor[0].name", "not the name of a Deployment or StatefulSet",
		},
		"a reservation where ports form addresses themselves": {
			`{cidr: "fd00::/64", ipv6AddressMode: slaac, ipv6RAMode: slaac, reservedFor: [{}]}`,
			"spec.reservedFor", "every port of the network forms an address of such a subnet itself",
		},
		"a publication that is neither true nor false": {
			`{cidr: 192.168.0.0/16, dnsPublishFixedIP: "yes"}`,
			"spec.dnsPublishFixedIP", "must be of type boolean",
		},

		// hostRoutes
		"a route without a destination": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes[0].destination", "Required value",
		},
		"a route without a next hop": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.0/8}]}`,
			"spec.hostRoutes[0].nextHop", "Required value",
		},
		"a route to an address": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.0, nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes[0].destination", "not a CIDR",
		},
		"a route to a range with host bits": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.1/8, nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes[0].destination", `host bits are set: write "10.0.0.0/8"`,
		},
		"a route to an IPv6 range with host bits": {
			`{cidr: "fd00::/64", hostRoutes: [{destination: "fd01::1/64", nextHop: "fd00::9"}]}`,
			"spec.hostRoutes[0].destination", `write "fd01::/64"`,
		},
		"a route to loopback": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: 127.0.0.0/8, nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes[0].destination", "a loopback range",
		},
		"a route over a name": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.0/8, nextHop: router}]}`,
			"spec.hostRoutes[0].nextHop", "not an address",
		},
		"a route to the other family": {
			`{cidr: 192.168.0.0/16, hostRoutes: [{destination: "fd00::/8", nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes", "write IPv4 destinations and next hops",
		},
		"a route over the other family": {
			`{cidr: "fd00::/64", hostRoutes: [{destination: "fd00::/8", nextHop: 192.168.0.9}]}`,
			"spec.hostRoutes", "write IPv6 destinations and next hops",
		},
		"a route that is listed twice": {
			`{cidr: "fd00::/64", hostRoutes: [{destination: "FD00::/8", nextHop: "fd00::A"},
				{destination: "fd00::/8", nextHop: "fd00::a"}]}`,
			"spec.hostRoutes", "a route is listed twice",
		},
		"more routes than 64": {
			`{cidr: 10.0.0.0/8, hostRoutes: [` + routes(65) + `]}`,
			"spec.hostRoutes", "must have at most 64 items",
		},

		// the network's own fields
		"an MTU below IPv4's least": {
			`{cidr: 192.168.0.0/16, mtu: 67}`,
			"spec.mtu", "greater than or equal to 68",
		},
		"an MTU below both leasts, with IPv6": {
			`{cidr: "fd00::/64", mtu: 67}`,
			"spec.mtu", "greater than or equal to 68",
		},
		"an MTU beyond an IP packet's length": {
			`{cidr: 192.168.0.0/16, mtu: 65536}`,
			"spec.mtu", "less than or equal to 65535",
		},
		"an MTU below IPv6's least": {
			`{cidr: "fd00::/64", mtu: 1279}`,
			"spec.mtu", "write 1280 or more",
		},
		"a description of 174 characters": {
			`{cidr: 192.168.0.0/16, description: "` + strings.Repeat("ü", 174) + `"}`,
			"spec.description", "174 characters are too many: write at most 173",
		},
		"a description of far too many characters": {
			`{cidr: 192.168.0.0/16, description: "` + strings.Repeat("ü", 1025) + `"}`,
			"spec.description", "Too long",
		},
		"a description with an ownership marker": {
			`{cidr: 192.168.0.0/16, description: "mine [owner=a/b]"}`,
			"spec.description", "write the text without it",
		},
		"a description with a NUL": {
			`{cidr: 192.168.0.0/16, description: "a\0b"}`,
			"spec.description", "a control character",
		},
		"a description with an escape sequence": {
			`{cidr: 192.168.0.0/16, description: "\e[31mred"}`,
			"spec.description", "a control character",
		},
		"an unknown deletion policy": {
			`{cidr: 192.168.0.0/16, deletionPolicy: Keep}`,
			"spec.deletionPolicy", `supported values: "Delete", "Retain"`,
		},
		"an empty deletion policy": {
			`{cidr: 192.168.0.0/16, deletionPolicy: ""}`,
			"spec.deletionPolicy", `supported values: "Delete", "Retain"`,
		},
		"an observed network without its id": {
			`{cidr: 192.168.0.0/16, managementPolicy: Observe}`,
			"spec.managementPolicy", "write its id in import.id",
		},
		"an unknown management policy": {
			`{cidr: 192.168.0.0/16, managementPolicy: Own}`,
			"spec.managementPolicy", `supported values: "Manage", "Observe", "Plan"`,
		},
		"an import by name": {
			`{cidr: 192.168.0.0/16, import: {id: prod}}`,
			"spec.import.id", `write what "openstack network show -f value -c id NAME" prints`,
		},
		"an import without an id": {
			`{cidr: 192.168.0.0/16, import: {overwrite: true}}`, "spec.import.id", "Required value",
		},
		"a field that cannot drift is ignored": {
			`{cidr: 192.168.0.0/16, ignoreDrift: [cidr]}`,
			"spec.ignoreDrift[0]", `supported values: "name", "description", "adminState"`,
		},
		"a field is ignored twice": {
			`{cidr: 192.168.0.0/16, ignoreDrift: [mtu, mtu]}`, "spec.ignoreDrift[1]", "Duplicate value",
		},
		"an unknown drift policy": {
			`{cidr: 192.168.0.0/16, driftPolicy: correct}`,
			"spec.driftPolicy", `supported values: "Correct", "Report"`,
		},
	})
}

func TestNetworkWithoutSpecIsToldToWriteOne(t *testing.T) {
	network := networkWith(t, `{}`)
	delete(network.Object, "spec")
	_, err := tryCreate(t.Context(), networks, newNamespace(t), network)
	want := []refusal{{"spec", `Required value: a Network needs a spec: write spec.cidr, such as "192.168.0.0/16", or spec.subnetPool`}}
	if diff := cmp.Diff(want, refusals(t, err)); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestTwoMistakesAreNamedAtOnce(t *testing.T) {
	_, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t,
		`{cidr: 192.168.0.0/16, gateway: 10.0.0.1, dnsServers: [ns], description: "[owner="}`))
	var fields []string
	for _, found := range refusals(t, err) {
		fields = append(fields, found.Field)
	}
	want := []string{"spec.gateway", "spec.description", "spec.dnsServers[0]"}
	if diff := cmp.Diff(want, fields, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestUnknownFieldIsRefusedByName(t *testing.T) {
	namespace := newNamespace(t)
	for name, test := range map[string]struct{ spec, field string }{
		"a misspelt field": {
			`{cidr: 192.168.0.0/16, gatway: 192.168.0.1}`, `unknown field "spec.gatway"`,
		},
		"a field of another spelling": {
			`{cidr: 192.168.0.0/16, allocation_pools: []}`, `unknown field "spec.allocation_pools"`,
		},
		"a field of a pool": {
			`{cidr: 192.168.0.0/16, allocationPools: [{from: 192.168.0.2}]}`,
			`unknown field "spec.allocationPools[0].from"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryCreate(t.Context(), networks, namespace, networkWith(t, test.spec))
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), test.field) {
				t.Errorf("want a bad request that says %s, got %v", test.field, err)
			}
		})
	}
}

func TestNetworkSpecsThatCanBeBuiltAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, map[string]string{
		"a cidr alone":                   `{cidr: 192.168.0.0/16}`,
		"a cidr alone, IPv6":             `{cidr: "fd00::/64"}`,
		"an IPv6 cidr in capitals":       `{cidr: "FD00:0001::/64"}`,
		"an IPv6 cidr with a dotted end": `{cidr: "64:ff9b::192.0.2.0/120"}`,
		"the smallest IPv4 cidr": `{cidr: 192.168.0.4/30, gateway: 192.168.0.6,
			allocationPools: [{start: 192.168.0.5, end: 192.168.0.5}]}`,
		"the smallest IPv6 cidr": `{cidr: "fd00::4/126", gateway: "fd00::5",
			allocationPools: [{start: "fd00::6", end: "fd00::7"}]}`,
		"the largest IPv4 cidr": `{cidr: 128.0.0.0/1, allocationPools: [{start: 128.0.0.2, end: 255.255.255.254}]}`,
		"the largest IPv6 cidr": `{cidr: "::/1", allocationPools: [{start: "::2",
			end: "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}]}`,
		"a gateway":               `{cidr: 192.168.0.0/16, gateway: 192.168.0.1}`,
		"a gateway in the middle": `{cidr: 192.168.0.0/16, gateway: 192.168.255.0}`,
		"the address before the broadcast address": `{cidr: 10.0.0.0/9, gateway: 10.127.255.254}`,
		"an address whose last number is 255":      `{cidr: 192.168.0.0/16, gateway: 192.168.0.255}`,
		"an IPv6 gateway":                          `{cidr: "fd00::/64", gateway: "FD00:0:0:0::1"}`,
		"the last address of an IPv6 cidr":         `{cidr: "fd00::/64", gateway: "fd00::ffff:ffff:ffff:ffff"}`,
		"no gateway":                               `{cidr: 192.168.0.0/16, gateway: none}`,
		"no gateway, and a pool of the first address": `{cidr: 192.168.0.0/24, gateway: none,
			allocationPools: [{start: 192.168.0.1, end: 192.168.0.254}]}`,
		"no pools": `{cidr: 192.168.0.0/24, allocationPools: []}`,
		"a pool beside the default gateway": `{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.2,
			end: 192.168.0.254}]}`,
		"pools on both sides of the gateway": `{cidr: 192.168.0.0/24, gateway: 192.168.0.10,
			allocationPools: [{start: 192.168.0.11, end: 192.168.0.254}, {start: 192.168.0.1, end: 192.168.0.9}]}`,
		"pools on both sides of an IPv6 gateway": `{cidr: "fd00::/64", gateway: "fd00::1:0",
			allocationPools: [{start: "fd00::1:1", end: "fd00::a:0"}, {start: "fd00::2", end: "fd00::9"}]}`,
		"a pool of the first address, gateway beyond": `{cidr: 192.168.0.0/24, gateway: 192.168.0.254,
			allocationPools: [{start: 192.168.0.1, end: 192.168.0.253}]}`,
		"a pool of one address": `{cidr: 192.168.0.0/24, allocationPools: [{start: 192.168.0.2,
			end: 192.168.0.2}]}`,
		"pools side by side": `{cidr: 10.0.0.0/8, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9},
			{start: 10.0.0.10, end: 10.0.0.99}, {start: 10.0.0.100, end: 10.0.1.0}]}`,
		"a pool to an IPv6 cidr's last address": `{cidr: "fd00::/64", allocationPools: [{start: "fd00::2",
			end: "fd00::ffff:ffff:ffff:ffff"}]}`,
		"DHCP off":     `{cidr: 192.168.0.0/16, dhcp: false}`,
		"name servers": `{cidr: 192.168.0.0/16, dnsServers: [8.8.8.8, 192.168.0.53]}`,
		"IPv6 name servers, one with a dotted end": `{cidr: "fd00::/64", dnsServers: ["64:ff9b::8.8.8.8",
			"fd00::1", "fd00::2"]}`,
		"a default route": `{cidr: 192.168.0.0/16, hostRoutes: [{destination: 0.0.0.0/0, nextHop: 192.168.0.9}]}`,
		"a route over a router elsewhere": `{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.0/8,
			nextHop: 172.16.0.1}]}`,
		"a route to one host": `{cidr: "fd00::/64", hostRoutes: [{destination: "fd01::1/128",
			nextHop: "fd00::9"}]}`,
		"one destination over two routers": `{cidr: 192.168.0.0/16, hostRoutes: [{destination: 10.0.0.0/8,
			nextHop: 192.168.0.8}, {destination: 10.0.0.0/8, nextHop: 192.168.0.9}]}`,
		"the least MTU":                  `{cidr: 192.168.0.0/16, mtu: 68}`,
		"the least MTU of IPv6":          `{cidr: "fd00::/64", mtu: 1280}`,
		"the greatest MTU":               `{cidr: 192.168.0.0/16, mtu: 65535}`,
		"port security off":              `{cidr: 192.168.0.0/16, portSecurity: false}`,
		"173 characters of three bytes":  `{cidr: 192.168.0.0/16, description: "` + strings.Repeat("網", 173) + `"}`,
		"173 characters of four bytes":   `{cidr: 192.168.0.0/16, description: "` + strings.Repeat("🌐", 173) + `"}`,
		"a description of several lines": `{cidr: 192.168.0.0/16, description: "one\n\ttwo [owners: us]\r\n"}`,
		"Delete":                         `{cidr: 192.168.0.0/16, deletionPolicy: Delete}`,
		"Retain":                         `{cidr: 192.168.0.0/16, deletionPolicy: Retain}`,
		"Correct":                        `{cidr: 192.168.0.0/16, driftPolicy: Correct}`,
		"Report":                         `{cidr: 192.168.0.0/16, driftPolicy: Report}`,
	})
}

func TestSchemaDefaultsDHCPAndNoPolicy(t *testing.T) {
	got, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t, `{cidr: 192.168.0.0/16}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"cidr": "192.168.0.0/16", "dhcp": true}
	if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
		t.Errorf("spec as stored (-want +got):\n%s", diff)
	}
}

func TestNamesUpToTheLongestThatNeutronHoldsAreAccepted(t *testing.T) {
	network := networkWith(t, `{cidr: 192.168.0.0/16}`)
	// Kubernetes' longest name of a DNS subdomain; Neutron's names have at most 255 characters.
	network.SetName(strings.TrimSuffix(strings.Repeat(strings.Repeat("n", 62)+".", 5), ".")[:253])
	if _, err := tryCreate(t.Context(), networks, newNamespace(t), network); err != nil {
		t.Errorf("want it accepted, got %v", err)
	}
}

func TestFullestNetworkStaysWithinTheCostLimits(t *testing.T) {
	namespace := newNamespace(t)
	description := strings.Repeat("🌐", 173)
	user := func(i int) string {
		return fmt.Sprintf("{namespace: %s, kind: StatefulSet, name: %s-%d}", strings.Repeat("n", 63), strings.Repeat("s", 250), i)
	}
	full4 := func(n int) string {
		return fmt.Sprintf(`cidr: %d.0.0.0/8, gateway: %[1]d.255.255.254,
			allocationPools: [%s], dnsServers: [%s], hostRoutes: [%s], serviceTypes: [%s],
			reservedFor: [%s]`,
			n, pools(n, 32), nameServers(16), routes(64), list(16, serviceType), list(32, user))
	}
	full6 := func(n int) string {
		address := func(i int) string { return longIPv6(n, i) }
		return `ipv6RAMode: dhcpv6-stateful, ipv6AddressMode: dhcpv6-stateful,
			serviceTypes: [` + list(16, serviceType) + `], reservedFor: [` + list(32, user) + `],
			cidr: "` + address(0) + `/32", gateway: "` + address(0xfffe) + `", allocationPools: [` +
			list(32, func(i int) string {
				return fmt.Sprintf("{start: %q, end: %q}", address(i<<16+2), address(i<<16+0xff00))
			}) + `], dnsServers: [` + list(16, func(i int) string { return strconv.Quote(address(i)) }) + `],
			hostRoutes: [` + list(64, func(i int) string {
			return fmt.Sprintf("{destination: %q, nextHop: %q}", address(i<<16)+"/112", address(1))
		}) + `]`
	}
	accepted(t, networks, namespace, networkWith, map[string]string{
		"IPv4": `{` + full4(10) + `, mtu: 65535, description: "` + description + `"}`,
		"IPv6": `{` + full6(0) + `, mtu: 65535, description: "` + description + `"}`,
		"eight subnets": `{` + full4(10) + `, mtu: 65535, description: "` + description + `", router: {}, additionalSubnets: [` +
			list(7, func(i int) string {
				if i%2 == 0 {
					return `{` + full6(i) + `}`
				}
				return `{` + full4(20+i) + `}`
			}) + `]}`,
	})
}

func TestNetworkUpdates(t *testing.T) {
	namespace := newNamespace(t)
	updated(t, networks, namespace, networkWith, map[string]update{
		"the cidr cannot change": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.169.0.0/16}`,
			"spec.cidr", `the cidr cannot change: write "192.168.0.0/16" again`,
		},
		"the cidr cannot grow": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.168.0.0/15}`,
			"spec.cidr", "cannot change",
		},
		"the cidr cannot go to IPv6": {
			`{cidr: 192.168.0.0/16}`, `{cidr: "fd00::/64"}`,
			"spec.cidr", "cannot change",
		},
		"the IPv6 cidr cannot change": {
			`{cidr: "fd00::/64"}`, `{cidr: "fd00:1::/64"}`,
			"spec.cidr", `write "fd00::/64" again`,
		},
		"the cidr cannot be removed": {
			`{cidr: 192.168.0.0/16}`, `{}`,
			"spec.cidr", "once written, it cannot be removed",
		},
		"the cidr cannot be emptied": {
			`{cidr: 192.168.0.0/16}`, `{cidr: ""}`,
			"spec.cidr", "once written, it cannot be removed",
		},
		"a cidr that becomes none is told that": {
			`{cidr: 192.168.0.0/16}`, `{cidr: x}`,
			"spec.cidr", "not a CIDR",
		},
		"host bits that come in are told that": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.168.0.1/16}`,
			"spec.cidr", `host bits are set: write "192.168.0.0/16"`,
		},
		"the same cidr in small letters": {
			`{cidr: "FD00::/64"}`, `{cidr: "fd00::/64"}`,
			"", "",
		},
		"the same cidr without its zeros": {
			`{cidr: "fd00:0000::0/64"}`, `{cidr: "fd00::/64"}`,
			"", "",
		},
		"the gateway may change": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.168.0.0/16, gateway: 192.168.0.9}`,
			"", "",
		},
		"the gateway may go": {
			`{cidr: 192.168.0.0/16, gateway: 192.168.0.9}`, `{cidr: 192.168.0.0/16, gateway: none}`,
			"", "",
		},
		"a gateway that moves into a pool": {
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}]}`,
			`{cidr: 192.168.0.0/16, allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}], gateway: 192.168.0.9}`,
			"spec.allocationPools", "the gateway 192.168.0.9 lies inside a pool",
		},
		"the IPv6 mode cannot come": {
			`{cidr: "fd00::/64"}`, `{cidr: "fd00::/64", ipv6AddressMode: slaac}`,
			"spec.ipv6AddressMode", "it cannot change: leave it out, or delete this Network and create another",
		},
		"the IPv6 mode cannot change": {
			`{cidr: "fd00::/64", ipv6RAMode: slaac}`, `{cidr: "FD00::/64", ipv6RAMode: dhcpv6-stateful}`,
			"spec.ipv6RAMode", `it cannot change: write "slaac" again, or delete this Network`,
		},
		"the IPv6 mode cannot go": {
			`{cidr: "fd00::/64", ipv6RAMode: slaac}`, `{cidr: "fd00::/64"}`,
			"spec.ipv6RAMode", `write "slaac" again`,
		},
		"the IPv6 modes of an additional subnet cannot change": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64", ipv6RAMode: slaac}]}`,
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd01::/64", ipv6RAMode: slaac}, {cidr: "FD00::/64"}]}`,
			"spec.additionalSubnets", `cannot change: write ["FD00::/64"] as before, or remove it, wait`,
		},
		"the IPv6 modes of additional subnets that stay may stay": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64", ipv6RAMode: slaac}, {cidr: "fd01::/64"}]}`,
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd02::/64", ipv6AddressMode: slaac},
				{cidr: "FD00::/64", ipv6RAMode: slaac, gateway: none}]}`,
			"", "",
		},
		"subnets may come": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}]}`,
			"", "",
		},
		"subnets may go, and change their places and what they are": {
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}, {cidr: 172.16.0.0/12}]}`,
			`{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: 172.16.0.0/12, gateway: none}, {cidr: "FD00::/64"}]}`,
			"", "",
		},
		"a subnet that comes where one is": {
			`{cidr: 192.168.0.0/16}`, `{cidr: 192.168.0.0/16, additionalSubnets: [{cidr: 192.168.0.0/24}]}`,
			"spec.additionalSubnets", "write ranges that do not overlap",
		},
		"everything else may change at once": {
			`{cidr: 192.168.0.0/16}`,
			`{cidr: 192.168.0.0/16, dhcp: false, mtu: 1400, portSecurity: false, description: d, dnsServers: [8.8.8.8],
			  allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}], deletionPolicy: Retain, driftPolicy: Report,
			  allowedNamespaces: [team-a, "*"],
			  hostRoutes: [{destination: 10.0.0.0/8, nextHop: 192.168.0.9}]}`,
			"", "",
		},
		"everything else may go at once": {
			`{cidr: 192.168.0.0/16, dhcp: false, mtu: 1400, portSecurity: false, description: d, dnsServers: [8.8.8.8],
			  deletionPolicy: Retain, driftPolicy: Report, allowedNamespaces: [team-a, "*"]}`,
			`{cidr: 192.168.0.0/16}`,
			"", "",
		},
	})
}

// pools returns count pools within a /8 of the given first byte, as YAML, that do not touch.
func pools(first, count int) string {
	return list(count, func(i int) string {
		return fmt.Sprintf("{start: %d.%d.0.2, end: %[1]d.%[2]d.255.254}", first, i)
	})
}

// serviceType is a device owner of the greatest length that differs from that of another number.
func serviceType(number int) string {
	return fmt.Sprintf(`"compute:%s%02d"`, strings.Repeat("é", 245), number)
}

// nameServers returns the addresses of count name servers, as YAML.
func nameServers(count int) string {
	return list(count, func(i int) string { return fmt.Sprintf("10.200.200.%d", 100+i) })
}

// routes returns count routes, as YAML.
func routes(count int) string {
	return list(count, func(i int) string {
		return fmt.Sprintf("{destination: 172.16.%d.0/24, nextHop: 10.255.255.254}", i)
	})
}

// longIPv6 spells an address of one of the ranges fd0:0::/32, fd0:1::/32, … in as many characters as it can have.
func longIPv6(network, host int) string {
	return fmt.Sprintf("0fd0:%04x:0000:0000:0000:0000:%04x:%04x", network, host>>16, host&0xffff)
}

// list calls element for each number below count and joins what it returns with commas.
func list(count int, element func(int) string) string {
	texts := make([]string, count)
	for i := range texts {
		texts[i] = element(i)
	}
	return strings.Join(texts, ", ")
}
