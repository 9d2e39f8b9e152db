package declare

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// SecurityGroup translates a SecurityGroup's spec into the domain's canonical form. groups gives the ids of other
// SecurityGroups of the namespace by their names; the rules about one that it does not have are pending. The error is
// *plan.FieldErrors, joined by errors.Join.
func SecurityGroup(
	obj *cloudteamv1.SecurityGroup, owner plan.Owner, groups map[string]string,
) (plan.GroupSpec, error) {
	spec := plan.GroupSpec{
		Owner: owner, Name: obj.Name, Description: obj.Spec.Description,
		Stateless: obj.Spec.Stateful != nil && !*obj.Spec.Stateful,
	}
	p := &parser{}
	lets := false
	for i, declared := range obj.Spec.Rules {
		rule := ruleOf(p, i, declared)
		lets = lets || rule.Direction == plan.Egress
		id, known := groups[declared.RemoteGroup]
		to := &spec.Rules
		switch {
		case declared.RemoteGroup == "":
		case declared.RemoteGroup == obj.Name:
			rule.RemoteGroup = plan.OwnGroup
		case known:
			rule.RemoteGroup = id
		default:
			to = &spec.Pending
		}
		if !slices.Contains(*to, rule) {
			*to = append(*to, rule)
		}
	}
	if !lets {
		spec.Rules = append(spec.Rules, plan.DefaultEgress()...)
	}
	if err := p.err(); err != nil {
		return plan.GroupSpec{}, err
	}
	return spec, spec.Validate()
}

// RemoteGroups are the names of other SecurityGroups that a SecurityGroup's rules are about, each once, in order.
func RemoteGroups(obj *cloudteamv1.SecurityGroup) (names []string) {
	for _, r := range obj.Spec.Rules {
		if r.RemoteGroup != "" && r.RemoteGroup != obj.Name {
			names = append(names, r.RemoteGroup)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ruleOf translates a rule, without its remote group.
func ruleOf(p *parser, at int, declared cloudteamv1.SecurityGroupRule) plan.Rule {
	r := plan.Rule{
		Direction: string(declared.Direction), EtherType: cmp.Or(string(declared.EtherType), plan.IPv4),
		Protocol: declared.Protocol, PortMin: plan.NoPort, PortMax: plan.NoPort,
	}
	if declared.PortRangeMin != nil {
		r.PortMin = int(*declared.PortRangeMin)
	}
	switch hasTypes := declared.Protocol == "icmp" || declared.Protocol == "icmpv6"; {
	case declared.PortRangeMax != nil:
		r.PortMax = int(*declared.PortRangeMax)
	case !hasTypes:
		r.PortMax = r.PortMin
	}
	if declared.RemoteCIDR != "" {
		r.Remote = p.prefix(ruleField(at, "remoteCIDR"), declared.RemoteCIDR)
		if r.Remote == (netip.Prefix{}) {
			return r // the parser has the error
		}
		r.Remote = r.Remote.Masked()
	}
	return r.Canonical()
}

func ruleField(at int, name string) string {
	return plan.FieldRules + "[" + strconv.Itoa(at) + "]." + name
}
