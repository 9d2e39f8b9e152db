package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// earlier is the commit whose binary the versions' skew is tested with. After a release it is the release's tag.
const earlier = "21691f4e146013b1b4afa06c32de87095f18adfe"

// TestVersionSkew has an earlier binary make what users have, upgrades it, and goes back, with today's CRDs all the
// time. In the end it does so with objects and fields that the earlier binary does not know.
func TestVersionSkew(t *testing.T) {
	withProcesses(t)
	nightly.Only(t, "it builds an earlier version, and changes between the two six times")
	binary := surroundings.Earlier(t, earlier)
	cloud := neutrontest.New(neutrontest.Options{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(cloud.Start(t).CloudsYAML()), 0o600))
	c := openFile(t, file, "tenant")
	collections := []string{"networks", "subnets", "routers", "ports", "security-groups", "floatingips"}
	held := func() (all []resource) {
		t.Helper()
		for _, collection := range collections {
			all = append(all, c.List(collection, "sort_key=id&sort_dir=asc")...)
		}
		return all
	}
	writes := func() map[string]int {
		counts := cloud.CallCounts()
		maps.DeleteFunc(counts, func(call string, _ int) bool {
			// Each leader writes its word into the term record.
			return strings.HasPrefix(call, "GET") || !strings.Contains(call, "/v2.0/") ||
				strings.Contains(call, "subnetpools")
		})
		return counts
	}
	audited := func(times int) {
		t.Helper()
		from := cloud.Calls("GET", "/v2.0/ports")
		eventually(t, func() error {
			if is := cloud.Calls("GET", "/v2.0/ports") - from; is < times {
				return fmt.Errorf("%d audits of %d", is, times)
			}
			return nil
		})
	}

	s := &site{t: t, clouds: file, ControlPlane: surroundings.StartControlPlane(t, filepath.Join(t.TempDir(), "data"))}
	run := func(binary string) *harness.Process { s.binary = binary; return s.run() }
	stop := func(p *harness.Process) { t.Helper(); p.Signal(syscall.SIGTERM); p.AwaitExit(t) }

	p := run(binary)
	s.apply("frontend", "10.1.0.0/24")
	s.edit("frontend", `{"spec":{"tags":["web"],"router":{}}}`)
	s.apply("backend", "10.2.0.0/24")
	deployments := s.Kube.AppsV1().Deployments(metav1.NamespaceDefault)
	harness.Create(t, deployments, harness.DeploymentOn("web", "frontend", 2))
	ready := func() {
		t.Helper()
		s.await("frontend", cloudteamv1.ReasonAvailable)
		s.await("backend", cloudteamv1.ReasonAvailable)
		s.Eventually(t, func() error {
			ports, err := s.Networks.CloudteamV1().NetworkPorts(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			have := 0
			for _, port := range ports.Items {
				if port.Status.PortID != "" {
					have++
				}
			}
			if have < 2 || have < len(ports.Items) {
				return fmt.Errorf("%d of %d NetworkPorts have a port", have, len(ports.Items))
			}
			return nil
		})
		audited(2)
	}
	ready()
	stop(p)

	// Each of them goes on with the other's objects, and has nothing to write.
	for _, next := range []struct{ name, binary string }{
		{"today's binary", ""}, {"the earlier binary", binary}, {"today's binary again", ""},
	} {
		was, wrote := held(), writes()
		p = run(next.binary)
		audited(3)
		ready()
		expect.Equal(t, wrote, writes(), "%s writes to Neutron at rest", next.name)
		expect.Equal(t, was, held(), "%s changes what is in Neutron", next.name)
		s.edit("backend", fmt.Sprintf(`{"spec":{"tags":["of-%d"]}}`, len(next.name)))
		s.await("backend", cloudteamv1.ReasonAvailable)
		stop(p)
	}

	p = run("")
	n := &newer{t: t, site: s, tenant: c, admin: openFile(t, file, "admin")}
	n.create()
	audited(2)
	declared, was, wrote := n.objects(), byID(held()), writes()
	pods := n.allocations("db-0", "db-1", "lone")
	stop(p)

	// The earlier binary leaves what it does not know, but for known limits, of which docs/install.md tells: it knows
	// securityGroups, and not the securityGroupRefs beside them, so it takes a port with both out of the groups of the
	// latter. It takes names in securityGroups for ids, which Neutron refuses. It notes only the fields that it knows as
	// those to take back.
	p = run(binary)
	n.awaitGroups("both", "default")
	audited(3)
	calls := writes()
	maps.DeleteFunc(calls, func(call string, count int) bool {
		return count == wrote[call] || call == "PUT /v2.0/ports/{id}" // of both and named
	})
	if len(calls) > 0 {
		t.Errorf("the earlier binary writes to Neutron: now there were the calls %v, before %v", calls, wrote)
	}
	both := harness.Get(t, n.ports(), "both").Status.PortID
	is := byID(held())
	expect.Equal(t, without(was, both), without(is, both), "the earlier binary changes what is in Neutron")
	expect.Equal(t, declared, n.objects(), "the earlier binary changes the objects")
	n.allocated(pods, "db-0", "db-1", "lone")

	// Meanwhile users delete objects, and a Pod comes back: another known limit, it gets a port of its own until the next
	// one comes.
	float, group := harness.Get(t, n.ports(), "goes").Status.FloatingIP.ID, harness.Get(t, n.groups(), "goes").Status.SecurityGroupID
	port, leads := harness.Get(t, n.ports(), "goes").Status.PortID, harness.Get(t, n.floatings(), "goes").Status
	n.remove("goes")
	harness.AwaitGone(t, s, n.ports(), "goes")
	n.replacePod("db-1")
	other := n.allocations("db-1")["db-1"]
	if other == pods["db-1"] {
		t.Errorf("the earlier binary gives Pod db-1 the port %s of its slot: it knows slots, so change this test", other)
	}
	if is := byID(held()); is[group] == nil || is[float] == nil || is[float]["port_id"] != nil {
		t.Errorf("the earlier binary leaves of a deleted object the group %v and the floating IP %v", is[group], is[float])
	}
	if is := byID(held())[leads.FloatingIPID]; is == nil || is["port_id"] != leads.PortID {
		t.Errorf("the earlier binary leaves of a deleted FloatingIP that led to port %s: %v", leads.PortID, is)
	}
	stop(p)

	// Today's binary goes on where it was, and does what the earlier one could not do.
	run("")
	n.awaitGroups("both", "default", "web")
	harness.AwaitGone(t, s, n.groups(), "goes")
	harness.AwaitGone(t, s, n.floatings(), "goes")
	n.replacePod("db-1")
	n.allocated(pods, "db-0", "db-1", "lone")
	gone := []string{float, group, port, leads.FloatingIPID}
	eventually(t, func() error {
		is = byID(held())
		for _, id := range gone {
			if is[id] != nil {
				return fmt.Errorf("still in Neutron: %v", is[id])
			}
		}
		return nil
	})
	audited(3)
	n.ready()
	is = byID(held())
	for id, resource := range is {
		if was[id] == nil && !strings.Contains(other, id) {
			t.Errorf("today's binary made %v anew", resource)
		}
	}
	gone = append(gone, both)
	for id, resource := range without(was, gone...) {
		expect.Equal(t, resource, is[id], "after the way back and forth, Neutron has")
	}
	delete(declared, "NetworkPort goes")
	delete(declared, "SecurityGroup goes")
	delete(declared, "FloatingIP goes")
	objects := n.objects()
	maps.DeleteFunc(objects, func(name, _ string) bool {
		return strings.HasPrefix(name, "NetworkPort db-1-") && declared[name] == "" // garbage, and nobody collects it here
	})
	expect.Equal(t, declared, objects, "after the way back and forth, the objects are")

	harness.Delete(t, deployments, "web")
	s.remove("backend")
	s.awaitGone("backend")
}
