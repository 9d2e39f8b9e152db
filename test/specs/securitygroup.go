package specs

import (
	"cmp"
	"fmt"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// rulesAreReplaced says why the fields of a rule have no separate lives.
const rulesAreReplaced = "Neutron fixes a rule when it makes it: lifeOfASecurityGroup has rules come, go and drift"

// groupFields is the table of a SecurityGroupSpec's fields. name is the SecurityGroup's own.
func groupFields(name string) []field[cloudteamv1.SecurityGroupSpec] {
	fields := []field[cloudteamv1.SecurityGroupSpec]{
		{
			path: "description", part: ofNetwork,
			draw: func(t *rapid.T, _ Limits, s *cloudteamv1.SecurityGroupSpec) {
				s.Description = texts().Draw(t, "description")
			},
			lives: []Life{{
				Trial: "group", Create: "with Ünïcödé", Change: "another", Drift: withMarker("others'"),
				Reads: readDescription, Gone: Late(func(o Tried) any { return o.Marker() }),
			}},
		},
		{
			path: "stateful", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.SecurityGroupSpec) {
				s.Stateful = rapid.Ptr(rapid.Bool(), true).Draw(t, "stateful")
			},
			lives: []Life{{Trial: "group", Create: false, Change: true, Drift: false, Gone: true}},
		},
		{
			path: "rules", part: ofNetwork,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.SecurityGroupSpec) { drawRules(t, l, name, s) },
		},
		// kubectl apply --server-side makes null of a spec that has nothing left, which the API server refuses.
		{path: "rules[].direction", with: "rules", lives: []Life{{
			Trial: "group", Create: "egress", Change: "egress", Never: rulesAreReplaced, Needs: "the spec would be null",
			Attribute: "security_group.security_group_rules[].direction",
		}}},
		{path: "deletionPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.SecurityGroupSpec) {
			drawDeletion(t, &s.DeletionPolicy)
		}},
		{path: "driftPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.SecurityGroupSpec) {
			drawDrift(t, &s.DriftPolicy)
		}},
		{path: "managementPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.SecurityGroupSpec) {
			s.ManagementPolicy = rapid.SampledFrom([]cloudteamv1.SecurityGroupManagementPolicy{
				"", "Manage",
			}).Draw(t, "managementPolicy")
		}},
		{
			path: "cloud", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.SecurityGroupSpec) {
				if s.Cloud = nil; len(l.Clouds) > 0 {
					s.Cloud = rapid.SampledFrom(l.Clouds).Draw(t, "cloud").DeepCopy()
				}
			},
		},
		{
			path: "className", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.SecurityGroupSpec) {
				if s.ClassName = ""; s.Cloud == nil && len(l.Classes) > 0 {
					s.ClassName = rapid.SampledFrom(l.Classes).Draw(t, "className")
				}
			},
		},
	}
	for _, path := range []string{"name", "secretName"} {
		fields = append(fields, field[cloudteamv1.SecurityGroupSpec]{path: "cloud." + path, with: "cloud"})
	}
	for _, path := range []string{
		"etherType", "protocol", "portRangeMin", "portRangeMax", "remoteCIDR", "remoteGroup",
	} {
		fields = append(fields, field[cloudteamv1.SecurityGroupSpec]{
			path: "rules[]." + path, with: "rules", lives: []Life{{Trial: "group", Never: rulesAreReplaced}},
		})
	}
	return fields
}

// SecurityGroup draws specs for a SecurityGroup of a name that the API server and Neutron accept.
func (l Limits) SecurityGroup(name string) *rapid.Generator[cloudteamv1.SecurityGroupSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.SecurityGroupSpec {
		var spec cloudteamv1.SecurityGroupSpec
		drawSome(t, l, drawnIn(groupFields(name), ofNetwork, ofPolicy), &spec)
		return spec
	})
}

// SecurityGroupEdit draws what a spec may become.
func (l Limits) SecurityGroupEdit(
	name string, spec cloudteamv1.SecurityGroupSpec,
) *rapid.Generator[cloudteamv1.SecurityGroupSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.SecurityGroupSpec {
		edited := *spec.DeepCopy()
		if oneIn(t, 8, "another") {
			return l.SecurityGroup(name).Draw(t, "another")
		}
		redraw(t, l, drawnIn(groupFields(name), ofNetwork, ofPolicy), &edited)
		if edited.Cloud != nil { // which has no class
			edited.ClassName = ""
		}
		return edited
	})
}

func drawRules(t *rapid.T, l Limits, name string, s *cloudteamv1.SecurityGroupSpec) {
	s.Rules = orNil(rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) cloudteamv1.SecurityGroupRule {
		return drawRule(t, append([]string{name}, l.SecurityGroupRefs...))
	}), 0, 4, meaningOf).Draw(t, "rules"))
}

// drawRule draws a rule, of which groups are the names of the groups that it may be about.
func drawRule(t *rapid.T, groups []string) (r cloudteamv1.SecurityGroupRule) {
	r.Direction = rapid.SampledFrom([]cloudteamv1.RuleDirection{
		cloudteamv1.RuleIngress, cloudteamv1.RuleEgress,
	}).Draw(t, "direction")
	r.EtherType = rapid.SampledFrom([]cloudteamv1.EtherType{
		"", cloudteamv1.EtherTypeIPv4, cloudteamv1.EtherTypeIPv6,
	}).Draw(t, "etherType")
	six := r.EtherType == cloudteamv1.EtherTypeIPv6
	icmp, cidrs := "icmp", []string{"0.0.0.0/0", "10.0.0.0/8", "192.0.2.7/32"}
	if six {
		icmp, cidrs = "icmpv6", []string{"::/0", "fd00:1::/64", "fd00:1::7/128"}
	}
	protocols := []string{"", cloudteamv1.RuleProtocolAny, "tcp", "udp", "sctp", "47", icmp}
	r.Protocol = rapid.SampledFrom(protocols).Draw(t, "protocol")
	first, last := 1, 65535
	switch r.Protocol {
	case icmp:
		first, last = 0, 255
	case "tcp", "udp", "sctp":
	default:
		last = 0
	}
	if last > 0 && rapid.Bool().Draw(t, "with ports") {
		from := rapid.SampledFrom([]int{first, 7, last}).Draw(t, "portRangeMin")
		r.PortRangeMin = new(int32(from))
		if rapid.Bool().Draw(t, "with portRangeMax") {
			r.PortRangeMax = new(int32(rapid.SampledFrom([]int{from, last}).Draw(t, "portRangeMax")))
		}
	}
	switch rapid.IntRange(0, 2).Draw(t, "remote") {
	case 1:
		r.RemoteCIDR = rapid.SampledFrom(cidrs).Draw(t, "remoteCIDR")
	case 2:
		r.RemoteGroup = rapid.SampledFrom(groups).Draw(t, "remoteGroup")
	}
	return r
}

// meaningOf is equal for rules that Neutron takes for duplicates, by the fields' documentation.
func meaningOf(r cloudteamv1.SecurityGroupRule) string {
	protocol, from, to := r.Protocol, int32(-1), int32(-1)
	if protocol == cloudteamv1.RuleProtocolAny {
		protocol = ""
	}
	if r.PortRangeMin != nil {
		from = *r.PortRangeMin
		if to = from; protocol == "icmp" || protocol == "icmpv6" {
			to = -1
		}
	}
	if r.PortRangeMax != nil {
		to = *r.PortRangeMax
	}
	if from == 1 && to == 65535 {
		from, to = -1, -1
	}
	remote := r.RemoteCIDR
	if remote == "0.0.0.0/0" || remote == "::/0" {
		remote = ""
	}
	family := cmp.Or(r.EtherType, cloudteamv1.EtherTypeIPv4)
	return fmt.Sprint(r.Direction, family, protocol, from, to, remote, r.RemoteGroup)
}

// OwnRules is how many rules Neutron gives to a new group of a spec that are not declared: it has two, which let
// everything out. A spec without a rule for egress declares them.
func OwnRules(spec cloudteamv1.SecurityGroupSpec) int {
	surplus := map[string]bool{}
	egress := false
	for _, family := range []cloudteamv1.EtherType{cloudteamv1.EtherTypeIPv4, cloudteamv1.EtherTypeIPv6} {
		surplus[meaningOf(cloudteamv1.SecurityGroupRule{Direction: cloudteamv1.RuleEgress, EtherType: family})] = true
	}
	for _, r := range spec.Rules {
		egress = egress || r.Direction == cloudteamv1.RuleEgress
		delete(surplus, meaningOf(r))
	}
	if !egress {
		return 0
	}
	return len(surplus)
}
