// Package adversary is a tenant that wants more than its own. It has the rights that the shipped roles give a namespace's
// editor, in one namespace, and uses them against the tenants beside it and against the cluster. The binary runs as a
// user would run it, with config/rbac and config/admission, on a real control plane.
//
// The cloud is the emulator, or with ADVERSARY_OPENSTACK=1 the Keystone and Neutron whose clouds "admin" and "tenant" are
// in the file that OS_CLIENT_CONFIG_FILE names.
package adversary

import (
	"fmt"
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// surroundings are what all tests of this package share. TestMain sets them, and nothing changes them afterwards.
var surroundings *harness.Surroundings

// openStack reports whether the cloud is a real one.
func openStack() bool { return os.Getenv("ADVERSARY_OPENSTACK") != "" }

func TestMain(m *testing.M) {
	// With -short, rapid takes a fifth of them.
	lanes.SetDefaults(map[string]string{"rapid.checks": "5", "rapid.steps": "16", "rapid.shrinktime": "4m"})
	if !openStack() {
		harness.RunInParallel(8) // a real Neutron is the bottleneck itself
	}
	options := harness.Options{Components: harness.AllComponents(), OpenStack: openStack(), Tenants: []string{otherCloud}}
	code, err := harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		return m.Run(), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "adversary:", err)
		code = 1
	}
	os.Exit(code)
}
