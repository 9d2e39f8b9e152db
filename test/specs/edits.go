package specs

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// NetworkEdit draws what a spec may become. As a rule the API server accepts it; NetworkMayBecome tells.
func (l Limits) NetworkEdit(spec cloudteamv1.NetworkSpec) *rapid.Generator[cloudteamv1.NetworkSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkSpec {
		edited := *spec.DeepCopy()
		switch rapid.IntRange(0, 9).Draw(t, "edit") {
		default:
			redraw(t, l, networkFields, &edited)
			keepFixed(spec, &edited)
		case 7:
			respell(t, l, &edited.SubnetSpec)
		case 8:
			edited = cloudteamv1.NetworkSpec{SubnetSpec: fixed(spec.SubnetSpec), Import: spec.Import.DeepCopy()}
			drawSome(t, l, networkFields, &edited)
			keepFixed(spec, &edited)
		case 9:
			edited = l.Network().Draw(t, "another")
		}
		fitRouter(l, &edited)
		return edited
	})
}

// respell writes the cidr in another spelling. A pool by another name, be it the same one, the API server refuses.
func respell(t *rapid.T, l Limits, s *cloudteamv1.SubnetSpec) {
	if pool, from := l.SubnetPool(s.SubnetPool); from {
		s.SubnetPool = rapid.SampledFrom(pool.Names).Draw(t, "subnetPool")
		return
	}
	cidr := CIDR(*s)
	s.CIDR = fmt.Sprintf("%s/%d", spell(t, cidr.Addr()), cidr.Bits())
}

// fixed is what cannot change of a subnet.
func fixed(s cloudteamv1.SubnetSpec) cloudteamv1.SubnetSpec {
	return *(&cloudteamv1.SubnetSpec{
		CIDR: s.CIDR, SubnetPool: s.SubnetPool, PrefixLength: s.PrefixLength,
		IPv6AddressMode: s.IPv6AddressMode, IPv6RAMode: s.IPv6RAMode,
	}).DeepCopy()
}

// keepFixed puts back what of an edit the API server would refuse: what came to fields that cannot be added later, or
// changed. What cannot change of the first subnet, and the import's id, are as they were.
func keepFixed(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
	if !providerMayBecome(was.Provider, is.Provider) {
		is.Provider = was.Provider.DeepCopy()
	}
	if !zonesMayBecome(was.AvailabilityZoneHints, is.AvailabilityZoneHints) {
		is.AvailabilityZoneHints = slices.Clone(was.AvailabilityZoneHints)
	}
	if !routerMayBecome(was.Router, is.Router) {
		kept := was.Router.DeepCopy()
		is.Router.HA, is.Router.Distributed = kept.HA, kept.Distributed
	}
	if !managementMayBecome(was, *is) {
		is.ManagementPolicy = was.ManagementPolicy
	}
}

// NetworkMayBecome reports whether a Network with the one spec may be edited to the other, both of which Limits.Network
// or Limits.NetworkEdit have drawn. It is written from the fields' documentation.
func NetworkMayBecome(was, is cloudteamv1.NetworkSpec) bool {
	sameImport := was.Import == nil && is.Import == nil ||
		was.Import != nil && is.Import != nil && was.Import.ID == is.Import.ID
	return subnetMayBecome(was.SubnetSpec, is.SubnetSpec) && routerMayBecome(was.Router, is.Router) &&
		sameImport && managementMayBecome(was, is) && providerMayBecome(was.Provider, is.Provider) &&
		zonesMayBecome(was.AvailabilityZoneHints, is.AvailabilityZoneHints)
}

// subnetMayBecome is NetworkMayBecome for the first subnet. What others cannot change is the same each time.
func subnetMayBecome(was, is cloudteamv1.SubnetSpec) bool {
	length := func(s cloudteamv1.SubnetSpec) int32 {
		if s.PrefixLength == nil {
			return 0
		}
		return *s.PrefixLength
	}
	return CIDR(was) == CIDR(is) && was.SubnetPool == is.SubnetPool && length(was) == length(is) &&
		was.IPv6AddressMode == is.IPv6AddressMode && was.IPv6RAMode == is.IPv6RAMode
}

// routerMayBecome is NetworkMayBecome for the router: of one of the Network's own that stays, ha and distributed can be
// taken out, and not change.
func routerMayBecome(was, is *cloudteamv1.RouterSpec) bool {
	if was == nil || is == nil || was.Existing != "" || is.Existing != "" {
		return true
	}
	same := func(was, is *bool) bool { return is == nil || was != nil && *is == *was }
	return same(was.HA, is.HA) && same(was.Distributed, is.Distributed)
}

func managementMayBecome(was, is cloudteamv1.NetworkSpec) bool {
	const observe = cloudteamv1.ManagementPolicyObserve
	return is.ManagementPolicy != observe || was.ManagementPolicy == observe
}

func providerMayBecome(was, is *cloudteamv1.ProviderSpec) bool {
	if was == nil || is == nil {
		return is == nil
	}
	sameID := is.SegmentationID == nil || was.SegmentationID != nil && *is.SegmentationID == *was.SegmentationID
	return was.NetworkType == is.NetworkType &&
		(is.PhysicalNetwork == "" || is.PhysicalNetwork == was.PhysicalNetwork) &&
		(is.NetworkType == "vlan" || sameID)
}

func zonesMayBecome(was, is []string) bool {
	return len(is) == 0 || slices.Equal(slices.Sorted(slices.Values(was)), slices.Sorted(slices.Values(is)))
}
