// Package chart holds charts/network-controller by Helm's own library: what it renders for each value, and that Networks
// live through its installation, upgrade, rollback and removal on a real control plane, with the emulator as Neutron.
//
// It is a module of its own, which `make test-install` runs.
package chart

import (
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

var surroundings *harness.Surroundings

func TestMain(m *testing.M) {
	harness.Exit(run(m))
}

func run(m *testing.M) (code int, err error) {
	// The harness looks for the repository's go.mod, which is not this module's.
	if err := os.Chdir(".."); err != nil {
		return 1, err
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return m.Run(), nil // TestRelease skips
	}
	return harness.Run(harness.Options{
		Own: "Helm installs and removes what all suites need", Components: harness.APIComponents(),
	}, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		return m.Run(), nil
	})
}
