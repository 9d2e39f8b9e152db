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

func TestAnObservedNetworkDeclaresNoRouter(t *testing.T) {
	spec := `{cidr: 192.168.0.0/16, managementPolicy: Observe, router: {},
	  import: {id: 11111111-1111-1111-1111-111111111111}}`
	_, err := tryCreate(t.Context(), networks, newNamespace(t), networkWith(t, spec))
	found := refusals(t, err)
	if len(found) != 1 || found[0].Field != "spec.router" || !strings.Contains(found[0].Message, "leave router out") {
		t.Errorf("want one refusal of spec.router, got %+v", found)
	}
}

func TestRoutersThatCanBeBuiltAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	for name, router := range map[string]string{
		"one without a way outside":     `{}`,
		"one that leads outside":        `{externalNetwork: public}`,
		"one with everything":           `{externalNetwork: public, snat: false, externalIP: "2001:db8::9", routes: [{destination: "::/0", nextHop: "fd00::1"}]}`,
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
