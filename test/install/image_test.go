package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/process"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// runtimeOf is a containerd of the test's own.
type runtimeOf struct {
	t      *testing.T
	socket string
}

// startContainerd starts a containerd that shares nothing with another one on this machine, until the test ends.
func startContainerd(t *testing.T) *runtimeOf {
	t.Helper()
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v; run `make test-install`, which installs it", err)
		}
	}
	if os.Getuid() != 0 {
		t.Fatal("containerd needs root; run `make test-install` as root")
	}
	dir := t.TempDir()
	// A socket's path has at most 107 bytes, which a test's folder may exceed.
	state, err := os.MkdirTemp("", "nc-") //nolint:usetesting // see above
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	socket := filepath.Join(state, "c.sock")
	config := filepath.Join(dir, "containerd.toml")
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\noom_score = 0\n"+
		"disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = %q\n",
		filepath.Join(dir, "root"), filepath.Join(state, "state"), socket)
	expect.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	p, err := process.Start(process.Program{
		Name: "containerd", Path: "containerd", Args: []string{"--config", config},
		Log: filepath.Join(dir, "containerd.log"), Patience: harness.Patience,
	})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &runtimeOf{t: t, socket: socket}
	surroundings.Eventually(t, func() error {
		_, err := r.try(t.Context(), "version")
		return err
	})
	return r
}

func (r *runtimeOf) try(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address", r.socket, "--namespace", "test"}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

func (r *runtimeOf) ctr(args ...string) string {
	r.t.Helper()
	output, err := r.try(r.t.Context(), args...)
	expect.NoError(r.t, err)
	return output
}

// TestImageRuns imports the archive into containerd and runs it as the Deployment does, as its own user, with a file
// system that nobody can write and without capabilities, until it leads and a Network is Ready. Then it installs the
// plugin from the same image, as the DaemonSet does.
func TestImageRuns(t *testing.T) {
	needsDist(t)
	containerd := startContainerd(t)
	imported := containerd.ctr("images", "import", filepath.Join(dist, "network-controller-image.tar"))
	_, name, found := strings.Cut(imported, "unpacking ")
	if !found {
		t.Fatalf("the archive names no image: %s", imported)
	}
	name, _, _ = strings.Cut(name, " ")

	files := t.TempDir()
	for _, file := range []struct{ name, from string }{
		{"kubeconfig", surroundings.Kubeconfig}, {"clouds.yaml", surroundings.CloudsFile},
	} {
		content, err := os.ReadFile(file.from)
		if err == nil {
			// The image's user has to read it: the kubelet would set its group.
			err = os.WriteFile(filepath.Join(files, file.name), content, 0o644) //nolint:gosec // of a test's cluster
		}
		expect.NoError(t, err)
	}
	plugins := t.TempDir()
	const id = "controller"
	controller, err := process.Start(process.Program{
		Name: "the image", Path: "ctr", Args: []string{
			"--address", containerd.socket, "--namespace", "test", "run", "--rm", "--read-only", "--net-host",
			"--mount", "type=bind,src=" + files + ",dst=/etc/openstack,options=rbind:ro",
			"--mount", "type=bind,src=" + plugins + ",dst=/opt/cni/bin,options=rbind:rw",
			"--env", "OS_CLIENT_CONFIG_FILE=/etc/openstack/clouds.yaml",
			// ctr replaces the entrypoint.
			name, id, "network-controller", "--kubeconfig=/etc/openstack/kubeconfig", "--cloud=tenant",
			"--controllers=*,-foo", "--bind-address=",
		},
		Log: filepath.Join(t.TempDir(), "log"), Patience: harness.Patience,
	})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(controller.Describe("at the end"))
		}
		if err := controller.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})

	leases := surroundings.Kube.CoordinationV1().Leases(harness.AccountName)
	harness.Await(t, surroundings, leases, harness.AccountName, func(lease *coordinationv1.Lease) error {
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("nobody holds the Lease")
		}
		return nil
	})
	awaitReady(t, "in-an-image")
	// VERSION is that of `make test-install`.
	version := containerd.ctr("task", "exec", "--exec-id", "version", id, "network-controller", "--version")
	if want := "network-controller version " + os.Getenv("VERSION") + "\n"; !strings.Contains(version, want) {
		t.Errorf("network-controller --version says %q, want %q", version, want)
	}

	containerd.ctr("task", "exec", "--exec-id", "install", "--user", "0:0", id,
		"network-agent", "install-plugin", "--to=/opt/cni/bin")
	got, err := os.ReadFile(filepath.Join(plugins, "neutron-port"))
	expect.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(filepath.Dir(surroundings.Binary), "neutron-port"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the plugin on the node is not the image's (%v)", err)
	}
	if _, err := containerd.try(t.Context(), "task", "exec", "--exec-id", "shell", id, "sh", "-c", "true"); err == nil {
		t.Error("the image has a shell")
	}
}

// awaitReady creates a Network, waits until it is Ready, and deletes it, which takes the controller until it is gone.
func awaitReady(t *testing.T, name string) {
	t.Helper()
	api := surroundings.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	harness.Create(t, api, &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16"}},
	})
	harness.Await(t, surroundings, api, name, harness.Ready)
	expect.NoError(t, api.Delete(t.Context(), name, metav1.DeleteOptions{}))
}
