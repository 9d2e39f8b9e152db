package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestNetworkMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, "", []mistake{
		{``, "cidr", `write its network address and prefix length, such as "192.168.0.0/16"`},
		{`gateway: 192.168.0.1, mtu: 1000, dnsServers: [192.168.0.53, "fd00::53"], allocationPools: [{start: 192.168.0.2,
			end: 192.168.0.9}], hostRoutes: [{destination: 10.0.0.0/8, nextHop: "::1"}]`,
			"cidr", "a subnet needs a cidr"},
		{`cidr: ""`, "cidr", "a subnet needs a cidr"},
		{`cidr: office`, "cidr", "not a CIDR: write a network address and a prefix length"},
		{`cidr: 192.168.0.0`, "cidr", "not a CIDR"},
		{`cidr: 192.168.0.0/255.255.0.0`, "cidr", "not a CIDR"},
		{`cidr: 192.168.010.0/24`, "cidr", "not a CIDR"},
		{`cidr: 192.168.0.0/33`, "cidr", "not a CIDR"},
		{`cidr: "fd00::/129"`, "cidr", "not a CIDR"},
		{`cidr: "fe80::%eth0/64"`, "cidr", "not a CIDR"},
		{`cidr: "::ffff:10.0.0.0/104"`, "cidr", "not a CIDR"},
		{`cidr: x, gateway: 10.0.0.1, allocationPools: [{start: 10.0.0.1, end: 10.0.0.2}]`, "cidr", "not a CIDR"},
		{`cidr: 192.168.0.1/16`, "cidr", `host bits are set: write "192.168.0.0/16"`},
		{`cidr: "FD00:1::1:0/64"`, "cidr", `host bits are set: write "fd00:1::/64"`},
		{`cidr: 192.168.0.1/16, gateway: 10.0.0.1`, "cidr", `write "192.168.0.0/16"`},
		{`cidr: 0.0.0.0/0`, "cidr", "write one from 1 to 30"},
		{`cidr: "::/0"`, "cidr", "write one from 1 to 126"},
		{`cidr: 192.168.0.0/31`, "cidr", "write one from 1 to 30"},
		{`cidr: 192.168.0.7/32, gateway: 192.168.0.1`, "cidr", "write one from 1 to 30"},
		{`cidr: "fd00::/127"`, "cidr", "write one from 1 to 126"},
		{`cidr: "fd00::1/128"`, "cidr", "write one from 1 to 126"},
		{`cidr: 127.0.0.0/8`, "cidr", "not a range for hosts"},
		{`cidr: 127.1.0.0/16`, "cidr", "not a range for hosts"},
		{`cidr: 239.0.0.0/8`, "cidr", "not a range for hosts"},
		{`cidr: "ff02::/64"`, "cidr", "not a range for hosts"},
		{`cidr: 0.0.0.0/8`, "cidr", "not a range for hosts"},
		{`cidr: "` + strings.Repeat("f", 50) + `"`, "cidr", "Too long"},
		{`cidr: "fe80::/64", gateway: "fe80::1%eth0"`, "gateway", "not an address"},
		{`cidr: 192.168.0.4/30, gateway: 192.168.0.7`, "gateway", "is the broadcast address"},
		{`cidr: 10.128.0.0/9, gateway: 10.255.255.255`, "gateway", "is the broadcast address"},
		{`cidr: 128.0.0.0/1, gateway: 255.255.255.255`, "gateway", "is the broadcast address"},
		{`cidr: "fd00::/48", ipv6AddressMode: slaac`,
			"cidr", `which needs a /64: write such a cidr, or the mode "dhcpv6-stateful"`},
		{`cidr: "::/64", allocationPools: [{start: "::1:1.2.3.4", end: "::9:1"}]`, "allocationPools[0].start", "not an address"},
		{`cidr: "fd00::/32", allocationPools: [{start: "fd00:0:a::", end: "fd00:0:9::ffff:ffff:ffff:ffff"}]`,
			"allocationPools[0]", "reversed"},
		{`cidr: 192.168.4.0/22, allocationPools: [{start: 192.168.4.9, end: 192.168.7.255}]`,
			"allocationPools", "ends at the broadcast address"},
		{`cidr: 10.0.0.0/8, allocationPools: [` + pools(10, 33) + `]`, "allocationPools", "must have at most 32 items"},
		{`cidr: 10.0.0.0/8, dnsServers: [` + nameServers(17) + `]`, "dnsServers", "must have at most 16 items"},
		{`cidr: 10.0.0.0/8, hostRoutes: [` + routes(65) + `]`, "hostRoutes", "must have at most 64 items"},
		{`cidr: 10.0.0.0/8, hostRoutes: [` + routes(64) + `], additionalSubnets: [{cidr: 11.0.0.0/8, hostRoutes: [` +
			routes(64) + `]}, {cidr: 12.0.0.0/8, allocationPools: [` + pools(12, 32) + `], dnsServers: [10.0.0.53]}]`,
			"additionalSubnets", "write at most 160 allocationPools, dnsServers"},
	})
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []mistake{
		{`gateway: router`, "gateway", `or "none" for a subnet without a gateway`},
		{`gateway: ""`, "gateway", `not an address: write one such as "192.168.0.1"`},
		{`gateway: None`, "gateway", `"none"`},
		{`gateway: 192.168.0.1/16`, "gateway", "not an address"},
		{`gateway: 192.168.0.01`, "gateway", "not an address"},
		{`gateway: "fd00::1"`, "gateway", "not inside 192.168.0.0/16: write an IPv4 address"},
		{`gateway: 192.167.255.255`, "gateway", "not inside 192.168.0.0/16"},
		{`gateway: 192.169.0.0`, "gateway", "not inside 192.168.0.0/16"},
		{`gateway: 192.168.0.0`, "gateway", "192.168.0.0 is the address of the network"},
		{`gateway: 192.168.255.255`, "gateway", "192.168.255.255 is the broadcast address of 192.168.0.0/16"},
		{`ipv6AddressMode: dhcpv6-stateful`, "ipv6AddressMode", "192.168.0.0/16 is IPv4, and only IPv6 has this: leave it out"},
		{`ipv6RAMode: slaac`, "ipv6RAMode", "only IPv6 has this"},
		{`additionalSubnets: [{cidr: "fd00::/65", ipv6RAMode: dhcpv6-stateless}]`,
			"additionalSubnets[0].cidr", `with the mode "dhcpv6-stateless" hosts form their own addresses`},
		{`additionalSubnets: [{cidr: "fd00::/64"}, {gateway: none}]`, "additionalSubnets[1].cidr", "a subnet needs a cidr"},
		{`additionalSubnets: [{cidr: "fd00::1/64"}]`, "additionalSubnets[0].cidr", `write "fd00::/64"`},
		{`additionalSubnets: [{cidr: 10.0.0.0/24, gateway: 192.168.0.1}]`,
			"additionalSubnets[0].gateway", "not inside 10.0.0.0/24"},
		{`additionalSubnets: [{cidr: 10.0.0.0/24, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}, {start: 10.0.0.9,
			end: 10.0.0.20}]}]`,
			"additionalSubnets[0].allocationPools", "do not overlap"},
		{`additionalSubnets: [{cidr: "fd00::/64", dnsServers: [192.168.0.53]}]`,
			"additionalSubnets[0].dnsServers", "write IPv6 addresses, as in the cidr fd00::/64"},
		{`additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 192.168.1.0/24}]`,
			"additionalSubnets",
			`some of the same addresses: ["additionalSubnets[1].cidr 192.168.1.0/24"]; write ranges that do not overlap`},
		{`additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}, {cidr: "FD00:0::0/64"}]`,
			"additionalSubnets", `["additionalSubnets[0].cidr fd00::/64", "additionalSubnets[2].cidr FD00:0::0/64"]`},
		{`additionalSubnets: [` + list(8, func(i int) string { return fmt.Sprintf("{cidr: 10.0.%d.0/24}", i) }) + `]`,
			"additionalSubnets", "must have at most 7 items"},
		{`mtu: 1279, additionalSubnets: [{cidr: "fd00::/64"}]`, "mtu", "IPv6 needs an MTU of at least 1280"},
		{`allocationPools: [{end: 192.168.0.9}]`, "allocationPools[0].start", "Required value"},
		{`allocationPools: [{start: 192.168.0.9}]`, "allocationPools[0].end", "Required value"},
		{`allocationPools: [{start: a, end: 192.168.0.9}]`, "allocationPools[0].start", "not an address"},
		{`allocationPools: [{start: 192.168.0.2, end: 192.168.0.9}, {start: 192.168.0.20, end: ""}]`,
			"allocationPools[1].end", "not an address"},
		{`allocationPools: [{start: 192.168.0.100, end: 192.168.0.20}]`,
			"allocationPools[0]", `write start "192.168.0.20" and end "192.168.0.100"`},
		{`allocationPools: [{start: "fd00::2", end: "fd00::9"}]`,
			"allocationPools", `not inside 192.168.0.0/16: ["fd00::2-fd00::9"]`},
		{`allocationPools: [{start: 192.168.0.2, end: "fd00::9"}]`, "allocationPools", "not inside 192.168.0.0/16"},
		{`allocationPools: [{start: 192.167.0.2, end: 192.167.0.9}]`, "allocationPools", "not inside 192.168.0.0/16"},
		{`allocationPools: [{start: 192.167.0.2, end: 192.168.0.9}]`, "allocationPools", "not inside"},
		{`dnsServers: [192.168.0.53, ns1.example.com]`, "dnsServers[1]", "not an address"},
		{`dnsServers: [192.168.0.53, 192.168.0.54, 192.168.0.53]`, "dnsServers", "listed twice"},
		{`dnsServers: ["fd00::53"]`, "dnsServers", "write IPv4 addresses"},
		{`serviceTypes: ["compute:nova", nova]`,
			"serviceTypes[1]", `write one that begins with "compute:", "network:", "neutron:" or "baremetal:"`},
		{`serviceTypes: ["compute:nova\n"]`, "serviceTypes[0]", "not a device owner"},
		{`serviceTypes: [` + list(9, func(i int) string {
			return fmt.Sprintf(`"compute:%d%s"`, i, strings.Repeat("é", 240))
		}) + `]`, "serviceTypes", "write at most 4096 bytes in all"},
		{`serviceTypes: ["compute:nova", "compute:nova"]`, "serviceTypes[1]", "Duplicate value"},
		{`additionalSubnets: [{cidr: "fd00::/64", serviceTypes: [` + list(17, serviceType) + `]}]`,
			"additionalSubnets[0].serviceTypes", "must have at most 16 items"},
		{`reservedFor: [{namespace: a}, {namespace: a}]`, "reservedFor", "a user is listed twice"},
		{`reservedFor: [{namespace: "*"}]`, "reservedFor[0].namespace", "not a namespace"},
		{`reservedFor: [{kind: Job, name: a}]`, "reservedFor[0].kind", `supported values: "Deployment", "StatefulSet"`},
		{`additionalSubnets: [{cidr: "fd00::/64", reservedFor: [{kind: Deployment}]}]`,
			"additionalSubnets[0].reservedFor[0].name", "kind and name go together"},
		{`reservedFor: [{kind: Deployment, name: Web}]`, "reservedFor[0].name", "not the name of a Deployment or StatefulSet"},
		{`dnsPublishFixedIP: "yes"`, "dnsPublishFixedIP", "must be of type boolean"},
		{`hostRoutes: [{nextHop: 192.168.0.9}]`, "hostRoutes[0].destination", "Required value"},
		{`hostRoutes: [{destination: 10.0.0.0/8}]`, "hostRoutes[0].nextHop", "Required value"},
		{`hostRoutes: [{destination: 10.0.0.0, nextHop: 192.168.0.9}]`, "hostRoutes[0].destination", "not a CIDR"},
		{`hostRoutes: [{destination: 10.0.0.1/8, nextHop: 192.168.0.9}]`,
			"hostRoutes[0].destination", `host bits are set: write "10.0.0.0/8"`},
		{`hostRoutes: [{destination: 127.0.0.0/8, nextHop: 192.168.0.9}]`, "hostRoutes[0].destination", "a loopback range"},
		{`hostRoutes: [{destination: 10.0.0.0/8, nextHop: router}]`, "hostRoutes[0].nextHop", "not an address"},
		{`hostRoutes: [{destination: "fd00::/8", nextHop: 192.168.0.9}]`, "hostRoutes", "write IPv4 destinations and next hops"},
		{`mtu: 67`, "mtu", "greater than or equal to 68"},
		{`mtu: 65536`, "mtu", "less than or equal to 65535"},
		{`description: "` + strings.Repeat("ü", 174) + `"`, "description", "174 characters are too many: write at most 173"},
		{`description: "` + strings.Repeat("ü", 1025) + `"`, "description", "Too long"},
		{`description: "mine [owner=a/b]"`, "description", "write the text without it"},
		{`description: "a\0b"`, "description", "a control character"},
		{`description: "\e[31mred"`, "description", "a control character"},
		{`deletionPolicy: Keep`, "deletionPolicy", `supported values: "Delete", "Retain"`},
		{`deletionPolicy: ""`, "deletionPolicy", `supported values: "Delete", "Retain"`},
		{`managementPolicy: Observe`, "managementPolicy", "write its id in import.id"},
		{`managementPolicy: Plan`, "managementPolicy", `supported values: "Manage", "Observe"`},
		{`import: {id: prod}`, "import.id", `write what "openstack network show -f value -c id NAME" prints`},
		{`import: {overwrite: true}`, "import.id", "write the id of the network, or a filter"},
		{`import: {id: ` + anID + `, filter: {name: prod}}`, "import.id", "and not both"},
		{`import: {filter: {}}`, "import.filter.name", "write one of them, or both"},
		{`import: {filter: {name: ""}}`, "import.filter.name", "not the name of a network"},
		{`import: {filter: {name: "a\nb"}}`, "import.filter.name", "not the name of a network"},
		{`import: {filter: {name: ` + strings.Repeat("n", 256) + `}}`, "import.filter.name", "may not be more than 255"},
		{`import: {filter: {tags: []}}`, "import.filter.tags", "should have at least 1 items"},
		{`import: {filter: {tags: [a, a]}}`, "import.filter.tags[1]", "Duplicate value"},
		{`import: {filter: {tags: [a, b, c, d, e]}}`, "import.filter.tags", "must have at most 4 items"},
		{`import: {filter: {tags: ["a,b"]}}`, "import.filter.tags[0]", "without a comma"},
		{`import: {filter: {tags: [""]}}`, "import.filter.tags[0]", "write 1 to 60"},
		{`ignoreDrift: [cidr]`, "ignoreDrift[0]", `supported values: "name", "description", "adminState"`},
		{`ignoreDrift: [mtu, mtu]`, "ignoreDrift[1]", "Duplicate value"},
		{`driftPolicy: correct`, "driftPolicy", `supported values: "Correct", "Report"`},
	})
	refused(t, networks, namespace, networkWith, `cidr: "fd00::/64", `, []mistake{
		{`gateway: "fd00::192.0.2.1"`, "gateway", "not an address"},
		{`gateway: 192.168.0.1`, "gateway", "not inside fd00::/64: write an IPv6 address"},
		{`gateway: "fd00:0:0:1::1"`, "gateway", "not inside fd00::/64"},
		{`ipv6RAMode: SLAAC`, "ipv6RAMode", `supported values: "slaac", "dhcpv6-stateful", "dhcpv6-stateless"`},
		{`ipv6RAMode: slaac, ipv6AddressMode: dhcpv6-stateless`,
			"ipv6RAMode", `"slaac" does not go with ipv6AddressMode "dhcpv6-stateless": write the same in both`},
		{`ipv6RAMode: dhcpv6-stateful, dhcp: false`, "dhcp", "needs DHCP: write true"},
		{`allocationPools: [{start: "fd00::1:0", end: "fd00::FFFF"}]`,
			"allocationPools[0]", `write start "fd00::FFFF" and end "fd00::1:0"`},
		{`allocationPools: [{start: "fd00::2", end: "fd00::9"}, {start: "fd00::10", end: "fd00:0:0:1::"}]`,
			"allocationPools", `["fd00::10-fd00:0:0:1::"]; write ranges that begin and end in it`},
		{`gateway: none, allocationPools: [{start: "fd00::", end: "fd00::9"}]`,
			"allocationPools", "fd00:: is the address of the network itself"},
		{`gateway: "fd00::A:0", allocationPools: [{start: "fd00::9:ffff", end: "fd00::a:1"}]`,
			"allocationPools", "lies inside a pool"},
		{`allocationPools: [{start: "fd00:0::1", end: "fd00::20"}]`,
			"allocationPools", "the first address of fd00::/64 is the default gateway"},
		{`allocationPools: [{start: "fd00::2", end: "fd00::ffff"}, {start: "fd00::a", end: "fd00::10"}]`,
			"allocationPools", "do not overlap"},
		{`allocationPools: [{start: "fd00::a", end: "fd00::b"}, {start: "fd00::A", end: "fd00::B"}]`,
			"allocationPools", "do not overlap"},
		{`dnsServers: ["FD00::1", "fd00::1"]`, "dnsServers", "listed twice"},
		{`dnsServers: ["fd00::53", 8.8.8.8]`, "dnsServers", "write IPv6 addresses"},
		{`ipv6AddressMode: slaac, ipv6RAMode: slaac, reservedFor: [{}]`,
			"reservedFor", "every port of the network forms an address of such a subnet itself"},
		{`hostRoutes: [{destination: "fd01::1/64", nextHop: "fd00::9"}]`, "hostRoutes[0].destination", `write "fd01::/64"`},
		{`hostRoutes: [{destination: "fd00::/8", nextHop: 192.168.0.9}]`, "hostRoutes", "write IPv6 destinations and next hops"},
		{`hostRoutes: [{destination: "FD00::/8", nextHop: "fd00::A"}, {destination: "fd00::/8", nextHop: "fd00::a"}]`,
			"hostRoutes", "a route is listed twice"},
		{`mtu: 67`, "mtu", "greater than or equal to 68"},
		{`mtu: 1279`, "mtu", "write 1280 or more"},
	})
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/24, `, []mistake{
		{`additionalSubnets: [{cidr: 192.168.0.0/16}]`, "additionalSubnets", `["additionalSubnets[0].cidr 192.168.0.0/16"]`},
		{`gateway: 192.168.0.20, allocationPools: [{start: 192.168.0.0, end: 192.168.0.9}]`,
			"allocationPools", "192.168.0.0 is the address of the network itself"},
		{`allocationPools: [{start: 192.168.0.9, end: 192.168.0.255}]`,
			"allocationPools", "ends at the broadcast address of 192.168.0.0/24"},
		{`gateway: 192.168.0.100, allocationPools: [{start: 192.168.0.9, end: 192.168.0.200}]`,
			"allocationPools", "the gateway 192.168.0.100 lies inside a pool"},
		{`gateway: 192.168.0.9, allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}]`,
			"allocationPools", "lies inside a pool"},
		{`gateway: 192.168.0.20, allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}]`,
			"allocationPools", "lies inside a pool"},
		{`allocationPools: [{start: 192.168.0.1, end: 192.168.0.20}]`,
			"allocationPools", "the first address of 192.168.0.0/24 is the default gateway"},
		{`allocationPools: [{start: 192.168.0.9, end: 192.168.0.100}, {start: 192.168.0.99, end: 192.168.0.200}]`,
			"allocationPools", "write ranges that do not overlap"},
		{`allocationPools: [{start: 192.168.0.100, end: 192.168.0.200}, {start: 192.168.0.9, end: 192.168.0.100}]`,
			"allocationPools", "do not overlap"},
	})
}

func TestNetworkWithoutSpecIsToldToWriteOne(t *testing.T) {
	refusedWithoutSpec(t, networks, newNamespace(t), networkWith,
		`Required value: a Network needs a spec: write spec.cidr, such as "192.168.0.0/16", or spec.subnetPool`)
}

func TestTwoMistakesAreNamedAtOnce(t *testing.T) {
	_, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t,
		`{cidr: 192.168.0.0/16, gateway: 10.0.0.1, dnsServers: [ns], description: "[owner="}`))
	var fields []string
	for _, found := range refusals(t, err) {
		fields = append(fields, found.Field)
	}
	want := []string{"spec.gateway", "spec.description", "spec.dnsServers[0]"}
	expect.EqualWith(t, cmp.Options{cmpopts.SortSlices(strings.Compare)}, want, fields, "fields")
}

func TestUnknownFieldIsRefusedByName(t *testing.T) {
	namespace := newNamespace(t)
	unknown(t, networks, namespace, networkWith, map[string]string{
		`{cidr: 192.168.0.0/16, gatway: 192.168.0.1}`:                    `unknown field "spec.gatway"`,
		`{cidr: 192.168.0.0/16, allocation_pools: []}`:                   `unknown field "spec.allocation_pools"`,
		`{cidr: 192.168.0.0/16, allocationPools: [{from: 192.168.0.2}]}`: `unknown field "spec.allocationPools[0].from"`,
	})
	unknown(t, networkPorts, namespace, networkPortWith, map[string]string{
		`{networkName: a, address: 192.168.0.10}`: `unknown field "spec.address"`,
	})
}

// unknown holds that specs are refused for a field, with a message.
func unknown(t *testing.T, of schema.GroupVersionResource, namespace string, with withSpec, says map[string]string) {
	t.Helper()
	for spec, message := range says {
		_, err := tryCreate(t.Context(), of, namespace, with(t, spec))
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: want a bad request that says %s, got %v", spec, message, err)
		}
	}
}

func TestNetworkSpecsThatCanBeBuiltAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, "", []string{
		`cidr: 192.168.0.0/16`,
		`cidr: "fd00::/64"`,
		`cidr: "FD00:0001::/64"`,
		`cidr: "64:ff9b::192.0.2.0/120"`,
		`cidr: 192.168.0.4/30, gateway: 192.168.0.6, allocationPools: [{start: 192.168.0.5, end: 192.168.0.5}]`,
		`cidr: "fd00::4/126", gateway: "fd00::5", allocationPools: [{start: "fd00::6", end: "fd00::7"}]`,
		`cidr: 128.0.0.0/1, allocationPools: [{start: 128.0.0.2, end: 255.255.255.254}]`,
		`cidr: "::/1", allocationPools: [{start: "::2", end: "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}]`,
		`cidr: 10.0.0.0/9, gateway: 10.127.255.254`,
		`cidr: 10.0.0.0/8, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}, {start: 10.0.0.10, end: 10.0.0.99},
			{start: 10.0.0.100, end: 10.0.1.0}]`,
	})
	accepted(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []string{
		`gateway: 192.168.0.1`,
		`gateway: 192.168.255.0`,
		`gateway: 192.168.0.255`,
		`gateway: none`,
		`dhcp: false`,
		`dnsServers: [8.8.8.8, 192.168.0.53]`,
		`hostRoutes: [{destination: 0.0.0.0/0, nextHop: 192.168.0.9}]`,
		`hostRoutes: [{destination: 10.0.0.0/8, nextHop: 172.16.0.1}]`,
		`hostRoutes: [{destination: 10.0.0.0/8, nextHop: 192.168.0.8}, {destination: 10.0.0.0/8, nextHop: 192.168.0.9}]`,
		`mtu: 68`,
		`mtu: 65535`,
		`portSecurity: false`,
		`description: "` + strings.Repeat("網", 173) + `"`,
		`description: "` + strings.Repeat("🌐", 173) + `"`,
		`description: "one\n\ttwo [owners: us]\r\n"`,
		`deletionPolicy: Delete`,
		`deletionPolicy: Retain`,
		`driftPolicy: Correct`,
		`driftPolicy: Report`,
	})
	accepted(t, networks, namespace, networkWith, `cidr: "fd00::/64", `, []string{
		`gateway: "FD00:0:0:0::1"`,
		`gateway: "FD00:0::0", allocationPools: [{start: "fd00::1", end: "fd00::9"}]`,
		`gateway: "fd00::ffff:ffff:ffff:ffff"`,
		`gateway: "fd00::1:0", allocationPools: [{start: "fd00::1:1", end: "fd00::a:0"}, {start: "fd00::2", end: "fd00::9"}]`,
		`allocationPools: [{start: "fd00::2", end: "fd00::ffff:ffff:ffff:ffff"}]`,
		`dnsServers: ["64:ff9b::8.8.8.8", "fd00::1", "fd00::2"]`,
		`hostRoutes: [{destination: "fd01::1/128", nextHop: "fd00::9"}]`,
		`mtu: 1280`,
	})
	accepted(t, networks, namespace, networkWith, `cidr: 192.168.0.0/24, `, []string{
		`gateway: none, allocationPools: [{start: 192.168.0.1, end: 192.168.0.254}]`,
		`allocationPools: []`,
		`allocationPools: [{start: 192.168.0.2, end: 192.168.0.254}]`,
		`gateway: 192.168.0.10, allocationPools: [{start: 192.168.0.11, end: 192.168.0.254}, {start: 192.168.0.1,
			end: 192.168.0.9}]`,
		`gateway: 192.168.0.254, allocationPools: [{start: 192.168.0.1, end: 192.168.0.253}]`,
		`allocationPools: [{start: 192.168.0.2, end: 192.168.0.2}]`,
	})
}

func TestSchemaDefaultsDHCPAndNoPolicy(t *testing.T) {
	got, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t, `{cidr: 192.168.0.0/16}`))
	expect.NoError(t, err)
	want := map[string]any{"cidr": "192.168.0.0/16", "dhcp": true}
	expect.Equal(t, want, got.Object["spec"], "spec as stored")
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
	// All subnets together have as many entries as one may have: subnets says how many share them.
	full4 := func(n, subnets int) string {
		return fmt.Sprintf(`cidr: %d.0.0.0/8, gateway: %[1]d.255.255.254,
			allocationPools: [%s], dnsServers: [%s], hostRoutes: [%s], serviceTypes: [%s],
			reservedFor: [%s]`, n, pools(n, 32/subnets), nameServers(16/subnets), routes(64/subnets),
			list(16/subnets, serviceType), list(32/subnets, user))
	}
	full6 := func(n, subnets int) string {
		address := func(i int) string { return longIPv6(n, i) }
		return `ipv6RAMode: dhcpv6-stateful, ipv6AddressMode: dhcpv6-stateful,
			serviceTypes: [` + list(16/subnets, serviceType) + `], reservedFor: [` + list(32/subnets, user) + `],
			cidr: "` + address(0) + `/32", gateway: "` + address(0xfffe) + `", allocationPools: [` +
			list(32/subnets, func(i int) string {
				return fmt.Sprintf("{start: %q, end: %q}", address(i<<16+2), address(i<<16+0xff00))
			}) + `], dnsServers: [` + list(16/subnets, func(i int) string { return strconv.Quote(address(i)) }) + `],
			hostRoutes: [` + list(64/subnets, func(i int) string {
			return fmt.Sprintf("{destination: %q, nextHop: %q}", address(i<<16)+"/112", address(1))
		}) + `]`
	}
	accepted(t, networks, namespace, networkWith, "", []string{
		`` + full4(10, 1) + `, mtu: 65535, description: "` + description + `"`,
		`` + full6(0, 1) + `, mtu: 65535, description: "` + description + `"`,
		`` + full4(10, 8) + `, mtu: 65535, description: "` + description + `", router: {}, additionalSubnets: [` +
			list(7, func(i int) string {
				if i%2 == 0 {
					return `{` + full6(i, 8) + `}`
				}
				return `{` + full4(20+i, 8) + `}`
			}) + `]`,
	})
}

func TestNetworkUpdates(t *testing.T) {
	namespace := newNamespace(t)
	updated(t, networks, namespace, networkWith, "", []update{
		{`cidr: 192.168.0.0/16`, `cidr: 192.169.0.0/16`, "cidr", `the cidr cannot change: write "192.168.0.0/16" again`},
		{`cidr: 192.168.0.0/16`, `cidr: 192.168.0.0/15`, "cidr", "cannot change"},
		{`cidr: 192.168.0.0/16`, `cidr: "fd00::/64"`, "cidr", "cannot change"},
		{`cidr: "fd00::/64"`, `cidr: "fd00:1::/64"`, "cidr", `write "fd00::/64" again`},
		{`cidr: 192.168.0.0/16`, ``, "cidr", "once written, it cannot be removed"},
		{`cidr: 192.168.0.0/16`, `cidr: ""`, "cidr", "once written, it cannot be removed"},
		{`cidr: 192.168.0.0/16`, `cidr: x`, "cidr", "not a CIDR"},
		{`cidr: 192.168.0.0/16`, `cidr: 192.168.0.1/16`, "cidr", `host bits are set: write "192.168.0.0/16"`},
		{`cidr: "FD00::/64"`, `cidr: "fd00::/64"`, "", ""},
		{`cidr: "fd00:0000::0/64"`, `cidr: "fd00::/64"`, "", ""},
		{`cidr: 192.168.0.0/16`, `cidr: 192.168.0.0/16, gateway: 192.168.0.9`, "", ""},
		{`cidr: "fd00::/64"`, `cidr: "fd00::/64", ipv6AddressMode: slaac`,
			"ipv6AddressMode", "it cannot change: leave it out, or delete this Network and create another"},
		{`cidr: "fd00::/64", ipv6RAMode: slaac`, `cidr: "FD00::/64", ipv6RAMode: dhcpv6-stateful`,
			"ipv6RAMode", `it cannot change: write "slaac" again, or delete this Network`},
		{`cidr: "fd00::/64", ipv6RAMode: slaac`, `cidr: "fd00::/64"`, "ipv6RAMode", `write "slaac" again`},
		{`cidr: 192.168.0.0/16`, `cidr: 192.168.0.0/16, additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}]`, "", ""},
		{`cidr: 192.168.0.0/16`, `cidr: 192.168.0.0/16, additionalSubnets: [{cidr: 192.168.0.0/24}]`,
			"additionalSubnets", "write ranges that do not overlap"},
		{`cidr: 192.168.0.0/16`,
			`cidr: 192.168.0.0/16, dhcp: false, mtu: 1400, portSecurity: false, description: d, dnsServers: [8.8.8.8],
				allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}], deletionPolicy: Retain, driftPolicy: Report,
				allowedNamespaces: [team-a, "*"], hostRoutes: [{destination: 10.0.0.0/8, nextHop: 192.168.0.9}]`,
			"", ""},
		{`cidr: 192.168.0.0/16, dhcp: false, mtu: 1400, portSecurity: false, description: d, dnsServers: [8.8.8.8],
			deletionPolicy: Retain, driftPolicy: Report, allowedNamespaces: [team-a, "*"]`, `cidr: 192.168.0.0/16`,
			"", ""},
	})
	updated(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []update{
		{`gateway: 192.168.0.9`, `gateway: none`, "", ""},
		{`allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}]`,
			`allocationPools: [{start: 192.168.0.9, end: 192.168.0.20}], gateway: 192.168.0.9`,
			"allocationPools", "the gateway 192.168.0.9 lies inside a pool"},
		{`additionalSubnets: [{cidr: "fd00::/64", ipv6RAMode: slaac}]`,
			`additionalSubnets: [{cidr: "fd01::/64", ipv6RAMode: slaac}, {cidr: "FD00::/64"}]`,
			"additionalSubnets", `cannot change: write ["FD00::/64"] as before, or remove it, wait`},
		{`additionalSubnets: [{cidr: "fd00::/64", ipv6RAMode: slaac}, {cidr: "fd01::/64"}]`,
			`additionalSubnets: [{cidr: "fd02::/64", ipv6AddressMode: slaac}, {cidr: "FD00::/64", ipv6RAMode: slaac, gateway: none}]`,
			"", ""},
		{`additionalSubnets: [{cidr: "fd00::/64"}, {cidr: 10.0.0.0/8}, {cidr: 172.16.0.0/12}]`,
			`additionalSubnets: [{cidr: 172.16.0.0/12, gateway: none}, {cidr: "FD00::/64"}]`,
			"", ""},
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
	return fmt.Sprintf(`"compute:%s%02d"`, strings.Repeat("e", 245), number)
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

func TestMistakesInTheCloudOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []mistake{
		{`cloud: {name: mine}`, "cloud.secretName", "Required value"},
		{`cloud: {secretName: ""}`,
			"cloud.secretName", `not the name of a Secret: write one of this namespace, such as "openstack"`},
		{`cloud: {secretName: kube-system/openstack}`, "cloud.secretName", "write one of this namespace"},
		{`cloud: {secretName: ` + strings.Repeat("a", 254) + `}`, "cloud.secretName", "Too long"},
		{`cloud: {secretName: openstack, name: "a\nb"}`, "cloud.name", `write the name of an entry below "clouds:"`},
		{`cloud: {secretName: openstack, name: "\e[31mred"}`, "cloud.name", "a control character"},
	})
}

func TestCloudNeedsSecretAndEntry(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, "", []string{
		`cidr: 192.168.0.0/16`,
		`cidr: 192.168.0.0/16, cloud: {secretName: openstack}`,
		`cidr: 192.168.0.0/16, cloud: {secretName: my.open-stack, name: My cloud}`,
		`cidr: 192.168.0.0/16, cloud: {secretName: openstack, name: ""}`,
	})
	t.Run("and no field names a namespace", func(t *testing.T) {
		object := networkWith(t, `{cidr: 192.168.0.0/16, cloud: {secretName: openstack, namespace: kube-system}}`)
		if _, err := tryCreate(t.Context(), networks, namespace, object); err == nil ||
			!strings.Contains(err.Error(), "unknown field") {
			t.Errorf("a namespace is not refused: %v", err)
		}
	})
}

func TestImportIsImmutable(t *testing.T) {
	const (
		imported = `import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6}`
		forced   = `import: {id: 068d42bb-96f5-48f9-849f-0d08dcfe7af6, overwrite: true}`
		another  = `import: {id: 168d42bb-96f5-48f9-849f-0d08dcfe7af6}`
		observed = `managementPolicy: Observe, ` + imported
		managed  = `managementPolicy: Manage, ` + imported
		found    = `import: {filter: {name: prod, tags: [a, b]}}`
		again    = "write the id 068d42bb-96f5-48f9-849f-0d08dcfe7af6 again"
	)
	updated(t, networks, newNamespace(t), networkWith, `cidr: 192.168.0.0/16, `, []update{
		{"", imported, "import", "leave import out, or delete this Network"},
		{imported, "", "import", again},
		{imported, another, "import", again},
		{imported, observed, "managementPolicy", "deletionPolicy Retain"},
		{managed, observed, "managementPolicy", "deletionPolicy Retain"},
		{imported, forced, "", ""}, // it may be allowed to overwrite
		{imported, found, "import", again},
		{found, imported, "import", "write the filter as it was"},
		{found, `import: {filter: {name: prod}}`, "import", "write the filter as it was"},
		{found, `import: {filter: {name: test, tags: [a, b]}}`, "import", "write the filter as it was"},
		{found, "", "import", "write the filter as it was"},
		{"", found, "import", "leave import out"},
		{found, `import: {filter: {name: prod, tags: [b, a]}, overwrite: true}`, "", ""},
		{`managementPolicy: Observe, ` + found, found, "", ""},
		{observed, managed, "", ""},
		{observed, imported, "", ""}, // it may leave the policy to its default
		{observed, observed, "", ""},
	})
}

func TestSubnetsFromPoolsAreChecked(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, "", []string{
		`subnetPool: office`,
		`subnetPool: 11111111-1111-1111-1111-111111111111, prefixLength: 26`,
		`subnetPool: "Büro 1 / öffentlich"`,
		`subnetPool: office, gateway: none, dhcp: false`,
		`subnetPool: office, dnsServers: ["fd00::53"], ipv6RAMode: slaac, ipv6AddressMode: slaac, mtu: 1000`,
		`subnetPool: office, additionalSubnets: [{subnetPool: six}, {cidr: 10.0.0.0/24}]`,
		`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, prefixLength: 126}]`,
	})
	refused(t, networks, namespace, networkWith, "", []mistake{
		{`mtu: 1400`, "cidr", "or a subnetPool to take one from"},
		{`subnetPool: office, cidr: 10.0.0.0/24`, "subnetPool", "leave cidr or subnetPool out"},
		{`subnetPool: ""`, "subnetPool", "write the id or the name of a subnet pool"},
		{`subnetPool: "a\nb"`, "subnetPool", "in printable text"},
		{`subnetPool: ` + strings.Repeat("a", 256), "subnetPool", "Too long"},
		{`cidr: 10.0.0.0/24, prefixLength: 24`, "prefixLength", "write one, or leave prefixLength out"},
		{`subnetPool: office, prefixLength: 0`, "prefixLength", "greater than or equal to 1"},
		{`subnetPool: office, prefixLength: 127`, "prefixLength", "less than or equal to 126"},
		{`subnetPool: office, gateway: 10.0.0.1`, "gateway", `or write "none"`},
		{`subnetPool: office, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}]`,
			"allocationPools", "leave allocationPools out"},
		{`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office, gateway: 10.0.1.1}]`,
			"additionalSubnets[0].gateway", `or write "none"`},
		{`subnetPool: office, additionalSubnets: [{subnetPool: office}]`,
			"additionalSubnets", "two subnets are from one subnetPool"},
		{`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office}, {subnetPool: office, prefixLength: 28}]`,
			"additionalSubnets", "two subnets are from one subnetPool"},
	})
	updated(t, networks, namespace, networkWith, "", []update{
		{`subnetPool: office`, `subnetPool: office, gateway: none, dnsServers: [10.0.0.53]`, "", ""},
		{`subnetPool: office`, `subnetPool: workshop`,
			"subnetPool", `it cannot change: write "office" again, or delete this Network`},
		{`subnetPool: office`, `cidr: 10.0.0.0/24`, "subnetPool", `write "office" again`},
		{`cidr: 10.0.0.0/24`, `subnetPool: office`, "subnetPool", "it cannot change: leave it out"},
		{`subnetPool: office, prefixLength: 26`, `subnetPool: office, prefixLength: 27`,
			"prefixLength", "it cannot change: write 26 again"},
		{`subnetPool: office`, `subnetPool: office, prefixLength: 27`, "prefixLength", "it cannot change: leave it out"},
		{`subnetPool: office`, `subnetPool: office, ipv6RAMode: slaac`, "ipv6RAMode", "it cannot change: leave it out"},
		{`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office}]`,
			`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: workshop, prefixLength: 28}]`,
			"", ""},
		{`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six}, {subnetPool: office}]`,
			`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office, prefixLength: 28}, {subnetPool: six}]`,
			"additionalSubnets", "cannot change: write them as before, or remove it"},
		{`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, ipv6AddressMode: slaac}]`,
			`cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, ipv6AddressMode: dhcpv6-stateful}]`,
			"additionalSubnets", "cannot change: write them as before, or remove it"},
	})
}
