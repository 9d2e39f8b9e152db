package specs

import cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"

// rulesAreReplaced says why the fields of a rule have no lives of their own.
const rulesAreReplaced = "Neutron fixes a rule when it makes it: TestSecurityGroups has rules come, go and drift"

// groupFields are the fields of a SecurityGroup that become attributes in Neutron. Nothing draws them: package plan's
// property tests draw rules.
func groupFields() []field[cloudteamv1.SecurityGroupSpec] {
	fields := []field[cloudteamv1.SecurityGroupSpec]{
		{path: "description", lives: []Life{{
			Trial: "group", Create: "with Ünïcödé", Change: "another", Drift: withMarker("others'"),
			Reads: readDescription, Gone: Late(func(o Tried) any { return o.Marker() }),
		}}},
		{path: "stateful", lives: []Life{{Trial: "group", Create: false, Change: true, Drift: false, Gone: true}}},
	}
	// kubectl apply --server-side makes null of a spec that has nothing left, which the API server refuses.
	fields = append(fields, field[cloudteamv1.SecurityGroupSpec]{path: "rules[].direction", lives: []Life{{
		Trial: "group", Create: "egress", Change: "egress", Never: rulesAreReplaced, Needs: "the spec would be null",
		Attribute: "security_group.security_group_rules[].direction",
	}}})
	for _, path := range []string{
		"etherType", "protocol", "portRangeMin", "portRangeMax", "remoteCIDR", "remoteGroup",
	} {
		fields = append(fields, field[cloudteamv1.SecurityGroupSpec]{
			path: "rules[]." + path, lives: []Life{{Trial: "group", Never: rulesAreReplaced}},
		})
	}
	return fields
}
