package inventory

import (
	"encoding/json"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// A kind that the Inventory forgets is in none of its lists, and nothing takes the steps of its plans.
func TestEachKindHasAStock(t *testing.T) {
	i, owner := New(client.NewCloud(client.Credentials{}, client.Options{}), cluster, Options{}), ownerOf("o")
	each := plantest.OneOfEach(owner)
	for _, r := range each.Resources() {
		if !slices.ContainsFunc(i.stocks, func(s stocked) bool { return s.lists().kind == r.Kind }) {
			t.Errorf("no stock holds the kind %q: make one in New, and add it to stocks there", r.Kind)
		}
	}
	removed, err := plan.Delete(owner, each)
	expect.NoError(t, err)
	for _, step := range slices.Concat(removed, plan.Release(owner, each)) {
		if _, taken := i.actions[step.Action]; !taken {
			t.Errorf("nothing takes %q: add the actions of its kind to those in New", step.Action)
		}
	}
}

// fuzzDecode holds that no page of a collection makes the decoder panic, and that what it takes in can be written back.
// body has what can be written, and keep gives what was read the rest of what it was.
func fuzzDecode[W, T any](
	f *testing.F, collection string, observed func(W) (T, error), body func(W, T) map[string]any, keep func(read *W, was W),
	seeds ...string,
) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var answer map[string]json.RawMessage
		var page []W
		if json.Unmarshal(content, &answer) != nil || json.Unmarshal(answer[collection], &page) != nil {
			return
		}
		for _, w := range page {
			is, err := observed(w)
			if err != nil {
				continue
			}
			text := encode(t, body(w, is))
			var again W
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatalf("the body is not what was read: %v\n%s", err, text)
			}
			keep(&again, w)
			written, err := observed(again)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			expect.EqualWith(t, cmp.Options{sameAddr, samePrefix, cmpopts.EquateEmpty()}, is, written, "written back")
		}
	})
}

func FuzzDecodeNetworks(f *testing.F) {
	fuzzDecode(f, "networks", wireNetwork.observed, func(_ wireNetwork, n plan.ObservedNetwork) map[string]any {
		return networkBody(plan.Step{Attributes: n.Attributes, Differences: differs(
			plan.FieldName, plan.FieldDescription, plan.FieldAdminState, plan.FieldMTU, plan.FieldPortSecurity,
			plan.FieldDNSDomain, plan.FieldShared, plan.FieldExternal, plan.FieldNetworkType, plan.FieldPhysicalNetwork,
			plan.FieldSegmentationID, plan.FieldZoneHints,
		)}, false)
	}, func(read *wireNetwork, was wireNetwork) {
		read.ID, read.Created, read.Revision, read.Tags = was.ID, was.Created, was.Revision, was.Tags
	},
		`{"networks": [{"id": "a", "name": "n", "description": "d", "admin_state_up": true, "mtu": 1500, `+
			`"port_security_enabled": null, "revision_number": 3, "created_at": "2026-01-02T03:04:05Z", "subnets": ["s"]}]}`,
		`{"networks": null}`, `{"networks": [null], "networks_links": [{"rel": "next"}]}`)
}

func FuzzDecodeSubnets(f *testing.F) {
	fuzzDecode(f, "subnets", wireSubnet.observed, func(w wireSubnet, s plan.ObservedSubnet) map[string]any {
		return subnetBody(plan.Step{
			NetworkRef: plan.Ref{ID: w.NetworkID}, SubnetName: s.Name, SubnetDescription: s.Description, Subnet: s.Subnet,
		}, true)
	}, func(read *wireSubnet, was wireSubnet) {
		read.ID, read.Revision, read.PoolID, read.Created = was.ID, was.Revision, was.PoolID, was.Created
	},
		`{"subnets": [{"id": "a", "network_id": "n", "name": "n", "description": "d", "cidr": "10.0.0.0/24", `+
			`"gateway_ip": "10.0.0.1", "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.254"}], "enable_dhcp": true, `+
			`"dns_nameservers": ["10.0.0.3"], "host_routes": [{"destination": "10.1.0.0/16", "nexthop": "10.0.0.9"}], `+
			`"service_types": ["network:b", "compute:a"], "dns_publish_fixed_ip": true, "revision_number": 3}]}`,
		`{"subnets": [{"id": "a", "network_id": "n", "cidr": "fd00::/64", "gateway_ip": null, `+
			`"allocation_pools": [{"start": "fd00::9", "end": "fd00::2"}, {"start": "fd00::3", "end": "10.0.0.1"}]}]}`)
}

func FuzzDecodePorts(f *testing.F) {
	fuzzDecode(f, "ports", wirePort.observed, func(w wirePort, p plan.ObservedPort) map[string]any {
		return portBody(plan.Step{NetworkRef: plan.Ref{ID: w.NetworkID}, Port: p.PortAttributes}, true)
	}, func(read *wirePort, was wirePort) {
		read.ID, read.Created, read.Revision = was.ID, was.Created, was.Revision
	},
		`{"ports": [{"id": "a", "network_id": "n", "name": "n", "description": "d", "admin_state_up": true, `+
			`"fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.9"}, {"subnet_id": "t", "ip_address": "fd00::9"}], `+
			`"mac_address": "FA:16:3E:00:00:01", "security_groups": ["h", "g"], "revision_number": 3, `+
			`"created_at": "2026-01-02T03:04:05Z"}]}`,
		`{"ports": [{"id": "a", "network_id": "n", "fixed_ips": [{}], "security_groups": null, `+
			`"mac_address": "02aa.bbcc.ddf0", "created_at": "2026-01-02T03:04:05Z"}]}`)
}

func differs(fields ...string) (all []plan.Difference) {
	for _, field := range fields {
		all = append(all, plan.Difference{Field: field})
	}
	return all
}

func encode(t *testing.T, body map[string]any) []byte {
	t.Helper()
	content, err := json.Marshal(body)
	expect.NoError(t, err)
	return content
}

var (
	sameAddr   = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
)

func TestCountsOfAnySizeAreHeld(t *testing.T) {
	const most = math.MaxInt64
	for in, want := range map[string]any{
		"0": int64(0), "253": int64(253), "9223372036854775807": int64(most), "9223372036854775808": int64(most),
		"18446744073709551614": int64(most), "340282366920938463463374607431768211454": int64(most),
		"": nil, "1.5": nil, "1e3": nil, "x": nil, "-1": nil, "-9223372036854775809": nil,
	} {
		got := count(json.Number(in))
		switch {
		case want == nil && got != nil:
			t.Errorf("%q counts as %d, want nothing", in, *got)
		case want != nil && (got == nil || *got != want):
			t.Errorf("%q does not count as %d", in, want)
		}
	}
}

func TestNumberThatIsNoneIsNotQuoted(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"network_ip_availabilities": [{"subnet_ip_availability": [{"subnet_id": "s",
			"used_ips": "`+canaryBody+`"}]}]}`)
	})
	_, err := New(f.cloud(client.Options{}), cluster, Options{}).listAvailabilities(t.Context())
	checkNoSecrets(t, err)
}

// reads decodes a resource of a kind.
func reads[W client.Identified, T any](k kind[W, T], revision func(T) (int, time.Time)) func(string) (int, time.Time, error) {
	return func(content string) (int, time.Time, error) {
		var w W
		if err := json.Unmarshal([]byte(content), &w); err != nil {
			return 0, time.Time{}, err
		}
		made, err := k.decode(w)
		number, at := revision(made)
		return number, at, err
	}
}

// Other attributes than those that identify a resource may be absent, or of another form: older Neutrons and plugins of
// vendors differ there.
func TestOnlyWhatIdentifiesAResourceIsRequired(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for minimal, read := range map[string]func(string) (int, time.Time, error){
		`"id": "a"`: reads(networkKind, func(n plan.ObservedNetwork) (int, time.Time) { return n.Revision, n.Created }),
		`"id": "a", "network_id": "n", "cidr": "10.0.0.0/24"`: reads(subnetKind,
			func(s plan.ObservedSubnet) (int, time.Time) { return s.Revision, s.Created }),
		`"id": "a", "network_id": "n", "cidr": "10.0.0.0/24", "subnetpool_id": "p"`: reads(subnetKind,
			func(s plan.ObservedSubnet) (int, time.Time) { return s.Revision, s.Created }),
		`"id": "a", "network_id": "n"`: reads(portKind,
			func(p plan.ObservedPort) (int, time.Time) { return p.Revision, p.Created }),
		`"id": "a", "name": "r"`: reads(routerKind,
			func(r plan.ObservedRouter) (int, time.Time) { return r.Revision, r.Created }),
		`"id": "a", "name": "g"`: reads(groupKind, func(g plan.ObservedGroup) (int, time.Time) { return g.Revision, g.Created }),
		`"id": "a", "floating_network_id": "n", "floating_ip_address": "203.0.113.9"`: reads(floatingKind,
			func(f plan.ObservedFloatingIP) (int, time.Time) { return f.Revision, f.Created }),
	} {
		for more, want := range map[string]struct {
			revision int
			at       time.Time
		}{
			``:                     {},
			`, "created_at": null`: {}, `, "created_at": ""`: {}, `, "created_at": 7`: {},
			`, "created_at": "2026-01-02 03:04:05"`:         {},
			`, "created_at": "2026-01-02T03:04:05Z"`:        {at: at},
			`, "created_at": "2026-01-02T03:04:05.000000Z"`: {at: at},
			`, "created_at": "2026-01-02T05:04:05+02:00"`:   {at: at},
			`, "created_at": "2026-01-02T03:04:05"`:         {at: at}, // early releases
			`, "revision_number": null`:                     {}, `, "revision_number": "x"`: {},
			`, "revision_number": "7", "mtu": "1450", "provider:segmentation_id": "12"`: {revision: 7},
			`, "mtu": "", "provider:segmentation_id": null, "revision_number": 7`:       {revision: 7},
		} {
			revision, created, err := read("{" + minimal + more + "}")
			if err != nil || revision != want.revision || !created.Equal(want.at) {
				t.Errorf("{%s%s} is read as revision %d of %s: %v", minimal, more, revision, created, err)
			}
		}
		if _, _, err := read("{}"); err == nil {
			t.Errorf("of {%s}, nothing is needed", minimal)
		}
	}
}

// A plugin that writes numbers as texts means the same.
func TestNumbersAreReadFromTexts(t *testing.T) {
	n, err := client.DecodeOne[wireNetwork]("get", "GET", networkKind.Collection, map[string]json.RawMessage{
		"network": []byte(`{"mtu": "1450", "provider:segmentation_id": "12", "id": "a", "revision_number": "7"}`)})
	expect.NoError(t, err)
	is, err := n.observed()
	expect.NoError(t, err)
	if is.MTU != 1450 || is.Provider.SegmentationID != 12 || is.Revision != 7 {
		t.Errorf("they are read as %+v", is)
	}
	var rule wireRule
	expect.NoError(t, json.Unmarshal([]byte(`{"id": "r", "security_group_id": "g", "port_range_min": "80",
		"port_range_max": 90}`), &rule))
	if r, err := rule.observed("g"); err != nil || r.PortMin != 80 || r.PortMax != 90 {
		t.Errorf("a rule is read as %+v: %v", r, err)
	}
}

// TestPortsAreReadInCanonicalForm holds what lets a port be compared with a declared one whose spelling and order are
// canonical.
func TestPortsAreReadInCanonicalForm(t *testing.T) {
	const minimal = `"id": "a", "network_id": "n", "created_at": "2026-01-02T03:04:05Z"`
	address := func(subnet, text string) plan.PortAddress {
		return plan.PortAddress{SubnetID: subnet, Address: netip.MustParseAddr(text)}
	}
	plain := plan.ObservedPort{ID: "a", NetworkID: "n", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for name, test := range map[string]struct {
		content string
		want    func(p *plan.ObservedPort)
		err     string
	}{
		"all is read": {
			content: minimal + `, "name": "x", "description": "d", "admin_state_up": true, "revision_number": 7`,
			want: func(p *plan.ObservedPort) {
				p.Name, p.Description, p.AdminStateUp, p.Revision = "x", "d", true, 7
			},
		},
		"addresses are sorted and short": {
			content: minimal + `, "fixed_ips": [{"subnet_id": "t", "ip_address": "FD00:0::9"},
				{"subnet_id": "s", "ip_address": "10.0.0.10"}, {"subnet_id": "s", "ip_address": "10.0.0.9"}]`,
			want: func(p *plan.ObservedPort) {
				p.Addresses = []plan.PortAddress{
					address("s", "10.0.0.9"), address("s", "10.0.0.10"), address("t", "fd00::9"),
				}
			},
		},
		"options are shown where there are any": {
			content: minimal + `, "port_security_enabled": false, "qos_policy_id": "q", "dns_name": "web", ` +
				`"allowed_address_pairs": [{"ip_address": "10.0.0.100", "mac_address": "FA:16:3E:00:00:01"}, ` +
				`{"ip_address": "10.9.0.0/16", "mac_address": "fa:16:3e:00:00:02"}]`,
			want: func(p *plan.ObservedPort) {
				p.PortOptions = plan.PortOptions{
					PortSecurity: new(false), QoSPolicy: new("q"), DNSName: new("web"), AddressPairs: []plan.AddressPair{
						{Range: netip.MustParsePrefix("10.0.0.100/32"), MAC: "fa:16:3e:00:00:01"},
						{Range: netip.MustParsePrefix("10.9.0.0/16"), MAC: "fa:16:3e:00:00:02"},
					},
				}
			},
		},
		"security groups are sorted": {
			content: minimal + `, "security_groups": ["c", "a", "b"]`,
			want:    func(p *plan.ObservedPort) { p.SecurityGroups = []string{"a", "b", "c"} },
		},
		"a MAC with hyphens": {
			content: minimal + `, "mac_address": "FA-16-3e-0a-0b-0c"`,
			want:    func(p *plan.ObservedPort) { p.MAC = "fa:16:3e:0a:0b:0c" },
		},
		"a MAC with dots": {
			content: minimal + `, "mac_address": "fa16.3E0a.0b0c"`,
			want:    func(p *plan.ObservedPort) { p.MAC = "fa:16:3e:0a:0b:0c" },
		},
		"a MAC of an unknown form": {
			content: minimal + `, "mac_address": "2:1:1:1:1:A"`,
			want:    func(p *plan.ObservedPort) { p.MAC = "2:1:1:1:1:a" },
		},
		"an address that is none": {
			content: minimal + `, "fixed_ips": [{"subnet_id": "s", "ip_address": "` + canaryBody + `"}]`,
			err:     "port a: fixed_ips is no address of a known form",
		},
		"no network": {
			content: `"id": "a", "created_at": "2026-01-02T03:04:05Z"`, err: "a port has no id or no network_id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w wirePort
			expect.NoError(t, json.Unmarshal([]byte("{"+test.content+"}"), &w))
			got, err := w.observed()
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			want := plain
			test.want(&want)
			if diff := cmp.Diff(want, got, sameAddr, samePrefix); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestBodiesHoldJustWhatTheyShould(t *testing.T) {
	yes := true
	attributes := plan.Attributes{Name: "n", Description: "d", AdminStateUp: true, MTU: 1400, PortSecurity: &yes}
	subnet := plan.Subnet{
		CIDR: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), DHCP: true,
		Pools:      []plan.Range{{Start: netip.MustParseAddr("10.0.0.2"), End: netip.MustParseAddr("10.0.0.9")}},
		DNSServers: []netip.Addr{netip.MustParseAddr("10.0.0.3")},
		HostRoutes: []plan.Route{
			{Destination: netip.MustParsePrefix("10.1.0.0/16"), NextHop: netip.MustParseAddr("10.0.0.4")},
		},
	}
	port := plan.PortAttributes{
		Name: "p", Description: "d", AdminStateUp: true, MAC: "fa:16:3e:00:00:01", SecurityGroups: []string{"g", "h"},
		Addresses: []plan.PortAddress{
			{SubnetID: "s", Address: netip.MustParseAddr("10.0.0.9")}, {SubnetID: "t"},
		},
	}
	options := plan.PortAttributes{Name: "p", PortOptions: plan.PortOptions{
		PortSecurity: &yes, QoSPolicy: new("q"), DNSName: new("web"), AddressPairs: []plan.AddressPair{
			{Range: netip.MustParsePrefix("10.0.0.100/32")},
			{Range: netip.MustParsePrefix("10.9.0.0/16"), MAC: "fa:16:3e:00:00:09"},
		},
	}}
	none := plan.PortOptions{QoSPolicy: new(""), DNSName: new(""), AddressPairs: []plan.AddressPair{}}
	for name, test := range map[string]struct {
		body map[string]any
		want string
	}{
		"a network is created with everything": {
			networkBody(plan.Step{Attributes: attributes}, true),
			`{"admin_state_up":true,"description":"d","mtu":1400,"name":"n","port_security_enabled":true}`,
		},
		"an administrator's settings are sent": {
			networkBody(plan.Step{Attributes: plan.Attributes{
				Name: "n", Shared: new(true), External: new(true), ZoneHints: []string{"a"}, DNSDomain: new("a.org."),
				Provider: plan.Provider{NetworkType: "vlan", PhysicalNetwork: "p", SegmentationID: 7},
			}}, true),
			`{"admin_state_up":false,"availability_zone_hints":["a"],"description":"","dns_domain":"a.org.","name":"n",` +
				`"provider:network_type":"vlan","provider:physical_network":"p","provider:segmentation_id":7,` +
				`"router:external":true,"shared":true}`,
		},
		"what a new network is anyway is not sent": {
			networkBody(plan.Step{Attributes: plan.Attributes{
				Name: "n", Shared: new(false), External: new(false), DNSDomain: new(""), Tags: []string{"a"},
			}}, true),
			`{"admin_state_up":false,"description":"","name":"n"}`,
		},
		"an update takes back what was set": {
			networkBody(plan.Step{
				Attributes:  plan.Attributes{Shared: new(false), External: new(false), DNSDomain: new("")},
				Differences: differs(plan.FieldShared, plan.FieldExternal, plan.FieldDNSDomain),
			}, false),
			`{"dns_domain":"","router:external":false,"shared":false}`,
		},
		"an update of a network sends what differs": {
			networkBody(plan.Step{Attributes: attributes, Differences: differs(plan.FieldMTU)}, false), `{"mtu":1400}`,
		},
		"a subnet is created with everything": {
			subnetBody(plan.Step{
				NetworkRef: plan.Ref{ID: "net"}, SubnetName: "s", SubnetDescription: "d", Subnet: subnet,
			}, true),
			`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.9"}],"cidr":"10.0.0.0/24","description":"d",` +
				`"dns_nameservers":["10.0.0.3"],"enable_dhcp":true,"gateway_ip":"10.0.0.1",` +
				`"host_routes":[{"destination":"10.1.0.0/16","nexthop":"10.0.0.4"}],"ip_version":4,"name":"s",` +
				`"network_id":"net"}`,
		},
		"no gateway is null, and empty lists are lists": {
			subnetBody(plan.Step{
				NetworkRef: plan.Ref{ID: "net"}, Subnet: plan.Subnet{CIDR: netip.MustParsePrefix("fd00::/64")},
			}, true),
			`{"allocation_pools":[],"cidr":"fd00::/64","description":"","dns_nameservers":[],"enable_dhcp":false,` +
				`"gateway_ip":null,"host_routes":[],"ip_version":6,"name":"","network_id":"net"}`,
		},
		"IPv6 modes go with a create": {
			subnetBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Subnet: plan.Subnet{
				CIDR: netip.MustParsePrefix("fd00::/64"), DHCP: true, IPv6AddressMode: plan.SLAAC,
				IPv6RAMode: plan.DHCPv6Stateless,
			}}, true),
			`{"allocation_pools":[],"cidr":"fd00::/64","description":"","dns_nameservers":[],"enable_dhcp":true,` +
				`"gateway_ip":null,"host_routes":[],"ip_version":6,"ipv6_address_mode":"slaac",` +
				`"ipv6_ra_mode":"dhcpv6-stateless","name":"","network_id":"net"}`,
		},
		"a port that makes its addresses asks for none": {
			portBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{Name: "p"}}, true),
			`{"admin_state_up":false,"description":"","device_owner":"kubernetes:networkport","fixed_ips":[],` +
				`"name":"p","network_id":"net"}`,
		},
		"whom a subnet serves and where it is published goes with a create": {
			subnetBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Subnet: plan.Subnet{
				CIDR: netip.MustParsePrefix("10.0.0.0/24"), ServiceTypes: []string{"compute:nova"}, DNSPublishFixedIP: true,
			}}, true),
			`{"allocation_pools":[],"cidr":"10.0.0.0/24","description":"","dns_nameservers":[],` +
				`"dns_publish_fixed_ip":true,"enable_dhcp":false,"gateway_ip":null,"host_routes":[],"ip_version":4,"name":"",` +
				`"network_id":"net","service_types":["compute:nova"]}`,
		},
		"an update takes back whom a subnet serves and where it is published": {
			subnetBody(plan.Step{
				Differences: differs(plan.FieldServiceTypes, plan.FieldDNSPublishFixedIP),
			}, false),
			`{"dns_publish_fixed_ip":false,"service_types":[]}`,
		},
		"a router is created as the cloud has routers": {
			routerBody(plan.Step{Action: plan.CreateRouter, Router: plan.RouterAttributes{Name: "r"}}, true),
			`{"admin_state_up":false,"description":"","name":"r"}`,
		},
		"a router is created of a kind": {
			routerBody(plan.Step{Action: plan.CreateRouter, Router: plan.RouterAttributes{
				Name: "r", HA: new(false), Distributed: new(true),
			}}, true),
			`{"admin_state_up":false,"description":"","distributed":true,"ha":false,"name":"r"}`,
		},
		"an update of a router's kind sends nothing else": {
			routerBody(plan.Step{
				Action: plan.UpdateRouter, Router: plan.RouterAttributes{HA: new(true), Distributed: new(true)},
				Differences: differs(plan.FieldHA),
			}, false),
			`{"ha":true}`,
		},
		"an update takes the gateway away with null": {
			subnetBody(plan.Step{Differences: differs(plan.FieldGateway)}, false), `{"gateway_ip":null}`,
		},
		"an update of gateway and pools sends both": {
			subnetBody(plan.Step{
				Subnet: subnet, Differences: differs(plan.FieldGateway, plan.FieldAllocationPools),
			}, false),
			`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.9"}],"gateway_ip":"10.0.0.1"}`,
		},
		"a port is created with everything": {
			portBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Port: port}, true),
			`{"admin_state_up":true,"description":"d","device_owner":"kubernetes:networkport",` +
				`"fixed_ips":[{"subnet_id":"s","ip_address":"10.0.0.9"},{"subnet_id":"t"}],` +
				`"mac_address":"fa:16:3e:00:00:01","name":"p","network_id":"net","security_groups":["g","h"]}`,
		},
		"a port's MAC and security groups are left to the cloud": {
			portBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{
				Name: "p", Addresses: []plan.PortAddress{{SubnetID: "s"}},
			}}, true),
			`{"admin_state_up":false,"description":"","device_owner":"kubernetes:networkport",` +
				`"fixed_ips":[{"subnet_id":"s"}],"name":"p","network_id":"net"}`,
		},
		"a port's options are sent where they are set": {
			portBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Port: options}, true),
			`{"admin_state_up":false,"allowed_address_pairs":[{"ip_address":"10.0.0.100"},` +
				`{"ip_address":"10.9.0.0/16","mac_address":"fa:16:3e:00:00:09"}],"description":"",` +
				`"device_owner":"kubernetes:networkport","dns_name":"web","fixed_ips":[],"name":"p","network_id":"net",` +
				`"port_security_enabled":true,"qos_policy_id":"q"}`,
		},
		"what a new port is anyway is not sent": {
			portBody(plan.Step{NetworkRef: plan.Ref{ID: "net"}, Port: plan.PortAttributes{Name: "p", PortOptions: none}}, true),
			`{"admin_state_up":false,"description":"","device_owner":"kubernetes:networkport","fixed_ips":[],"name":"p",` +
				`"network_id":"net"}`,
		},
		"an update takes a port's options back, with its name for the sake of the revision": {
			portBody(plan.Step{
				Port:        plan.PortAttributes{Name: "p", PortOptions: none},
				Differences: differs(plan.FieldQoSPolicy, plan.FieldDNSName, plan.FieldAddressPairs),
			}, false),
			`{"allowed_address_pairs":[],"dns_name":"","name":"p","qos_policy_id":null}`,
		},
		"an update of a port that does not differ sends nothing": {portBody(plan.Step{Port: port}, false), `{}`},
		"no security groups are an empty list": {
			portBody(plan.Step{
				Port: plan.PortAttributes{SecurityGroups: []string{}}, Differences: differs(plan.FieldSecurityGroups),
			}, false),
			`{"security_groups":[]}`,
		},
		"an update of a port sends what differs": {
			portBody(plan.Step{Port: port, Differences: differs(plan.FieldAddresses)}, false),
			`{"fixed_ips":[{"subnet_id":"s","ip_address":"10.0.0.9"},{"subnet_id":"t"}]}`,
		},
		"an update may send all that a port can change": {
			portBody(plan.Step{Port: port, Differences: differs(plan.FieldName, plan.FieldDescription,
				plan.FieldAdminState, plan.FieldMAC, plan.FieldSecurityGroups)}, false),
			`{"admin_state_up":true,"description":"d","mac_address":"fa:16:3e:00:00:01","name":"p",` +
				`"security_groups":["g","h"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect.Equal(t, test.want, string(encode(t, test.body)), "the body")
		})
	}
}

func TestListsAskForTheProjectAndWhatIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		list func(i *Inventory) error
		want url.Values
	}{
		"networks": {
			list: func(i *Inventory) error { return everything(t, networkKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": networkKind.fields},
		},
		"subnets of the project": {
			list: func(i *Inventory) error { return everything(t, subnetKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": subnetKind.fields},
		},
		"subnets of a network, whosever they are": {
			list: func(i *Inventory) error {
				_, err := i.subnetsOf(t.Context(), wireNetwork{wireBase: wireBase{ID: "net-1"}})
				return err
			},
			want: url.Values{"network_id": {"net-1"}, "fields": subnetKind.fields},
		},
		"ports": {
			list: func(i *Inventory) error { return everything(t, portKind, i) },
			want: url.Values{"project_id": {"project-1"}, "fields": portKind.fields},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Value
			f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
				got.Store(r.URL.Query())
				answer(w, http.StatusOK, `{"networks": [], "subnets": [], "ports": []}`)
			})
			expect.NoError(t, test.list(New(f.cloud(client.Options{PageSize: 7}), cluster, Options{})))
			test.want.Set("limit", "7")
			test.want.Set("sort_key", "id")
			test.want.Set("sort_dir", "asc")
			expect.Equal(t, test.want, got.Load(), "query")
		})
	}
}

// everything lists a kind of a project.
func everything[W client.Identified, T any](t *testing.T, k kind[W, T], i *Inventory) error {
	return k.eachOfProject(t.Context(), i.access, func() {}, func(W, error) {})
}
