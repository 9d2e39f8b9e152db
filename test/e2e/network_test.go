package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// contextOf is for clean-ups, in which a test's own context has ended.
func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// example is the spec of config/samples/network.yaml.
func example() cloudteamv1.NetworkSpec {
	return cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"},
	}
}

// unique gives a name that no other run uses: the real cloud outlives a run.
func unique(t *testing.T, namespace string) string {
	t.Helper()
	return namespace + "-net"
}

// lifeOfANetwork is the story that the README tells: the example becomes real, follows its spec, comes back from drift and
// is deleted, and a foreign network of its name is left alone.
func lifeOfANetwork(t *testing.T) {
	c, namespace := open(t, "tenant"), newNamespace(t)
	name := unique(t, namespace)
	c.Create("networks", resource{"name": name, "description": "somebody else's"})
	foreign := c.One("networks", "name="+name)
	ours := func(collection string) resource {
		t.Helper()
		for _, r := range c.List(collection, "name="+name) {
			if r.ID() != foreign.ID() {
				return r
			}
		}
		t.Fatalf("none of %s is ours", collection)
		return nil
	}

	created := apply(t, namespace, name, example())
	ready := awaitReady(t, namespace, name)
	marker := markerOf(t, created)
	network, subnet := ours("networks"), ours("subnets")
	wantFields(t, network, resource{
		"name": name, "description": marker, "status": "ACTIVE", "admin_state_up": true, "project_id": c.Project,
		"subnets": []any{subnet.ID()},
	})
	wantFields(t, subnet, resource{
		"name": name, "description": marker, "network_id": network.ID(), "cidr": "192.168.0.0/16",
		"gateway_ip": "192.168.0.1", "enable_dhcp": true, "ip_version": 4.0,
		"allocation_pools": []any{map[string]any{"start": "192.168.0.2", "end": "192.168.255.254"}},
	})
	wantStatus := cloudteamv1.NetworkStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{
			ObservedGeneration: 1, AppliedGeneration: 1,
			Cloud: &cloudteamv1.CloudStatus{Endpoint: c.Client.Endpoint, Region: "RegionOne", ProjectID: c.Project},
		},
		NetworkID: network.ID(), MTU: int32(network["mtu"].(float64)),
		Subnets: []cloudteamv1.SubnetStatus{{ID: subnet.ID(), CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}},
		Class:   &cloudteamv1.AppliedClass{Name: "open"}, // the default class that the suite installs
	}
	got := ready.Status.DeepCopy()
	got.Conditions = nil
	got.Subnets[0].TotalAddresses, got.Subnets[0].UsedAddresses = nil, nil
	expect.Equal(t, wantStatus, *got, "status")
	expect.Len(t, 1, ready.Status.Conditions, "conditions beside Ready")
	awaitEvent(t, namespace, name, cloudteamv1.EventCreated, network.ID())
	showWithOpenStackClient(t, c, network, subnet)

	edit(t, namespace, name, `{"gateway":"192.168.255.254"}`)
	awaitReady(t, namespace, name)
	wantFields(t, ours("subnets"), resource{
		"id": subnet.ID(), "gateway_ip": "192.168.255.254",
		"allocation_pools": []any{map[string]any{"start": "192.168.0.1", "end": "192.168.255.253"}},
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventUpdated, "gateway 192.168.0.1 → 192.168.255.254")

	c.Update("subnets", subnet.ID(), resource{"gateway_ip": nil})
	eventually(t, func() error {
		if gateway := ours("subnets")["gateway_ip"]; gateway != "192.168.255.254" {
			return fmt.Errorf("gateway_ip is %v", gateway)
		}
		return nil
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "gateway none → 192.168.255.254")

	remove(t, namespace, name)
	left := c.One("networks", "name="+name)
	// Untouched to the last revision.
	expect.Equal(t, foreign, left, "the foreign network")
	expect.Empty(t, c.List("subnets", "name="+name), "subnets are left")
	awaitEvent(t, namespace, name, cloudteamv1.EventDeleted, network.ID())
}

// showWithOpenStackClient holds what OpenStack's own command prints, where it is installed, against what Neutron's API
// gave.
func showWithOpenStackClient(t *testing.T, c *cloud, network, subnet resource) {
	t.Helper()
	const program = "/usr/bin/openstack"
	if _, err := os.Stat(program); err != nil || emulator != nil {
		return
	}
	for kind, want := range map[string]resource{
		"network": {"id": network.ID(), "name": network["name"], "description": network["description"],
			"mtu": network["mtu"], "subnets": []any{subnet.ID()}},
		"subnet": {"id": subnet.ID(), "cidr": "192.168.0.0/16", "gateway_ip": "192.168.0.1", "enable_dhcp": true,
			"network_id": network.ID()},
	} {
		show := exec.CommandContext(t.Context(), program, kind, "show", "-f", "json", want.ID())
		show.Env = []string{"PATH=/usr/bin:/bin", "OS_CLOUD=tenant", "OS_CLIENT_CONFIG_FILE=" + cloudsFile,
			"HOME=" + t.TempDir()}
		output, err := show.Output()
		if err != nil {
			t.Fatalf("openstack %s show: %v", kind, err)
		}
		var shown resource
		if err := json.Unmarshal(output, &shown); err != nil {
			t.Fatalf("openstack %s show: %v", kind, err)
		}
		wantFields(t, shown, want)
	}
}

// markerOf is the text that marks what the object owns.
func markerOf(t *testing.T, object metav1.Object) string {
	t.Helper()
	system := harness.Get(t, kube.CoreV1().Namespaces(), metav1.NamespaceSystem)
	return fmt.Sprintf("[owner=%s/%s]", system.UID, object.GetUID())
}

// wantFields holds the named fields of a resource against what they should be.
func wantFields(t *testing.T, got, want resource) {
	t.Helper()
	have := resource{}
	for field := range want {
		have[field] = got[field]
	}
	expect.Equal(t, want, have, "%v", got["id"])
}

// TestStart holds what a user gets who starts the binary in a way that cannot work.
func TestStart(t *testing.T) {
	withProcesses(t)
	broken := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(broken, []byte("clouds:\n  admin:\n    auth: canary-hunter2\n"), 0o600))
	for sentence, test := range map[string]struct {
		environment, arguments []string
		want                   []string
	}{
		"no cluster is named": {
			nil, nil, []string{"--kubeconfig"},
		},
		"no cloud is named": {
			[]string{"HOME=" + t.TempDir()}, []string{"--kubeconfig", kubeconfig}, []string{"--cloud", "OS_CLOUD"},
		},
		"the cloud is unknown": {
			[]string{"OS_CLIENT_CONFIG_FILE=" + cloudsFile}, []string{"--kubeconfig", kubeconfig, "--cloud", "nimbus"},
			[]string{`"nimbus"`, "admin", "tenant"},
		},
		"there is no clouds.yaml": {
			[]string{"OS_CLIENT_CONFIG_FILE=/nonexistent/clouds.yaml"},
			[]string{"--kubeconfig", kubeconfig, "--cloud", "admin"}, []string{"/nonexistent/clouds.yaml", "no such file"},
		},
		"clouds.yaml is not of its form": {
			[]string{"OS_CLIENT_CONFIG_FILE=" + broken}, []string{"--kubeconfig", kubeconfig, "--cloud", "admin"},
			[]string{broken, "line 3"},
		},
		"a flag makes no sense": {
			nil, []string{"--workers=0", "--controllers=nope"}, []string{"--workers=0", `"nope"`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := start(t, test.environment, test.arguments...)
			expect.Equal(t, 1, p.awaitExit(t), "the exit code")
			output := p.Log()
			for _, want := range append(test.want, "network-controller: ") {
				expect.Contains(t, output, want, "what it prints")
			}
			if strings.Contains(output, "canary") || strings.Contains(output, "goroutine") {
				t.Errorf("it prints a secret or a stack")
			}
		})
	}
}
