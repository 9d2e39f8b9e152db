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
	for name, test := range map[string]mistake{
		"an existing router that is to lead elsewhere": {
			`{existing: r, externalNetwork: public}`, "existing", "write existing alone",
		},
		"an existing router with settings, without a way outside": {
			`{existing: r, snat: false, externalIP: 203.0.113.9}`, "existing", "write existing alone",
		},
		"an existing router with routes": {
			`{existing: r, routes: [` + route("10.9.0.0/16", "192.168.0.9") + `]}`, "existing", "write existing alone",
		},
		"an existing router of a kind": {`{existing: r, ha: true}`, "existing", "write existing alone"},
		"an existing router that is to be on all hosts": {
			`{existing: r, distributed: false}`, "existing", "write existing alone",
		},
		"an existing router without a name": {`{existing: ""}`, "existing", "write the id or the name of a router"},
		"an existing router of far too many characters": {
			`{existing: "` + strings.Repeat("x", 256) + `"}`, "existing", "Too long",
		},
		"an external network without a name": {
			`{externalNetwork: ""}`, "externalNetwork", "write the id or the name of an external network",
		},
		"SNAT without a way outside":               {`{snat: true}`, "snat", "write externalNetwork too"},
		"an address outside without a way outside": {`{externalIP: 203.0.113.9}`, "externalIP", "write externalNetwork too"},
		"an address of words": {
			`{externalNetwork: public, externalIP: ours}`, "externalIP", `not an address: write one such as "203.0.113.10"`,
		},
		"an address that is IPv4 within IPv6": {
			`{externalNetwork: public, externalIP: "::ffff:203.0.113.9"}`, "externalIP", "not an address",
		},
		"a route to a host's address": {
			`{routes: [` + route("10.9.0.1/16", "192.168.0.9") + `]}`,
			"routes[0].destination", `host bits are set: write "10.9.0.0/16"`,
		},
		"a route by nobody": {
			`{routes: [` + route("10.9.0.0/16", "nobody") + `]}`, "routes[0].nextHop", "not an address",
		},
		"a route of two families": {
			`{routes: [` + route("10.9.0.0/16", "fd00::1") + `]}`, "routes", "write both of one family",
		},
		"a route twice, in other spellings": {
			`{routes: [` + route("FD00::/64", "fd00:1::1") + "," + route("fd00::/64", "FD00:1::1") + `]}`,
			"routes", "a route is listed twice",
		},
		"too many routes": {
			`{routes: [` + strings.Repeat(route("10.9.0.0/16", "192.168.0.9")+",", 31) + `]}`, "routes", "Too many: 31",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := `{cidr: 192.168.0.0/16, router: ` + test.spec + `}`
			_, err := tryCreate(t.Context(), networks, namespace, networkWith(t, spec))
			found, field := refusals(t, err), "spec.router."+test.field
			if len(found) != 1 || found[0].Field != field || !strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of %s with %q, got %+v", field, test.message, found)
			}
		})
	}
}

func TestObservedNetworkCannotDeclareRouter(t *testing.T) {
	spec := `{cidr: 192.168.0.0/16, managementPolicy: Observe, router: {},
	  import: {id: 11111111-1111-1111-1111-111111111111}}`
	_, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t, spec))
	wantRefusal(t, err, "spec.router", "leave router out")
}

func TestOneRouterAdvertisesOnASubnet(t *testing.T) {
	namespace := newNamespace(t)
	const six, four = `router: {}, cidr: "FD00::/64", `, `router: {existing: r}, cidr: 10.0.0.0/24, additionalSubnets: `
	for name, test := range map[string]edit{
		"the router advertises, too":    {spec: six + `ipv6AddressMode: slaac, ipv6RAMode: slaac`},
		"the router alone advertises":   {spec: six + `ipv6RAMode: dhcpv6-stateless`},
		"Neutron has no part in it":     {spec: six + `dhcp: false`},
		"without a gateway":             {spec: six + `ipv6AddressMode: slaac, gateway: none`},
		"for ports of other kinds":      {spec: six + `ipv6AddressMode: slaac, serviceTypes: ["compute:nova"]`},
		"no router":                     {spec: `cidr: "fd00::/64", ipv6AddressMode: slaac`},
		"a router that comes, aside":    {before: `cidr: "fd00::/64", ipv6AddressMode: slaac`, spec: six + `ipv6AddressMode: slaac, gateway: none`},
		"further subnets, each its way": {spec: four + `[{cidr: "fd00::/64", ipv6AddressMode: slaac, ipv6RAMode: slaac}, {cidr: "fd01::/64", ipv6AddressMode: slaac, gateway: none}, {cidr: "fd02::/64"}, {subnetPool: six, ipv6AddressMode: slaac, serviceTypes: ["neutron:a"]}]`},

		"another router advertises": {
			spec: six + `ipv6AddressMode: dhcpv6-stateful, dhcp: true`, field: "spec.ipv6RAMode",
			message: `write "dhcpv6-stateful" here too if the subnet is new, or gateway "none"`,
		},
		"another router advertises, and the gateway is said": {
			spec: six + `ipv6AddressMode: slaac, gateway: "fd00::1"`, field: "spec.ipv6RAMode", message: `write "slaac"`,
		},
		"another router advertises in a subnet for interfaces": {
			spec:  six + `ipv6AddressMode: slaac, serviceTypes: ["compute:nova", "network:router_interface"]`,
			field: "spec.ipv6RAMode", message: `write "slaac"`,
		},
		"another router advertises in a range of a pool": {
			spec: `router: {existing: r}, subnetPool: six, ipv6AddressMode: slaac`, field: "spec.ipv6RAMode",
			message: `or leave router out`,
		},
		"a router comes to where another advertises": {
			before: `cidr: "fd00::/64", ipv6AddressMode: slaac`, spec: six + `ipv6AddressMode: slaac`,
			field: "spec.ipv6RAMode", message: `or gateway "none" for a subnet without this router`,
		},
		"another router advertises in further subnets": {
			spec: four + `[{cidr: "fd00::/64", ipv6AddressMode: slaac}, {cidr: "fd01::/64", ipv6RAMode: slaac},
				{subnetPool: six, ipv6AddressMode: dhcpv6-stateful, serviceTypes: []}]`,
			field: "spec.additionalSubnets", message: `write ipv6RAMode too in ["fd00::/64", "six"] if they are new`,
		},
		"a subnet comes in which another router advertises": {
			before: four + `[{cidr: "fd00::/64"}]`,
			spec:   four + `[{cidr: "fd00::/64"}, {cidr: "fd01::/64", ipv6AddressMode: dhcpv6-stateless}]`,
			field:  "spec.additionalSubnets", message: `in ["fd01::/64"] if`,
		},
		"an IPv4 subnet with a mode is told that alone": {
			spec: four + `[{cidr: 10.0.1.0/24, ipv6AddressMode: slaac}]`, field: "spec.additionalSubnets[0].ipv6AddressMode",
			message: "only IPv6 has this",
		},
		"a subnet of no range is told that alone": {
			spec: `router: {}, ipv6AddressMode: slaac`, field: "spec.cidr", message: "a subnet needs a cidr",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, namespace, "")
		})
	}
}

func TestRoutersThatCanBeBuiltAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	for name, router := range map[string]string{
		"one without a way outside":     `{}`,
		"one that leads outside":        `{externalNetwork: public}`,
		"one with everything":           `{externalNetwork: public, snat: false, externalIP: "2001:db8::9", routes: [{destination: "::/0", nextHop: "fd00::1"}]}`,
		"one of a kind":                 `{ha: true, distributed: false}`,
		"one that exists, by any name":  `{existing: "Rüter 1 / öffentlich"}`,
		"two routes to one destination": `{routes: [{destination: 10.9.0.0/16, nextHop: 10.0.0.1}, {destination: 10.9.0.0/16, nextHop: 10.0.0.2}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), networks, namespace, networkWith(t, `{cidr: 192.168.0.0/16, router: `+router+`}`))
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRouterKindIsImmutable(t *testing.T) {
	with := func(router string) string {
		if router == "" {
			return `{cidr: 192.168.0.0/16}`
		}
		return `{cidr: 192.168.0.0/16, router: ` + router + `}`
	}
	cases := map[string]update{
		"ha changes":            {`{ha: true}`, `{ha: false}`, "ha", "write true again, or remove router"},
		"distributed changes":   {`{distributed: false}`, `{distributed: true}`, "distributed", "write false again"},
		"ha is added":           {`{}`, `{ha: false}`, "ha", "leave it out, or remove router"},
		"distributed is added":  {`{ha: true}`, `{ha: true, distributed: true}`, "distributed", "leave it out"},
		"both are as they were": {`{ha: true, distributed: false}`, `{ha: true, distributed: false, routes: []}`, "", ""},
		"both are taken out":    {`{ha: true, distributed: false}`, `{}`, "", ""},
		"the router goes":       {`{ha: true}`, "", "", ""},
		"a router comes":        {"", `{ha: true, distributed: true}`, "", ""},
		"an existing router is replaced by one of a kind": {`{existing: r}`, `{ha: true, distributed: true}`, "", ""},
		"one of a kind is replaced by an existing router": {`{ha: true}`, `{existing: r}`, "", ""},
	}
	for name, c := range cases {
		c.before, c.after = with(c.before), with(c.after)
		if c.field != "" {
			c.field = "spec.router." + c.field
		}
		cases[name] = c
	}
	updated(t, networks, newNamespace(t), networkWith, cases)
}
