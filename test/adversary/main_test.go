// Package adversary is a tenant that wants more than its own. It has the rights that the shipped roles give a namespace's
// editor, in one namespace, and uses them against the tenants beside it and against the cluster.
//
// Everything runs in this process and in virtual time, in bubbles of testing/synctest (package simulation). The API server
// there lets everybody do everything, so that what RBAC and config/admission refuse is in test/integration.
//
// With ADVERSARY_PROCESSES=1 the same runs with the binary as a user would run it, with config/rbac and config/admission,
// on a real control plane; and so it does with ADVERSARY_OPENSTACK=1 at the Keystone and Neutron whose clouds "admin" and
// "tenant" are in the file that OS_CLIENT_CONFIG_FILE names.
package adversary

import (
	"os"
	"testing"
	"testing/synctest"

	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/simulation"
)

// surroundings are what all tests of this package share that run with processes. TestMain sets them, and nothing changes
// them afterwards.
var surroundings *harness.Surroundings

// openStack reports whether the cloud is a real one.
func openStack() bool { return os.Getenv("ADVERSARY_OPENSTACK") != "" }

// virtualTime is whether worlds have no processes and no sockets, and each is a bubble of testing/synctest.
var virtualTime = os.Getenv("ADVERSARY_PROCESSES") == "" && !openStack()

// inTime runs a test in its bubble, beside others, where there are bubbles. A process would act on the objects of all.
func inTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if !virtualTime {
		test(t)
		return
	}
	t.Parallel()
	synctest.Test(t, test)
}

var options = harness.Options{Components: harness.AllComponents(), OpenStack: openStack(), Tenants: []string{otherCloud}}

func TestMain(m *testing.M) {
	// With -short, rapid takes a fifth of them. Shrinking takes virtual time as well.
	lanes.SetDefaults(map[string]string{"rapid.checks": "25", "rapid.steps": "16", "rapid.shrinktime": "2h"})
	if virtualTime {
		simulation.Install()
		os.Exit(m.Run())
	}
	harness.Exit(harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		return m.Run(), nil
	}))
}
