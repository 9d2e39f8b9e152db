package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestInstalledCRDsAreComparedWithThoseOfThisVersion(t *testing.T) {
	properties := func(of map[string]any) map[string]any { return of["properties"].(map[string]any) }
	for sentence, c := range map[string]struct {
		edit         func(installed schemas)
		want         State
		says, remedy string
	}{
		"the same": {edit: func(schemas) {}, want: OK, says: "that of kubectl network v1.2.0"},
		"other texts alone": {want: OK, edit: func(installed schemas) {
			field(installed["Network"], "spec")["description"] = "an older text"
		}},
		"a kind is missing": {want: Warns, says: "the installed CRDs lack SecurityGroup", remedy: "Upgrade the CRDs",
			edit: func(installed schemas) { delete(installed, "SecurityGroup") }},
		"a field is missing": {want: Warns, says: "the installed CRDs lack NetworkPort spec.floatingIP",
			remedy: "Upgrade the CRDs", edit: func(installed schemas) {
				delete(properties(field(installed["NetworkPort"], "spec")), "floatingIP")
			}},
		"a field of a list is missing": {want: Warns, says: "lack Network spec.additionalSubnets[].cidr",
			edit: func(installed schemas) {
				subnets := field(field(installed["Network"], "spec"), "additionalSubnets")["items"].(map[string]any)
				delete(properties(subnets), "cidr")
			}},
		"a newer field": {want: Warns, says: "kubectl network does not know Network status.speed",
			remedy: "Install the kubectl network of the installed version", edit: func(installed schemas) {
				properties(field(installed["Network"], "status"))["speed"] = map[string]any{"type": "integer"}
			}},
		"another rule": {want: Warns, says: "other rules hold for Network spec.mtu", remedy: "to one version",
			edit: func(installed schemas) {
				field(field(installed["Network"], "spec"), "mtu")["maximum"] = 9000.0
			}},
		"many fields": {want: Warns, says: " and 1 more", edit: func(installed schemas) {
			of := properties(field(installed["Network"], "spec"))
			for _, name := range []string{"tags", "mtu", "router", "import"} {
				delete(of, name)
			}
		}},
	} {
		want, err := ownSchemas()
		expect.NoError(t, err)
		content, err := json.Marshal(want)
		expect.NoError(t, err)
		var installed schemas
		expect.NoError(t, json.Unmarshal(content, &installed))
		c.edit(installed)
		check := Check{State: OK, Says: "that of kubectl network v1.2.0"}.ofSchemas(compareSchemas(want, installed), "v1.2.0")
		if check.State != c.want || !strings.Contains(check.Says, c.says) || !strings.Contains(check.Remedy, c.remedy) ||
			(check.State == OK) != (check.Remedy == "") {
			t.Errorf("%s: %+v, want %s %q %q", sentence, check, c.want, c.says, c.remedy)
		}
	}
}

func TestEveryKindHasASchemaOfThisVersion(t *testing.T) {
	own, err := ownSchemas()
	expect.NoError(t, err)
	for _, kind := range []string{"Network", "NetworkClass", "NetworkPort", "SecurityGroup", "FloatingIP"} {
		if field(own[kind], "spec") == nil {
			t.Errorf("%s has no schema among %d", kind, len(own))
		}
	}
}
