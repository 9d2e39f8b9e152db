// Package e2e takes users' objects through their lives, with the controller as a user would start it and a cloud. What is
// in Neutron is looked at with gophercloud's own client and not with the project's.
//
// With E2E_PROCESSES=1, the network-controller binary runs on a real Kubernetes control plane, beside the emulator, with no
// rights at the API server but those of config/rbac; and so it does with E2E_OPENSTACK=1 at the Keystone and Neutron whose
// clouds "admin" and "tenant" are in the file that OS_CLIENT_CONFIG_FILE names. There, -short leaves out what holds in
// virtual time. Without either, what needs no real API server runs in this process, in bubbles of testing/synctest
// (package simulation).
package e2e

import (
	"os"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/simulation"
)

// What all tests of this package share. TestMain sets it, and nothing changes it afterwards; in virtual time each test has
// its own, one after the other. All but the first are the surroundings' fields.
var (
	surroundings *harness.Surroundings
	kubeconfig   string
	admin        *rest.Config
	kube         kubernetes.Interface
	networks     clientset.Interface
	cloudsFile   string
	emulator     *neutrontest.Server
)

// virtualTime is whether there are no processes and no sockets.
var virtualTime = os.Getenv("E2E_PROCESSES") == "" && os.Getenv("E2E_OPENSTACK") == ""

// options are those of the surroundings.
var options = harness.Options{
	Components: harness.AllComponents(), OpenStack: os.Getenv("E2E_OPENSTACK") != "", OpenClass: true,
	Policies: true, Machines: true,
}

func use(s *harness.Surroundings) {
	surroundings, kubeconfig, admin, kube, networks = s, s.Kubeconfig, s.Admin, s.Kube, s.Networks
	cloudsFile, emulator = s.CloudsFile, s.Emulator
}

// inTime runs a test in a bubble with surroundings of its own, or with processes unless -short leaves it out there.
func inTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	switch {
	case virtualTime:
		synctest.Test(t, func(t *testing.T) {
			use(harness.Virtual(t, options))
			test(t)
		})
	case testing.Short():
		t.Skip("it holds in virtual time")
	default:
		test(t)
	}
}

// withProcesses skips a test in virtual time.
func withProcesses(t *testing.T) {
	t.Helper()
	if virtualTime {
		t.Skip("only with E2E_PROCESSES=1 or E2E_OPENSTACK=1")
	}
}

func TestMain(m *testing.M) {
	lanes.SetDefaults(map[string]string{"rapid.checks": "20", "rapid.shrinktime": "1m"})
	if virtualTime {
		simulation.Install()
		os.Exit(m.Run())
	}
	if options.OpenStack {
		harness.RunInParallel(4) // four keep a real Neutron busy
	} else {
		harness.RunInParallel(8)
	}
	harness.Exit(harness.Run(options, func(s *harness.Surroundings) (int, error) {
		use(s)
		return m.Run(), nil
	}))
}
