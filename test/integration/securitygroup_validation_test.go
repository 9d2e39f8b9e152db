package integration

import (
	"strconv"
	"strings"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// securityGroups is the resource that the SecurityGroup CRD serves.
var securityGroups = cloudteamv1.SchemeGroupVersion.WithResource("securitygroups")

// securityGroupWith returns a SecurityGroup whose spec is the YAML text given.
var securityGroupWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("SecurityGroup"), "web")

func TestSecurityGroupMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const (
		noProtocol = `not a protocol: write "tcp"`
		noPorts    = "only tcp, udp and sctp have ports"
		noCIDR     = "not a CIDR"
	)
	for name, test := range map[string]mistake{
		"no direction": {`{protocol: tcp}`, "direction", "Required value"},
		"another direction": {
			`{direction: in}`, "direction",
			`supported values: "ingress", "egress"`,
		},
		"another family": {
			`{direction: ingress, etherType: ipv4}`, "etherType",
			`supported values: "IPv4", "IPv6"`,
		},
		"a protocol in capitals": {`{direction: ingress, protocol: TCP}`, "protocol", noProtocol},
		"protocol 0":             {`{direction: ingress, protocol: "0"}`, "protocol", noProtocol},
		"protocol 256":           {`{direction: ingress, protocol: "256"}`, "protocol", noProtocol},
		"the number of a name":   {`{direction: ingress, protocol: "6"}`, "protocol", noProtocol},
		"icmpv6 over IPv4": {
			`{direction: ingress, protocol: icmpv6}`, "protocol",
			"icmp is IPv4's",
		},
		"icmp over IPv6": {
			`{direction: ingress, etherType: IPv6, protocol: icmp}`, "protocol",
			"icmp is IPv4's",
		},
		"ports of all protocols": {
			`{direction: ingress, portRangeMin: 80}`, "portRangeMin",
			noPorts,
		},
		"ports of another": {
			`{direction: ingress, protocol: "47", portRangeMin: 80}`, "portRangeMin",
			noPorts,
		},
		"a last port alone": {
			`{direction: ingress, protocol: tcp, portRangeMax: 80}`, "portRangeMin",
			"write the first port",
		},
		"port 0": {
			`{direction: ingress, protocol: tcp, portRangeMin: 0}`, "portRangeMin",
			"not a range of ports",
		},
		"ports backwards": {
			`{direction: ingress, protocol: udp, portRangeMin: 9, portRangeMax: 8}`, "portRangeMin",
			"not a range",
		},
		"port 65536": {
			`{direction: ingress, protocol: tcp, portRangeMin: 65536}`, "portRangeMin",
			"less than or equal to 65535",
		},
		"a large type": {
			`{direction: ingress, protocol: icmp, portRangeMin: 256}`, "portRangeMin",
			"are 0 to 255",
		},
		"no range": {`{direction: ingress, remoteCIDR: all}`, "remoteCIDR", noCIDR},
		"an address": {
			`{direction: ingress, remoteCIDR: 10.0.0.1}`, "remoteCIDR",
			noCIDR,
		},
		"host bits": {
			`{direction: ingress, remoteCIDR: 10.0.0.1/8}`, "remoteCIDR",
			`write "10.0.0.0/8"`,
		},
		"a range of IPv6": {
			`{direction: ingress, remoteCIDR: "fd00::/8"}`, "remoteCIDR",
			`write etherType "IPv6"`,
		},
		"a range of IPv4": {
			`{direction: ingress, etherType: IPv6, remoteCIDR: 10.0.0.0/8}`, "remoteCIDR",
			`write etherType "IPv4"`,
		},
		"two remotes": {
			`{direction: ingress, remoteCIDR: 10.0.0.0/8, remoteGroup: a}`, "remoteGroup",
			"about one remote",
		},
		"a group with a namespace": {
			`{direction: ingress, remoteGroup: other/web}`, "remoteGroup",
			"not the name of a SecurityGroup",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), securityGroups, namespace, securityGroupWith(t, `{rules: [`+test.spec+`]}`))
			found := refusals(t, err)
			// Some rules of a list's element are refusals of the element as a whole.
			if len(found) != 1 || !strings.HasPrefix(found[0].Field, "spec.rules[0]."+test.field) ||
				!strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of spec.rules[0].%s with %q, got %+v", test.field, test.message, found)
			}
		})
	}
	refused(t, securityGroups, namespace, securityGroupWith, map[string]mistake{
		"65 rules": {
			`{rules: [` + ruleList(65) + `]}`, "spec.rules",
			"must have at most 64 items",
		},
		"a class and a cloud": {
			`{className: a, cloud: {secretName: b}}`, "spec.className",
			"leave cloud or className out",
		},
		"a marker": {
			`{description: "x [owner=a/b]"}`, "spec.description",
			"ownership marker",
		},
		"observing": {
			`{managementPolicy: Observe}`, "spec.managementPolicy",
			`supported values: "Manage", "Plan"`,
		},
	})
	t.Run("the name default", func(t *testing.T) {
		group := securityGroupWith(t, `{}`)
		group.SetName("default")
		_, err := tryCreate(t.Context(), securityGroups, namespace, group)
		if found := refusals(t, err); len(found) != 1 || !strings.Contains(found[0].Message, "write another name") {
			t.Errorf("want one refusal of the name, got %+v", found)
		}
	})
	t.Run("no spec", func(t *testing.T) {
		group := securityGroupWith(t, `{}`)
		delete(group.Object, "spec")
		_, err := tryCreate(t.Context(), securityGroups, namespace, group)
		if found := refusals(t, err); len(found) != 1 || !strings.Contains(found[0].Message, "write spec.rules") {
			t.Errorf("want one refusal of the spec, got %+v", found)
		}
	})
}

// ruleList is so many different rules.
func ruleList(n int) string {
	rules := make([]string, n)
	for i := range rules {
		rules[i] = `{direction: ingress, etherType: IPv6, protocol: tcp, portRangeMin: ` + strconv.Itoa(i+1) +
			`, portRangeMax: 65535, remoteCIDR: "fd00:` + strconv.Itoa(i+1) + `::/64"}`
	}
	return strings.Join(rules, ", ")
}

func TestSecurityGroupsThatAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, securityGroups, namespace, securityGroupWith, map[string]string{
		"nothing":       `{}`,
		"64 long rules": `{rules: [` + ruleList(64) + `]}`,
		"everything": `{rules: [{direction: egress}], description: d, stateful: false, deletionPolicy: Retain,
			driftPolicy: Report, managementPolicy: Plan, className: a}`,
		"a ping":          `{rules: [{direction: ingress, protocol: icmp, portRangeMin: 8, portRangeMax: 0}]}`,
		"a type alone":    `{rules: [{direction: ingress, etherType: IPv6, protocol: icmpv6, portRangeMin: 128}]}`,
		"a port":          `{rules: [{direction: ingress, protocol: sctp, portRangeMin: 65535}]}`,
		"another one":     `{rules: [{direction: ingress, protocol: "47"}, {direction: ingress, protocol: "255"}]}`,
		"all of them":     `{rules: [{direction: ingress, protocol: any, remoteCIDR: 0.0.0.0/0}]}`,
		"the same twice":  `{rules: [{direction: ingress}, {direction: ingress, etherType: IPv4}]}`,
		"itself":          `{rules: [{direction: ingress, remoteGroup: web}]}`,
		"another's ports": `{rules: [{direction: egress, protocol: tcp, portRangeMin: 5432, remoteGroup: db.example}]}`,
	})
}
