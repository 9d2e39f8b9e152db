package plan_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// declaredSpec is what the tables start from.
func declaredSpec() Spec {
	return Spec{
		Owner: testOwner, Name: "net", Description: "db", MTU: 1400, PortSecurity: new(true),
		Subnets: []Subnet{{
			CIDR: prefix("10.0.0.0/24"), Gateway: addr("10.0.0.1"), DHCP: true,
			Pools:      ranges("10.0.0.2-10.0.0.254"),
			DNSServers: []netip.Addr{addr("9.9.9.9"), addr("1.1.1.1")},
			HostRoutes: []Route{route("10.9.0.0/16", "10.0.0.9")},
		}},
	}
}

func specWith(change func(*Spec)) Spec {
	spec := plantest.Clone(declaredSpec())
	change(&spec)
	return spec
}

func TestSpecValidate(t *testing.T) {
	v4, v6 := Subnet{CIDR: prefix("10.0.0.0/24")}, Subnet{CIDR: prefix("fd00::/64")}
	for sentence, tc := range map[string]struct {
		spec Spec
		// field and text are of the refusal; without them the spec is good.
		field, text string
	}{
		"a subnet within another is refused": {
			specWith(func(s *Spec) { s.Subnets = []Subnet{v4, {CIDR: prefix("10.0.0.128/25")}} }),
			"additionalSubnets[0].cidr", "10.0.0.128/25 overlaps 10.0.0.0/24",
		},
		"a subnet's own error is the spec's": {
			specWith(func(s *Spec) { s.Subnets = []Subnet{v6, {}} }), "additionalSubnets[0].cidr", "192.168.0.0/16",
		},
		"a description too long is refused": {
			specWith(func(s *Spec) { s.Description = strings.Repeat("x", 174) }), FieldDescription, "at most 173",
		},
		"a description that has no room for the word of an import is refused": {
			specWith(func(s *Spec) { s.Import.ID, s.Description = "net-1", strings.Repeat("x", 163) }),
			FieldDescription, "at most 162",
		},
		"a description with half a marker": {
			specWith(func(s *Spec) { s.Description = "x [owner=" }), FieldDescription, "[owner=",
		},
		"all projects by another name than shared are refused": {
			specWith(func(s *Spec) { s.SharedWith = []string{"a", "*"} }), "sharedWith[1]", "write shared: true",
		},
		"a description with other brackets is good": {specWith(func(s *Spec) { s.Description = "[owners=a/b] [x]" }), "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := tc.spec.Validate()
			if tc.field == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			requireFieldError(t, err, tc.field, tc.text)
		})
	}
}

func TestSpecValidateRefusesAnOwnerThatNoMarkerCanName(t *testing.T) {
	for sentence, owner := range map[string]Owner{
		"no object":                        {Cluster: "a"},
		"a slash, which parts the UIDs":    {Cluster: "a/b", Object: "c"},
		"a character that no UID can have": {Cluster: "a", Object: "é"},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := Spec{Owner: owner, Name: "n"}.Validate()
			expect.ErrorSays(t, err, "owner")
		})
	}
}

func TestObservedNamesItsResources(t *testing.T) {
	network, port := Resource{KindNetwork, "net-1"}, Resource{KindPort, "port-1"}
	for sentence, tc := range map[string]struct {
		observed Observed
		want     []Resource
	}{
		"nothing is empty": {Observed{}, nil},
		"both, and more than one of the kind": {
			Observed{
				Networks: []ObservedNetwork{asDeclared(), {ID: "net-2"}}, Ports: []ObservedPort{portAsDeclared(), {ID: "port-2"}},
			},
			[]Resource{network, {KindNetwork, "net-2"}, port, {KindPort, "port-2"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, tc.want, tc.observed.Resources(), "resources")
			expect.Equal(t, len(tc.want) == 0, tc.observed.Empty(), "Empty() of %v", tc.want)
		})
	}
	expect.Equal(t, "network net-1, port port-1", network.String()+", "+port.String(), "resources print as")
}

func TestInSubnetNamesFieldsAsTheUserDoes(t *testing.T) {
	plain := errors.New("no field")
	err := errors.Join(
		&FieldError{"gateway", "a"}, errors.Join(&FieldError{"dnsServers[0]", "b"}, plain),
	)
	for place, want := range map[int]string{
		0: "gateway: a\ndnsServers[0]: b\nno field",
		1: "additionalSubnets[0].gateway: a\nadditionalSubnets[0].dnsServers[0]: b\nno field",
		3: "additionalSubnets[2].gateway: a\nadditionalSubnets[2].dnsServers[0]: b\nno field",
	} {
		if got := InSubnet(place, err); got.Error() != want {
			t.Errorf("place %d: %q, want %q", place, got, want)
		}
	}
	if got := InSubnet(1, nil); got != nil {
		t.Errorf("of no error: %v", got)
	}
}
