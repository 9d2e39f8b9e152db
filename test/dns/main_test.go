// Package dns has CoreDNS resolve the names of Services with endpoints on a Network, on a real control plane with the
// controller, and the emulator as Neutron. CoreDNS is built here, and runs as a process with the rights that it has in a
// cluster.
package dns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

var (
	surroundings *harness.Surroundings
	// program is the path of CoreDNS.
	program string
)

func TestMain(m *testing.M) {
	harness.Exit(run(m))
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "network-controller-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "coredns")
	// -mod=mod: the product's go.mod, which this module replaces, may have changed.
	if output, err := exec.Command("go", "build", "-mod=mod", "-ldflags=-s -w", "-o", program, "./coredns").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building CoreDNS: %w\n%s", err, output)
	}
	// The harness looks for the product's go.mod above the working directory, and this folder has one of its own.
	if err := os.Chdir("../.."); err != nil {
		return 1, err
	}
	return harness.Run(harness.Options{Components: harness.AllComponents(), OpenClass: true},
		func(s *harness.Surroundings) (int, error) {
			surroundings = s
			return m.Run(), nil
		})
}
