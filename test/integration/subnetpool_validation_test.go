package integration

import (
	"strings"
	"testing"
)

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
