package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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

// TestNetwork takes Networks through their lives, with one controller that runs all the while.
func TestNetwork(t *testing.T) {
	for _, cloudName := range []string{"admin", "tenant"} {
		t.Run(cloudName, func(t *testing.T) {
			startController(t, cloudName)
			t.Run("group", func(t *testing.T) { testNetworks(t, cloudName) })
		})
	}
}

func testNetworks(t *testing.T, cloudName string) {
	parallel := func(sentence string, test func(t *testing.T, c *cloud, namespace, name string)) {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t)
			test(t, open(t, cloudName), namespace, unique(t, namespace))
		})
	}

	parallel("the example becomes real, follows its spec, comes back from drift and goes, and a foreign network of "+
		"its name is left alone", testLife)

	parallel("a network deleted by hand is made again", func(t *testing.T, c *cloud, namespace, name string) {
		apply(t, namespace, name, example())
		was := awaitReady(t, namespace, name).Status.NetworkID
		c.remove("networks", was)
		eventually(t, func() error {
			if is := get(t, namespace, name).Status.NetworkID; is == was || is == "" {
				return fmt.Errorf("status.networkID is %q", is)
			}
			return nil
		})
		awaitReady(t, namespace, name)
		if n := c.one("networks", "name="+name); n.id() == was {
			t.Errorf("network %s is still there", was)
		}
		awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "Created network")
		remove(t, namespace, name)
	})

	parallel("a network that was made by hand is observed, taken over under its own names, and left", testImports)
	if cloudName == "tenant" {
		parallel("a network that another project shares is observed, and not taken over", testSharedImport)
	}
	testProperties(parallel, cloudName)
	testSharing(parallel, cloudName)
	testZones(parallel, cloudName)

	parallel("further subnets come, come back from drift, and go when nothing uses them", testSubnets)
	parallel("subnets from pools have the CIDRs that Neutron gives them, and wait for ranges", testSubnetPools)

	parallel("driftPolicy Report lists what others changed and leaves it until the spec changes",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.DriftPolicy = cloudteamv1.DriftPolicyReport
			apply(t, namespace, name, spec)
			awaitReady(t, namespace, name)
			subnet := c.one("subnets", "name="+name)
			c.update("subnets", subnet.id(), resource{"dns_nameservers": []string{"192.168.0.53"}})
			reported := awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionTrue,
				cloudteamv1.ReasonDriftDetected)
			want := []cloudteamv1.Drift{{
				Resource: "subnet 192.168.0.0/16", Field: "dnsServers", Declared: "none", Actual: "192.168.0.53",
			}}
			if diff := cmp.Diff(want, reported.Status.Drift); diff != "" {
				t.Errorf("status.drift (-want +got):\n%s", diff)
			}
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftDetected, "dnsServers is 192.168.0.53, declared none")
			wantFields(t, c.one("subnets", "name="+name), resource{"dns_nameservers": []any{"192.168.0.53"}})

			edit(t, namespace, name, `{"description":"edited"}`)
			ready := awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionTrue,
				cloudteamv1.ReasonAvailable)
			if len(ready.Status.Drift) > 0 {
				t.Errorf("status.drift is still %v", ready.Status.Drift)
			}
			wantFields(t, c.one("subnets", "name="+name), resource{"dns_nameservers": []any{}})
			remove(t, namespace, name)
		})

	parallel("drift in fields that are ignored is left while other drift is put back, until the spec changes",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.IgnoreDrift = []cloudteamv1.NetworkDriftField{"dnsServers"}
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			subnet := c.one("subnets", "name="+name)
			c.update("subnets", subnet.id(), resource{"dns_nameservers": []string{"192.168.0.53"}, "enable_dhcp": false})
			awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "dhcp false → true")
			wantFields(t, c.one("subnets", "name="+name), resource{
				"id": subnet.id(), "dns_nameservers": []any{"192.168.0.53"}, "enable_dhcp": true,
			})
			generation := edit(t, namespace, name, `{"description":"edited"}`)
			eventually(t, func() error {
				if applied := get(t, namespace, name).Status.AppliedGeneration; applied != generation {
					return fmt.Errorf("generation %d is applied, want %d", applied, generation)
				}
				return nil
			})
			wantFields(t, c.one("subnets", "name="+name), resource{"network_id": id, "dns_nameservers": []any{}})
			remove(t, namespace, name)
		})

	parallel("deletionPolicy Retain leaves the network without its marker",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
			spec.Description = "kept"
			apply(t, namespace, name, spec)
			id := awaitReady(t, namespace, name).Status.NetworkID
			remove(t, namespace, name)
			t.Cleanup(func() { _, _ = c.client.Delete(contextOf(t), c.client.ServiceURL("networks", id), nil) })
			wantFields(t, c.one("networks", "name="+name), resource{"id": id, "description": "kept"})
			wantFields(t, c.one("subnets", "name="+name), resource{"description": ""})
			awaitEvent(t, namespace, name, cloudteamv1.EventRetained, id)
		})

	parallel("a paused network is left alone, edited, drifted and deleted, until the pause ends",
		func(t *testing.T, c *cloud, namespace, name string) {
			apply(t, namespace, name, example())
			id := awaitReady(t, namespace, name).Status.NetworkID
			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, `"true"`)
			awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionTrue, cloudteamv1.ReasonPaused)
			c.update("networks", id, resource{"admin_state_up": false})
			edit(t, namespace, name, `{"description":"edited"}`)
			awaitCondition(t, namespace, name, cloudteamv1.ConditionReconciling, metav1.ConditionTrue,
				cloudteamv1.ReasonPaused)
			wantFields(t, c.one("networks", "name="+name), resource{"id": id, "admin_state_up": false})

			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, "null")
			awaitReady(t, namespace, name)
			wantFields(t, c.one("networks", "name="+name), resource{"id": id, "admin_state_up": true})

			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, `"true"`)
			err := networks.CloudteamV1().Networks(namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				ready := meta.FindStatusCondition(get(t, namespace, name).Status.Conditions, cloudteamv1.ConditionReady)
				if !strings.Contains(ready.Message, "Deletion waits until the annotation is removed") {
					return fmt.Errorf("condition Ready is %+v", ready)
				}
				return nil
			})
			wantFields(t, c.one("networks", "name="+name), resource{"id": id})
			annotate(t, namespace, name, cloudteamv1.AnnotationPaused, "null")
			awaitGone(t, namespace, name)
			if left := c.list("networks", "name="+name); len(left) > 0 {
				t.Errorf("networks are left: %v", left)
			}
		})

	parallel("two objects of one name in two namespaces have two networks",
		func(t *testing.T, c *cloud, namespace, name string) {
			other := newNamespace(t)
			apply(t, namespace, name, example())
			apply(t, other, name, example())
			a, b := awaitReady(t, namespace, name), awaitReady(t, other, name)
			if a.Status.NetworkID == b.Status.NetworkID {
				t.Fatalf("both have network %s", a.Status.NetworkID)
			}
			remove(t, namespace, name)
			if left := c.one("networks", "name="+name); left.id() != b.Status.NetworkID {
				t.Errorf("network %s is left, want %s", left.id(), b.Status.NetworkID)
			}
			remove(t, other, name)
		})

	parallel("an MTU above the segment's stalls with Neutron's reason, and a smaller one heals it",
		func(t *testing.T, c *cloud, namespace, name string) {
			spec := example()
			spec.MTU = new(int32(9000))
			apply(t, namespace, name, spec)
			stalled := awaitCondition(t, namespace, name, cloudteamv1.ConditionStalled, metav1.ConditionTrue,
				cloudteamv1.ReasonRejected)
			wantMessage(t, stalled, "maximum is 1450")
			awaitEvent(t, namespace, name, cloudteamv1.ReasonRejected, "maximum is 1450")
			edit(t, namespace, name, `{"mtu":1300}`)
			awaitReady(t, namespace, name)
			remove(t, namespace, name)
			if left := c.list("networks", "name="+name); len(left) > 0 {
				t.Errorf("networks are left: %v", left)
			}
		})

	parallel("a network in use waits, says so, and goes once it is free",
		func(t *testing.T, c *cloud, namespace, name string) {
			apply(t, namespace, name, example())
			id := awaitReady(t, namespace, name).Status.NetworkID
			port := c.create("ports", resource{"network_id": id, "device_owner": "compute:e2e"})
			err := networks.CloudteamV1().Networks(namespace).Delete(t.Context(), name, metav1.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionFalse, cloudteamv1.ReasonInUse)
			c.remove("ports", port.id())
			awaitGone(t, namespace, name)
			if left := c.list("networks", "name="+name); len(left) > 0 {
				t.Errorf("networks are left: %v", left)
			}
		})

	parallel("a network whose finalizer is forced off goes all the same",
		func(t *testing.T, c *cloud, namespace, name string) {
			apply(t, namespace, name, example())
			awaitReady(t, namespace, name)
			client := networks.CloudteamV1().Networks(namespace)
			// In one write with a deletion pending, so that the controller has no chance to finalize first.
			_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
				metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			zero := int64(0)
			err = client.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			eventually(t, func() error {
				if left := c.list("networks", "name="+name); len(left) > 0 {
					return fmt.Errorf("networks are left: %v", left)
				}
				return nil
			})
			awaitGone(t, namespace, name)
		})
}

// testLife is the story that the README tells.
func testLife(t *testing.T, c *cloud, namespace, name string) {
	c.create("networks", resource{"name": name, "description": "somebody else's"})
	foreign := c.one("networks", "name="+name)
	ours := func(collection string) resource {
		t.Helper()
		for _, r := range c.list(collection, "name="+name) {
			if r.id() != foreign.id() {
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
		"name": name, "description": marker, "status": "ACTIVE", "admin_state_up": true, "project_id": c.project,
		"subnets": []any{subnet.id()},
	})
	wantFields(t, subnet, resource{
		"name": name, "description": marker, "network_id": network.id(), "cidr": "192.168.0.0/16",
		"gateway_ip": "192.168.0.1", "enable_dhcp": true, "ip_version": 4.0,
		"allocation_pools": []any{map[string]any{"start": "192.168.0.2", "end": "192.168.255.254"}},
	})
	wantStatus := cloudteamv1.NetworkStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{
			ObservedGeneration: 1, AppliedGeneration: 1,
			Cloud: &cloudteamv1.CloudStatus{Endpoint: c.client.Endpoint, Region: "RegionOne", ProjectID: c.project},
		},
		NetworkID: network.id(), MTU: int32(network["mtu"].(float64)),
		Subnets: []cloudteamv1.SubnetStatus{{ID: subnet.id(), CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}},
		Class:   &cloudteamv1.AppliedClass{Name: "open"}, // the default class that the suite installs
	}
	got := ready.Status.DeepCopy()
	got.Conditions = nil
	got.Subnets[0].TotalAddresses, got.Subnets[0].UsedAddresses = nil, nil
	if diff := cmp.Diff(wantStatus, *got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if len(ready.Status.Conditions) != 1 {
		t.Errorf("conditions beside Ready: %s", asJSON(ready.Status.Conditions))
	}
	awaitEvent(t, namespace, name, cloudteamv1.EventCreated, network.id())
	showWithOpenStackClient(t, c, network, subnet)

	edit(t, namespace, name, `{"gateway":"192.168.255.254"}`)
	awaitReady(t, namespace, name)
	wantFields(t, ours("subnets"), resource{
		"id": subnet.id(), "gateway_ip": "192.168.255.254",
		"allocation_pools": []any{map[string]any{"start": "192.168.0.1", "end": "192.168.255.253"}},
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventUpdated, "gateway 192.168.0.1 → 192.168.255.254")

	c.update("subnets", subnet.id(), resource{"gateway_ip": nil})
	eventually(t, func() error {
		if gateway := ours("subnets")["gateway_ip"]; gateway != "192.168.255.254" {
			return fmt.Errorf("gateway_ip is %v", gateway)
		}
		return nil
	})
	awaitEvent(t, namespace, name, cloudteamv1.EventDriftCorrected, "gateway none → 192.168.255.254")

	remove(t, namespace, name)
	left := c.one("networks", "name="+name)
	// Untouched to the last revision.
	if diff := cmp.Diff(foreign, left); diff != "" {
		t.Errorf("the foreign network (-was +is):\n%s", diff)
	}
	if subnets := c.list("subnets", "name="+name); len(subnets) > 0 {
		t.Errorf("subnets are left: %v", subnets)
	}
	awaitEvent(t, namespace, name, cloudteamv1.EventDeleted, network.id())
}

// showWithOpenStackClient holds what OpenStack's own command prints, where it is installed, against what Neutron's API
// gave.
func showWithOpenStackClient(t *testing.T, c *cloud, network, subnet resource) {
	t.Helper()
	const program = "/usr/bin/openstack"
	if _, err := os.Stat(program); err != nil || emulator != nil {
		return
	}
	name := "admin"
	if open(t, "tenant").project == c.project {
		name = "tenant"
	}
	for kind, want := range map[string]resource{
		"network": {"id": network.id(), "name": network["name"], "description": network["description"],
			"mtu": network["mtu"], "subnets": []any{subnet.id()}},
		"subnet": {"id": subnet.id(), "cidr": "192.168.0.0/16", "gateway_ip": "192.168.0.1", "enable_dhcp": true,
			"network_id": network.id()},
	} {
		show := exec.CommandContext(t.Context(), program, kind, "show", "-f", "json", want.id())
		show.Env = []string{"PATH=/usr/bin:/bin", "OS_CLOUD=" + name, "OS_CLIENT_CONFIG_FILE=" + cloudsFile,
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
	system, err := kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[owner=%s/%s]", system.UID, object.GetUID())
}

// wantFields holds the named fields of a resource against what they should be.
func wantFields(t *testing.T, got, want resource) {
	t.Helper()
	have := resource{}
	for field := range want {
		have[field] = got[field]
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%v (-want +got):\n%s", got["id"], diff)
	}
}

func TestQuota(t *testing.T) {
	admin, tenant := open(t, "admin"), open(t, "tenant")
	namespace := newNamespace(t)
	name := unique(t, namespace)
	startController(t, "tenant")
	admin.setQuota(tenant.project, 0)

	apply(t, namespace, name, example())
	full := awaitCondition(t, namespace, name, cloudteamv1.ConditionReady, metav1.ConditionFalse,
		cloudteamv1.ReasonQuotaExceeded)
	if text := asJSON(full.Status.Conditions); !strings.Contains(text, "Quota exceeded") {
		t.Errorf("the condition does not give Neutron's reason: %s", text)
	}
	request := regexp.MustCompile(`Neutron's request: req-[0-9a-f-]{36}`).FindString(asJSON(full.Status.Conditions))
	if request == "" {
		t.Errorf("the condition does not give Neutron's id of the request: %s", asJSON(full.Status.Conditions))
	}
	awaitEvent(t, namespace, name, cloudteamv1.ReasonQuotaExceeded, request)
	admin.putQuota(tenant.project, -1)
	awaitReady(t, namespace, name)
	remove(t, namespace, name)
}

// TestBadCloud holds what a user gets who gives the wrong credentials.
func TestBadCloud(t *testing.T) {
	content, err := os.ReadFile(cloudsFile)
	if err != nil {
		t.Fatal(err)
	}
	var password string
	for line := range strings.Lines(string(content)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key == "password" && password == "" {
			password = strings.Trim(value, `'"`)
		}
	}
	const canary = "canary-hunter2"
	var secrets harness.Secrets
	secrets.Add("the password", canary)
	wrong := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(wrong, []byte(strings.ReplaceAll(string(content), password, canary)), 0o600); err != nil {
		t.Fatal(err)
	}
	silent := filepath.Join(t.TempDir(), "clouds.yaml")
	nowhere := fmt.Sprintf("clouds:\n  admin:\n    auth: {auth_url: 'http://%s/v3', username: a, password: %s, "+
		"project_name: a, user_domain_name: Default, project_domain_name: Default}\n",
		netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 1), canary)
	if err := os.WriteFile(silent, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}

	for sentence, test := range map[string]struct {
		file, reason, text string
		condition          string
	}{
		"a wrong password stalls the object": {
			wrong, cloudteamv1.ReasonCredentialsRejected, "check auth_url, user, password", cloudteamv1.ConditionStalled,
		},
		"a cloud that does not answer keeps the object waiting": {
			silent, cloudteamv1.ReasonCloudUnavailable, "connection refused", cloudteamv1.ConditionReconciling,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			namespace := newNamespace(t)
			name := unique(t, namespace)
			p := start(t, []string{"OS_CLIENT_CONFIG_FILE=" + test.file}, "--kubeconfig", kubeconfig, "--cloud", "admin",
				"--bind-address", "", "-v", "6")
			apply(t, namespace, name, example())
			object := awaitCondition(t, namespace, name, test.condition, metav1.ConditionTrue, test.reason)
			if text := asJSON(object.Status.Conditions); !strings.Contains(text, test.text) {
				t.Errorf("the conditions do not say %q: %s", test.text, text)
			}
			awaitEvent(t, namespace, name, test.reason, test.text)
			events, err := kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range map[string]string{
				"log": p.Output.String(), "object": asJSON(object), "Events": asJSON(events),
			} {
				if shown := secrets.In(text); len(shown) > 0 {
					t.Errorf("the %s shows %s", where, strings.Join(shown, ", "))
				}
			}
			p.kill(t)
			// The right credentials find the object and go on with it.
			startController(t, "admin")
			awaitReady(t, namespace, name)
			remove(t, namespace, name)
		})
	}
}

// TestStart holds what a user gets who starts the binary in a way that cannot work.
func TestStart(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(broken, []byte("clouds:\n  admin:\n    auth: canary-hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
			if code := p.awaitExit(t); code != 1 {
				t.Errorf("it exits with %d, want 1", code)
			}
			output := p.Output.String()
			for _, want := range append(test.want, "network-controller: ") {
				if !strings.Contains(output, want) {
					t.Errorf("it does not print %q", want)
				}
			}
			if strings.Contains(output, "canary") || strings.Contains(output, "goroutine") {
				t.Errorf("it prints a secret or a stack")
			}
		})
	}
}

// TestProcess stops and kills the process in mid-work.
func TestProcess(t *testing.T) {
	c := open(t, "tenant")
	namespace := newNamespace(t)
	names := make([]string, 8)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", unique(t, namespace), i)
	}

	p := startController(t, "tenant")
	for _, name := range names {
		apply(t, namespace, name, example())
	}
	// Somewhere among the creates.
	awaitReady(t, namespace, names[0])
	p.kill(t)

	p = startController(t, "tenant")
	// It works once it has carried an edit.
	edit(t, namespace, names[0], `{"description":"after the restart"}`)
	for _, name := range names {
		awaitReady(t, namespace, name)
		c.one("networks", "name="+name)
		c.one("subnets", "name="+name)
	}

	p.signal(syscall.SIGTERM)
	if code := p.awaitExit(t); code != 0 {
		t.Errorf("after SIGTERM it exits with %d, want 0", code)
	}

	startController(t, "tenant")
	for _, name := range names {
		remove(t, namespace, name)
		if left := c.list("networks", "name="+name); len(left) > 0 {
			t.Errorf("networks are left: %v", left)
		}
	}
}
