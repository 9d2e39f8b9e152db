// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTrunksOfTheNode runs the tests of nodes with a trunk in a virtual machine, whose kernel has the VLANs that the
// kernel of a container's host may lack. EnvTests names others of the agent's, such as "/trunk": that of the writes takes
// minutes.
func TestTrunksOfTheNode(t *testing.T) {
	Needs(t)
	dir, err := os.MkdirTemp("", "vm") //nolint:usetesting // the path of a unix socket is short
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	files := map[string]string{}
	for _, name := range []string{"trunk", "agent"} {
		files["/"+name+".test"] = filepath.Join(dir, name+".test")
		build := exec.Command("go", "test", "-c", "-o", files["/"+name+".test"],
			"cloudteam.ztgame.com/network-controller/internal/node/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	m, err := Start(Options{Dir: dir, Files: files})
	expect.NoError(t, err)
	t.Cleanup(m.Stop)
	tests := "^(TestPods|TestTwoNetworks|TestPortsGone)$/^trunk$|^(TestRepairsOnTrunk|TestBadWorldsOfATrunk|TestAnADDWaitsForTheTrunk)$"
	if more := os.Getenv(EnvTests); more != "" {
		tests = more
	}
	for name, run := range map[string]string{"trunk": ".", "agent": tests} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			defer cancel()
			output, err := m.Run(ctx, nodetest.Env+"=1 /"+name+".test -test.v -test.run "+Quote(run))
			t.Log(output)
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(output, "--- PASS") || strings.Contains(output, "--- SKIP") {
				t.Error("the tests were skipped")
			}
		})
	}
}
