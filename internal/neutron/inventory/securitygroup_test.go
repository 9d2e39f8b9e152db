package inventory

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// groupSpec is a group with rules of each form.
func (e emulated) groupSpec() plan.GroupSpec {
	rule := func(direction, etherType, protocol string, from, to int) plan.Rule {
		return plan.Rule{Direction: direction, EtherType: etherType, Protocol: protocol, PortMin: from, PortMax: to}
	}
	about := rule(plan.Ingress, plan.IPv4, "", plan.NoPort, plan.NoPort)
	about.RemoteGroup = plan.OwnGroup
	ranged := rule(plan.Ingress, plan.IPv6, "udp", 53, 53)
	ranged.Remote = netip.MustParsePrefix("fd00::/8")
	return plan.GroupSpec{
		Owner: e.owner, Name: "web", Description: "d", Rules: []plan.Rule{
			rule(plan.Ingress, plan.IPv4, "tcp", 80, 90), rule(plan.Ingress, plan.IPv4, "icmp", 8, plan.NoPort),
			rule(plan.Ingress, plan.IPv6, "icmpv6", 128, 0), rule(plan.Egress, plan.IPv4, "47", plan.NoPort, plan.NoPort),
			about, ranged,
		},
	}
}

// converge plans and applies a spec twice: Neutron gives a new group rules of its own.
func (e emulated) converge(planOf func(plan.Observed) (plan.Change, error)) {
	e.t.Helper()
	for range 2 {
		e.apply(planOf(e.observed()))
	}
	e.requireNothing(planOf)
}

// TestGroupsAreApplied holds that what is held after each write is what a list shows: rules and revisions.
func TestGroupsAreApplied(t *testing.T) {
	e, spec, planOf, _ := withGroup(t, Options{})
	spec.Name, spec.Stateless, spec.Rules = "other", true, append(plan.DefaultEgress(), spec.Rules[2:]...)
	e.converge(planOf)
	e.apply(plan.Delete(e.owner, e.observed()))
	e.requireGone()
}

// withGroup is an emulated cloud with the group of a spec, and how the spec is planned.
func withGroup(t *testing.T, options Options) (emulated, *plan.GroupSpec, func(plan.Observed) (plan.Change, error), plan.ObservedGroup) {
	t.Helper()
	e := newEmulated(t, options)
	spec := e.groupSpec()
	planOf := func(o plan.Observed) (plan.Change, error) { return plan.SecurityGroup(spec, o) }
	e.converge(planOf)
	group, _ := e.observed().Group()
	return e, &spec, planOf, group
}

// openByHand adds a rule that lets everybody in, as somebody else would.
func (e emulated) openByHand(group string) {
	e.byHand(http.MethodPost, ruleCollection.Many, "security_group_rule",
		map[string]any{"security_group_id": group, "direction": "ingress"})
}

// TestRulesByHandAreFound holds that an audit tells whose rules somebody changed, and that they go.
func TestRulesByHandAreFound(t *testing.T) {
	e, _, planOf, group := withGroup(t, Options{})
	e.openByHand(group.ID)
	if moved, err := e.listAll(t.Context(), time.Now(), e.stocks, false); err != nil || len(moved) != 1 || moved[0] != e.owner.Object {
		t.Fatalf("an audit tells that %q moved, %v", moved, err)
	}
	e.apply(planOf(e.observed()))
	e.requireNothing(planOf)
}

// TestRuleThatExistsIsAConflict holds that a rule whose creation was not seen is planned with after a reread.
func TestRuleThatExistsIsAConflict(t *testing.T) {
	e, spec, planOf, group := withGroup(t, Options{})
	open := plan.Rule{Direction: plan.Ingress, EtherType: plan.IPv4, PortMin: plan.NoPort, PortMax: plan.NoPort}
	spec.Rules = append(spec.Rules, open)
	change, err := planOf(e.observed())
	expect.NoError(t, err)
	e.openByHand(group.ID)
	if _, err := e.Apply(t.Context(), change); !client.IsConflict(err) {
		t.Fatalf("a rule that exists: %v, want a conflict", err)
	}
	e.requireNothing(planOf)
}

// TestRulesOfAGroupThatIsNotOursStay holds that rules change only after a live read has shown the marker.
func TestRulesOfAGroupThatIsNotOursStay(t *testing.T) {
	e, spec, planOf, group := withGroup(t, Options{})
	spec.Rules = nil
	change, err := planOf(e.observed())
	if err != nil || len(change) == 0 {
		t.Fatal(change, err)
	}
	e.byHand(http.MethodPut, groupKind.Path(group.ID), groupKind.One, map[string]any{"description": "mine"})
	if done, err := e.Apply(t.Context(), change); !client.IsConflict(err) || len(done) > 0 {
		t.Errorf("rules of a group without our marker: %v, %v", done, err)
	}
	if _, err := e.Reread(t.Context(), plan.Resource{Kind: plan.KindGroup, ID: group.ID}); err != ErrUnmarked { //nolint:errorlint // it is that
		t.Errorf("a reread of the group: %v", err)
	}
}

// TestGroupThatIsGoneIsNotFound holds that Neutron's 404 about the group itself is not taken for a mistake of a port.
func TestGroupThatIsGoneIsNotFound(t *testing.T) {
	e, spec, planOf, group := withGroup(t, Options{})
	e.byHand(http.MethodDelete, groupKind.Path(group.ID), "", nil)
	spec.Name = "other"
	change, err := planOf(e.observed())
	expect.NoError(t, err)
	if _, err := e.Apply(t.Context(), change); !client.IsNotFound(err) {
		t.Errorf("an update of a group that is gone: %v", err)
	}
	e.apply(plan.Delete(e.owner, e.observed()))
	e.requireGone()
}

// TestNameNeverMeansWhatAnObjectRetained: who creates a SecurityGroup, or a Network with a router, and deletes it with
// deletionPolicy Retain, leaves a resource of the same name without a marker.
func TestNameNeverMeansWhatAnObjectRetained(t *testing.T) {
	e, _, _, group := withGroup(t, Options{})
	e.converge(func(o plan.Observed) (plan.Change, error) { return plan.Release(e.owner, o), nil })
	if id, err := e.SecurityGroup(t.Context(), "spec.securityGroups", "web"); err == nil {
		t.Errorf("the name of a group that was retained means %s", id)
	}
	if id, err := e.SecurityGroup(t.Context(), "spec.securityGroups", group.ID); id != group.ID || err != nil {
		t.Errorf("its id: %q, %v", id, err)
	}

	router := plan.ObservedRouter{ID: "r"}
	router.Name, router.Description = "edge", e.owner.Describe("of a tenant")
	description := plan.Release(e.owner, plan.Observed{Routers: []plan.ObservedRouter{router}})[0].Router.Description
	if strings.Contains(description, "owner=") || !strings.HasPrefix(description, "of a tenant") {
		t.Errorf("the router has the description %q", description)
	}
	listed := &reading{entries: []entry{{ID: "r", Name: "edge", Description: description}}}
	expect.Empty(t, listed.matching("edge"), "what the name of a retained router means")
}

func TestPortsInAGroupAreItsBlockers(t *testing.T) {
	e, _, _, group := withGroup(t, Options{Ports: true})
	change, err := plan.Delete(e.owner, plan.Observed{Groups: e.observed().Groups})
	expect.NoError(t, err)
	found, err := e.Blockers(t.Context(), change[0])
	if err != nil || !found.Empty() {
		t.Errorf("a group without ports: %v, %v", found, err)
	}
	n := e.byHand(http.MethodPost, "networks", "network", map[string]any{})
	p := e.byHand(http.MethodPost, "ports", "port", map[string]any{
		"network_id": n, "security_groups": []string{group.ID}, "device_owner": "compute:nova",
	})
	e.byHand(http.MethodPost, "ports", "port", map[string]any{"network_id": n})
	found, err = e.Blockers(t.Context(), change[0])
	if err != nil || len(found.Ports) != 1 || found.Ports[0].ID != p {
		t.Errorf("a group with one of two ports: %v, %v", found, err)
	}
	if _, err := e.Apply(t.Context(), change); client.KindOf(err) != client.InUse {
		t.Errorf("a group that is in use: %v", err)
	}
}

// TestSecurityGroup finds groups by name, and takes an id as it is.
func TestSecurityGroup(t *testing.T) {
	var calls atomic.Int64
	tenant, admin := cloudtest.Emulated(t, neutrontest.Options{OnCall: func(c neutrontest.Call) {
		if strings.Contains(c.Path, "security-groups") {
			calls.Add(1)
		}
	}}, nil)
	made := func(in *client.Cloud, name string) string {
		t.Helper()
		return byHand(t, in, http.MethodPost, "/security-groups", "security_group", map[string]any{"name": name})
	}
	web, hidden := made(tenant, "web"), made(admin, "hidden")
	before := calls.Load()

	i := New(tenant, "c", Options{Ports: true})
	for _, id := range []string{web, hidden, strings.ReplaceAll(web, "-", "")} {
		if got, err := i.SecurityGroup(t.Context(), "spec.securityGroups", id); got != id || err != nil {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
	expect.Equal(t, before, calls.Load(), "calls, an id looked for")
	for name, want := range map[string]string{
		"hidden": `spec.securityGroups: "hidden" is neither the id nor the name`,
		"":       `is neither the id nor the name`,
	} {
		_, err := i.SecurityGroup(t.Context(), "spec.securityGroups", name)
		if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	before = calls.Load()
	for range 9 {
		if got, err := i.SecurityGroup(t.Context(), "spec.securityGroups", "web"); got != web || err != nil {
			t.Errorf("web: %s, %v", got, err)
		}
	}
	expect.Equal(t, before, calls.Load(), "calls, names looked for that were read a moment ago")
}
