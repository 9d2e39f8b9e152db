package integration

import (
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var networkClasses = cloudteamv1.SchemeGroupVersion.WithResource("networkclasses")

// classWith returns a NetworkClass whose spec is the YAML text given.
var classWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("NetworkClass"), "example")

func TestAClassThatContradictsItselfIsRefusedWithTheField(t *testing.T) {
	refused(t, networkClasses, "", classWith, map[string]mistake{
		"credentials without a Secret": {`{credentials: {name: gold}}`, "spec.credentials.secretName", "Required value"},
		"a Secret of another namespace": {
			`{credentials: {secretName: team-a/openstack}}`, "spec.credentials.secretName", "one of the controller's namespace",
		},
		"a field that no Network has": {`{allowedFields: [router]}`, "spec.allowedFields[0]", "Unsupported value"},
		"a field twice":               {`{allowedFields: [snat, snat]}`, "spec.allowedFields[1]", "Duplicate value"},
		"no range at all":             {`{allowedRanges: []}`, "spec.allowedRanges", "at least 1 item"},
		"a range that is an address":  {`{allowedRanges: [10.0.0.1]}`, "spec.allowedRanges[0]", "not a CIDR"},
		"a range with host bits": {
			`{allowedRanges: [10.0.0.1/8]}`, "spec.allowedRanges[0]", `host bits are set: write "10.0.0.0/8"`,
		},
		"a range twice": {`{allowedRanges: ["FD00::/8", "fd00::/8"]}`, "spec.allowedRanges", "listed twice"},
		"an MTU that IPv6 cannot have": {
			`{defaults: {mtu: 1279}}`, "spec.defaults.mtu", "greater than or equal to 1280",
		},
		"a name server that is none": {`{defaults: {dnsServers: [dns]}}`, "spec.defaults.dnsServers[0]", "not an address"},
		"a name server twice": {
			`{defaults: {dnsServers: ["FD00::1", "fd00::1"]}}`, "spec.defaults.dnsServers", "listed twice",
		},
		"an existing router with settings": {
			`{defaults: {router: {existing: r1, ha: true}}}`, "spec.defaults.router.existing", "write existing alone",
		},
		"snat without an external network": {
			`{defaults: {router: {snat: true}}}`, "spec.defaults.router.snat", "needs an external network",
		},
		"a security group without a name": {
			`{defaults: {securityGroups: [""]}}`, "spec.defaults.securityGroups[0]", "write its id or its name",
		},
		"a negative limit": {`{limits: {portsPerNetwork: -1}}`, "spec.limits.portsPerNetwork", "greater than or equal to 0"},
		"a negative limit of FloatingIPs": {
			`{limits: {floatingIPsPerNamespace: -1}}`, "spec.limits.floatingIPsPerNamespace", "greater than or equal to 0",
		},
		"a limit of FloatingIPs that is none": {
			`{limits: {floatingIPsPerNamespace: 100001}}`, "spec.limits.floatingIPsPerNamespace", "less than or equal to 100000",
		},
		"a selector with an unknown operator": {
			`{namespaceSelector: {matchExpressions: [{key: team, operator: Is}]}}`,
			"spec.namespaceSelector.matchExpressions", "not an operator",
		},
		"a selector that compares with nothing": {
			`{namespaceSelector: {matchExpressions: [{key: team, operator: In}]}}`,
			"spec.namespaceSelector.matchExpressions", "In and NotIn compare with values",
		},
		"a selector that compares with what it cannot": {
			`{namespaceSelector: {matchExpressions: [{key: team, operator: Exists, values: [a]}]}}`,
			"spec.namespaceSelector.matchExpressions", "leave values out",
		},
	})
}

func TestClassesThatSayEverythingOrNothingAreAccepted(t *testing.T) {
	accepted(t, networkClasses, "", classWith, map[string]string{
		"nothing": `{}`,
		"everything": `{
			credentials: {secretName: openstack-gold, name: gold},
			namespaceSelector: {matchLabels: {team: a}, matchExpressions: [{key: stage, operator: In, values: [prod]}]},
			allowedFields: [import, existingRouter, sharedWith, provider, external, shared, ha, distributed, externalIP, snat,
				allowedAddressPairs, portSecurity, floatingIP],
			allowedRanges: [0.0.0.0/0, "::/0"],
			defaults: {
				mtu: 1400, dnsServers: [10.0.0.53, "fd00::53"], router: {externalNetwork: outside, snat: true},
				subnetPool: office, securityGroups: [11111111-2222-3333-4444-555555555555],
			},
			limits: {networksPerNamespace: 0, portsPerNetwork: 100, portsPerDeployment: 10, securityGroupsPerNamespace: 20,
				floatingIPsPerNamespace: 5},
		}`,
	})
}

func TestMistakesInTheClassOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, map[string]mistake{
		"a class and a cloud": {
			`{cidr: 192.168.0.0/16, className: gold, cloud: {secretName: mine}}`,
			"spec.className", "leave cloud or className out",
		},
		"no name":                            {`{cidr: 192.168.0.0/16, className: Gold}`, "spec.className", "not the name of a NetworkClass"},
		"no range, and no class to give one": {`{gateway: none}`, "spec.cidr", "a subnet needs a cidr"},
		"an additional subnet without a range": {
			`{className: gold, additionalSubnets: [{gateway: none}]}`, "spec.additionalSubnets[0].cidr", "a subnet needs a cidr",
		},
	})
	t.Run("a class may give the range", func(t *testing.T) {
		if _, err := tryCreate(t.Context(), networks, namespace, networkWith(t, `{className: gold}`)); err != nil {
			t.Errorf("refused: %v", err)
		}
	})
}
