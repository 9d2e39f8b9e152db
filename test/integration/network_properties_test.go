package integration

import (
	"fmt"
	"strings"
	"testing"
)

func TestPropertiesOfANetworkAreChecked(t *testing.T) {
	namespace := newNamespace(t)
	const cidr = `cidr: 192.168.0.0/16, `
	label := strings.Repeat("a", 63) + "."
	project := func(number int) string { return fmt.Sprintf("project-%d", number) }
	const noDomain = "not a DNS domain: write labels of letters, digits and hyphens"
	accepted(t, networks, namespace, networkWith, cidr, []string{
		`networkName: "` + strings.Repeat("数", 255) + `"`,
		`adminState: Down`,
		`dnsDomain: Example-1.org.`,
		`dnsDomain: org.`,
		`dnsDomain: none`,
		`dnsDomain: ` + label + label + label + label[3:],
		`qosPolicy: gold`,
		`qosPolicy: none`,
		`sharedWith: [1f0e9a8b7c6d5e4f, team-a]`,
		`sharedWith: []`,
		`sharedWith: [` + list(64, project) + `]`,
		`shared: true, external: false`,
		`provider: {networkType: vxlan}`,
		`provider: {networkType: flat, physicalNetwork: physnet1}`,
		`provider: {networkType: vlan, physicalNetwork: physnet1, segmentationID: 4094}`,
		`provider: {networkType: vxlan, segmentationID: 16777215}`,
		`provider: {networkType: gre, segmentationID: 4294967295}`,
		`availabilityZoneHints: [a, b]`,
		`availabilityZoneHints: []`,
		`availabilityZoneHints: [` + list(15, func(zone int) string { return fmt.Sprintf("zone-%08d", zone) }) + `]`,
		`tags: [a, "b,c", "数", " "]`,
		`tags: []`,
		`tags: [` + list(8, tagOf255) + `]`, // 4,064 bytes
	})
	refused(t, networks, namespace, networkWith, cidr, []mistake{
		{`networkName: "` + strings.Repeat("a", 256) + `"`, "networkName", "Too long"},
		{`networkName: "a\nb"`, "networkName", "a control character"},
		{`adminState: down`, "adminState", `supported values: "Up", "Down"`},
		{`dnsDomain: ` + label + label + label + label[2:], "dnsDomain", "Too long"},
		{`dnsDomain: example.org`, "dnsDomain", `such as "example.org.", or "none"`},
		{`dnsDomain: ""`, "dnsDomain", noDomain},
		{`dnsDomain: .`, "dnsDomain", noDomain},
		{`dnsDomain: a..org.`, "dnsDomain", noDomain},
		{`dnsDomain: a-.org.`, "dnsDomain", noDomain},
		{`dnsDomain: a_b.org.`, "dnsDomain", noDomain},
		{`dnsDomain: "10.20."`, "dnsDomain", noDomain},
		{`dnsDomain: a` + label, "dnsDomain", noDomain},
		{`qosPolicy: ""`, "qosPolicy", `write its id or its name, or "none"`},
		{`qosPolicy: "a\nb"`, "qosPolicy", "not a QoS policy: write its id or its name"},
		{`qosPolicy: ` + strings.Repeat("a", 256), "qosPolicy", "Too long"},
		{`sharedWith: ["*"]`, "sharedWith[0]", "or shared: true for all projects"},
		{`sharedWith: [a, ""]`, "sharedWith[1]", "not a project's id"},
		{`sharedWith: ["a b"]`, "sharedWith[0]", "not a project's id"},
		{`sharedWith: ["数"]`, "sharedWith[0]", "not a project's id"},
		{`sharedWith: [a, a]`, "sharedWith", "a project is listed twice"},
		{`sharedWith: [` + list(65, project) + `]`, "sharedWith", "Too many"},
		{`shared: some`, "shared", "must be of type boolean"},
		{`provider: {}`, "provider.networkType", "Required value"},
		{`provider: {networkType: VLAN}`, "provider.networkType", `supported values: "flat"`},
		{`provider: {networkType: flat}`, "provider.physicalNetwork", "write which one"},
		{`provider: {networkType: vxlan, physicalNetwork: physnet1}`,
			"provider.physicalNetwork", "a vxlan network is on no physical network: leave it out"},
		{`provider: {networkType: flat, physicalNetwork: physnet1, segmentationID: 7}`,
			"provider.segmentationID", "a flat network has no segmentation ID: leave it out"},
		{`provider: {networkType: vlan, segmentationID: 7}`,
			"provider.physicalNetwork", "a vlan's segmentation ID is one of a physical network: write which one"},
		{`provider: {networkType: vlan, physicalNetwork: physnet1, segmentationID: 4095}`,
			"provider.segmentationID", "the segmentation ID of a vlan network is out of range: write one from 1 to 4094"},
		{`provider: {networkType: geneve, segmentationID: 16777216}`,
			"provider.segmentationID", "geneve network is out of range: write one from 1 to 16777215"},
		{`provider: {networkType: vxlan, segmentationID: 0}`, "provider.segmentationID", "greater than or equal to 1"},
		{`availabilityZoneHints: [` + list(16, func(zone int) string { return fmt.Sprintf("zone-%07d", zone) }) + `]`,
			"availabilityZoneHints", "the names are too long together for Neutron: write fewer zones"},
		{`tags: [` + list(65, tagOf255) + `]`, "tags", "Too many"},
		{`tags: [a, b, a]`, "tags", "a tag is listed twice"},
		{`tags: [` + list(9, tagOf255) + `]`, "tags", "write at most 4096 bytes in all"},
		{`tags: [""]`, "tags[0]", "not a tag: write 1 to 255"},
		{`tags: ["a\tb"]`, "tags[0]", "not a tag"},
		{`tags: [` + strings.Repeat("a", 256) + `]`, "tags[0]", "Too long"},
	})
	updated(t, networks, namespace, networkWith, cidr, []update{
		{`networkName: a`, `networkName: b`, "", ""},
		{`adminState: Up`, `adminState: Down`, "", ""},
		{`dnsDomain: a.`, `dnsDomain: b.`, "", ""},
		{`qosPolicy: gold`, `qosPolicy: silver`, "", ""},
		{`qosPolicy: gold`, `mtu: 1400`, "", ""},
		{`sharedWith: [a]`, `sharedWith: [b]`, "", ""},
		{`shared: true`, `shared: false, external: true`, "", ""},
		{`shared: true, external: true`, `mtu: 1400`, "", ""},
		{`provider: {networkType: vxlan}`, `mtu: 1400`, "", ""},
		{`mtu: 1400`, `provider: {networkType: vxlan}`,
			"provider", "provider cannot be added later: leave it out, or delete this Network"},
		{`provider: {networkType: vxlan}`, `provider: {networkType: geneve}`,
			"provider.networkType", `the network type cannot change: write "vxlan" again`},
		{`provider: {networkType: flat, physicalNetwork: a}`, `provider: {networkType: flat, physicalNetwork: b}`,
			"provider.physicalNetwork", "can neither change nor be added later: write it as it was"},
		{`provider: {networkType: vlan}`, `provider: {networkType: vlan, physicalNetwork: b}`,
			"provider.physicalNetwork", "can neither change nor be added later"},
		{`provider: {networkType: vxlan, segmentationID: 7}`, `provider: {networkType: vxlan, segmentationID: 8}`,
			"provider.segmentationID", "only the segmentation ID of a vlan can change"},
		{`provider: {networkType: vlan, physicalNetwork: a, segmentationID: 7}`,
			`provider: {networkType: vlan, physicalNetwork: a, segmentationID: 8}`,
			"", ""},
		{`provider: {networkType: vlan, physicalNetwork: a}`,
			`provider: {networkType: vlan, physicalNetwork: a, segmentationID: 8}`,
			"", ""},
		{`provider: {networkType: vlan, physicalNetwork: a, segmentationID: 7}`, `provider: {networkType: vlan}`, "", ""},
		{`availabilityZoneHints: [a, b]`, `availabilityZoneHints: [b, a]`, "", ""},
		{`availabilityZoneHints: [a, b]`, `mtu: 1400`, "", ""},
		{`availabilityZoneHints: []`, `availabilityZoneHints: [a]`, "availabilityZoneHints", "neither change nor be added later"},
		{`mtu: 1400`, `availabilityZoneHints: [a]`,
			"availabilityZoneHints", "the zones can neither change nor be added later: write them as they were"},
		{`availabilityZoneHints: [a, b]`, `availabilityZoneHints: [a]`,
			"availabilityZoneHints", "the zones can neither change nor be added later"},
		{`tags: [a]`, `tags: []`, "", ""},
	})
}

// tagOf255 is a tag of the greatest length that differs from that of another number.
func tagOf255(number int) string {
	return `"` + strings.Repeat("é", 253) + string(rune('a'+number%26)) + string(rune('a'+number/26)) + `"`
}
