package specs

import (
	"iter"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var testLimits = Limits{
	Namespaces: []string{"team-a"}, SecurityGroups: []string{"g1", "g2"}, MaxMTU: 1450, Ports: 3,
	SecurityGroupRefs: []string{"web", "db"},
	FloatingNetworks:  []string{"public", "partners"}, FloatingPorts: []string{"web-0", "web-1"},
	FloatingAddresses: []string{"203.0.113.7"}, FloatingImports: []string{"f1"}, FloatingTags: []string{"web"},
	Administrator: true, PhysicalNetwork: "physnet1", VLANs: []int64{7, 8}, VNIs: []int64{7000, 8000},
	Zones: []string{"east", "west"}, NoZones: []string{"nowhere"},
	ExternalNetworks: []ExternalNetwork{{
		Names: []string{"outside"}, CIDR: netip.MustParsePrefix("203.0.113.0/24"),
		NextHop:   netip.MustParseAddr("203.0.113.1"),
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("203.0.113.11")},
	}},
	SubnetPools: []SubnetPool{
		{Names: []string{"p1", "four"}, IPVersion: 4, DefaultPrefixLength: 26, PrefixLengths: []int32{25, 27}},
		{Names: []string{"p2", "six"}, IPVersion: 6, DefaultPrefixLength: 64, PrefixLengths: []int32{64, 112}},
		{Names: []string{"p3"}, IPVersion: 6, DefaultPrefixLength: 120},
	},
	Routers:     []string{"r1"},
	Imports:     []Import{{ID: "i1", Filter: &cloudteamv1.NetworkImportFilter{Name: "n", Tags: []string{"t"}}, Subnet: cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/24", Gateway: "10.0.0.9"}}},
	Clouds:      []*cloudteamv1.CloudReference{nil, {SecretName: "openstack"}, {SecretName: "openstack", Name: "entry"}},
	WrongClouds: []*cloudteamv1.CloudReference{{SecretName: "missing"}},
	Classes:     []string{"", "open"},
	QoSPolicies: []string{"q1"}, DNSNames: true, Spoofing: true,
}

var testPlace = Place{
	Namespace: "team-a", NetworkNamespace: "team-b", NetworkName: "net", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
}

// fieldsOf gives the fields of a struct by their paths, such as Router.Routes.NextHop: those that stand directly in it,
// those behind pointers and those of a list's elements. The value is true of a field that each object must have.
func fieldsOf(of reflect.Type, path string) map[string]bool {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue
		}
		name := path + f.Name
		fields[name] = !strings.Contains(f.Tag.Get("json"), ",omit")
		kind := f.Type
		if kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct {
			maps.Copy(fields, fieldsOf(kind, name+"."))
		}
	}
	return fields
}

// examples are 1,000 draws, the same in each run: whether something is among them is no matter of chance.
func examples[V any](draw func(t *rapid.T) V) iter.Seq[V] {
	return func(yield func(V) bool) {
		for seed := range 1000 {
			if !yield(rapid.Custom(draw).Example(seed)) {
				return
			}
		}
	}
}

// seen counts how often fields were set and unset, by their paths.
type seen struct{ set, unset map[string]int }

// look notes which fields of a spec, whose path is given, are set.
func (s *seen) look(spec reflect.Value, path string) {
	for _, f := range reflect.VisibleFields(spec.Type()) {
		if f.Anonymous {
			continue
		}
		value, name := spec.FieldByIndex(f.Index), path+f.Name
		if value.IsZero() {
			s.unset[name]++
			continue
		}
		s.set[name]++
		var inner []reflect.Value
		switch value.Kind() {
		case reflect.Pointer:
			inner = append(inner, value.Elem())
		case reflect.Slice:
			for i := range value.Len() {
				inner = append(inner, value.Index(i))
			}
		}
		for _, v := range inner {
			if v.Kind() == reflect.Struct {
				s.look(v, name+".")
			}
		}
	}
}

// A field that is never drawn, such as a new one, is tested by none of the tests that draw specs: give it a line in the
// table of its kind.
func TestEveryFieldIsDrawnAndOmitted(t *testing.T) {
	// always are those that each spec has though their tags do not say so.
	always := []string{
		"CIDR of a Network, no limits", "AdditionalSubnets.CIDR of a Network, no limits", "NetworkName of a NetworkPort",
	}
	edited := func(t *rapid.T) any {
		limits := testLimits
		spec := limits.Network().Draw(t, "spec")
		limits.Imports = nil
		return limits.NetworkEdit(spec).Draw(t, "edited")
	}
	for sentence, c := range map[string]struct {
		draw    func(t *rapid.T) any
		without bool // Limits tell of nothing that a cloud has
	}{
		"of a Network":        {func(t *rapid.T) any { return testLimits.Network().Draw(t, "spec") }, false},
		"of a Network's edit": {edited, false},
		"of a Network, no limits": {
			func(t *rapid.T) any { return Limits{Administrator: true}.Network().Draw(t, "spec") }, true,
		},
		"of a NetworkPort": {
			func(t *rapid.T) any {
				place := testPlace
				if rapid.Bool().Draw(t, "at home") {
					place.NetworkNamespace = place.Namespace
				}
				return testLimits.NetworkPort(place).Draw(t, "spec")
			}, false,
		},
		"of a SecurityGroup": {func(t *rapid.T) any { return testLimits.SecurityGroup("web").Draw(t, "spec") }, false},
		"of a SecurityGroup's edit": {func(t *rapid.T) any {
			spec := testLimits.SecurityGroup("web").Draw(t, "spec")
			return testLimits.SecurityGroupEdit("web", spec).Draw(t, "edited")
		}, false},
		"of a FloatingIP": {func(t *rapid.T) any { return testLimits.FloatingIP().Draw(t, "spec") }, false},
		"of a FloatingIP's edit": {func(t *rapid.T) any {
			spec := testLimits.FloatingIP().Draw(t, "spec")
			return testLimits.FloatingIPEdit(spec).Draw(t, "edited")
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := seen{set: map[string]int{}, unset: map[string]int{}}
			var kind reflect.Type
			for spec := range examples(c.draw) {
				value := reflect.ValueOf(spec)
				kind = value.Type()
				s.look(value, "")
			}
			for name, required := range fieldsOf(kind, "") {
				required = required || slices.Contains(always, name) || slices.Contains(always, name+" "+sentence)
				switch excused := c.without && isOfCloud(name); {
				case excused && s.set[name] > 0:
					t.Errorf("%s was set %d times, and these limits tell of nothing that it names", name, s.set[name])
				case excused:
				case s.set[name] == 0 || s.unset[name] == 0 != required:
					t.Errorf("%s was set %d times and left out %d times", name, s.set[name], s.unset[name])
				}
			}
		})
	}
}

// TestIgnoreDriftDrawsAllFields holds the lists of drawn fields against what the CRDs take.
func TestIgnoreDriftDrawsAllFields(t *testing.T) {
	for file, drawn := range map[string][]string{
		"networks": plain(NetworkDriftFields), "networkports": plain(PortDriftFields),
	} {
		t.Run(file, func(t *testing.T) {
			content, err := os.ReadFile("../../config/crd/cloudteam.ztgame.com_" + file + ".yaml")
			expect.NoError(t, err)
			var crd apiextensionsv1.CustomResourceDefinition
			expect.NoError(t, yaml.Unmarshal(content, &crd))
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			var taken []string
			for _, value := range spec.Properties["ignoreDrift"].Items.Schema.Enum {
				taken = append(taken, strings.Trim(string(value.Raw), `"`))
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(taken)), slices.Sorted(slices.Values(drawn))); diff != "" {
				t.Errorf("(-the CRD's +drawn):\n%s", diff)
			}
		})
	}
}

func plain[T ~string](list []T) (texts []string) {
	for _, text := range list {
		texts = append(texts, string(text))
	}
	return texts
}

// What an administrator alone may set is refused to others: drawn each time, it would leave nothing that is not.
func TestAdministratorFieldsAreRarelyDrawn(t *testing.T) {
	limits := testLimits
	limits.Administrator = false
	drawn, refused := 0, 0
	for spec := range examples(func(t *rapid.T) cloudteamv1.NetworkSpec { return limits.Network().Draw(t, "spec") }) {
		router := spec.Router
		drawn++
		if spec.Shared != nil || spec.External != nil || spec.Provider != nil ||
			router != nil && (router.SNAT != nil || router.ExternalIP != "" || router.HA != nil || router.Distributed != nil) {
			refused++
		}
	}
	if refused == 0 || refused > drawn/4 {
		t.Errorf("of %d specs %d take an administrator, want some, and at most a quarter", drawn, refused)
	}
}

// Neutron refuses its routers to subnets in which others advertise, and what it refuses a test that draws specs would wait
// for.
func TestRouterIsNotDrawnForAdvertisedSubnet(t *testing.T) {
	aside := 0
	checkDrawnAndEdited(func(s cloudteamv1.NetworkSpec) {
		for _, subnet := range s.Subnets() {
			if s.Router == nil || subnet.IPv6AddressMode == "" || subnet.IPv6RAMode != "" {
				continue
			}
			if aside++; subnet.Gateway != cloudteamv1.GatewayNone {
				t.Fatalf("a router beside %+v", subnet)
			}
		}
	})
	if aside == 0 {
		t.Error("no router was drawn beside such a subnet")
	}
}

// Neutron refuses a subnet beside others of its IP version that are from another pool, or from none, and the plan a
// second one from the same pool.
func TestOnePoolSubnetPerIPVersion(t *testing.T) {
	beside := 0
	checkDrawnAndEdited(func(s cloudteamv1.NetworkSpec) {
		pools := map[bool][]string{} // by whether it is IPv6
		for _, subnet := range s.Subnets() {
			six := testLimits.IsIPv6(subnet)
			pools[six] = append(pools[six], subnet.SubnetPool)
		}
		for _, of := range pools {
			isFromPool := slices.ContainsFunc(of, func(pool string) bool { return pool != "" })
			switch {
			case isFromPool && len(of) > 1:
				t.Fatalf("these subnets cannot be on one network: %+v", s.Subnets())
			case isFromPool && len(pools) > 1:
				beside++
			}
		}
	})
	if beside == 0 {
		t.Error("no subnet from a pool was drawn beside one of the other version")
	}
}

// drawAndEdit draws a spec, and what it is edited to.
func drawAndEdit(t *rapid.T) [2]cloudteamv1.NetworkSpec {
	spec := testLimits.Network().Draw(t, "spec")
	return [2]cloudteamv1.NetworkSpec{spec, testLimits.NetworkEdit(spec).Draw(t, "edited")}
}

// checkDrawnAndEdited holds specs that are drawn, and what they are edited to.
func checkDrawnAndEdited(hold func(spec cloudteamv1.NetworkSpec)) {
	for specs := range examples(drawAndEdit) {
		hold(specs[0])
		hold(specs[1])
	}
}

// NetworkMayBecome must know the edits that the API server refuses: drawn ones are of both kinds.
func TestSomeEditsChangeImmutableFields(t *testing.T) {
	var may, mayNot int
	for specs := range examples(drawAndEdit) {
		switch {
		case specs[0].SubnetPool == "":
		case NetworkMayBecome(specs[0], specs[1]):
			may++
		default:
			mayNot++
		}
	}
	if mayNot == 0 || may < mayNot {
		t.Errorf("of the edits %d may be and %d may not, want some of both, and more of the former", may, mayNot)
	}
}

func TestNetworkMayBecome(t *testing.T) {
	pooled := func(pool string, length *int32) cloudteamv1.NetworkSpec {
		return cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{SubnetPool: pool, PrefixLength: length}}
	}
	routed := func(r *cloudteamv1.RouterSpec) cloudteamv1.NetworkSpec {
		return cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.0.0.0/24"}, Router: r}
	}
	own, ha := &cloudteamv1.RouterSpec{}, &cloudteamv1.RouterSpec{HA: new(true)}
	for sentence, c := range map[string]struct {
		was, is cloudteamv1.NetworkSpec
		may     bool
	}{
		"a pool stays":                       {pooled("p1", nil), pooled("p1", nil), true},
		"a pool cannot change":               {pooled("p1", nil), pooled("p2", nil), false},
		"a cidr cannot become a pool":        {routed(nil), pooled("p1", nil), false},
		"a pool cannot become a cidr":        {pooled("p1", nil), routed(nil), false},
		"a prefix length cannot be added":    {pooled("p1", nil), pooled("p1", new(int32(26))), false},
		"a prefix length cannot be removed":  {pooled("p1", new(int32(26))), pooled("p1", nil), false},
		"ha can be removed":                  {routed(ha), routed(own), true},
		"ha cannot be added":                 {routed(own), routed(ha), false},
		"ha cannot change":                   {routed(ha), routed(&cloudteamv1.RouterSpec{HA: new(false)}), false},
		"a new router can be of any kind":    {routed(nil), routed(ha), true},
		"so can one that replaces another's": {routed(&cloudteamv1.RouterSpec{Existing: "r"}), routed(ha), true},
		"distributed cannot be added": {
			routed(own), routed(&cloudteamv1.RouterSpec{Distributed: new(false)}), false,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, c.may, NetworkMayBecome(c.was, c.is), "whether it may")
		})
	}
}

func TestAddressesAreCountedFromBothEnds(t *testing.T) {
	for sentence, c := range map[string]struct {
		within string
		number int
		want   string
	}{
		"the network's own":          {"10.0.0.0/24", 0, "10.0.0.0"},
		"the first after it":         {"10.0.0.0/24", 1, "10.0.0.1"},
		"a carry":                    {"10.0.0.0/16", 257, "10.0.1.1"},
		"the last":                   {"10.0.0.0/24", -1, "10.0.0.255"},
		"a borrow":                   {"10.0.0.0/16", -258, "10.0.254.254"},
		"the last of a large range":  {"fd00::/8", -2, "fdff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"},
		"the first of a large range": {"fd00::/8", 2, "fd00::2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := Address(netip.MustParsePrefix(c.within), c.number).String(); got != c.want {
				t.Errorf("%d of %s is %s, want %s", c.number, c.within, got, c.want)
			}
		})
	}
}

// What several NetworkPorts ask for of one Network must not depend on who comes first.
func TestAllocationPoolsExcludeNamedAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := testLimits.Network().Draw(t, "spec")
		place := Place{CIDR: CIDR(spec.SubnetSpec)}
		if !place.CIDR.IsValid() {
			return
		}
		taken := map[netip.Addr]int{}
		for place.Number = range testLimits.Ports {
			for which := range namesPerPort {
				a := testLimits.Named(place, which)
				if other, twice := taken[a]; twice {
					t.Fatalf("%s is both port %d's and port %d's", a, other, place.Number)
				}
				taken[a] = place.Number
				for _, p := range spec.AllocationPools {
					if !a.Less(netip.MustParseAddr(p.Start)) && !netip.MustParseAddr(p.End).Less(a) {
						t.Fatalf("%s of port %d is in the pool %v of %s", a, place.Number, p, spec.CIDR)
					}
				}
			}
		}
	})
}
