package class_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/class"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

type (
	spec   = cloudteamv1.NetworkSpec
	rules  = cloudteamv1.NetworkClassSpec
	router = cloudteamv1.RouterSpec
	subnet = cloudteamv1.SubnetSpec
)

// in is a spec with a cidr in a private range.
func in(change func(*spec)) spec {
	s := spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16"}}
	if change != nil {
		change(&s)
	}
	return s
}

func TestViolations(t *testing.T) {
	team := map[string]string{"team": "a"}
	selecting := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": value}}
	}
	for sentence, c := range map[string]struct {
		of   rules
		spec spec
		want []string
	}{
		"a cidr of its own":               {rules{}, in(nil), nil},
		"a router of its own":             {rules{}, in(func(s *spec) { s.Router = &router{ExternalNetwork: "outside"} }), nil},
		"a pool, whatever its range":      {rules{}, spec{SubnetSpec: subnet{SubnetPool: "office"}}, nil},
		"a cidr that is none":             {rules{}, spec{SubnetSpec: subnet{CIDR: "x"}}, nil},
		"unique local addresses":          {rules{}, spec{SubnetSpec: subnet{CIDR: "FD00:1::/64"}}, nil},
		"a carrier's range":               {rules{}, spec{SubnetSpec: subnet{CIDR: "100.64.0.0/10"}}, nil},
		"more than a private range":       {rules{}, spec{SubnetSpec: subnet{CIDR: "10.0.0.0/7"}}, []string{"spec.cidr"}},
		"a global range":                  {rules{}, spec{SubnetSpec: subnet{CIDR: "2001:db8::/64"}}, []string{"spec.cidr"}},
		"link-local addresses":            {rules{}, spec{SubnetSpec: subnet{CIDR: "fe80::/64"}}, []string{"spec.cidr"}},
		"the metadata service's range":    {rules{}, spec{SubnetSpec: subnet{CIDR: "169.254.0.0/16"}}, []string{"spec.cidr"}},
		"IPv4 in IPv6's spelling":         {rules{}, spec{SubnetSpec: subnet{CIDR: "::ffff:10.0.0.0/120"}}, []string{"spec.cidr"}},
		"all of IPv4 is not all of IPv6":  {rules{AllowedRanges: []string{"0.0.0.0/0"}}, spec{SubnetSpec: subnet{CIDR: "fd00::/64"}}, []string{"spec.cidr"}},
		"a range that the class has":      {rules{AllowedRanges: []string{"8.8.0.0/16"}}, spec{SubnetSpec: subnet{CIDR: "8.8.8.0/24"}}, nil},
		"a private one that it has not":   {rules{AllowedRanges: []string{"8.8.0.0/16"}}, in(nil), []string{"spec.cidr"}},
		"an additional subnet, by number": {rules{}, in(func(s *spec) { s.AdditionalSubnets = []subnet{{CIDR: "10.2.0.0/16"}, {CIDR: "1.1.1.0/24"}} }), []string{"spec.additionalSubnets[1].cidr"}},
		"false is a value, too":           {rules{}, in(func(s *spec) { s.Shared, s.External = new(false), new(false) }), []string{"spec.shared", "spec.external"}},
		"no projects are a value, too":    {rules{}, in(func(s *spec) { s.SharedWith = []string{} }), []string{"spec.sharedWith"}},
		"a field that is allowed": {
			rules{AllowedFields: []cloudteamv1.PrivilegedField{"snat"}},
			in(func(s *spec) { s.Router = &router{SNAT: new(false), HA: new(true)} }), []string{"spec.router.ha"},
		},
		"a namespace that is selected":     {rules{NamespaceSelector: selecting("a")}, in(nil), nil},
		"a namespace that is not selected": {rules{NamespaceSelector: selecting("b")}, in(nil), []string{"spec.className"}},
		"an empty selector selects all":    {rules{NamespaceSelector: &metav1.LabelSelector{}}, in(nil), nil},
		"a selector that cannot be read selects none": {
			rules{NamespaceSelector: selecting("not a label")}, in(nil), []string{"spec.className"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			for _, v := range (class.Class{Name: "gold", Spec: c.of}).Violations("team-a", team, &c.spec) {
				got = append(got, v.Field)
			}
			expect.Equal(t, c.want, got, "fields")
		})
	}
}

func TestMessageSaysWhatWhyAndWhatToDo(t *testing.T) {
	s := in(func(s *spec) { s.CIDR, s.Shared = "8.8.8.0/24", new(true) })
	c := class.Class{Name: "gold", Spec: rules{AllowedRanges: []string{"10.0.0.0/8"}}}
	want := `NetworkClass "gold" forbids spec.shared, spec.cidr 8.8.8.0/24. Nothing is created. Leave spec.shared out, or ` +
		`name a class whose allowedFields have shared; write a cidr inside 10.0.0.0/8, or name a class whose allowedRanges ` +
		`have it.`
	expect.Equal(t, want, c.Message(c.Violations("team-a", nil, &s), "Nothing is created."), "the message")
}

func TestDefaultIsTheNewestThenTheFirstByName(t *testing.T) {
	at := func(name string, second int64, value string) *cloudteamv1.NetworkClass {
		return &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0)),
			Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: value},
		}}
	}
	all := []*cloudteamv1.NetworkClass{
		at("old", 1, "true"), at("b", 2, "true"), at("a", 2, "true"), at("newest", 3, "false"), {},
	}
	rapid.Check(t, func(t *rapid.T) {
		if got := class.Default(rapid.Permutation(all).Draw(t, "order")); got == nil || got.Name != "a" {
			t.Errorf("the default class is %v, want a", got)
		}
	})
	if got := class.Default(all[3:]); got != nil {
		t.Errorf("%q is the default without the annotation", got.Name)
	}
}

func TestWithDefaults(t *testing.T) {
	full := &cloudteamv1.ClassDefaults{
		MTU: new(int32(1400)), DNSServers: []string{"10.0.0.53", "fd00::53"}, SubnetPool: "office",
		Router: &cloudteamv1.ClassRouter{ExternalNetwork: "outside", SNAT: new(true)},
	}
	made := &router{ExternalNetwork: "outside", SNAT: new(true)}
	for sentence, c := range map[string]struct {
		spec, want spec
	}{
		"what is left out is filled in": {
			spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16"}, AdditionalSubnets: []subnet{{CIDR: "fd01::/64"}, {SubnetPool: "six"}}},
			spec{
				SubnetSpec: subnet{CIDR: "10.1.0.0/16", DNSServers: []string{"10.0.0.53"}},
				AdditionalSubnets: []subnet{
					{CIDR: "fd01::/64", DNSServers: []string{"fd00::53"}}, {SubnetPool: "six"},
				},
				MTU: new(int32(1400)), Router: made,
			},
		},
		"without a range the pool gives one": {spec{}, spec{SubnetSpec: subnet{SubnetPool: "office"}, MTU: new(int32(1400)), Router: made}},
		"what is said stays": {
			spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16", DNSServers: []string{"9.9.9.9"}}, MTU: new(int32(1300)), Router: &router{}},
			spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16", DNSServers: []string{"9.9.9.9"}}, MTU: new(int32(1300)), Router: &router{}},
		},
		"an import is as it is": {
			spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16"}, Import: &cloudteamv1.NetworkImport{}},
			spec{SubnetSpec: subnet{CIDR: "10.1.0.0/16"}, Import: &cloudteamv1.NetworkImport{}},
		},
		"no router where another advertises": {
			spec{SubnetSpec: subnet{CIDR: "fd01::/64", IPv6AddressMode: "slaac", DNSServers: []string{"::1"}}},
			spec{SubnetSpec: subnet{CIDR: "fd01::/64", IPv6AddressMode: "slaac", DNSServers: []string{"::1"}}, MTU: new(int32(1400))},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			before := *c.spec.DeepCopy()
			if diff := cmp.Diff(c.want, class.WithDefaults(c.spec, full)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			expect.Equal(t, before, c.spec, "the spec has changed")
		})
	}
}

// drawSpec draws specs with each privileged field now and then.
func drawSpec() *rapid.Generator[spec] {
	flag := rapid.Custom(func(t *rapid.T) *bool {
		return rapid.SampledFrom([]*bool{nil, nil, nil, new(true), new(false)}).Draw(t, "flag")
	})
	cidr := rapid.SampledFrom([]string{
		"", "10.0.0.0/8", "10.1.0.0/16", "192.168.4.0/24", "fd00::/64", "8.8.8.0/24", "2001:db8::/64", "9.0.0.0/7", "x",
	})
	return rapid.Custom(func(t *rapid.T) spec {
		s := spec{
			SubnetSpec: subnet{CIDR: cidr.Draw(t, "cidr")}, Shared: flag.Draw(t, "shared"), External: flag.Draw(t, "external"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "subnets") {
			s.AdditionalSubnets = append(s.AdditionalSubnets, subnet{CIDR: cidr.Draw(t, "another")})
		}
		if rapid.IntRange(0, 9).Draw(t, "import") == 0 {
			s.Import = &cloudteamv1.NetworkImport{}
		}
		if rapid.IntRange(0, 9).Draw(t, "provider") == 0 {
			s.Provider = &cloudteamv1.ProviderSpec{}
		}
		if rapid.IntRange(0, 9).Draw(t, "sharedWith") == 0 {
			s.SharedWith = []string{"p2"}
		}
		if rapid.Bool().Draw(t, "router") {
			s.Router = &router{
				SNAT: flag.Draw(t, "snat"), HA: flag.Draw(t, "ha"), Distributed: flag.Draw(t, "distributed"),
				Existing:   rapid.SampledFrom([]string{"", "", "r1"}).Draw(t, "existing"),
				ExternalIP: rapid.SampledFrom([]string{"", "", "203.0.113.9"}).Draw(t, "externalIP"),
			}
		}
		return s
	})
}

// touched are the privileged fields that a spec sets, by their names in Go: a second opinion.
func touched(s spec) (fields []string) {
	note := func(of reflect.Value, names ...string) {
		for _, name := range names {
			if !of.FieldByName(name).IsZero() {
				fields = append(fields, name)
			}
		}
	}
	note(reflect.ValueOf(s), "Import", "SharedWith", "Provider", "External", "Shared")
	if s.Router != nil {
		note(reflect.ValueOf(*s.Router), "Existing", "HA", "Distributed", "ExternalIP", "SNAT")
	}
	return fields
}

func TestWhatTheBuiltInClassAllowsTouchesNoPrivilegedField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec().Draw(t, "spec")
		violations := class.Class{}.Violations("team", nil, &s)
		public := slices.ContainsFunc(s.Subnets(), func(s subnet) bool {
			return slices.Contains([]string{"8.8.8.0/24", "2001:db8::/64", "9.0.0.0/7"}, s.CIDR)
		})
		if forbidden := len(touched(s)) > 0 || public; forbidden != (len(violations) > 0) {
			t.Errorf("fields %v and public ranges %t have violations %v", touched(s), public, violations)
		}
	})
}

func TestDefaultsAreIdempotentAndAddNoViolation(t *testing.T) {
	defaults := &cloudteamv1.ClassDefaults{
		MTU: new(int32(1400)), DNSServers: []string{"10.0.0.53", "fd00::53"}, SubnetPool: "office",
		Router: &cloudteamv1.ClassRouter{},
	}
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec().Draw(t, "spec")
		once := class.WithDefaults(s, defaults)
		expect.Equal(t, once, class.WithDefaults(once, defaults), "twice is not once")
		before, after := (class.Class{}).Violations("n", nil, &s), (class.Class{}).Violations("n", nil, &once)
		expect.Equal(t, before, after, "the defaults change the violations")
	})
}

func TestPortViolations(t *testing.T) {
	pairs := []cloudteamv1.AddressPair{{Address: "10.0.0.100"}}
	for sentence, c := range map[string]struct {
		allowed []cloudteamv1.PrivilegedField
		spec    cloudteamv1.NetworkPortSpec
		want    []string
	}{
		"nothing":                       {nil, cloudteamv1.NetworkPortSpec{QoSPolicy: "gold", DNSName: "web"}, nil},
		"no pairs":                      {nil, cloudteamv1.NetworkPortSpec{AllowedAddressPairs: pairs[:0]}, nil},
		"port security is always right": {nil, cloudteamv1.NetworkPortSpec{PortSecurity: new(true)}, nil},
		"neither without a class": {
			nil, cloudteamv1.NetworkPortSpec{AllowedAddressPairs: pairs, PortSecurity: new(false)},
			[]string{"spec.allowedAddressPairs", "spec.portSecurity"},
		},
		"what a class allows": {
			[]cloudteamv1.PrivilegedField{"allowedAddressPairs"},
			cloudteamv1.NetworkPortSpec{AllowedAddressPairs: pairs, PortSecurity: new(false)}, []string{"spec.portSecurity"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			for _, v := range (class.Class{Spec: rules{AllowedFields: c.allowed}}).PortViolations(nil, &c.spec) {
				got = append(got, v.Field)
			}
			expect.Equal(t, c.want, got, "fields")
		})
	}
}

// TestAClassThatIsNotForTheNamespaceAllowsPortsNothing: the Network may have named it a moment ago.
func TestAClassThatIsNotForTheNamespaceAllowsPortsNothing(t *testing.T) {
	c := class.Class{Spec: rules{
		AllowedFields:     []cloudteamv1.PrivilegedField{"floatingIP"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
	}}
	spec := &cloudteamv1.NetworkPortSpec{FloatingIP: &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}}
	if found := c.PortViolations(map[string]string{"team": "a"}, spec); len(found) > 0 {
		t.Errorf("in a namespace that it is for, it forbids %v", found)
	}
	if found := c.PortViolations(map[string]string{"team": "b"}, spec); len(found) != 1 {
		t.Errorf("in another one, it forbids %v, want the field", found)
	}
}

func TestViolationsOfFloatingIPs(t *testing.T) {
	allowed := []cloudteamv1.PrivilegedField{"snat", "floatingIP"}
	selecting := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": value}}
	}
	const (
		another  = "name a class for this namespace in spec.className"
		allowing = "name a class whose allowedFields have floatingIP in spec.className"
		reached  = "name a port in spec.portName that is on a Network whose class is for its namespace and has floatingIP in " +
			"allowedFields"
	)
	ofNamespace := []class.Violation{{Field: "spec.className", Problem: "objects in namespace team-a", Remedy: another}}
	ofField := []class.Violation{{Field: "spec.className", Problem: "FloatingIPs", Remedy: allowing}}
	leading := []class.Violation{{
		Field: "spec.portName", Problem: "floating IPs of ports on Network net", Remedy: reached,
	}}
	for sentence, c := range map[string]struct {
		of rules
		// want is what the class forbids of a FloatingIP of its own, and wantTo of one that leads to a port on a Network.
		want, wantTo []class.Violation
	}{
		"the built-in class":          {rules{}, ofField, leading},
		"other fields are allowed":    {rules{AllowedFields: allowed[:1]}, ofField, leading},
		"it is allowed":               {rules{AllowedFields: allowed}, nil, nil},
		"it is allowed, for the team": {rules{AllowedFields: allowed, NamespaceSelector: selecting("a")}, nil, nil},
		"it is allowed to others":     {rules{AllowedFields: allowed, NamespaceSelector: selecting("b")}, ofNamespace, leading},
		"nothing, and to others":      {rules{NamespaceSelector: selecting("b")}, ofNamespace, leading},
		"a selector that cannot be read": {
			rules{AllowedFields: allowed, NamespaceSelector: selecting("not a label")}, ofNamespace, leading,
		},
		"a range is none of its": {rules{AllowedFields: allowed, AllowedRanges: []string{"8.8.0.0/16"}}, nil, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			judge, team := class.Class{Name: "gold", Spec: c.of}, map[string]string{"team": "a"}
			expect.Equal(t, c.want, judge.FloatingIPViolations("team-a", team, &cloudteamv1.FloatingIPSpec{}), "of its own")
			expect.Equal(t, c.wantTo, judge.FloatingToViolations("net", team), "that lead to its ports")
		})
	}
}

// TestAFloatingIPOfChoiceNeedsMoreThanAnyOther has one of an address, and one that exists.
func TestAFloatingIPOfChoiceNeedsMoreThanAnyOther(t *testing.T) {
	for field, spec := range map[cloudteamv1.PrivilegedField]cloudteamv1.FloatingIPSpec{
		cloudteamv1.FieldImport:     {Import: &cloudteamv1.FloatingIPImport{ID: "f"}},
		cloudteamv1.FieldExternalIP: {Address: "203.0.113.7"},
	} {
		c := class.Class{Name: "gold", Spec: rules{AllowedFields: []cloudteamv1.PrivilegedField{"floatingIP"}}}
		found := c.FloatingIPViolations("team-a", nil, &spec)
		if len(found) != 1 || !strings.Contains(found[0].Remedy, "allowedFields have "+string(field)) {
			t.Errorf("without %s, the class forbids %v", field, found)
		}
		c.Spec.AllowedFields = append(c.Spec.AllowedFields, field)
		expect.Empty(t, c.FloatingIPViolations("team-a", nil, &spec), "forbidden with %s", field)
	}
}

func TestAPortsFloatingAddressNeedsMoreThanAnyOther(t *testing.T) {
	spec := &cloudteamv1.NetworkPortSpec{FloatingIP: &cloudteamv1.PortFloatingIP{ExternalNetwork: "public", Address: "203.0.113.7"}}
	c := class.Class{Spec: rules{AllowedFields: []cloudteamv1.PrivilegedField{"floatingIP"}}}
	found := c.PortViolations(nil, spec)
	if len(found) != 1 || found[0].Field != "spec.floatingIP.address" {
		t.Errorf("without externalIP, the class forbids %v", found)
	}
	c.Spec.AllowedFields = append(c.Spec.AllowedFields, cloudteamv1.FieldExternalIP)
	expect.Empty(t, c.PortViolations(nil, spec), "forbidden with externalIP")
}

func TestMessageAboutAFloatingIP(t *testing.T) {
	c := class.Class{Name: "gold"}
	want := `NetworkClass "gold" forbids FloatingIPs. Nothing is created. Name a class whose allowedFields have floatingIP ` +
		`in spec.className.`
	expect.Equal(t, want, c.Message(c.FloatingIPViolations("team-a", nil, &cloudteamv1.FloatingIPSpec{}), "Nothing is created."), "the message")
}
