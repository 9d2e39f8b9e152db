package integration

import (
	"fmt"
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
	refused(t, securityGroups, namespace, securityGroupWith, `rules: `, []mistake{
		{`[{protocol: tcp}]`, "rules[0].direction", "Required value"},
		{`[` + list(40, func(i int) string {
			return fmt.Sprintf("{direction: ingress, remoteGroup: g%d-%s}", i, strings.Repeat("g", 240))
		}) + `]`, "rules", "write at most 8192 characters in all"},
		{`[{direction: in}]`, "rules[0].direction", `supported values: "ingress", "egress"`},
		{`[{direction: ingress, etherType: ipv4}]`, "rules[0].etherType", `supported values: "IPv4", "IPv6"`},
		{`[{direction: ingress, protocol: TCP}]`, "rules[0].protocol", noProtocol},
		{`[{direction: ingress, protocol: "0"}]`, "rules[0].protocol", noProtocol},
		{`[{direction: ingress, protocol: "256"}]`, "rules[0].protocol", noProtocol},
		{`[{direction: ingress, protocol: "6"}]`, "rules[0].protocol", noProtocol},
		{`[{direction: ingress, protocol: icmpv6}]`, "rules[0].protocol", "icmp is IPv4's"},
		{`[{direction: ingress, etherType: IPv6, protocol: icmp}]`, "rules[0].protocol", "icmp is IPv4's"},
		{`[{direction: ingress, portRangeMin: 80}]`, "rules[0].portRangeMin", noPorts},
		{`[{direction: ingress, protocol: "47", portRangeMin: 80}]`, "rules[0].portRangeMin", noPorts},
		{`[{direction: ingress, protocol: tcp, portRangeMax: 80}]`, "rules[0].portRangeMin", "write the first port"},
		{`[{direction: ingress, protocol: tcp, portRangeMin: 0}]`, "rules[0].portRangeMin", "not a range of ports"},
		{`[{direction: ingress, protocol: udp, portRangeMin: 9, portRangeMax: 8}]`, "rules[0].portRangeMin", "not a range"},
		{`[{direction: ingress, protocol: tcp, portRangeMin: 65536}]`, "rules[0].portRangeMin", "less than or equal to 65535"},
		{`[{direction: ingress, protocol: icmp, portRangeMin: 256}]`, "rules[0].portRangeMin", "are 0 to 255"},
		{`[{direction: ingress, remoteCIDR: all}]`, "rules[0].remoteCIDR", noCIDR},
		{`[{direction: ingress, remoteCIDR: 10.0.0.1}]`, "rules[0].remoteCIDR", noCIDR},
		{`[{direction: ingress, remoteCIDR: 10.0.0.1/8}]`, "rules[0].remoteCIDR", `write "10.0.0.0/8"`},
		{`[{direction: ingress, remoteCIDR: "fd00::/8"}]`, "rules[0].remoteCIDR", `write etherType "IPv6"`},
		{`[{direction: ingress, etherType: IPv6, remoteCIDR: 10.0.0.0/8}]`, "rules[0].remoteCIDR", `write etherType "IPv4"`},
		{`[{direction: ingress, remoteCIDR: 10.0.0.0/8, remoteGroup: a}]`, "rules[0].remoteGroup", "about one remote"},
		{`[{direction: ingress, remoteGroup: other/web}]`, "rules[0].remoteGroup", "not the name of a SecurityGroup"},
	})
	refused(t, securityGroups, namespace, securityGroupWith, "", []mistake{
		{`rules: [` + ruleList(65) + `]`, "rules", "must have at most 64 items"},
		{`className: a, cloud: {secretName: b}`, "className", "leave cloud or className out"},
		{`description: "x [owner=a/b]"`, "description", "ownership marker"},
		{`managementPolicy: Observe`, "managementPolicy", `supported values: "Manage"`},
		{`managementPolicy: Plan`, "managementPolicy", `supported values: "Manage"`},
	})
	t.Run("the name default", func(t *testing.T) {
		group := securityGroupWith(t, `{}`)
		group.SetName("default")
		_, err := tryCreate(t.Context(), securityGroups, namespace, group)
		if found := refusals(t, err); len(found) != 1 || !strings.Contains(found[0].Message, "write another name") {
			t.Errorf("want one refusal of the name, got %+v", found)
		}
	})
	refusedWithoutSpec(t, securityGroups, namespace, securityGroupWith, "write spec.rules")
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
	accepted(t, securityGroups, namespace, securityGroupWith, "", []string{
		``,
		`rules: [` + ruleList(64) + `]`,
		`rules: [{direction: egress}], description: d, stateful: false, deletionPolicy: Retain, driftPolicy: Report,
			managementPolicy: Manage, className: a`,
		`rules: [{direction: ingress, protocol: icmp, portRangeMin: 8, portRangeMax: 0}]`,
		`rules: [{direction: ingress, etherType: IPv6, protocol: icmpv6, portRangeMin: 128}]`,
		`rules: [{direction: ingress, protocol: sctp, portRangeMin: 65535}]`,
		`rules: [{direction: ingress, protocol: "47"}, {direction: ingress, protocol: "255"}]`,
		`rules: [{direction: ingress, protocol: any, remoteCIDR: 0.0.0.0/0}]`,
		`rules: [{direction: ingress}, {direction: ingress, etherType: IPv4}]`,
		`rules: [{direction: ingress, remoteGroup: web}]`,
		`rules: [{direction: egress, protocol: tcp, portRangeMin: 5432, remoteGroup: db.example}]`,
	})
}
