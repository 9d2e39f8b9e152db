package specs

import (
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// drawProvider draws what of its making a new network may say. A flat network is a physical network as a whole, and so
// the only one, and none that is imported can be made otherwise than it is.
func drawProvider(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	s.Provider = privileged(t, l, rapid.Custom(func(t *rapid.T) *cloudteamv1.ProviderSpec {
		switch rapid.IntRange(0, 3).Draw(t, "provider") {
		case 1:
			return &cloudteamv1.ProviderSpec{NetworkType: "vxlan", SegmentationID: drawID(t, l.VNIs)}
		case 2:
			return &cloudteamv1.ProviderSpec{NetworkType: "vlan"}
		case 3:
			if l.PhysicalNetwork == "" {
				break
			}
			return &cloudteamv1.ProviderSpec{
				NetworkType: "vlan", PhysicalNetwork: l.PhysicalNetwork, SegmentationID: drawID(t, l.VLANs),
			}
		}
		return nil
	}), "provider")
	if s.Import != nil {
		s.Provider = nil
	}
}

// drawID draws one of the segmentation ids, or none.
func drawID(t *rapid.T, ids []int64) *int64 {
	if !rapid.Bool().Draw(t, "with a segmentation id") || len(ids) == 0 {
		return nil
	}
	return new(rapid.SampledFrom(ids).Draw(t, "segmentation id"))
}

// drawZones draws the zones that a new network asks for; one that is imported asks for none.
func drawZones(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	zones := l.Zones
	if oneIn(t, rarely, "zones that are not there") {
		zones = l.NoZones
	}
	s.AvailabilityZoneHints = nil
	if len(zones) == 0 {
		return
	}
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Clone(zones)), 0, len(zones), rapid.ID).Draw(t, "zones")
	if s.Import == nil {
		s.AvailabilityZoneHints = orNil(drawn)
	}
}
