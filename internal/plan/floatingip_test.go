package plan_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// floatingTo declares a floating IP that leads to a port, or nowhere.
func floatingTo(port string) FloatingSpec {
	s := FloatingSpec{Owner: testOwner, NetworkID: "outside", PortID: port}
	if port != "" {
		s.Fixed = []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.9")}
	}
	return s
}

// led is a floating IP that bears the marker and leads to an address of a port, or nowhere.
func led(id, port, to string) ObservedFloatingIP {
	f := ObservedFloatingIP{ID: id, Revision: 3, Created: plantest.Epoch, PortID: port}
	f.Description, f.NetworkID = testOwner.Marker(), "outside"
	if to != "" {
		f.Fixed = netip.MustParseAddr(to)
	}
	return f
}

func TestFloatingIPPlan(t *testing.T) {
	young, moved := led("fip-2", "", ""), led("fip-1", "", "")
	young.Created, moved.NetworkID = young.Created.Add(1), "outside-2"
	kept := floatingTo("")
	kept.Retain = true
	for what, test := range map[string]struct {
		spec FloatingSpec
		has  []ObservedFloatingIP
		want []string
	}{
		"a new one that leads nowhere": {floatingTo(""), nil, []string{
			"create floating IP of network outside (no floating IP of the network bears the owner's marker)",
		}},
		"a new one for a port": {floatingTo("port-1"), nil, []string{
			"create floating IP of network outside for port port-1 (no floating IP of the network bears the owner's marker)",
		}},
		"nowhere, as declared":     {floatingTo(""), []ObservedFloatingIP{led("fip-1", "", "")}, nil},
		"to its port, as declared": {floatingTo("port-1"), []ObservedFloatingIP{led("fip-1", "port-1", "10.0.0.9")}, nil},
		"the port comes":           {floatingTo("port-1"), []ObservedFloatingIP{led("fip-1", "", "")}, []string{"update floating IP fip-1: port none → of port port-1 (it differs from the spec)"}},
		"another port": {floatingTo("port-2"), []ObservedFloatingIP{led("fip-1", "port-1", "10.0.0.7")}, []string{
			"update floating IP fip-1: port port-1 → none (it differs from the spec)",
			"update floating IP fip-1: port none → of port port-2 (it differs from the spec)",
		}},
		"the port goes":             {floatingTo(""), []ObservedFloatingIP{led("fip-1", "port-1", "10.0.0.7")}, []string{"update floating IP fip-1: port port-1 → none (it differs from the spec)"}},
		"the port lost the address": {floatingTo("port-1"), []ObservedFloatingIP{led("fip-1", "port-1", "10.0.0.8")}, []string{"update floating IP fip-1: port 10.0.0.8 → of another address of port port-1 (it differs from the spec)"}},
		"another deletionPolicy": {kept, []ObservedFloatingIP{led("fip-1", "", "")}, []string{
			"update floating IP fip-1: deletionPolicy Delete → Retain (it differs from the spec)",
		}},
		"of two, the one that leads to the port stays": {
			floatingTo("port-1"), []ObservedFloatingIP{led("fip-1", "", ""), func() ObservedFloatingIP {
				f := young
				f.PortID, f.Fixed = "port-1", netip.MustParseAddr("10.0.0.7")
				return f
			}()},
			[]string{"delete floating IP fip-1 (it is a duplicate of floating IP fip-2)"},
		},
		"a younger one goes": {floatingTo(""), []ObservedFloatingIP{led("fip-1", "", ""), young}, []string{
			"delete floating IP fip-2 (it is a duplicate of floating IP fip-1)",
		}},
		"one of another network": {floatingTo(""), []ObservedFloatingIP{moved}, []string{
			"delete floating IP fip-1 (it is of another external network than the declared one)",
			"create floating IP of network outside (no floating IP of the network bears the owner's marker)",
		}},
	} {
		t.Run(what, func(t *testing.T) {
			observed := Observed{FloatingIPs: test.has}
			change, err := FloatingIP(test.spec, observed)
			wantChange(t, change, err, test.want)
		})
	}
}

// TestAFloatingIPNamesItsAddress: a request for another reason moves it to no other address of its port.
func TestAFloatingIPNamesItsAddress(t *testing.T) {
	kept := floatingTo("port-1")
	kept.Retain = true
	for what, test := range map[string]struct {
		spec FloatingSpec
		has  []ObservedFloatingIP
		want string
	}{
		"a new one":              {floatingTo("port-1"), nil, "10.0.0.7"},
		"one that gets its port": {floatingTo("port-1"), []ObservedFloatingIP{led("fip-1", "", "")}, "10.0.0.7"},
		"another deletionPolicy": {kept, []ObservedFloatingIP{led("fip-1", "port-1", "10.0.0.9")}, "10.0.0.9"},
	} {
		change, err := FloatingIP(test.spec, Observed{FloatingIPs: test.has})
		expect.NoError(t, err)
		if len(change) != 1 || change[0].FloatingIP.Fixed.String() != test.want {
			t.Errorf("%s: %v, want one step to %s", what, change, test.want)
		}
	}
}

func TestFloatingIPOfOthersIsRefused(t *testing.T) {
	theirs := led("fip-1", "port-1", "10.0.0.7")
	theirs.Description = otherOwner.Marker()
	observed := Observed{FloatingIPs: []ObservedFloatingIP{theirs}}
	if _, err := FloatingIP(floatingTo("port-1"), observed); err == nil || !strings.Contains(err.Error(), "marker") {
		t.Errorf("another owner's floating IP: %v", err)
	}
	if _, err := FloatingIP(FloatingSpec{Owner: testOwner}, Observed{}); err == nil {
		t.Error("one of no network is planned")
	}
}

// TestPropertyAFloatingIPConverges holds that any floating IP becomes as declared, whatever the spec was before,
// whatever others did, and wherever plans were interrupted. Its address stays as long as the network does. Others'
// floating IPs stay as they are. Then nothing is left to do.
func TestPropertyAFloatingIPConverges(t *testing.T) {
	specs := rapid.Custom(func(t *rapid.T) FloatingSpec {
		s := floatingTo(rapid.SampledFrom([]string{"", "port-1", "port-2"}).Draw(t, "port"))
		s.Retain = rapid.Bool().Draw(t, "retain")
		s.NetworkID = rapid.SampledFrom([]string{"outside", "outside", "outside-2"}).Draw(t, "network")
		s.Address = rapid.SampledFrom([]netip.Addr{{}, {}, netip.MustParseAddr("198.51.100.7")}).Draw(t, "address")
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		theirs := ObservedFloatingIP{ID: "theirs", PortID: "port-2"}
		theirs.Fixed = netip.MustParseAddr("10.0.0.7")
		theirs.NetworkID, theirs.Description = "outside-3", otherOwner.Marker()
		c := plantest.Neutron{FloatingIPs: []ObservedFloatingIP{theirs}}
		for _, id := range []string{"port-1", "port-2"} {
			c.Ports = append(c.Ports, ObservedPort{ID: id, PortAttributes: PortAttributes{
				Addresses: []PortAddress{{Address: netip.MustParseAddr("10.0.0.7")}},
			}})
		}
		take := func(spec FloatingSpec, some bool) (done int) {
			change, err := FloatingIP(spec, c.Observe(testOwner))
			expect.NoError(t, err)
			done = len(change)
			if some {
				done = rapid.IntRange(0, len(change)).Draw(t, "taken")
			}
			if _, err := c.Apply(change[:done]); err != nil {
				t.Fatalf("%v\n%v", err, change)
			}
			return len(change)
		}
		take(specs.Draw(t, "before"), true)
		for _, f := range c.Observe(testOwner).FloatingIPs {
			switch rapid.IntRange(0, 3).Draw(t, "others") {
			case 0:
				own := c.FloatingIP(f.ID)
				own.PortID, own.Fixed, own.Revision = "", netip.Addr{}, own.Revision+1
			case 1:
				c.Remove(f.ID)
			case 2:
				double := f
				double.ID, double.PortID, double.Fixed = "double", "", netip.Addr{}
				double.Address = double.Address.Next()
				c.FloatingIPs = append(c.FloatingIPs, double)
			}
		}
		spec := specs.Draw(t, "spec")
		take(spec, true)
		was := c.Observe(testOwner).FloatingIPs
		take(spec, false)
		observed := c.Observe(testOwner)
		if take(spec, false) != 0 || !spec.Complete(observed) || len(observed.FloatingIPs) != 1 {
			t.Fatalf("what was applied is planned again: %+v", observed.FloatingIPs)
		}
		is := observed.FloatingIPs[0]
		had := slices.ContainsFunc(was, func(f ObservedFloatingIP) bool {
			return f.NetworkID == spec.NetworkID && (f.Address == spec.Address || !spec.Address.IsValid())
		})
		if had && !slices.ContainsFunc(was, func(f ObservedFloatingIP) bool { return f.ID == is.ID }) {
			t.Fatalf("the address changed: of %+v, none is %+v", was, is)
		}
		if spec.Address.IsValid() && is.Address != spec.Address || is.PortID != spec.PortID || is.NetworkID != spec.NetworkID {
			t.Fatalf("it is %+v, want %+v", is, spec)
		}
		if diff := cmp.Diff(theirs, *c.FloatingIP("theirs"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Fatalf("another owner's floating IP changed:\n%s", diff)
		}
		gone, err := Orphan(testOwner, observed)
		expect.NoError(t, err)
		if _, err := c.Apply(gone); err != nil {
			t.Fatal(err)
		}
		if left := c.Observe(testOwner); !left.Empty() || (c.FloatingIP(is.ID) != nil) != spec.Retain {
			t.Fatalf("after the object's end: %+v", c.FloatingIPs)
		}
	})
}

// TestAFloatingIPIsAdoptedWithItsText holds what an import writes, and that it is released as it was.
func TestAFloatingIPIsAdoptedWithItsText(t *testing.T) {
	for _, text := range []string{"", "of the web server", strings.Repeat("数", MaxUserDescription-len(" [retain]"))} {
		for _, retain := range []bool{false, true} {
			there := ObservedFloatingIP{ID: "f", Revision: 3}
			there.NetworkID, there.Description, there.QoSPolicy = "outside", text, "gold"
			spec := floatingTo("")
			spec.ImportID, spec.Retain = "f", retain
			change, err := AdoptFloatingIP(spec, there)
			expect.NoError(t, err)
			if len(change) != 1 || change[0].Action != TakeFloatingIP || change[0].Revision != 3 || change[0].FloatingIP.QoSPolicy != "gold" {
				t.Fatalf("the import of %q is %+v", text, change)
			}
			there.Description = change[0].FloatingIP.Description
			all := Observed{FloatingIPs: []ObservedFloatingIP{there}}
			if change, err := FloatingIP(spec, all); err != nil || !change.Empty() {
				t.Errorf("after the import of %q there is left: %v, %v", text, change, err)
			}
			if again, err := AdoptFloatingIP(spec, there); err != nil || !again.Empty() {
				t.Errorf("the second import of %q is %v, %v", text, again, err)
			}
			if out := Release(testOwner, all); len(out) != 1 || out[0].FloatingIP.Description != text {
				t.Errorf("the release of %q is %+v", text, out)
			}
		}
	}
}

func TestAFloatingIPThatIsAnothersOrInUseIsNotImported(t *testing.T) {
	spec := floatingTo("port-1")
	spec.ImportID, spec.Address = "f", netip.MustParseAddr("203.0.113.7")
	for name, test := range map[string]struct {
		change func(*ObservedFloatingIP)
		says   string
	}{
		"another object's":          {func(f *ObservedFloatingIP) { f.Description = otherOwner.Marker() }, "Another object owns floating IP f"},
		"of another network":        {func(f *ObservedFloatingIP) { f.NetworkID = "outside-2" }, "outside-2"},
		"another address":           {func(f *ObservedFloatingIP) { f.Address = f.Address.Next() }, "203.0.113.8"},
		"at another port":           {func(f *ObservedFloatingIP) { f.PortID = "port-2" }, "port-2"},
		"without room for a marker": {func(f *ObservedFloatingIP) { f.Description = strings.Repeat("x", 170) }, "has no room"},
	} {
		there := ObservedFloatingIP{ID: "f"}
		there.NetworkID, there.Address = "outside", spec.Address
		if change, err := AdoptFloatingIP(spec, there); err != nil || len(change) != 1 {
			t.Fatalf("it cannot be imported at all: %v, %v", change, err)
		}
		test.change(&there)
		change, err := AdoptFloatingIP(spec, there)
		text := fmt.Sprint(err)
		if other, ok := errors.AsType[*DiffersError](err); ok {
			text = fmt.Sprint(other.Differences)
		}
		if len(change) > 0 || !strings.Contains(text, test.says) {
			t.Errorf("%s: %v and %s", name, change, text)
		}
	}
	_, err := FloatingIP(spec, Observed{})
	if missing, ok := errors.AsType[*NotMadeError](err); !ok || missing.ID != "f" {
		t.Errorf("without the floating IP: %v", err)
	}
	marked := ObservedFloatingIP{ID: "g"}
	marked.Description, marked.NetworkID = testOwner.Marker(), "outside"
	change, err := FloatingIP(spec, Observed{FloatingIPs: []ObservedFloatingIP{marked}})
	if _, blocked := errors.AsType[*BlockedError](err); !blocked || len(change) > 0 {
		t.Errorf("with another one that bears the marker: %v, %v", change, err)
	}
}

// TestPropertyAnImportedFloatingIPIsNeitherMadeNorDeleted holds that also for one that somebody marked by hand.
func TestPropertyAnImportedFloatingIPIsNeitherMadeNorDeleted(t *testing.T) {
	networks := rapid.SampledFrom([]string{"outside", "outside-2"})
	addresses := rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8")})
	ports := rapid.SampledFrom([]string{"", "port-1", "port-2"})
	rapid.Check(t, func(t *rapid.T) {
		spec := floatingTo(ports.Draw(t, "port"))
		spec.ImportID, spec.NetworkID, spec.Address = "f", networks.Draw(t, "network"), addresses.Draw(t, "address")
		var all []ObservedFloatingIP
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"f", "g"}), 0, 2, rapid.ID).Draw(t, "ids") {
			f := led(id, ports.Draw(t, "port of one"), "")
			f.NetworkID, f.Address = networks.Draw(t, "network of one"), addresses.Draw(t, "address of one")
			all = append(all, f)
		}
		change, err := FloatingIP(spec, Observed{FloatingIPs: all})
		if slices.ContainsFunc(change, func(s Step) bool { return s.Action != UpdateFloatingIP }) {
			t.Fatalf("of %+v, the plan is\n%s", all, change)
		}
		alone := len(all) == 1 && all[0].ID == "f"
		is := alone && all[0].NetworkID == spec.NetworkID && (!spec.Address.IsValid() || all[0].Address == spec.Address)
		if _, differs := errors.AsType[*DiffersError](err); (err == nil) != is || differs != (alone && !is) {
			t.Fatalf("%+v is planned with %v", all, err)
		}
	})
}
