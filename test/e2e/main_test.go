// Package e2e runs the network-controller binary, as a user would start it, against a real Kubernetes control plane and
// a cloud: the emulator, or with E2E_OPENSTACK=1 the Keystone and Neutron whose clouds "admin" and "tenant" are in the
// file that OS_CLIENT_CONFIG_FILE names. The process has no rights at the API server but those of config/rbac.
//
// What is in Neutron is looked at with gophercloud's own client and not with the project's.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// What all tests of this package share. TestMain sets it, and nothing changes it afterwards. All but the first are the
// surroundings' fields.
var (
	surroundings *harness.Surroundings
	kubeconfig   string
	admin        *rest.Config
	kube         kubernetes.Interface
	networks     clientset.Interface
	cloudsFile   string
	emulator     *neutrontest.Server
)

func TestMain(m *testing.M) {
	lanes.SetDefaults(map[string]string{"rapid.checks": "20", "rapid.shrinktime": "1m"})
	options := harness.Options{
		Components: harness.AllComponents(), OpenStack: os.Getenv("E2E_OPENSTACK") != "", OpenClass: true,
		Policies: true, Machines: true,
	}
	if !options.OpenStack {
		harness.RunInParallel(8) // a real Neutron is the bottleneck itself
	}
	code, err := harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings, kubeconfig, admin, kube, networks = s, s.Kubeconfig, s.Admin, s.Kube, s.Networks
		cloudsFile, emulator = s.CloudsFile, s.Emulator
		return m.Run(), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}
