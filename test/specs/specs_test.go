package specs

import (
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

var testLimits = Limits{Namespaces: []string{"team-a"}, SecurityGroups: []string{"g1", "g2"}, MaxMTU: 1450, Ports: 3}

var testPlace = Place{
	Namespace: "team-a", NetworkNamespace: "team-b", NetworkName: "net", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
}

// seen counts how often fields were set and unset.
type seen struct {
	mu         sync.Mutex
	set, unset map[string]int
}

// look notes which fields of a spec are set, those that stand directly in it included.
func (s *seen) look(spec reflect.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range reflect.VisibleFields(spec.Type()) {
		switch {
		case f.Anonymous:
		case spec.FieldByIndex(f.Index).IsZero():
			s.unset[f.Name]++
		default:
			s.set[f.Name]++
		}
	}
}

// administrators are the fields that take an administrator's credentials, or what clouds for tests do not have.
var administrators = []string{"Shared", "External", "Provider", "AvailabilityZoneHints"}

// A field that is never drawn, such as a new one, is tested by none of the tests that draw specs.
func TestEveryFieldIsDrawnAndLeftOut(t *testing.T) {
	never := map[string]bool{
		// What is imported is there already, and a cloud has credentials, which a draw does not know.
		"Import": true, "ManagementPolicy": true, "Cloud": true,
		// A router has the gateways' addresses, which a NetworkPort that is drawn may name: who comes first has it, and the
		// end is not the same each time. The properties in internal/network draw routers, and test/faults sweeps them.
		"Router": true,
	}
	edited := func(t *rapid.T) any {
		return testLimits.NetworkEdit(testLimits.Network().Draw(t, "spec")).Draw(t, "edited")
	}
	for sentence, c := range map[string]struct {
		draw   func(t *rapid.T) any
		always []string
	}{
		"of a Network":            {func(t *rapid.T) any { return testLimits.Network().Draw(t, "spec") }, []string{"CIDR"}},
		"of a Network's edit":     {edited, []string{"CIDR"}},
		"of a Network, no limits": {func(t *rapid.T) any { return Limits{}.Network().Draw(t, "spec") }, []string{"CIDR"}},
		"of a NetworkPort": {
			func(t *rapid.T) any {
				place := testPlace
				if rapid.Bool().Draw(t, "at home") {
					place.NetworkNamespace = place.Namespace
				}
				return testLimits.NetworkPort(place).Draw(t, "spec")
			},
			[]string{"NetworkName"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := seen{set: map[string]int{}, unset: map[string]int{}}
			var kind reflect.Type
			rapid.Check(t, func(t *rapid.T) {
				for range 20 {
					value := reflect.ValueOf(c.draw(t))
					kind = value.Type()
					s.look(value)
				}
			})
			for _, f := range reflect.VisibleFields(kind) {
				if f.Anonymous || never[f.Name] {
					continue
				}
				always := false
				for _, name := range c.always {
					always = always || name == f.Name
				}
				if slices.Contains(administrators, f.Name) {
					continue
				}
				if s.set[f.Name] == 0 || s.unset[f.Name] == 0 != always {
					t.Errorf("%s was set %d times and left out %d times", f.Name, s.set[f.Name], s.unset[f.Name])
				}
			}
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
func TestNoPoolHoldsWhatPortsName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := testLimits.Network().Draw(t, "spec")
		place := Place{CIDR: netip.MustParsePrefix(spec.CIDR)}
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
