package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientv1 "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// site is a cluster with etcd and kube-apiserver of its own, and the controller that runs there.
type site struct {
	*harness.ControlPlane
	t       *testing.T
	clouds  string
	address string
	// binary is another network-controller than the one under test, or empty.
	binary string
}

// siteLease is how long a killed leader's Lease lasts there.
const siteLease = 20 * time.Second

// run starts a controller. It removes orphans as soon as it may.
func (s *site) run(more ...string) *harness.Process {
	s.t.Helper()
	s.address = harness.FreeAddress(s.t)
	in := *surroundings
	in.Binary = cmp.Or(s.binary, in.Binary)
	return in.Start(s.t, []string{"OS_CLIENT_CONFIG_FILE=" + s.clouds}, append(more,
		"--kubeconfig", s.AdminKubeconfig, "--cloud", "tenant", "--bind-address", s.address, "--audit-interval", "1s",
		"--orphan-grace", "1s", "--orphan-max-share", "1", "-v", "2",
		"--leader-elect-resource-namespace="+metav1.NamespaceDefault,
		"--leader-elect-lease-duration="+siteLease.String(), "--leader-elect-renew-deadline=15s",
		"--leader-elect-retry-period=500ms")...)
}

func (s *site) networks() clientv1.NetworkInterface {
	return s.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
}

func (s *site) apply(name, cidr string) {
	s.t.Helper()
	n := &cloudteamv1.Network{}
	n.Name, n.Spec.CIDR = name, cidr
	harness.Create(s.t, s.networks(), n)
}

func (s *site) edit(name, patch string) { s.t.Helper(); harness.Patch(s.t, s.networks(), name, patch) }

func (s *site) remove(name string) { s.t.Helper(); harness.Delete(s.t, s.networks(), name) }

// await waits until the condition Ready of the newest spec has a reason.
func (s *site) await(name, reason string) {
	s.t.Helper()
	harness.Await(s.t, s, s.networks(), name, func(n *cloudteamv1.Network) error {
		ready := meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != n.Generation {
			return fmt.Errorf("%s: condition %+v, want one of generation %d", name, ready, n.Generation)
		}
		return harness.Says(n, cloudteamv1.ConditionReady, reason, "")
	})
}

func (s *site) awaitGone(name string) { s.t.Helper(); harness.AwaitGone(s.t, s, s.networks(), name) }

// awaitWarning waits for the Event that another cluster has this UID.
func (s *site) awaitWarning() {
	s.t.Helper()
	harness.AwaitEvent(s.t, s, s.Kube, metav1.NamespaceDefault, metav1.NamespaceSystem,
		cloudteamv1.ReasonIdentityDisputed, "")
}

// TestRestoredCluster restores a cluster's etcd beside the living one.
func TestRestoredCluster(t *testing.T) {
	nightly.Only(t, "it starts three control planes; the tests of package inventory dispute an identity in virtual time")
	withProcesses(t)
	cloud := neutrontest.New(neutrontest.Options{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(cloud.Start(t).CloudsYAML()), 0o600))
	c := openFile(t, file, "tenant")
	// held is what the controllers may have in Neutron, with revisions.
	held := func() (all []resource) {
		t.Helper()
		return append(c.List("networks", "sort_key=id&sort_dir=asc"), c.List("subnets", "sort_key=id&sort_dir=asc")...)
	}
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "data")

	living := &site{ControlPlane: surroundings.StartControlPlane(t, data), t: t, clouds: file}
	leader := living.run()
	names := []string{"edited", "deleted", "kept"}
	for i, name := range names {
		living.apply(name, fmt.Sprintf("10.%d.0.0/24", i))
	}
	for _, name := range names {
		living.await(name, cloudteamv1.ReasonAvailable)
	}
	leader.Signal(syscall.SIGTERM)
	leader.AwaitExit(t)
	living.Stop(t)
	expect.NoError(t, os.CopyFS(copied, os.DirFS(data)))
	living.ControlPlane = surroundings.StartControlPlane(t, data)
	restored := &site{ControlPlane: surroundings.StartControlPlane(t, copied), t: t, clouds: file}
	leader = living.run()
	living.apply("later", "10.9.0.0/24") // an orphan to the other one
	living.await("later", cloudteamv1.ReasonAvailable)
	eventually(t, func() error {
		if record := c.One("subnetpools", ""); !strings.Contains(record["description"].(string), "[term=2/") {
			return fmt.Errorf("the term record is %v", record)
		}
		return nil
	})

	// The restored one sees the living one before it acts, and the living one sees it with an audit.
	restored.edit("edited", `{"spec":{"tags":["of-the-copy"]}}`)
	restored.remove("deleted")
	was := held()
	other := restored.run()
	restored.await("edited", cloudteamv1.ReasonIdentityDisputed)
	restored.await("deleted", cloudteamv1.ReasonIdentityDisputed)
	awaitMetric(t, living.address, `network_controller_identity_disputed{cloud="",namespace="",secret=""} 1`)
	awaitMetric(t, restored.address, `network_controller_identity_disputed{cloud="",namespace="",secret=""} 1`)
	living.awaitWarning()
	restored.awaitWarning()
	living.edit("kept", `{"spec":{"tags":["of-the-living"]}}`)
	living.await("kept", cloudteamv1.ReasonIdentityDisputed)
	audits := cloud.Calls("GET", "/v2.0/networks")
	eventually(t, func() error { // of both, and the grace period and what settles a dispute are over
		if more := cloud.Calls("GET", "/v2.0/networks") - audits; more < 10 {
			return fmt.Errorf("%d audits", more)
		}
		return nil
	})
	if diff := gocmp.Diff(was, held()); diff != "" {
		t.Errorf("what is in Neutron (-before +after):\n%s", diff)
	}
	living.apply("new", "10.10.0.0/24")
	living.await("new", cloudteamv1.ReasonAvailable)

	// When one stops, the other one goes on.
	other.Kill(t)
	living.await("kept", cloudteamv1.ReasonAvailable)
	if left := held(); len(left) != len(was)+2 {
		t.Errorf("want what was there and a new network with a subnet, have %v", left)
	}

	// A failover is none of this.
	awaitMetric(t, living.address, `network_controller_identity_disputed{cloud="",namespace="",secret=""} 0`)
	successor := living.run()
	eventually(t, func() error {
		status, body, err := successor.Get(t.Context(), "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz of the standby: %d %s", status, body)
		}
		return err
	})
	leader.Kill(t)
	living.remove("later")
	living.awaitGone("later")
	if strings.Contains(successor.Output.String(), "Another controller acts") {
		t.Error("a failover looks like a restored cluster")
	}
}
