package specs

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func drawRouter(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	s.Router = nil
	which := rapid.SampledFrom([]string{"none", "existing", "own"}).Draw(t, "router")
	switch {
	case s.ManagementPolicy == cloudteamv1.ManagementPolicyObserve:
	case which == "existing" && len(l.Routers) > 0:
		s.Router = &cloudteamv1.RouterSpec{Existing: rapid.SampledFrom(l.Routers).Draw(t, "existing")}
	case which == "own":
		s.Router = &cloudteamv1.RouterSpec{}
		drawSome(t, l, drawnIn(networkFields(), ofOwnRouter), s)
	}
}

func drawExternalNetwork(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	to := l.outside(s)
	leads := rapid.Bool().Draw(t, "leads outside")
	if !leads || len(to) == 0 {
		s.Router.ExternalNetwork, s.Router.SNAT, s.Router.ExternalIP = "", nil, ""
		return
	}
	chosen := rapid.SampledFrom(to).Draw(t, "external network")
	s.Router.ExternalNetwork = rapid.SampledFrom(chosen.Names).Draw(t, "called")
	if s.Router.ExternalIP != "" && !chosen.CIDR.Contains(netip.MustParseAddr(s.Router.ExternalIP)) {
		s.Router.ExternalIP = ""
	}
}

func drawExternalIP(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	to, leads := l.leadsTo(s.Router)
	if !leads || len(to.Addresses) == 0 {
		return
	}
	s.Router.ExternalIP = ""
	chosen := privileged(t, l, rapid.Ptr(rapid.SampledFrom(to.Addresses), true), "externalIP")
	if chosen != nil {
		s.Router.ExternalIP = chosen.String()
	}
}

func drawRoutes(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
	s.Router.Routes = nil
	hops := l.nextHops(s)
	if len(hops) == 0 {
		return
	}
	routes := rapid.Custom(func(t *rapid.T) cloudteamv1.RouterRoute {
		hop := rapid.SampledFrom(hops).Draw(t, "next hop")
		to := netip.MustParsePrefix(rapid.SampledFrom([]string{"198.51.100.0/24", "192.0.2.1/32"}).Draw(t, "to"))
		if hop.Is6() {
			to = netip.MustParsePrefix("2001:db8:1::/48")
		}
		return cloudteamv1.RouterRoute{
			Destination: fmt.Sprintf("%s/%d", spell(t, to.Addr()), to.Bits()), NextHop: spell(t, hop),
		}
	})
	same := func(r cloudteamv1.RouterRoute) string {
		return fmt.Sprint(netip.MustParsePrefix(r.Destination), netip.MustParseAddr(r.NextHop))
	}
	s.Router.Routes = orNil(rapid.SliceOfNDistinct(routes, 0, 2, same).Draw(t, "routes"))
}

// outside are the external networks that a router of the spec's can lead to.
func (l Limits) outside(s *cloudteamv1.NetworkSpec) []ExternalNetwork {
	return slices.DeleteFunc(slices.Clone(l.ExternalNetworks), func(e ExternalNetwork) bool {
		return slices.ContainsFunc(s.Subnets(), func(subnet cloudteamv1.SubnetSpec) bool {
			return CIDR(subnet).Overlaps(e.CIDR)
		})
	})
}

// leadsTo is the external network that a router connects to; leads is false where there is none, or none of these.
func (l Limits) leadsTo(r *cloudteamv1.RouterSpec) (to ExternalNetwork, leads bool) {
	for _, e := range l.ExternalNetworks {
		if slices.Contains(e.Names, r.ExternalNetwork) {
			return e, true
		}
	}
	return ExternalNetwork{}, false
}

// nextHops are addresses to which the spec's own router can send, one in each subnet that it is on and whose cidr is
// known. None of them is its own.
func (l Limits) nextHops(s *cloudteamv1.NetworkSpec) (hops []netip.Addr) {
	for _, subnet := range s.Subnets() {
		cidr := CIDR(subnet)
		if subnet.Gateway == cloudteamv1.GatewayNone || !servesRouters(subnet) || !cidr.IsValid() {
			continue
		}
		gateway := Address(cidr, 1)
		if subnet.Gateway != "" {
			gateway = netip.MustParseAddr(subnet.Gateway)
		}
		hop := Address(cidr, 2)
		if hop == gateway {
			hop = Address(cidr, 1)
		}
		hops = append(hops, hop)
	}
	if to, leads := l.leadsTo(s.Router); leads {
		hops = append(hops, to.NextHop)
	}
	return hops
}

// fitRouter takes out the gateways that no router can have, and then the routes that the spec's own router cannot have
// any more, after subnets, gateways or the way outside have changed.
func fitRouter(l Limits, s *cloudteamv1.NetworkSpec) {
	if s.Router == nil {
		return
	}
	leaveToOthers(&s.SubnetSpec)
	for i := range s.AdditionalSubnets {
		leaveToOthers(&s.AdditionalSubnets[i])
	}
	hops := l.nextHops(s)
	s.Router.Routes = orNil(slices.DeleteFunc(s.Router.Routes, func(r cloudteamv1.RouterRoute) bool {
		return !slices.Contains(hops, netip.MustParseAddr(r.NextHop))
	}))
}
