package declare

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestSecurityGroup holds what each form of a rule means.
func TestSecurityGroup(t *testing.T) {
	by := plan.Owner{Cluster: "c", Object: "o"}
	in := func(change func(*plan.Rule)) plan.Rule {
		r := plan.Rule{Direction: plan.Ingress, EtherType: plan.IPv4, PortMin: plan.NoPort, PortMax: plan.NoPort}
		change(&r)
		return r
	}
	out := plan.DefaultEgress()
	port := func(n int32) *int32 { return &n }
	for what, test := range map[string]struct {
		rules          []cloudteamv1.SecurityGroupRule
		rulesOf, waits []plan.Rule
	}{
		"a rule for egress is the only one": {
			[]cloudteamv1.SecurityGroupRule{{Direction: "egress", EtherType: "IPv6", Protocol: "tcp", PortRangeMin: port(1),
				PortRangeMax: port(65535)}},
			[]plan.Rule{{Direction: plan.Egress, EtherType: plan.IPv6, Protocol: "tcp", PortMin: -1, PortMax: -1}}, nil,
		},
		"one port, the whole range, and the same again": {
			[]cloudteamv1.SecurityGroupRule{
				{Direction: "ingress", Protocol: "udp", PortRangeMin: port(53)},
				{Direction: "ingress", Protocol: "any", RemoteCIDR: "0.0.0.0/0"}, {Direction: "ingress", EtherType: "IPv4"},
			},
			append([]plan.Rule{
				in(func(r *plan.Rule) { r.Protocol, r.PortMin, r.PortMax = "udp", 53, 53 }), in(func(*plan.Rule) {}),
			}, out...), nil,
		},
		"a type without a code is every code": {
			[]cloudteamv1.SecurityGroupRule{{Direction: "ingress", Protocol: "icmp", PortRangeMin: port(8)}},
			append([]plan.Rule{in(func(r *plan.Rule) { r.Protocol, r.PortMin = "icmp", 8 })}, out...), nil,
		},
		"a range and groups": {
			[]cloudteamv1.SecurityGroupRule{
				{Direction: "ingress", RemoteCIDR: "10.0.0.0/8"}, {Direction: "ingress", RemoteGroup: "web"},
				{Direction: "ingress", RemoteGroup: "db"}, {Direction: "ingress", RemoteGroup: "other"},
			},
			append([]plan.Rule{
				in(func(r *plan.Rule) { r.Remote = netip.MustParsePrefix("10.0.0.0/8") }),
				in(func(r *plan.Rule) { r.RemoteGroup = plan.OwnGroup }), in(func(r *plan.Rule) { r.RemoteGroup = "id-db" }),
			}, out...), []plan.Rule{in(func(*plan.Rule) {})},
		},
	} {
		t.Run(what, func(t *testing.T) {
			obj := &cloudteamv1.SecurityGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       cloudteamv1.SecurityGroupSpec{Rules: test.rules, Description: "d", Stateful: new(false)},
			}
			got, err := SecurityGroup(obj, by, map[string]string{"db": "id-db"})
			expect.NoError(t, err)
			want := plan.GroupSpec{
				Owner: by, Name: "web", Description: "d", Stateless: true, Rules: test.rulesOf, Pending: test.waits,
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	wrong := &cloudteamv1.SecurityGroup{Spec: cloudteamv1.SecurityGroupSpec{
		Rules: []cloudteamv1.SecurityGroupRule{{Direction: "ingress"}, {Direction: "ingress", RemoteCIDR: "all"}},
	}}
	if _, err := SecurityGroup(wrong, by, nil); err == nil || !strings.Contains(err.Error(), "rules[1].remoteCIDR") {
		t.Errorf("a range that is none: %v", err)
	}
}
