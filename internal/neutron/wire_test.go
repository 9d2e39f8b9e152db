package neutron

import (
	"encoding/json"
	"math"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cloudteam.ztgame.com/network-controller/internal/network"
)

// FuzzDecodeNetworks holds that no page of networks makes the decoder panic, and that what it takes in can be written
// back.
func FuzzDecodeNetworks(f *testing.F) {
	f.Add([]byte(`{"networks": [{"id": "a", "name": "n", "description": "d", "admin_state_up": true, "mtu": 1500, ` +
		`"port_security_enabled": null, "revision_number": 3, "created_at": "2026-01-02T03:04:05Z", "subnets": ["s"]}]}`))
	f.Add([]byte(`{"networks": null}`))
	f.Add([]byte(`{"networks": [null], "networks_links": [{"rel": "next"}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var answer map[string]json.RawMessage
		if json.Unmarshal(content, &answer) != nil {
			return
		}
		_, _ = hasNext(opListNetworks, "networks", answer)
		page, err := decodePage[wireNetwork](opListNetworks, "networks", answer)
		if err != nil {
			return
		}
		for _, w := range page {
			observed, err := w.observed()
			if err != nil {
				continue
			}
			step := network.Step{Attributes: observed.Attributes}
			for _, field := range []string{
				network.FieldName, network.FieldDescription, network.FieldAdminState, network.FieldMTU,
				network.FieldPortSecurity,
			} {
				step.Differences = append(step.Differences, network.Difference{Field: field})
			}
			body := encode(t, networkBody(step, false))
			var again wireNetwork
			if err := json.Unmarshal(body, &again); err != nil {
				t.Fatalf("the body of an update is not what was read: %v\n%s", err, body)
			}
			again.ID, again.Created, again.Revision = w.ID, w.Created, w.Revision
			written, err := again.observed()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(observed, written); diff != "" {
				t.Errorf("written back (-want +got):\n%s", diff)
			}
		}
	})
}

// FuzzDecodeSubnets is FuzzDecodeNetworks for subnets.
func FuzzDecodeSubnets(f *testing.F) {
	f.Add([]byte(`{"subnets": [{"id": "a", "network_id": "n", "name": "n", "description": "d", "cidr": "10.0.0.0/24", ` +
		`"gateway_ip": "10.0.0.1", "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.254"}], "enable_dhcp": true, ` +
		`"dns_nameservers": ["10.0.0.3"], "host_routes": [{"destination": "10.1.0.0/16", "nexthop": "10.0.0.9"}], ` +
		`"revision_number": 3}]}`))
	f.Add([]byte(`{"subnets": [{"id": "a", "network_id": "n", "cidr": "fd00::/64", "gateway_ip": null, ` +
		`"allocation_pools": [{"start": "fd00::9", "end": "fd00::2"}, {"start": "fd00::3", "end": "10.0.0.1"}]}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var answer map[string]json.RawMessage
		if json.Unmarshal(content, &answer) != nil {
			return
		}
		page, err := decodePage[wireSubnet](opListSubnets, "subnets", answer)
		if err != nil {
			return
		}
		for _, w := range page {
			observed, err := w.observed()
			if err != nil {
				continue
			}
			step := network.Step{
				NetworkID: w.NetworkID, SubnetName: observed.Name, SubnetDescription: observed.Description,
				Subnet: observed.Subnet,
			}
			for _, all := range []bool{true, false} {
				body := encode(t, subnetBody(step, all))
				if !all {
					if string(body) != "{}" {
						t.Errorf("an update of nothing sends %s", body)
					}
					continue
				}
				var again wireSubnet
				if err := json.Unmarshal(body, &again); err != nil {
					t.Fatalf("the body of a create is not what was read: %v\n%s", err, body)
				}
				again.ID, again.Revision = w.ID, w.Revision
				written, err := again.observed()
				if err != nil {
					t.Fatalf("%v\n%s", err, body)
				}
				same := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
					cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty()}
				if diff := cmp.Diff(observed, written, same); diff != "" {
					t.Errorf("written back (-want +got):\n%s", diff)
				}
			}
		}
	})
}

func encode(t *testing.T, body map[string]any) []byte {
	t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(content) {
		t.Fatalf("no JSON: %s", content)
	}
	return content
}

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
			"total_ips": "`+canaryBody+`"}]}]}`)
	})
	_, err := f.cloud(Options{}).listAvailabilities(t.Context())
	checkNoSecrets(t, err)
}

func TestTimesOfCreationAreRead(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, ok := range map[string]bool{
		"2026-01-02T03:04:05Z": true, "2026-01-02T03:04:05+00:00": true, "2026-01-02T03:04:05.000000Z": true,
		"2026-01-02T05:04:05+02:00": true, "2026-01-02 03:04:05": false, "": false,
	} {
		got, err := wireNetwork{ID: "a", Created: in}.observed()
		if (err == nil) != ok || ok && !got.Created.Equal(want) {
			t.Errorf("%q is read as %v, %v", in, got.Created, err)
		}
	}
}

func TestBodiesHoldJustWhatTheyShould(t *testing.T) {
	yes := true
	attributes := network.Attributes{Name: "n", Description: "d", AdminStateUp: true, MTU: 1400, PortSecurity: &yes}
	subnet := network.Subnet{
		CIDR: netip.MustParsePrefix("10.0.0.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), DHCP: true,
		Pools:      []network.Range{{Start: netip.MustParseAddr("10.0.0.2"), End: netip.MustParseAddr("10.0.0.9")}},
		DNSServers: []netip.Addr{netip.MustParseAddr("10.0.0.3")},
		HostRoutes: []network.Route{
			{Destination: netip.MustParsePrefix("10.1.0.0/16"), NextHop: netip.MustParseAddr("10.0.0.4")},
		},
	}
	differs := func(fields ...string) (all []network.Difference) {
		for _, field := range fields {
			all = append(all, network.Difference{Field: field})
		}
		return all
	}
	for name, test := range map[string]struct {
		body map[string]any
		want string
	}{
		"a network is created with everything": {
			networkBody(network.Step{Attributes: attributes}, true),
			`{"admin_state_up":true,"description":"d","mtu":1400,"name":"n","port_security_enabled":true}`,
		},
		"what is left to the cloud is not sent": {
			networkBody(network.Step{Attributes: network.Attributes{Name: "n"}}, true),
			`{"admin_state_up":false,"description":"","name":"n"}`,
		},
		"an update of a network sends what differs": {
			networkBody(network.Step{Attributes: attributes, Differences: differs(network.FieldMTU)}, false), `{"mtu":1400}`,
		},
		"a subnet is created with everything": {
			subnetBody(network.Step{NetworkID: "net", SubnetName: "s", SubnetDescription: "d", Subnet: subnet}, true),
			`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.9"}],"cidr":"10.0.0.0/24","description":"d",` +
				`"dns_nameservers":["10.0.0.3"],"enable_dhcp":true,"gateway_ip":"10.0.0.1",` +
				`"host_routes":[{"destination":"10.1.0.0/16","nexthop":"10.0.0.4"}],"ip_version":4,"name":"s",` +
				`"network_id":"net"}`,
		},
		"no gateway is null, and empty lists are lists": {
			subnetBody(network.Step{
				NetworkID: "net", Subnet: network.Subnet{CIDR: netip.MustParsePrefix("fd00::/64")},
			}, true),
			`{"allocation_pools":[],"cidr":"fd00::/64","description":"","dns_nameservers":[],"enable_dhcp":false,` +
				`"gateway_ip":null,"host_routes":[],"ip_version":6,"name":"","network_id":"net"}`,
		},
		"an update takes the gateway away with null": {
			subnetBody(network.Step{Differences: differs(network.FieldGateway)}, false), `{"gateway_ip":null}`,
		},
		"an update of gateway and pools sends both": {
			subnetBody(network.Step{
				Subnet: subnet, Differences: differs(network.FieldGateway, network.FieldAllocationPools),
			}, false),
			`{"allocation_pools":[{"start":"10.0.0.2","end":"10.0.0.9"}],"gateway_ip":"10.0.0.1"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(encode(t, test.body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
