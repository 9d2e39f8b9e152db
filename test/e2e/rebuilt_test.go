package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/internal/kubectl"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// TestRebuiltClusterAdopts loses a cluster with its etcd. A new one that gets the same YAML goes on with the same networks.
func TestRebuiltClusterAdopts(t *testing.T) {
	nightly.Only(t, "it starts two control planes; the tests of kubectl network adopt hold each step")
	withProcesses(t)
	cloud := neutrontest.New(neutrontest.Options{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(cloud.Start(t).CloudsYAML()), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	c := openFile(t, file, "tenant")
	// held is what is in Neutron, but for what every write moves.
	held := func() (all []resource) {
		t.Helper()
		for _, collection := range []string{"networks", "subnets"} {
			for _, r := range c.List(collection, "sort_key=id&sort_dir=asc") {
				for _, field := range []string{"description", "revision_number", "updated_at"} {
					delete(r, field)
				}
				all = append(all, r)
			}
		}
		return all
	}
	names := []string{"frontend", "backend"}
	declare := func(s *site) {
		t.Helper()
		for i, name := range names {
			s.apply(name, fmt.Sprintf("10.%d.0.0/24", i))
		}
	}

	old := &site{ControlPlane: surroundings.StartControlPlane(t, filepath.Join(t.TempDir(), "data")), t: t, clouds: file}
	leader := old.run()
	declare(old)
	for _, name := range names {
		old.await(name, cloudteamv1.ReasonAvailable)
	}
	space := harness.Get(t, old.Kube.CoreV1().Namespaces(), metav1.NamespaceSystem)
	was := held()

	rebuilt := &site{ControlPlane: surroundings.StartControlPlane(t, filepath.Join(t.TempDir(), "data")), t: t, clouds: file}
	reporter := rebuilt.run("--report-only")
	declare(rebuilt)
	for _, name := range names {
		rebuilt.await(name, cloudteamv1.ReasonPlanned)
	}
	adopt := func(more ...string) (out string, code int) {
		var printed bytes.Buffer
		command := kubectl.NewCommand(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &printed, ErrOut: &printed})
		command.SetArgs(append([]string{"adopt", "--kubeconfig", rebuilt.AdminKubeconfig, "--cloud", "tenant", "--from-cluster",
			string(space.UID)}, more...))
		err := command.ExecuteContext(t.Context())
		return fmt.Sprint(printed.String(), err), kubectl.ExitCode(err)
	}
	if out, code := adopt("--yes", "--silence", "1m"); code != 1 || !strings.Contains(out, "a controller of the old cluster runs") {
		t.Fatalf("while the old cluster lives, it exits with %d:\n%s", code, out)
	}
	leader.Kill(t)
	old.Stop(t)
	if out, code := adopt(); code != 2 || !strings.Contains(out, "With --yes: 4 markers") {
		t.Fatalf("the dry run exits with %d:\n%s", code, out)
	}
	if out, code := adopt("--yes", "--silence", "3s"); code != 0 {
		t.Fatalf("it exits with %d:\n%s", code, out)
	}
	for _, name := range names {
		harness.Await(t, rebuilt, rebuilt.networks(), name, func(n *cloudteamv1.Network) error {
			return harness.Says(n, cloudteamv1.ConditionReady, cloudteamv1.ReasonPlanned, "There is nothing to do.")
		})
	}
	reporter.Signal(syscall.SIGTERM)
	reporter.AwaitExit(t)
	rebuilt.run()
	for _, name := range names {
		rebuilt.await(name, cloudteamv1.ReasonAvailable)
	}
	expect.Equal(t, was, held(), "the rebuilt cluster has others than the old one")
	for _, name := range names {
		rebuilt.remove(name)
		rebuilt.awaitGone(name)
	}
	expect.Empty(t, held(), "left")
}
