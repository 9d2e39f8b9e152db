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
	for name, test := range map[string]edit{
		// networkName
		"a name of 255 characters": {spec: `networkName: "` + strings.Repeat("数", 255) + `"`},
		"a name of 256 characters": {
			spec: `networkName: "` + strings.Repeat("a", 256) + `"`, field: "spec.networkName", message: "Too long",
		},
		"a name with a line break": {
			spec: `networkName: "a\nb"`, field: "spec.networkName", message: "a control character",
		},
		"the name may change": {before: `networkName: a`, spec: `networkName: b`},

		// adminState
		"switched off":        {spec: `adminState: Down`},
		"switched off, later": {before: `adminState: Up`, spec: `adminState: Down`},
		"half switched off": {
			spec: `adminState: down`, field: "spec.adminState", message: `supported values: "Up", "Down"`,
		},

		// dnsDomain
		"a domain":                {spec: `dnsDomain: Example-1.org.`},
		"a domain of one label":   {spec: `dnsDomain: org.`},
		"no domain":               {spec: `dnsDomain: none`},
		"a domain of 253":         {spec: `dnsDomain: ` + label + label + label + label[3:]},
		"the domain may change":   {before: `dnsDomain: a.`, spec: `dnsDomain: b.`},
		"a domain of 254":         {spec: `dnsDomain: ` + label + label + label + label[2:], field: "spec.dnsDomain", message: "Too long"},
		"a domain without a stop": {spec: `dnsDomain: example.org`, field: "spec.dnsDomain", message: `such as "example.org.", or "none"`},
		"a domain of nothing":     {spec: `dnsDomain: ""`, field: "spec.dnsDomain", message: noDomain},
		"a stop alone":            {spec: `dnsDomain: .`, field: "spec.dnsDomain", message: noDomain},
		"an empty label":          {spec: `dnsDomain: a..org.`, field: "spec.dnsDomain", message: noDomain},
		"a hyphen at the end":     {spec: `dnsDomain: a-.org.`, field: "spec.dnsDomain", message: noDomain},
		"an underscore":           {spec: `dnsDomain: a_b.org.`, field: "spec.dnsDomain", message: noDomain},
		"a last label of digits":  {spec: `dnsDomain: "10.20."`, field: "spec.dnsDomain", message: noDomain},
		"a label of 64":           {spec: `dnsDomain: a` + label, field: "spec.dnsDomain", message: noDomain},

		// qosPolicy
		"a QoS policy by its name":  {spec: `qosPolicy: gold`},
		"no QoS policy":             {spec: `qosPolicy: none`},
		"the QoS policy may change": {before: `qosPolicy: gold`, spec: `qosPolicy: silver`},
		"the QoS policy may go":     {before: `qosPolicy: gold`, spec: `mtu: 1400`},
		"a QoS policy of no name": {
			spec: `qosPolicy: ""`, field: "spec.qosPolicy", message: `write its id or its name, or "none"`,
		},
		"a QoS policy of two lines": {
			spec: `qosPolicy: "a\nb"`, field: "spec.qosPolicy", message: "not a QoS policy: write its id or its name",
		},
		"a QoS policy of 256 characters": {
			spec: `qosPolicy: ` + strings.Repeat("a", 256), field: "spec.qosPolicy", message: "Too long",
		},

		// sharedWith
		"shared with projects": {spec: `sharedWith: [1f0e9a8b7c6d5e4f, team-a]`},
		"shared with nobody":   {spec: `sharedWith: []`},
		"shared with another":  {before: `sharedWith: [a]`, spec: `sharedWith: [b]`},
		"shared with all, so": {
			spec: `sharedWith: ["*"]`, field: "spec.sharedWith[0]", message: "or shared: true for all projects",
		},
		"shared with no name": {spec: `sharedWith: [a, ""]`, field: "spec.sharedWith[1]", message: "not a project's id"},
		"shared with a space": {spec: `sharedWith: ["a b"]`, field: "spec.sharedWith[0]", message: "not a project's id"},
		"shared with one twice": {
			spec: `sharedWith: [a, a]`, field: "spec.sharedWith", message: "a project is listed twice",
		},
		"shared with 65": {
			spec: `sharedWith: [` + list(65, project) + `]`, field: "spec.sharedWith", message: "Too many",
		},
		"shared with 64": {spec: `sharedWith: [` + list(64, project) + `]`},

		// shared and external
		"shared":                 {spec: `shared: true, external: false`},
		"shared, later":          {spec: `shared: false, external: true`, before: `shared: true`},
		"shared may go":          {spec: `mtu: 1400`, before: `shared: true, external: true`},
		"shared with some alone": {spec: `shared: some`, field: "spec.shared", message: "must be of type boolean"},

		// provider
		"a type alone":     {spec: `provider: {networkType: vxlan}`},
		"a flat network":   {spec: `provider: {networkType: flat, physicalNetwork: physnet1}`},
		"a vlan":           {spec: `provider: {networkType: vlan, physicalNetwork: physnet1, segmentationID: 4094}`},
		"the last VNI":     {spec: `provider: {networkType: vxlan, segmentationID: 16777215}`},
		"the last GRE key": {spec: `provider: {networkType: gre, segmentationID: 4294967295}`},
		"no type":          {spec: `provider: {}`, field: "spec.provider.networkType", message: "Required value"},
		"an unknown type": {
			spec: `provider: {networkType: VLAN}`, field: "spec.provider.networkType", message: `supported values: "flat"`,
		},
		"flat on nothing": {
			spec: `provider: {networkType: flat}`, field: "spec.provider.physicalNetwork", message: "write which one",
		},
		"vxlan on a physical network": {
			spec:  `provider: {networkType: vxlan, physicalNetwork: physnet1}`,
			field: "spec.provider.physicalNetwork", message: "a vxlan network is on no physical network: leave it out",
		},
		"flat with an ID": {
			spec:  `provider: {networkType: flat, physicalNetwork: physnet1, segmentationID: 7}`,
			field: "spec.provider.segmentationID", message: "a flat network has no segmentation ID: leave it out",
		},
		"a VLAN ID on nothing": {
			spec: `provider: {networkType: vlan, segmentationID: 7}`, field: "spec.provider.physicalNetwork",
			message: "a vlan's segmentation ID is one of a physical network: write which one",
		},
		"a VLAN ID of 13 bits": {
			spec:  `provider: {networkType: vlan, physicalNetwork: physnet1, segmentationID: 4095}`,
			field: "spec.provider.segmentationID", message: "the segmentation ID of a vlan network is out of range: write one from 1 to 4094",
		},
		"a VNI of 25 bits": {
			spec:  `provider: {networkType: geneve, segmentationID: 16777216}`,
			field: "spec.provider.segmentationID", message: "geneve network is out of range: write one from 1 to 16777215",
		},
		"an ID of nothing": {
			spec:  `provider: {networkType: vxlan, segmentationID: 0}`,
			field: "spec.provider.segmentationID", message: "greater than or equal to 1",
		},
		"the provider may go": {spec: `mtu: 1400`, before: `provider: {networkType: vxlan}`},
		"the provider cannot come": {
			before: `mtu: 1400`, spec: `provider: {networkType: vxlan}`,
			field: "spec.provider", message: "provider cannot be added later: leave it out, or delete this Network",
		},
		"the type cannot change": {
			before: `provider: {networkType: vxlan}`, spec: `provider: {networkType: geneve}`,
			field: "spec.provider.networkType", message: `the network type cannot change: write "vxlan" again`,
		},
		"the physical network cannot change": {
			before: `provider: {networkType: flat, physicalNetwork: a}`,
			spec:   `provider: {networkType: flat, physicalNetwork: b}`,
			field:  "spec.provider.physicalNetwork", message: "can neither change nor be added later: write it as it was",
		},
		"the physical network cannot come": {
			before: `provider: {networkType: vlan}`, spec: `provider: {networkType: vlan, physicalNetwork: b}`,
			field: "spec.provider.physicalNetwork", message: "can neither change nor be added later",
		},
		"a VNI cannot change": {
			before: `provider: {networkType: vxlan, segmentationID: 7}`,
			spec:   `provider: {networkType: vxlan, segmentationID: 8}`,
			field:  "spec.provider.segmentationID", message: "only the segmentation ID of a vlan can change",
		},
		"a VLAN ID may change": {
			before: `provider: {networkType: vlan, physicalNetwork: a, segmentationID: 7}`,
			spec:   `provider: {networkType: vlan, physicalNetwork: a, segmentationID: 8}`,
		},
		"a VLAN ID may come": {
			before: `provider: {networkType: vlan, physicalNetwork: a}`,
			spec:   `provider: {networkType: vlan, physicalNetwork: a, segmentationID: 8}`,
		},
		"what the cloud chooses then may be left to it": {
			before: `provider: {networkType: vlan, physicalNetwork: a, segmentationID: 7}`,
			spec:   `provider: {networkType: vlan}`,
		},

		// availabilityZoneHints
		"zones":                {spec: `availabilityZoneHints: [a, b]`},
		"zones have no order":  {before: `availabilityZoneHints: [a, b]`, spec: `availabilityZoneHints: [b, a]`},
		"zones may go":         {before: `availabilityZoneHints: [a, b]`, spec: `mtu: 1400`},
		"no zones are as none": {spec: `availabilityZoneHints: []`},
		"no zones, and then some": {
			before: `availabilityZoneHints: []`, spec: `availabilityZoneHints: [a]`,
			field: "spec.availabilityZoneHints", message: "neither change nor be added later",
		},
		"zones with names of 255 characters, brackets, quotes and commas included": {
			spec: `availabilityZoneHints: [` + list(15, func(zone int) string { return fmt.Sprintf("zone-%08d", zone) }) + `]`,
		},
		"zones with names of 256, so": {
			spec:  `availabilityZoneHints: [` + list(16, func(zone int) string { return fmt.Sprintf("zone-%07d", zone) }) + `]`,
			field: "spec.availabilityZoneHints", message: "the names are too long together for Neutron: write fewer zones",
		},
		"zones cannot come": {
			before: `mtu: 1400`, spec: `availabilityZoneHints: [a]`, field: "spec.availabilityZoneHints",
			message: "the zones can neither change nor be added later: write them as they were",
		},
		"fewer zones": {
			before: `availabilityZoneHints: [a, b]`, spec: `availabilityZoneHints: [a]`,
			field: "spec.availabilityZoneHints", message: "the zones can neither change nor be added later",
		},

		// tags
		"tags":             {spec: `tags: [a, "b,c", "数", " "]`},
		"no tags":          {spec: `tags: []`},
		"as many as go":    {spec: `tags: [` + list(64, tagOf255) + `]`},
		"the tags may go":  {before: `tags: [a]`, spec: `tags: []`},
		"one more":         {spec: `tags: [` + list(65, tagOf255) + `]`, field: "spec.tags", message: "Too many"},
		"a tag twice":      {spec: `tags: [a, b, a]`, field: "spec.tags", message: "a tag is listed twice"},
		"an empty tag":     {spec: `tags: [""]`, field: "spec.tags[0]", message: "not a tag: write 1 to 255"},
		"a tag with a tab": {spec: `tags: ["a\tb"]`, field: "spec.tags[0]", message: "not a tag"},
		"a tag of 256":     {spec: `tags: [` + strings.Repeat("a", 256) + `]`, field: "spec.tags[0]", message: "Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, namespace, cidr)
		})
	}
}

// tagOf255 is a tag of the greatest length that differs from that of another number.
func tagOf255(number int) string {
	return `"` + strings.Repeat("é", 253) + string(rune('a'+number%26)) + string(rune('a'+number/26)) + `"`
}
