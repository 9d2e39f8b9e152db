package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPropertiesOfANetworkAreChecked(t *testing.T) {
	namespace := newNamespace(t)
	const cidr = `cidr: 192.168.0.0/16, `
	label := strings.Repeat("a", 63) + "."
	const noDomain = "not a DNS domain: write labels of letters, digits and hyphens"
	for name, test := range map[string]struct {
		// before is the spec that it is an update of; empty for a new Network.
		before, spec string
		// Both are empty when it must be accepted.
		field, message string
	}{
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
			field: "spec.provider.segmentationID", message: "no segmentation ID of a vlan network: write one from 1 to 4094",
		},
		"a VNI of 25 bits": {
			spec:  `provider: {networkType: geneve, segmentationID: 16777216}`,
			field: "spec.provider.segmentationID", message: "geneve network: write one from 1 to 16777215",
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
			field:  "spec.provider.segmentationID", message: "the segmentation ID of a vlan alone can change",
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
		"zones":                 {spec: `availabilityZoneHints: [a, b]`},
		"zones have no order":   {before: `availabilityZoneHints: [a, b]`, spec: `availabilityZoneHints: [b, a]`},
		"zones may go":          {before: `availabilityZoneHints: [a, b]`, spec: `mtu: 1400`},
		"no zones are left out": {spec: `availabilityZoneHints: []`, field: "spec.availabilityZoneHints", message: "at least 1"},
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
		"a tag twice":      {spec: `tags: [a, b, a]`, field: "spec.tags[2]", message: "Duplicate value"},
		"an empty tag":     {spec: `tags: [""]`, field: "spec.tags[0]", message: "not a tag: write 1 to 255"},
		"a tag with a tab": {spec: `tags: ["a\tb"]`, field: "spec.tags[0]", message: "not a tag"},
		"a tag of 256":     {spec: `tags: [` + strings.Repeat("a", 256) + `]`, field: "spec.tags[0]", message: "Too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := anyAPI.Resource(networks).Namespace(namespace)
			object := networkWith(t, "{"+cidr+test.spec+"}")
			object.SetName("")
			object.SetGenerateName("properties-")
			strict := metav1.FieldValidationStrict
			var err error
			if test.before == "" {
				_, err = client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: strict})
			} else {
				spec := object.Object["spec"]
				object.Object["spec"] = networkWith(t, "{"+cidr+test.before+"}").Object["spec"]
				object, err = client.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: strict})
				if err != nil {
					t.Fatalf("create: %v", err)
				}
				object.Object["spec"] = spec
				_, err = client.Update(t.Context(), object, metav1.UpdateOptions{FieldValidation: strict})
			}
			found := refusals(t, err)
			if test.field == "" {
				if len(found) > 0 {
					t.Errorf("want it accepted, got %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Field != test.field || !strings.Contains(found[0].Message, test.message) {
				t.Errorf("want one refusal of %s with %q, got %+v", test.field, test.message, found)
			}
		})
	}
}

// tagOf255 is a tag of the greatest length that differs from that of another number.
func tagOf255(number int) string {
	return `"` + strings.Repeat("é", 253) + string(rune('a'+number%26)) + string(rune('a'+number/26)) + `"`
}
