package inventory

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// putPortIn is what Neutron already has: a port, which is nobody's here, with an address in each of the subnets.
func (b *bench) putPortIn(id string, subnets ...string) {
	b.neutron.change(func() {
		p := &wirePort{wireBase: wireBase{ID: id, Revision: 1, Created: created("2026-01-02T03:04:05Z")}, NetworkID: "net"}
		for i, s := range subnets {
			p.FixedIPs = append(p.FixedIPs, wireFixedIP{s, fmt.Sprintf("10.0.0.%d", i+2)})
		}
		b.neutron.ports[id] = p
	})
}

// tells has Neutron tell how many addresses of subnets are in use, as it does an administrator; with nil, no more.
func (b *bench) tells(used map[string]int) {
	var subnets []any
	for id, n := range used {
		subnets = append(subnets, map[string]any{"subnet_id": id, "total_ips": 253, "used_ips": n})
	}
	b.neutron.change(func() {
		b.neutron.availabilities = nil
		if used != nil {
			b.neutron.availabilities = []map[string]any{{"subnet_ip_availability": subnets}}
		}
	})
}

// used is how many addresses of the object's only subnet are in use, or "unknown".
func (b *bench) used(t *testing.T, object string) string {
	t.Helper()
	return usedIn(t, b.observed(t, object)...)
}

func usedIn(t *testing.T, networks ...plan.ObservedNetwork) string {
	t.Helper()
	if len(networks) != 1 || len(networks[0].Subnets) != 1 {
		t.Fatalf("not one network with one subnet: %+v", networks)
	}
	if used := networks[0].Subnets[0].Used; used != nil {
		return fmt.Sprint(*used)
	}
	return "unknown"
}

func TestATenantsAddressesAreCountedByThePortsOfItsProject(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("a", ownerOf("o").Marker())
	b.put("b", ownerOf("x").Marker())
	for _, step := range []struct {
		name   string
		change func()
		a, b   string
		moved  []string
	}{
		{"at first there are none", func() {}, "0", "0", []string{"o", "x"}},
		{"nothing happened", func() {}, "0", "0", nil},
		{"ports came, whoever's, with several addresses and elsewhere", func() {
			b.putPortIn("p1", "sub-a")
			b.putPortIn("p2", "sub-a", "sub-a", "elsewhere")
			b.putPortIn("p3")
		}, "3", "0", []string{"o"}},
		{"a port of another project does not count: it is not shown", func() {
			b.putPortIn("theirs", "sub-a")
			b.neutron.change(func() { b.neutron.projects["theirs"] = "project-2" })
		}, "3", "0", nil},
		{"a port moved to another subnet", func() { b.putPortIn("p1", "sub-b") }, "2", "1", []string{"o", "x"}},
		{"ports went", func() {
			b.neutron.change(func() { delete(b.neutron.ports, "p1"); delete(b.neutron.ports, "p2") })
		}, "0", "0", []string{"o", "x"}},
	} {
		step.change()
		b.audit(t)
		expect.Equal(t, [2]string{step.a, step.b}, [2]string{b.used(t, "o"), b.used(t, "x")}, "%s: addresses in use", step.name)
		expect.Equal(t, step.moved, b.takeMoved(), "%s: moved", step.name)
	}
	for _, audit := range b.audits[1:] {
		expect.Equal(t, 0, audit.Moved, "an audit took it for drift: %+v", audit)
	}
	expect.Equal(t, 1, b.neutron.count("GET network-ip-availabilities"), "how often Neutron was asked to tell a tenant")
}

func TestCountsOfATenantNeedNoCallsOfTheirOwn(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("a", ownerOf("o").Marker())
	b.audit(t)
	b.audit(t)
	lists := []string{
		"GET networks", "GET subnets", "GET rbac-policies", "GET ports", "GET routers", "GET security-groups", "GET floatingips",
	}
	// Whether Neutron counts is found out once.
	want := slices.Concat(lists, []string{"GET network-ip-availabilities"}, lists)
	slices.Sort(want)
	slices.Sort(b.neutron.calls)
	expect.Equal(t, want, b.neutron.calls, "calls of two audits")
}

func TestOfWhatIsMadeHereNoAddressIsInUse(t *testing.T) {
	for name, tells := range map[string]map[string]int{
		"where ports are counted": nil, "where the cloud counts": {"sub-a": 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.put("a", ownerOf("x").Marker())
			b.tells(tells)
			b.audit(t)
			b.apply(t, create("o"), createSubnetIn(plan.Ref{Creator: 1}, "o", "10.0.0.0/24"))
			expect.Equal(t, "0", b.used(t, "o"), "addresses in use")
			b.takeMoved()
			b.audit(t)
			if got, moved := b.used(t, "o"), b.takeMoved(); got != "0" || len(moved) > 0 {
				t.Errorf("after an audit %s are in use, want 0; moved %v", got, moved)
			}
		})
	}
}

func TestTheCloudsOwnCountComesFirst(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.putPortIn("p", "sub-a")
	b.tells(map[string]int{"sub-a": 5})
	b.audit(t)
	expect.Equal(t, "5", b.used(t, "o"), "addresses in use")
	b.takeMoved()
	b.tells(nil)
	b.audit(t)
	expect.Equal(t, "1", b.used(t, "o"), "addresses in use after the cloud stopped counting")
	expect.Equal(t, []string{"o"}, b.takeMoved(), "moved")
}

func TestACountThatFailsLeavesTheLastOne(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("a", ownerOf("o").Marker())
	b.tells(map[string]int{"sub-a": 5})
	b.audit(t)
	b.takeMoved()
	b.neutron.answers("", "availabilities", http.StatusServiceUnavailable, "")
	if err := b.Audit(t.Context()); client.KindOf(err) != client.Transient {
		t.Errorf("the audit's error is %v", err)
	}
	if got, moved := b.used(t, "o"), b.takeMoved(); got != "5" || len(moved) > 0 {
		t.Errorf("%s are in use, want 5 as before; moved %v", got, moved)
	}
}

func TestANetworkThatIsReadByItselfIsCounted(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.putPortIn("p", "sub-a")
	b.audit(t)
	b.put("a", ownerOf("o").Marker())
	if _, err := b.Reread(t.Context(), networkOf("a")); err != nil {
		t.Fatal(err)
	}
	expect.Equal(t, "1", b.used(t, "o"), "addresses in use")
}

func TestWhatIsShownOfOthersIsCounted(t *testing.T) {
	shown := func(t *testing.T, b *bench) string {
		t.Helper()
		b.neutron.answers("", "/networks/f", http.StatusOK, `{"network": {"id": "f", "project_id": "p9", "subnets": ["sub-f"],
				"created_at": "2026-01-01T00:00:00Z"}}`)
		n, found, err := b.Foreign(t.Context(), "f")
		if err != nil || !found {
			t.Fatalf("found: %t, %v", found, err)
		}
		return usedIn(t, n.ObservedNetwork)
	}
	t.Run("by the ports of the project", func(t *testing.T) {
		b := newBench(t, Options{Ports: true})
		b.put("f", "nobody's")
		b.putPortIn("p", "sub-f")
		b.audit(t)
		expect.Equal(t, "1", shown(t, b), "addresses in use")
	})
	t.Run("or by the cloud, which is asked though nothing is held", func(t *testing.T) {
		b := newBench(t, Options{})
		b.put("f", "nobody's")
		b.tells(map[string]int{"sub-f": 7})
		b.audit(t)
		expect.Equal(t, "0", shown(t, b), "addresses in use before the cloud was asked")
		b.audit(t)
		expect.Equal(t, "7", shown(t, b), "addresses in use")
	})
}

func TestCountsAreOfOneProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, i, move := twoProjects(t)
		n.change(func() {
			n.networks["a"] = &wireNetwork{wireBase: wireBase{ID: "a", Description: ownerOf("o").Marker(), Created: created("2026-01-01T00:00:00Z")}}
			n.subnets["s"] = &wireSubnet{wireBase: wireBase{ID: "s"}, NetworkID: "a", CIDR: "10.0.0.0/24"}
			n.availabilities = []map[string]any{{"subnet_ip_availability": []any{
				map[string]any{"subnet_id": "s", "used_ips": 3},
			}}}
		})
		observed := func() []plan.ObservedNetwork {
			t.Helper()
			observed, err := i.Observed(t.Context(), ownerOf("o"), time.Time{})
			expect.NoError(t, err)
			return observed.Networks
		}
		expect.NoError(t, i.Audit(t.Context()))
		expect.Equal(t, "3", usedIn(t, observed()...), "addresses in use")
		elapse(time.Minute)
		move()
		n.answers("", "availabilities", http.StatusServiceUnavailable, "")
		if err := i.Audit(t.Context()); client.KindOf(err) != client.Transient {
			t.Fatalf("the audit's error is %v", err)
		}
		expect.Equal(t, "0", usedIn(t, observed()...), "addresses in use by the count of the former project")
	})
}
