package declare

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	specCluster = "11111111-2222-3333-4444-555555555555"
	specUID     = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
)

var specOwner = plan.Owner{Cluster: specCluster, Object: specUID}

func networkOf(spec cloudteamv1.NetworkSpec) *cloudteamv1.Network {
	return &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example", UID: specUID}, Spec: spec,
	}
}

func specOf(subnet cloudteamv1.SubnetSpec) cloudteamv1.NetworkSpec {
	return cloudteamv1.NetworkSpec{SubnetSpec: subnet}
}

func poolOf(start, end string) plan.Range {
	return plan.Range{Start: netip.MustParseAddr(start), End: netip.MustParseAddr(end)}
}

func TestNetwork(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	for sentence, tc := range map[string]struct {
		spec cloudteamv1.NetworkSpec
		want plan.Spec
	}{
		"a subnet from a pool has what does not follow from its CIDR": {
			specOf(cloudteamv1.SubnetSpec{
				SubnetPool: "office", PrefixLength: new(int32(26)), Gateway: cloudteamv1.GatewayNone,
				DNSServers: []string{"fd00::53"},
			}),
			plan.Spec{Subnets: []plan.Subnet{{
				From: &plan.Allocation{Name: "office", PrefixLength: 26, NoGateway: true}, DHCP: true,
				DNSServers: []netip.Addr{addr("fd00::53")},
			}}},
		},
		"spelling does not count": {
			specOf(cloudteamv1.SubnetSpec{
				CIDR: "FD00:0:0::0/64", Gateway: "fd00:0:0:0::00FE",
				AllocationPools: []cloudteamv1.AllocationPool{
					{Start: "fd00::0020", End: "fd00::2f"}, {Start: "FD00::10", End: "fd00::1F"},
				},
				DNSServers: []string{"FD00::53", "2620:00fe::fe"},
				HostRoutes: []cloudteamv1.HostRoute{
					{Destination: "fd02:0::/32", NextHop: "fd00::0:9"}, {Destination: "FD01::/32", NextHop: "fd00::9"},
				},
			}),
			plan.Spec{Subnets: []plan.Subnet{{
				CIDR: prefix("fd00::/64"), Gateway: addr("fd00::fe"), DHCP: true,
				Pools:      []plan.Range{poolOf("fd00::10", "fd00::2f")},
				DNSServers: []netip.Addr{addr("fd00::53"), addr("2620:fe::fe")},
				HostRoutes: []plan.Route{
					{Destination: prefix("fd01::/32"), NextHop: addr("fd00::9")},
					{Destination: prefix("fd02::/32"), NextHop: addr("fd00::9")},
				},
			}}},
		},
		"additional subnets follow the first in their order": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/30", Gateway: "none"},
				AdditionalSubnets: []cloudteamv1.SubnetSpec{
					{CIDR: "FD00::/126", IPv6RAMode: "dhcpv6-stateful"}, {CIDR: "10.0.0.4/30", DNSServers: []string{"9.9.9.9"}},
				},
			},
			plan.Spec{Subnets: []plan.Subnet{
				{CIDR: prefix("10.0.0.0/30"), DHCP: true, Pools: []plan.Range{poolOf("10.0.0.1", "10.0.0.2")}},
				{
					CIDR: prefix("fd00::/126"), Gateway: addr("fd00::1"), DHCP: true, IPv6RAMode: plan.DHCPv6Stateful,
					Pools: []plan.Range{poolOf("fd00::2", "fd00::3")},
				},
				{
					CIDR: prefix("10.0.0.4/30"), Gateway: addr("10.0.0.5"), DHCP: true,
					Pools: []plan.Range{poolOf("10.0.0.6", "10.0.0.6")}, DNSServers: []netip.Addr{addr("9.9.9.9")},
				},
			}},
		},
		"the network's own settings are carried over": {
			cloudteamv1.NetworkSpec{
				SubnetSpec:  cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/30", DHCP: new(true)},
				Description: "db", MTU: new(int32(1400)), PortSecurity: new(false),
			},
			plan.Spec{
				Description: "db", MTU: 1400, PortSecurity: new(false),
				Subnets: []plan.Subnet{{
					CIDR: prefix("10.0.0.0/30"), Gateway: addr("10.0.0.1"), DHCP: true,
					Pools: []plan.Range{poolOf("10.0.0.2", "10.0.0.2")},
				}},
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Network(networkOf(tc.spec), specOwner)
			expect.NoError(t, err)
			tc.want.Owner, tc.want.Name = specOwner, "example"
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// fieldsOf are the fields of all FieldErrors that err joins. Any other error in it fails the test.
func fieldsOf(t *testing.T, err error) []string {
	t.Helper()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var fields []string
		for _, one := range joined.Unwrap() {
			fields = append(fields, fieldsOf(t, one)...)
		}
		return fields
	}
	var one *plan.FieldError
	if !errors.As(err, &one) {
		t.Fatalf("%v is a %T, not a *network.FieldError", err, err)
	}
	if one.Field == "" || one.Problem == "" {
		t.Errorf("an error without a field or a problem: %q", one)
	}
	return []string{one.Field}
}

func TestNetworkRefuses(t *testing.T) {
	type subnet = cloudteamv1.SubnetSpec
	pool := func(start, end string) []cloudteamv1.AllocationPool {
		return []cloudteamv1.AllocationPool{{Start: start, End: end}}
	}
	route := func(destination, nextHop string) []cloudteamv1.HostRoute {
		return []cloudteamv1.HostRoute{{Destination: destination, NextHop: nextHop}}
	}
	const cidr, cidr6 = "10.0.0.0/24", "fd00::/64"
	for sentence, tc := range map[string]struct {
		spec   cloudteamv1.NetworkSpec
		fields []string
	}{
		"a gateway in a pool": {specOf(subnet{SubnetPool: "office", Gateway: "10.0.0.1"}), []string{"subnetPool"}},
		"a pool of addresses in a pool": {
			specOf(subnet{SubnetPool: "office", AllocationPools: pool("10.0.0.5", "10.0.0.9")}), []string{"subnetPool"},
		},
		"shared with all projects": {
			cloudteamv1.NetworkSpec{SubnetSpec: subnet{CIDR: cidr}, SharedWith: []string{"*"}}, []string{"sharedWith[0]"},
		},
		"no prefix length":         {specOf(subnet{CIDR: "10.0.0.0"}), []string{"cidr"}},
		"leading zeros":            {specOf(subnet{CIDR: "010.0.0.0/24"}), []string{"cidr"}},
		"a netmask":                {specOf(subnet{CIDR: "10.0.0.0/255.0.0.0"}), []string{"cidr"}},
		"IPv4 in IPv6's spelling":  {specOf(subnet{CIDR: "::ffff:10.0.0.0/120"}), []string{"cidr"}},
		"a gateway that is a word": {specOf(subnet{CIDR: cidr, Gateway: "None"}), []string{"gateway"}},
		"a gateway with a zone":    {specOf(subnet{CIDR: cidr6, Gateway: "fd00::1%eth0"}), []string{"gateway"}},
		"an additional subnet, by its place": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: subnet{CIDR: cidr, Gateway: "x"},
				AdditionalSubnets: []subnet{
					{CIDR: cidr6}, {CIDR: "x", DNSServers: []string{"x"}},
				},
			},
			[]string{
				"gateway", "additionalSubnets[1].cidr", "additionalSubnets[1].dnsServers[0]",
			},
		},
		"every field at once": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: subnet{
					CIDR: "x", Gateway: "x", AllocationPools: pool("x", "x"), DNSServers: []string{"x"}, HostRoutes: route("x", "x"),
				},
				Description: "[owner=",
			},
			[]string{
				"cidr", "gateway", "allocationPools[0].start", "allocationPools[0].end", "dnsServers[0]",
				"hostRoutes[0].destination", "hostRoutes[0].nextHop", "description",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec, err := Network(networkOf(tc.spec), specOwner)
			if err == nil {
				t.Fatalf("accepted as %+v", spec)
			}
			expect.Equal(t, tc.fields, fieldsOf(t, err), "fields")
		})
	}
}

// throughJSON is a text as it comes back from a server that was sent it.
func throughJSON(t *testing.T, text string) string {
	t.Helper()
	sent, err := json.Marshal(text)
	expect.NoError(t, err)
	var back string
	expect.NoError(t, json.Unmarshal(sent, &back))
	return back
}

// created is what Neutron shows after a plan from nothing was applied. Addresses and texts go through their printed
// form, as on the way to Neutron and back.
func created(t *testing.T, change plan.Change) plan.Observed {
	t.Helper()
	var n plan.ObservedNetwork
	for i, step := range change {
		switch {
		case i == 0 && step.Action == plan.CreateNetwork:
			n = plan.ObservedNetwork{ID: "net-1", Created: time.Unix(0, 0), Attributes: step.Attributes}
			n.Name, n.Description = throughJSON(t, n.Name), throughJSON(t, n.Description)
			if n.MTU == 0 {
				n.MTU = 1450
			}
		case i > 0 && step.Action == plan.CreateSubnet && step.NetworkRef.ID == "":
			s := plan.ObservedSubnet{
				ID: "sub-1", Name: throughJSON(t, step.SubnetName), Description: throughJSON(t, step.SubnetDescription),
				Subnet: plan.Subnet{DHCP: step.Subnet.DHCP},
			}
			s.CIDR = netip.MustParsePrefix(step.Subnet.CIDR.String())
			if step.Subnet.Gateway.IsValid() {
				s.Gateway = netip.MustParseAddr(step.Subnet.Gateway.String())
			}
			for _, p := range step.Subnet.Pools {
				s.Pools = append(s.Pools, poolOf(p.Start.String(), p.End.String()))
			}
			for _, server := range step.Subnet.DNSServers {
				s.DNSServers = append(s.DNSServers, netip.MustParseAddr(server.String()))
			}
			for _, r := range step.Subnet.HostRoutes {
				s.HostRoutes = append(s.HostRoutes, plan.Route{
					Destination: netip.MustParsePrefix(r.Destination.String()),
					NextHop:     netip.MustParseAddr(r.NextHop.String()),
				})
			}
			n.Subnets = append(n.Subnets, s)
		default:
			t.Fatalf("step %d of a plan from nothing is %s", i, step)
		}
	}
	return plan.Observed{Networks: []plan.ObservedNetwork{n}}
}

// split is a list from a text, without the empty text that strings.Split makes of nothing.
func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Lists are written with commas, the two halves of a pool with "-" between them, those of a route with ">".
func FuzzSpecToPlan(f *testing.F) {
	f.Add("192.168.0.0/16", "192.168.0.1", "", "", "", "", int32(-1), true)
	f.Add("10.0.0.0/24", "", "10.0.0.100-10.0.0.199,10.0.0.2-10.0.0.99",
		"9.9.9.9,1.1.1.1", "10.1.0.0/16>10.0.0.9", "db", int32(1400), true)
	f.Add("fd00::/64", "none", "fd00::2-fd00::ff", "fd00::53", "::/0>fd00::1", "数 [x]", int32(1280), false)
	f.Add("::ffff:10.0.0.0/120", "::ffff:10.0.0.1", "", "", "", "[owner=a/b]", int32(0), true)
	f.Add("255.255.255.252/30", "255.255.255.254", "255.255.255.253-255.255.255.253",
		"", "0.0.0.0/0>255.255.255.255", "\xff", int32(65535), true)
	f.Add("8000::/1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "8000::1-8000::1", "::1", "::/1>::", " ", int32(68), true)
	f.Add("0.0.0.0/0", "0.0.0.0", "-", ",", ">", "\x00", int32(1), true)
	f.Add("fe80::/64", "fe80::1%eth0", "fe80::2%a-fe80::3%a", "fe80::1%1", "fe80::/10>fe80::1%x", "", int32(-1), true)
	f.Fuzz(func(t *testing.T, cidr, gateway, pools, dns, routes, description string, mtu int32, dhcp bool) {
		if !utf8.ValidString(description) {
			t.Skip("the API server holds UTF-8")
		}
		spec := cloudteamv1.NetworkSpec{
			SubnetSpec:  cloudteamv1.SubnetSpec{CIDR: cidr, Gateway: gateway, DNSServers: split(dns), DHCP: &dhcp},
			Description: description,
		}
		for _, pool := range split(pools) {
			start, end, _ := strings.Cut(pool, "-")
			spec.AllocationPools = append(spec.AllocationPools, cloudteamv1.AllocationPool{Start: start, End: end})
		}
		for _, route := range split(routes) {
			destination, nextHop, _ := strings.Cut(route, ">")
			spec.HostRoutes = append(spec.HostRoutes, cloudteamv1.HostRoute{Destination: destination, NextHop: nextHop})
		}
		if mtu != -1 {
			spec.MTU = &mtu
		}

		want, err := Network(networkOf(spec), specOwner)
		if err != nil {
			if len(fieldsOf(t, err)) == 0 {
				t.Errorf("no field is named by %v", err)
			}
			return
		}
		change, err := plan.Network(want, plan.Observed{})
		if err != nil {
			t.Fatalf("what Network accepted, Plan refuses: %v", err)
		}
		again, err := plan.Network(want, created(t, change))
		if err != nil {
			t.Fatalf("planning what was applied: %v", err)
		}
		if !again.Empty() {
			t.Errorf("planning what was applied gives\n%s\nafter\n%s", again, change)
		}
	})
}
