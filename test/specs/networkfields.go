package specs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// drawnNetworkFields are the fields that are drawn, in this order, once it is known what does not change.
func drawnNetworkFields() []field[cloudteamv1.NetworkSpec] {
	fields := drawnIn(networkFields(), ofSubnet, ofNetwork, ofAdministrator, ofPolicy, ofRouter)
	return append(fields, field[cloudteamv1.NetworkSpec]{
		path: "router's own settings", draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
			if s.Router != nil && s.Router.Existing == "" {
				redraw(t, l, drawnIn(networkFields(), ofOwnRouter), s)
			}
		},
	})
}

// networkFields is the table of a NetworkSpec's fields, in the order in which they are drawn. Those of the first subnet
// serve for the other subnets, too.
func networkFields() []field[cloudteamv1.NetworkSpec] {
	return []field[cloudteamv1.NetworkSpec]{
		// What cannot change.
		{
			path: "cidr", with: "new",
			may: func(was, is cloudteamv1.NetworkSpec) bool { return CIDR(was.SubnetSpec) == CIDR(is.SubnetSpec) },
			lives: []Life{
				made("plain", "10.61.0.0/24").as(readCIDR), made("ipv6", "FD00:0:63::/64").as(readCIDR),
				made("provided", "10.64.0.0/24").as(readCIDR), made("routed", "10.65.0.0/24").as(readCIDR),
				made("reachable", "10.67.0.0/24").as(readCIDR),
			},
		},
		{
			path: "subnetPool", with: "new", ofCloud: true,
			may: func(was, is cloudteamv1.NetworkSpec) bool { return was.SubnetPool == is.SubnetPool },
			lives: []Life{made("pooled", Late(func(o Tried) any {
				_, name := o.SubnetPool()
				return name
			})).as(readPool)},
		},
		{
			path: "prefixLength", with: "new", ofCloud: true, may: samePrefixLength,
			lives: []Life{{Trial: "pooled", Create: 26, Never: fixedWhenMade, Sees: func(o Tried) any {
				return netip.MustParsePrefix(o.CIDR()).Bits()
			}}},
		},
		{
			path: "ipv6AddressMode", with: "new",
			may:   func(was, is cloudteamv1.NetworkSpec) bool { return was.IPv6AddressMode == is.IPv6AddressMode },
			lives: []Life{made("ipv6", "slaac")},
		},
		{
			path: "ipv6RAMode", with: "new",
			may:   func(was, is cloudteamv1.NetworkSpec) bool { return was.IPv6RAMode == is.IPv6RAMode },
			lives: []Life{made("ipv6", "slaac")},
		},
		{
			path: "import.id", with: "new", ofCloud: true, may: sameImport,
			lives: []Life{{Trial: "plain", Never: "lifeOfANetwork takes a network over that was made by hand"}},
		},
		{
			path: "import.filter.name", with: "new", ofCloud: true, may: sameImport,
			lives: []Life{{Trial: "plain", Never: "TestImportsByFilter finds one that was made by hand"}},
		},
		{
			path: "import.filter.tags", with: "new", ofCloud: true, may: sameImport,
			lives: []Life{{Trial: "plain", Never: "TestImportsByFilter finds one that was made by hand"}},
		},

		// Settings of a subnet.
		{
			path: "gateway", part: ofSubnet, draw: drawGatewayAndPools,
			lives: []Life{{
				Trial: "plain", Create: "10.61.0.254", Change: "none", Drift: "10.61.0.253", Gone: "10.61.0.1",
				Reads: readGateway,
			}},
		},
		{
			path: "allocationPools[].start", with: "gateway",
			lives: []Life{{
				Trial: "plain", Create: "10.61.0.10", Change: "10.61.0.20", Drift: "10.61.0.30", Gone: "10.61.0.2",
			}},
		},
		{
			path: "allocationPools[].end", with: "gateway",
			lives: []Life{{
				Trial: "plain", Create: "10.61.0.99", Change: "10.61.0.89", Drift: "10.61.0.79", Gone: "10.61.0.254",
			}},
		},
		{
			path: "dhcp", part: ofSubnet, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.DHCP = rapid.Ptr(rapid.Bool(), true).Draw(t, "dhcp")
				if s.DHCP != nil && (s.IPv6AddressMode != "" || s.IPv6RAMode != "") {
					*s.DHCP = true
				}
			},
			lives: []Life{{Trial: "plain", Create: true, Change: false, Drift: true, Gone: true}},
		},
		{
			path: "dnsServers", part: ofSubnet, draw: drawDNSServers,
			lives: []Life{{
				Trial: "plain", Create: []string{"10.61.0.3", "10.61.0.2"}, Change: []string{"10.61.0.2"},
				Drift: []string{"10.61.0.2", "10.61.0.3"}, Gone: []string{}, Empty: []string{},
			}},
		},
		{path: "hostRoutes", part: ofSubnet, draw: drawHostRoutes},
		{
			path: "hostRoutes[].destination", with: "hostRoutes",
			lives: []Life{{
				Trial: "plain", Create: "10.9.0.0/16", Change: "10.10.0.0/16", Drift: "10.11.0.0/16", Gone: []string{},
			}},
		},
		{
			path: "hostRoutes[].nextHop", with: "hostRoutes",
			lives: []Life{{
				Trial: "plain", Create: "10.61.0.7", Change: "10.61.0.8", Drift: "10.61.0.9", Gone: []string{},
			}},
		},
		{
			path: "serviceTypes", part: ofSubnet, draw: drawServiceTypes,
			lives: []Life{{
				Trial: "plain", Create: []string{"compute:nova"}, Change: []string{"network:dhcp"},
				Drift: []string{"compute:others"}, Gone: []string{}, Empty: []string{},
			}},
		},
		{path: "reservedFor", part: ofSubnet, draw: drawReservedFor},
		{path: "reservedFor[].namespace", with: "reservedFor"},
		{path: "reservedFor[].kind", with: "reservedFor"},
		{path: "reservedFor[].name", with: "reservedFor"},
		{
			path: "dnsPublishFixedIP", part: ofSubnet, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.DNSPublishFixedIP = rapid.Ptr(rapid.Bool(), true).Draw(t, "dnsPublishFixedIP")
			},
			lives: []Life{{Trial: "plain", Create: false, Change: true, Drift: false, Gone: false}},
		},

		// Settings of the network itself, for anybody to set.
		{
			path: "additionalSubnets", part: ofNetwork, draw: drawAdditionalSubnets,
			lives: []Life{{
				Trial: "plain", Create: subnetsOf("fd00:61::/64"), Change: subnetsOf("fd00:61::/64", "fd00:62::/64"),
				Reads: readCIDRs, Sees: seeIPv6Subnets, Drifts: func(o Tried) { o.RemoveSubnet("fd00:62::/64") },
				Told: "Created subnet fd00:62::/64", Gone: []string{}, Empty: subnetsOf(),
			}},
		},
		{
			path: "description", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.Description = texts().Draw(t, "description")
			},
			lives: []Life{{
				Trial: "plain", Create: "with Ünïcödé", Change: "another", Drift: withMarker("others'"),
				Reads: readDescription, Gone: Late(func(o Tried) any { return o.Marker() }),
			}},
		},
		{
			path: "mtu", part: ofNetwork, draw: drawMTU,
			open: &Open{Attribute: "mtu", Declared: func(s cloudteamv1.NetworkSpec) (any, bool) {
				if s.MTU == nil {
					return nil, false
				}
				return float64(*s.MTU), true
			}},
			lives: []Life{{Trial: "plain", Create: 1400, Change: 1300, Drift: 1350}},
		},
		{
			path: "portSecurity", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.PortSecurity = rapid.Ptr(rapid.Bool(), true).Draw(t, "portSecurity")
			},
			open: &Open{
				Attribute: "port_security_enabled", Initially: []any{true},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) { return declared(s.PortSecurity) },
			},
			lives: []Life{{Trial: "plain", Create: false, Change: true, Drift: false}},
		},
		{
			path: "networkName", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.NetworkName = rapid.SampledFrom([]string{"", "a", "Neutron's own name", strings.Repeat("数", 255)}).
					Draw(t, "networkName")
			},
			lives: []Life{{
				Trial: "plain", Create: "created in Neutron", Change: "changed in Neutron", Drift: "others' name",
				Told: " name ", Gone: Late(func(o Tried) any { return o.Called() }),
			}},
		},
		{
			path: "adminState", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.AdminState = rapid.SampledFrom([]cloudteamv1.AdminState{
					"", cloudteamv1.AdminStateUp, cloudteamv1.AdminStateDown,
				}).Draw(t, "adminState")
			},
			lives: []Life{{Trial: "plain", Create: "Up", Change: "Down", Drift: true, Reads: readAdminState, Gone: true}},
		},
		{
			path: "dnsDomain", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.DNSDomain = rapid.SampledFrom([]string{
					"", cloudteamv1.DNSDomainNone, "example.org.", "Example.ORG.", "a-1.b.",
				}).Draw(t, "dnsDomain")
			},
			open: &Open{
				Attribute: "dns_domain", TakenBack: true, Initially: []any{""},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) {
					return declaredText(strings.ToLower(s.DNSDomain), cloudteamv1.DNSDomainNone, "")
				},
			},
			lives: []Life{{
				Trial: "plain", Create: "Created.example.", Change: "Changed.example.", Drift: "others.example.",
				Reads: readLower, Gone: "", Empty: "none",
			}},
		},
		{
			path: "tags", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.Tags = nil
				if rapid.Bool().Draw(t, "tagged") {
					tags := rapid.SampledFrom([]string{"a", "A,b", "a/b", " ", "数", strings.Repeat("é", 255)})
					s.Tags = rapid.SliceOfNDistinct(tags, 0, 3, rapid.ID).Draw(t, "tags")
				}
			},
			open: &Open{
				Attribute: "tags", TakenBack: true, Initially: []any{[]string{}},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) { return declaredSet(s.Tags) },
			},
			lives: []Life{{
				Trial: "plain", Create: []string{"b", "a,c"}, Change: []string{"c"}, Reads: readSorted,
				Drifts: func(o Tried) { o.Tag("others'") }, Gone: []string{}, Empty: []string{},
			}},
		},
		{
			path: "qosPolicy", part: ofNetwork, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				s.QoSPolicy = rapid.SampledFrom(append([]string{"", cloudteamv1.QoSPolicyNone}, l.QoSPolicies...)).
					Draw(t, "qosPolicy")
			},
			open: &Open{
				Attribute: "qos_policy_id", TakenBack: true, Initially: []any{nil},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) {
					return declaredText(s.QoSPolicy, cloudteamv1.QoSPolicyNone, nil)
				},
			},
			lives: []Life{{
				Trial: "plain", Create: qosPolicy("gold"), Change: qosPolicy("silver"), Drift: qosPolicy("gold"),
				Gone: isNil, Empty: "none",
			}},
		},
		{
			path: "sharedWith", part: ofNetwork, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				s.SharedWith = nil
				if rapid.Bool().Draw(t, "shared with some") {
					projects := rapid.SampledFrom(Projects)
					s.SharedWith = rapid.SliceOfNDistinct(projects, 0, 3, rapid.ID).Draw(t, "sharedWith")
				}
			},
			open: &Open{
				Attribute: "shared_with", TakenBack: true,
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) { return declaredSet(s.SharedWith) },
			},
			lives: []Life{{
				Trial: "plain", Create: Projects[:1], Change: Projects[1:3], Reads: readSorted,
				Gone: isNil, Empty: []string{}, Sees: func(o Tried) any { return o.Shares() },
				Drifts: func(o Tried) { o.Unshare(Projects[1]) }, Told: fmt.Sprintf("Shared network with project %q", Projects[1]),
			}},
		},
		{
			path: "availabilityZoneHints", part: ofNetwork, draw: drawZones, ofCloud: true,
			may: func(was, is cloudteamv1.NetworkSpec) bool {
				return zonesMayBecome(was.AvailabilityZoneHints, is.AvailabilityZoneHints)
			},
			keep: func(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
				is.AvailabilityZoneHints = slices.Clone(was.AvailabilityZoneHints)
			},
			lives: []Life{made("plain", []string{"west", "east"}).as(readSorted)},
		},

		// What takes an administrator's credentials.
		{
			path: "shared", part: ofAdministrator, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				s.Shared = privileged(t, l, rapid.Ptr(rapid.Bool(), true), "shared")
			},
			open: &Open{
				Attribute: "shared", TakenBack: true, Initially: []any{false},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) { return declared(s.Shared) },
			},
			lives: []Life{{Trial: "provided", Create: false, Change: true, Drift: false, Gone: false, Empty: false}},
		},
		{
			path: "external", part: ofAdministrator, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				s.External = privileged(t, l, rapid.Ptr(rapid.Bool(), true), "external")
			},
			open: &Open{
				Attribute: "router:external", TakenBack: true, Initially: []any{false},
				Declared: func(s cloudteamv1.NetworkSpec) (any, bool) { return declared(s.External) },
			},
			lives: []Life{{Trial: "provided", Create: false, Change: true, Drift: false, Gone: false, Empty: false}},
		},
		{
			path: "provider", part: ofAdministrator, draw: drawProvider,
			may: func(was, is cloudteamv1.NetworkSpec) bool { return providerMayBecome(was.Provider, is.Provider) },
			keep: func(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
				is.Provider = was.Provider.DeepCopy()
			},
		},
		{path: "provider.networkType", with: "provider", lives: []Life{made("provided", "vlan")}},
		{
			path: "provider.physicalNetwork", with: "provider", ofCloud: true,
			lives: []Life{made("provided", "physnet1")},
		},
		{
			path: "provider.segmentationID", with: "provider", ofCloud: true,
			lives: []Life{{Trial: "provided", Create: vlan(0), Change: vlan(1), Drift: vlan(2)}},
		},

		// What no field in Neutron represents.
		{path: "deletionPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
			drawDeletion(t, &s.DeletionPolicy)
		}},
		{path: "allowedNamespaces", part: ofPolicy, draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
			names := rapid.SampledFrom(append([]string{"*"}, l.Namespaces...))
			s.AllowedNamespaces = orNil(rapid.SliceOfNDistinct(names, 0, 1+len(l.Namespaces), rapid.ID).Draw(t, "allowed"))
		}},
		{
			path: "securityGroupRefs", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) { s.SecurityGroupRefs = l.drawRefs(t) },
		},
		{path: "driftPolicy", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
			drawDrift(t, &s.DriftPolicy)
		}},
		{path: "ignoreDrift", part: ofPolicy, draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
			s.IgnoreDrift = drawIgnored(t, NetworkDriftFields...)
		}},
		{
			path: "import.overwrite", part: ofPolicy, ofCloud: true,
			draw: func(t *rapid.T, _ Limits, s *cloudteamv1.NetworkSpec) {
				overwrite := rapid.Bool().Draw(t, "overwrite")
				if s.Import != nil {
					s.Import = &cloudteamv1.NetworkImport{ID: s.Import.ID, Filter: s.Import.Filter, Overwrite: overwrite}
				}
			},
		},
		{
			path: "managementPolicy", part: ofPolicy, draw: drawManagement, may: managementMayBecome,
			keep: func(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
				is.ManagementPolicy = was.ManagementPolicy
			},
		},
		{path: "cloud", part: ofPolicy, draw: drawCloud, ofCloud: true},
		{path: "cloud.secretName", with: "cloud", ofCloud: true},
		{path: "cloud.name", with: "cloud", ofCloud: true},
		{path: "className", part: ofPolicy, draw: drawClass, ofCloud: true},

		// The router.
		{path: "router", part: ofRouter, draw: drawRouter},
		{path: "router.existing", with: "router", ofCloud: true},
		{
			path: "router.externalNetwork", part: ofOwnRouter, draw: drawExternalNetwork, ofCloud: true,
			lives: []Life{{
				Trial: "routed", Create: outsideName("203.0.113.0/24"), Change: outsideID("198.51.100.0/24"),
				Drift: outsideID("203.0.113.0/24"), Reads: readOutside,
				Needs: "snat and externalIP go with it: lifeOfARouter takes it away",
			}, {
				Trial: "reachable", Create: outsideName(beyond), Change: outsideID(beyond), Never: fixedByFloat,
				Reads: readOutside, Needs: fixedByFloat,
			}},
		},
		{
			path: "router.snat", part: ofOwnRouter, ofCloud: true,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				snat := privileged(t, l, rapid.Ptr(rapid.Bool(), true), "snat")
				if s.Router.ExternalNetwork != "" {
					s.Router.SNAT = snat
				}
			},
			open: &Open{
				Attribute: "enable_snat", OfRouter: true, Initially: []any{true}, Declared: ofRouterSpec(isSNAT),
			},
			lives: []Life{{Trial: "routed", Create: true, Change: false, Drift: true}},
		},
		{
			path: "router.externalIP", part: ofOwnRouter, draw: drawExternalIP, ofCloud: true,
			lives: []Life{{
				Trial: "routed", Create: "203.0.113.20", Change: "198.51.100.20", Drift: "203.0.113.30",
				Attribute: "router.external_gateway_info.external_fixed_ips[].ip_address",
			}},
		},
		{
			path: "router.ha", part: ofOwnRouter,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				s.Router.HA = privileged(t, l, rapid.Ptr(rapid.Bool(), true), "ha")
			},
			may: func(was, is cloudteamv1.NetworkSpec) bool { return kindMayBecome(was.Router, is.Router, isHA) },
			keep: func(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
				is.Router.HA = was.DeepCopy().Router.HA
			},
			open: &Open{
				Attribute: "ha", OfRouter: true, Initially: []any{false}, Declared: ofRouterSpec(isHA),
			},
			lives: []Life{{Trial: "routed", Create: false, Never: fixedWhileOn}},
		},
		{
			path: "router.distributed", part: ofOwnRouter,
			draw: func(t *rapid.T, l Limits, s *cloudteamv1.NetworkSpec) {
				s.Router.Distributed = privileged(t, l, rapid.Ptr(rapid.Bool(), true), "distributed")
			},
			may: func(was, is cloudteamv1.NetworkSpec) bool {
				return kindMayBecome(was.Router, is.Router, isDistributed)
			},
			keep: func(was cloudteamv1.NetworkSpec, is *cloudteamv1.NetworkSpec) {
				is.Router.Distributed = was.DeepCopy().Router.Distributed
			},
			open: &Open{
				Attribute: "distributed", OfRouter: true, Initially: []any{false}, Declared: ofRouterSpec(isDistributed),
			},
			lives: []Life{{Trial: "routed", Create: false, Never: fixedWhileOn}},
		},
		{path: "router.routes", part: ofOwnRouter, draw: drawRoutes},
		{
			path: "router.routes[].destination", with: "router.routes",
			lives: []Life{{
				Trial: "routed", Create: "198.18.0.0/24", Change: "198.18.1.0/24", Drift: "198.18.2.0/24", Gone: []string{},
			}},
		},
		{
			path: "router.routes[].nextHop", with: "router.routes",
			lives: []Life{{
				Trial: "routed", Create: "10.65.0.9", Change: "10.65.0.8", Drift: "10.65.0.7", Gone: []string{},
			}},
		},
	}
}
