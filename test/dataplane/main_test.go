//go:build linux

package dataplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

const (
	// envOpenStack says that OS_CLIENT_CONFIG_FILE is that of `dev/openstack/openstack up --dataplane`.
	envOpenStack = "DATAPLANE_OPENSTACK"
	// envAssets names the folder with the kubelet and Multus, as `controlplane assets --components=kubelet,multus` prints it.
	envAssets = "DATAPLANE_ASSETS"
)

// What all tests of this package share. TestMain sets it, and nothing changes it afterwards.
var (
	// cannot says why the tests cannot run here; empty where they can.
	cannot       string
	surroundings *harness.Surroundings
	// programs is the folder of the agent, the CNI plugin and CoreDNS.
	programs string
)

func TestMain(m *testing.M) {
	if cannot = reason(); cannot != "" {
		os.Exit(m.Run())
	}
	harness.Exit(run(m))
}

// reason says why the tests cannot run on this machine.
func reason() string {
	if os.Getenv(envOpenStack) == "" {
		return "no Neutron with a data plane; run `make test-dataplane`"
	}
	return nodes.Missing()
}

// egressYAML says how the API server reaches what is in the cluster: the kubelets, by a proxy into their nodes.
const egressYAML = `{"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": [
  {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": "SOCKET"}}}}]}`

// egressSocket is where the proxy is.
func egressSocket() string { return filepath.Join(programs, "egress.sock") }

// needsNodes skips a test where no nodes can run, or fails it, as nodetest.Skip says.
func needsNodes(t testing.TB) {
	t.Helper()
	if cannot != "" {
		nodetest.Skip(t, "%s", cannot)
	}
}

func run(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "network-controller-test-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(programs)
	build := exec.Command("go", "build", "-o", programs+string(filepath.Separator),
		"cloudteam.ztgame.com/network-controller/cmd/network-agent",
		"cloudteam.ztgame.com/network-controller/cmd/neutron-port")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the agent and the CNI plugin: %w\n%s", err, output)
	}
	// Its module is of its own. With -mod=mod, as `make test-dns` builds it: the product's go.mod may have changed.
	build = exec.Command("go", "build", "-mod=mod", "-ldflags=-s -w", "-o", filepath.Join(programs, "coredns"), "./coredns")
	build.Dir = filepath.Join("..", "dns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building CoreDNS: %w\n%s", err, output)
	}
	egress := filepath.Join(programs, "egress.yaml")
	if err := os.WriteFile(egress, []byte(strings.Replace(egressYAML, "SOCKET", egressSocket(), 1)), 0o600); err != nil {
		return 1, err
	}
	options := harness.Options{
		APIServerArgs: []string{"--egress-selector-config-file=" + egress},
		Components:    append(harness.APIComponents(), "kube-controller-manager", "kube-scheduler"),
		OpenStack:     true, OpenClass: true, Policies: true, Machines: true,
	}
	return harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		// The agents have the account's rights and run as programs: no image of them is here.
		ctx := context.Background()
		if err := s.Install(ctx, "config/node"); err != nil {
			return 1, err
		}
		sets := s.Kube.AppsV1().DaemonSets(agentName)
		if err := sets.Delete(ctx, agentName, metav1.DeleteOptions{}); err != nil {
			return 1, err
		}
		return m.Run(), nil
	})
}
