package specs

import (
	"fmt"
	"net/netip"
	"reflect"
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
			redraw(t, l, drawnNetworkFields(), &edited)
			keepFixed(networkFields(), spec, &edited)
		case 7:
			respell(t, l, &edited.SubnetSpec)
		case 8:
			edited = cloudteamv1.NetworkSpec{SubnetSpec: fixed(spec.SubnetSpec), Import: spec.Import.DeepCopy()}
			drawSome(t, l, drawnNetworkFields(), &edited)
			keepFixed(networkFields(), spec, &edited)
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

// NetworkMayBecome reports whether a Network with the one spec may be edited to the other, both of which Limits.Network
// or Limits.NetworkEdit have drawn. It is written from the fields' documentation.
func NetworkMayBecome(was, is cloudteamv1.NetworkSpec) bool {
	return mayBecome(networkFields(), was, is)
}

// NetworkPortMayBecome is NetworkMayBecome for a NetworkPort. What cannot change may be spelled in another way.
func NetworkPortMayBecome(was, is cloudteamv1.NetworkPortSpec) bool {
	return mayBecome(portFields(Place{}), was, is)
}

// sameImport reports whether two specs import the same network, or none.
func sameImport(was, is cloudteamv1.NetworkSpec) bool {
	if was.Import == nil || is.Import == nil {
		return was.Import == is.Import
	}
	return was.Import.ID == is.Import.ID && reflect.DeepEqual(was.Import.Filter, is.Import.Filter)
}

// samePrefixLength reports whether the prefix length of two specs' first subnets is the same.
func samePrefixLength(was, is cloudteamv1.NetworkSpec) bool {
	if was.PrefixLength == nil || is.PrefixLength == nil {
		return was.PrefixLength == is.PrefixLength
	}
	return *was.PrefixLength == *is.PrefixLength
}

// kindMayBecome reports it for a setting of a router: of one of the Network's own that stays, it can be taken out, and
// not change.
func kindMayBecome(was, is *cloudteamv1.RouterSpec, setting func(*cloudteamv1.RouterSpec) *bool) bool {
	if was == nil || is == nil || was.Existing != "" || is.Existing != "" || setting(is) == nil {
		return true
	}
	return setting(was) != nil && *setting(was) == *setting(is)
}

func isSNAT(r *cloudteamv1.RouterSpec) *bool { return r.SNAT }

func isHA(r *cloudteamv1.RouterSpec) *bool { return r.HA }

func isDistributed(r *cloudteamv1.RouterSpec) *bool { return r.Distributed }

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

// sameAddresses reports whether the addresses of two NetworkPorts are the same, in whatever order and spelling.
func sameAddresses(was, is cloudteamv1.NetworkPortSpec) bool {
	addresses := func(s cloudteamv1.NetworkPortSpec) (all []netip.Addr) {
		for _, text := range s.Addresses {
			all = append(all, netip.MustParseAddr(text))
		}
		slices.SortFunc(all, netip.Addr.Compare)
		return all
	}
	return slices.Equal(addresses(was), addresses(is))
}
