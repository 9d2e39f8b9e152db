package integration

import (
	"fmt"
	"strings"
	"testing"
)

func TestRouterMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	route := func(destination, nextHop string) string {
		return fmt.Sprintf(`{destination: "%s", nextHop: "%s"}`, destination, nextHop)
	}
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, router: `, []mistake{
		{`{existing: r, externalNetwork: public}`, "router.existing", "write existing alone"},
		{`{existing: r, snat: false, externalIP: 203.0.113.9}`, "router.existing", "write existing alone"},
		{`{existing: r, routes: [` + route("10.9.0.0/16", "192.168.0.9") + `]}`, "router.existing", "write existing alone"},
		{`{existing: r, ha: true}`, "router.existing", "write existing alone"},
		{`{existing: r, distributed: false}`, "router.existing", "write existing alone"},
		{`{existing: ""}`, "router.existing", "write the id or the name of a router"},
		{`{existing: "` + strings.Repeat("x", 256) + `"}`, "router.existing", "Too long"},
		{`{externalNetwork: ""}`, "router.externalNetwork", "write the id or the name of an external network"},
		{`{snat: true}`, "router.snat", "write externalNetwork too"},
		{`{externalIP: 203.0.113.9}`, "router.externalIP", "write externalNetwork too"},
		{`{externalNetwork: public, externalIP: ours}`, "router.externalIP", `not an address: write one such as "203.0.113.10"`},
		{`{externalNetwork: public, externalIP: "::ffff:203.0.113.9"}`, "router.externalIP", "not an address"},
		{`{routes: [` + route("10.9.0.1/16", "192.168.0.9") + `]}`,
			"router.routes[0].destination", `host bits are set: write "10.9.0.0/16"`},
		{`{routes: [` + route("10.9.0.0/16", "nobody") + `]}`, "router.routes[0].nextHop", "not an address"},
		{`{routes: [` + route("10.9.0.0/16", "fd00::1") + `]}`, "router.routes", "write both of one family"},
		{`{routes: [` + route("FD00::/64", "fd00:1::1") + "," + route("fd00::/64", "FD00:1::1") + `]}`,
			"router.routes", "a route is listed twice"},
		{`{routes: [` + strings.Repeat(route("10.9.0.0/16", "192.168.0.9")+",", 31) + `]}`, "router.routes", "Too many: 31"},
	})
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []mistake{
		{`managementPolicy: Observe, router: {}, import: {id: 11111111-1111-1111-1111-111111111111}`,
			"router", "leave router out"},
	})
}

func TestOneRouterAdvertisesOnASubnet(t *testing.T) {
	namespace := newNamespace(t)
	const six, four = `router: {}, cidr: "FD00::/64", `, `router: {existing: r}, cidr: 10.0.0.0/24, additionalSubnets: `
	accepted(t, networks, namespace, networkWith, "", []string{
		six + `ipv6AddressMode: slaac, ipv6RAMode: slaac`,
		six + `ipv6RAMode: dhcpv6-stateless`,
		six + `dhcp: false`,
		six + `ipv6AddressMode: slaac, gateway: none`,
		six + `ipv6AddressMode: slaac, serviceTypes: ["compute:nova"]`,
		`cidr: "fd00::/64", ipv6AddressMode: slaac`,
		four + `[{cidr: "fd00::/64", ipv6AddressMode: slaac, ipv6RAMode: slaac}, {cidr: "fd01::/64", ipv6AddressMode: slaac,
			gateway: none}, {cidr: "fd02::/64"}, {subnetPool: six, ipv6AddressMode: slaac, serviceTypes: ["neutron:a"]}]`,
	})
	refused(t, networks, namespace, networkWith, "", []mistake{
		{six + `ipv6AddressMode: dhcpv6-stateful, dhcp: true`,
			"ipv6RAMode", `write "dhcpv6-stateful" here too if the subnet is new, or gateway "none"`},
		{six + `ipv6AddressMode: slaac, gateway: "fd00::1"`, "ipv6RAMode", `write "slaac"`},
		{six + `ipv6AddressMode: slaac, serviceTypes: ["compute:nova", "network:router_interface"]`,
			"ipv6RAMode", `write "slaac"`},
		{`router: {existing: r}, subnetPool: six, ipv6AddressMode: slaac`, "ipv6RAMode", `or leave router out`},
		{four + `[{cidr: "fd00::/64", ipv6AddressMode: slaac}, {cidr: "fd01::/64", ipv6RAMode: slaac}, {subnetPool: six,
			ipv6AddressMode: dhcpv6-stateful, serviceTypes: []}]`,
			"additionalSubnets", `write ipv6RAMode too in ["fd00::/64", "six"] if they are new`},
		{four + `[{cidr: 10.0.1.0/24, ipv6AddressMode: slaac}]`, "additionalSubnets[0].ipv6AddressMode", "only IPv6 has this"},
		{`router: {}, ipv6AddressMode: slaac`, "cidr", "a subnet needs a cidr"},
	})
	updated(t, networks, namespace, networkWith, "", []update{
		{`cidr: "fd00::/64", ipv6AddressMode: slaac`, six + `ipv6AddressMode: slaac, gateway: none`, "", ""},
		{`cidr: "fd00::/64", ipv6AddressMode: slaac`, six + `ipv6AddressMode: slaac`,
			"ipv6RAMode", `or gateway "none" for a subnet without this router`},
		{four + `[{cidr: "fd00::/64"}]`, four + `[{cidr: "fd00::/64"}, {cidr: "fd01::/64", ipv6AddressMode: dhcpv6-stateless}]`,
			"additionalSubnets", `in ["fd01::/64"] if`},
	})
}

func TestRoutersThatCanBeBuiltAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, router: `, []string{
		`{}`,
		`{externalNetwork: public}`,
		`{externalNetwork: public, snat: false, externalIP: "2001:db8::9", routes: [{destination: "::/0", nextHop: "fd00::1"}]}`,
		`{ha: true, distributed: false}`,
		`{existing: "Rüter 1 / öffentlich"}`,
		`{routes: [{destination: 10.9.0.0/16, nextHop: 10.0.0.1}, {destination: 10.9.0.0/16, nextHop: 10.0.0.2}]}`,
	})
}

func TestRouterKindIsImmutable(t *testing.T) {
	updated(t, networks, newNamespace(t), networkWith, `cidr: 192.168.0.0/16, `, []update{
		{`router: {ha: true}`, `router: {ha: false}`, "router.ha", "write true again, or remove router"},
		{`router: {distributed: false}`, `router: {distributed: true}`, "router.distributed", "write false again"},
		{`router: {}`, `router: {ha: false}`, "router.ha", "leave it out, or remove router"},
		{`router: {ha: true}`, `router: {ha: true, distributed: true}`, "router.distributed", "leave it out"},
		{`router: {ha: true, distributed: false}`, `router: {ha: true, distributed: false, routes: []}`, "", ""},
		{`router: {ha: true, distributed: false}`, `router: {}`, "", ""},
		{`router: {ha: true}`, "", "", ""},
		{"", `router: {ha: true, distributed: true}`, "", ""},
		{`router: {existing: r}`, `router: {ha: true, distributed: true}`, "", ""},
		{`router: {ha: true}`, `router: {existing: r}`, "", ""},
	})
}
