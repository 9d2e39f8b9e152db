package declare

import (
	"cmp"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// NetworkName is the network's name in Neutron that the spec declares.
func NetworkName(obj *cloudteamv1.Network) string { return cmp.Or(obj.Spec.NetworkName, obj.Name) }

// properties translates the network's own settings into the domain's canonical form.
func properties(s cloudteamv1.NetworkSpec, spec *plan.Spec) {
	spec.Down = s.AdminState == cloudteamv1.AdminStateDown
	switch s.DNSDomain {
	case "":
	case cloudteamv1.DNSDomainNone:
		spec.DNSDomain = new("")
	default:
		// Neutron stores it in lower case.
		spec.DNSDomain = new(strings.ToLower(s.DNSDomain))
	}
	if s.Tags != nil {
		spec.Tags = set(s.Tags)
	}
	spec.QoSPolicy = orNone(s.QoSPolicy, cloudteamv1.QoSPolicyNone) // the Network's controller replaces a name with the id
	if s.SharedWith != nil {
		spec.SharedWith = set(s.SharedWith)
	}
	spec.Shared, spec.External = s.Shared, s.External
	if p := s.Provider; p != nil {
		spec.Provider = plan.Provider{NetworkType: string(p.NetworkType), PhysicalNetwork: p.PhysicalNetwork}
		if p.SegmentationID != nil {
			spec.Provider.SegmentationID = *p.SegmentationID
		}
	}
	if len(s.AvailabilityZoneHints) > 0 {
		spec.ZoneHints = set(s.AvailabilityZoneHints)
	}
}

// set sorts the texts and removes duplicates, as Neutron does for a set. The result is never nil.
func set(texts []string) []string {
	sorted := append([]string{}, texts...)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
