package declare

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestNetworkProperties compares what the spec says of the network itself, its subnets left out.
func TestNetworkProperties(t *testing.T) {
	for sentence, tc := range map[string]struct {
		set  func(*cloudteamv1.NetworkSpec)
		want plan.Spec
	}{
		"nothing is said": {func(*cloudteamv1.NetworkSpec) {}, plan.Spec{Name: "example"}},
		"a name of its own": {
			func(s *cloudteamv1.NetworkSpec) { s.NetworkName = "other" }, plan.Spec{Name: "other"},
		},
		"up is the default": {
			func(s *cloudteamv1.NetworkSpec) { s.AdminState = cloudteamv1.AdminStateUp }, plan.Spec{Name: "example"},
		},
		"down": {
			func(s *cloudteamv1.NetworkSpec) { s.AdminState = cloudteamv1.AdminStateDown },
			plan.Spec{Name: "example", Down: true},
		},
		"a DNS domain is in lower case": {
			func(s *cloudteamv1.NetworkSpec) { s.DNSDomain = "Example.ORG." },
			plan.Spec{Name: "example", DNSDomain: new("example.org.")},
		},
		"no DNS domain": {
			func(s *cloudteamv1.NetworkSpec) { s.DNSDomain = cloudteamv1.DNSDomainNone },
			plan.Spec{Name: "example", DNSDomain: new("")},
		},
		"tags are sorted": {
			func(s *cloudteamv1.NetworkSpec) { s.Tags = []string{"b", "a"} },
			plan.Spec{Name: "example", Tags: []string{"a", "b"}},
		},
		"no tags are not the same as none said": {
			func(s *cloudteamv1.NetworkSpec) { s.Tags = []string{} }, plan.Spec{Name: "example", Tags: []string{}},
		},
		"a QoS policy is named, until its id is looked up": {
			func(s *cloudteamv1.NetworkSpec) { s.QoSPolicy = "gold" }, plan.Spec{Name: "example", QoSPolicy: new("gold")},
		},
		"no QoS policy": {
			func(s *cloudteamv1.NetworkSpec) { s.QoSPolicy = cloudteamv1.QoSPolicyNone },
			plan.Spec{Name: "example", QoSPolicy: new("")},
		},
		"projects are sorted": {
			func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{"b", "a"} },
			plan.Spec{Name: "example", SharedWith: []string{"a", "b"}},
		},
		"no projects are not the same as none said": {
			func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{} },
			plan.Spec{Name: "example", SharedWith: []string{}},
		},
		"what is an administrator's": {
			func(s *cloudteamv1.NetworkSpec) {
				s.Shared, s.External, s.AvailabilityZoneHints = new(true), new(false), []string{"b", "a"}
				s.Provider = &cloudteamv1.ProviderSpec{
					NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: new(int64(7)),
				}
			},
			plan.Spec{
				Name: "example", Shared: new(true), External: new(false), ZoneHints: []string{"a", "b"},
				Provider: plan.Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: 7},
			},
		},
		"a provider of which the cloud chooses most": {
			func(s *cloudteamv1.NetworkSpec) { s.Provider = &cloudteamv1.ProviderSpec{NetworkType: "vxlan"} },
			plan.Spec{Name: "example", Provider: plan.Provider{NetworkType: "vxlan"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := specOf(cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/24"})
			tc.set(&spec)
			before := *spec.DeepCopy()
			got, err := Network(networkOf(spec), specOwner)
			if err != nil {
				t.Fatal(err)
			}
			got.Subnets, tc.want.Owner = nil, specOwner
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, spec); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNetworkRefusesProperties(t *testing.T) {
	for sentence, tc := range map[string]struct {
		set   func(*cloudteamv1.NetworkSpec)
		field string
	}{
		"all projects": {func(s *cloudteamv1.NetworkSpec) { s.SharedWith = []string{"*"} }, "sharedWith[0]"},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := specOf(cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/24"})
			tc.set(&spec)
			_, err := Network(networkOf(spec), specOwner)
			if diff := cmp.Diff([]string{tc.field}, fieldsOf(t, err)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
