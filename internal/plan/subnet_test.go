package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// addresses lets go-cmp compare what net/netip keeps private.
var addresses = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// wantEqual is expect.Equal of what has addresses.
func wantEqual(t *testing.T, want, got any, format string, args ...any) {
	t.Helper()
	expect.EqualWith(t, cmp.Options{addresses}, want, got, "%s", fmt.Sprintf(format, args...))
}

// Short names for what the tables are full of.
var (
	prefix = netip.MustParsePrefix
	addr   = netip.MustParseAddr
)

// ranges parses "start-end" texts.
func ranges(texts ...string) []Range {
	var parsed []Range
	for _, text := range texts {
		start, end, _ := strings.Cut(text, "-")
		parsed = append(parsed, Range{addr(start), addr(end)})
	}
	return parsed
}

func route(destination, nextHop string) Route { return Route{prefix(destination), addr(nextHop)} }

// fieldErrors are all FieldErrors that an error joins. Anything else in it fails the test.
func fieldErrors(t testing.TB, err error) []*FieldError {
	t.Helper()
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, one := range joined.Unwrap() {
			all = append(all, fieldErrors(t, one)...)
		}
		return all
	}
	var one *FieldError
	if !errors.As(err, &one) {
		t.Fatalf("%v is a %T, not a *FieldError", err, err)
	}
	return []*FieldError{one}
}

// requireFieldError holds that err is one FieldError of the field, and that its problem holds the text.
func requireFieldError(t testing.TB, err error, field, text string) {
	t.Helper()
	all := fieldErrors(t, err)
	if len(all) != 1 || all[0].Field != field || !strings.Contains(all[0].Problem, text) {
		t.Errorf("got the errors %q, want one of field %q that says %q", all, field, text)
	}
}

func TestDefaultGatewayIsTheFirstAddressAfterTheNetworks(t *testing.T) {
	for cidr, want := range map[string]string{
		"192.168.0.0/16":     "192.168.0.1",
		"192.168.0.77/24":    "192.168.0.1",
		"255.255.255.252/30": "255.255.255.253",
		"fd00:1::/64":        "fd00:1::1",
	} {
		if got := DefaultGateway(prefix(cidr)); got != addr(want) {
			t.Errorf("DefaultGateway(%s) = %s, want %s", cidr, got, want)
		}
	}
	if got := DefaultGateway(netip.Prefix{}); got.IsValid() {
		t.Errorf("DefaultGateway of no CIDR is %s, want none", got)
	}
}

func TestDefaultPoolsAreAllAddressesButTheGateway(t *testing.T) {
	for sentence, tc := range map[string]struct {
		cidr, gateway string
		want          []Range
	}{
		"the last address is the gateway":    {"192.168.0.0/24", "192.168.0.254", ranges("192.168.0.1-192.168.0.253")},
		"host bits do not count":             {"192.168.0.9/24", "192.168.0.1", ranges("192.168.0.2-192.168.0.254")},
		"a gateway elsewhere takes nothing":  {"192.168.0.0/24", "10.0.0.1", ranges("192.168.0.1-192.168.0.254")},
		"the broadcast address is not in it": {"192.168.0.0/24", "192.168.0.255", ranges("192.168.0.1-192.168.0.254")},
		"a gateway after the first leaves one alone": {
			"192.168.0.0/24", "192.168.0.2", ranges("192.168.0.1-192.168.0.1", "192.168.0.3-192.168.0.254"),
		},
		"a /30 at the end of IPv4": {"255.255.255.252/30", "", ranges("255.255.255.253-255.255.255.254")},
		"a /31 has none":           {"10.0.0.0/31", "", nil},
		"a /32 has none":           {"10.0.0.0/32", "", nil},
		"the last address of IPv6 is the gateway": {
			"ffff:ffff:ffff:ffff::/64", lastIPv6, ranges("ffff:ffff:ffff:ffff::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"),
		},
		"the last /128 too": {lastIPv6 + "/128", "", nil},
		"no CIDR has none":  {"", "", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			var cidr netip.Prefix
			if tc.cidr != "" {
				cidr = prefix(tc.cidr)
			}
			var gateway netip.Addr
			if tc.gateway != "" {
				gateway = addr(tc.gateway)
			}
			wantEqual(t, tc.want, DefaultPools(cidr, gateway), "pools")
		})
	}
}

const lastIPv6 = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

func TestPropertyDefaultPoolsCoverEachHostOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cidr := cidrs().Draw(t, "cidr")
		gateway := hostsOf(cidr).Draw(t, "gateway")
		subnet := Subnet{CIDR: cidr, Gateway: gateway, Pools: DefaultPools(cidr, gateway)}
		if err := subnet.Validate(); err != nil {
			t.Fatalf("the default pools of %s with gateway %s are refused: %v", cidr, gateway, err)
		}
		first, last := Usable(cidr)
		whole := JoinRanges(append(slices.Clone(subnet.Pools), Range{gateway, gateway}))
		if diff := cmp.Diff([]Range{{first, last}}, whole, addresses); diff != "" {
			t.Fatalf("pools and gateway of %s do not make up its hosts (-want +got):\n%s", cidr, diff)
		}
	})
}

func TestJoinRanges(t *testing.T) {
	for sentence, tc := range map[string]struct{ in, want []Range }{
		"nothing is nothing": {nil, nil},
		"apart stays apart, sorted": {
			ranges("10.0.0.7-10.0.0.9", "10.0.0.1-10.0.0.5"), ranges("10.0.0.1-10.0.0.5", "10.0.0.7-10.0.0.9"),
		},
		"neighbours are joined":       {ranges("10.0.0.6-10.0.0.9", "10.0.0.1-10.0.0.5"), ranges("10.0.0.1-10.0.0.9")},
		"overlapping ones are joined": {ranges("10.0.0.1-10.0.0.5", "10.0.0.3-10.0.0.9"), ranges("10.0.0.1-10.0.0.9")},
		"one within another goes":     {ranges("10.0.0.1-10.0.0.9", "10.0.0.3-10.0.0.5"), ranges("10.0.0.1-10.0.0.9")},
		"the end of IPv4 is an end": {
			ranges("255.255.255.255-255.255.255.255", "255.255.255.254-255.255.255.254"),
			ranges("255.255.255.254-255.255.255.255"),
		},
		"the end of IPv6 is an end": {ranges("ffff::-"+lastIPv6, "fffe::-"+lastIPv6), ranges("fffe::-" + lastIPv6)},
		"the last address of IPv6":  {ranges(lastIPv6+"-"+lastIPv6, lastIPv6+"-"+lastIPv6), ranges(lastIPv6 + "-" + lastIPv6)},
		"IPv6 does not follow on IPv4": {
			ranges("::-::9", "255.255.255.0-255.255.255.255"), ranges("255.255.255.0-255.255.255.255", "::-::9"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			before := slices.Clone(tc.in)
			wantEqual(t, tc.want, JoinRanges(tc.in), "joined")
			expect.EqualWith(t, cmp.Options{addresses}, before, tc.in, "the argument was written to")
		})
	}
}

func TestCanonicalIsEqualForWhatMeansTheSame(t *testing.T) {
	base := Subnet{
		CIDR: prefix("10.0.0.0/24"), Gateway: addr("10.0.0.1"), DHCP: true,
		Pools:      ranges("10.0.0.2-10.0.0.100", "10.0.0.150-10.0.0.254"),
		DNSServers: []netip.Addr{addr("9.9.9.9"), addr("1.1.1.1")},
		HostRoutes: []Route{
			route("10.1.0.0/16", "10.0.0.9"), route("10.1.0.0/17", "10.0.0.8"), route("10.1.0.0/17", "10.0.0.9"),
		},
	}
	for sentence, tc := range map[string]struct{ in, want Subnet }{
		"routes in another order": {with(base, func(s *Subnet) {
			s.HostRoutes = []Route{base.HostRoutes[2], base.HostRoutes[0], base.HostRoutes[1]}
		}), base},
		"name servers keep their order": {
			with(base, func(s *Subnet) { s.DNSServers = []netip.Addr{addr("1.1.1.1"), addr("9.9.9.9")} }),
			with(base, func(s *Subnet) { s.DNSServers = []netip.Addr{addr("1.1.1.1"), addr("9.9.9.9")} }),
		},
		"empty lists and none": {with(Subnet{CIDR: base.CIDR}, func(s *Subnet) {
			s.Pools, s.DNSServers, s.HostRoutes = []Range{}, []netip.Addr{}, []Route{}
		}), Subnet{CIDR: base.CIDR}},
	} {
		t.Run(sentence, func(t *testing.T) {
			wantEqual(t, tc.want, tc.in.Canonical(), "canonical")
		})
	}
}

// with is a changed copy.
func with(s Subnet, change func(*Subnet)) Subnet {
	s = plantest.Clone(s)
	change(&s)
	return s
}

func TestPropertyCanonicalForgetsOrderAndSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subnet := subnets(cidrs().Draw(t, "cidr")).Draw(t, "subnet")
		before := plantest.Clone(subnet)
		canonical := subnet.Canonical()
		if diff := cmp.Diff(before, subnet, addresses); diff != "" {
			t.Fatalf("Canonical wrote to its receiver (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(canonical, canonical.Canonical(), addresses); diff != "" {
			t.Fatalf("Canonical is not idempotent (-once +twice):\n%s", diff)
		}
		if diff := cmp.Diff(canonical, respelled(t, subnet).Canonical(), addresses); diff != "" {
			t.Fatalf("another spelling has another canonical form (-one +other):\n%s", diff)
		}
		if err := canonical.Validate(); err != nil {
			t.Fatalf("the canonical form of a valid subnet is refused: %v", err)
		}
	})
}

func TestSubnetValidateRefuses(t *testing.T) {
	for sentence, tc := range map[string]struct {
		subnet      Subnet
		field, text string
	}{
		"no CIDR":        {Subnet{}, "cidr", "192.168.0.0/16"},
		"IPv4 host bits": {Subnet{CIDR: prefix("10.0.0.5/24")}, "cidr", "write 10.0.0.0/24"},
		"an IPv4 /0":     {Subnet{CIDR: prefix("0.0.0.0/0")}, "cidr", "from 1 to 30"},
		"an IPv4 /31":    {Subnet{CIDR: prefix("10.0.0.0/31")}, "cidr", "from 1 to 30"},
		"an IPv6 /0":     {Subnet{CIDR: prefix("::/0")}, "cidr", "from 1 to 126"},
		"an IPv6 /127":   {Subnet{CIDR: prefix("fd00::/127")}, "cidr", "from 1 to 126"},
	} {
		t.Run(sentence, func(t *testing.T) {
			requireFieldError(t, tc.subnet.Validate(), tc.field, tc.text)
		})
	}
}

func TestDespiteLeavesOutWhatNeedsThePlaceOfASubnet(t *testing.T) {
	refused := Step{Action: DeleteSubnet, Ref: Ref{ID: "sub-1"}, Subnet: Subnet{CIDR: prefix("10.0.0.0/24")}}
	create := func(cidr string) Step { return Step{Action: CreateSubnet, Subnet: Subnet{CIDR: prefix(cidr)}} }
	on := func(subnet int, address string) Step {
		return Step{
			Action: CreateInterface, SubnetRefs: []Ref{{Creator: subnet}},
			Port: PortAttributes{Addresses: []PortAddress{{Address: addr(address)}}},
		}
	}
	attach := func(port int) Step { return Step{Action: AttachInterface, Ref: Ref{Creator: port}} }
	change := Change{
		refused, {Action: DeleteSubnet, Ref: Ref{ID: "sub-2"}}, create("10.0.0.0/25"), create("10.0.1.0/24"),
		on(3, "10.0.0.1"), attach(5), on(4, "10.0.1.1"), attach(7),
	}
	want := Change{change[1], change[3], on(2, "10.0.1.1"), attach(3)}
	wantEqual(t, want, change.Despite(nil), "what is left")
}

// A subnet that others have made, and its ports with it, is not deleted because its Network declares other modes.
func TestAnImportedSubnetOfOtherModesIsNotReplaced(t *testing.T) {
	spec := specWith(func(s *Spec) {
		s.Import = Import{ID: "net-1", Overwrite: true}
		s.Subnets = []Subnet{{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: SLAAC}}
	})
	observed := observedWith(func(n *ObservedNetwork) {
		n.Subnets[0].Subnet = Subnet{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: DHCPv6Stateful}
	})
	change, err := Network(spec, observed)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "network net-1 is dhcpv6-stateful, which cannot change") {
		t.Errorf("got %v and the plan\n%s", err, change)
	}
}
