package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// awaitMetric waits until a process serves the line among its metrics.
func awaitMetric(t *testing.T, address, line string) {
	t.Helper()
	eventually(t, func() error {
		answer, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		name, _, _ := strings.Cut(line, "{")
		var seen []string
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if lines.Text() == line {
				return nil
			}
			if strings.HasPrefix(lines.Text(), name) {
				seen = append(seen, lines.Text())
			}
		}
		return fmt.Errorf("no metric %s among %q", line, seen)
	})
}

// TestOrphans deletes objects by force while no controller runs. Its cloud is its own, so that whose resources are in it
// is known, and so is what share of them is gone.
func TestOrphans(t *testing.T) {
	withProcesses(t)
	var writes writeLog
	cloud := neutrontest.New(neutrontest.Options{OnCall: func(call neutrontest.Call) {
		if call.Method != http.MethodGet && !strings.HasPrefix(call.Path, "/v3/") &&
			!strings.HasPrefix(call.Path, "/v2.0/subnetpools") { // the term record, which is no resource of an object
			writes.note(call.Method + " " + call.Path)
		}
	}})
	listener, err := cloud.Listen("127.0.0.1:0", nil)
	expect.NoError(t, err)
	// What the cloud's client made goes before the cloud does.
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600))
	c, administrator := openFile(t, file, "tenant"), openFile(t, file, "admin")
	outside := administrator.CreateOutside("outside")
	address := harness.FreeAddress(t)
	run := func(more ...string) *process {
		return start(t, []string{"OS_CLIENT_CONFIG_FILE=" + file}, append([]string{
			"--kubeconfig", kubeconfig, "--cloud", "tenant", "--bind-address", address, "--audit-interval", "1s",
			"--orphan-grace", "2s",
		}, more...)...)
	}
	api := networks.CloudteamV1()
	namespace := newNamespace(t)
	const free = `{"metadata":{"finalizers":null}}`
	forceNetwork := func(name string) {
		t.Helper()
		harness.Patch(t, api.Networks(namespace), name, free)
		harness.Delete(t, api.Networks(namespace), name)
	}
	forcePort := func(name string) {
		t.Helper()
		harness.Patch(t, api.NetworkPorts(namespace), name, free)
		harness.Delete(t, api.NetworkPorts(namespace), name)
	}
	// left are the names in Neutron.
	left := func() string {
		t.Helper()
		var names []string
		for _, collection := range []string{"networks", "ports"} {
			for _, r := range c.List(collection, "") {
				names = append(names, collection+"/"+r["name"].(string))
			}
		}
		return strings.Join(names, " ")
	}

	p := run()
	names := map[string]string{}
	for _, short := range []string{"one", "two", "stays"} {
		names[short] = namespace + "-" + short
		spec := example()
		if short == "one" {
			spec.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "outside"}
		}
		apply(t, namespace, names[short], spec)
		awaitReady(t, namespace, names[short])
	}
	applyPort(t, namespace, "port", on(names["two"]))
	awaitPortReady(t, namespace, "port")
	foreign := c.Create("networks", resource{"name": "foreign"})
	stays := c.One("networks", "name="+names["stays"])
	p.kill(t)

	// One that is gone is few enough. Its router goes with it, each part once nothing needs it any more.
	forceNetwork(names["one"])
	writes.take()
	p = run()
	eventually(t, func() error {
		if n := len(c.List("networks", "name="+names["one"])); n > 0 {
			return fmt.Errorf("the network is still there: %s", left())
		}
		return nil
	})
	if diff := cmp.Diff([]string{
		"PUT /v2.0/routers/{id}/remove_router_interface", "PUT /v2.0/routers/{id}", "DELETE /v2.0/routers/{id}",
		"DELETE /v2.0/networks/{id}",
	}, writes.take()); diff != "" {
		t.Errorf("what was written for an orphan with a router (-want +got):\n%s", diff)
	}
	if n := len(administrator.List("routers", "")) + len(administrator.List("ports", "network_id="+outside.ID())); n > 0 {
		t.Errorf("%d routers and ports of their ways outside are left", n)
	}
	awaitMetric(t, address, "network_controller_orphans_removed_total 1")
	p.kill(t)

	// Two of three are too many.
	forcePort("port")
	forceNetwork(names["two"])
	was := left()
	p = run()
	awaitMetric(t, address, `network_controller_orphans{state="withheld"} 2`)
	expect.Equal(t, was, left(), "what is in Neutron")
	p.kill(t)

	// With a word, the port goes and then the network that it was on.
	p = run("--orphan-max-share", "1")
	awaitMetric(t, address, "network_controller_orphans_removed_total 2")
	if n := len(c.List("networks", "")) + len(c.List("ports", "")); n != 3 {
		t.Errorf("left in Neutron: %s; want what was never ours, two networks, and what has an object", left())
	}
	for _, r := range []resource{foreign, stays} {
		wantFields(t, c.One("networks", "name="+r["name"].(string)), resource{
			"id": r.ID(), "revision_number": r["revision_number"],
		})
	}
	remove(t, namespace, names["stays"])
	p.kill(t)
}
