package integration

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

var networkClasses = cloudteamv1.SchemeGroupVersion.WithResource("networkclasses")

func classWith(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(cloudteamv1.SchemeGroupVersion.WithKind("NetworkClass"))
	class.SetName("example")
	class.Object["spec"] = parseYAML(t, spec).Object
	return class
}

func TestAClassThatContradictsItselfIsRefusedWithTheField(t *testing.T) {
	for name, test := range map[string]mistake{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), networkClasses, "", classWith(t, test.spec))
			found := refusals(t, err)
			if len(found) != 1 || found[0].Field != test.field || !strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of %s with %q, got %+v", test.field, test.message, found)
			}
		})
	}
}

func TestClassesThatSayEverythingOrNothingAreAccepted(t *testing.T) {
	for name, spec := range map[string]string{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := tryCreate(t.Context(), networkClasses, "", classWith(t, spec)); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestMistakesInTheClassOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	for name, test := range map[string]mistake{
		"a class and a cloud": {
			`{cidr: 192.168.0.0/16, className: gold, cloud: {secretName: mine}}`,
			"spec.className", "leave cloud or className out",
		},
		"no name":                            {`{cidr: 192.168.0.0/16, className: Gold}`, "spec.className", "not the name of a NetworkClass"},
		"no range, and no class to give one": {`{gateway: none}`, "spec.cidr", "a subnet needs a cidr"},
		"an additional subnet without a range": {
			`{className: gold, additionalSubnets: [{gateway: none}]}`, "spec.additionalSubnets[0].cidr", "a subnet needs a cidr",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tryCreate(t.Context(), networks, namespace, networkWith(t, test.spec))
			found := refusals(t, err)
			if len(found) != 1 || found[0].Field != test.field || !strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of %s with %q, got %+v", test.field, test.message, found)
			}
		})
	}
	t.Run("a class may give the range", func(t *testing.T) {
		if _, err := tryCreate(t.Context(), networks, namespace, networkWith(t, `{className: gold}`)); err != nil {
			t.Errorf("refused: %v", err)
		}
	})
}
