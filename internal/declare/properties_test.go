package declare

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestNetworkProperties compares what the spec says of the network itself, its subnets left out.
func TestNetworkProperties(t *testing.T) {
	type spec = cloudteamv1.NetworkSpec
	for sentence, tc := range map[string]struct {
		set  func(*spec)
		want plan.Spec // its name is the object's, unless set
	}{
		"a name of its own":                     {func(s *spec) { s.NetworkName = "other" }, plan.Spec{Name: "other"}},
		"down":                                  {func(s *spec) { s.AdminState = cloudteamv1.AdminStateDown }, plan.Spec{Down: true}},
		"a DNS domain is in lower case":         {func(s *spec) { s.DNSDomain = "Example.ORG." }, plan.Spec{DNSDomain: new("example.org.")}},
		"no DNS domain":                         {func(s *spec) { s.DNSDomain = cloudteamv1.DNSDomainNone }, plan.Spec{DNSDomain: new("")}},
		"tags are sorted":                       {func(s *spec) { s.Tags = []string{"b", "a"} }, plan.Spec{Tags: []string{"a", "b"}}},
		"no tags are not the same as none said": {func(s *spec) { s.Tags = []string{} }, plan.Spec{Tags: []string{}}},
		"no QoS policy":                         {func(s *spec) { s.QoSPolicy = cloudteamv1.QoSPolicyNone }, plan.Spec{QoSPolicy: new("")}},
		"projects are sorted":                   {func(s *spec) { s.SharedWith = []string{"b", "a"} }, plan.Spec{SharedWith: []string{"a", "b"}}},
		"what is an administrator's": {
			func(s *spec) {
				s.Shared, s.External, s.AvailabilityZoneHints = new(true), new(false), []string{"b", "a"}
				s.Provider = &cloudteamv1.ProviderSpec{
					NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: new(int64(7)),
				}
			},
			plan.Spec{
				Shared: new(true), External: new(false), ZoneHints: []string{"a", "b"},
				Provider: plan.Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: 7},
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := specOf(cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/24"})
			tc.set(&spec)
			before := *spec.DeepCopy()
			got, err := Network(networkOf(spec), specOwner)
			expect.NoError(t, err)
			if tc.want.Name == "" {
				tc.want.Name = "example"
			}
			got.Subnets, tc.want.Owner = nil, specOwner
			expect.Equal(t, tc.want, got, "the spec")
			expect.Equal(t, before, spec, "the object was changed")
		})
	}
}
