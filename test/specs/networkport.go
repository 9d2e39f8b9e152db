package specs

import (
	"fmt"
	"net/netip"
	"strings"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Place is where a NetworkPort is, and on what.
type Place struct {
	// Namespace is the NetworkPort's own.
	Namespace string
	// NetworkNamespace and NetworkName are the Network's.
	NetworkNamespace, NetworkName string
	// CIDR is the Network's, and the zero Prefix where Neutron chooses it: nobody can name an address of that. Where it is
	// not known yet, any will do.
	CIDR netip.Prefix
	// Number tells the NetworkPort from others on the Network, from 0 to Limits.Ports - 1. No two numbers name the same
	// address or MAC.
	Number int
}

// own reports whether the Network is of the port's own namespace. Some fields need that.
func (p Place) own() bool { return p.Namespace == p.NetworkNamespace }

// portFields is the table of a NetworkPortSpec's fields, in the order in which they are drawn.
func portFields(place Place) []field[cloudteamv1.NetworkPortSpec] {
	return []field[cloudteamv1.NetworkPortSpec]{
		{
			path: "networkName", with: "new",
			may: func(was, is cloudteamv1.NetworkPortSpec) bool { return was.NetworkName == is.NetworkName },
			// Neutron draws the addresses of all but the first, which would meet those that it asks for at times.
			lives: []Life{
				made("port", nameOf("routed")).as(readNetwork("routed")),
				made("open", nameOf("reachable")).as(readNetwork("reachable")),
				made("first", nameOf("reachable")).as(readNetwork("reachable")),
				made("second", nameOf("reachable")).as(readNetwork("reachable")),
			},
		},
		{
			path: "networkNamespace", with: "new",
			may: func(was, is cloudteamv1.NetworkPortSpec) bool {
				return was.NetworkNamespace == is.NetworkNamespace
			},
			lives: []Life{made("port", Late(func(o Tried) any { return o.Namespace() })).as(readNetwork("routed"))},
		},
		{
			path: "addresses", part: ofNetwork, may: sameAddresses,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) { drawAddresses(t, l, place, s) },
			lives: []Life{{
				Trial: "port", Create: []string{"10.65.0.50"}, Drift: fixedIPs("10.65.0.51"), Reads: readAddresses,
			}},
		},
		{
			path: "mac", part: ofNetwork,
			may: func(was, is cloudteamv1.NetworkPortSpec) bool { return strings.EqualFold(was.MAC, is.MAC) },
			draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkPortSpec) {
				s.MAC = ""
				if rapid.Bool().Draw(t, "with a mac") {
					s.MAC = spellMAC(t, MAC(place.Number, rapid.IntRange(0, 1).Draw(t, "mac")))
				}
			},
			lives: []Life{{Trial: "port", Create: "FA:16:3E:65:00:01", Drift: "fa:16:3e:65:00:02", Reads: readLower}},
		},
		{
			path: "securityGroups", part: ofNetwork, draw: drawSecurityGroups,
			lives: []Life{{
				Trial: "port", Create: groupsOf("admin"), Change: groupsOf("tenant"), Drift: []string{}, Empty: []string{},
				Emptied: []string{},
			}},
		},
		{
			path: "securityGroupRefs", part: ofNetwork, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) { s.SecurityGroupRefs = l.drawRefs(t) },
			lives: []Life{{
				Trial: "port", Never: "securityGroups is the same attribute: TestPortsInSecurityGroups has such ports",
			}},
		},
		{
			path: "allowedAddressPairs", part: ofNetwork,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) {
				if l.Spoofing && place.own() {
					drawAddressPairs(t, s)
				}
			},
		},
		{
			path: "allowedAddressPairs[].address", with: "allowedAddressPairs",
			lives: []Life{{
				Trial: "port", Create: "10.65.0.100", Change: "10.9.0.0/16", Drift: "10.65.0.101", Gone: []string{},
			}},
		},
		{
			path: "allowedAddressPairs[].mac", with: "allowedAddressPairs",
			lives: []Life{{
				Trial: "port", Create: "FA:16:3E:65:00:09", Change: "fa:16:3e:65:00:0a", Drift: "fa:16:3e:65:00:0b",
				Gone: []string{}, Reads: readLower,
			}},
		},
		{
			path: "portSecurity", with: "allowedAddressPairs",
			lives: []Life{{Trial: "open", Create: false, Change: true, Drift: false}},
		},
		{
			path: "qosPolicy", part: ofNetwork, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) {
				s.QoSPolicy = ""
				if place.own() {
					s.QoSPolicy = rapid.SampledFrom(append([]string{"", cloudteamv1.QoSPolicyNone}, l.QoSPolicies...)).
						Draw(t, "qosPolicy")
				}
			},
			lives: []Life{{
				Trial: "port", Create: qosPolicy("gold"), Change: qosPolicy("silver"), Drift: qosPolicy("gold"),
				Gone: isNil, Empty: "none",
			}},
		},
		{
			path: "dnsName", part: ofNetwork, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) {
				s.DNSName = ""
				if l.DNSNames && place.own() {
					s.DNSName = rapid.SampledFrom([]string{"", cloudteamv1.DNSNameNone, "web-0", "7"}).Draw(t, "dnsName")
				}
			},
			lives: []Life{{Trial: "port", Never: "a Neutron without a dns_domain in its configuration ignores the name"}},
		},
		{
			path: "floatingIP.externalNetwork", part: ofNetwork, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkPortSpec) {
				s.FloatingIP = nil
				if len(l.FloatingNetworks) > 0 && place.own() && rapid.Bool().Draw(t, "floatingIP") {
					s.FloatingIP = &cloudteamv1.PortFloatingIP{
						ExternalNetwork: rapid.SampledFrom(l.FloatingNetworks).Draw(t, "externalNetwork"),
					}
					if len(l.FloatingAddresses) > 0 && rapid.Bool().Draw(t, "chosen") {
						s.FloatingIP.Address = rapid.SampledFrom(l.FloatingAddresses).Draw(t, "address")
					}
				}
			},
			may: func(was, is cloudteamv1.NetworkPortSpec) bool {
				return was.FloatingIP == nil || is.FloatingIP == nil || is.FloatingIP.Address == "" ||
					was.FloatingIP.ExternalNetwork == is.FloatingIP.ExternalNetwork
			},
			lives: []Life{{Trial: "port", Never: "it needs a router: TestFloatingIPs has such ports"}},
		},
		{
			path: "floatingIP.address", with: "floatingIP.externalNetwork", ofCloud: true,
			may: func(was, is cloudteamv1.NetworkPortSpec) bool {
				return was.FloatingIP == nil || is.FloatingIP == nil || was.FloatingIP.Address == is.FloatingIP.Address
			},
			lives: []Life{{Trial: "port", Never: "it needs a router: TestAPortHasItsFloatingAddressOfChoice"}},
		},
		{path: "deletionPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkPortSpec) {
			drawDeletion(t, &s.DeletionPolicy)
		}},
		{path: "driftPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkPortSpec) {
			drawDrift(t, &s.DriftPolicy)
		}},
		{path: "ignoreDrift", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkPortSpec) {
			s.IgnoreDrift = drawIgnored(t, PortDriftFields...)
		}},
	}
}

// drawnPortFields are the fields that are drawn once it is known which Network the NetworkPort is on.
func drawnPortFields(place Place) []field[cloudteamv1.NetworkPortSpec] {
	return drawnIn(portFields(place), ofNetwork, ofPolicy)
}

// NetworkPort draws specs that the API server accepts. Now and then the Network's controller cannot accept an address:
// it is the gateway's, or outside the cidr.
func (l Limits) NetworkPort(place Place) *rapid.Generator[cloudteamv1.NetworkPortSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkPortSpec {
		spec := cloudteamv1.NetworkPortSpec{NetworkName: place.NetworkName}
		if place.NetworkNamespace != place.Namespace || rapid.Bool().Draw(t, "name its own namespace") {
			spec.NetworkNamespace = place.NetworkNamespace
		}
		drawSome(t, l, drawnPortFields(place), &spec)
		return spec
	})
}

// NetworkPortEdit draws what a spec may become. Most fields cannot change, so that the API server refuses many of them.
func (l Limits) NetworkPortEdit(
	place Place, spec cloudteamv1.NetworkPortSpec,
) *rapid.Generator[cloudteamv1.NetworkPortSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkPortSpec {
		edited := *spec.DeepCopy()
		switch rapid.IntRange(0, 7).Draw(t, "edit") {
		default:
			drawSecurityGroups(t, l, &edited)
		case 5:
			redraw(t, l, drawnPortFields(place), &edited)
		case 6:
			for i, text := range edited.Addresses {
				edited.Addresses[i] = spell(t, netip.MustParseAddr(text))
			}
			if edited.MAC != "" {
				edited.MAC = spellMAC(t, edited.MAC)
			}
			edited.Addresses = reversed(edited.Addresses)
		case 7:
			edited = l.NetworkPort(place).Draw(t, "another")
		}
		return edited
	})
}

func reversed(list []string) []string {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// MAC is one of those that a NetworkPort of a number may name.
func MAC(number, which int) string { return fmt.Sprintf("fa:16:3e:00:%02x:a%x", number, which) }

func spellMAC(t *rapid.T, mac string) string {
	return rapid.SampledFrom([]string{mac, strings.ToUpper(mac)}).Draw(t, "spelling")
}

// Named is one of the addresses that only the NetworkPort of a number names, from 0 to 3.
func (l Limits) Named(place Place, which int) netip.Addr {
	last := -1
	if place.CIDR.Addr().Is4() {
		last = -2
	}
	return Address(place.CIDR, last-place.Number-max(1, l.Ports)*which)
}

func drawAddresses(t *rapid.T, l Limits, place Place, spec *cloudteamv1.NetworkPortSpec) {
	spec.Addresses = nil
	which := rapid.IntRange(0, namesPerPort-2) // the last is for those who change a port by hand
	drawn := rapid.SliceOfNDistinct(which, 0, 2, rapid.ID).Draw(t, "addresses")
	if !place.CIDR.IsValid() {
		drawn = nil
	}
	for _, n := range drawn {
		spec.Addresses = append(spec.Addresses, spell(t, l.Named(place, n)))
	}
	if oneIn(t, 12, "outside") {
		spec.Addresses = []string{"198.51.100.1"}
	}
}

// drawAddressPairs draws the address pairs and the port security, of which the one needs the other. The security
// groups need port security, too.
func drawAddressPairs(t *rapid.T, s *cloudteamv1.NetworkPortSpec) {
	s.AllowedAddressPairs, s.PortSecurity = nil, nil
	pair := rapid.SampledFrom([]cloudteamv1.AddressPair{
		{Address: "192.168.77.7"}, {Address: "10.9.0.0/16", MAC: "FA:16:3E:77:00:01"}, {Address: "FD77::/64"},
	})
	if rapid.Bool().Draw(t, "pairs") {
		s.AllowedAddressPairs = append([]cloudteamv1.AddressPair{},
			rapid.SliceOfNDistinct(pair, 0, 2, rapid.ID).Draw(t, "allowedAddressPairs")...)
	}
	if len(s.AllowedAddressPairs) > 0 || len(s.SecurityGroups) > 0 || len(s.SecurityGroupRefs) > 0 {
		s.PortSecurity = rapid.SampledFrom([]*bool{nil, new(true)}).Draw(t, "portSecurity")
	} else {
		s.PortSecurity = rapid.Ptr(rapid.Bool(), true).Draw(t, "portSecurity")
	}
}

// drawRefs draws names of SecurityGroups: unset, an empty list, and some.
func (l Limits) drawRefs(t *rapid.T) []string {
	if len(l.SecurityGroupRefs) == 0 || rapid.Bool().Draw(t, "no references") {
		return nil
	}
	names := rapid.SampledFrom(l.SecurityGroupRefs)
	return append([]string{}, rapid.SliceOfNDistinct(names, 0, len(l.SecurityGroupRefs), rapid.ID).Draw(t, "refs")...)
}

func drawSecurityGroups(t *rapid.T, l Limits, spec *cloudteamv1.NetworkPortSpec) {
	spec.SecurityGroups = nil
	if len(l.SecurityGroups) > 0 {
		groups := rapid.SampledFrom(l.SecurityGroups)
		spec.SecurityGroups = rapid.SliceOfNDistinct(groups, 0, len(l.SecurityGroups), rapid.ID).Draw(t, "groups")
	} else {
		_ = rapid.Bool().Draw(t, "no groups")
	}
}
