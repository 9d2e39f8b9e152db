// Package install holds what a user installs against a real control plane: the image of `make image` in a real
// containerd, with the emulator as Neutron. It runs with `make test-install`.
package install

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// envDist names the folder that `make image` wrote.
const envDist = "INSTALL_DIST"

var (
	surroundings *harness.Surroundings
	// dist is the folder of the release; empty where the tests are skipped.
	dist string
)

func TestMain(m *testing.M) {
	if dist = os.Getenv(envDist); dist == "" {
		os.Exit(m.Run())
	}
	harness.Exit(harness.Run(harness.Options{
		Components: harness.APIComponents(),
		Programs: &harness.Programs{
			Controller: filepath.Join(dist, "bin", "linux-"+runtime.GOARCH, "network-controller"),
			// `make assets` has built it.
			ControlPlane: filepath.Join(dist, "..", "bin", "controlplane"),
		},
	}, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		return m.Run(), nil
	}))
}

// needsDist skips a test that needs what `make image` made.
func needsDist(t *testing.T) {
	t.Helper()
	if dist == "" {
		t.Skip("no release to install; run `make test-install`")
	}
}
