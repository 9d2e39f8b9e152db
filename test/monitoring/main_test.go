// Package monitoring tests config/monitoring: that its files agree with the metrics, and, with MONITORING=1 and Debian's
// package prometheus, that every alert fires and clears and every panel of the dashboard has data. Then the real
// Prometheus scrapes the real binary, which works against a real Kubernetes control plane and the emulated Neutron.
package monitoring

import (
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

// surroundings are nil without MONITORING.
var surroundings *harness.Surroundings

func TestMain(m *testing.M) {
	if os.Getenv("MONITORING") == "" {
		os.Exit(m.Run())
	}
	harness.Exit(harness.Run(harness.Options{Components: harness.APIComponents(), OpenClass: true},
		func(s *harness.Surroundings) (int, error) {
			surroundings = s
			return m.Run(), nil
		}))
}
