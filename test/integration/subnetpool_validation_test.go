package integration

import (
	"strings"
	"testing"
)

func TestSubnetsFromPoolsAreChecked(t *testing.T) {
	namespace := newNamespace(t)
	for name, test := range map[string]edit{
		"a pool alone":               {spec: `subnetPool: office`},
		"a pool by its id":           {spec: `subnetPool: 11111111-1111-1111-1111-111111111111, prefixLength: 26`},
		"a pool of any name":         {spec: `subnetPool: "Büro 1 / öffentlich"`},
		"a pool without a gateway":   {spec: `subnetPool: office, gateway: none, dhcp: false`},
		"a pool of either family":    {spec: `subnetPool: office, dnsServers: ["fd00::53"], ipv6RAMode: slaac, ipv6AddressMode: slaac, mtu: 1000`},
		"a pool for each subnet":     {spec: `subnetPool: office, additionalSubnets: [{subnetPool: six}, {cidr: 10.0.0.0/24}]`},
		"a pool beside a cidr":       {spec: `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, prefixLength: 126}]`},
		"all else of one may change": {before: `subnetPool: office`, spec: `subnetPool: office, gateway: none, dnsServers: [10.0.0.53]`},

		"neither a pool nor a cidr": {spec: `mtu: 1400`, field: "spec.cidr", message: "or a subnetPool to take one from"},
		"a pool and a cidr": {
			spec: `subnetPool: office, cidr: 10.0.0.0/24`, field: "spec.subnetPool", message: "leave cidr or subnetPool out",
		},
		"a pool of no name": {
			spec: `subnetPool: ""`, field: "spec.subnetPool", message: "write the id or the name of a subnet pool",
		},
		"a pool with a line break": {
			spec: `subnetPool: "a\nb"`, field: "spec.subnetPool", message: "in printable text",
		},
		"a pool of 256 characters": {
			spec: `subnetPool: ` + strings.Repeat("a", 256), field: "spec.subnetPool", message: "Too long",
		},
		"a length of a cidr": {
			spec: `cidr: 10.0.0.0/24, prefixLength: 24`, field: "spec.prefixLength", message: "write one, or leave prefixLength out",
		},
		"no length": {
			spec: `subnetPool: office, prefixLength: 0`, field: "spec.prefixLength", message: "greater than or equal to 1",
		},
		"a length without hosts": {
			spec: `subnetPool: office, prefixLength: 127`, field: "spec.prefixLength", message: "less than or equal to 126",
		},
		"a gateway in a pool": {
			spec: `subnetPool: office, gateway: 10.0.0.1`, field: "spec.gateway", message: `or write "none"`,
		},
		"pools of addresses in a pool": {
			spec:  `subnetPool: office, allocationPools: [{start: 10.0.0.2, end: 10.0.0.9}]`,
			field: "spec.allocationPools", message: "leave allocationPools out",
		},
		"a gateway in a pool, of an additional subnet": {
			spec:  `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office, gateway: 10.0.1.1}]`,
			field: "spec.additionalSubnets[0].gateway", message: `or write "none"`,
		},
		"one pool twice": {
			spec: `subnetPool: office, additionalSubnets: [{subnetPool: office}]`, field: "spec.additionalSubnets",
			message: "two subnets are from one subnetPool",
		},
		"one pool twice, beside a cidr": {
			spec:  `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office}, {subnetPool: office, prefixLength: 28}]`,
			field: "spec.additionalSubnets", message: "two subnets are from one subnetPool",
		},

		"another pool": {
			before: `subnetPool: office`, spec: `subnetPool: workshop`,
			field: "spec.subnetPool", message: `it cannot change: write "office" again, or delete this Network`,
		},
		"a cidr in the place of a pool": {
			before: `subnetPool: office`, spec: `cidr: 10.0.0.0/24`,
			field: "spec.subnetPool", message: `write "office" again`,
		},
		"a pool in the place of a cidr": {
			before: `cidr: 10.0.0.0/24`, spec: `subnetPool: office`,
			field: "spec.subnetPool", message: "it cannot change: leave it out",
		},
		"another length": {
			before: `subnetPool: office, prefixLength: 26`, spec: `subnetPool: office, prefixLength: 27`,
			field: "spec.prefixLength", message: "it cannot change: write 26 again",
		},
		"a length that comes later": {
			before: `subnetPool: office`, spec: `subnetPool: office, prefixLength: 27`,
			field: "spec.prefixLength", message: "it cannot change: leave it out",
		},
		"another IPv6 mode": {
			before: `subnetPool: office`, spec: `subnetPool: office, ipv6RAMode: slaac`,
			field: "spec.ipv6RAMode", message: "it cannot change: leave it out",
		},
		"an additional subnet from another pool": {
			before: `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office}]`,
			spec:   `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: workshop, prefixLength: 28}]`,
		},
		"an additional subnet of another length": {
			before: `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six}, {subnetPool: office}]`,
			spec:   `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: office, prefixLength: 28}, {subnetPool: six}]`,
			field:  "spec.additionalSubnets", message: "cannot change: write them as before, or remove it",
		},
		"an additional subnet of another IPv6 mode": {
			before: `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, ipv6AddressMode: slaac}]`,
			spec:   `cidr: 10.0.0.0/24, additionalSubnets: [{subnetPool: six, ipv6AddressMode: dhcpv6-stateful}]`,
			field:  "spec.additionalSubnets", message: "cannot change: write them as before, or remove it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, namespace, "")
		})
	}
}
