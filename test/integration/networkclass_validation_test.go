package integration

import (
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var networkClasses = cloudteamv1.SchemeGroupVersion.WithResource("networkclasses")

// classWith returns a NetworkClass whose spec is the YAML text given.
var classWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("NetworkClass"), "example")

func TestAClassThatContradictsItselfIsRefusedWithTheField(t *testing.T) {
	refused(t, networkClasses, "", classWith, "", []mistake{
		{`credentials: {name: gold}`, "credentials.secretName", "Required value"},
		{`credentials: {secretName: team-a/openstack}`, "credentials.secretName", "one of the controller's namespace"},
		{`allowedFields: [router]`, "allowedFields[0]", "Unsupported value"},
		{`allowedFields: [snat, snat]`, "allowedFields[1]", "Duplicate value"},
		{`allowedRanges: []`, "allowedRanges", "at least 1 item"},
		{`allowedRanges: [10.0.0.1]`, "allowedRanges[0]", "not a CIDR"},
		{`allowedRanges: [10.0.0.1/8]`, "allowedRanges[0]", `host bits are set: write "10.0.0.0/8"`},
		{`allowedRanges: ["FD00::/8", "fd00::/8"]`, "allowedRanges", "listed twice"},
		{`defaults: {mtu: 1279}`, "defaults.mtu", "greater than or equal to 1280"},
		{`defaults: {dnsServers: [dns]}`, "defaults.dnsServers[0]", "not an address"},
		{`defaults: {dnsServers: ["FD00::1", "fd00::1"]}`, "defaults.dnsServers", "listed twice"},
		{`defaults: {router: {existing: r1, ha: true}}`, "defaults.router.existing", "write existing alone"},
		{`defaults: {router: {snat: true}}`, "defaults.router.snat", "needs an external network"},
		{`defaults: {securityGroups: [""]}`, "defaults.securityGroups[0]", "write its id or its name"},
		{`limits: {portsPerNetwork: -1}`, "limits.portsPerNetwork", "greater than or equal to 0"},
		{`limits: {floatingIPsPerNamespace: -1}`, "limits.floatingIPsPerNamespace", "greater than or equal to 0"},
		{`limits: {floatingIPsPerNamespace: 100001}`, "limits.floatingIPsPerNamespace", "less than or equal to 100000"},
		{`namespaceSelector: {matchExpressions: [{key: team, operator: Is}]}`,
			"namespaceSelector.matchExpressions", "not an operator"},
		{`namespaceSelector: {matchExpressions: [{key: team, operator: In}]}`,
			"namespaceSelector.matchExpressions", "In and NotIn compare with values"},
		{`namespaceSelector: {matchExpressions: [{key: team, operator: Exists, values: [a]}]}`,
			"namespaceSelector.matchExpressions", "leave values out"},
	})
}

func TestClassesThatSayEverythingOrNothingAreAccepted(t *testing.T) {
	accepted(t, networkClasses, "", classWith, "", []string{
		``,
		`credentials: {secretName: openstack-gold, name: gold}, namespaceSelector: {matchLabels: {team: a},
			matchExpressions: [{key: stage, operator: In, values: [prod]}]}, allowedFields: [import, existingRouter, sharedWith,
			provider, external, shared, ha, distributed, externalIP, snat, allowedAddressPairs, portSecurity, floatingIP],
			allowedRanges: [0.0.0.0/0, "::/0"], defaults: { mtu: 1400, dnsServers: [10.0.0.53, "fd00::53"],
			router: {externalNetwork: outside, snat: true}, subnetPool: office,
			securityGroups: [11111111-2222-3333-4444-555555555555], }, limits: {networksPerNamespace: 0, portsPerNetwork: 100,
			portsPerDeployment: 10, securityGroupsPerNamespace: 20, floatingIPsPerNamespace: 5}`,
	})
}

func TestMistakesInTheClassOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, "", []mistake{
		{`gateway: none`, "cidr", "a subnet needs a cidr"},
		{`className: gold, additionalSubnets: [{gateway: none}]`, "additionalSubnets[0].cidr", "a subnet needs a cidr"},
		{`cidr: 192.168.0.0/16, className: gold, cloud: {secretName: mine}`, "className", "leave cloud or className out"},
		{`cidr: 192.168.0.0/16, className: Gold`, "className", "not the name of a NetworkClass"},
	})
	accepted(t, networks, namespace, networkWith, "", []string{`className: gold`}) // a class may give the range
}
